"""Warnings of ``explain`` and ``evaluate``: what works, but may not be what was meant."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tempograd.errors import warn

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tempograd.data import Series
    from tempograd.explanation import Explanation

NAMED = 3  # channels that a warning names
WITHOUT_BASELINE = frozenset({"random", "fit", "winit", "augmented_occlusion", "timex", "timexpp"})


def compares(args: argparse.Namespace) -> bool:
    """Tell whether the method compares with the baseline; GradientSHAP's pool takes its place."""
    pool = args.method == "gradient_shap" and args.train is not None
    return args.method not in WITHOUT_BASELINE and not pool


def warn_of_fresh_weights(args: argparse.Namespace, model: "nn.Module") -> None:
    """Warn where a class was called for the model and no weights were given; a function may load its own."""
    module, _, attribute = str(args.model).partition(":")
    found: Any = sys.modules.get(module)
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if args.weights is None and isinstance(found, type) and any(True for _ in model.parameters()):
        warn(
            f"{found.__name__} is explained with the weights it was created with: pass --weights FILE if it was "
            "trained."
        )


def warn_of_far_zero(series: "Series") -> None:
    """Warn where 0 lies further from a channel's observed values than these lie apart."""
    far = []
    for number in range(series.x.shape[2]):
        values = series.x[..., number]
        values = values.flatten() if series.mask is None else values[series.mask[..., number]]
        if len(values):
            low, high = float(values.min()), float(values.max())
            if low < high and (low > high - low or -high > high - low):
                far.append((series.channels[number] if series.channels else f"channel {number}", low, high))
    if far:
        named = ", ".join(name for name, _, _ in far[:NAMED])
        more = f" and {len(far) - NAMED} more channels" if len(far) > NAMED else ""
        name, low, high = far[0]
        warn(
            f"0 is far from every observed value of {named}{more} ({name} {low:.3g} to {high:.3g}): scores "
            "compare with 0. For data in natural units pass --baseline average."
        )


def fitting_classes(
    named: Sequence[str] | None, outputs: int | None, output: str, *, given: bool
) -> Sequence[str]:
    """Return the names of the classes if there is one for each output of the model; else warn, and return none.

    Parameters
    ----------
    named : sequence of str, optional
    outputs : int, optional
        How many the model has; None where that is not known.
    output : {"probability", "raw"}
        Labels need not be the names of raw outputs.
    given : bool
        Whether the names were given, and not found in the data.
    """
    if not named or outputs is None or len(named) == outputs:
        return named or ()
    if given or output == "probability":
        who = "--classes names" if given else "The labels name"
        what, gone = ("classes", "names and labels") if output == "probability" else ("outputs", "the names")
        warn(
            f"{who} {len(named)} classes, but the model has {outputs} {what}: {gone} are left out. Pass --classes "
            "with one name for each, in the model's order."
        )
    return ()


def warn_of_low_accuracy(accuracy: float | None, outputs: int, count: int) -> None:
    r"""Warn where a model is worse than guessing by two standard errors, :math:`\sqrt{c (1 - c) / n}`."""
    chance = 1 / max(outputs, 2)
    if accuracy is not None and accuracy < chance - 2 * (chance * (1 - chance) / count) ** 0.5:
        warn(
            f"The model is right on {100 * accuracy:.0f} % of the labels, guessing on {100 * chance:.0f} %: "
            "likely reasons are the order of --classes, missing --weights, the order of --channels, or --align."
        )


def warn_of_another_zero(named: "Mapping[str, Explanation]", x: "Tensor | None") -> None:
    """Warn where scores compare with another baseline than the 0 that replaces removed values."""
    from tempograd._utils.validation import filled_with

    kinds = {
        label: filled_with(found.baseline, found.x if x is None else x, found.mask)
        for label, found in named.items()
        if found.method not in WITHOUT_BASELINE
    }
    others = [label for label, kind in kinds.items() if kind != "zero"]
    if others:
        average = all(kinds[label] == "average" for label in others)
        verb = "compares" if len(others) == 1 else "compare"
        what = "the average" if average else "a baseline of its own"
        advice = ": pass --substitute average to ask the same question" if average else ""
        warn(f"{', '.join(others)} {verb} with {what}, but removed values become 0{advice}.")
