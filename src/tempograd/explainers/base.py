"""What every explainer shares: hyper-parameters as fields, one call, one kind of result."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd._utils.registry import Registry
from tempograd._utils.stamps import check_times
from tempograd.engine import (
    Call,
    Request,
    computing,
    fingerprint,
    frozen,
    is_several,
    mutable_if_needed,
    pack_inputs,
    require_torch,
    score_delta,
    told_by,
)
from tempograd.engine.guesses import ALREADY, PROBABILITY, Guess, assumption, averaged, caution, objection
from tempograd.engine.inputs import channel_labels, time_labels, unit_labels
from tempograd.engine.outputs import forward
from tempograd.engine.second_look import (
    FEW,
    SecondLook,
    Varying,
    generators_kept,
    look_again,
    outputs_differ,
    run_twice,
    trust,
    trusted,
)
from tempograd.engine.tasks import AS_THEY_ARE, told_task
from tempograd.errors import DataError, InputError, short_path, silenced, warn
from tempograd.explainers.background import drawn_from, laid_ready
from tempograd.explainers.batches import GivenSeries, SeriesBatch, as_batch
from tempograd.explainers.files import (
    LearntParts,
    fingerprint_of_explainer,
    inputs_of,
    parts_of_inputs,
    read_explainer,
    write_explainer,
)
from tempograd.explainers.integration import Attribution
from tempograd.explainers.many_targets import check_targets, common_task, requests_of, shares_passes, together
from tempograd.explainers.realisations import over_draws
from tempograd.explanation import Explanation, Facts
from tempograd.targets import in_words
from tempograd.typing import (
    ArrayLike,
    Fixed,
    InputBaselines,
    Inputs,
    Layout,
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
)

# Doubts about an explanation that was just made

NOISE = (
    "The model answers the same series differently when it is asked again, so the scores hold its noise: pass "
    "draws=32 to average over its random numbers, with an error."
)
IN_COMPANY = (
    "The model's answer to a series depends on the other series of its batch or on its place among them, and so "
    "do the scores: pass a function that calls it with one series at a time."
)
BY_ITSELF = (
    "The model's answer to a series depends on the other series of its batch or on its place among them, so each "
    "was run by itself, which takes longer: look for statistics over the batch or a positional encoding along it. "
    "batch_size= runs batches all the same."
)


def warn_of_doubts(adapted: Model, request: Request, look: SecondLook | None) -> None:
    """Warn of a guess that the values deny or cannot tell, and of axes that changed places."""
    outputs = request.first_outputs()
    if outputs is not None and request.guessed and request.output == "probability":
        message = objection(outputs, request.x[: len(outputs)], sigmoid=look is not None and look.sigmoid)
        if message is None and (request.classes is None or request.columns != 1):  # two names for one column tell
            picked, chosen = callable(request.requested_target), request.requested_steps is not None
            message = assumption(outputs.shape[1:], request.time, picked=picked, chosen=chosen)
        if message is not None:
            warn(message)
    if request.by_task and request.output != "raw" and look is not None and look.sigmoid:
        warn(ALREADY)
    if request.averaged:
        warn(averaged(request.averaged))
    swapped = None if look is None else caution(adapted, look.touched, look.x)
    if swapped is not None:
        warn(swapped)


def varied(request: Request, look: SecondLook | None, caller: str) -> Varying:
    """Tell whether the model's outputs for the same series differ, and why."""
    outputs = request.first_outputs()
    if outputs is None or look is None:
        return ""
    differ = outputs_differ(request.model, look, outputs)
    if not differ:
        trust(request.model, look, caller)
    return differ


# Scores of any size: squares of very large or very small ones leave the range of single precision

LARGE = 1e12  # beyond, and below its inverse, fourth powers are out of range


def at_any_scale(
    requests: Sequence[Request], attribute: Callable[[Sequence[Request]], list[Attribution]]
) -> list[Attribution]:
    """Explain; where scores turn out very large or small, explain the output in units of about their size.

    The unit is a power of two, which leaves every digit as it is. Only raw outputs can have such scores, and a
    function that picks the score need not be linear.
    """
    pairs = zip(requests, attribute(requests), strict=True)
    return [_in_its_unit(request, found, attribute) for request, found in pairs]


def _in_its_unit(
    request: Request, found: Attribution, attribute: Callable[[Sequence[Request]], list[Attribution]]
) -> Attribution:
    if request.output != "raw" or found.standard_error is None or callable(request.requested_target):
        return found
    size = float(found.values.abs().amax())
    if not math.isfinite(size) or size == 0 or 1 / LARGE < size < LARGE:
        return found
    unit = 2.0 ** round(math.log2(size))
    (part,) = attribute([request.replace(model=lambda z: forward(request.model, z) / unit)])
    check = part.gradient_check
    return part._replace(
        gradient_check=None if check is None else replace(check, jump=check.jump * unit, seen=check.seen * unit),
        values=part.values * unit,
        standard_error=None if part.standard_error is None else part.standard_error * unit,
        delta=None if part.delta is None else part.delta * unit,
    )


TRIES = 8  # that a model gets to show that it draws, which it may do rarely

EXPLAINERS: Registry[type["Explainer"]] = Registry(
    "explainer",
    "tempograd.explainers",
    lambda thing: isinstance(thing, type) and issubclass(thing, Explainer),
    "a class under tempograd.Explainer",
)


def _that_draw_baselines() -> list[str]:
    """Return the names of methods that can compare with other series; this loads all of them."""
    return sorted(name for name, kind in EXPLAINERS.items() if kind.takes_background)


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

    - :meth:`attribute`, the method itself: a request to an attribution. Every explainer has its own.
    - :meth:`attribute_all`, the same for several targets, to share the passes of the model between them.
    - :meth:`grid`, the settings that are worth trying for a model.
    - ``_learnt_parts()`` and ``_with_learnt(parts)``, what :meth:`fit` learnt as a file holds it; for what is no
      series.
    - ``_request(request)``, the request that is explained: of a variant that changes series, baseline or output.
    - ``_examined``, whether settings and results are examined and doubts are said.
    - ``_positions(points, like)`` of TIMING and RandIG, where points lie on the path, (points,);
      ``_series_positions(block, stream)`` of GradientSHAP, the same for each series, (series or 1, points).
    - ``_sample_masks(streams, sampler)`` of TIMING, independent masks, True where a cell is active.
    - ``_scale(difference, masks)`` of TIMING, what the mean gradient of each cell is multiplied by.
    - ``_baselines(block, stream, request)`` of GradientSHAP, what looks up the baselines of some points.
    - ``_distance(clean, output, steps)`` of learnt masks, how far outputs are from the clean ones, and
      ``_steps(request, groups, leaves)``, the loss terms of each step of an epoch.
    - ``_fit_schedule()`` and ``_task(generator)`` of FIT, how and by which loss its generator learns.
    - ``_batching(request)`` of TimeX and TimeX++, how many series go through the mask generator at once.
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

    def fit(self, model: Model, x: Inputs, *, seed: int = 0) -> Self:
        """Return a new explainer that has learnt what it needs from training series; most methods need nothing.

        The explainer itself stays as it is: write ``explainer = explainer.fit(model, x)``.
        """
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
        model: Model,
        x: Inputs,
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
    ) -> Explanation:
        """Explain ``model(x)``.

        Parameters
        ----------
        model : nn.Module, callable or estimator
            Maps (batch, time, channel) to (batch, class) or, one output per step, (batch, time, class).
        x : Tensor or array of shape (batch, time, channel)
            Or a list of series (time, channel): where their lengths differ, the model is called with each length
            by itself, so that it reads no padding, and the explanation holds them padded at their end, masked
            there. A data frame is read as :func:`tempograd.read_series` reads one, and a warning says how.
        background : Tensor or array of shape (batch, time, channel), or inputs like ``x``, optional
            The other series of ``baseline="background"``, as the model reads them. A row that equals the explained
            series is never drawn for it.
        target : int, Tensor of shape (batch,) or (batch, time), or callable, optional
            Class or output to explain, by default the predicted one; a function picks one score per series
            from the output. A single probability is that of class 1, which is the default for every series, and 0
            is its complement.
        baseline : {"zero", "average", "background"} or Tensor that broadcasts to ``x``, optional
            What "absent" means, by default zero. ``"background"`` are values of other series, drawn from
            ``background`` anew for each sample.
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
        channels, times, names : sequences of str, optional
            What people call the channels, the time steps and the series, for tables, pictures and reports.
            ``times`` may hold texts, numbers or dates, and be (batch, time) where series have stamps of their own.
        layout : {"BTD", "BDT"}
            Order of the axes of ``x`` and ``mask``; for those of the model see ``model_layout``.
        missing : {"error", "mask"}
            What NaN in ``x`` is: a mistake, or a value that was not observed. Such cells are then left out as
            ``mask`` leaves cells out, beside those, and hold the baseline where the model reads them; the
            explanation's ``x`` is the series as the model read it, and its ``mask`` tells which cells it lacks.
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
        targets : list of targets or "all", optional
            Several targets in one call; read one with ``Explanation.for_target``. Path methods, occlusion and LIME
            share the passes of the model between them, unless ``tolerance=`` lets each stop by itself.
        task : {"classification", "multilabel", "regression", "forecast", "per_step"}, optional
            What the model's output is; by default found from the output, with a warning where that may be wrong.
        fixed : mapping or sequence, optional
            What else the model is called with, by keyword or behind the inputs: a tensor, an array or a list with
            one row per series goes along with its series; text, numbers and None are the same for all. What else
            is the same for all series belongs into a function around the model. Never attributed.
        pick : str or int, optional
            Which part of a dict, a tuple or an object the output is, by name, place or path (``"states.0"``). By
            default the only floating-point tensor with one row per series.
        model_layout : {"BTD", "BDT", "TBD", "BT"}
            Order of the axes that the model takes: batch, time, channel; ``"BT"`` for one channel without an axis.
            Fixed inputs with three axes are turned round with the series. Outputs of ``"TBD"`` models come as
            (time, batch, …) or (batch, …).
        classes : sequence of str, optional
            Names of the model's outputs, also ``["survived", "died"]`` for a single probability; the name of a
            number may end in its unit: ``["length of stay [days]"]``.
        units : sequence of str, optional
            Units of the channels' values, empty where there is none.
        raw : Tensor or array like ``x``, optional
            The values as people know them, before they were scaled for the model: only to be shown. NaN where
            nothing was observed.
        """
        batch = as_batch(SeriesBatch(x, mask, raw, ids, channels, times, names, layout))
        pool, baseline = drawn_from(self, _that_draw_baselines, batch.x, baseline, background, batch.layout)
        wanted = check_targets(target, targets)
        self._check_call(model, target, wanted, batch_size, gradient_check)
        draws = validation.check_int(draws, "draws", 1, settings.LARGEST)
        call = Call(pick=pick, model_layout=model_layout, lengths=batch.lengths)
        given = GivenSeries.of(call, model, batch, baseline, missing, fixed)  # before torch does anything
        if given.call.has_companions:
            self._require_companions(steps, unequal=batch.lengths is not None)
        adapted = given.call.adapt(model)
        if self.needs_gradient:
            require_torch(adapted)
        output, task, classes = told_by(adapted, output, task, classes)
        told = common_task(target, wanted, lambda each: told_task(task, model, each, output))
        with generators_kept(model), frozen(model) as restore_buffers:
            request = Request.create(
                adapted,
                given.x,
                target=target,
                baseline=given.baseline,
                mask=given.mask,
                steps=steps,
                output=output,
                seed=seed,
                ids=batch.ids,
                layout=given.layout,
                missing=given.missing,
                batch_size=batch_size,
                task=told,
                classes=classes,
                call=given.call,
                named_baseline=baseline is not None,
            )
            request.background = None if pool is None else laid_ready(request, pool)
            named = _named(request, given.raw, batch, units)
            request.checked = gradient_check and self._examined and not isinstance(steps, str)
            requests, variant = self._requests(request, wanted, classes)
            with computing(precision, request.device):
                ran = self._run(model, adapted, requests, draws, restore_buffers)
            restore_buffers()
        if ran.varies and ran.draws == 1:
            warn(NOISE if ran.varies == "drawn" else BY_ITSELF if ran.by_itself else IN_COMPANY)
        known = ran.told() | named
        return together(
            [
                self._explanation(result, each, str(output) if variant else _asked(output, each), known)
                for result, each in zip(ran.results, ran.requests, strict=True)
            ]
        )

    def _requests(
        self, request: Request, wanted: Any, classes: Sequence[str] | None
    ) -> tuple[list[Request], bool]:
        """Return a request for each target, and whether the method is a variant that counts outputs otherwise."""
        linked = request.output
        requests = [request] if wanted is None else requests_of(request, wanted, classes)
        requests = [self._request(each) for each in requests]
        variant = requests[0].output != linked
        for each in requests if variant else []:
            each.classes = None
        return requests, variant

    def _run(
        self,
        model: Model,
        adapted: Model,
        requests: list[Request],
        draws: int,
        restore_buffers: Callable[[], None],
    ) -> "_Ran":
        """Explain, look at the model once more, and refuse or warn of what is wrong.

        Where series cannot be run together, they are explained once more, each by itself.
        """
        single = [each.replace(batch_size=1) for each in requests]  # as they are before anything was read
        results, requests, draws = self._over_draws(requests, draws)
        request = requests[0]
        few = _few(request)
        look = None if trusted(adapted, few[0], self.name) else look_again(adapted, *few)
        restore_buffers()  # where a forward keeps state
        mark = fingerprint(model)  # while the device is busy
        for each, result in zip(requests, results, strict=True):
            each.verify(result.values)
        varies: Varying = "drawn" if draws > 1 else varied(request, look, self.name)
        warn_of_doubts(adapted, request, look)
        can = look is not None and look.alone and not self.needs_module
        by_itself = varies == "batch" and request.batch_size is None and can
        if by_itself:
            with silenced():  # what there is to say was said
                requests, results = single, self._attributions(single)
            restore_buffers()
            for each, result in zip(requests, results, strict=True):
                each.verify(result.values)
        return _Ran(results, requests, draws, varies, by_itself, mark)

    def _explanation(
        self, result: Attribution, request: Request, output: str, told: dict[str, Any]
    ) -> Explanation:
        """Put the result together with the request, and with what else the call ``told``."""
        picker = request.requested_target if callable(request.requested_target) else None
        call, found = request.call, result._asdict() | {"signed": self.signed and result.signed}
        for name in ("values", "standard_error", "n_draws", "ess"):
            found[name] = None if found[name] is None else call.cut(found[name])
        mask = None if request.mask is None else call.cut(request.mask)
        return Explanation(
            **found,
            **told,
            target=self._explained(request, output),
            prediction=_prediction(request, output),
            output=cast("Output", str(output)),
            steps=request.steps,
            baseline=call.cut(request.baseline),
            mask=None if mask is None or (call.fixed is not None and bool(mask.all())) else mask,
            x=call.cut(request.x),
            call=call,
            ids=request.ids,
            seed=request.seed,
            method=self.name,
            parameters=self.parameters,
            columns=request.columns,
            facts=self._facts_of(request),
            background=None if request.background is None else request.background.fingerprint,
            task=cast("Task | None", request.task),
            output_shape=request.output_shape,
            picker=picker,
            target_text="" if picker is None else in_words(picker),
        )

    def _facts_of(self, request: Request) -> Facts:
        """Return the facts of one explanation: against drawn series nothing is exact or the same for all seeds."""
        if request.background is None or not self.takes_background:
            return self.facts
        return replace(self.facts, complete=False, deterministic=False)

    @property
    def _examined(self) -> bool:
        """Tell whether settings and results are examined: rarely seen cells, gradients, scores that are all 0."""
        return True

    def _request(self, request: Request) -> Request:
        """Return the request to explain; a variant of a method may change the one that the call made."""
        return request

    def _explained(self, request: Request, output: str) -> Tensor | None:
        """Return the explained class in terms of the requested ``output``; None if a function picked it."""
        return request.target if isinstance(request.target, Tensor) else None

    def _over_draws(self, requests: Sequence[Request], draws: int) -> tuple[list[Attribution], list[Request], int]:
        """Explain the model, or as many realisations of it as were requested, if there is more than one."""
        if draws > 1:
            if self.needs_module:
                raise InputError(f"{self.name} reads the layers of the model, which draws= cannot repeat.")
            if any(_draws(requests[0]) for _ in range(TRIES)):
                return *over_draws(requests, self._attributions, draws), draws
            warn(f"draws={draws} makes no difference: the model answers the same series the same each time.")
        return self._attributions(requests), list(requests), 1

    def _attributions(self, requests: Sequence[Request]) -> list[Attribution]:
        found = at_any_scale(requests, lambda realised: mutable_if_needed(lambda: self._explain_all(realised)))
        return [self._with_delta(request, each) for request, each in zip(requests, found, strict=True)]

    def _explain_all(self, requests: Sequence[Request]) -> list[Attribution]:
        if len(requests) > 1 and shares_passes(type(self)):
            return self.attribute_all(requests)
        return Explainer.attribute_all(self, requests)

    def _with_delta(self, request: Request, found: Attribution) -> Attribution:
        if found.delta is not None or not self.targeted or not self._examined:
            return found
        blank = ~found.values.flatten(1).any(1)
        if request.mask is not None:
            blank &= request.mask.flatten(1).any(1)
        drawn = request.background is not None and self.takes_background and self.needs_gradient
        if not drawn and not bool(blank.any()):
            return found
        return found._replace(delta=score_delta(request))  # which a map of zeros may have to explain

    def _check_call(self, model: Any, target: Any, wanted: Any, batch_size: Any, gradient_check: Any) -> None:
        validation.check_model(model)
        validation.check_flag(gradient_check, "gradient_check")
        if batch_size is not None:
            validation.check_int(batch_size, "batch_size", 1)
        if self.needs_fit and self.learnt is None:
            raise InputError(
                f"{self.name} learns from training series: write explainer = explainer.fit(model, series), which "
                "returns a new one, or pass background= to tempograd.explain."
            )
        if wanted is not None and not self.targeted:
            raise InputError(f"{self.name} explains the whole output of the model: leave targets= out.")
        if target is not None and not self.targeted:
            warn(f"{self.name} explains the whole output of the model: target= makes no difference to its scores.")

    def _require_companions(self, steps: Any, *, unequal: bool = False) -> None:
        """Refuse several inputs, or series of unequal length, where the method or the steps cannot take them."""
        what = "series of one length" if unequal else "models of one input alone"
        if not self.takes_inputs:
            can = sorted(name for name, kind in EXPLAINERS.items() if kind.takes_inputs)
            padded = ", or pass the series padded, with mask=" if unequal else ""
            raise InputError(f"{self.name} explains {what}: use one of {', '.join(can)}{padded}.")
        if isinstance(steps, str):
            raise InputError(f"steps='own' is for {what}: pass the steps to explain.")

    @abstractmethod
    def attribute(self, request: Request) -> Attribution:
        """Compute the scores; :meth:`Explainer.__call__` has checked and completed the arguments."""

    def attribute_all(self, requests: Sequence[Request]) -> list[Attribution]:
        """Compute the scores of several targets, whose requests differ in nothing else.

        By default one after the other. A method that overrides this lets them share the passes of the model, and
        has ``attribute`` return ``self.attribute_all([request])[0]``.
        """
        return [self.attribute(request) for request in requests]


def check_pool(x: Inputs, name: str) -> Inputs:
    """Check series that a method draws from: of one input, or of several, by name or position."""
    if not is_several(x):
        return validation.check_series(x, name=name)
    pack_inputs(x)  # which says what is wrong
    return x


def check_training(shape: Sequence[int], request: Request) -> None:
    """Refuse training series whose shape, the last two of these numbers, is not that of the explained ones."""
    fitted, explained = tuple(shape[-2:]), tuple(request.x.shape[1:])
    if fitted != explained:
        raise InputError(
            f"The training series have shape {fitted}, x has {explained}: fit with series of the same length and "
            "channels."
        )


def _named(request: Request, raw: Any, batch: SeriesBatch, units: Any) -> dict[str, Any]:
    """Check names and values for people before anything is computed."""
    channels, times = batch.channels, batch.times
    packing, x = request.call.packing, request.call.cut(request.x)
    mask = None if request.mask is None else request.call.cut(request.mask)
    series, time, depth = x.shape
    if packing is not None:
        channels, times = channel_labels(channels, packing), time_labels(times, packing, series)
        units = unit_labels(units, packing)
    return {
        "channels": validation.check_names(channels, depth, "channels"),
        "times": check_times(times, series, time),
        "names": validation.check_names(batch.names, series, "names"),
        "classes": request.classes,
        "units": validation.check_names(units, depth, "units"),
        "raw": validation.check_raw(raw, x, mask, request.layout),
    }


def _asked(output: str, request: Request) -> str:
    """Return what was requested as the output, completed by the task."""
    if isinstance(output, Guess) and request.task in AS_THEY_ARE:
        return "raw"
    return str(output)


def _prediction(request: Request, output: str) -> Tensor | None:
    """Return the explained score of each series; None where it was not read, or is of another output."""
    said = request.prediction
    same = request.output == ("sigmoid" if output != "raw" and request.task == "multilabel" else output)
    return said if said is not None and same and bool(said.isfinite().all()) else None


class _Ran(NamedTuple):
    """What a run gave, for each target, and what it told about the model."""

    results: list[Attribution]
    requests: list[Request]
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


def _few(request: Request) -> tuple[Tensor, Tensor | None]:
    """Return some series that go through the model at once, and their baselines, unless each runs by itself."""
    count = min(FEW, request.batch_size or FEW, len(request.x))
    count -= count > 1 and count == request.x.shape[1]  # as many as steps would hide which axis is which
    block = request.block(slice(0, count))
    return block.x, None if request.batch_size == 1 else block.baseline


def _draws(request: Request) -> bool:
    return run_twice(request.model, *_few(request)) == "drawn"
