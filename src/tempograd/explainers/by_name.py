"""Explain by the name of a method."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, Unpack, overload

from torch import Tensor

from tempograd._utils import validation
from tempograd.engine import Call, is_several
from tempograd.engine.background import in_time_order, is_background
from tempograd.engine.guesses import PROBABILITY
from tempograd.errors import InputError, TempogradError, UnknownNameError, brief
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.batches import batch_shape
from tempograd.explanation import Explanation, Facts
from tempograd.typing import (
    ArrayLike,
    ExplainOptions,
    Fixed,
    InputBaselines,
    Inputs,
    Layout,
    MethodOptions,
    Missing,
    Model,
    ModelLayout,
    Output,
    Pick,
    Precision,
    Setting,
    Steps,
    Target,
    Targets,
    Task,
    TimingOptions,
)


@overload
def explain(
    model: Model, x: Inputs, method: Literal["timing"] = "timing", **options: Unpack[TimingOptions]
) -> Explanation: ...


@overload
def explain(model: Model, x: Inputs, method: Explainer, **options: Unpack[ExplainOptions]) -> Explanation: ...


@overload
def explain(model: Model, x: Inputs, method: str, **options: Unpack[MethodOptions]) -> Explanation: ...


def explain(
    model: Model,
    x: Inputs,
    method: str | Explainer = "timing",
    *,
    background: Inputs | None = None,
    target: Target | None = None,
    baseline: InputBaselines | None = None,
    mask: Inputs | None = None,
    steps: Steps | None = None,
    output: Output = PROBABILITY,
    seed: int = 0,
    ids: ArrayLike | None = None,
    channels: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    times: Sequence[object] | Mapping[str, Sequence[object]] | None = None,
    names: Sequence[object] | None = None,
    layout: Layout = "BTD",
    missing: Missing = "error",
    draws: int = 1,
    batch_size: int | None = None,
    precision: Precision = "full",
    gradient_check: bool = True,
    targets: Targets | None = None,
    task: Task | None = None,
    fixed: Fixed | None = None,
    pick: Pick | None = None,
    model_layout: ModelLayout = "BTD",
    classes: Sequence[str] | None = None,
    units: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    raw: Inputs | None = None,
    **settings: Setting,
) -> Explanation:
    """Explain the predictions of ``model`` for the series ``x``.

    Parameters
    ----------
    model : nn.Module, callable or estimator
        Maps (batch, time, channel) to (batch, class) or (batch, time, class). Estimators with ``predict_proba``,
        ``decision_function`` or ``predict``, and functions of numpy arrays, are for methods without a gradient.
    x : Tensor or array of shape (batch, time, channel)
        Or a list of series (time, channel), also of unequal length, each shown to the model at its own; or a data
        frame, read by :func:`tempograd.read_series`.
    method : str or Explainer
        A name from ``tempograd.EXPLAINERS``, or an explainer.
    background : Tensor or array of shape (batch, time, channel), optional
        Other series, as the model reads them: those of ``baseline="background"`` and those that methods learn
        from, such as GradientSHAP's pool of baselines. Every method accepts them, so that one loop runs all; those
        that learn nothing leave them alone, and those that learn a baseline take the named one.
    target : int, Tensor of shape (batch,) or (batch, time), or callable, optional
        Class or output to explain, or a function of the output that picks one score per series; by default the
        predicted class, and class 1 of a model with a single logit.
    baseline : {"zero", "average", "background"} or Tensor that broadcasts to ``x``, optional
        What "absent" means, by default zero; ``"background"`` are values of the background series, drawn anew for
        each sample.
    mask : Tensor like ``x``, optional
        1 where a value was observed, 0 where not (``x`` holds a number there all the same).
    steps : int, list of int or "own", optional
        For one output per step: which of them are explained, by default all.
    output : {"probability", "raw"}
        Softmax (sigmoid for a single column), or the output as it is, as for regression.
    seed : int
        Of the random draws.
    ids : distinct integers, optional
        They number the series, by default 0, 1, …; draws depend on them.
    channels, times, names : sequences of str, optional
        What people call channels, steps and series, for tables, pictures and reports; ``times`` (batch, time)
        where series have stamps of their own.
    layout : {"BTD", "BDT"}
        ``"BDT"`` where ``x`` is (batch, channel, time).
    missing : {"error", "mask"}
        ``"mask"`` leaves NaN in ``x`` out and puts the baseline there; by default it is an error.
    draws : int
        Realisations of a model that draws random numbers to average over, 32 say.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.
    precision : {"full", "tf32", "bf16"}
        How exactly the model multiplies.
    gradient_check : bool
        Whether the gradient is compared with differences of the score.
    targets : list of targets or "all", optional
        Several targets in one call; read one with ``Explanation.for_target``. Path methods, occlusion and LIME
        share the passes of the model between them, unless ``tolerance=`` lets each stop by itself.
    task : {"classification", "multilabel", "regression", "forecast", "per_step"}, optional
        What the model's output is; by default found from the output, with a warning where that may be wrong.
    fixed : mapping or sequence, optional
        What else the model is called with, by keyword or behind the inputs: a tensor, an array or a list with
        one row per series goes along with its series; text, numbers and None are the same for all. What else is
        the same for all series belongs into a function around the model. Never attributed.
    pick : str or int, optional
        Which part of a dict, a tuple or an object the output is: ``"logits"``, ``1``, ``"states.0"``.
    model_layout : {"BTD", "BDT", "TBD", "BT"}
        Order of the axes that the model takes: batch, time, channel; ``"BT"`` for one channel without an axis.
    classes : sequence of str, optional
        Names of the model's outputs; a number's may end in its unit, such as ``"length of stay [days]"``.
    units : sequence of str, optional
        Units of the channels' values.
    raw : Tensor or array like ``x``, optional
        The values as people know them, before they were scaled for the model: only to be shown.
    **settings
        Hyper-parameters of a method given by name, such as ``n_samples=200``: see ``help(tempograd.Timing)`` and
        so on.

    See Also
    --------
    Explainer.__call__ : the same arguments in more words.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24, 2))
    >>> explain(model, torch.randn(4, 8, 3), n_samples=10, seed=1).values.shape
    torch.Size([4, 8, 3])
    """
    explainer = explainer_of(method, settings)
    validation.check_model(model)
    if is_several(x) or fixed is not None:
        explainer._require_companions(steps)
    drawn = is_background(baseline)
    if background is not None and (not drawn or explainer.needs_fit):
        convention = Call(pick=pick, model_layout=model_layout)
        explainer = fitted(explainer, model, x, background, layout, convention, seed)
    return explainer(
        model,
        x,
        target=target,
        baseline=baseline,
        mask=mask,
        steps=steps,
        output=output,
        seed=seed,
        ids=ids,
        channels=channels,
        times=times,
        names=names,
        layout=layout,
        missing=missing,
        draws=draws,
        batch_size=batch_size,
        precision=precision,
        gradient_check=gradient_check,
        targets=targets,
        task=task,
        fixed=fixed,
        pick=pick,
        model_layout=model_layout,
        classes=classes,
        units=units,
        raw=raw,
        background=background if drawn else None,
    )


def fitted(
    explainer: Explainer, model: Model, x: Inputs, background: Inputs, layout: str, convention: Call, seed: int
) -> Explainer:
    """Return the explainer as it is after it learnt from the background series what it needs."""
    pool = in_time_order(background, layout)
    if isinstance(pool, Tensor) and not is_several(x):
        _check_width(pool, x, layout)
    return explainer.fit(convention.adapt(model), pool, seed=seed)


def keywords(function: Callable[..., object]) -> set[str]:
    """Return the arguments of a function that are passed by their names."""
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def explainer_of(
    method: str | Explainer, settings: dict[str, Any], caller: Callable[..., object] = explain
) -> Explainer:
    """Return the explainer, made by its name, with settings that it has and that no argument of ``caller`` is."""
    if isinstance(getattr(method, "explainer", None), Explainer):  # what tune returns
        what = type(method).__name__
        raise InputError(f"method must be a name or an explainer, got a {what}: pass {what.lower()}.explainer.")
    if not isinstance(method, str | Explainer):
        raise InputError(f"method must be a name or an explainer, got {brief(method)}.")
    kind = type(method) if isinstance(method, Explainer) else EXPLAINERS[method]
    call = keywords(caller)
    known = {f.name for f in fields(kind) if not f.metadata.get("fitted")}
    name = method if isinstance(method, str) else method.name
    for given in settings:
        if isinstance(method, Explainer) and given in known:
            raise InputError(f"{given}= is a setting of {name}: pass it when the explainer is made.")
        if given in keywords(explain) - call - known:
            raise InputError(
                f"{caller.__name__} does not take {given}=: a run explains one target of models of one input, and "
                "id= names its series. Start a run for each target, or explain one group of series with "
                "tempograd.explain."
            )
        if given not in known:
            raise UnknownNameError(
                f"option of {name}",
                given,
                call if isinstance(method, Explainer) else known | call,
                short={"n_samples": "n_steps", "n_steps": "n_samples"},  # whichever of the two a method has
            )
    return method if isinstance(method, Explainer) else kind(**settings)


def require_alone(explainer: Explainer) -> None:
    """Refuse a method whose scores depend on a series' company, where series are explained in parts.

    Examples
    --------
    >>> require_alone(EXPLAINERS["extremal_mask"]())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.errors.InputError: extremal_mask learns one network for all series ... use dynamask, ...
    """
    if explainer.shared:
        raise InputError(
            f"{explainer.name} learns one network for all series that are explained together, so its scores "
            "would depend on how the data set is split: use dynamask, which learns for each series alone, or "
            "explain one group of series with tempograd.explain."
        )


def _check_width(background: Tensor, x: Inputs, layout: str) -> None:
    """Refuse background series of another width before anything is learnt from them."""
    shape = batch_shape(x)
    channels = shape[1 if layout == "BDT" else 2] if len(shape) == 3 else background.shape[2]
    if background.shape[2] != channels:
        raise InputError(
            f"The background series have {background.shape[2]} channels, x has {channels}: pass series of the "
            "same channels as background=."
        )


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
