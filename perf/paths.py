"""TIMING and integrated gradients against captum, the released structure and the bare model."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

import peers
import released
import tempograd as tg
from timing import Figures, Turns, Work, bare, fastest, in_turn, note

CALL = 32  # series that people give captum at a time
BATCH, SEGMENTS, SHORTEST = 30, 50, 10  # of the released code, for MIMIC-III; the longest is the series
BARE = (32, 64, 128, 256, 512, 1024, 2048)
INTERNAL = (32, 64, 128, 256, 512, 1024)
TRIED = 50  # points are enough to find it


class Setting(NamedTuple):
    """A model of the library, and how many series of which size are explained with how many points."""

    model: str = "gru"
    series: int = CALL
    steps: int = 48
    channels: int = 32
    points: int = 50
    hidden: int = 200

    def made(self) -> tuple[nn.Module, Tensor]:
        """Return the model, untrained, and series of noise: what they cost does not depend on the values."""
        torch.manual_seed(0)
        options = {"hidden": self.hidden} if self.model == "gru" else {}
        model = tg.MODELS[self.model](self.channels, 2, **options).eval().requires_grad_(requires_grad=False)
        return model, torch.randn(self.series, self.steps, self.channels)


def sides(model: nn.Module, x: Tensor, points: int, batch: int) -> dict[str, Work]:
    """Return what is compared; all but the released structure answer for the predicted class."""
    return {
        "bare": partial(bare, model, x, len(x) * points, batch),
        "timing": lambda: tg.Timing(n_samples=points)(model, x).values,
        "ig": lambda: tg.IntegratedGradients(n_steps=points)(model, x).values,
        "captum": in_calls(peers.integrated_gradients, model, x, points),
    }


def in_calls(attribute: Callable[..., Tensor], model: nn.Module, x: Tensor, *options: object) -> Work:
    return lambda: torch.cat([attribute(model, rows, *options) for rows in x.split(CALL)])


def best_bare(model: nn.Module, x: Tensor, points: int) -> int:
    """Return the fastest batch of the bare model, tried on a part of the work."""
    part = min(len(x) * points, BARE[-1])
    return fastest({size: partial(bare, model, x, part, size) for size in {min(size, part) for size in BARE}})


def best_internal(model: nn.Module, x: Tensor, points: int) -> int:
    """Return captum's fastest ``internal_batch_size``, from the series of a call, its least, to all at once."""
    rows, points = x[:CALL], min(points, TRIED)
    sizes = {len(rows) * points} | {size for size in INTERNAL if len(rows) <= size < len(rows) * points}
    return fastest({size: partial(peers.integrated_gradients, model, rows, points, size) for size in sizes})


def compare(setting: Setting, rounds: int) -> Figures:
    """Return every side as a multiple of the bare model, and captum as a multiple of our IG."""
    note(f"explain: {setting}")
    model, x = setting.made()
    points = setting.points
    batch, internal = best_bare(model, x, points), best_internal(model, x, points)
    ways = sides(model, x, points, batch)
    ways["captum_best"] = in_calls(peers.integrated_gradients, model, x, points, internal)
    segments = (SEGMENTS, SHORTEST, setting.steps)
    ways["released"] = lambda: [released.timing(model, rows, *segments, points) for rows in x.split(BATCH)]
    if len(x) == 1:  # draws are remembered for an id that was seen before, so both cases are measured
        ids = iter(range(10**6, 10**7))
        ways["timing_new_id"] = lambda: tg.Timing(n_samples=points)(model, tg.Series(x, ids=[next(ids)])).values
    turns = in_turn(ways, rounds)
    return {
        **setting._asdict(),
        "batch": batch,
        "internal": internal,
        "over_bare": turns.against("bare"),
        "captum_over_ig": _over(turns, "ig"),
        "captum_over_timing": _over(turns, "timing"),
    }


def _over(turns: Turns, base: str) -> Figures:
    return {name: turns.ratio(name, base) for name in ("captum", "captum_best")}


def sweep(base: Setting, axis: str, sizes: tuple[int, ...], rounds: int) -> list[Figures]:
    """Return the multiples of the bare model, and of captum at its best batch, as one size grows."""
    found = []
    for size in sizes:
        setting = base._replace(**{axis: size})
        note(f"grow: {setting}")
        model, x = setting.made()
        points = setting.points
        batch, internal = best_bare(model, x, points), best_internal(model, x, points)
        ways = sides(model, x, points, batch)
        ways["captum_best"] = in_calls(peers.integrated_gradients, model, x, points, internal)
        turns = in_turn(ways, rounds)
        over_captum = {name: turns.ratio(name, "captum_best") for name in ("timing", "ig")}
        found.append(
            {
                **setting._asdict(),
                "batch": batch,
                "internal": internal,
                "over_bare": turns.against("bare"),
                "over_captum_best": over_captum,
            }
        )
    return found


def summary(sweeps: dict[str, list[Figures]]) -> Figures:
    """Return for each method the median over all sizes of its multiple of captum's time, and the worst size."""
    rows = [(f"{row[axis]} {axis}", row["over_captum_best"]) for axis, sizes in sweeps.items() for row in sizes]
    found = {}
    for name in ("timing", "ig"):
        medians = {size: over[name]["median"] for size, over in rows}
        worst = max(medians, key=medians.__getitem__)
        found[name] = {"over_sizes": statistics.median(medians.values()), "worst": medians[worst], "at": worst}
    return found
