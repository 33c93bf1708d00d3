"""Asking a model about series that may not fit it."""

from collections.abc import Sequence

from torch import Tensor

from tempograd.engine.modules import Model
from tempograd.engine.prediction import misfit
from tempograd.engine.resuming import answered
from tempograd.engine.touched import advice
from tempograd.errors import ModelError


def asked(
    model: Model, z: Tensor, alike: Tensor | None = None, *, shape: Sequence[int], layout: str = "BTD"
) -> Tensor:
    """Call the model; where the series do not fit it, say so in one sentence.

    Parameters
    ----------
    model : Model
    z : Tensor of shape (series, time, channel)
    alike : LongTensor, optional
        Which series begin alike, see :func:`~tempograd.engine.resuming.answered`.
    shape : sequence of int
        Of all the series that the caller has.
    layout : {"BTD", "BDT"}
        In which order of axes the caller has them.
    """
    try:
        return answered(model, z, alike)
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:  # assertions by exported programs
        message = misfit(error, shape, layout, lambda: advice(model, z, layout))
        if message is None:
            raise
        raise ModelError(message) from error
