"""What people do with an explanation: names, parts, tables, files, pictures, reports, and captum's face."""

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograd as tg
from tempograd import plots
from tempograd.data import Series
from tempograd.explanation import Explanation
from tempograd_paper import figures
from tests.fuzz import parts
from tests.fuzz.calls import near
from tests.fuzz.captum_calls import captum_call
from tests.fuzz.parts import NONSENSE, Part
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.worlds import CHANNELS, CLASSES, TIME, WORLDS, World

COUNT = 3


class Explained:
    """An explanation of three series, by a method that is quick."""

    def __init__(self, rng: random.Random) -> None:
        self.world: World = rng.choice([world for world in WORLDS if world.columns > 1])
        self.x = torch.from_numpy(parts.numbers(rng, COUNT, TIME, CHANNELS)).float()
        known: dict[str, Any] = {}
        if rng.random() < 0.4:
            known["mask"] = torch.tensor([rng.random() < 0.8 for _ in range(self.x.numel())]).view_as(self.x)
        if rng.random() < 0.4:
            known |= {
                name: _names(rng, size) for name, size in (("channels", CHANNELS), ("times", TIME), ("ids", COUNT))
            }
        if rng.random() < 0.3:
            known["ids"] = rng.sample(range(100), COUNT)
        method = rng.choice(("timing", "random", "occlusion", "rand_ig", "integrated_gradients"))
        options: dict[str, Any] = {}
        if method not in {"random", "occlusion"}:
            options["n_steps" if method == "integrated_gradients" else "n_samples"] = rng.choice((1, 2, 8))
        self.target = rng.choice((None, 0, CLASSES - 1))
        self.output = rng.choice(("raw", "probability"))
        self.explanation = tg.explain(
            self.world.predictor(output=self.output),
            tg.Series(self.x, **known),
            method,
            output=self.output,
            target=self.target,
            **options,
        )
        self.watched = (self.world.model, self.x, self.explanation.values, self.explanation.x)


def _names(rng: random.Random, count: int) -> list[str]:
    return [f"{rng.choice(parts.ODD_NAMES)}{place}" for place in range(count)]


def use(rng: random.Random, folder: Path) -> Case:
    """Use an explanation."""
    makers: tuple[tuple[Callable[..., Case], int], ...] = (
        (_part, 4),
        (_top, 4),
        (_interval, 2),
        (_table, 2),
        (_kept, 4),
        (_said, 2),
        (_record, 8),
        (_page, 3),
        (captum_call, 8),
    )
    return rng.choices([maker for maker, _ in makers], [weight for _, weight in makers])[0](rng, folder)


def _case(
    explained: Explained, text: str, call: Callable[[], Any], right: Callable[[Any], str], *signs: Any, **more: Any
) -> Case:
    about = f"{explained.explanation.method} of {explained.world.name}, output={explained.output}: {text}"
    return Case(
        about, call, right, must(REFUSED) if NONSENSE in signs else must(RIGHT, REFUSED), explained.watched, **more
    )


def same(one: Explanation, two: Explanation) -> str:
    """Say in what two explanations differ."""
    for part in fields(Explanation):
        a, b = getattr(one, part.name), getattr(two, part.name)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            equal = a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
        elif part.name == "gradient_check" and a is not None and b is not None:
            equal = all(
                torch.equal(getattr(a, f.name).nan_to_num(), getattr(b, f.name).nan_to_num()) for f in fields(a)
            )
        elif part.name == "question":  # arrays are tensors in a file, and functions words
            equal = (a.output, a.background) == (b.output, b.background)
        elif part.name == "parameters":
            equal = {k: list(v) if isinstance(v, tuple) else v for k, v in a.items()} == {
                k: list(v) if isinstance(v, tuple) else v for k, v in b.items()
            }
        else:
            equal = a == b if not isinstance(a, torch.Tensor) else False
        if not equal:
            return f"{part.name} differs"
    return ""


# --- parts and tables ------------------------------------------------------------------------------------------


def _part(rng: random.Random, _: Path) -> Case:
    explained = Explained(rng)
    sound: tuple[Any, ...] = (
        slice(0, 2),
        slice(None),
        slice(None, None, -1),
        slice(-2, None),
        [0, 2],
        [1],
        [True, False, True],
    )
    sound += (
        np.array([2, 0]),
        torch.tensor([1]),
        torch.tensor([False, True, True]),
        slice(1, 1),
        np.array([0, 1], np.uint8),
        [-1],
        0,
        -1,
        np.int64(1),
    )
    odd: tuple[Any, ...] = (
        3,
        -4,
        [3],
        [0.5],
        "a",
        None,
        [[0]],
        1.5,
        [True],
        slice("a", "b"),
        slice(None, None, 0),
        (),
        {0: 1},
        ...,
    )
    odd += (10**30, torch.tensor(1), object(), [10**30], [None], b"0", slice(0.5, 2), {1, 2}, len)
    rows = rng.choice(sound) if rng.random() < 0.5 else rng.choice(odd)
    plain = (
        rows
        if isinstance(rows, slice)
        else np.atleast_1d(rows)
        if isinstance(rows, (int, np.integer, list, np.ndarray, torch.Tensor))
        else None
    )

    def right(found: Explanation) -> str:
        if any(rows is value for value in odd) and not isinstance(rows, tuple):
            return f"explanation[{parts.shown(rows)}] was answered"
        expected = explained.explanation.values.numpy()[plain if plain is not None else []]
        if not np.array_equal(found.values.numpy(), expected):
            return "other rows"
        return "" if repr(found) and len(found) == len(expected) else "no length"

    return _case(explained, f"explanation[{parts.shown(rows)}]", lambda: explained.explanation[rows], right)


def _top(rng: random.Random, _: Path) -> Case:
    explained = Explained(rng)
    k = rng.choice((1, 3, TIME * CHANNELS, np.int64(2)))
    k = (
        Part(k, k)
        if rng.random() < 0.5
        else Part(rng.choice((*parts.NUMBERS_GONE_WRONG, 0, -3, 9, None, 10**30)), NONSENSE)
    )

    def right(found: Any) -> str:
        strength = explained.explanation.importance.double()
        seen = explained.explanation.mask
        strength = strength if seen is None else strength.masked_fill(~seen, -np.inf)
        best = strength.flatten(1).sort(1, descending=True).values[:, : int(k.value)].numpy()
        picked = np.array(
            [
                [-np.inf if t < 0 else float(strength[row, t, d]) for t, d in zip(times, channels, strict=True)]
                for row, (times, channels) in enumerate(
                    zip(found.time.tolist(), found.channel.tolist(), strict=True)
                )
            ]
        )
        return "" if np.array_equal(picked, best) and str(found) else "other cells"

    return _case(
        explained, f"top({parts.shown(k.value)})", lambda: explained.explanation.top(k.value), right, k.means
    )


def _interval(rng: random.Random, _: Path) -> Case:
    explained = Explained(rng)
    level = rng.choice((0.5, 0.9, 0.95, 0.999, np.float64(0.9)))
    odd = (0, 1, -0.5, 2, "0.9", None, float("nan"), [0.9], True, 95, object(), np.array([0.9, 0.5]), 10**400)
    level = Part(level, level) if rng.random() < 0.6 else Part(rng.choice(odd), NONSENSE)

    def right(found: Any) -> str:
        low, high = found
        values = explained.explanation.values
        return "" if bool(((low <= values) & (values <= high)).all()) else "values outside their interval"

    return _case(
        explained,
        f"interval({parts.shown(level.value)})",
        lambda: explained.explanation.interval(level.value),
        right,
        level.means,
    )


def _table(rng: random.Random, _: Path) -> Case:
    explained = Explained(rng)
    found = explained.explanation

    def right(table: Any) -> str:
        seen = np.ones(found.values.shape, bool) if found.mask is None else found.mask.numpy()
        wrong = (
            near(table["attribution"].to_numpy(np.float64), found.values.double().numpy()[seen], 1e-7)
            if seen.any()
            else ""
        )
        if found.names is not None and list(table["id"].unique()) != [
            n for n, row in zip(found.names, seen, strict=True) if row.any()
        ]:
            return "other names"
        return wrong or ("" if len(table) == seen.sum() else f"{len(table)} rows")

    return _case(explained, "to_dataframe()", found.to_dataframe, right)


def _said(rng: random.Random, _: Path) -> Case:
    explained = Explained(rng)
    found = explained.explanation
    place = (
        rng.choice((0, 2, None))
        if rng.random() < 0.5
        else rng.choice((3, -4, "a", 1.5, [0], 10**30, True, object(), np.array([1])))
    )
    what = rng.choice(("verdict", "verdict", "repr", "html"))
    call: Callable[[], str] = {
        "verdict": lambda: found.verdict(place),
        "repr": lambda: repr(found),
        "html": found._repr_html_,
    }[what]
    return _case(
        explained,
        f"{what} of {parts.shown(place)}",
        call,
        lambda said: "" if isinstance(said, str) and said else "no text",
    )


# --- files -----------------------------------------------------------------------------------------------------


def _kept(rng: random.Random, folder: Path) -> Case:
    """Save an explanation, in many places, and load it again."""
    explained = Explained(rng)
    (folder / "folder").mkdir()
    (folder / "other.txt").write_text("somebody else's")
    explained.explanation.save(folder / "before.safetensors")
    (folder / "link.safetensors").symlink_to("before.safetensors")
    where = rng.choice(
        (
            "new.safetensors",
            "before.safetensors",
            "link.safetensors",
            "other.txt",
            "folder",
            "nowhere/new.safetensors",
            "",
            "other.txt/new.safetensors",
            "x" * 300,
            "a\0b",
            "ä\n.safetensors",
            "./new.safetensors",
            "folder/../new.safetensors",
            5,
            None,
            b"x",
        )
    )
    series = rng.random() < 0.7
    options: dict[str, Any] = {"series": series} | ({"force": True} if rng.random() < 0.2 else {})
    if rng.random() < 0.1:
        options[rng.choice(("series", "force"))] = rng.choice(("yes", None, 2, []))

    def call() -> Explanation:
        explained.explanation.save(where, **options)
        return Explanation.load(where)

    def right(found: Explanation) -> str:
        if not options["series"]:
            return "" if found.x is None else "the series were saved too"
        return same(explained.explanation, found)

    leaves = {"new.safetensors", "before.safetensors", "link.safetensors", "ä\n.safetensors", str(where)}
    leaves |= {"other.txt"} if options.get("force") is True else set()
    return _case(explained, f"save({parts.shown(where)}, {options})", call, right, leaves=frozenset(leaves))


# --- pictures and reports --------------------------------------------------------------------------------------


def _record(rng: random.Random, _: Path) -> Case:
    """Draw one of the pictures, or compute its numbers, which is most of the work."""
    explained = Explained(rng)
    pictures = ("series", "compare", "channel_importance", "removal", "timing_steps")
    name = rng.choice(pictures)
    if name == "timing_steps":
        return _steps(rng, explained)
    sound: dict[str, tuple[Any, ...]] = {
        "i": (0, 2, np.int64(1)),
        "channels": (None, [0], [1, 0], 0),
        "truth": (None, explained.x > 0),
        "k": (0.1, 2, 0.9),
        "baseline": ("zero", "average", 0.5),
        "target": (None, 0),
        "rows": (None, [0, 1]),
    }
    odd: tuple[Any, ...] = (
        *parts.NUMBERS_GONE_WRONG,
        "none",
        {},
        [9],
        torch.zeros(2, 2),
        len,
        -1,
        99,
        ["a"] * 7,
        np.nan,
    )
    taken = {
        "series": ("i", "truth", "channels"),
        "compare": ("i", "channels"),
        "channel_importance": ("target", "rows", "channels"),
        "removal": ("k", "baseline"),
    }[name]
    options = {each: rng.choice(sound[each]) for each in taken if rng.random() < 0.4}
    if taken and rng.random() < 0.6:
        options[rng.choice(taken)] = rng.choice(odd)
    given: Any = explained.explanation
    if rng.random() < 0.15:
        given = rng.choice(
            (
                None,
                "E.safetensors",
                [],
                {},
                5,
                [explained.explanation, None],
                explained.x,
                {1: explained.explanation},
                given[:0],
            )
        )
    head = (explained.world.model, given) if name == "removal" else (given,)
    function = getattr(plots, name)

    def call() -> Any:
        return function(*head, **options)

    text = f"plots.{function.__name__}({parts.shown(given)}, {parts.listed(options)})"
    return _case(explained, text, call, lambda found: "" if found is not None else "nothing")


def _steps(rng: random.Random, explained: Explained) -> Case:
    """Draw how TIMING works."""
    odd = (*parts.NUMBERS_GONE_WRONG, None, -1, 99)
    options: dict[str, Any] = {}
    for name in ("i", "target", "baseline", "seed", "segments"):
        if rng.random() < 0.4:
            options[name] = rng.choice((0, 1)) if rng.random() < 0.6 else rng.choice(odd)
    known = figures.timing_steps_record.__code__.co_varnames[
        : figures.timing_steps_record.__code__.co_argcount + figures.timing_steps_record.__code__.co_kwonlyargcount
    ]
    options = {name: value for name, value in options.items() if name in known}
    text = f"figures.timing_steps_record({parts.listed(options)})"
    return _case(
        explained,
        text,
        lambda: figures.timing_steps_record(explained.world.model, explained.explanation, **options),
        lambda found: "" if found is not None else "nothing",
    )


def _page(rng: random.Random, folder: Path) -> Case:
    """Write a report."""
    explained = Explained(rng)
    (folder / "other.txt").write_text("somebody else's")
    (folder / "folder").mkdir()
    split = Series(explained.x, torch.tensor([0, 1, 2]), ids=explained.explanation.ids)
    sound: dict[str, tuple[Any, ...]] = {
        "split": (None, split),
        "series": (None, [0], [2, 1], torch.tensor([0, 2])),
        "scores": (None, {explained.explanation.method: {"cpd": torch.ones(COUNT)}}),
        "title": ("x", "<script>", "", "\ud800", "a\nb" * 400),
    }
    options = {name: rng.choice(values) for name, values in sound.items() if rng.random() < 0.3}
    odd: tuple[Any, ...] = (
        "a",
        5,
        [9],
        torch.zeros(2),
        {"a": 1},
        len,
        [[1]],
        np.nan,
        True,
        object(),
        [None, None],
        b"ab",
        ["a"] * 9,
    )
    if rng.random() < 0.5:
        options[rng.choice(("split", "series"))] = rng.choice(odd)
    path = rng.choice(
        ("new.html", "new.html", "new.html", "other.txt", "folder", "no/where.html", "", "x" * 300, None, 5)
    )
    model = rng.choice((None, None, explained.world.model, "model", 5, torch.nn.Linear(9, 9), torch.nn.Linear))
    given: Any = explained.explanation
    if rng.random() < 0.2:
        given = rng.choice((None, [], {}, "E", [given, given], {"<b>": given}, {1: given}, [given, 5], given[:0]))

    def right(_: Any) -> str:
        page = (folder / path).read_text(encoding="utf-8")
        return "" if page.startswith("<!doctype html>") or page.lower().startswith("<!doctype html") else "no page"

    text = f"report({parts.shown(path)}, {parts.shown(model)}, {parts.shown(given)}, {parts.listed(options)})"
    leaves = frozenset({"new.html"})
    return _case(explained, text, lambda: tg.report(path, model, given, **options), right, leaves=leaves)
