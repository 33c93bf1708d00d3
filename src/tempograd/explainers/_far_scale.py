"""Scores of any size have errors: squares of very large or very small ones leave the range of single precision."""

import math
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from tempograd.engine import Model, Question
from tempograd.explainers._path import Attribution

LARGE = 1e12  # beyond, and below its inverse, fourth powers are out of range


def at_any_scale(question: Question, attribute: Callable[[Question], Attribution]) -> Attribution:
    """Explain; where scores turn out very large or small, explain the output in units of about their size.

    The unit is a power of two, which leaves every digit as it is. Only raw outputs can have such scores, and a
    function that picks the score need not be linear.
    """
    found = attribute(question)
    if question.output != "raw" or found.standard_error is None or callable(question.asked_target):
        return found
    size = float(found.values.abs().amax())
    if not math.isfinite(size) or size == 0 or 1 / LARGE < size < LARGE:
        return found
    unit = 2.0 ** round(math.log2(size))
    part = attribute(question.but(model=_in_units(question.model, unit)))
    check = part.gradient_check
    return part._replace(
        gradient_check=None if check is None else replace(check, jump=check.jump * unit, seen=check.seen * unit),
        values=part.values * unit,
        standard_error=None if part.standard_error is None else part.standard_error * unit,
        change=None if part.change is None else part.change * unit,
    )


def _in_units(model: Model, unit: float) -> Model:
    def scaled(z: Tensor) -> Tensor:
        return model(z) / unit

    return scaled
