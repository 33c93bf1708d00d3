"""Other people's models as functions of series: estimators, and functions of numpy arrays.

:func:`tempograd.explain`, :func:`tempograd.evaluate` and all others take estimators and functions of numpy arrays
as they are. The adapters here are for those who want to say which method is asked, or that a function gets arrays
whatever it would make of tensors.
"""

from collections.abc import Callable
from typing import Any

from tempograd.core.errors import InputError, arg
from tempograd.core.validation import PREDICTS, check_choice
from tempograd.engine.conventions import OfArrays
from tempograd.engine.predictor import as_model
from tempograd.typing import Model

__all__ = ["estimator", "from_numpy"]


def estimator(est: object, method: str | None = None) -> Model:
    """Return an estimator as a function of series, for methods that need no gradient.

    It gets a numpy array: as many numbers per series as it has seen features (``n_features_in_``), in the order of
    time, then channel, or else the array (batch, time, channel) itself; ``model_layout=`` of the call changes the
    order of both.

    Parameters
    ----------
    est : object
        Fitted, as scikit-learn, xgboost, aeon or tslearn have them.
    method : {"predict_proba", "decision_function", "predict"}, optional
        What is asked; by default the first of these that it has.

    Examples
    --------
    >>> import torch
    >>> import tempograd as tg
    >>> class Mean:
    ...     def predict(self, x):
    ...         return x.mean((1, 2))
    >>> x = torch.tensor([[[1.0], [5.0]]])
    >>> tg.explain(tg.adapters.estimator(Mean()), x, "occlusion").values.flatten()
    tensor([0.5000, 2.5000])
    """
    if method is not None:
        check_choice(method, "method", PREDICTS)
        if not callable(getattr(est, method, None)):
            advice = f"leave {arg:call.method} out for one that it has"
            raise InputError(f"{type(est).__name__} has no method {method}: {advice}.")
    return as_model(est, method or next((name for name in PREDICTS if hasattr(est, name)), None))


def from_numpy(function: Callable[[Any], Any]) -> Model:
    """Return a function from numpy arrays to numpy arrays as a model, for methods that need no gradient.

    Parameters
    ----------
    function : callable
        Takes an array (batch, time, channel) and returns one row per series.

    Examples
    --------
    >>> import torch
    >>> import tempograd as tg
    >>> spread = tg.adapters.from_numpy(lambda x: x.std((1, 2)))
    >>> tg.explain(spread, torch.tensor([[[1.0], [3.0]]]), "occlusion", output="raw").values.flatten()
    tensor([-0.5000,  0.5000])
    """
    if not callable(function):
        raise InputError(f"function must be callable with an array, got {type(function).__name__}.")
    return OfArrays(function)
