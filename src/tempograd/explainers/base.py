"""What every explainer shares: hyper-parameters as fields, one call, one kind of result."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from tempograd import checks, settings
from tempograd.brief import brief
from tempograd.engine import (
    Model,
    Question,
    change,
    computing,
    fingerprint,
    mutable_if_needed,
    one_logit,
    quiet,
)
from tempograd.engine.guess import PROBABILITY
from tempograd.engine.realisation import generators_kept
from tempograd.engine.second_look import FEW, asked_twice, second_look, trusted
from tempograd.errors import InputError, SettingError, UnknownNameError, warn
from tempograd.explainers._doubts import varied, warn_of_doubts, warn_of_noise
from tempograd.explainers._far_scale import at_any_scale
from tempograd.explainers._over_draws import over_draws
from tempograd.explainers._path import Attribution
from tempograd.explainers._published import as_published
from tempograd.explanation import Explanation
from tempograd.registry import Registry

TRIES = 8  # that a model gets to show that it draws, which it may do rarely

EXPLAINERS: Registry[type["Explainer"]] = Registry("explainer")


@dataclass(frozen=True)
class Explainer(ABC):
    """Scores every value of a series by its part in a prediction.

    Subclasses are frozen dataclasses: their fields are the hyper-parameters, and nothing else. The model
    arrives with the call, so one explainer serves many models. A field marked ``metadata={"fitted": True}``
    holds what :meth:`fit` learnt; it is no hyper-parameter.
    """

    signed: ClassVar[bool] = True
    """Whether the sign tells the direction of the effect."""
    deterministic: ClassVar[bool] = False
    """Whether the seed makes no difference."""
    needs_gradient: ClassVar[bool] = True
    """Whether the model must be differentiable."""
    needs_module: ClassVar[bool] = False
    """Whether the model must be an ``nn.Module``, since its layers are read."""
    needs_fit: ClassVar[bool] = False
    """Whether training series are needed before explaining."""
    needs_prefixes: ClassVar[bool] = False
    """Whether the model must answer prefixes of a series, or every step from the steps up to it."""
    needs_probabilities: ClassVar[bool] = False
    """Whether the output must be probabilities."""
    shared: ClassVar[bool] = False
    """Whether series explained together influence each other."""
    complete: ClassVar[bool] = False
    """Whether the scores sum to the score of x minus that of the baseline."""
    targeted: ClassVar[bool] = True
    """Whether the scores are about one target; otherwise they are about the whole output."""
    zero_if_ignored: ClassVar[bool] = False
    """Whether a value that the model ignores scores exactly 0."""
    blends_steps: ClassVar[bool] = False
    """Whether absent values are blends of other steps, so that a series of one step has nothing to tell."""
    amortised: ClassVar[bool] = False
    """Whether a network learnt over training series gives the scores: for series as long as those, and only as
    finely as it could learn from them."""
    caveat: ClassVar[str] = ""
    """How the warning begins that this method may give with its scores; empty if there is none."""
    known_quirks: ClassVar[frozenset[str]] = frozenset()
    """Faults of the released code this method can show, by their keys in the published protocol."""

    quirks: frozenset[str] = field(default=frozenset(), kw_only=True)

    def __post_init__(self) -> None:
        settings.check(self)
        if not isinstance(self.quirks, (frozenset, set, list, tuple)):
            raise SettingError(f"quirks must be a set of keys, got {brief(self.quirks)}.")
        for key in self.quirks:
            if not isinstance(key, str) or key not in self.known_quirks:
                raise UnknownNameError(f"quirk of {type(self).__name__}", key, self.known_quirks)
        object.__setattr__(self, "quirks", frozenset(self.quirks))

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the method with the paper's settings for a data set, known faults included."""
        raise UnknownNameError(f"published setting of {cls.__name__}", dataset, ())

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer that has learnt what it needs from training series; most methods need nothing.

        The explainer itself stays as it is: write ``explainer = explainer.fit(model, x)``.
        """
        return self

    @property
    def learnt(self) -> Any:
        """Return what :meth:`fit` learnt, None before."""
        return next((getattr(self, f.name) for f in fields(self) if f.metadata.get("fitted")), None)

    @property
    def name(self) -> str:
        """Return the name in the registry."""
        return next((name for name, kind in EXPLAINERS.items() if kind is type(self)), type(self).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("fitted")}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in plain.items()}
        return plain | {"quirks": sorted(self.quirks)}

    def __call__(
        self,
        model: Model,
        x: Any,
        *,
        target: Any = None,
        baseline: Any = None,
        mask: Any = None,
        steps: Any = None,
        output: str = PROBABILITY,
        seed: int = 0,
        ids: Any = None,
        layout: str = "BTD",
        missing: str = "error",
        draws: int = 1,
        chunk: int | None = None,
        precision: str = "full",
        gradient_check: bool = True,
    ) -> Explanation:
        """Explain ``model(x)``.

        Parameters
        ----------
        model : nn.Module or callable
            Maps (batch, time, channel) to (batch, class) or, one output per step, (batch, time, class).
        x : Tensor or array of shape (batch, time, channel)
        target : int, Tensor of shape (batch,) or (batch, time), or callable, optional
            Class or output to explain, by default the predicted one; a function picks one score per series
            from the output. A single probability is that of class 1, which is the default for every series, and 0
            is its complement.
        baseline : {"zero", "average"} or Tensor that broadcasts to ``x``, optional
            What "absent" means, by default zero.
        mask : Tensor like ``x``, optional
            1 where a value was observed. Unobserved cells are never attributed, but hold a number in ``x`` too.
        steps : int, list of int or "own", optional
            For one output per step: which of them are explained together, by default all; ``"own"`` keeps
            each cell's effect on its own step.
        output : {"probability", "raw"}
            Whether softmax (sigmoid for one column) is applied to the model's output.
        seed : int
            Draws depend on it, on the series' id and on nothing else.
        ids : distinct integers, optional
            By default 0, 1, …
        layout : {"BTD", "BDT"}
            Order of the axes of ``x`` and ``mask``; the model is always called with (batch, time, channel).
        missing : {"error", "mask"}
            What NaN in ``x`` is: a mistake, or a value that was not observed. Such cells are then left out as
            ``mask`` leaves cells out, beside those, and hold the baseline where the model reads them; the
            explanation's ``x`` is the series as the model read it, and its ``mask`` tells which cells it lacks.
        draws : int
            For a model that draws random numbers: how many realisations of it are explained and averaged, each
            with random numbers that all series and all their perturbations share.
        chunk : int, optional
            Sequences per pass of the model; found automatically by default.
        precision : {"full", "tf32", "bf16"}
            How exactly the model multiplies: as torch's settings say, or faster for this call, in float32 rounded
            to 10 bits (on a GPU) or under bfloat16 autocast, 8 bits.
        gradient_check : bool, default=True
            Whether methods that follow a path compare the gradient with differences of the score, three forward
            passes a series; see ``Explanation.gradient_check``.
        """
        self._check_call(model, target, chunk, gradient_check)
        x = checks.as_tensor(x, "x")  # before torch is asked for anything
        draws = checks.whole(draws, "draws", 1, settings.LARGEST)
        with generators_kept(model), quiet(model) as put_buffers_back:
            question = Question.ask(
                model,
                x,
                target=target,
                baseline=baseline,
                mask=mask,
                steps=steps,
                output=output,
                seed=seed,
                ids=ids,
                layout=layout,
                missing=missing,
                chunk=chunk,
            )
            question.checked = gradient_check and not self.quirks and not isinstance(steps, str)
            if self.quirks:
                question = as_published(question, self.quirks)
            with computing(precision, question.device):
                result, question, draws = self._over_draws(question, draws)
                few = _few(question)
                look = None if trusted(model, few) else second_look(model, few)
                put_buffers_back()  # where a forward keeps state
                mark = fingerprint(model)  # while the device is busy
                question.verify(result.values)
                varies = draws > 1 or varied(question, look)
                warn_of_doubts(question, look)
            put_buffers_back()
        if varies and draws == 1:
            warn_of_noise()
        return Explanation(
            **(result._asdict() | {"signed": self.signed and result.signed}),
            target=_explained(question, output),
            output=str(output),
            steps=question.steps,
            baseline=question.baseline,
            mask=question.mask,
            x=question.x,
            ids=question.ids,
            seed=question.seed,
            method=self.name,
            parameters=self.parameters,
            fingerprint=mark(),
            draws=draws,
            varies=varies,
            columns=question.columns,
        )

    def _over_draws(self, question: Question, draws: int) -> tuple[Attribution, Question, int]:
        """Explain the model, or as many realisations of it as were asked for, if there is more than one."""
        if draws > 1:
            if self.needs_module:
                raise InputError(f"{self.name} reads the layers of the model, which draws= cannot repeat.")
            if any(_varies(question) for _ in range(TRIES)):
                return *over_draws(question, self._attribution, draws), draws
            warn(f"draws={draws} makes no difference: the model answers the same series the same each time.")
        return self._attribution(question), question, 1

    def _attribution(self, question: Question) -> Attribution:
        found = at_any_scale(question, lambda asked: mutable_if_needed(lambda: self.attribute(asked)))
        told = found.change is not None or not self.targeted or self.quirks
        blank = ~found.values.flatten(1).any(1)
        if question.mask is not None:
            blank &= question.mask.flatten(1).any(1)
        if told or not bool(blank.any()):
            return found
        return found._replace(change=change(question))  # which a map of zeros may have to explain

    def _check_call(self, model: Any, target: Any, chunk: Any, gradient_check: Any) -> None:
        checks.model(model)
        checks.flag(gradient_check, "gradient_check")
        if chunk is not None:
            checks.whole(chunk, "chunk", 1)
        if self.needs_fit and self.learnt is None:
            raise InputError(
                f"{self.name} learns from training series: write explainer = explainer.fit(model, train), which "
                "returns a new one, or pass train= to tempograd.explain."
            )
        if target is not None and not self.targeted:
            warn(f"{self.name} explains the whole output of the model: target= makes no difference to its scores.")

    @abstractmethod
    def attribute(self, question: Question) -> Attribution:
        """Compute the scores; :meth:`Explainer.__call__` has checked and completed the arguments."""


def _explained(question: Question, output: str) -> Tensor | None:
    """Return the explained class in the terms of the asked ``output``; None if a function picked the score.

    Released code may have read a single logit as it is (A6), as output 0; it is still that of class 1 of two.
    """
    target = question.target if isinstance(question.target, Tensor) else None
    if target is None or question.columns is None or question.output == output:
        return target
    if not one_logit(question.columns, output):
        return target
    if question.asked_target is not None:
        raise InputError(
            "As the released code does it (A6) the model's only output is read as it is, so no class of two "
            "can be asked for: leave target out."
        )
    return target + 1


def _few(question: Question) -> Tensor:
    """Return some series that go through the model at once."""
    return question.block(slice(0, min(FEW, question.chunk or FEW))).x


def _varies(question: Question) -> bool:
    seen = asked_twice(question.model, _few(question))
    return seen is not None and seen[1]
