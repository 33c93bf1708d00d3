"""What speaks against a map whatever its error.

The gradient is not the prediction's, all scores are 0, or the model gives no number at the baseline.
"""

import torch
from torch import Tensor

from tempograd._utils.formatting import percent
from tempograd.engine import Found, GradientCheck
from tempograd.explainers import EXPLAINERS
from tempograd.explanation.core import Explanation

MANY = 0.05  # share of the series beyond which the sentence about all of them begins with it
TYPICAL, SEVERAL = 0.08, 5  # gap of the middle series that is none of chance, and how many series it takes
ROUNDING = 1e-6  # a change of a probability that is none
CAUSES = "detached statistics, no_grad, rounding, thresholds, quantised layers, categories or tokens"
INSTEAD = "use a method without gradients, such as occlusion"


def asked(explanation: Explanation) -> Tensor:
    """Tell for each series whether ``steps`` and the mask leave anything to explain, (series,)."""
    found = torch.ones(len(explanation), dtype=torch.bool)
    if explanation.mask is not None:
        found &= explanation.mask.flatten(1).any(1).cpu()
    if isinstance(explanation.steps, Tensor):
        found &= explanation.steps.flatten(1).any(1).cpu()
    return found


def wrong(explanation: Explanation) -> Tensor:
    """Tell for which series the gradient is not that of the prediction, (series,)."""
    check = explanation.gradient_check
    return torch.zeros(len(explanation), dtype=torch.bool) if check is None else check.failed.cpu()


def empty(explanation: Explanation) -> Tensor:
    """Tell for which series all scores are 0 though the prediction changes, (series,)."""
    nothing = ~explanation.values.flatten(1).any(1).cpu()
    if explanation.change is None or explanation.method == "random":
        return torch.zeros_like(nothing)
    return nothing & (explanation.change.abs().cpu() > rounding(explanation))


def undefined(explanation: Explanation) -> Tensor:
    """Tell for which series the model gives no number at the baseline, as where it divides by 0, (series,)."""
    if explanation.change is None:
        return torch.zeros(len(explanation), dtype=torch.bool)
    return ~explanation.change.isfinite().cpu()


def against(explanation: Explanation) -> Tensor:
    """Tell for which series anything of that speaks against the map, (series,)."""
    return wrong(explanation) | empty(explanation) | undefined(explanation)


def rounding(explanation: Explanation) -> float:
    """Return the change of the prediction that may be rounding; the scale of raw outputs is not known."""
    return ROUNDING if explanation.output == "probability" else 0.0


def objection(explanation: Explanation) -> str:
    """Say in one line what no number of points can mend; nothing if at most a few series are concerned."""
    count, check = len(explanation), explanation.gradient_check
    bad, nothing = int(wrong(explanation).sum()), int(empty(explanation).sum())
    lost = int(undefined(explanation).sum())
    if lost > MANY * count:
        return _about_baseline(explanation, lost)
    if check is not None and (bad > MANY * count or _together(check)):
        return _about_gradient(check, bad)
    return _about_nothing(explanation, nothing) if nothing > MANY * count else ""


def few(explanation: Explanation) -> str:
    """Count the series that something speaks against, to be said behind a verdict on all of them."""
    text = ""
    for bad, what in (
        (wrong(explanation), "the gradient is not that of the prediction"),
        (empty(explanation), "all scores are 0"),
        (undefined(explanation), "the model gives no number at the baseline"),
    ):
        text += f"; {what} in {int(bad.sum()):,} series" if bad.any() else ""
    return text


def _together(check: GradientCheck) -> bool:
    """Tell whether the series together show what a single one may show by chance."""
    told = check.found != Found.UNKNOWN
    if int(told.sum()) < SEVERAL:
        return False
    return any(float(part[told].median()) > TYPICAL for part in (check.gap, check.beyond))


def _about_gradient(check: GradientCheck, bad: int) -> str:
    """Say that the gradient is not that of the prediction, by how much, and what it may be."""
    count, off = len(check), check.found == Found.WRONG
    where = "" if bad in (0, count) else f" in {bad:,} of {count:,} series"
    if 2 * int(off.sum()) < bad:
        return (
            f"the prediction jumps where its gradient sees nothing{where} ({CAUSES}, or a step too steep for "
            f"these points): {INSTEAD}"
        )
    part = check[off] if bool(off.any()) else check
    share = torch.maximum(torch.maximum(part.gap, part.beyond), part.missing.abs()).clamp(max=1)
    return (
        f"the gradient is not that of the prediction{where}: it misses about {percent(float(share.median()))} of "
        f"the changes ({CAUSES} in the model?): {INSTEAD}"
    )


def _about_baseline(explanation: Explanation, bad: int) -> str:
    """Say that the change of the prediction is not known, and what to do."""
    where = "" if len(explanation) == 1 else f" of {bad:,} of {len(explanation):,} series"
    return (
        f"not known: the model answers the baseline{where} with NaN or infinity (a division by its scale, a "
        "logarithm?); pass a baseline that it can answer, such as a typical series"
    )


def _about_nothing(explanation: Explanation, bad: int) -> str:
    """Say that all scores are 0 though the prediction changes."""
    count, change = len(explanation), explanation.change
    where = "" if count == 1 else f" in {bad:,} of {count:,} series"
    size = "" if count > 1 or change is None else f" by {float(change):.2g}"
    what = f"all scores are 0{where}, but the prediction changes{size} from the baseline to the series"
    kind = EXPLAINERS.get(explanation.method)
    if kind is None or kind.needs_gradient:
        return f"{what}: it is flat where its gradient was taken (saturation, {CAUSES}); try another baseline"
    return f"{what}: no part that was taken away changes it alone; try another baseline"
