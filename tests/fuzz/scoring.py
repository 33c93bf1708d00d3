"""Calls of ``evaluate``, ``removal_curve``, ``summarise`` and ``compare``, against plain loops."""

import math
import random
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograd as tg
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS
from tests.fuzz import parts
from tests.fuzz.calls import near
from tests.fuzz.parts import NONSENSE, Part
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.worlds import CHANNELS, TIME, WORLDS, World

REMOVING = (
    "cpd",
    "cpp",
    "prediction_difference",
    "accuracy",
    "cross_entropy",
    "log_odds",
    "comprehensiveness",
    "sufficiency",
)
LOCAL = ("aup", "aur", "auroc", "auprc", "information", "entropy")
CELLS = TIME * CHANNELS


class Made:
    """An explanation with distinct scores, and everything a loop needs to know about it."""

    def __init__(self, rng: random.Random, world: World | None = None) -> None:
        self.world = world or rng.choice(WORLDS)
        self.output = rng.choice(("raw", "probability"))
        count = rng.randint(1, 3)
        self.x = parts.numbers(rng, count, TIME, CHANNELS)
        order = np.array([rng.sample(range(1, CELLS + 1), CELLS) for _ in range(count)], float)
        signs = np.array([rng.choice((-1, 1)) for _ in range(order.size)]).reshape(order.shape)
        self.values = (order * signs / CELLS).reshape(self.x.shape)
        self.seen = np.ones(self.x.shape, bool)
        if rng.random() < 0.4:
            self.seen = np.array([rng.random() < 0.7 for _ in range(self.x.size)]).reshape(self.x.shape)
            self.seen[:, 0, 0] = True  # at least one cell of each series
        classes = 2 if self.world.columns == 1 and self.output == "probability" else self.world.columns
        shape = (count, TIME) if self.world.per_step else (count,)
        self.target = np.array([rng.randrange(classes) for _ in range(math.prod(shape))]).reshape(shape)
        self.steps = None
        if self.world.per_step:
            self.steps = np.zeros((count, TIME))
            self.steps[:, rng.sample(range(TIME), rng.randint(1, TIME))] = 1
        self.explanation = Explanation(
            values=torch.from_numpy(self.values * self.seen).float(),
            target=torch.from_numpy(self.target),
            output=self.output,
            steps=None if self.steps is None else torch.from_numpy(self.steps > 0),
            baseline=torch.zeros(self.x.shape),
            mask=None if self.seen.all() else torch.from_numpy(self.seen),
            x=None if rng.random() < 0.1 else torch.from_numpy(self.x).float(),
            ids=torch.arange(count),
            seed=0,
            method="hand",
            parameters={},
            fingerprint="",
            columns=self.world.columns,
        )


def score(rng: random.Random, folder: Path) -> Case:
    """Make a call of one of the functions."""
    return rng.choice((_evaluation, _evaluation, _evaluation, _curve, _summary, _comparison))(rng)


def _amount(rng: random.Random) -> Part:
    if rng.random() < 0.75:
        value = rng.choice((1, 2, 5, CELLS, 0.1, 0.25, 0.5, 1.0, np.int64(3), np.float32(0.5)))
        return Part(value, value)
    wrong = (
        0,
        -1,
        0.0,
        1.5,
        -0.1,
        CELLS + 1,
        "3",
        None,
        True,
        float("nan"),
        [1],
        np.array([1, 2]),
        10**400,
        1j,
        {},
    )
    return Part(rng.choice(wrong), NONSENSE)


def _substitute(rng: random.Random, made: Made) -> Part:
    if rng.random() < 0.5:
        return Part("zero", np.zeros_like(made.x))
    return parts.baseline(rng, made.x, made.seen)


def _series(rng: random.Random, made: Made) -> Part:
    if made.explanation.x is not None and rng.random() < 0.7:
        return Part(None, made.x)
    if rng.random() < 0.7:
        return Part(torch.from_numpy(made.x).float(), made.x)
    wrong = (made.x[:, :2], made.x[0], np.full_like(made.x, np.nan), "x", made.x.astype(int), made.x[:0])
    return Part(rng.choice(wrong) if made.seen.all() else made.x[0], NONSENSE)


def _evaluation(rng: random.Random) -> Case:
    made = Made(rng)
    model: Any = made.world.model
    k, baseline, x = _amount(rng), _substitute(rng, made), _series(rng, made)
    if x.means is NONSENSE and baseline.value is not None:
        baseline = Part("zero", np.zeros_like(made.x))
    names = rng.sample(
        REMOVING if made.output == "probability" else REMOVING[:3] + REMOVING[6:], rng.randint(1, 3)
    )
    truth = None
    if rng.random() < 0.3:
        names.append(rng.choice(LOCAL))
        truth = np.array([rng.random() < 0.4 for _ in range(CELLS * len(made.x))]).reshape(made.x.shape)
    rank = rng.choice(("absolute", "absolute", "signed"))
    metrics: Any = [METRICS[name](rank=rank) if rank == "signed" or rng.random() < 0.3 else name for name in names]
    options: dict[str, Any] = {"x": x.value, "metrics": metrics, "baseline": baseline.value, "k": k.value}
    options |= {"truth": truth, "batch_size": rng.choice((None, 1, 3))}
    signs = {part.means for part in (k, baseline, x) if isinstance(part.means, parts.Sign)}
    if rng.random() < 0.15:
        name, value = rng.choice(ODD_ARGUMENTS)
        options[name] = value
        signs.add(NONSENSE)
    return Case(
        text=f"evaluate({made.world.name}, output={made.output}, {parts.listed(options)}, rank={rank})",
        call=lambda: tg.evaluate(model, made.explanation, **options),
        right=lambda found: _wrong_scores(found, made, names, k.means, baseline.means, rank, truth),
        may=must(REFUSED) if NONSENSE in signs else must(RIGHT),
        watched=(model, made.explanation.values, made.explanation.x, truth),
    )


ODD_ARGUMENTS: tuple[tuple[str, Any], ...] = (
    ("metrics", "cdp"),
    ("metrics", []),
    ("metrics", ["cpd", "cpd"]),
    ("metrics", [3]),
    ("metrics", None),
    ("metrics", b"cpd"),
    ("metrics", [METRICS["cpd"]]),
    ("metrics", ["aup\n" * 200]),
    ("batch_size", 0),
    ("batch_size", "many"),
    ("batch_size", 1.5),
    ("baseline", "mean"),
    ("x", "x" * 1000),
)


def _count(k: Any, observed: int) -> int:
    if isinstance(k, (int, np.integer)):
        return min(int(k), observed)
    return min(observed, max(1, math.floor(observed * float(k) + 1e-9)))


def _order(made: Made, row: int, rank: str) -> list[tuple[int, int]]:
    """Return the observed cells, most important first."""
    values = made.values[row]
    cells = [(t, d) for t in range(TIME) for d in range(CHANNELS) if made.seen[row, t, d]]
    return sorted(cells, key=lambda cell: -(abs(values[cell]) if rank == "absolute" else values[cell]))


def _without(x: np.ndarray, cells: list[tuple[int, int]], baseline: np.ndarray) -> np.ndarray:
    z = x.copy()
    for cell in cells:
        z[cell] = baseline[cell]
    return z


def _outputs(made: Made, z: np.ndarray) -> np.ndarray:
    """Return the outputs of one series, (time, class); one row where there is one output per series."""
    found = made.world.outputs(z[None], made.output)[0]
    return found if made.world.per_step else found[None]


def _by_loop(made: Made, row: int, k: Any, baseline: np.ndarray, rank: str) -> dict[str, float]:
    x, order, baseline = made.x[row], _order(made, row, rank), np.broadcast_to(baseline, made.x.shape)[row]
    count = _count(k, len(order))
    steps = np.ones(1) if made.steps is None else made.steps[row]
    target = np.atleast_1d(made.target[row])

    def mean(per_step: np.ndarray) -> float:
        return float((per_step * steps).sum() / steps.sum())

    def total(cells: list[tuple[int, int]]) -> float:
        states = [_outputs(made, _without(x, cells[:j], baseline)) for j in range(count + 1)]
        return sum(mean(np.abs(a - b).sum(-1)) for a, b in pairwise(states))

    rows = np.arange(len(target))
    clean = _outputs(made, x)[rows, target]
    last = _outputs(made, _without(x, order[:count], baseline))
    kept = _outputs(made, _without(x, order[count:], baseline))[rows, target]
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "cpd": total(order),
            "cpp": total(order[::-1]),
            "prediction_difference": mean(np.abs(clean - last[rows, target])),
            "comprehensiveness": mean(clean - last[rows, target]),
            "sufficiency": mean(clean - kept),
            "accuracy": mean(last.argmax(-1) == target),
            "cross_entropy": mean(-np.log(last[rows, target])),
            "log_odds": mean(np.log(last[rows, target]) - np.log(clean)),
            "undecided": float((np.sort(last, -1)[:, -1] - np.sort(last, -1)[:, -2]).min())
            if last.shape[-1] > 1
            else 1.0,
        }


def _wrong_scores(
    found: Any, made: Made, names: list[str], k: Any, baseline: Any, rank: str, truth: np.ndarray | None
) -> str:
    if list(found) != names:
        return f"scores of {list(found)}, asked for {names}"
    for name in names:
        scores = found[name].double().numpy()
        if scores.shape != (len(made.x),) or np.isinf(scores).any():
            return f"{name} is {scores}"
        if name in LOCAL:
            wrong = _wrong_places(name, scores, made, rank, truth)
        else:
            loops = [_by_loop(made, row, k, baseline, rank) for row in range(len(made.x))]
            if name == "accuracy" and min(loop["undecided"] for loop in loops) < 1e-4:
                continue
            wrong = near(scores, np.array([loop[name] for loop in loops]), 1e-3)
        if wrong:
            return f"{name}: {wrong}"
    return ""


def _wrong_places(name: str, scores: np.ndarray, made: Made, rank: str, truth: Any) -> str:
    """Compare AUROC with the share of pairs in the right order; the other areas lie between 0 and 1."""
    if name != "auroc":
        inside = np.isnan(scores) | (
            (scores >= -1e-6) & ((scores <= 1 + 1e-6) | (name in {"information", "entropy"}))
        )
        return "" if inside.all() else f"{scores} lies outside"
    expected = []
    for row in range(len(made.x)):
        values = made.values[row] if rank == "signed" else np.abs(made.values[row])
        yes = values[truth[row] & made.seen[row]]
        no = values[~truth[row] & made.seen[row]]
        expected.append(np.nan if not (len(yes) and len(no)) else float((yes[:, None] > no).mean()))
    gaps = np.isnan(expected) != np.isnan(scores)
    return f"{scores} for {expected}" if gaps.any() else near(np.nan_to_num(scores), np.nan_to_num(expected), 1e-5)


def _curve(rng: random.Random) -> Case:
    made = Made(rng)
    k, baseline = _amount(rng), _substitute(rng, made)
    rank, descending = parts.word(rng, ("absolute", "signed")), parts.flag(rng)
    x = Part(None, made.x) if made.explanation.x is not None else Part(torch.from_numpy(made.x).float(), made.x)
    options = {
        "x": x.value,
        "k": k.value,
        "baseline": baseline.value,
        "rank": rank.value,
        "descending": descending.value,
    }

    def right(found: Any) -> str:
        for row in range(len(made.x)):
            loop = _by_loop(made, row, k.means, baseline.means, rank.means)
            wrong = near(
                found.delta[row].double().sum().numpy(),
                np.array(loop["cpd" if descending.means else "cpp"]),
                1e-3,
            )
            if wrong:
                return wrong
        return ""

    signs = {part.means for part in (k, baseline, rank, descending) if isinstance(part.means, parts.Sign)}
    return Case(
        text=f"removal_curve({made.world.name}, output={made.output}, {parts.listed(options)})",
        call=lambda: tg.removal_curve(made.world.model, made.explanation, **options),
        right=right,
        may=must(REFUSED) if NONSENSE in signs else must(RIGHT),
        watched=(made.world.model, made.explanation.values, made.explanation.x),
    )


def _numbers(rng: random.Random, count: int) -> list[float]:
    return [rng.choice((rng.gauss(0, 1), rng.gauss(0, 1), math.nan, 0.0, 1e6)) for _ in range(count)]


ODD_SCORES: tuple[Any, ...] = (
    "scores",
    None,
    [[1.0, 2.0]],
    {},
    [None],
    ["a"],
    np.zeros((2, 2)),
    object(),
    1j,
    [1, [2]],
)


def _as_scores(rng: random.Random, values: list[float]) -> Any:
    return rng.choice(
        (values, tuple(values), np.array(values), torch.tensor(values), torch.tensor(values).double())
    )


def _summary(rng: random.Random) -> Case:
    values = _numbers(rng, rng.randint(1, 6))
    odd = rng.random() < 0.3
    given = rng.choice((*ODD_SCORES, parts.nothing(rng))) if odd else _as_scores(rng, values)

    def right(found: Any) -> str:
        known = [value for value in values if not math.isnan(value)]
        if found.count != len(known):
            return f"count {found.count}"
        if not known:
            return "" if math.isnan(found.mean) else f"mean of nothing is {found.mean}"
        error = statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.inf
        wrong = near(np.array(found.mean), np.array(statistics.fmean(known)), 1e-5)
        if math.isinf(error):
            return wrong or ("" if math.isinf(found.standard_error) else "an error of one number")
        return wrong or near(np.array(found.standard_error), np.array(error), 1e-5)

    return Case(
        f"summarise({parts.shown(given)})",
        lambda: tg.summarise(given),
        right,
        must(REFUSED) if odd else must(RIGHT),
    )


def _comparison(rng: random.Random) -> Case:
    count = rng.randint(1, 6)
    first, second = _numbers(rng, count), _numbers(rng, count)
    level = rng.choice((0.95, 0.5, 0.99, np.float32(0.9)))
    kind = rng.choice(("sound", "sound", "first", "length", "level"))
    one, two = _as_scores(rng, first), _as_scores(rng, second)
    if kind == "first":
        one = rng.choice(ODD_SCORES)
    elif kind == "length":
        two = [*second, 1.0]
    elif kind == "level":
        level = rng.choice((0, 1, -1, 2, "95 %", None, float("nan"), [0.9], True, 10**400))

    def right(found: Any) -> str:
        pairs = [(a, b) for a, b in zip(first, second, strict=True) if not (math.isnan(a) or math.isnan(b))]
        if found.count != len(pairs):
            return f"count {found.count} of {len(pairs)}"
        if not pairs:
            return "" if math.isnan(found.mean) else "a mean of nothing"
        gaps = [a - b for a, b in pairs]
        if len(pairs) > 1 and not found.low <= found.mean <= found.high:
            return f"{found.mean} outside {found.low} … {found.high}"
        return near(np.array(found.mean), np.array(statistics.fmean(gaps)), 1e-5)

    text = f"compare({parts.shown(one)}, {parts.shown(two)}, {level!r})"
    return Case(
        text, lambda: tg.compare(one, two, level), right, must(RIGHT) if kind == "sound" else must(REFUSED)
    )
