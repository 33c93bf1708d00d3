"""Running one cell: the same arguments give the same record, whatever ran before."""

import math
import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tempograd as tg
from tempograd.data import Dataset, Series
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Metric
from tempograd.metrics.evaluation import measure
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.models.training import predictions
from tempograd.version import __version__
from tempograd_paper.cell import Cell, Measure
from tempograd_paper.protocols import fair, published
from tempograd_paper.protocols.series import evenly
from tempograd_paper.protocols.tuned import background_of
from tempograd_paper.released import released_metric
from tempograd_paper.runner.baselines import explain_each, noted_of_all
from tempograd_paper.runner.record import Record
from tempograd_paper.runner.store import Store
from tempograd_paper.runner.watching import collected, wait

# How good the explained model is: an explanation of a model that knows nothing explains nothing.

CERTAIN = 1.96  # standard errors above one half that an AUROC must lie to be better than chance


def model_quality(model: nn.Module, split: Series) -> dict[str, Any]:
    """Accuracy, share of the most frequent class, AUROC with its error, and whether the model is at chance level.

    Accuracy says little where one class is rare, so chance is judged by the area under the ROC curve: a model is
    at chance level if that area is not 1.96 standard errors above one half. Labels per step count one by one.
    """
    logits, y = predictions(model, split)
    area, error = auroc(logits.double().softmax(-1), y)
    return {
        "accuracy": float((logits.argmax(-1) == y).double().mean()),
        "majority": int(torch.bincount(y).max()) / len(y),
        "auroc": area,
        "auroc_error": error,
        "at_chance": not area - CERTAIN * error > 0.5,
    }


def auroc(scores: Tensor, y: Tensor) -> tuple[float, float]:
    r"""Area under the ROC curve and its error: of class 1 of two, or of each class against the rest, averaged.

    With :math:`m` series of the class and :math:`n` others the area :math:`A` is the share of pairs that are
    ranked rightly, ties counting one half, and [1]_ gives

    .. math:: \mathrm{se}^2 = \frac{A(1-A) + (m-1)(Q_1-A^2) + (n-1)(Q_2-A^2)}{mn},
              \qquad Q_1 = \tfrac{A}{2-A}, \quad Q_2 = \tfrac{2A^2}{1+A}.

    Classes without a series, or with all of them, are left out; with none left both numbers are NaN. The error of
    a mean over classes is taken as the mean of the errors, which is too large rather than too small.

    References
    ----------
    .. [1] J. A. Hanley and B. J. McNeil, "The meaning and use of the area under a receiver operating
       characteristic (ROC) curve", Radiology 143, 1982. https://doi.org/10.1148/radiology.143.1.7063747

    Examples
    --------
    >>> auroc(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), torch.tensor([0, 0, 1, 1]))[0]
    0.75
    """
    classes = range(scores.shape[-1])
    found = [_area(scores[:, label], y == label) for label in (classes if len(classes) > 2 else [1])]
    kept = [pair for pair in found if not math.isnan(pair[0])]
    if not kept:
        return math.nan, math.nan
    return sum(area for area, _ in kept) / len(kept), sum(error for _, error in kept) / len(kept)


def _area(score: Tensor, positive: Tensor) -> tuple[float, float]:
    m, n = int(positive.sum()), int((~positive).sum())
    if not m or not n:
        return math.nan, math.nan
    _, place, count = torch.unique(score, return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    rank = (last - (count - 1) / 2)[place]  # ties share the mean of their ranks, which start at 1
    area = (float(rank[positive].sum()) - m * (m + 1) / 2) / (m * n)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)) / (m * n)
    return area, math.sqrt(max(variance, 0.0))


def train_cell(cell: Cell, store: Store, device: str) -> None:
    """Train the model of a cell and keep it."""
    start = time.monotonic()
    train = published.train_published_model if cell.protocol == "published" else fair.train_fair_model
    data = store.data(cell)
    model = train(cell, data, device)
    facts = {"seconds": time.monotonic() - start, "quality": model_quality(model, data.test)}
    store.save_model(cell, model, facts)


def run_cell(cell: Cell, store: Store, device: str) -> None:
    """Explain, score and record one cell; its model is there already, and its explanation may be."""
    data, model = store.data(cell), store.model(cell, device)
    test = evenly(data.test, cell.series)
    explanations, noted = _explained(cell, store, model, data, test, device)
    start = time.monotonic()
    pool = background_of(data, device) if cell.protocol == "tuned" else None
    scores = _scores(cell, model, explanations, test, pool)
    seconds = noted["seconds"] | {"evaluate": time.monotonic() - start, "train": model.facts["seconds"]}
    facts = noted | {
        "model": _model_facts(model.facts),
        "versions": {"tempograd": __version__, "torch": torch.__version__, "numpy": np.__version__},
        "device": _name(device),
        "seconds": seconds,
    }
    store.save_record(Record(cell, test.ids, scores, facts))


def _explained(
    cell: Cell, store: Store, model: nn.Module, data: Dataset, test: Series, device: str
) -> tuple[dict[str, Explanation], dict[str, Any]]:
    """Return the explanation that is scored with each baseline, and what the record keeps of how it was made."""
    if cell.protocol == "tuned":
        several = explain_each(cell, store, model, data, test, device)
        return {name: explanation for name, (explanation, _) in several.items()}, noted_of_all(cell, several)
    found = store.explanation(cell)
    if found is None:
        found = _explain(cell, model, data, test, device)
        store.save_explanation(cell, *found)
    explanation, noted = found
    same: dict[str, Explanation] = {each.baseline: explanation for each in cell.measures}
    return same, {"parameters": explanation.parameters} | noted


def _explain(
    cell: Cell, model: nn.Module, data: Dataset, test: Series, device: str
) -> tuple[Explanation, dict[str, Any]]:
    x, chosen = test.x.to(device), None
    with collected() as messages:
        start = time.monotonic()
        if cell.protocol == "fair":
            sample = evenly(data.train if data.validation is None else data.validation, fair.VALIDATION)
            explainer, chosen = fair.make_fair_explainer(cell, model, data, sample)
        else:
            explainer = published.make_published_explainer(cell, model, data, test)
        mask = test.mask if cell.protocol == "fair" else None
        wait(device)
        middle = time.monotonic()
        explanation = explainer(model, tg.Series(x, mask=mask, ids=test.ids), seed=cell.seed)
        wait(device)
        end = time.monotonic()
    noted = {"chosen": chosen, "warnings": messages, "seconds": {"fit": middle - start, "explain": end - middle}}
    return explanation, noted


def _scores(
    cell: Cell, model: nn.Module, explanations: Mapping[str, Explanation], test: Series, pool: Tensor | None = None
) -> dict[str, Tensor]:
    """Score the explanations by baseline; where there is none, all scores are NaN."""
    scores: dict[str, Tensor] = {}
    for baseline in dict.fromkeys(each.baseline for each in cell.measures):
        wanted = [each for each in cell.measures if each.baseline == baseline]
        if baseline not in explanations:
            scores |= {each.name: torch.full((len(test),), math.nan) for each in wanted}
            continue
        explanation = explanations[baseline]
        explanation = replace(explanation, x=test.x.to(explanation.values.device))  # which files leave out
        if cell.protocol == "published":  # whose metrics look at all steps, also where a method explained one (B6)
            explanation = replace(explanation, steps=None)
        subject = _TwoSoftmaxes(model) if "B4" in explanation.parameters.get("quirks", ()) else model
        chosen = [metric(each, cell) for each in wanted]
        others = pool if baseline == "background" else None
        scores |= measure(subject, explanation, chosen, baseline, truth=test.truth, background=others)
    return {each.name: scores[each.name].cpu().reshape(-1) for each in cell.measures}


def metric(wanted: Measure, cell: Cell) -> Metric:
    """Make the metric of a measure, as the protocol defines it."""
    kind = METRICS[wanted.metric]
    settings: dict[str, Any] = {"name": wanted.name, "rank": cell.rank}
    if issubclass(kind, Faithfulness):
        settings["k"] = wanted.k
    return released_metric(wanted.metric, **settings) if cell.protocol == "published" else kind(**settings)


class _TwoSoftmaxes(nn.Module):
    """B4: the model that the released run of DeepLIFT was scored on, whose probabilities became logits again."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.model(x)).softmax(-1)


def _model_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return how good the model is, and what is worth knowing of its training."""
    kept = {name: facts[name] for name in ("epochs", "kept_epoch", "validation_loss") if name in facts}
    return dict(facts["quality"]) | kept | {"learning_rate": facts["recipe"]["learning_rate"]}


def _name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device} ({platform.machine()})"
