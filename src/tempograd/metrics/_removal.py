r"""Series with cells taken away in the order of their scores, and what the model says about them.

The cells of a series are ranked :math:`0, 1, …, n-1`, most important first; a hash of (series id, cell)
orders equal scores. Every series the model is asked about lacks the cells of one run of ranks,
:math:`[0, j)` when the important go first and :math:`[n-j, n)` when they go last, so that

.. math:: z_{t,d} = \begin{cases} s_{t,d} & \text{rank}_{t,d} \in [a, b) \\ x_{t,d} & \text{else}
    \end{cases}

with the substitute :math:`s`. Metrics that look at the same state share one pass of the model.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.brief import brief
from tempograd.draws import Purpose, keys, words
from tempograd.engine import Chunks, asked, nested, pieces, wider
from tempograd.errors import InputError, ModelError
from tempograd.metrics._reading import Reading
from tempograd.metrics._subject import Subject
from tempograd.settings import Amount

ROUNDING = 1e-9  # 0.29 · 100 is 28.999999999999996 in floating point and means 29


class Route(NamedTuple):
    """Which cells go: along one ranking, from one end, at every count up to the limit or at the limit only."""

    rank: str
    descending: bool
    limit: Tensor  # (series,), cells removed in the end
    every: bool

    @property
    def width(self) -> int:
        """How many states there are, the clean series included."""
        return int(self.limit.max()) + 1 if self.every else 2

    def counts(self, rows: slice, device: torch.device) -> Tensor:
        """Cells removed in each state, (series, state); the first is the clean series."""
        limit = self.limit[rows].to(device)[:, None]
        if not self.every:
            return torch.cat([torch.zeros_like(limit), limit], 1)
        return torch.minimum(torch.arange(self.width, device=device), limit)


class States(NamedTuple):
    """Series with a run of ranks removed, each once: which series, which ranking, which run."""

    row: Tensor
    ranking: Tensor
    first: Tensor
    stop: Tensor


def strength(values: Tensor, rank: str, *, signed: bool) -> Tensor:
    """Return what cells are ranked by; see :attr:`tempograd.Explanation.strength`."""
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
    stream = keys(0, ids, Purpose.TIES)
    cell = torch.arange(scores.shape[1], device=scores.device)
    shuffled = words(stream[..., None], cell).argsort(1)
    scores = scores.masked_fill(~observed, -torch.inf).gather(1, shuffled)
    order = shuffled.gather(1, scores.argsort(dim=1, descending=True, stable=True))
    return torch.empty_like(order).scatter_(1, order, cell.expand_as(order))


def amounts(k: Any, observed: Tensor, cells: int) -> Tensor:
    """How many cells of each series ``k`` means, (series,), given how many are observed.

    Examples
    --------
    >>> observed = torch.tensor([100, 4, 0])
    >>> amounts(0.29, observed, 100), amounts(7, observed, 100)
    (tensor([29,  1,  0]), tensor([7, 4, 0]))
    """
    k = Amount().check(k, "k")
    if isinstance(k, int):
        if k > cells:
            raise InputError(f"k={brief(k)} is more than the {cells} cells of a series.")
        return observed.clamp(max=k)
    share = (observed.double() * k + ROUNDING).floor().to(observed)
    return torch.minimum(share.clamp(min=1), observed)


def walk(
    subject: Subject, routes: Sequence[Route], read: Callable[[slice, list[Reading]], None], label: str
) -> None:
    """Ask the model about every state of every route once, a few series at a time.

    ``read`` gets the rows and one reading per route; it may be called again for the same rows when memory
    ran out half-way.
    """
    names = sorted({route.rank for route in routes})
    ends = {(route.rank, route.descending, route.every, route.width): route.width for route in routes}

    def work(rows: slice, size: int) -> None:
        ranks = _ranks(subject, rows, names)
        states, indices = _states(subject, rows, routes, names)
        answers = _ask(subject, rows, ranks, states, size)
        steps = subject.steps(rows, answers)
        target = subject.target(rows, answers, steps)
        output = subject.explanation.output
        read(rows, [Reading(answers[index], output, target, steps) for index in indices])

    plan = wider(Chunks(subject.device, subject.x[0].numel(), subject.chunk), subject.model)
    plan.run(len(subject.x), sum(ends.values()), work, label)


def _ranks(subject: Subject, rows: slice, names: Sequence[str]) -> Tensor:
    """Ranks of each series under each ranking, (ranking, series, cell)."""
    explanation = subject.explanation
    values = explanation.values[rows].to(subject.device).flatten(1)
    observed, ids = subject.cells_observed(rows), explanation.ids[rows].to(subject.device, torch.int64)
    sizes = (strength(values, name, signed=explanation.signed) for name in names)
    return torch.stack([rankings(size, observed, ids) for size in sizes])


def _states(
    subject: Subject, rows: slice, routes: Sequence[Route], names: Sequence[str]
) -> tuple[States, list[Tensor]]:
    """All states of all routes without repetition, and where each route finds its own, (series, state)."""
    observed = subject.observed[rows].to(subject.device)[:, None]
    row = torch.arange(len(observed), device=subject.device)[:, None]
    ways, radix = 2 * len(names), subject.x[0].numel() + 1
    codes = []
    for route in routes:
        counts = route.counts(rows, subject.device)
        way = 2 * names.index(route.rank) + (not route.descending)
        # with nothing or everything gone the order makes no difference
        trivial = (counts == 0) | (counts == observed)
        codes.append((row * ways + torch.where(trivial, 0, way)) * radix + counts)
    distinct, where = torch.unique(torch.cat([code.flatten() for code in codes]), return_inverse=True)
    counts, rest = distinct % radix, distinct // radix
    row, way = rest // ways, rest % ways
    first = torch.where(way % 2 == 1, observed[row, 0] - counts, 0)
    parts = where.split([code.numel() for code in codes])
    indices = [part.view(code.shape) for part, code in zip(parts, codes, strict=True)]
    return States(row, way // 2, first, first + counts), indices


def _ask(subject: Subject, rows: slice, ranks: Tensor, states: States, size: int) -> Tensor:
    """Return the model's output as it is for each state, (state, …), at most ``size`` of them at a time."""
    x, substitute = (t[rows].to(subject.device, subject.dtype) for t in (subject.x, subject.substitute))
    answers = []
    for piece in pieces(len(states.row), size):
        row, ranking, first, stop = (part[piece] for part in states)
        rank = ranks[ranking, row]  # (state, cell)
        gone = ((rank >= first[:, None]) & (rank < stop[:, None])).view(-1, *x.shape[1:])
        z = torch.where(gone, substitute[row], x[row])
        with torch.no_grad():
            alike = nested(gone, row, 2 * ranking + (first > 0))
            answer = asked(subject.model, z, alike, shape=subject.x.shape)
        answers.append(answer.to(torch.promote_types(answer.dtype, torch.float32)))
    whole = torch.cat(answers)
    if not bool(whole.isfinite().all()):
        raise ModelError(
            "The model returned NaN or infinity for a series with cells removed: "
            "check its weights, or choose a substitute it can read."
        )
    return whole
