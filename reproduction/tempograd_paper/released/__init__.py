"""What the released code does, as explainers, metrics and models."""

import sys
from collections.abc import Mapping
from types import ModuleType

from tempograd import EXPLAINERS, Explainer
from tempograd.core.errors import UnknownNameError
from tempograd_paper.released.augmented_occlusion import ReleasedAugmentedOcclusion
from tempograd_paper.released.base import Released
from tempograd_paper.released.contralsp import ReleasedContraLSP
from tempograd_paper.released.deep_lift import ReleasedDeepLift
from tempograd_paper.released.dynamask import ReleasedDynamask
from tempograd_paper.released.extremal_mask import ReleasedExtremalMask
from tempograd_paper.released.fit import ReleasedFit
from tempograd_paper.released.gradient_shap import ReleasedGradientShap
from tempograd_paper.released.integrated_gradients import ReleasedIntegratedGradients
from tempograd_paper.released.lime import ReleasedLime
from tempograd_paper.released.metrics import released_metric
from tempograd_paper.released.occlusion import ReleasedOcclusion
from tempograd_paper.released.rand_ig import ReleasedRandIG
from tempograd_paper.released.timex import ReleasedTimeX
from tempograd_paper.released.timexpp import ReleasedTimeXPP
from tempograd_paper.released.timing import ReleasedTiming
from tempograd_paper.released.training import train_as_released
from tempograd_paper.released.winit import ReleasedWinIT

__all__ = ["RELEASED", "faults", "kind_of", "released", "released_metric", "train_as_released"]

RELEASED: dict[str, type[Released]] = {
    "augmented_occlusion": ReleasedAugmentedOcclusion,
    "contralsp": ReleasedContraLSP,
    "deep_lift": ReleasedDeepLift,
    "dynamask": ReleasedDynamask,
    "extremal_mask": ReleasedExtremalMask,
    "fit": ReleasedFit,
    "gradient_shap": ReleasedGradientShap,
    "integrated_gradients": ReleasedIntegratedGradients,
    "lime": ReleasedLime,
    "occlusion": ReleasedOcclusion,
    "rand_ig": ReleasedRandIG,
    "timex": ReleasedTimeX,
    "timexpp": ReleasedTimeXPP,
    "timing": ReleasedTiming,
    "winit": ReleasedWinIT,
}


def kind_of(method: str) -> type[Explainer]:
    """Return the class of a method that can repeat faults; the library's own for a method without any."""
    return RELEASED.get(method) or EXPLAINERS[method]


def faults(method: str) -> Mapping[str, str]:
    """Return the faults that a method can repeat, in words, by their keys (``docs/faults.md``)."""
    return RELEASED[method].faults if method in RELEASED else {}


def released(method: str, dataset: str) -> Explainer:
    """Return an explainer with the paper's setting and the known faults of the released code.

    Examples
    --------
    >>> released("timing", "wafer").segments
    5
    """
    if method not in RELEASED:
        raise UnknownNameError("released method", method, RELEASED, short=EXPLAINERS.short)
    return RELEASED[method].of(dataset)


class _Callable(ModuleType):
    """A module that can be called: ``tempograd_paper.released(…)`` is right whatever was imported first."""

    def __call__(self, method: str, dataset: str) -> Explainer:
        return released(method, dataset)


sys.modules[__name__].__class__ = _Callable
