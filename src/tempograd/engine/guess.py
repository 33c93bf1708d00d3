r"""Whether the output is what it was taken for: where nobody said, values may object to softmax or a sigmoid.

Class logits have no common level: softmax does not see the mean of a row, so training leaves it where the random
first weights put it. With :math:`K` exchangeable columns, row means :math:`m` and variances within rows
:math:`s^2`, :math:`\sqrt{K \overline{m^2} / \overline{s^2}}` is at worst distributed as the size of Student's
:math:`t` with :math:`K - 1` degrees of freedom (all series alike), and the same holds for what is left after the
columns' means were taken off. Forecasts over a horizon and the logits of several labels rise and fall together.
Neither do neighbouring classes resemble each other more than others do, as the steps of a horizon do.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tempograd import student

FLAT = 17.0  # beyond, a sigmoid is 1 in single precision
SATURATED = 30.0  # by which the largest output leads: beyond what classifiers are trained to
LEVEL = 2.5  # row means in units of the spread within rows; drifting classifiers reach 1.7
RARE = 1e-4  # of chance
NEIGHBOURS = 3.9  # standard deviations that the resemblance of neighbours is above chance
ALIKE = 0.2  # squared error of a reconstruction, as a share of the variance
MOST = 0.9  # share of the rows that must agree
ENOUGH = 8  # rows that tell a pattern


class Guess(str):
    """The default of an argument: not what somebody chose."""

    __slots__ = ()


PROBABILITY = Guess("probability")


def written(output: str, columns: int | None) -> str:
    """Say what made probabilities of the model's columns, where their number is known.

    Examples
    --------
    >>> written("probability", 1), written("raw", 3)
    ("'probability' (sigmoid of 1 output)", "'raw'")
    """
    if output == "raw" or columns is None:
        return repr(output)
    return f"{output!r} ({'sigmoid of 1 output' if columns == 1 else f'softmax over {columns} outputs'})"


def objection(answers: Tensor, x: Tensor, *, sigmoid: bool = False) -> str | None:
    """Say in one sentence what speaks against probabilities, and what to pass; None if nothing does.

    Parameters
    ----------
    answers : Tensor of shape (series, …, output)
        Raw answers to some clean series.
    x : Tensor of shape (series, time, channel)
        The series.
    sigmoid : bool
        Whether the model is known to end with a sigmoid.

    Examples
    --------
    >>> objection(torch.tensor([[150.0], [148.0]]), torch.zeros(2, 4, 1))[:63]
    "The model's one output is 148 to 150, where its sigmoid is flat"
    >>> objection(torch.tensor([[1.0, -2.0, 0.5], [0.1, 0.3, -0.2]]), torch.zeros(2, 4, 1)) is None
    True
    """
    size = answers.shape[-1]
    rows = answers.detach().double().cpu().reshape(-1, size)
    if not bool(rows.isfinite().all()):
        return None
    if _reconstructs(answers, x):
        return _sentence(
            f"The model's outputs, {size} per step, are close to the series themselves, as an autoencoder's are",
            size,
        )
    if _within(rows, sigmoid=sigmoid):
        return _sentence(
            "The model's outputs lie between 0 and 1 and do not sum to 1, as those of a sigmoid do"
            if size > 1
            else "The model's one output lies between 0 and 1, as that of a sigmoid does",
            size,
        )
    if size == 1:
        return _flat(rows)
    for evidence, what in _EVIDENCE:
        if evidence(rows):
            return _sentence(f"The model's {size} outputs {what}", size)
    return None


def _sentence(what: str, size: int) -> str:
    applied = f"softmax over all {size} of them" if size > 1 else "a sigmoid of it"
    largest = " and the largest taken for the predicted class" if size > 1 else ""
    meant = "logits of classes" if size > 1 else "the logit of a class"
    which = ", and target= for one of them" if size > 1 else ""
    return (
        f"{what}, but {applied} was explained{largest}: pass output='raw'{which}, or output='probability' if they "
        f"are {meant}."
    )


def _flat(rows: Tensor) -> str | None:
    if float((rows.abs() > FLAT).double().mean()) < MOST:
        return None
    low, high = float(rows.min()), float(rows.max())
    between = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return (
        f"The model's one output is {between}, where its sigmoid is flat and scores vanish: pass output='raw' for "
        "a regression, or output='probability' if it is the logit of a class."
    )


def _within(rows: Tensor, *, sigmoid: bool) -> bool:
    """Tell whether sigmoids gave these numbers: logits reach both ends of [0, 1] only by leaving it."""
    low, high = float(rows.min()), float(rows.max())
    if low < 0 or high > 1:
        return False
    return sigmoid or (rows.numel() >= ENOUGH and low < 0.05 and high > 0.95)


def _reconstructs(answers: Tensor, x: Tensor) -> bool:
    """Tell whether the answers are the series again."""
    if answers.shape != x.shape:
        return False
    found, series = answers.detach().double().cpu(), x.detach().double().cpu()
    varied = float((series - series.mean((0, 1))).square().mean())
    return varied > 0 and float((found - series).square().mean()) < ALIKE * varied


def _saturated(rows: Tensor) -> bool:
    first, second = rows.topk(2).values.unbind(-1)
    return float((first - second > SATURATED).double().mean()) >= MOST


def _far(rows: Tensor) -> bool:
    return float((rows.abs().amin(-1) > SATURATED).double().mean()) >= MOST


def _level(rows: Tensor) -> bool:
    """Tell whether all outputs of a row lie on one side of 0, further from it than from each other."""
    if not _spread(rows) or bool((rows.logsumexp(-1).abs() < 1e-3).all()):  # logarithms of probabilities
        return False
    one_side = (rows.amin(-1) > 0) | (rows.amax(-1) < 0)
    return float(one_side.double().mean()) >= MOST and _common(rows, LEVEL)


def _together(rows: Tensor) -> bool:
    """Tell whether outputs rise and fall together from series to series."""
    moved = rows - rows.mean(0)
    return len(rows) >= ENOUGH and _spread(moved) and _common(moved, 1.0)


def _common(rows: Tensor, least: float) -> bool:
    size = rows.shape[-1]
    share = math.sqrt(float(rows.mean(-1).square().mean()) / float(rows.var(-1).mean()))
    chance = float(student.quantile(1 - RARE, torch.tensor([size - 1.0], dtype=torch.float64)))
    return share > least and share * math.sqrt(size) > chance


def _spread(rows: Tensor) -> bool:
    return float(rows.var(-1).mean()) > 0


def _smooth(rows: Tensor) -> bool:
    """Tell whether neighbouring outputs resemble each other, by their correlation within rows."""
    inner = rows - rows.mean(-1, keepdim=True)
    if not _spread(rows):
        return False
    alike = float((inner[:, 1:] * inner[:, :-1]).sum() / inner.square().sum())
    size = rows.shape[-1]
    return (alike + 1 / size) * math.sqrt(size) > NEIGHBOURS


_EVIDENCE: tuple[tuple[Callable[[Tensor], bool], str], ...] = (
    (_far, "are far from 0, on the scale of data and not of logits"),
    (_saturated, "lie so far apart that one has all the probability, on the scale of data and not of logits"),
    (_level, "lie on one side of 0 together, as those of a forecast or of several labels do"),
    (_together, "rise and fall together, as those of a forecast or of several labels do"),
    (_smooth, "change little from one to the next, as the steps of a forecast do"),
)
