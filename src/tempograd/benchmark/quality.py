"""How good the explained model is: an explanation of a model that knows nothing explains nothing."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.data import Split
from tempograd.models.training import predictions

CERTAIN = 1.96  # standard errors above one half that an AUROC must lie to be better than chance


def quality(model: nn.Module, split: Split) -> dict[str, Any]:
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
