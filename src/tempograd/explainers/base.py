"""What every explainer shares: hyper-parameters as fields, one call, one kind of result."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from tempograd.core import errors, validation
from tempograd.core.errors import DataError, Finding, InputError, arg, brief, quote, short_path, warn
from tempograd.core.estimate import Estimate
from tempograd.core.question import Effort, Question
from tempograd.core.registry import Registry
from tempograd.core.rng import Stream
from tempograd.core.series import Series, renumbered
from tempograd.data.table import is_frame
from tempograd.engine import Ask, Call, fingerprint, frozen, inputs, outputs
from tempograd.engine.ask import Background, score_delta
from tempograd.engine.model import PRECISIONS, computing, owner, place, trusted
from tempograd.engine.predictor import Predictor
from tempograd.engine.second_look import FEW, Varying, look_again, run_twice
from tempograd.explainers import files
from tempograd.explainers.files import LearntNetwork, LearntParts
from tempograd.explanation import Explanation, Explanations, Facts
from tempograd.explanation.core import label_accuracy
from tempograd.explanation.diagnostics import wrong_gradient
from tempograd.explanation.targets import key_of
from tempograd.sampling.realisations import over_draws
from tempograd.targets import TargetScore
from tempograd.typing import InputBaselines, Inputs, Model, Output, Precision, Setting, Steps, Target, Targets

Method = TypeVar("Method", bound="Explainer")
FAR, FEW_SERIES = 5, 10  # standard deviations that one of a few scaled series may be off
ENOUGH, MANY = 20, 200  # values of a channel that tell, series that are looked at
TRIES = 8  # that a model gets to show that it draws, which it may do rarely
# Models whose outputs were read as scores of three classes or more
_warned: "WeakValueDictionary[int, object]" = WeakValueDictionary()

EXPLAINERS: Registry[type["Explainer"]] = Registry(
    "explainer",
    "tempograd.explainers",
    lambda thing: isinstance(thing, type) and issubclass(thing, Explainer),
    "a class under tempograd.Explainer",
)


@dataclass(frozen=True)
class Explainer(ABC):
    """Scores every value of a series by its part in a prediction.

    Subclasses are frozen dataclasses: their fields are the hyper-parameters, and nothing else. The model
    arrives with the call, so one explainer serves many models. A field marked ``metadata={"fitted": True}``
    holds what :meth:`fit` learnt; it is no hyper-parameter.

    Attributes
    ----------
    signed : bool
        Whether the sign tells the direction of the effect.
    deterministic : bool
        Whether the seed makes no difference.
    needs_gradient : bool
        Whether the model must be differentiable.
    needs_module : bool
        Whether the model must be an ``nn.Module``, since its layers are read.
    needs_fit : bool
        Whether training series are needed before explaining.
    needs_prefixes : bool
        Whether the model must take prefixes of a series, or every step from the steps up to it.
    needs_probabilities : bool
        Whether the output must be probabilities.
    shared : bool
        Whether series explained together influence each other.
    complete : bool
        Whether the scores sum to the score of x minus that of the baseline.
    uses_baseline : bool
        Whether the scores compare with the baseline.
    takes_background : bool
        Whether values of other series, drawn anew for each sample, can be the baseline.
    targeted : bool
        Whether the scores are about one target; otherwise they are about the whole output.
    zero_if_ignored : bool
        Whether a value that the model ignores scores exactly 0.
    blends_steps : bool
        Whether absent values are blends of other steps, so that a series of one step has nothing to tell.
    takes_inputs : bool
        Whether the model may take several inputs, or fixed ones beside the series: for methods that treat cells
        alike wherever they lie, and leave those alone that were not observed.
    caveat : str
        How the warning begins that this method may give with its scores; empty if there is none.

    Notes
    -----
    What a subclass may override, here and in the families of methods; names and arguments change with a minor
    release at most:

    - :meth:`attribute`, the method itself: an ask to a list of estimates, one for each target.
    - :meth:`grid`, the settings that are worth trying for a model; ``takes_background`` and the other class facts;
      ``parameters``, the hyper-parameters as plain data.
    - ``_network()``, what makes the network that :meth:`fit` learns; ``_learnt_parts()`` and
      ``_with_learnt(parts)``, what it learnt as a file holds it, where that is neither a network nor series.
    - ``question(ask)``, what is asked, and ``_explanation(ask, estimate, shown)``, the result: of a method or
      variant that changes baseline, steps or output.
    - ``_examined``, whether settings and results are examined and doubts are said.
    - TIMING: ``controlled``, ``_positions(points, like)``, where points lie on the path, (points,),
      ``_sample_masks(streams, sampler)``, independent masks, True where a cell is active, and
      ``masked_path(block, drawn, stage)``, the paths that masks leave.
    - RandIG: ``moves``, the probability that a cell moves, and ``_positions`` as of TIMING.
    - GradientSHAP: ``_series_positions(block, stream)``, positions for each series, (series or 1, points),
      ``_pool(ask)`` and ``_baselines(block, stream, ask)``, the series to draw from, and what looks some up.
    - DeepLIFT: ``_nodes()``, where between both outputs the slope of softmax is taken.
    - LIME: ``_scores`` and ``_solve``, the outputs for its samples, and the linear model of them.
    - Occlusion: ``_at_own_step`` and ``_own_target``, effects on each cell's own step, and the class there.
    - Learnt masks: ``_distance(clean, output, steps)``, how far outputs are from the clean ones, and
      ``_steps(ask, groups, leaves)``, the loss terms of each step of an epoch.
    - Dynamask: ``_learn(ask, series)``, ``_aim(errors)`` and ``_chosen(masks, errors)``, masks for each area,
      their goal, and the best.
    - FIT: ``_fit_schedule()`` and ``_network()``, how and which generator learns; ``losses`` of the generator.
    - TimeX and TimeX++: ``_learnt_from``, ``_training_set`` and ``_training``, what is learnt from and how,
      ``_label_loss`` and ``_divergence``, parts of the loss, ``_masks``, the scores, and ``_batching(ask)``, how
      many series go through the mask generator at once; ``_mode``, ``_clip`` and ``_judge`` of a training, and
      ``batch`` of a training set.
    - Beside explainers: ``score`` and ``schedule`` of metrics of faithfulness, ``_loss`` of a recipe of training.
    """

    signed: ClassVar[bool] = True
    deterministic: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = True
    needs_module: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = False
    needs_prefixes: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    complete: ClassVar[bool] = False
    uses_baseline: ClassVar[bool] = True
    takes_background: ClassVar[bool] = False
    targeted: ClassVar[bool] = True
    zero_if_ignored: ClassVar[bool] = False
    blends_steps: ClassVar[bool] = False
    takes_inputs: ClassVar[bool] = False
    caveat: ClassVar[str] = ""
    _examined: ClassVar[bool] = True  # settings and results: rarely seen cells, gradients, scores that are all 0

    if TYPE_CHECKING:  # a class from the registry has settings of its own

        def __init__(self, **settings: Setting) -> None: ...

    __post_init__ = validation.check_settings  # type: ignore[misc]  # a function of the object alone, and so a method

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return settings that :func:`tempograd.tune` tries beside the default, for series (time, channel).

        They differ in what is computed, and not only in how exactly. Those that a method refuses for the series at
        hand may be among them. Most methods have none.
        """
        return []

    def fit(self, model: Model | Predictor, x: Inputs | Series, *, seed: int = 0) -> Self:
        """Return a new explainer that has learnt what it needs from training series; most methods need nothing.

        The explainer itself stays as it is: write ``explainer = explainer.fit(model, x)``.
        """
        predictor, series = nouns(model, x)
        values, several = series.filled, inputs.is_several(series.x)
        if several or series.fixed is not None:
            self._require_companions(None)
        if several:
            inputs.pack_inputs(values)  # which says what is wrong
        else:
            validation.check_series(values, name="the training series")
        call = Call(pick=predictor.pick, model_layout=predictor.layout)
        return self._fit(call.adapt(predictor.called), values, validation.check_int(seed, "seed"))

    def _fit(self, model: Model, x: Any, seed: int) -> Self:
        """Return a copy that has learnt from series that were checked: a tensor, or the inputs of several."""
        return self

    @property
    def learnt(self) -> object:
        """Return what :meth:`fit` learnt, None before."""
        return next((getattr(self, f.name) for f in fields(self) if f.metadata.get("fitted")), None)

    @property
    def fingerprint(self) -> str:
        """Return a hash of method, settings and what was learnt: two that are alike give the same scores."""
        return files.fingerprint_of_explainer(self.name, self.parameters, self._learnt_parts())

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the settings and what :meth:`fit` learnt to a safetensors file, which holds no code.

        Read it with :meth:`load`. A file that is no explainer is only replaced with ``force=True``.
        """
        name = EXPLAINERS.name_of(type(self))
        if name is None:
            raise InputError(f"{type(self).__name__} is not in tempograd.EXPLAINERS: register the class.")
        return files.write_explainer(path, name, self.parameters, self._learnt_parts(), force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an explainer written by :meth:`save`: the same settings, and all that was learnt to the last bit.

        Every method is read by ``Explainer.load``; ``Fit.load`` and so on take files of that method alone.

        Examples
        --------
        >>> import tempfile, tempograd
        >>> path = Path(tempfile.mkdtemp()) / "explainer.safetensors"
        >>> Explainer.load(tempograd.Timing(n_samples=80).save(path)).n_samples
        80
        """
        explainer, learnt = files.read_explainer(path, EXPLAINERS)
        if not isinstance(explainer, cls):
            raise DataError(f"{short_path(path)} holds {explainer.name}: read it with tempograd.Explainer.load.")
        try:
            return explainer if learnt.facts is None else explainer._with_learnt(learnt)
        except Exception as error:  # of any kind, from torch or from a method of somebody else
            what = f"What {explainer.name} learnt in {short_path(path)}"
            raise DataError(f"{what} does not fit the method that is installed here: fit it again.") from error

    def _learnt_parts(self) -> LearntParts:
        """Return what was learnt as plain data and tensors, none before: of series, or of a network."""
        return LearntParts(None, {}) if self.learnt is None else files.learnt_parts(self.learnt, self.name)

    def _with_learnt(self, parts: LearntParts) -> Self:
        """Return a new explainer that has learnt what the parts hold, the inverse of ``_learnt_parts``."""
        name = next(f.name for f in fields(self) if f.metadata.get("fitted"))
        learnt = files.network_of(parts, self._network()) if "sizes" in parts.facts else files.inputs_of(parts)
        return replace(self, **{name: learnt})

    def _network(self) -> Callable[..., LearntNetwork]:
        """Return what makes the network that :meth:`fit` learns from its sizes, for a method that learns one."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Return the name in the registry."""
        return next(filter(None, map(EXPLAINERS.name_of, type(self).__mro__)), type(self).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("fitted")}

    @property
    def facts(self) -> Facts:
        """Return what an explanation keeps of its method, which a variant that promises less may override."""
        return Facts(
            complete=self.complete and self._examined,
            deterministic=self.deterministic,
            needs_gradient=self.needs_gradient,
            adaptive=getattr(self, "controlled", False) and self._examined,
            unit=next((name for name in ("n_samples", "n_steps") if type(getattr(self, name, None)) is int), ""),
        )

    def __call__(
        self,
        model: Model | Predictor,
        x: Inputs | Series,
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
    ) -> Explanation:
        """Explain ``model(x)``.

        Parameters
        ----------
        model : nn.Module, callable, estimator or Predictor
            Maps (batch, time, channel) to (batch, class) or, one output per step, (batch, time, class). A
            :class:`tempograd.Predictor` says more about it: its task, the names of its outputs, its order of axes.
        x : Tensor or array of shape (batch, time, channel), or Series
            Or a list of series (time, channel), also of unequal length, or a mapping of several inputs. A
            :class:`tempograd.Series` says more about them: mask, ids, names, what the model gets beside them.
        target : int, str, Tensor of shape (batch,) or (batch, time), tuple or callable, optional
            Class or output to explain, by number, name or address, by default the predicted class; a function
            picks one score per series from the output. A single probability is that of class 1, which is the
            default for every series, and 0 is its complement.
        targets : list of targets or "all", optional
            Several targets in one call, which returns a mapping of explanations. Path methods, occlusion and LIME
            share the passes of the model between them, unless ``tolerance=`` lets each stop by itself.
        output : {"probability", "raw"}, optional
            Whether softmax (sigmoid for one column) is applied to the model's output; by default what the task
            says.
        steps : int, list of int or "own", optional
            For one output per step: which of them are explained together, by default all; ``"own"`` keeps
            each cell's effect on its own step.
        baseline : {"zero", "average", "background"}, or Tensor or Series that broadcasts to ``x``, optional
            What "absent" means, by default zero. ``"background"`` are values of other series, drawn from
            ``background`` anew for each sample.
        background : series like ``x``, optional
            The other series of ``baseline="background"``, as the model reads them. A row that equals the explained
            series is never drawn for it.
        seed : int
            Draws depend on it, on the series' id and on nothing else.
        draws : int
            For a model that draws random numbers: how many realisations of it are explained and averaged, each
            with random numbers that all series and all their perturbations share.
        batch_size : int, optional
            Sequences per pass of the model; found automatically by default.
        precision : {"full", "tf32", "bf16"}
            How exactly the model multiplies: as torch's settings say, or faster for this call, in float32 rounded
            to 10 bits (on a GPU) or under bfloat16 autocast, 8 bits.
        gradient_check : bool, default=True
            Whether methods that follow a path compare the gradient with differences of the score, three forward
            passes a series; see ``Explanation.gradient_check``.
        """
        question = Question(target, targets, output, steps, baseline, background)
        return self._explain(model, x, question, Effort(seed, draws, batch_size, precision, gradient_check))

    def _explain(self, model: Any, x: Any, question: Question, effort: Effort) -> Explanation:
        """Explain, after learning from the background series, unless they are only drawn from."""
        findings: list[Finding] = []
        with errors.held(errors.collecting, findings):
            predictor, series = nouns(model, x)
            explainer = self
            if question.background is not None:
                explainer = fitted(self, predictor, series, question, effort.seed)
                drawn = validation.is_background(question.baseline)
                question = question if drawn else replace(question, background=None)
            return explainer._answer(predictor, series, question, effort, findings)

    def _answer(
        self, predictor: Predictor, series: Series, question: Question, effort: Effort, findings: list[Finding]
    ) -> Explanation:
        """Ask about every target, look at the model once more, and refuse or warn of what is wrong."""
        bare, draws = predictor.called, validation.check_int(effort.draws, "draws", 1, validation.LARGEST)
        with frozen(bare) as restore_buffers:
            asks, shown = self._asks(predictor, bare, series, question, effort)
            first, varies, alone = asks[0], "", False
            with computing(effort.precision, first.device):
                count = min(FEW, first.batch_size or FEW, len(first.x))
                count -= count > 1 and count == first.x.shape[1]  # which would hide which axis is which
                few = first.block(slice(0, count))
                beside = None if first.batch_size == 1 else few.baseline  # where each series runs by itself
                if draws > 1 and self._draws(first, few.x, beside, draws):
                    estimates, asks = over_draws(asks, self._attributions, draws)
                else:
                    estimates, draws = self._attributions(asks), 1
                if not trusted(first.model, few.x, self.name):
                    varies, alone = self._look_again(first.model, asks[0], few.x, beside)
                if alone:  # since series cannot be run together
                    asks = [ask.replace(batch_size=1) for ask in asks]
                    with errors.counted_warnings():  # what there is to say was said
                        estimates = self._attributions(asks)
                restore_buffers()  # where a forward keeps state
                mark = fingerprint(bare)  # while the device is busy
                for ask, estimate in zip(asks, estimates, strict=True):
                    ask.verify(estimate.values)
        if varies:
            warn("model.stochastic" if varies == "drawn" else f"model.{'alone' if alone else 'mixes'}")
        shown |= {"fingerprint": mark(), "draws": draws, "question": question, "mixes_series": varies == "batch"}
        self._note_assumptions(findings, predictor, question, asks[0], shown)
        shown |= {"varies": draws > 1 or (bool(varies) and not alone), "findings": tuple(findings)}
        explanations = [self._explanation(*pair, shown) for pair in zip(asks, estimates, strict=True)]
        explanations = [named_as_labels(part, series.classes) for part in explanations]
        suspects = (part for part in explanations if part.gradient_check and part.gradient_check.mostly_wrong)
        problem = next(filter(None, map(wrong_gradient, suspects)), "")
        doubts = [] if explanations[0].y is None else low_accuracy(explanations[0])
        if problem and errors.warning_counts.get() is None:  # otherwise the verdict on all batches tells
            doubts.append(Finding("gradient.wrong", "warning", {"problem": f"{problem[:1].upper()}{problem[1:]}"}))
        for finding in doubts:
            explanations = [replace(part, findings=(*part.findings, finding)) for part in explanations]
            warn(finding)
        return explanations[0] if question.targets is None else together(explanations, question.targets)

    def _asks(
        self, predictor: Predictor, model: Model, series: Series, question: Question, effort: Effort
    ) -> tuple[list[Ask], dict[str, Any]]:
        """Return an ask for each target, and what explanations show beside their results."""
        output, task, classes = self._read_question(predictor, series, question, effort)
        baseline, background = question.baseline if question.background is None else None, None
        if isinstance(baseline, Series):
            baseline = baseline.filled
        call, x, baseline, mask, raw, shown = as_one_input(predictor, series, baseline)
        if call.packing is not None or call.by_row:
            self._require_companions(question.steps, call)
        adapted = call.adapt(model)
        if question.background is not None:
            pool = call.pooled(Series.of(question.background).filled, "The background series")
            seed, where = validation.check_int(effort.seed, "seed"), place(adapted, x)
            background = Background.of(pool, x, seed, where, Stream.BACKGROUND)
            baseline = pool.mean(0, keepdim=True, dtype=torch.float64)
        ask = Ask.create(
            adapted,
            x,
            replace(question, targets=None, output=output, baseline=baseline, background=None),
            mask=mask,
            empty=series.fill,
            seed=effort.seed,
            ids=series.keys,
            batch_size=effort.batch_size,
            task=task,
            classes=classes,
            call=call,
            named_baseline=question.baseline is not None,
            background=background,
            checked=effort.gradient_check and self._examined and not isinstance(question.steps, str),
        )
        names = series.ids if isinstance(series.ids, tuple) else None
        shown |= {"y": renumbered(series, ask.classes).y, "names": names, "classes": ask.classes}
        shown["raw"] = None if raw is None else validation.check_raw(raw, ask.x, ask.mask)
        asks = [ask] if question.targets is None else asks_of(ask, question.targets)
        asks = [self.question(one) for one in asks]
        if asks[0].output != ask.output:  # of a variant, which counts outputs otherwise
            asks = [one.replace(classes=None) for one in asks]
        return asks, shown

    def _read_question(
        self, predictor: Predictor, series: Series, question: Question, effort: Effort
    ) -> tuple[Any, str | None, Sequence[str] | None]:
        """Refuse what cannot be asked, and return what is known of the outputs: which of them, task, classes."""
        validation.check_flag(effort.gradient_check, "gradient_check")
        validation.check_choice(effort.precision, "precision", PRECISIONS)
        if effort.batch_size is not None:
            validation.check_int(effort.batch_size, "batch_size", 1)
        if isinstance(question.baseline, str) or question.targets is not None:
            self._require_answerable(question)
        if self.needs_fit and self.learnt is None:
            raise InputError(f"{self.name} learns from training series: {arg:explain.fit}.", code="method.fit")
        if question.target is not None and not self.targeted:
            warn("target.unused", method=self.name)
        output, task, classes = predictor.known_of_outputs(question.output)
        targets = (question.target,) if question.targets in (None, "all") else question.targets or ()
        if task is None and output is None:
            task = next((one.task for one in targets if isinstance(one, TargetScore) and one.task), None)
        unsaid = task is None and output is None and question.steps is None
        if unsaid and isinstance(series.y, Tensor) and series.y.is_floating_point():
            numbers = f"{arg:predictor.task=regression} or {arg:predictor.task=forecast}"
            unless = f"{arg:predictor.task=classification} if the outputs are classes"
            raise InputError(f"The labels are real numbers: pass {numbers}, or {unless}.", code="model.task")
        if classes is None and any(isinstance(target, str) for target in targets):
            classes = series.classes  # the names of labels name outputs
        return output, task, classes

    def _require_answerable(self, question: Question) -> None:
        """Refuse a baseline and targets that the method cannot take, before anything runs."""
        targets, method = question.targets, self.name
        if validation.is_background(question.baseline):
            if question.background is None:
                source = f"{arg:question.baseline=background} draws from {arg:question.background}"
                raise InputError(f"{source}: pass both.", code="background.alone")
            if self.uses_baseline and not self.takes_background:
                one = f"{method} compares with one baseline and draws none: use a method that draws them, such as"
                mean = f"timing, or pass the mean of the series as {arg:question.baseline}"
                raise InputError(f"{one} {mean}.", code="background.method")
        if targets is None:
            return
        if question.target is not None:
            both = f"{arg:question.target} and {arg:question.targets} exclude each other"
            raise InputError(f"{both}: put all targets into {arg:question.targets}.", code="targets.both")
        listed = isinstance(targets, Sequence) and len(targets) > 0 and all(one is not None for one in targets)
        if not listed or (isinstance(targets, str) and targets != "all"):
            odd = f"{arg:question.targets} is {brief(targets)}"
            raise InputError(f"{odd}: list the targets, such as [0, 5], or pass 'all'.", code="targets.kind")
        if not self.targeted:
            whole = f"{method} explains the whole output of the model"
            raise InputError(f"{whole}: leave {arg:question.targets} out.", code="targets.whole")

    def _require_companions(self, steps: Any, call: Call | None = None) -> None:
        """Refuse several inputs, series of unequal length and NaN where method or steps cannot take them."""
        unequal, what = call is not None and call.lengths is not None, "models with a single input"
        if unequal or (call is not None and call.gaps is not None):
            what = "series of one length" if unequal else "series without NaN"
        if not self.takes_inputs:
            can = sorted(name for name, kind in EXPLAINERS.items() if kind.takes_inputs)
            padded = f", or pass {arg:series.lengths=padded}" if unequal else ""
            raise InputError(f"{self.name} explains {what}: use one of {', '.join(can)}{padded}.")
        if isinstance(steps, str):
            raise InputError(f"{arg:question.steps=own} is for {what}: pass the steps to explain.")

    def _draws(self, ask: Ask, few: Tensor, baseline: Tensor | None, draws: int) -> bool:
        """Tell whether a model draws random numbers, so that realisations of it can be averaged."""
        if self.needs_module:
            raise InputError(f"{self.name} reads the model's layers, which {arg:question.draws} cannot repeat.")
        if any(run_twice(ask.model, ask.at, few, baseline) == "drawn" for _ in range(TRIES)):
            return True
        warn("draws.unused", draws=draws)
        return False

    def _attributions(self, asks: Sequence[Ask]) -> list[Estimate]:
        """Return an estimate for each ask; where the model overwrites what autograd needs, from copies of that."""
        ask = asks[0] if len(asks) == 1 else asks[0].replace(several=tuple(asks))
        try:  # mutable_if_needed would add a frame to the way of every call
            estimates = self.attribute(ask)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                estimates = self.attribute(ask)
        if not isinstance(estimates, list) or len(estimates) != len(asks):
            raise TypeError(f"{type(self).__name__}.attribute must return one Estimate per target in a list.")
        for number, (one, estimate) in enumerate(zip(asks, estimates, strict=True)):
            if one.progress.resolved is None:  # by a method that has no use for the predictions
                one.read_all()
            if estimate.delta is not None or not self.targeted or not self._examined:
                continue
            blank = ~estimate.values.flatten(1).any(1)
            if one.mask is not None:
                blank &= one.mask.flatten(1).any(1)
            drawn = one.background is not None and self.takes_background and self.needs_gradient
            if drawn or bool(blank.any()):  # a map of zeros may have to be explained
                estimates[number] = estimate._replace(delta=score_delta(one))
        return estimates

    def _look_again(self, model: Model, ask: Ask, few: Tensor, baseline: Tensor | None) -> tuple[Varying, bool]:
        """Run a few series once more: do outputs for the same series differ, and can each be run by itself."""
        look = look_again(model, ask.at, few, baseline)
        if look is None:
            return "", False
        if look.sigmoid and ask.question.output is None and ask.output != "raw":
            warn("model.sigmoid")
        seen = ask.progress.findings.kept() if model is ask.model else None  # which may be a realisation
        varies: Varying = "" if seen is None else look.varies(seen, self.name)
        return varies, varies == "batch" and look.alone and not self.needs_module and ask.batch_size is None

    def _note_assumptions(
        self, findings: list[Finding], predictor: Predictor, question: Question, ask: Ask, shown: dict[str, Any]
    ) -> None:
        """Add what was assumed to the list of what was found, and warn of a doubtful model or baseline."""
        resolved, task = ask.resolved, ask.resolved.task
        asked = question.target is not None or question.targets is not None
        unsaid = ask.task is None and ask.question.output is None
        if (unsaid and not resolved.per_step) or (task is None and not asked):  # the highest of several outputs
            finding = Finding("task.classes", "assumption", {"columns": resolved.columns})
            y = shown["y"]
            certain = ask.classes is not None or (y is not None and not y.is_floating_point())
            model: object = owner(predictor.model) or predictor.model
            if resolved.columns > 2 and not certain and _warned.get(id(model)) is not model:
                warn(finding)
                with suppress(TypeError):  # what takes no weak reference is warned of again
                    _warned[id(model)] = model
            else:
                findings.append(finding)
        if isinstance(resolved.target, TargetScore) and resolved.averaged:
            shape = resolved.averaged
            means = {"shape": str(shape), "example": str(0 if len(shape) == 1 else (0,) * len(shape))}
            means |= {"score": resolved.target.text, "name": resolved.target.name}
            warn(Finding("target.score", "assumption", {"outputs": math.prod(shape)} | means))
        elif not asked and self.targeted and outputs.one_logit(resolved.columns, ask.output):
            findings.append(Finding("target.one", "assumption"))
        elif not asked and self.targeted and resolved.columns > 1:
            label = outputs.outputs_of(task).kind == "labels"
            findings.append(Finding("target.label" if label else "target.predicted", "assumption"))
        learnt = ask.background is not None or bool(validation.unexpanded(ask.baseline).any())  # instead of zeros
        if self.uses_baseline and not ask.named_baseline and not learnt:
            findings.append(Finding("baseline.zero", "assumption"))
            warn_of_far_zero(ask.x, ask.mask, shown["channels"])
        if getattr(predictor.model, "tempograd_created", None) == shown["fingerprint"]:
            warn("model.fresh", name=type(predictor.model).__name__)
        there = getattr(self.learnt, "facts", {}).get("model", shown["fingerprint"])
        if there != shown["fingerprint"]:  # of the model that it learnt from
            warn("fit.model", method=self.name, there=there, here=shown["fingerprint"])

    def _explanation(self, ask: Ask, estimate: Estimate, shown: dict[str, Any]) -> Explanation:
        """Put an estimate together with the ask, and with what else is shown."""
        resolved, prediction = ask.resolved, ask.progress.prediction
        question, facts = shown["question"], self.facts
        variant = ask.output != outputs.link_for(ask.question.output, ask.task)
        if variant or (prediction is not None and not bool(prediction.isfinite().all())):
            prediction = None
        target = question.target if question.targets is None else ask.question.target
        if callable(resolved.target):
            target = resolved.target
        if ask.background is not None and self.takes_background:  # nothing is exact, or the same for all seeds
            facts = replace(facts, complete=False, deterministic=False)
        background = None if ask.background is None else ask.background.fingerprint
        results = estimate._asdict() | {"signed": self.signed and estimate.signed}
        results["question"] = replace(question, target=target, targets=None, background=background)
        results |= {name: getattr(ask, name) for name in ("baseline", "mask", "call", "ids", "seed")}
        results |= {name: getattr(resolved, name) for name in ("steps", "columns", "task")}
        explanation = Explanation(
            **shown | results,
            target=resolved.target if isinstance(resolved.target, Tensor) else None,
            prediction=prediction,
            output=ask.question.output or outputs.output_of(resolved.task),
            x=ask.x if ask.call.gaps is None else ask.x.masked_fill(ask.call.gaps, torch.nan),
            method=self.name,
            parameters=self.parameters,
            facts=facts,
            output_shape=resolved.shape,
        )
        if not type(self).__module__.startswith("tempograd."):  # a method of somebody else's
            explanation.verify()
        return explanation

    def question(self, ask: Ask) -> Ask:
        """Return what is asked; a method may put another baseline there, a variant another output."""
        return ask

    @abstractmethod
    def attribute(self, ask: Ask) -> list[Estimate]:
        """Compute the scores, one estimate for each target: ``ask.each()`` has an ask for each of them."""


def fitted(explainer: Method, model: Predictor, x: Series, question: Question, seed: int) -> Method:
    """Return the explainer after it learnt from the background series, if it learns and has not yet.

    Those that can do without leave series alone that are drawn from.
    """
    drawn = validation.is_background(question.baseline) and not explainer.needs_fit
    if drawn or question.background is None or explainer.learnt is not None:
        return explainer
    series = Series.of(question.background)
    if inputs.is_several(x.x) or x.fixed is not None:
        explainer._require_companions(None)
    elif not inputs.is_several(series.x) and series.shape[2] != x.shape[2]:
        unlike = f"The background series have {series.shape[2]} channels, x has {x.shape[2]}"
        raise InputError(f"{unlike}: pass series of the same channels as {arg:question.background}.")
    return explainer.fit(model, series, seed=seed)


def one_by_one(attribute: Callable[[Method, Ask], Estimate]) -> Callable[[Method, Ask], list[Estimate]]:
    """Let a method that explains one target explain several, one after the other."""

    @wraps(attribute)
    def attribute_each(self: Method, ask: Ask) -> list[Estimate]:
        return [attribute(self, one) for one in ask.each()]

    return attribute_each


def require_probabilities(method: str, ask: Ask, read: Callable[[], Tensor]) -> None:
    """Refuse raw outputs that are no probabilities, and those of several labels, which sum to anything."""
    if ask.output != "probability" and not (ask.output == "raw" and outputs.is_probability(read())):
        none = f"{method} compares probabilities of classes, one of which holds, and the model's outputs are none"
        raise InputError(f"{none}: leave output out if softmax belongs there, or use occlusion for other outputs.")


def check_training(shape: Sequence[int], ask: Ask) -> None:
    """Refuse training series whose time and channel, or channel alone, are not those of the explained ones."""
    fitted, explained = tuple(shape[-2:]), tuple(ask.x.shape[1:])[-len(shape) :]
    if fitted != explained:
        raise InputError(f"The training series have shape {fitted}, x has {explained}: fit with series like x.")


# What a call was given, brought into the form that methods ask in


def nouns(model: Any, x: Any) -> tuple[Predictor, Series]:
    """Return the model as a predictor, and what else than series was given as series."""
    if not isinstance(x, Tensor | Series) and any(map(is_frame, x if isinstance(x, list) else [x])):
        raise InputError("x is a data frame: pass tg.read_series(frame, id=…, time=…), which knows its columns.")
    return model if isinstance(model, Predictor) else Predictor(model), Series.of(x)


def as_one_input(
    predictor: Predictor, series: Series, baseline: Any
) -> tuple[Call, Tensor, Any, Tensor | None, Tensor | None, dict[str, Any]]:
    """Pad series of unequal length, and lay several inputs out as one.

    Return how the model is called with it, the series, baseline, mask and raw values, and the labels.
    """
    lengths = packing = None
    if isinstance(series.x, list):
        if series.fixed is not None:
            both = f"Series of unequal length cannot be combined with {arg:series.fixed}"
            raise InputError(f"{both}: pass {arg:series.lengths=padded}, with the lengths among the fixed ones.")
        lengths = tuple(map(len, series.x))
        sizes = {"count": len(set(lengths)), "least": min(lengths), "most": max(lengths)}
        warn(Finding("series.lengths", "assumption", sizes))
        series = series.padded()
    x, mask, raw = series.x, series.mask, series.raw
    labels = {"channels": series.channels, "times": series.times, "units": series.units}
    if not isinstance(x, Tensor):
        names = inputs.argument_names(predictor.model, len(x)) if isinstance(x, tuple) else ()
        packing, x, baseline, mask, raw = inputs.pack_inputs(
            x, baseline=baseline, mask=mask, raw=raw, names=names, empty=series.fill
        )
        labels = inputs.labels_of(packing, len(x), **labels)
    call = Call(packing, series.fixed, predictor.pick, predictor.layout, lengths)
    labels["truth"] = truth = series.truth
    if packing is not None and truth is not None:
        marks, values = (parts.values() if isinstance(parts, dict) else parts for parts in (truth, series.x))
        pairs = zip(packing.names, marks, values, strict=True)
        cells = {name: torch.zeros_like(part) if mark is None else mark.to(part) for name, mark, part in pairs}
        labels["truth"] = call.pooled(cells, "The truth") > 0
    if series.fill is None:
        call, x = call.reading(x)
    return call, x, baseline, mask, raw, labels


def named_as_labels(found: Explanation, classes: tuple[str, ...] | None) -> Explanation:
    """Name the model's outputs as the labels are, where nobody named them and there is one for each."""
    if found.classes is not None or classes is None:
        return found
    if found.n_outputs in (None, len(classes)):
        return replace(found, classes=classes)
    if found.output == "probability":
        count = f"The labels name {len(classes)} classes, but the model has {found.n_outputs} outputs"
        warn(f"{count}: names and labels are left out.")
    return replace(found, y=None)


def asks_of(ask: Ask, targets: Any) -> list[Ask]:
    """Return an ask for each target; one series is read to see how many there are where all are asked for."""
    if not isinstance(targets, str):
        return [ask.replace(target=outputs.named_target(target, ask.classes)) for target in targets]
    first = ask.block(slice(0, 1))
    with torch.no_grad():
        raw = ask.replace(target=torch.sum, steps=None).forward(first.x, first.index)  # none is chosen yet
    task = outputs.found_task(ask.task, ask.question, tuple(raw.shape[1:]), ask.time)
    flat = raw.ndim == 2 or outputs.outputs_of(task).per_step
    resolved = ask.replace(target=0 if flat else (0,) * (raw.ndim - 1)).resolve(raw)
    count = outputs.class_count(resolved.columns, ask.output)
    every = np.ndindex(resolved.shape) if resolved.shape else range(count)
    return [ask.replace(target=target) for target in every]


def low_accuracy(explanation: Explanation) -> list[Finding]:
    r"""Return a doubt where predicted classes are the labels less often than guesses, by two errors of a share.

    Such an error is :math:`\sqrt{c (1 - c) / n}`, for chance c and n series.
    """
    right, chance, count = label_accuracy(explanation), 1 / (explanation.n_outputs or 2), len(explanation.values)
    if right is None or right >= chance - 2 * math.sqrt(chance * (1 - chance) / count):
        return []
    shares = {"right": f"{100 * right:.0f} %", "chance": f"{100 * chance:.0f} %"}
    return [Finding("model.accuracy", "warning", shares)]


def warn_of_far_zero(x: Tensor, mask: Tensor | None, channels: Sequence[str] | None) -> None:
    """Warn where 0 lies further from a channel's values than these lie apart; a few scaled series may be off."""
    rows = slice(None, None, 1 + len(x) // MANY)
    x = x[rows]
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask[rows]
    low, high = x.where(seen, torch.inf).amin((0, 1)), x.where(seen, -torch.inf).amax((0, 1))
    apart = (high - low).clamp(min=FAR if len(x) < FEW_SERIES else 0)
    far = (low < high) & (torch.maximum(low, -high) > apart) & (seen.sum((0, 1)) >= ENOUGH)
    for one in far.nonzero()[:1, 0].tolist():  # the first of them
        which = {"channel": quote((channels or range(len(far)))[one]), "count": int(far.sum()), "of": len(far)}
        warn("baseline.far", **which, low=float(low[one]), high=float(high[one]))


def together(explanations: Sequence[Explanation], targets: Any) -> Explanation:
    """Return the explanations of several ``targets`` by their keys."""
    asked = [part.question.target for part in explanations] if isinstance(targets, str) else targets
    keys = (key_of(target, place) for place, target in enumerate(asked))
    return cast("Explanation", Explanations(dict(zip(keys, explanations, strict=True))))
