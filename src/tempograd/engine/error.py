"""How far a Monte-Carlo map is from the converged one, as one number per series."""

import math

import torch
from torch import Tensor

MEAN_SIZE = math.sqrt(2 / math.pi)  # mean of |z| for a standard normal z


def relative_error(values: Tensor, error: Tensor, observed: Tensor | None = None) -> Tensor:
    r"""Estimate each series' relative error.

    .. math::

        \frac{\mathbb{E}\lVert \hat A - A \rVert_1}{\lVert A \rVert_1}
        \approx \sqrt{\tfrac{2}{\pi}} \; \frac{\sum_{t,d} s_{t,d}}{\sum_{t,d} |\hat A_{t,d}|},

    since a normal error with standard deviation :math:`s` has the mean size :math:`s \sqrt{2/\pi}`. A cell with
    fewer than two draws has no :math:`s`: it counts with the size of its value plus the largest finite :math:`s`
    of its series.

    Parameters
    ----------
    values, error : Tensor of shape (series, time, channel)
        Scores, and their standard errors, infinite below two draws.
    observed : Tensor like ``values``, optional
        True for the cells that count; by default all do.

    Returns
    -------
    Tensor of shape (series,)
        0 where all scores are exactly 0 without error, infinite where they are 0 with some. Nothing waits for
        the device.

    Examples
    --------
    >>> values, error = torch.tensor([[[3.0], [-1.0]]]), torch.tensor([[[0.3], [0.1]]])
    >>> relative_error(values, error)  # 0.4 / 4, times 0.798
    tensor([0.0798])
    """
    size = values.abs()
    if observed is not None:
        size, error = size.where(observed, 0), error.where(observed, 0)
    unknown = error.isinf()
    known = error.masked_fill(unknown, 0)
    missed = torch.where(unknown, size + known.amax((1, 2), keepdim=True), known).sum((1, 2))
    total = size.sum((1, 2))
    nothing = torch.where((missed > 0) | unknown.any(2).any(1), torch.inf, torch.zeros_like(total))
    return torch.where(total > 0, MEAN_SIZE * missed / total, nothing)
