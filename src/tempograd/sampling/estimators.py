"""Weighted means over path points, with their errors, and with less noise where the passes can explain it."""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.core.estimate import UNSEEN, relative_error
from tempograd.core.kernels import MANY, CellSums, available, over_cells, over_points
from tempograd.engine.cuda import CELLS, Tensors, run_captured
from tempograd.engine.model import Model, exact

RIDGE = (1.0, 10.0, 10.0)  # points as good as seen in which a control varies and the effects do not
TAILS = 8.0  # times the fourth power of a control may be its square's square before it counts as carried by few
BORROWED, IN_TAILS = 2, 4  # draws' worth of variance that a cell has from others, always and where there are tails
FIRM = 4.0  # how much sooner than an error itself what it borrows grows with the tails
NOISE = 2.5  # standard errors that the mean of a control may be from 0
WIDER = 3.0  # standard errors per missing part
MEAN_SIZE = math.sqrt(2 / math.pi)  # mean of |z| for a standard normal z
ROUNDED = 1e-5  # degrees of freedom that are none: a variance over as little is as large as it likes
LITTLE = 0.5  # degrees of freedom of a series in which no cell has any
TINY = 1e-30


class Means(NamedTuple):
    """Per cell: the mean, its standard error, how many points counted, and how many they are worth."""

    mean: Tensor
    error: Tensor
    points: Tensor
    effective: Tensor


class DrawnSteps(NamedTuple):
    r"""How far each point moves the cells, where that is drawn, and its mean over all draws, which is known.

    Effects :math:`y_i = g_i s_i`, gradients times steps, then vary with the draw of :math:`s_i` even where the
    gradient is the same everywhere. How far a step is from its mean :math:`\bar s` has mean 0, so what the mean
    gradient :math:`\bar g` makes of it is taken out,

    .. math:: y_i' = g_i s_i - \bar g \, (s_i - \bar s),

    and the noise that is left is that of the gradient alone; its bias is :math:`O(1 / n)`.
    """

    each: Tensor  # (series, points, time, channel)
    mean: Tensor  # (series, time, channel)


class WeightedMean:
    r"""A weighted mean over path points with its standard error, in one pass, batch by batch in path order.

    The points of a series are ordered along the path, so their gradients carry a trend that is not noise. With
    :math:`z_i = v_i (y_i - \hat y)`, the residual of point :math:`i` with weight :math:`v_i`, the variance of the
    mean :math:`\hat y = \sum v_i y_i / \sum v_i` is estimated from pairs of neighbours,

    .. math:: \widehat{\mathrm{var}}(\hat y) = \frac{n}{n - 1} \,
        \frac{\sum_j (z_{2j+1} - z_{2j})^2}{(\sum_i v_i)^2}, \qquad n = \frac{(\sum v_i)^2}{\sum v_i^2},

    in which a smooth trend cancels; where few points count, neighbours do not matter and it is the usual estimate
    of a ratio. :math:`n` is the effective sample size. A last point without neighbour is its own pair.
    ``errors=False`` leaves the error out (it is 0 then). With :class:`DrawnSteps`, :math:`y` are effects without
    the noise of these.
    """

    def __init__(self, *, errors: bool = True) -> None:
        self._errors = errors
        self._sums: list[Tensor] = []
        self._pairs: list[list[Tensor]] = []  # differences of weighted values, of weights, and of weighted steps
        self._single: list[Tensor] | None = None

    def add(
        self,
        y: Tensor,
        weight: Tensor | None = None,
        active: Tensor | None = None,
        steps: DrawnSteps | None = None,
    ) -> None:
        """Take points ``y``, (series, points, time, channel), with weights that broadcast to (series, points).

        ``active``, like ``y``, is 1 for the cells each point counts for and 0 for others. With ``steps``, ``y``
        are gradients.
        """
        count = torch.full_like(y[:, 0], y.shape[1]) if active is None else active.sum(1)
        v, sums = torch.ones_like(y[:1, :1]).expand_as(y) if active is None else active, [count, count]
        if weight is not None:
            v = weight[..., None, None] * v
            sums = [v.sum(1), _squares(v)]
        p = torch.mul(y, v, out=torch.empty(y.shape, dtype=y.dtype, device=y.device))  # whatever y's layout
        shifts, more = [], []
        if steps is not None:
            shift = (steps.each - steps.mean[:, None]) * v
            shifts, more, p = [shift], [p.sum(1), shift.sum(1)], p * steps.each
        parts = [p.sum(1), *sums, count, *more]
        self._sums = [old + new for old, new in zip(self._sums, parts, strict=True)] if self._sums else parts
        if self._errors:
            self._pair([p, v, *shifts])

    def result(self) -> Means:
        """Return the estimate; a cell no point counted for has mean 0 and an infinite error."""
        if self._single is not None:
            self._pairs.append(self._single)
        total, weight, squares, points, *of_steps = self._sums
        weight = weight.clamp(min=torch.finfo(weight.dtype).tiny)
        factors = []
        if of_steps:
            gradient, shift = of_steps[0] / weight, of_steps[1]
            total, factors = torch.addcmul(total, gradient, shift, value=-1), [gradient]
        mean = total / weight
        residuals = (_residual(pair, [mean, *factors]) for pair in self._pairs)
        spread = sum((_squares(residual) for residual in residuals), torch.zeros_like(mean))
        effective = weight * (weight / squares.clamp(min=torch.finfo(weight.dtype).tiny))
        error = (effective / (effective - 1).clamp(min=1e-6) * spread).sqrt() / weight
        return Means(mean, error.masked_fill_(points < 2, torch.inf), points, effective)

    def _pair(self, parts: list[Tensor]) -> None:
        """Take differences of neighbours; a point left over waits for the next batch."""
        if self._single is not None:
            parts = [torch.cat([old, new], 1) for old, new in zip(self._single, parts, strict=True)]
        points = parts[0].shape[1]
        even = points // 2 * 2
        self._single = [part[:, even:] for part in parts] if even < points else None
        self._pairs.append([part[:, 1:even:2] - part[:, 0:even:2] for part in parts])


def _residual(pair: Sequence[Tensor], factors: Sequence[Tensor]) -> Tensor:
    """Return the first of a pair's differences less what the factors make of the others."""
    rest, *others = pair
    for part, factor in zip(others, factors, strict=True):
        rest = torch.addcmul(rest, part, factor[:, None], value=-1)
    return rest


def _squares(part: Tensor) -> Tensor:
    """Sum of squares over the points; on a GPU without writing the squares down, which is slower on a CPU."""
    if not part.is_cuda:
        return part.square().sum(1)
    norm: Tensor = torch.linalg.vector_norm(part, dim=1)
    return norm.square_()


class ControlVariateMean:
    r"""A weighted mean of effects, gradient times displacement, less the noise that the passes can explain.

    Let :math:`y_i` be the effects of point :math:`i` at position :math:`\alpha_i` with weight :math:`v_i` (0 for
    fixed cells), :math:`d_i` their sum over the active cells, and :math:`F_i` the score there. Along the
    path of one mask :math:`d = \mathrm dF / \mathrm d\alpha`, so by parts these have mean 0 for every mask:

    .. math:: e_{i1} = \alpha_i - \tfrac12, \qquad e_{i2} = \alpha_i d_i - (F(x) - F_i), \qquad
        e_{i3} = \alpha_i^2 d_i - 2 \alpha_i (F(x) - F_i).

    Where effects are large because the model is steep there, :math:`e_2` and :math:`e_3` are large too. Each
    cell's effects are regressed on all three, with weights :math:`v^2` and slopes :math:`\beta` drawn towards 0
    (ridge):

    .. math:: \hat y = \frac{\sum v_i (y_i - \beta^\top e_i)}{\sum v_i}, \qquad
        \widehat{\mathrm{var}} = \frac{n}{n - 1 - k}\,\frac{\sum v_i^2 r_i^2}{(\sum v_i)^2}\,(1 + \ell), \qquad
        n = \frac{(\sum v_i)^2}{\sum v_i^2},

    with residuals :math:`r`, :math:`k` slopes in use and the leverage :math:`\ell` of :math:`e = 0`. Four things
    make this hold where points are few or a model is steep.

    *Tails.* Where few points carry a control (:math:`h`, its fourth powers as a share of its squares squared,
    beyond what smooth models have), slopes are known from these few, and so much of what the regression explains
    counts as noise: :math:`\sum v^2 r^2` becomes :math:`(1 - h) \sum v^2 r^2 + h \sum v^2 (y - \bar y)^2`.

    *Cells with few draws* know little of their variance. They borrow it from all cells of the series, at the same
    share of their mean squared effect, and where there are tails also at that of their share in the effects of a
    point: a cell that met no steep place has seen hardly any effect, but how large its share of one would be.

    *A missing slope.* A run that missed steep places sees small residuals, but its :math:`e_2` and :math:`e_3` do
    not have mean 0. How far they are from it, beyond their own noise, times 2 and 3 (the mean of :math:`\alpha`
    is 1/2, that of :math:`\alpha^2` 1/3), is about the slope that is missing. With a gradient of no
    known direction it counts by a cell's part in the displacement of all active ones, by squares.

    *An unseen change.* If the score changes by :math:`c` on the whole way and the points saw no more than
    :math:`s` of it, what they did not meet has a probability below :math:`3 / n`. It counts in the same way, as
    :math:`\tfrac3n (|c| - s)^4 / |c|^3`: nearly nothing where a good part was seen.

    The estimate is unbiased up to :math:`O(1 / n)`: slopes and means come from the same points. With
    :class:`DrawnSteps`, effects are those without the noise of these.
    """

    def __init__(self, displacement: Tensor, model: Model | None = None) -> None:
        """Start with the displacement of each cell, (series, time, channel).

        With a model, the work on a few series is captured like its passes, since it is launched as slowly.
        """
        self._displacement, self._model = displacement, model
        self._sums: list[Tensor] = []
        self._unit: Tensor | None = None  # size of a series' effects
        self._seen: Tensor | None = None  # largest change of the score that a point saw, (series, 1)
        self.change: Tensor | None = None  # of the score on the whole way, (series,), where it is known
        self._waiting: tuple[tuple[str, ...], Tensors] | None = None  # points that were not summed up yet
        self._controls = 0

    def over_cells(self, gradient: Tensor, active: Tensor) -> CellSums | None:
        """Sum effects up over the cells of many series, where a kernel can: the check of gradients needs them too.

        Then ``active`` are bytes.
        """
        plain = gradient.dtype == self._displacement.dtype == torch.float32 and active.dtype == torch.uint8
        if len(gradient) < MANY or not plain or not available(gradient.device):
            return None
        return over_cells(gradient, active, self._displacement)

    def add(
        self,
        gradient: Tensor,
        weight: Tensor | None,
        active: Tensor,
        position: Tensor,
        gap: Tensor | None,
        steps: DrawnSteps | None = None,
        cells: CellSums | None = None,
    ) -> None:
        """Take points: ``gradient``, ``active`` (series, points, time, channel), the others (series, points).

        ``position`` is 0 at the baseline and 1 at the input, ``gap`` the score of the input minus that of each
        point; without it only the position is used. ``steps`` are in units of the displacement. With sums over
        ``cells`` masks are bytes.
        """
        self._controls = 1 if gap is None else 3
        self._flush()
        if cells is not None:
            self._add_up(_sums(_Kernels(cells, gradient, active), position, weight, gap))
            return
        each, mean = (None, None) if steps is None else steps
        given = {"weight": weight, "gap": gap, "step": each, "mean_step": mean}
        names = tuple(name for name, part in given.items() if part is not None)
        parts = [part for part in given.values() if part is not None]
        self._waiting = names, (gradient, active.to(gradient.dtype), position, *parts)
        if self._sums or self._model is None or gradient.numel() > CELLS:
            self._flush()

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._flush()
        self._displacement, self._sums = self._displacement[rows], [part[rows] for part in self._sums]
        self._unit, self._seen, self.change = (
            None if part is None else part[rows] for part in (self._unit, self._seen, self.change)
        )

    def result(self) -> Means:
        """Return the estimate; a cell no point counted for has mean 0 and an infinite error."""
        return Means(*self._finished(None, judged=False))

    def judged(self, unmet: Tensor | None = None) -> Tensors:
        """Return the estimate, its errors :func:`with_unmet`, and behind it their :func:`relative_error`.

        For series that are observed in every cell. A single one waits for each operation, so all are captured.
        """
        return self._finished(unmet, judged=True)

    def _finished(self, unmet: Tensor | None, *, judged: bool) -> Tensors:
        k, change = self._controls, self.change
        if change is None:
            change = torch.zeros_like(self._displacement[:, 0, 0])
        if self._waiting is not None and self._model is not None:
            names, parts = self._waiting

            def work(displacement: Tensor, change: Tensor, *inputs: Tensor) -> Tensors:
                more = inputs[-1] if unmet is not None else None
                inputs = inputs[: 3 + len(names)]
                with exact(displacement.device):
                    *sums, unit, seen = _summed(displacement, names, inputs)
                    found = _estimate(k, displacement, unit, seen, change, sums)
                return _judged(found, displacement, more) if judged else found

            found = run_captured(
                self._model,
                ("controlled", names, judged, unmet is not None),
                work,
                (self._displacement, change, *parts, *([] if unmet is None else [unmet])),
                uses_model=False,
            )
            if found is not None:
                return found
        self._flush()
        if self._unit is None or self._seen is None:
            raise RuntimeError("There are no points yet.")
        found = _estimate(k, self._displacement, self._unit, self._seen, change, self._sums)
        return _judged(found, self._displacement, unmet) if judged else found

    def _flush(self) -> None:
        """Take the points that waited for the result, where all of it could have been captured as one."""
        if self._waiting is None:
            return
        names, parts = self._waiting
        self._waiting = None
        with exact(self._displacement.device):
            found = _summed(self._displacement, names, parts)
        self._add_up(found)

    def _add_up(self, found: Tensors) -> None:
        *new, unit, seen = found
        if self._unit is None or self._seen is None:
            self._sums, self._unit, self._seen = new, unit, seen
            return
        largest = torch.maximum(self._unit, unit)
        old = _in_units(self._sums, self._unit / largest)
        self._sums = [a + b for a, b in zip(old, _in_units(new, unit / largest), strict=True)]
        self._unit, self._seen = largest, torch.maximum(self._seen, seen)


class _Products:
    """Sums over cells, and then over points, as products of matrices."""

    def __init__(
        self,
        displacement: Tensor,
        gradient: Tensor,
        active: Tensor,
        step: Tensor | None = None,
        mean_step: Tensor | None = None,
    ) -> None:
        # whatever the layout of the gradient, which for recurrent layers is not that of the series
        moved = torch.mul(
            gradient, active, out=torch.empty(active.shape, dtype=active.dtype, device=active.device)
        )
        self._plain, self._shift = moved, None
        if step is not None and mean_step is not None:
            moved, self._shift = moved * step, ((step - mean_step[:, None]) * active).flatten(2)
        self._moved, self._active, displacement = moved.flatten(2), active.flatten(2), displacement.flatten(1)
        self._way = displacement.square()[..., None]
        self.slope = torch.bmm(self._moved, displacement[..., None])[..., 0]
        self.length = torch.bmm(self._active, self._way)[..., 0].sqrt()

    def energy(self, on_effects: Tensor) -> Tensor:
        """Sum squared effects over cells, and before squares take their place the effects over points."""
        self._effects, self.of_steps = torch.bmm(on_effects, self._moved), list[Tensor]()
        if self._shift is not None:
            weight, square = on_effects[:, :1], on_effects[:, 1:2]
            both, alone = torch.bmm(square, self._moved * self._shift), torch.bmm(square, self._shift.square())
            gradient = torch.bmm(weight, self._plain.flatten(2))
            self.of_steps.append(torch.cat([gradient, both, alone, torch.bmm(on_effects, self._shift)], 1))
        self._moved.square_()
        return torch.bmm(self._moved, self._way)[..., 0]

    def over_points(self, on_active: Tensor, on_squares: Tensor) -> Tensors:
        """Sum masks, effects and their squares over points, each times its factors (series, factors, points)."""
        return torch.bmm(on_active, self._active), self._effects, torch.bmm(on_squares, self._moved)


class _Kernels:
    """The same sums by kernels for a GPU."""

    def __init__(self, cells: CellSums, gradient: Tensor, active: Tensor) -> None:
        self._cells, self._gradient, self._active = cells, gradient, active
        self.of_steps: list[Tensor] = []
        self.slope, self.length = cells.slope, cells.way.sqrt()

    def energy(self, on_effects: Tensor) -> Tensor:
        """Sum squared effects over cells."""
        self._on_effects = on_effects
        return self._cells.energy

    def over_points(self, on_active: Tensor, on_squares: Tensor) -> Tensors:
        """Sum masks, effects and their squares over points."""
        return over_points(self._gradient, self._active, on_active, self._on_effects, on_squares)


def _summed(displacement: Tensor, names: Sequence[str], parts: Sequence[Tensor]) -> Tensors:
    """Sum up gradients, masks and positions of points, and behind them what has these ``names``."""
    given = dict(zip(names, parts[3:], strict=True))
    gradient, active, position = parts[:3]
    products = _Products(displacement, gradient, active, given.pop("step", None), given.pop("mean_step", None))
    return _sums(products, position, **given)


def _sums(
    found: _Products | _Kernels, position: Tensor, weight: Tensor | None = None, gap: Tensor | None = None
) -> Tensors:
    """Sum over points what the regression needs, and return two more, (series, 1).

    They are the unit of the completeness controls, without which their powers would leave the range of numbers,
    and the largest change of the score that a point saw.
    """
    slope, length = found.slope, found.length
    unit, seen = slope.abs().amax(1, keepdim=True), torch.zeros_like(slope[:, :1])
    if gap is not None:
        seen = gap.abs().amax(1, keepdim=True)
    unit = torch.maximum(unit, seen).clamp(min=TINY)
    one = torch.ones_like(slope)
    w = one if weight is None else weight.to(slope)
    u, place = w.square(), position.to(slope).expand_as(slope)
    e = [place - 0.5]
    if gap is not None:
        slope, gap = slope / unit, gap / unit
        e += [place * slope - gap, place * (place * slope - 2 * gap)]
    pairs = [a * b for a, b in combinations_with_replacement(e, 2)]
    energy = found.energy(torch.stack([w, u, *(u * a for a in e)], 1))
    steep, flat = _by_steepness(u, energy, length)
    share = torch.where(length > 0, w / length, 0)  # of a cell's displacement in that of all active ones
    factors = torch.stack([w, u, *(w * a for a in e), *(u * a for a in (*e, *pairs)), flat, share, one], 1)
    return (
        *found.over_points(factors, torch.stack([u, steep], 1)),
        factors.sum(2),
        torch.stack([a.pow(power).sum(1) for power in (2, 4) for a in e], 1),
        *found.of_steps,
        unit,
        seen,
    )


def _by_steepness(u: Tensor, energy: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Divide the weights of points by the sum of their squared effects; those without any count for all alike."""
    flat = energy < TINY
    alike = torch.where(flat & (length > 0), u / length.square().clamp(min=TINY), 0)
    return torch.where(flat, 0, u / energy.clamp(min=TINY)), alike


def _in_units(sums: Sequence[Tensor], ratio: Tensor) -> list[Tensor]:
    """Turn sums into another unit; ``ratio`` (series, 1) is the old one divided by the new one."""
    on_active, on_effects, squares, whole, powers, *of_steps = sums
    if powers.shape[1] == 2:  # the position has no unit
        return list(sums)
    one, two, same = ratio, ratio.square(), torch.ones_like(ratio)
    control = [same, one, one]  # position and two completeness checks
    products = [same, one, one, two, two, two]
    factors = torch.cat([same, same, *control, *control, *products, same, same, same], 1)
    effects = torch.cat([same, same, *control], 1)
    of_powers = torch.cat([same, two, two, same, two.square(), two.square()], 1)
    return [
        on_active * factors[..., None],
        on_effects * effects[..., None],
        squares,
        whole * factors,
        powers * of_powers,
        *(part * torch.cat([same, same, same, effects], 1)[..., None] for part in of_steps),
    ]


def _without_shifts(sums: Sequence[Tensor]) -> list[Tensor]:
    """Take out of the effects what the mean gradient makes of steps that are not the mean one."""
    on_active, on_effects, squares, whole, powers, *of_steps = sums
    if not of_steps:
        return list(sums)
    gradient = of_steps[0][:, :1] / on_active[:, :1].clamp(min=TINY)
    both, shift, by_control = of_steps[0][:, 1:2], of_steps[0][:, 2:3], of_steps[0][:, 3:]
    rest = (squares[:, :1] - 2 * gradient * both + gradient.square() * shift).clamp(min=0)
    return [
        on_active,
        torch.addcmul(on_effects, gradient, by_control, value=-1),
        torch.cat([rest, squares[:, 1:]], 1),
        whole,
        powers,
    ]


def _estimate(
    k: int, displacement: Tensor, unit: Tensor, seen: Tensor, change: Tensor, sums: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Solve the regression of every cell on ``k`` controls: mean, error, points and effective points."""
    sums = _without_shifts(sums)
    on_active, (wy, uy, *_), (squares, steep), whole, powers = (part.unbind(1) for part in sums)
    total, mass, number = on_active[0].clamp(min=TINY), on_active[1].clamp(min=TINY), on_active[-1]
    points = whole[-1].clamp(min=1)
    grid, ridge = _equations(k, [RIDGE[a] * powers[a] / points for a in range(k)], sums)
    slopes = _eliminate(grid, k)
    nothing = torch.zeros_like(total)
    rest = grid[k, k] - sum((one * slope.square() for one, slope in zip(ridge, slopes, strict=True)), nothing)
    mean = wy / total + grid[k, k + 1]
    lever = 1 - mass * grid[k + 1, k + 1]

    tails = _tails(powers, points, k)[:, None]
    spread = torch.addcmul(squares, uy, uy / mass, value=-1)
    rest = torch.lerp(rest, spread, tails).clamp(min=0) * (number / mass)  # of draws with weight 1
    used = sum((number / (number + each) for each in RIDGE[:k]), nothing)
    effective = total * (total / mass)
    freedom = effective - 1 - used
    freedom = torch.where(freedom > ROUNDED, freedom, 0)  # two draws have none, up to rounding
    # where no cell has any left, what was left over is all that is known of the variance: little, not nothing
    freedom = torch.where((freedom > 0).any(1, keepdim=True), freedom, LITTLE)
    shape, displacement = displacement.shape, displacement.flatten(1)
    sizes = squares / mass, (steep + on_active[-3]) / mass
    variance = _borrowed(rest, freedom, sizes, displacement, (FIRM * tails).clamp(max=1))
    error = (variance * lever * mass).sqrt() * (displacement.abs() / total)
    if k > 1:
        off = torch.stack([(1 + a) * _off(whole, a, k) for a in range(1, k)]).amax(0)
        part = on_active[-2] * displacement.abs() / total
        error = torch.hypot(error, WIDER * off[:, None] * unit * part)
        length = torch.linalg.vector_norm(displacement, dim=1, keepdim=True).clamp(min=TINY)
        error = torch.hypot(error, _unseen(change[:, None], seen, points[:, None]) * displacement / length)
    values = (mean * displacement).where(number > 0, 0)
    return tuple(
        part.view(shape) for part in (values, error.masked_fill(number < 2, torch.inf), number, effective)
    )


def _equations(
    k: int, firm: Sequence[Tensor], sums: Sequence[Tensor]
) -> tuple[dict[tuple[int, int], Tensor], list[Tensor]]:
    """Return the normal equations of every cell, above their diagonal, and the ridge on it.

    Behind the controls come the effects and the mean of the controls. The ridge goes by the size of a control in
    all points: weighted by those of a series, points in which nothing moves would make it vanish.
    """
    on_active, (_, uy, *uey), (squares, _), *_ = (part.unbind(1) for part in sums)
    total, mass, number = on_active[0].clamp(min=TINY), on_active[1].clamp(min=TINY), on_active[-1]
    weight = mass / number.clamp(min=1)  # of one point
    ridge = [each[:, None] * weight + TINY for each in firm]
    ue = on_active[2 + k : 2 + 2 * k]
    centre = [each / mass for each in ue]
    grid: dict[tuple[int, int], Tensor] = {}
    for place, (a, b) in enumerate(combinations_with_replacement(range(k), 2), 2 + 2 * k):
        grid[a, b] = torch.addcmul(on_active[place], ue[a], centre[b], value=-1)
    for a in range(k):
        grid[a, a] = grid[a, a] + ridge[a]
        grid[a, k] = torch.addcmul(uey[a], uy, centre[a], value=-1)
        grid[a, k + 1] = on_active[2 + a] / total
    nothing = torch.zeros_like(total)
    grid |= {(k, k): torch.addcmul(squares, uy, uy / mass, value=-1), (k, k + 1): nothing, (k + 1, k + 1): nothing}
    return grid, ridge


def _tails(powers: Sequence[Tensor], points: Tensor, k: int) -> Tensor:
    """Return how far few points carry the completeness controls, from 0, as in smooth models, to 1, (series,)."""
    if k == 1:
        return torch.zeros_like(points)
    few = torch.stack([powers[k + a] / powers[a].square().clamp(min=TINY) for a in range(1, k)]).amax(0)
    usual = TAILS / points
    return ((few - usual) / (1 - usual).clamp(min=0.05)).clamp(0, 1)


def _borrowed(
    rest: Tensor, freedom: Tensor, sizes: tuple[Tensor, Tensor], displacement: Tensor, tails: Tensor
) -> Tensor:
    """Return the variance of one draw of each cell, with what cells lend each other.

    ``rest`` are sums of squared residuals; ``sizes`` mean squared gradients, as they are and as shares of the
    squared effects of their points. Cells lend by the square of their displacement.
    """
    way = displacement.square()
    known = torch.where(freedom > 0, rest, 0)
    left, lent = (known * way).sum(1, keepdim=True), freedom * way
    size, share = (left / (lent * each).sum(1, keepdim=True).clamp(min=TINY) * each for each in sizes)
    return (known + BORROWED * size + IN_TAILS * tails * share) / (freedom + BORROWED + IN_TAILS * tails)


def _unseen(change: Tensor, seen: Tensor, points: Tensor) -> Tensor:
    """Return what a change that no point has met may add to all cells together, (series, 1)."""
    change = torch.nan_to_num(change, posinf=0, neginf=0).abs()
    rest = (change - seen).clamp(min=0)
    return UNSEEN / points * rest * (rest / change.clamp(min=TINY)).pow(3)


def _square(a: int, k: int) -> int:
    """Place of the square of control ``a`` among the factors."""
    return 2 + 2 * k + a * k - a * (a - 1) // 2


def _off(whole: tuple[Tensor, ...], a: int, k: int) -> Tensor:
    """How far the mean of a control is from 0 beyond its own noise, (series,)."""
    total, mass = whole[:2]
    mean = whole[2 + a] / total
    variance = whole[_square(a, k)] - 2 * mean * whole[2 + k + a] + mean.square() * mass
    return (mean.abs() - NOISE * variance.clamp(min=0).sqrt() / total).clamp(min=0)


def _eliminate(grid: dict[tuple[int, int], Tensor], count: int) -> list[Tensor]:
    """Eliminate the first rows of a symmetric matrix, given above its diagonal, in place.

    Returns the solution for the column that follows them.
    """
    last = max(column for _, column in grid)
    for pivot in range(count):
        for row in range(pivot + 1, last + 1):
            factor = grid[pivot, row] / grid[pivot, pivot]
            for column in range(row, last + 1):
                grid[row, column] = torch.addcmul(grid[row, column], factor, grid[pivot, column], value=-1)
    solved: list[Tensor] = []
    for row in reversed(range(count)):
        rest = grid[row, count]
        for column, value in enumerate(solved, row + 1):
            rest = rest - grid[row, column] * value
        solved.insert(0, rest / grid[row, row])
    return solved


def _judged(estimate: Tensors, displacement: Tensor, unmet: Tensor | None) -> Tensors:
    values, error, points, effective = estimate
    if unmet is not None:
        error = with_unmet(error, unmet, displacement)
    return values, error, points, effective, relative_error(values, error, None, effective)


def with_unmet(error: Tensor, unmet: Tensor, displacement: Tensor) -> Tensor:
    """Widen errors by a change of the score, (series,), in which each cell may have its share."""
    return torch.hypot(error, unmet[:, None, None].to(error) * displacement.abs())
