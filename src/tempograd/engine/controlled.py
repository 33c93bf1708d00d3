r"""A weighted mean over path points, less the noise that numbers which come with the passes can explain.

Let :math:`y_i` be the effects of point :math:`i` at position :math:`\alpha_i` with weight :math:`v_i` (0 for the
cells it holds), :math:`d_i` their sum over the cells that move, and :math:`F_i` the score there. Along the path of
one mask :math:`d = \mathrm dF / \mathrm d\alpha`, so by parts these have mean 0 for every mask:

.. math:: e_{i1} = \alpha_i - \tfrac12, \qquad e_{i2} = \alpha_i d_i - (F(x) - F_i), \qquad
    e_{i3} = \alpha_i^2 d_i - 2 \alpha_i (F(x) - F_i).

Where effects are large because the model is steep there, :math:`e_2` and :math:`e_3` are large too. Each cell's
effects are regressed on all three, with weights :math:`v^2` and slopes :math:`\beta` drawn towards 0 (ridge):

.. math:: \hat y = \frac{\sum v_i (y_i - \beta^\top e_i)}{\sum v_i}, \qquad
    \widehat{\mathrm{var}} = \frac{n}{n - 1 - k}\,\frac{\sum v_i^2 r_i^2}{(\sum v_i)^2}\,(1 + \ell), \qquad
    n = \frac{(\sum v_i)^2}{\sum v_i^2},

with residuals :math:`r`, :math:`k` slopes in use and the leverage :math:`\ell` of :math:`e = 0`. Two things widen
the error where a model is steep. A few points that hit the steep places pull the fit towards themselves: errors are
divided by :math:`1 - h`, with :math:`h` the mean leverage of a point, weighted by :math:`e^2`. And a run that missed
these places sees small residuals, but its :math:`e_2` or :math:`e_3` do not have mean 0, and its slopes :math:`d_i`
do not add up to the change of the score, which the :math:`F_i` of points near the baseline tell: where a mean is more
than its standard error from 0, what is missing counts, by a cell's share in it.
"""

from itertools import combinations_with_replacement

import torch
from torch import Tensor

from tempograd.engine.average import Estimate

RIDGE = (1.0, 10.0, 10.0)  # points as good as seen in which a control varies and the effects do not
SUSPECT = (1.0, 1.25)  # standard errors of a control's mean: from where something is missing, and where all counts
WIDER = 2.0  # standard errors per missing part
TINY = 1e-30


class ControlledMean:
    """Accumulates points piece by piece; the mean is that of the effects, gradient times way."""

    def __init__(self, way: Tensor) -> None:
        """Start with how far each cell moves, (series, time, channel)."""
        self._way = way
        self._sums: list[Tensor] = []
        self._path: list[Tensor] = []  # position, weight, gap and weighted controls of every point
        self._controls = 0

    def add(
        self, gradient: Tensor, weight: Tensor | None, free: Tensor, position: Tensor, gap: Tensor | None
    ) -> None:
        """Take points.

        Parameters
        ----------
        gradient, free : Tensor of shape (series, points, time, channel)
        weight : Tensor of shape (series, points), optional
        position : Tensor that broadcasts to (series, points)
            0 at the baseline, 1 at the input.
        gap : Tensor of shape (series, points), optional
            Score of the input minus that of each point; without it only the position is used.
        """
        free, way = free.flatten(2), self._way.flatten(1)[..., None]
        moved = gradient.flatten(2) * free
        sizes = moved.abs()
        slope, size, length = (torch.bmm(*pair)[..., 0] for pair in ((moved, way), (sizes, way.abs()), (free, way.abs())))
        one = torch.ones_like(slope)
        w = one if weight is None else weight.to(slope)
        u, place = w.square(), position.to(slope).expand_as(slope)
        e = [place - 0.5]
        if gap is not None:
            e += [place * slope - gap, place * (place * slope - 2 * gap)]
        self._controls = len(e)
        products = [a * b for a, b in combinations_with_replacement(e, 2)]
        factors = torch.stack([w, u, *(w * a for a in e), *(u * a for a in (*e, *products)), one], 1)
        shares = torch.stack([w / size.clamp(min=TINY), w / length.clamp(min=TINY)], 1)
        on_effects = torch.cat([factors[:, :2], factors[:, 2 + len(e) : 2 + 2 * len(e)]], 1)
        parts = [
            _with_slope(factors, free, one),
            _with_slope(on_effects, moved, slope),
            _with_slope(factors[:, 1:2], moved.square(), slope.square()),
            torch.bmm(shares[:, :1], sizes),
            torch.bmm(shares[:, 1:], free),
        ]
        self._sums = [old + new for old, new in zip(self._sums, parts, strict=True)] if self._sums else parts
        if gap is not None:
            self._path.append(torch.stack([place, w, gap, w * e[1], w * e[2]], 1))

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._way = self._way[rows]
        self._sums, self._path = ([part[rows] for part in parts] for parts in (self._sums, self._path))

    def result(self) -> Estimate:
        """Return the estimate; a cell no point counted for has mean 0 and an infinite error."""
        k = self._controls
        on_free, on_effects, (squares,), (share,), (length,) = (part.unbind(1) for part in self._sums)
        total, mass, number = on_free[0].clamp(min=TINY), on_free[1].clamp(min=TINY), on_free[-1]
        wy, uy = on_effects[0] / total, on_effects[1] / mass
        means, ues = on_free[2 : 2 + k], on_free[2 + k : 2 + 2 * k]
        ratio = mass / number.clamp(min=1)  # what one point weighs
        square = dict(zip(combinations_with_replacement(range(k), 2), on_free[2 + 2 * k : -1], strict=True))
        grid: dict[tuple[int, int], Tensor] = {}
        for (a, b), both in square.items():
            grid[a, b] = both - ues[a] * (ues[b] / mass)
        size = [square[a, a][:, -1:] / mass[:, -1:] for a in range(k)]  # of a control, its square
        ridge = [RIDGE[a] * ratio * size[a] + TINY for a in range(k)]
        for a in range(k):
            grid[a, a] = grid[a, a] + ridge[a]
            grid[a, k] = on_effects[2 + a] - ues[a] * uy
            grid[a, k + 1] = means[a] / total
        nothing = torch.zeros_like(total)
        grid |= {(k, k): squares - uy * uy * mass, (k, k + 1): nothing, (k + 1, k + 1): nothing}
        slopes = _eliminate(grid, k)
        rest = grid[k, k] - sum((weight * slope.square() for weight, slope in zip(ridge, slopes, strict=True)), nothing)

        mean = wy + grid[k, k + 1]
        lever = 1 - mass * grid[k + 1, k + 1]
        effective = total * (total / mass)
        used = sum((number / (number + firm) for firm in RIDGE[:k]), nothing)
        freedom = (effective - 1 - used).clamp(min=0.5)
        spread = (rest.clamp(min=0) * lever * effective / freedom).sqrt() / total
        way = self._way.flatten(1)
        mean_slope, cells = mean[:, -1], slice(0, -1)
        error = spread[:, cells] * way.abs()
        if self._path:
            path = torch.cat(self._path, 2)
            part = torch.maximum(share, length) * way.abs() / total[:, cells]
            error = error / (1 - _leverage(path))[:, None]
            error = torch.hypot(error, WIDER * _missing(path, mean_slope)[:, None] * part)
        number = number[:, cells]
        parts = (
            (mean[:, cells] * way).where(number > 0, 0),
            error.masked_fill(number < 2, torch.inf),
            number,
            effective[:, cells],
        )
        return Estimate(*(part.view(self._way.shape) for part in parts))


def _leverage(path: Tensor) -> Tensor:
    """Mean share of a point in its own fitted value, by the squares of the stronger control, (series,)."""
    squares = path[:, 3:].square()
    total = squares.sum(2).clamp(min=TINY)
    each = squares.square().sum(2) / total / (total * (1 + RIDGE[1] / squares.shape[2]))
    return each.amax(1).clamp(max=0.9)


def _missing(path: Tensor, slope: Tensor) -> Tensor:
    """How far the mean slope is from the change of the score, where the controls say that it matters, (series,).

    The change is read off a cubic through the gaps, which vanish at the input.
    """
    position, w, gap = path[:, :3].double().unbind(1)
    basis = torch.stack([(1 - position) ** power for power in (1, 2, 3)], 1)
    weighted = basis * w[:, None]
    normal = weighted @ basis.mT
    normal = normal + 1e-6 * w.mean(1)[:, None, None] * torch.eye(3, dtype=w.dtype, device=w.device)
    curve, _ = torch.linalg.solve_ex(normal, weighted @ gap[..., None])  # the checks of solve() wait for the device
    change = curve.sum((1, 2))  # at the baseline each power is 1
    controls = path[:, 3:].double()
    total = w.sum(1)[:, None]
    mean = controls.sum(2) / total
    error = (controls - w[:, None] * mean[..., None]).square().sum(2).sqrt() / total
    off = (mean.abs() / error.clamp(min=TINY)).amax(1)
    counts = ((off - SUSPECT[0]) / (SUSPECT[1] - SUSPECT[0])).clamp(0, 1)
    missing: Tensor = (slope - change).abs() * counts
    return missing.to(slope.dtype)


def _with_slope(factors: Tensor, cells: Tensor, slope: Tensor) -> Tensor:
    """Sum over points, for each cell and, as if it were one more that always moves, for the slope."""
    return torch.cat([torch.bmm(factors, cells), torch.bmm(factors, slope[..., None])], 2)


def _eliminate(grid: dict[tuple[int, int], Tensor], count: int) -> list[Tensor]:
    """Eliminate the first rows of a symmetric matrix, given above its diagonal, in place.

    Returns the solution for the column that follows them.
    """
    last = max(column for _, column in grid)
    for pivot in range(count):
        for row in range(pivot + 1, last + 1):
            factor = grid[pivot, row] / grid[pivot, pivot]
            for column in range(row, last + 1):
                grid[row, column] = grid[row, column] - factor * grid[pivot, column]
    solved: list[Tensor] = []
    for row in reversed(range(count)):
        rest = grid[row, count]
        for column, value in enumerate(solved, row + 1):
            rest = rest - grid[row, column] * value
        solved.insert(0, rest / grid[row, row])
    return solved
