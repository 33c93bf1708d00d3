"""Series with cells removed in the order of their scores, and the model's outputs for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast, get_args

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg, brief, held
from tempograd.core.rng import Stream, bits, keys
from tempograd.core.validation import check_amount
from tempograd.engine import Block, both_logits, frozen, select_target, slices
from tempograd.engine.model import trusted
from tempograd.engine.outputs import by_class, is_probability, outputs_of
from tempograd.engine.predictor import pass_count
from tempograd.engine.second_look import FEW, Varying, look_again
from tempograd.metrics.base import AskAgain
from tempograd.typing import Measured, Task

MEASURED: tuple[Measured, ...] = get_args(Measured)
TOGETHER = 1024  # series whose draws are made at once

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

    @cached_property
    def score(self) -> Tensor:
        """The explained score, (series, state) or, at each step, (series, state, time)."""
        return self.picked if self.picked is not None else select_target(self.predictions, self._expanded_target)

    @property
    def log_probability(self) -> Tensor:
        """Its logarithm, from the logits where there are any: a probability may be too small for a float."""
        if self.output != "probability":
            return self.score.log()
        return select_target(both_logits(self.raw, self.output).log_softmax(-1), self._expanded_target)

    @property
    def retained(self) -> Tensor:
        """Whether the predicted class is the explained one, like ``score``."""
        return both_logits(self.raw, self.output).argmax(-1) == self._expanded_target

    @property
    def delta(self) -> Tensor:
        """Distance between consecutive states, (series, state - 1): of the score, or L1 of all outputs."""
        followed = self.score[..., None] if self.of == "score" else self.predictions
        return self.over_steps(followed.diff(dim=1).abs().sum(-1))

    def over_steps(self, value: Tensor) -> Tensor:
        """Average over the explained steps, if there are several; NaN where no step is explained."""
        if self.steps is None or value.ndim == 2:  # a picked score has no steps
            return value
        steps = self.steps[:, None]
        return torch.where(steps, value, 0).sum(-1) / steps.sum(-1)

    def require_probability(self, metric: str) -> None:
        """Refuse a score that is no probability of a class."""
        holds = self.output != "raw" or is_probability(self.raw[:, 0])
        if outputs_of(self.task).kind != "classes" or self.target is None or not holds:
            none = f"{metric} needs the probability of a class, and the explained score is none"
            others = "cpd, cpp, prediction_difference, comprehensiveness or sufficiency"
            raise InputError(f"{none}: explain a class with {arg:question.output=probability}, or use {others}.")

    @property
    def _expanded_target(self) -> Tensor:
        if self.target is None:
            lost = f"A function picked the score, and files keep none: pass it as {arg:question.target}"
            raise InputError(f"{lost}, or use cpd or cpp with {arg:call.of=output}.")
        return self.target[:, None].expand(self.raw.shape[:-1])


def what_is_measured(ask: AskAgain, of: Any) -> Measured:
    """Return what cumulative metrics follow; by default the score where outputs say nothing of each other."""
    if of is None:
        picked = callable(ask.question.target) and ask.scored
        return "score" if picked or outputs_of(ask.task).kind != "classes" else "output"
    return cast("Measured", validation.check_choice(of, "of", MEASURED))


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
    """Which cells go: along one ranking, from one end, with the model looked at after some counts of them."""

    rank: str
    descending: bool
    limit: Tensor  # (series,), cells removed in the end
    stops: Tensor  # (state,), counts that are looked at, 0 first; a series stays as it is from its limit on


Reader = Callable[[list[RemovalOutputs]], Sequence[Tensor | None]]
"""Returns numbers of some series, (series, …) each, from their outputs along each schedule."""


States = tuple[Tensor, Tensor, Tensor, Tensor]
"""Series with a run of ranks removed, each once: which series, which ranking, first and stop of the run."""


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
    cell = torch.arange(scores.shape[1], device=scores.device)
    shuffled = bits(keys(0, ids, Stream.TIES)[..., None], cell).argsort(1)
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


def remove_cells(
    ask: AskAgain,
    schedules: Sequence[RemovalSchedule],
    read: Reader,
    label: str,
    *,
    of: Measured = "output",
    draws: int = 1,
) -> tuple[list[Tensor | None], Varying]:
    """Run the model on every state of every schedule once, or once for each of several draws of a background.

    Return what ``read`` tells of a few series at a time, for all of them, as means over the draws, and whether
    the model's outputs for the same series differ; each is run by itself where they depend on their batch.
    """
    ranks, explanation = sorted({schedule.rank for schedule in schedules}), ask.explanation
    ends = {(rank, descending, *stops.tolist()): len(stops) for rank, descending, _, stops in schedules}
    means: list[list[Tensor | None]] = []

    def work(others: Tensor | None, parts: dict[int, Sequence[Tensor | None]], rows: slice, size: int) -> None:
        block = ask.block(rows)
        if ask.background is not None and others is not None:
            block = block._replace(baseline=ask.background.pool[others[rows]].to(block.x))
        states, indices = _states(block, schedules, ranks)
        values, observed = explanation.values[rows].to(ask.device).flatten(1), block.observed.flatten(1)
        sizes = (cell_importance(values, rank, signed=explanation.signed) for rank in ranks)
        orders = torch.stack([rankings(size, observed, block.ids) for size in sizes])  # (ranking, series, cell)
        raw, score = _run_states(ask, block, orders, states, size)
        target, steps = ask.resolved.target, ask.steps
        outputs = RemovalOutputs(
            raw=raw.flatten(ask.resolved.axis),
            output=ask.output,
            target=target[rows].to(ask.device) if isinstance(target, Tensor) else None,
            steps=None if steps is None else steps[rows].to(ask.device),
            of=of,
            task=explanation.task,
        )
        told = ((outputs.raw[index], None if score is None else score[index]) for index in indices)
        parts[rows.start] = read([replace(outputs, raw=part, picked=picked) for part, picked in told])

    with frozen(ask.bare) as restore_buffers:
        varies = _varying(ask)
        ask = ask.one_by_one_if(varies == "batch")
        restore_buffers()
        for others in _replacements(ask, draws):
            parts: dict[int, Sequence[Tensor | None]] = {}  # by the first row: once more when memory ran out
            once = partial(work, others, parts)
            ask.batching.run(len(ask.x), sum(ends.values()), once, label)
            rows = zip(*(parts[start] for start in sorted(parts)), strict=True)
            means.append([None if part[0] is None else torch.cat(part) for part in rows])
    return [_mean(part) for part in zip(*means, strict=True)], varies


def _mean(draws: Sequence[Tensor | None]) -> Tensor | None:
    """Return the mean over the draws, as float32; a single one as it is, None where there is nothing."""
    known = [part for part in draws if part is not None]
    return draws[0] if len(known) < 2 else torch.stack(known).double().mean(0).float()


def _varying(ask: AskAgain) -> Varying:
    """Tell whether outputs for the same series differ: what the explanation knows, or else a look tells."""
    explanation, size = ask.explanation, ask.batch_size or FEW
    if explanation.varies or explanation.mixes_series or size == 1:
        return "batch" if explanation.mixes_series else "drawn" if explanation.varies else ""
    block = ask.block(slice(0, min(FEW, size)))
    if trusted(ask.model, block.x, "evaluate"):
        return ""
    with held(pass_count, None):  # which no budget pays for
        look = look_again(ask.model, ask.at, block.x, block.baseline)
        return "" if look is None else look.varies(caller="evaluate")


def _replacements(ask: AskAgain, draws: int) -> Iterator[Tensor | None]:
    """Yield, for one removal after the other, the row of the background that each series meets, (series,).

    Where there is no background, it is a single removal to the baseline: None.
    """
    if ask.background is None:
        yield None
        return
    blocks = map(ask.block, slices(len(ask.x), TOGETHER))
    rows = torch.cat([ask.background.rows(block.x, block.ids, draws) for block in blocks])
    yield from rows.to(ask.background.pool.device).unbind(1)


def _states(
    block: Block, schedules: Sequence[RemovalSchedule], ranks: Sequence[str]
) -> tuple[States, list[Tensor]]:
    """All states of all schedules without repetition, and where each finds its own, (series, state)."""
    observed, device = block.observed.flatten(1).sum(1, keepdim=True), block.x.device
    row = torch.arange(len(observed), device=device)[:, None]
    orders, radix = 2 * len(ranks), block.x[0].numel() + 1
    codes = []
    for schedule in schedules:
        counts = torch.minimum(schedule.stops.to(device), schedule.limit[block.rows].to(device)[:, None])
        order = 2 * ranks.index(schedule.rank) + (not schedule.descending)
        # with nothing or everything gone the order makes no difference
        trivial = (counts == 0) | (counts == observed)
        codes.append((row * orders + torch.where(trivial, 0, order)) * radix + counts)
    distinct, where = torch.unique(torch.cat([code.flatten() for code in codes]), return_inverse=True)
    counts, rest = distinct % radix, distinct // radix
    row, order = rest // orders, rest % orders
    first = torch.where(order % 2 == 1, observed[row, 0] - counts, 0)
    parts = where.split([code.numel() for code in codes])
    indices = [part.view(code.shape) for part, code in zip(parts, codes, strict=True)]
    return (row, order // 2, first, first + counts), indices


@torch.no_grad()
def _run_states(
    ask: AskAgain, block: Block, orders: Tensor, states: States, size: int
) -> tuple[Tensor, Tensor | None]:
    """Return the model's output as it is for each state, (state, …), at most ``size`` of them at a time.

    Where a function picks the score, that is the second, (state,).
    """
    picker = ask.question.target if callable(ask.question.target) and ask.scored else None
    outputs, picked = [], []
    for batch in slices(len(states[0]), size):
        row, ranking, first, stop = (part[batch] for part in states)
        rank, x = orders[ranking, row], block.x[row]  # (state, cell), (state, time, channel)
        gone = ((rank >= first[:, None]) & (rank < stop[:, None])).view_as(x)
        z = torch.where(gone, block.baseline[row], x)
        raw = ask.forward(z, block.index[row])
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
        if picker is not None:
            picked.append(ask.score(ask.apply_link(raw), block.take(row)._replace(target=picker), 1, z))
        outputs.append(raw)
    raw, scores = torch.cat(outputs), torch.cat(picked) if picked else None
    for what, numbers, kind in (("The model's output", raw, ModelError), ("target(output)", scores, InputError)):
        if numbers is not None and not bool(numbers.isfinite().all()):
            instead = "check the weights, or choose a baseline that the model can read"
            raise kind(f"{what} is NaN or infinite for a series with cells removed: {instead}.")
    return raw, scores
