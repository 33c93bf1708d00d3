r"""Values that stand together and push one way: the drivers of many predictions at once.

In each channel of a series, in this order:

1. A value is *weak* if the size of its score is below a fifth of the largest of its channel.
2. A driver goes from one value that is not weak to another of the same sign. It ends before a value of the other
   sign that is not weak, and where too many weak values follow each other: more than one for every 24 steps of the
   series, or than one. Values that were not observed are passed over.
3. A long driver is cut at its ends to the shortest stretch that holds nine tenths of its sum.

Its total is the plain sum of ``values`` from its first to its last step. Drivers are ordered by the size of it.

The error of a total: standard errors of single cells are known, how the errors of neighbours go together is not.
They are added up, :math:`s = \sum_c s_c`, which no correlation can exceed. Where neighbours err in the same
direction, as they mostly do since they share their samples, that is about right; else it is too large. Totals of a
small GRU over 40 seeds spread by 0.8 of it, and 95 to 98 % of the intervals held what many samples give; with
:math:`\sqrt{\sum_c s_c^2}`, as if cells were independent, 80 %. Where a model is so steep that intervals of cells
are too narrow, those of their sums are too.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from tempograd.core import stats
from tempograd.core.estimate import three_digits

MOST = 4  # drivers that a sentence may name
NAMED = 0.1  # of the strongest driver: what is smaller is not worth a place in a sentence
WEAK = 0.2  # of the largest score of a channel
PAUSE = 24  # steps of a series for each weak value that may follow another inside a driver
KEPT = 0.9  # of the sum of a driver
LEVEL = 0.95
SLACK = 1e-9  # of a sum, which rounding may take


class WithErrors(Protocol):
    """Scores with their errors, as an explanation or an estimate has them."""

    @property
    def values(self) -> Tensor: ...
    @property
    def standard_error(self) -> Tensor | None: ...
    @property
    def ess(self) -> Tensor | None: ...
    @property
    def signed(self) -> bool: ...


class Stretches(NamedTuple):
    """Drivers of some series, by series, the strongest of each first: one entry each.

    Attributes
    ----------
    row, rank : Tensor
        Which series, and the place among its drivers, from 0.
    channel, start, stop : Tensor
        Where; ``stop`` is no step of it any more.
    total, error : Tensor
        The sum of the scores, and its standard error at most: infinite where some cell's is not known, NaN for
        methods without one.
    reach : Tensor
        Half the width of the 95 % interval of the total, by Student's t with the freedom of its rarest cell.
    certain : Tensor
        Whether that interval leaves 0 out; methods without an error have nothing against it.
    """

    row: Tensor
    rank: Tensor
    channel: Tensor
    start: Tensor
    stop: Tensor
    total: Tensor
    error: Tensor
    reach: Tensor
    certain: Tensor

    def cells(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the channel of each driver, (driver, time), and which of its steps belong to it."""
        time = torch.arange(values.shape[1], device=values.device)
        return values[self.row, :, self.channel], (time >= self.start[:, None]) & (time < self.stop[:, None])


def stretches_of(scores: WithErrors, mask: Tensor | None, most: int = MOST) -> Stretches:
    """Return what drove each prediction, at most so many drivers of each; ``mask`` has the cells with a value."""
    values = scores.values.double()
    values = values if scores.signed else values.clamp(min=0)
    seen = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
    seen = seen.to(values.device)
    nothing = torch.zeros(0, device=values.device)
    place = Stretches(*strongest_of(values, seen, most), *[nothing] * 4)
    cells, inside = place.cells(values)
    total = cells.where(inside, 0).sum(1)
    if scores.standard_error is None:
        unknown = torch.full_like(total, torch.nan)
        return place._replace(total=total, error=unknown, reach=unknown, certain=torch.ones_like(total).bool())
    inside &= place.cells(seen)[0]
    error = place.cells(scores.standard_error.double())[0].where(inside, 0).sum(1)
    if scores.ess is None or not scores.signed:
        reach = torch.full_like(total, torch.inf)
    else:
        ess = place.cells(scores.ess.double())[0]
        reach = error * stats.t_quantile(LEVEL, (ess.where(inside, torch.inf).amin(1) - 1).clamp(min=0))
    certain = (total.abs() > reach) & error.isfinite()
    return place._replace(total=total, error=error, reach=reach.nan_to_num(torch.inf), certain=certain)


def answered(scores: WithErrors, mask: Tensor | None) -> Tensor:
    """Tell for each series whether all drivers that its sentence would name are certain, and there is one."""
    found = stretches_of(scores, mask)
    size, reach = three_digits(found.total.abs()), three_digits(found.reach)
    first = size.new_zeros(len(scores.values)).index_put((found.row[found.rank == 0],), size[found.rank == 0])
    unsure = (size >= NAMED * first[found.row]) & (size <= reach)
    open_ = first == 0
    open_[found.row[unsure]] = True
    return ~open_


def strongest_of(values: Tensor, seen: Tensor, most: int) -> tuple[Tensor, ...]:
    """Return row, rank, channel, start and stop of the strongest drivers of each series, in order.

    Examples
    --------
    >>> values = torch.tensor([0.0, 3.0, 0.1, 2.0, -1.0, 0.0, 0.0, -2.0]).double()[None, :, None]
    >>> row, rank, channel, start, stop = strongest_of(values, torch.ones(1, 8, 1).bool(), 4)
    >>> start.tolist(), stop.tolist()
    ([1, 7, 4], [4, 8, 5])
    """
    count, time, depth = values.shape
    flat = values.transpose(1, 2).reshape(count * depth, time)  # a channel in each row
    line, start, stop = _stretches(flat, seen.transpose(1, 2).reshape(count * depth, time))
    sizes, sums = (torch.nn.functional.pad(each.cumsum(1), (1, 0)) for each in (flat.abs(), flat))
    first, last = _cut(sizes, line, start, stop)
    row, rank, order = _ranked(line // depth, (sums[line, last] - sums[line, first]).abs(), count)
    kept = rank < most
    best = order[kept]
    return row[kept], rank[kept], line[best] % depth, first[best], last[best]


def _ranked(row: Tensor, size: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Order entries by row, the largest of each first, ties as they stand; return rows, ranks and the order."""
    order = size.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]
    row = row[order]
    first = torch.searchsorted(row, torch.arange(count, device=row.device))
    return row, torch.arange(len(row), device=row.device) - first[row], order


def _stretches(values: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the line, the begin and the end of every driver before it is cut; ``values`` has a channel a line."""
    time = values.shape[1]
    size = values.abs().where(seen, 0)
    least = (WEAK * size.amax(1, keepdim=True)).clamp(min=torch.finfo(torch.float64).tiny)
    line, step = (size >= least).nonzero(as_tuple=True)  # values that are not weak, in order
    number, up = seen.cumsum(1)[line, step], values[line, step] > 0
    ends = (line[1:] != line[:-1]) | (up[1:] != up[:-1]) | (number[1:] - number[:-1] > max(1, time // PAUSE) + 1)
    edge = torch.ones(min(1, len(line)), dtype=torch.bool, device=values.device)
    begins, stops = torch.cat([edge, ends]), torch.cat([ends, edge])
    return line[begins], step[begins], step[stops] + 1


def _cut(sums: Tensor, line: Tensor, start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Cut every stretch to the shortest part that holds nine tenths of it, the first of equally short ones.

    ``sums`` are those of the sizes before each step.
    """
    time = sums.shape[1] - 1
    length = stop - start
    which = torch.arange(len(line), device=line.device).repeat_interleave(length)
    step = torch.arange(len(which), device=line.device) - (length.cumsum(0) - length)[which] + start[which]
    whole = (sums[line, stop] - sums[line, start])[which]
    wanted = sums.new_full((len(sums), time), torch.inf)
    wanted[line[which], step] = sums[line[which], step] + KEPT * whole * (1 - SLACK)
    end = torch.searchsorted(sums, wanted)[line[which], step]  # the first that holds enough
    rated = ((end - step) * (time + 1) + step).where(end <= stop[which], (time + 1) ** 2)
    best = torch.full_like(line, (time + 1) ** 2).scatter_reduce(0, which, rated, "amin")
    first = best % (time + 1)
    return first, first + best // (time + 1)
