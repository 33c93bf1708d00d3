"""What the released code does, as explainers, metrics and models."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from tempograd import EXPLAINERS, METRICS, Dataset, Explainer, Metric, train
from tempograd_paper.released.augmented_occlusion import ReleasedAugmentedOcclusion
from tempograd_paper.released.base import Released
from tempograd_paper.released.deep_lift import ReleasedDeepLift
from tempograd_paper.released.gradient_shap import ReleasedGradientShap
from tempograd_paper.released.integrated_gradients import ReleasedIntegratedGradients
from tempograd_paper.released.lime import ReleasedLime
from tempograd_paper.released.occlusion import ReleasedOcclusion
from tempograd_paper.released.rand_ig import ReleasedRandIG
from tempograd_paper.released.timing import ReleasedTiming

RELEASED: dict[str, type[Released]] = {
    "augmented_occlusion": ReleasedAugmentedOcclusion,
    "deep_lift": ReleasedDeepLift,
    "gradient_shap": ReleasedGradientShap,
    "integrated_gradients": ReleasedIntegratedGradients,
    "lime": ReleasedLime,
    "occlusion": ReleasedOcclusion,
    "rand_ig": ReleasedRandIG,
    "timing": ReleasedTiming,
}


def kind_of(method: str) -> type[Explainer]:
    """Return the class of a method that can repeat faults; the library's own for a method without any."""
    return RELEASED.get(method) or EXPLAINERS[method]


def faults(method: str) -> Mapping[str, str]:
    """Return the faults that a method can repeat, in words, by their keys in the protocol."""
    return RELEASED[method].faults if method in RELEASED else dict.fromkeys(EXPLAINERS[method].known_quirks, "")


def released(method: str, dataset: str) -> Explainer:
    """Return an explainer with the paper's setting and the known faults of the released code."""
    kind = RELEASED.get(method)
    return EXPLAINERS[method].published(dataset) if kind is None else kind.of(dataset)


def released_metric(name: str, **settings: Any) -> Metric:
    """Return a metric as the paper measured it."""
    how: dict[str, Any] = {"scale": "published"} if name in {"cpd", "cpp"} else {"pooled": True}
    return METRICS[name](**how | settings)


def train_as_released(model: str | nn.Module, data: Dataset, **options: Any) -> nn.Module:
    """Train a model as the released code does."""
    return train(model, data, recipe="published", **options)
