"""Explain by the name of a method; scores that no method made, one's own and random ones."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, UnknownNameError, brief
from tempograd.core.estimate import Estimate
from tempograd.core.question import Effort, Question
from tempograd.core.rng import Stream, keys, uniform
from tempograd.core.series import Series
from tempograd.engine import Ask, slices
from tempograd.engine.predictor import Predictor
from tempograd.explainers.base import EXPLAINERS, Explainer, one_by_one
from tempograd.explanation import Explanation, Facts
from tempograd.typing import InputBaselines, Inputs, Model, Output, Precision, Steps, Target, Targets

Scoring = Callable[[Any, Tensor, Any], Any]  # (model, x, target) -> scores


@dataclass(frozen=True)
class OwnScores(Explainer):
    """Scores of a function of the user's, ``(model, x, target) -> scores``.

    Scores that are nowhere below 0 have no direction. The function is called once for all series, or for
    ``batch_size`` of them at a time.
    """

    title: str = field(metadata={"fitted": True})  # none of its fields is a setting
    function: Scoring = field(metadata={"fitted": True})

    needs_gradient: ClassVar[bool] = False
    takes_inputs: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Return the name of the function."""
        return self.title

    @property
    def facts(self) -> Facts:
        """Return that nothing is known of the method."""
        return Facts(needs_gradient=False)

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        ask.read_all()
        target, parts = ask.resolved.target, list[Tensor]()
        for rows in slices(len(ask.x), ask.batch_size or len(ask.x)):
            block = ask.block(rows)
            chosen = target[rows].to(ask.device) if isinstance(target, Tensor) else target
            with torch.enable_grad():
                scores = self.function(ask.model, block.x, chosen)
            if isinstance(scores, Mapping | tuple):
                scores = ask.call.pooled(scores, "The scores")
            elif isinstance(scores, Sequence):
                scores = Series([validation.as_tensor(part, "scores") for part in scores]).padded().x
            cells = validation.as_tensor(scores, "scores").detach().to(ask.x.device, ask.x.dtype)
            if cells.shape != block.x.shape:
                given = f"{tuple(block.x.shape)}, got {tuple(cells.shape)}"
                raise InputError(f"{self.name} must give one score per value, {given}.")
            parts.append(cells)
        values = torch.cat(parts)
        values = values if ask.mask is None else values.where(ask.mask, 0)
        if not bool(values.isfinite().all()):
            raise InputError(f"Scores of {brief(self.title)} are NaN or infinite where the series has values.")
        return Estimate(values, signed=bool((values < 0).any()))


@EXPLAINERS.register("random")
@dataclass(frozen=True)
class Random(Explainer):
    """Scores uniform on (0, 1), independent of the model and of the values: what no information looks like.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
    >>> scores = Random()(model, torch.zeros(1000, 3, 2)).values
    >>> bool((scores.mean() - 0.5).abs() < 0.02)
    True
    """

    signed: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False
    uses_baseline: ClassVar[bool] = False
    takes_inputs: ClassVar[bool] = True

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        scores = uniform(keys(ask.seed, ask.ids, Stream.SCORES)[..., None], torch.arange(ask.x[0].numel()))
        values = scores.view(ask.x.shape).to(ask.x.device)
        return Estimate(values if ask.mask is None else values * ask.mask)


def explain(
    model: Model | Predictor,
    x: Inputs | Series,
    method: str | Explainer | Scoring = "timing",
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
        mapping of several inputs; :func:`tempograd.read_series` reads data frames and files.
        :class:`tempograd.Series` says more: what was observed, ids, names, what the model gets beside them.
    method : str, Explainer or function
        A name from ``tempograd.EXPLAINERS``, or an explainer, or a function ``(model, x, target) -> scores``.
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
    question = Question(target, targets, output, steps, baseline, background)
    effort = Effort(seed, draws, batch_size, precision, gradient_check)
    return explainer_of(method, settings)._explain(model, x, question, effort)


def keywords(function: Callable[..., object]) -> set[str]:
    """Return the arguments of a function that are passed by their names."""
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def explainer_of(
    method: str | Explainer | Scoring, settings: dict[str, Any], caller: Callable[..., object] = explain
) -> Explainer:
    """Return the explainer, made by its name, with settings that it has and that no argument of ``caller`` is."""
    if caller is explain and callable(method) and not isinstance(method, Explainer | type):
        method = OwnScores(getattr(method, "__name__", type(method).__name__), method)
    if not isinstance(method, str | Explainer):
        kinds = "a name, an explainer or a function (model, x, target) -> scores"
        raise InputError(f"method must be {kinds}, got {brief(method)}.")
    kind = EXPLAINERS[method] if isinstance(method, str) else type(method)
    name = method if isinstance(method, str) else method.name
    known = {f.name for f in fields(kind) if not f.metadata.get("fitted")}
    for setting in settings:
        if setting not in known:
            choices = keywords(caller) | (known if isinstance(method, str) else set())
            short = {"n_samples": "n_steps", "n_steps": "n_samples"}  # whichever of the two a method has
            raise UnknownNameError(f"option of {name}", setting, choices, short=short)
        if not isinstance(method, str):
            raise InputError(f"{setting}= is a setting of {name}: pass it when the explainer is made.")
    return kind(**settings) if isinstance(method, str) else method


def require_alone(explainer: Explainer) -> None:
    """Refuse a method whose scores depend on a series' company, where series are explained in parts.

    Examples
    --------
    >>> require_alone(EXPLAINERS["extremal_mask"]())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: extremal_mask learns one network for all series, ... use dynamask, ...
    """
    if explainer.shared:
        shared = f"{explainer.name} learns one network for all series, so its scores depend on how they are split"
        raise InputError(f"{shared}: use dynamask, or explain one group of series by itself.")
