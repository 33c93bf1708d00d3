"""The short way: explain by the name of a method."""

import inspect
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from tempograd._utils import validation
from tempograd.engine import Model
from tempograd.errors import InputError, TempogradError, UnknownNameError, brief
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explanation import Explanation, Facts


def explain(
    model: Model, x: Any, method: str | Explainer = "timing", train: Any = None, **options: Any
) -> Explanation:
    """Explain the predictions of ``model`` for the series ``x``.

    Parameters
    ----------
    model : nn.Module or callable
        Maps (batch, time, channel) to (batch, class) or (batch, time, class).
    x : Tensor or array of shape (batch, time, channel)
    method : str or Explainer
        A name from ``tempograd.EXPLAINERS``, or an explainer.
    train : Tensor or array of shape (batch, time, channel), optional
        Series for methods that learn from training data, such as GradientSHAP's pool of baselines.
    **options
        Hyper-parameters of the method (``points=200``, see ``help(tempograd.Timing)`` and so on) and arguments of
        the call, which :meth:`Explainer.__call__` describes in full:

        - ``target``: class or output to explain, or a function of the output; by default the predicted class, and
          class 1 of a model with a single logit
        - ``baseline``: ``"zero"``, ``"average"`` or a tensor, what "absent" means
        - ``mask``: like ``x``, 1 where a value was observed, 0 where not (``x`` holds a number there all the same)
        - ``steps``: for one output per step, which of them are explained, or ``"own"``
        - ``output``: ``"probability"`` (softmax; sigmoid for a single column) or ``"raw"``, as for regression
        - ``seed``: of the random draws
        - ``ids``: distinct integers that name the series
        - ``layout``: ``"BDT"`` where ``x`` is (batch, channel, time)
        - ``missing``: ``"mask"`` leaves NaN in ``x`` out and puts the baseline there; by default it is an error
        - ``draws``: realisations of a model that draws random numbers to average over, 32 say
        - ``chunk``: sequences per pass of the model
        - ``precision``: ``"full"``, ``"tf32"`` or ``"bf16"``, how exactly the model multiplies
        - ``gradient_check``: False leaves out the comparison of the gradient with differences of the score
        - ``channels``, ``times``, ``names``: what people call channels, steps and series, for tables and reports

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24, 2))
    >>> explain(model, torch.randn(4, 8, 3), points=10, seed=1).values.shape
    torch.Size([4, 8, 3])
    """
    names = {key: options.pop(key) for key in ("channels", "times", "names") if key in options}
    settings, call = _split(method, options)
    validation.model(model)
    explainer = method if isinstance(method, Explainer) else EXPLAINERS[method](**settings)
    if train is not None:
        layout = call.get("layout", "BTD")
        train = validation.series(train, layout, "train")
        _check_width(train, x, layout)
        explainer = explainer.fit(model, train, seed=call.get("seed", 0))
    return explainer(model, x, **call).named(**names)


def _check_width(train: Tensor, x: Any, layout: str) -> None:
    """Refuse training series of another width before anything is learnt from them."""
    shape = tuple(validation.as_tensor(x, "x").shape)
    channels = shape[1 if layout == "BDT" else 2] if len(shape) == 3 else train.shape[2]
    if train.shape[2] != channels:
        raise InputError(
            f"The training series have {train.shape[2]} channels, x has {channels}: pass series of the same "
            "channels as train=."
        )


def _split(method: str | Explainer, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {
        name for name, p in inspect.signature(Explainer.__call__).parameters.items() if p.kind is p.KEYWORD_ONLY
    }
    if isinstance(method, Explainer):
        known: set[str] = set()
    elif isinstance(method, str):
        known = {f.name for f in fields(EXPLAINERS[method]) if not f.metadata.get("fitted")}
    else:
        raise InputError(f"method must be a name or an explainer, got {brief(method)}.")
    for name in options:
        if name not in known | call:
            raise UnknownNameError(
                f"option of {method if isinstance(method, str) else method.name}", name, known | call
            )
    return {k: v for k, v in options.items() if k in known}, {k: v for k, v in options.items() if k in call}


def facts(method: str, parameters: Mapping[str, Any]) -> Facts:
    """Return what a method promises with the settings of an explanation that does not tell.

    Settings that the method does not have, if they are not empty, or does not take are those of a variant or of an
    earlier version, which promise less.
    """
    if method not in EXPLAINERS:
        return Facts()
    kind = EXPLAINERS[method]
    names = {f.name for f in fields(kind) if not f.metadata.get("fitted")}
    known = not any(value for name, value in parameters.items() if name not in names)
    try:
        found = kind(**{name: value for name, value in parameters.items() if name in names}).facts
    except TempogradError:
        found, known = kind().facts, False
    return found if known else replace(found, complete=False, adaptive=False)
