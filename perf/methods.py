"""The compared methods against time_interpret and, where it lacks them, against literal loops.

FO, AFO, LIME and FIT in prefix mode as the paper ran them (``released``), the mask methods at
equal epochs and batch; ContraLSP's batch is the whole set of series, as published.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

import literal
import peers
from tempograd_paper.released import released
from timing import Figures, Work, correlation, in_turn, note

AREAS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
FEW, TRAIN = 25, 500  # one in so many series for methods that take minutes elsewhere; training series

Made = tuple[Tensor, Work, Work]


def compare(model: nn.Module, x: Tensor, epochs: int, rounds: int, only: tuple[str, ...] = ()) -> Figures:
    """Return how many times faster each method is than the public procedure, and how alike the maps are."""
    torch.manual_seed(0)
    train = torch.randn(TRAIN, *x.shape[1:], device=x.device)
    found = {}
    for name, make in methods(model, x, train, epochs).items():
        if only and name not in only:
            continue
        note(f"method: {name}")
        series, ours, theirs = make()
        turns = in_turn({"ours": ours, "theirs": theirs}, rounds, cold={"theirs"})
        alike = correlation(turns.results["ours"], turns.results["theirs"])
        found[name] = {
            "series": len(series),
            "ours_seconds": turns.ratio("ours", "theirs")["seconds"],
            "faster": turns.ratio("theirs", "ours"),
            "correlation": alike,
        }
    return found


def methods(model: nn.Module, x: Tensor, train: Tensor, epochs: int) -> dict[str, Callable[[], Made]]:
    """Return, for every method, what makes the series and both sides; generators are trained beforehand."""
    few, many = x[: max(2, len(x) // FEW)], torch.cat([x, x + 1, x - 1, -x])

    def ours(method: str, series: Tensor, drop: tuple[str, ...] = (), **changes: object) -> Work:
        preset = released(method, "mimic3")
        explainer = replace(preset, quirks=preset.quirks - set(drop), **changes)
        if explainer.needs_fit or method == "occlusion":
            explainer = explainer.fit(model, train)
        return lambda: explainer(model, series).values

    return {
        "occlusion": lambda: (x, ours("occlusion", x, ("B1",)), lambda: peers.occlusion(model, x, train)),
        "augmented_occlusion": lambda: (
            few,
            ours("augmented_occlusion", few),
            lambda: peers.augmented_occlusion(model, few, train),
        ),
        "lime": lambda: (few, ours("lime", few), lambda: peers.lime(model, few)),
        "fit": lambda: (few, ours("fit", few, ("B2",), epochs=1), peers.fit(model, few, train)),
        "winit": lambda: (few, ours("winit", few, ("B2",)), lambda: literal.winit(model, few, train)),
        "dynamask": lambda: (
            x,
            ours("dynamask", x, epochs=epochs),
            lambda: peers.dynamask(model, x, epochs, 100, AREAS),
        ),
        "extremal_mask": lambda: (
            x,
            ours("extremal_mask", x, epochs=epochs),
            lambda: peers.extremal_mask(model, x, epochs, 100),
        ),
        "contralsp": lambda: (
            x,
            ours("contralsp", x, epochs=epochs),
            lambda: literal.contralsp(model, x, epochs),
        ),
        "contralsp, 4 times as many series": lambda: (
            many,
            ours("contralsp", many, epochs=max(1, epochs // 4)),
            lambda: literal.contralsp(model, many, max(1, epochs // 4)),
        ),
    }
