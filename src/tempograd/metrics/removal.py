"""Series with cells removed in the order of their scores, and the model's outputs for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, brief, warn
from tempograd.core.findings import arg
from tempograd.core.rng import Stream, bits, keys
from tempograd.core.settings import check_amount
from tempograd.engine import (
    Background,
    Batching,
    Call,
    Model,
    apply_link,
    both_logits,
    by_class,
    call_model,
    class_count,
    nested,
    one_logit,
    pack_inputs,
    place,
    select_target,
    slices,
    wider,
)
from tempograd.engine.background import in_time_order, is_background
from tempograd.engine.guesses import is_probability
from tempograd.engine.inputs import is_several
from tempograd.explanation import Explanation
from tempograd.explanation.same import other_series
from tempograd.typing import Measured, Picker, Task

MEASURED: tuple[Measured, ...] = get_args(Measured)
TOGETHER = 1024  # series whose draws are made at once
DRAWS = 8  # other series whose values take the place of removed cells, in turn, where nobody says how many

# The model's outputs for a few series in each state of their removal


@dataclass(frozen=True)
class RemovalOutputs:
    """Raw outputs along a schedule of removals, and the explained score; state 0 is the clean series.

    With one output per step, all but a score that a function picked has a further axis, time, that
    :meth:`over_steps` averages. A single probability p is that of class 1 of two, and 1 - p that of class 0.
    An output with more axes, such as (horizon, variable), is one row of columns.
    """

    raw: Tensor  # (series, state, column), (series, state, time, column), or any shape that a function picks from
    output: str  # what makes predictions of it: "probability", "sigmoid" of each column by itself, or "raw"
    target: Tensor | None  # explained column, (series,) or (series, time); None if a function picked the score
    steps: Tensor | None  # (series, time), which are averaged over
    picked: Tensor | None = None  # (series, state), the score that a function picked
    of: Measured = "output"  # what ``delta`` is the change of
    task: Task | None = None  # what the output is, where that is known

    @cached_property
    def predictions(self) -> Tensor:
        """All outputs, one per class; an output of another shape is one long vector."""
        raw = by_class(self.raw, self.output)
        return raw.flatten(2) if self.steps is None else raw

    @property
    def scored(self) -> bool:
        """Whether the explained score is known: a function may be lost with the process that knew it."""
        return self.target is not None or self.picked is not None

    @cached_property
    def score(self) -> Tensor:
        """The explained score, (series, state) or, at each step, (series, state, time)."""
        return self.picked if self.picked is not None else select_target(self.predictions, self._expanded_target)

    @property
    def probability(self) -> Tensor:
        """That of the explained class, like ``score``; for several labels that of the label as it was predicted.

        A label was predicted present if its probability p is at least 1/2 for the clean series, which has then the
        probability p, and absent else, which has 1 - p.
        """
        if self.task != "multilabel":
            return self.score
        value, present = self._label
        if self.output == "raw":
            return torch.where(present[:, :1], value, 1 - value)
        return torch.where(present[:, :1], value, -value).sigmoid()

    @property
    def log_probability(self) -> Tensor:
        """Its logarithm, from the logits where there are any: a probability may be too small for a float."""
        if self.task == "multilabel":
            value, present = self._label
            if self.output == "raw":
                return self.probability.log()
            return logsigmoid(torch.where(present[:, :1], value, -value))
        every = self.raw.log() if self.output == "raw" else both_logits(self.raw, self.output).log_softmax(-1)
        return select_target(every, self._expanded_target)

    @property
    def retained(self) -> Tensor:
        """Whether the predicted class is the explained one, or a label is predicted as it was, like ``score``."""
        if self.task == "multilabel":
            present = self._label[1]
            return present == present[:, :1]
        return both_logits(self.raw, self.output).argmax(-1) == self._expanded_target

    @property
    def delta(self) -> Tensor:
        """Distance between consecutive states, (series, state - 1): of the score, or L1 of all outputs."""
        if self.of == "score":
            return self.over_steps(self.score.diff(dim=1).abs())
        return self.over_steps(self.predictions.diff(dim=1).abs().sum(-1))

    def over_steps(self, value: Tensor) -> Tensor:
        """Average over the explained steps, if there are several; NaN where no step is explained."""
        if self.steps is None or value.ndim == 2:  # a picked score has no steps
            return value
        steps = self.steps[:, None]
        return torch.where(steps, value, 0).sum(-1) / steps.sum(-1)

    def require_score(self, metric: str) -> None:
        """Refuse where the explained score is not known."""
        if not self.scored:
            raise InputError(
                f"{metric} follows the explained score, and the function that picked it is not kept in files: "
                f"pass it as {arg:question.target}, or use cpd or cpp with {arg:call.of=output}."
            )

    def require_probability(self, metric: str) -> None:
        """Refuse a score that is no probability of a class or label."""
        if self.task in {"regression", "forecast"}:
            raise InputError(
                f"{metric} needs the probability of a class, and a {self.task} has none: use cpd, cpp, "
                "prediction_difference, comprehensiveness or sufficiency."
            )
        if self.target is None:
            raise InputError(
                f"{metric} needs the probability of a class, and a function picked the score: use cpd, cpp, "
                "prediction_difference, comprehensiveness or sufficiency, or explain with a class as target."
            )
        if self.output == "raw" and not self._holds_probabilities:
            rows = "lie between 0 and 1" if self.task == "multilabel" else "are non-negative and sum to 1"
            raise InputError(
                f"{metric} needs probabilities, and the raw output the explanation is about is none: "
                f"explain with {arg:question.output=probability}, or a model whose rows {rows}."
            )

    @property
    def _holds_probabilities(self) -> bool:
        if self.task == "multilabel":
            return bool(((self.raw >= 0) & (self.raw <= 1)).all())
        return is_probability(self.raw[:, 0])

    @cached_property
    def _label(self) -> tuple[Tensor, Tensor]:
        """Return logit, or probability, of the explained label, and whether it is predicted, (series, state)."""
        value = select_target(self.raw, self._expanded_target)
        return value, value >= (0.5 if self.output == "raw" else 0.0)

    @property
    def _expanded_target(self) -> Tensor:
        if self.target is None:
            raise InputError("This metric follows the explained class, but a function picked the score.")
        return self.target[:, None].expand(self.raw.shape[:-1])


# What is evaluated: a model, the series it was explained on, and what takes the place of removed cells


@dataclass(frozen=True)
class EvalTarget:
    """Everything a removal needs to know, checked and completed."""

    given: Model  # as the caller has it
    model: Model  # as a function of x
    call: Call
    explanation: Explanation
    x: Tensor
    values: Tensor  # like x
    mask: Tensor | None
    baseline: Tensor  # like x
    observed: Tensor  # (series,), cells that can be removed
    device: torch.device
    dtype: torch.dtype
    batch_size: int | None
    picker: Picker | None
    measured: Measured
    background: Background | None = None  # other series whose values removed cells take, in turn
    draws: int = 1  # how many of them
    drawn: Tensor | None = None  # (series,), which of them it is in this turn

    @classmethod
    def of(
        cls,
        model: Model,
        explanation: Explanation,
        x: Any,
        baseline: Any,
        batch_size: int | None,
        *,
        of: Measured | None = None,
        target: Picker | None = None,
        background: Any = None,
        draws: Any = None,
    ) -> Self:
        """Check and complete the arguments of a call."""
        drawn = removes_to_others(explanation, baseline, background, draws)
        x = given_series(explanation, x)
        if x is None:
            raise InputError(
                f"The explanation was saved without its series: pass them as {arg:series.x}, in the same order."
            )
        if batch_size is not None:
            validation.check_int(batch_size, "batch_size", 1)
        picker = explained_function(explanation, target)
        mask = None if explanation.mask is None else explanation.mask.to(x.device)
        own = explanation.baseline.to(x) if baseline is None or drawn else baseline
        if explanation.call.packing is not None and (is_several(own) or isinstance(own, str)):
            own = pack_inputs(explanation.call.packing.unpack(x), baseline=own).baseline
        baseline = validation.fill(own, x, mask, "baseline")
        observed = torch.full((len(x),), x[0].numel()) if mask is None else mask.flatten(1).sum(1).cpu()
        call, x = explanation.call.reading(x)
        adapted = call.adapt(model)
        device, dtype = place(adapted, x)
        others = None
        if drawn:
            others = Background.of(in_time_order(background), x, call, 0, (device, dtype), Stream.REMOVALS)
            warn_of_other_background(explanation, others)
        found = cls(
            given=model,
            model=adapted,
            call=call,
            explanation=explanation,
            x=x,
            values=explanation.values,
            mask=mask,
            baseline=baseline,
            observed=observed,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            picker=picker,
            measured=what_is_measured(explanation, of, picker),
            background=others,
            draws=1 if others is None else validation.check_int(DRAWS if draws is None else draws, "draws", 1),
        )
        return found.one_by_one_if(explanation.mixes_series)

    def at(self, rows: Tensor) -> Model:
        """Return the model as a function of series that are these ``rows`` of all, where that matters."""
        return self.call.at(self.model, rows)

    def one_by_one_if(self, mixed: bool) -> Self:
        """Run each series by itself where batches mix them, unless the caller has chosen their size."""
        return replace(self, batch_size=1) if mixed and self.batch_size is None else self

    def each_draw(self) -> Iterator[Self]:
        """Yield one removal after the other: of the baseline, or of each of the series that are drawn."""
        if self.background is None:
            yield self
            return
        parts = []
        for rows in slices(len(self.x), TOGETHER):
            x, ids = self.x[rows].to(self.device, self.dtype), self.explanation.ids[rows].to(self.device)
            parts.append(self.background.rows(x, ids, self.draws).to(self.background.pool.device))
        for drawn in torch.cat(parts).unbind(1):
            yield replace(self, drawn=drawn)

    def absent(self, rows: slice) -> Tensor:
        """Return what takes the place of removed cells of some series."""
        if self.background is None or self.drawn is None:
            return self.baseline[rows]
        return self.background.pool[self.drawn[rows]]

    @property
    def cells(self) -> int:
        """How many cells a series of the explanation has, those between its inputs not counted."""
        packing = self.explanation.call.packing
        return self.explanation.values[0].numel() if packing is None else int(packing.occupied().sum())

    def cells_observed(self, rows: slice) -> Tensor:
        """Which cells can be removed, (series, time · channel)."""
        if self.mask is None:
            return torch.ones((), dtype=torch.bool, device=self.device).expand(self.x[rows].flatten(1).shape)
        return self.mask[rows].to(self.device).flatten(1)

    def steps(self, rows: slice, raw: Tensor) -> Tensor | None:
        """Which steps are averaged over, (series, time); None for one output per series."""
        series = self.explanation.call.series_of(self.x[rows])  # of several inputs, the first that has time
        time, steps, task = series.shape[1], self.explanation.steps, self.explanation.task
        fits = raw.ndim == 3 and raw.shape[1] == time
        expected = steps is not None or task == "per_step"
        per_step = fits and (expected or task is None)  # where nobody said what it is, its shape does
        column = self.explanation.target is not None
        if not per_step and (steps is not None or (column and (expected or raw.ndim > 2))):
            raise _misfit(raw, f"(batch, {time}, classes)" if expected else "(batch, classes)")
        if not per_step:
            return None
        if isinstance(steps, Tensor):
            return steps[rows].to(self.device)
        mask = None if self.mask is None else self.explanation.call.series_of(self.mask[rows])
        length = validation.lengths(mask, series)
        return (torch.arange(time) < length[:, None]).to(self.device)

    def target(self, rows: slice, raw: Tensor, steps: Tensor | None) -> Tensor | None:
        """Return the explained column, (series,) or (series, time); None if a function picked the score."""
        explained = explained_class(self.explanation, raw.shape[-1])
        if explained is None:
            return None
        target, classes = explained[rows].to(self.device), class_count(raw.shape[-1], self.explanation.link)
        if target.ndim == 2 and steps is None:
            raise ModelError(
                f"The explanation has one target per step, but the model returned shape {tuple(raw.shape)}: "
                "evaluate with the model that was explained."
            )
        if bool(((target < 0) | (target >= classes)).any()):
            raise ModelError(
                f"The explained class {int(target.max())} is out of range, the model has {classes} outputs: "
                "evaluate with the model that was explained."
            )
        return target if steps is None or target.ndim == 2 else target[:, None].expand(steps.shape)


def removes_to_others(explanation: Explanation, baseline: Any, background: Any, draws: Any) -> bool:
    """Tell whether removed cells take values of other series, and refuse where these are missing or no use."""
    if is_background(baseline) or (baseline is None and explanation.background is not None):
        if background is None:
            own = "The explanation compares with other series, which it does not keep"
            asked = f"{arg:question.baseline=background} puts values of other series in the place of removed cells"
            raise InputError(
                f"{own if baseline is None else asked}: pass them as {arg:question.background}, or another "
                f"{arg:question.baseline}."
            )
        return True
    for name, given in (("background", background), ("draws", draws)):
        if given is not None:
            raise InputError(
                f"{name}= makes no difference without {arg:question.baseline=background}: pass that too."
            )
    return False


def warn_of_other_background(explanation: Explanation, others: Background) -> None:
    """Warn if the series that values come from are not those that the explanation compares with."""
    if explanation.background not in {None, others.fingerprint}:
        warn(
            f"The explanation compares with other background series ({explanation.background}) than those given "
            f"here ({others.fingerprint}): pass the ones that it was made with."
        )


def _misfit(raw: Tensor, wanted: str) -> ModelError:
    return ModelError(
        f"The model returned shape {tuple(raw.shape)}, but the explanation is of a model that returns {wanted}: "
        "evaluate with the model that was explained."
    )


# What the model returned, as the explanation reads it


def with_axis(explanation: Explanation, raw: Tensor) -> Tensor:
    """Give one number per step, (rows, time), an axis for its only column."""
    return raw[..., None] if explanation.task == "per_step" and raw.ndim == 2 else raw


def as_columns(explanation: Explanation, raw: Tensor) -> Tensor:
    """Return outputs with several axes as rows of columns, as targets count them."""
    shape = explanation.output_shape
    if not shape:
        return raw
    if tuple(raw.shape[1:]) != shape:
        raise _misfit(raw, f"(batch, {', '.join(map(str, shape))})")
    return raw.flatten(1)


def takes_input(picker: Picker) -> bool:
    """Tell whether a function makes the score of outputs and series, and not of outputs alone."""
    return bool(getattr(picker, "takes_input", False))


def picked_score(explanation: Explanation, picker: Picker, raw: Tensor, z: Tensor, rows: Tensor) -> Tensor:
    """Return the score that a function picks from raw outputs, (states,), as it did for the explanation.

    ``z`` are the series that these are of, as the model is called with them, and ``rows`` which of the explained
    ones each is.
    """
    linked = apply_link(raw, explanation.link)
    if not takes_input(picker):
        return select_target(linked, picker)
    call, mask = explanation.call, explanation.mask
    seen = torch.ones_like(z, dtype=torch.bool)
    if mask is not None:
        seen = mask[rows.to(mask.device)].to(z.device)
    return select_target(call.turned_back(linked), picker, call.series_of(z), call.series_of(seen))


def explained_function(explanation: Explanation, target: Any) -> Picker | None:
    """Return the function that picked the score: the explanation's own, or the one given where it lost it."""
    if target is None:
        return explanation.picker
    if explanation.target is not None or explanation.picker is not None:
        raise InputError(
            f"{arg:question.target} is for an explanation from a file, which could not keep the function that "
            f"picked the score, and this one knows its own target: leave {arg:question.target} out."
        )
    if not callable(target):
        raise InputError(
            f"target must be the function that picked the score, got {brief(target)}: explain another target "
            "first."
        )
    picker: Picker = target
    return picker


SCORED = {"regression", "forecast", "multilabel"}  # tasks whose outputs say nothing of each other


def what_is_measured(explanation: Explanation, of: Any, picker: Picker | None) -> Measured:
    """Return what cumulative metrics follow; by default the score where outputs say nothing of each other."""
    if of is None:
        return "score" if picker is not None or explanation.task in SCORED else "output"
    validation.check_choice(of, "of", MEASURED)
    if of == "score" and explanation.target is None and picker is None:
        raise InputError(
            f"{arg:call.of=score} follows the explained score, and the function that picked it is not kept in "
            f"files: pass it as {arg:question.target}, or {arg:call.of=output}."
        )
    measured: Measured = of
    return measured


def explained_class(explanation: Explanation, columns: int) -> Tensor | None:
    """Return the target, given how many columns the model returns.

    Explanations that do not know ``n_outputs`` are of earlier versions, which called a single probability 0: it is
    that of class 1 of two.
    """
    known = explanation.n_outputs is not None or not one_logit(columns, explanation.link)
    return explanation.target if known or explanation.target is None else explanation.target + 1


def given_series(explanation: Explanation, x: Any) -> Tensor | None:
    """Return the explained series: those given, else those kept with the explanation, else None."""
    shape = tuple(explanation.values.shape)
    if not bool(explanation.values.isfinite().all()):
        raise InputError("The explanation holds NaN or infinity, and such cells have no rank.")
    if x is None:
        x = explanation.x
    if x is None:
        return None
    x = laid_out(explanation, x, "x")
    tensor = validation.check_series(x, gaps=explanation.mask is not None)
    if tensor.shape != shape:
        raise InputError(f"x must be the explained series, {shape}, got {tuple(tensor.shape)}.")
    if unlike := other_series(explanation, tensor):
        raise InputError(
            f"x must be the explained series, but holds other values in {len(unlike)} of {len(tensor)}, id "
            f"{unlike[0]} first: pass those that were explained, or leave x out."
        )
    return tensor if explanation.mask is None else _filled(tensor, explanation.mask, explanation.x)


def laid_out(explanation: Explanation, cells: Any, what: str) -> Any:
    """Lay out several inputs, given as for the explanation, as its series are; anything else stays as it is."""
    packing = explanation.call.packing
    if packing is None or not is_several(cells):
        return cells
    given = cells if isinstance(cells, Mapping) else dict(zip(packing.names, cells, strict=False))
    if len(given) != len(cells) or set(given) != set(packing.names):
        got = ", ".join(map(str, given)) if isinstance(cells, Mapping) else f"{len(cells)} of them"
        raise InputError(f"{what} must hold the explained inputs, {', '.join(packing.names)}; got {got}.")
    parts = []
    for part in packing.parts:
        tensor = validation.as_tensor(given[part.name], part.name)
        if tuple(tensor.shape) != (len(explanation), *part.shape):
            wanted = (len(explanation), *part.shape)
            raise InputError(f"{part.name} must be the explained input, {wanted}, got {tuple(tensor.shape)}.")
        parts.append(tensor.reshape(len(tensor), part.time, part.depth))
    return packing.pack([part.to(explanation.values.device) for part in parts])


def _filled(x: Tensor, mask: Tensor, explained: Tensor | None) -> Tensor:
    """Put what the explained series hold, or 0, where NaN stands for a value that was not observed."""
    gaps = x.isnan()
    if not bool(gaps.any()):
        return x
    if bool((gaps & mask.to(x.device)).any()):
        raise InputError("x holds NaN in cells that were explained: pass the series that were.")
    return torch.where(gaps, 0 if explained is None else explained.to(x).nan_to_num(), x)


# Removal in the order of the scores
#
# The cells of a series are ranked :math:`0, 1, …, n-1`, most important first; a hash of (series id, cell)
# orders equal scores. Every series that the model gets lacks the cells of one run of ranks,
# :math:`[0, j)` when the important go first and :math:`[n-j, n)` when they go last, so that
#
# .. math:: z_{t,d} = \begin{cases} s_{t,d} & \text{rank}_{t,d} \in [a, b) \\ x_{t,d} & \text{else}
#     \end{cases}
#
# with the baseline :math:`s`. Metrics that look at the same state share one pass of the model.

ROUNDING = 1e-9  # 0.29 · 100 is 28.999999999999996 in floating point and means 29


class RemovalSchedule(NamedTuple):
    """Which cells go: along one ranking, from one end, at every count up to the limit or at the limit only."""

    rank: str
    descending: bool
    limit: Tensor  # (series,), cells removed in the end
    every: bool
    stops: Tensor | None = None  # (state,), counts that are looked at, where not all are

    @property
    def width(self) -> int:
        """How many states there are, the clean series included."""
        if self.stops is not None:
            return len(self.stops)
        return int(self.limit.max()) + 1 if self.every else 2

    def counts(self, rows: slice, device: torch.device) -> Tensor:
        """Cells removed in each state, (series, state); the first is the clean series."""
        limit = self.limit[rows].to(device)[:, None]
        if not self.every:
            return torch.cat([torch.zeros_like(limit), limit], 1)
        stops = torch.arange(self.width) if self.stops is None else self.stops
        return torch.minimum(stops.to(device), limit)


class States(NamedTuple):
    """Series with a run of ranks removed, each once: which series, which ranking, which run."""

    row: Tensor
    ranking: Tensor
    first: Tensor
    stop: Tensor


def cell_importance(values: Tensor, rank: str, *, signed: bool) -> Tensor:
    """Return what cells are ranked by; see :attr:`tempograd.Explanation.importance`."""
    return values.abs() if signed and rank == "absolute" else values + 0.0  # no sort may tell -0 from 0


def rankings(scores: Tensor, observed: Tensor, ids: Tensor) -> Tensor:
    """Rank of each cell, the highest score first; unobserved cells come after all observed ones.

    All arguments but ``ids`` are (series, cell). Equal scores are in the order of a hash of (id, cell),
    which is a permutation of the cells, so no two of them are alike.

    Examples
    --------
    >>> scores = torch.tensor([[0.3, 0.9, 0.0, 0.5]])
    >>> rankings(scores, torch.tensor([[True, True, True, False]]), torch.tensor([7]))
    tensor([[1, 0, 2, 3]])
    """
    stream = keys(0, ids, Stream.TIES)
    cell = torch.arange(scores.shape[1], device=scores.device)
    shuffled = bits(stream[..., None], cell).argsort(1)
    scores = scores.masked_fill(~observed, -torch.inf).gather(1, shuffled)
    order = shuffled.gather(1, scores.argsort(dim=1, descending=True, stable=True))
    return torch.empty_like(order).scatter_(1, order, cell.expand_as(order))


def n_removed(k: Any, observed: Tensor, cells: int) -> Tensor:
    """How many cells of each series ``k`` means, (series,), given how many are observed.

    Examples
    --------
    >>> observed = torch.tensor([100, 4, 0])
    >>> n_removed(0.29, observed, 100), n_removed(7, observed, 100)
    (tensor([29,  1,  0]), tensor([7, 4, 0]))
    """
    k = check_amount(k, "k")
    if isinstance(k, int):
        if k > cells:
            raise InputError(f"{arg:call.k={brief(k)}} is more than the {cells} cells of a series.")
        return observed.clamp(max=k)
    share = (observed.double() * k + ROUNDING).floor().to(observed)
    return torch.minimum(share.clamp(min=1), observed)


def run_removals(
    evaluated: EvalTarget,
    schedules: Sequence[RemovalSchedule],
    read: Callable[[slice, list[RemovalOutputs]], None],
    label: str,
) -> None:
    """Run the model on every state of every schedule once, a few series at a time.

    ``read`` gets the rows and the outputs of each schedule; it may be called again for the same rows when memory
    ran out half-way.
    """
    names = sorted({schedule.rank for schedule in schedules})
    ends = {
        (schedule.rank, schedule.descending, schedule.every, schedule.width): schedule.width
        for schedule in schedules
    }

    def work(rows: slice, size: int) -> None:
        ranks = _ranks(evaluated, rows, names)
        states, indices = _states(evaluated, rows, schedules, names)
        outputs, picked = _run_states(evaluated, rows, ranks, states, size)
        outputs = as_columns(evaluated.explanation, outputs)
        steps = evaluated.steps(rows, outputs)
        whole = RemovalOutputs(
            raw=outputs,
            output=evaluated.explanation.link,
            target=evaluated.target(rows, outputs, steps),
            steps=steps,
            of=evaluated.measured,
            task=evaluated.explanation.task,
        )
        parts = ((outputs[index], None if picked is None else picked[index]) for index in indices)
        read(rows, [replace(whole, raw=raw, picked=score) for raw, score in parts])

    batching = wider(Batching(evaluated.device, evaluated.x[0].numel(), evaluated.batch_size), evaluated.model)
    batching.run(len(evaluated.x), sum(ends.values()), work, label)


def _ranks(evaluated: EvalTarget, rows: slice, names: Sequence[str]) -> Tensor:
    """Ranks of each series under each ranking, (ranking, series, cell)."""
    explanation = evaluated.explanation
    values = evaluated.values[rows].to(evaluated.device).flatten(1)
    observed, ids = evaluated.cells_observed(rows), explanation.ids[rows].to(evaluated.device, torch.int64)
    sizes = (cell_importance(values, name, signed=explanation.signed) for name in names)
    return torch.stack([rankings(size, observed, ids) for size in sizes])


def _states(
    evaluated: EvalTarget, rows: slice, schedules: Sequence[RemovalSchedule], names: Sequence[str]
) -> tuple[States, list[Tensor]]:
    """All states of all schedules without repetition, and where each finds its own, (series, state)."""
    observed = evaluated.observed[rows].to(evaluated.device)[:, None]
    row = torch.arange(len(observed), device=evaluated.device)[:, None]
    orders, radix = 2 * len(names), evaluated.x[0].numel() + 1
    codes = []
    for schedule in schedules:
        counts = schedule.counts(rows, evaluated.device)
        order = 2 * names.index(schedule.rank) + (not schedule.descending)
        # with nothing or everything gone the order makes no difference
        trivial = (counts == 0) | (counts == observed)
        codes.append((row * orders + torch.where(trivial, 0, order)) * radix + counts)
    distinct, where = torch.unique(torch.cat([code.flatten() for code in codes]), return_inverse=True)
    counts, rest = distinct % radix, distinct // radix
    row, order = rest // orders, rest % orders
    first = torch.where(order % 2 == 1, observed[row, 0] - counts, 0)
    parts = where.split([code.numel() for code in codes])
    indices = [part.view(code.shape) for part, code in zip(parts, codes, strict=True)]
    return States(row, order // 2, first, first + counts), indices


def _run_states(
    evaluated: EvalTarget, rows: slice, ranks: Tensor, states: States, size: int
) -> tuple[Tensor, Tensor | None]:
    """Return the model's output as it is for each state, (state, …), at most ``size`` of them at a time.

    Where a function picks the score, that is the second, (state,).
    """
    absent = evaluated.absent(rows)
    x, baseline = (part.to(evaluated.device, evaluated.dtype) for part in (evaluated.x[rows], absent))
    explanation, outputs, picked = evaluated.explanation, [], []
    for batch in slices(len(states.row), size):
        row, ranking, first, stop = (part[batch] for part in states)
        rank = ranks[ranking, row]  # (state, cell)
        gone = ((rank >= first[:, None]) & (rank < stop[:, None])).view(-1, *x.shape[1:])
        z = torch.where(gone, baseline[row], x[row])
        with torch.no_grad():
            alike = nested(gone, row, 2 * ranking + (first > 0))
            raw = call_model(evaluated.at(row + rows.start), z, alike, shape=explanation.values.shape)
            raw = with_axis(explanation, raw.to(torch.promote_types(raw.dtype, torch.float32)))
            if evaluated.picker is not None:
                picked.append(picked_score(explanation, evaluated.picker, raw, z, row + rows.start))
        outputs.append(raw)
    whole = torch.cat(outputs)
    if not bool(whole.isfinite().all()):
        raise ModelError(
            "The model returned NaN or infinity for a series with cells removed: check its weights, or choose a "
            "baseline it can read."
        )
    if not picked:
        return whole, None
    score = torch.cat(picked)
    if not bool(score.isfinite().all()):
        raise InputError(
            "target(output) is NaN or infinite for a series with cells removed: pick a score that is a number "
            "there too, or choose another baseline."
        )
    return whole, score
