"""What every explainer shares: hyper-parameters as fields, one call, one kind of result."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
from torch import Tensor

from tempograd.core import settings, validation
from tempograd.core.checks import run_checks
from tempograd.core.errors import DataError, InputError, collect_findings, short_path, silenced, warn
from tempograd.core.estimate import Estimate
from tempograd.core.findings import arg
from tempograd.core.question import Question
from tempograd.core.registry import Registry
from tempograd.core.series import Series
from tempograd.engine import Ask, Call, fingerprint, frozen
from tempograd.engine.ask import score_delta
from tempograd.engine.inputs import is_several, pack_inputs
from tempograd.engine.model import computing, mutable_if_needed, trusted
from tempograd.engine.outputs import AS_THEY_ARE, told_task
from tempograd.engine.predictor import Predictor, require_torch, told_by
from tempograd.engine.second_look import FEW, Varying, look_again, run_twice
from tempograd.explainers.calling import (
    as_one_input,
    asks_of,
    check_labels,
    check_targets,
    common_task,
    drawn_from,
    laid_ready,
    note_assumptions,
    nouns,
    together,
)
from tempograd.explainers.checks import METHOD
from tempograd.explainers.files import (
    LearntParts,
    fingerprint_of_explainer,
    inputs_of,
    parts_of_inputs,
    read_explainer,
    write_explainer,
)
from tempograd.explanation import Explanation, Facts
from tempograd.sampling.realisations import over_draws
from tempograd.typing import (
    InputBaselines,
    Inputs,
    Model,
    Output,
    Precision,
    Setting,
    Steps,
    Target,
    Targets,
    Task,
)

Method = TypeVar("Method", bound="Explainer")
TRIES = 8  # that a model gets to show that it draws, which it may do rarely

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

    Notes
    -----
    What a subclass may override, here and in the families of methods; names and arguments change with a minor
    release at most:

    - :meth:`attribute`, the method itself: an ask to a list of estimates, one for each target.
    - :meth:`grid`, the settings that are worth trying for a model.
    - ``_learnt_parts()`` and ``_with_learnt(parts)``, what :meth:`fit` learnt as a file holds it; for what is no
      series.
    - ``question(ask)``, what is asked: of a method or variant that changes baseline, steps or output.
    - ``_examined``, whether settings and results are examined and doubts are said.
    - ``_positions(points, like)`` of TIMING and RandIG, where points lie on the path, (points,);
      ``_series_positions(block, stream)`` of GradientSHAP, the same for each series, (series or 1, points).
    - ``_sample_masks(streams, sampler)`` of TIMING, independent masks, True where a cell is active.
    - ``masked_path(block, drawn, stage)`` of TIMING, the paths that masks leave.
    - ``_baselines(block, stream, ask)`` of GradientSHAP, what looks up the baselines of some points.
    - ``_distance(clean, output, steps)`` of learnt masks, how far outputs are from the clean ones, and
      ``_steps(ask, groups, leaves)``, the loss terms of each step of an epoch.
    - ``_fit_schedule()`` and ``_task(generator)`` of FIT, how and by which loss its generator learns.
    - ``_batching(ask)`` of TimeX and TimeX++, how many series go through the mask generator at once.
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
    """Whether the model must take prefixes of a series, or every step from the steps up to it."""
    needs_probabilities: ClassVar[bool] = False
    """Whether the output must be probabilities."""
    shared: ClassVar[bool] = False
    """Whether series explained together influence each other."""
    complete: ClassVar[bool] = False
    """Whether the scores sum to the score of x minus that of the baseline."""
    uses_baseline: ClassVar[bool] = True
    """Whether the scores compare with the baseline."""
    draws_baselines: ClassVar[bool] = False
    """Whether background series, where there are some, take the place of a baseline that nobody named."""
    takes_background: ClassVar[bool] = False
    """Whether values of other series, drawn anew for each sample, can be the baseline."""
    targeted: ClassVar[bool] = True
    """Whether the scores are about one target; otherwise they are about the whole output."""
    zero_if_ignored: ClassVar[bool] = False
    """Whether a value that the model ignores scores exactly 0."""
    blends_steps: ClassVar[bool] = False
    """Whether absent values are blends of other steps, so that a series of one step has nothing to tell."""
    takes_inputs: ClassVar[bool] = False
    """Whether the model may take several inputs, or fixed ones beside the series: for methods that treat cells
    alike wherever they lie, and leave those alone that were not observed."""
    amortised: ClassVar[bool] = False
    """Whether a network learnt over training series gives the scores: for series as long as those, and only as
    finely as it could learn from them."""
    caveat: ClassVar[str] = ""
    """How the warning begins that this method may give with its scores; empty if there is none."""

    if TYPE_CHECKING:  # a class from the registry has settings of its own

        def __init__(self, **settings: Setting) -> None: ...

    def __post_init__(self) -> None:
        settings.check(self)

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
        call = Call(pick=predictor.pick, model_layout=predictor.layout)
        return self._fit(call.adapt(predictor.called), series.filled, seed)

    def _fit(self, model: Model, x: Inputs, seed: int) -> Self:
        return self

    @property
    def learnt(self) -> object:
        """Return what :meth:`fit` learnt, None before."""
        return next((getattr(self, f.name) for f in fields(self) if f.metadata.get("fitted")), None)

    @property
    def fingerprint(self) -> str:
        """Return a hash of method, settings and what was learnt: two that are alike give the same scores."""
        return fingerprint_of_explainer(self.name, self.parameters, self._learnt_parts())

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the settings and what :meth:`fit` learnt to a safetensors file, which holds no code.

        Read it with :meth:`load`. A file that is no explainer is only replaced with ``force=True``.
        """
        name = EXPLAINERS.name_of(type(self))
        if name is None:
            raise InputError(
                f"{type(self).__name__} is in no registry, by whose name it could be read again: save an "
                "explainer of tempograd.EXPLAINERS, or register the class."
            )
        return write_explainer(path, name, self.parameters, self._learnt_parts(), force=force)

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
        found = read_explainer(path, EXPLAINERS)
        if not isinstance(found, cls):
            raise DataError(f"{short_path(path)} holds {found.name}: read it with tempograd.Explainer.load.")
        return found

    def _learnt_parts(self) -> LearntParts | None:
        """Return what was learnt as plain data and tensors, None before; for series, of one input or several."""
        return None if self.learnt is None else parts_of_inputs(self.learnt, self.name)

    def _with_learnt(self, parts: LearntParts) -> Self:
        """Return a new explainer that has learnt what the parts hold, the inverse of ``_learnt_parts``."""
        name = next(f.name for f in fields(self) if f.metadata.get("fitted"))
        return replace(self, **{name: inputs_of(parts)})

    @property
    def name(self) -> str:
        """Return the name in the registry."""
        return next(filter(None, map(EXPLAINERS.name_of, type(self).__mro__)), type(self).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("fitted")}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in plain.items()}

    @property
    def facts(self) -> Facts:
        """Return what an explanation keeps of its method, which a variant that promises less may override."""
        counts = (name for name in ("n_samples", "n_steps") if type(getattr(self, name, None)) is int)
        return Facts(
            complete=self.complete and self._examined,
            deterministic=self.deterministic,
            needs_gradient=self.needs_gradient,
            unit=next(counts, ""),
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
        findings = collect_findings()
        predictor, series = nouns(model, x)
        asked = Question(target, targets, output, steps, baseline, background)
        baseline = baseline.filled if isinstance(baseline, Series) else baseline
        pool, baseline = drawn_from(self, series, baseline, background)
        wanted = check_targets(target, targets)
        self._check_call(target, wanted, batch_size, gradient_check)
        draws = validation.check_int(draws, "draws", 1, settings.LARGEST)
        one = as_one_input(predictor, series, baseline)  # before torch does anything
        if one.call.has_companions:
            self._require_companions(steps, unequal=one.call.lengths is not None)
        bare = predictor.called
        adapted = one.call.adapt(bare)
        if self.needs_gradient:
            require_torch(adapted)
        output, task, classes = told_by(adapted, output, predictor.task, predictor.classes)
        told = common_task(target, wanted, lambda each: told_task(task, predictor.model, each, output))
        check_labels(series, told, output, steps)
        with frozen(bare) as restore_buffers:
            ask = Ask.create(
                adapted,
                one.x,
                Question(target, None, output, steps, one.baseline),
                mask=one.mask,
                empty=series.fill,
                seed=seed,
                ids=series.keys,
                batch_size=batch_size,
                task=told,
                classes=classes,
                call=one.call,
                named_baseline=baseline is not None,
                checked=gradient_check and self._examined and not isinstance(steps, str),
            )
            ask = ask if pool is None else ask.replace(background=laid_ready(ask, pool))
            raw = validation.check_raw(one.raw, ask.x, ask.mask)
            asks, variant = self._asks(ask, wanted, classes)
            with computing(precision, ask.device):
                ran = self._run(bare, adapted, asks, draws, restore_buffers)
            restore_buffers()
        if ran.varies and ran.draws == 1:
            warn("model.stochastic" if ran.varies == "drawn" else f"model.{'alone' if ran.by_itself else 'mixes'}")
        note_assumptions(self, predictor, series, ran.asks[0], asked=target is not None or wanted is not None)
        names = series.ids if isinstance(series.ids, tuple) else None
        known = ran.told() | one.labels | {"names": names, "classes": ask.classes, "raw": raw}
        known |= {"y": series.y, "question": asked, "findings": tuple(findings)}
        pairs = zip(ran.results, ran.asks, strict=True)
        found = [self._explanation(each, ask, _asked(output, ask, variant=variant), known) for each, ask in pairs]
        result: Explanation = together(found, wanted)
        return result

    def _asks(self, ask: Ask, wanted: Any, classes: Sequence[str] | None) -> tuple[list[Ask], bool]:
        """Return an ask for each target, and whether the method is a variant that counts outputs otherwise."""
        asks = [self.question(one) for one in ([ask] if wanted is None else asks_of(ask, wanted, classes))]
        variant = asks[0].output != ask.output
        return [one.replace(classes=None) for one in asks] if variant else asks, variant

    def _run(
        self,
        model: Model,
        adapted: Model,
        asks: list[Ask],
        draws: int,
        restore_buffers: Callable[[], None],
    ) -> "_Ran":
        """Explain, look at the model once more, and refuse or warn of what is wrong.

        Where series cannot be run together, they are explained once more, each by itself.
        """
        single = [each.replace(batch_size=1) for each in asks]  # as they are before anything was read
        if draws > 1 and self._draws(asks[0], draws):
            results, asks = over_draws(asks, self._attributions, draws)
        else:
            results, draws = self._attributions(asks), 1
        ask = asks[0]
        few = _few(ask)
        look = None if trusted(adapted, few[0], self.name) else look_again(adapted, ask.at, *few)
        restore_buffers()  # where a forward keeps state
        mark = fingerprint(model)  # while the device is busy
        for each, result in zip(asks, results, strict=True):
            each.verify(result.values)
        outputs = None if look is None else ask.progress.findings.kept()
        varies: Varying = "drawn" if draws > 1 else ""
        if draws == 1 and look is not None and outputs is not None:
            varies = look.varies(outputs, self.name)
        if look is not None and look.sigmoid and ask.question.output is None and ask.resolved.output != "raw":
            warn("model.sigmoid")
        can = look is not None and look.alone and not self.needs_module
        by_itself = varies == "batch" and ask.batch_size is None and can
        if by_itself:
            with silenced():  # what there is to say was said
                asks, results = single, self._attributions(single)
            restore_buffers()
            for each, result in zip(asks, results, strict=True):
                each.verify(result.values)
        return _Ran(results, asks, draws, varies, by_itself, mark)

    def _explanation(self, result: Estimate, ask: Ask, output: str, told: dict[str, Any]) -> Explanation:
        """Put the result together with the ask, and with what else the call ``told``."""
        found = result._asdict() | {"signed": self.signed and result.signed}
        return Explanation(
            **found,
            **told | {"question": _kept(told["question"], ask)},
            target=self._explained(ask, output),
            prediction=_prediction(ask, output),
            output=cast("Output", str(output)),
            steps=ask.resolved.steps,
            baseline=ask.baseline,
            mask=ask.mask,
            x=ask.shown,
            call=ask.call,
            ids=ask.ids,
            seed=ask.seed,
            method=self.name,
            parameters=self.parameters,
            columns=ask.resolved.columns,
            facts=self._facts_of(ask),
            task=cast("Task | None", ask.resolved.task),
            output_shape=ask.resolved.shape,
        )

    def _facts_of(self, ask: Ask) -> Facts:
        """Return the facts of one explanation: against drawn series nothing is exact or the same for all seeds."""
        if ask.background is None or not self.takes_background:
            return self.facts
        return replace(self.facts, complete=False, deterministic=False)

    @property
    def _examined(self) -> bool:
        """Tell whether settings and results are examined: rarely seen cells, gradients, scores that are all 0."""
        return True

    def question(self, ask: Ask) -> Ask:
        """Return what is asked; a method may put another baseline there, a variant another output."""
        return ask

    def _explained(self, ask: Ask, output: str) -> Tensor | None:
        """Return the explained class in terms of the requested ``output``; None if a function picked it."""
        target = ask.resolved.target
        return target if isinstance(target, Tensor) else None

    def _draws(self, ask: Ask, draws: int) -> bool:
        """Tell whether a model draws random numbers, so that realisations of it can be averaged."""
        if self.needs_module:
            raise InputError(
                f"{self.name} reads the layers of the model, which {arg:question.draws} cannot repeat."
            )
        if any(run_twice(ask.model, ask.at, *_few(ask)) == "drawn" for _ in range(TRIES)):
            return True
        warn("draws.unused", draws=draws)
        return False

    def _attributions(self, asks: Sequence[Ask]) -> list[Estimate]:
        ask = asks[0] if len(asks) == 1 else asks[0].replace(several=tuple(asks))
        estimates = mutable_if_needed(partial(self.attribute, ask))
        if not isinstance(estimates, list) or len(estimates) != len(asks):
            raise TypeError(f"{type(self).__name__}.attribute must return one Estimate per target in a list.")
        for one in asks:
            if one.progress.resolved is None:  # by a method that has no use for the predictions
                one.read_all()
        return [self._with_delta(one, each) for one, each in zip(asks, estimates, strict=True)]

    def _with_delta(self, ask: Ask, found: Estimate) -> Estimate:
        if found.delta is not None or not self.targeted or not self._examined:
            return found
        blank = ~found.values.flatten(1).any(1)
        if ask.mask is not None:
            blank &= ask.mask.flatten(1).any(1)
        drawn = ask.background is not None and self.takes_background and self.needs_gradient
        if not drawn and not bool(blank.any()):
            return found
        return found._replace(delta=score_delta(ask))  # which a map of zeros may have to explain

    def _check_call(self, target: Any, wanted: Any, batch_size: Any, gradient_check: Any) -> None:
        validation.check_flag(gradient_check, "gradient_check")
        if batch_size is not None:
            validation.check_int(batch_size, "batch_size", 1)
        if self.needs_fit or wanted is not None:
            run_checks(METHOD, {"method": self.name, "facts": self, "targets": wanted})
        if target is not None and not self.targeted:
            warn("target.unused", method=self.name)

    def _require_companions(self, steps: Any, *, unequal: bool = False) -> None:
        """Refuse several inputs, or series of unequal length, where the method or the steps cannot take them."""
        what = "series of one length" if unequal else "models of one input alone"
        if not self.takes_inputs:
            can = sorted(name for name, kind in EXPLAINERS.items() if kind.takes_inputs)
            padded = f", or pass {arg:series.lengths=padded}" if unequal else ""
            raise InputError(f"{self.name} explains {what}: use one of {', '.join(can)}{padded}.")
        if isinstance(steps, str):
            raise InputError(f"{arg:question.steps=own} is for {what}: pass the steps to explain.")

    @abstractmethod
    def attribute(self, ask: Ask) -> list[Estimate]:
        """Compute the scores, one estimate for each target: ``ask.each()`` has an ask for each of them."""


def one_by_one(
    attribute: Callable[[Method, Ask], Estimate],
) -> Callable[[Method, Ask], list[Estimate]]:
    """Let a method that explains one target explain several, one after the other."""

    @wraps(attribute)
    def attribute_each(self: Method, ask: Ask) -> list[Estimate]:
        return [attribute(self, one) for one in ask.each()]

    return attribute_each


def check_pool(x: Inputs, name: str) -> Inputs:
    """Check series that a method draws from: of one input, or of several, by name or position."""
    if not is_several(x):
        return validation.check_series(x, name=name)
    pack_inputs(x)  # which says what is wrong
    return x


def check_training(shape: Sequence[int], ask: Ask) -> None:
    """Refuse training series whose shape, the last two of these numbers, is not that of the explained ones."""
    fitted, explained = tuple(shape[-2:]), tuple(ask.x.shape[1:])
    if fitted != explained:
        raise InputError(
            f"The training series have shape {fitted}, x has {explained}: fit with series of the same length and "
            "channels."
        )


def _asked(output: str | None, ask: Ask, *, variant: bool) -> str:
    """Return what was requested as the output, completed by the task."""
    if output is None and ask.resolved.task in AS_THEY_ARE and not variant:
        return "raw"
    return output or "probability"


def _kept(question: Question, ask: Ask) -> Question:
    """Return the question about one target as an explanation keeps it: background series by their fingerprint."""
    several = question.targets is not None or callable(ask.resolved.target)
    one = (ask.resolved.target if callable(ask.resolved.target) else ask.question.target) if several else None
    background = None if ask.background is None else ask.background.fingerprint
    return replace(question, target=one if several else question.target, targets=None, background=background)


def _prediction(ask: Ask, output: str) -> Tensor | None:
    """Return the explained score of each series; None where it was not read, or is of another output."""
    said, resolved = ask.progress.prediction, ask.resolved
    same = resolved.output == ("sigmoid" if output != "raw" and resolved.task == "multilabel" else output)
    return said if said is not None and same and bool(said.isfinite().all()) else None


class _Ran(NamedTuple):
    """What a run gave, for each target, and what it told about the model."""

    results: list[Estimate]
    asks: list[Ask]
    draws: int
    varies: Varying
    by_itself: bool  # whether each series was run alone, since batches mix them
    fingerprint: Callable[[], str]

    def told(self) -> dict[str, Any]:
        """Return what every explanation says of the model."""
        varies = {
            "varies": bool(self.varies) and not self.by_itself,
            "mixes_series": self.varies == "batch",
        }
        return {"fingerprint": self.fingerprint(), "draws": self.draws} | varies


def _few(ask: Ask) -> tuple[Tensor, Tensor | None]:
    """Return some series that go through the model at once, and their baselines, unless each runs by itself."""
    count = min(FEW, ask.batch_size or FEW, len(ask.x))
    count -= count > 1 and count == ask.x.shape[1]  # as many as steps would hide which axis is which
    block = ask.block(slice(0, count))
    return block.x, None if ask.batch_size == 1 else block.baseline
