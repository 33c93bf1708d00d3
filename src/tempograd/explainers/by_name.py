"""Explain by the name of a method."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from tempograd.core.errors import InputError, UnknownNameError, arg, brief
from tempograd.core.question import Effort, Question
from tempograd.core.series import Series
from tempograd.engine.background import is_background
from tempograd.engine.inputs import is_several
from tempograd.engine.predictor import Predictor
from tempograd.explainers.base import EXPLAINERS, Explainer, nouns
from tempograd.explanation import Explanation
from tempograd.typing import InputBaselines, Inputs, Model, Output, Precision, Steps, Target, Targets


def explain(
    model: Model | Predictor,
    x: Inputs | Series,
    method: str | Explainer = "timing",
    *,
    target: Target | None = None,
    targets: Targets | None = None,
    output: Output | None = None,
    steps: Steps | None = None,
    baseline: InputBaselines | Series | None = None,
    background: Inputs | Series | None = None,
    seed: int = 0,
    draws: int = 1,
    batch_size: int | None = None,
    precision: Precision = "full",
    gradient_check: bool = True,
    **settings: Any,
) -> Explanation:
    """Explain the predictions of ``model`` for the series ``x``.

    Parameters
    ----------
    model : nn.Module, callable, estimator or Predictor
        Maps (batch, time, channel) to (batch, class) or (batch, time, class); :class:`tempograd.Predictor` says
        more: task, names of the outputs, order of the axes. Estimators and functions of numpy arrays, through
        ``tempograd.adapters``, are for methods without a gradient.
    x : Tensor or array of shape (batch, time, channel), or Series
        Or a list of series (time, channel), also of unequal length, each shown to the model at its own; or a
        mapping of several inputs; or a data frame, read by :func:`tempograd.read_series`.
        :class:`tempograd.Series` says more: what was observed, ids, names, what the model gets beside them.
    method : str or Explainer
        A name from ``tempograd.EXPLAINERS``, or an explainer.
    target : int, str, Tensor of shape (batch,) or (batch, time), tuple or callable, optional
        Class or output to explain, or a function of the output that picks one score per series; by default the
        predicted class, and class 1 of a model with a single logit.
    targets : list of targets or "all", optional
        Several targets in one call, which share the passes of the model where the method can.
    output : {"probability", "raw"}, optional
        Softmax (sigmoid for a single column), or the output as it is; by default what the task says.
    steps : int, list of int or "own", optional
        For one output per step: which of them are explained, by default all.
    baseline : {"zero", "average", "background"}, or Tensor or Series that broadcasts to ``x``, optional
        What "absent" means, by default zero; ``"background"`` are values of the background series, drawn anew for
        each sample.
    background : series like ``x``, optional
        Other series, as the model reads them: those of ``baseline="background"`` and those that methods learn
        from, such as GradientSHAP's pool of baselines. Every method accepts them, so that one loop runs all; those
        that learn nothing leave them alone, and those that learn a baseline take the named one.
    seed : int
        Of the random draws.
    draws : int
        Realisations of a model that draws random numbers to average over, 32 say.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.
    precision : {"full", "tf32", "bf16"}
        How exactly the model multiplies.
    gradient_check : bool
        Whether the gradient is compared with differences of the score.
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
    if background is not None:
        model, x = nouns(model, x)
        explainer = fitted(explainer, model, x, background, baseline, seed)
        background = background if is_background(baseline) else None
    question = Question(target, targets, output, steps, baseline, background)
    return explainer._explain(model, x, question, Effort(seed, draws, batch_size, precision, gradient_check))


def fitted(
    explainer: Explainer, model: Predictor, x: Series, background: Any, baseline: Any, seed: int
) -> Explainer:
    """Return the explainer after it learnt from the background series, unless they are only drawn from."""
    if is_background(baseline) and not explainer.needs_fit:
        return explainer
    series = Series.of(background)
    if is_several(x.x) or x.fixed is not None:
        explainer._require_companions(None)
    elif not is_several(series.x) and series.shape[2] != x.shape[2]:
        raise InputError(
            f"The background series have {series.shape[2]} channels, x has {x.shape[2]}: pass series of the same "
            f"channels as {arg:question.background}."
        )
    return explainer.fit(model, series, seed=seed)


def keywords(function: Callable[..., object]) -> set[str]:
    """Return the arguments of a function that are passed by their names."""
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def explainer_of(
    method: str | Explainer, settings: dict[str, Any], caller: Callable[..., object] = explain
) -> Explainer:
    """Return the explainer, made by its name, with settings that it has and that no argument of ``caller`` is."""
    if not isinstance(method, str | Explainer):
        raise InputError(f"method must be a name or an explainer, as tuning.explainer is, got {brief(method)}.")
    kind = EXPLAINERS[method] if isinstance(method, str) else type(method)
    name = method if isinstance(method, str) else method.name
    known = {f.name for f in fields(kind) if not f.metadata.get("fitted")}
    for setting in settings:
        taken = keywords(caller)
        if setting in known and isinstance(method, str):
            continue
        if setting in known:
            raise InputError(f"{setting}= is a setting of {name}: pass it when the explainer is made.")
        if setting in keywords(explain) - taken:
            raise InputError(
                f"{caller.__name__} does not take {setting}=: start a run for each target, or explain one group "
                "of series by itself."
            )
        choices = known | taken if isinstance(method, str) else taken
        short = {"n_samples": "n_steps", "n_steps": "n_samples"}  # whichever of the two a method has
        raise UnknownNameError(f"option of {name}", setting, choices, short=short)
    return kind(**settings) if isinstance(method, str) else method


def require_alone(explainer: Explainer) -> None:
    """Refuse a method whose scores depend on a series' company, where series are explained in parts.

    Examples
    --------
    >>> require_alone(EXPLAINERS["extremal_mask"]())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: extremal_mask learns one network for all series ... use dynamask, ...
    """
    if explainer.shared:
        raise InputError(
            f"{explainer.name} learns one network for all series that are explained together, so its scores "
            "would depend on how the data set is split: use dynamask, which learns for each series alone, or "
            "explain one group of series by itself."
        )
