"""What the released code does, as explainers, metrics and models."""

from typing import Any

from torch import nn

from tempograd import EXPLAINERS, METRICS, Dataset, Explainer, Metric, train
from tempograd_paper.released._second import SECOND


def released(method: str, dataset: str) -> Explainer:
    """Return an explainer with the paper's setting and the known faults of the released code."""
    return SECOND[method].of(dataset) if method in SECOND else EXPLAINERS[method].published(dataset)


def released_metric(name: str, **settings: Any) -> Metric:
    """Return a metric as the paper measured it."""
    how: dict[str, Any] = {"scale": "published"} if name in {"cpd", "cpp"} else {"pooled": True}
    return METRICS[name](**how | settings)


def train_as_released(model: str | nn.Module, data: Dataset, **options: Any) -> nn.Module:
    """Train a model as the released code does."""
    return train(model, data, recipe="published", **options)
