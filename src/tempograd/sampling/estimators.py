"""Weighted means over path points, with their errors, and with less noise where the passes can explain it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core.estimate import UNSEEN, relative_error
from tempograd.engine.cuda import CELLS, Tensors, run_captured
from tempograd.engine.model import Model, computing

RIDGE = (1.0, 10.0, 10.0)  # points as good as seen in which a control varies and the effects do not
TAILS = 8.0  # times the fourth power of a control may be its square's square before it counts as carried by few
BORROWED, IN_TAILS = 2, 4  # draws' worth of variance that a cell has from others, always and where there are tails
FIRM = 4.0  # how much sooner than an error itself what it borrows grows with the tails
NOISE = 2.5  # standard errors that the mean of a control may be from 0
WIDER = 3.0  # standard errors per missing part
ROUNDED = 1e-5  # degrees of freedom that are none: a variance over as little is as large as it likes
LITTLE = 0.5  # degrees of freedom of a series in which no cell has any
TINY = 1e-30


class Means(NamedTuple):
    """Per cell: the mean, its standard error, how many points counted, and how many they are worth."""

    mean: Tensor
    error: Tensor
    points: Tensor
    effective: Tensor
    relative: Tensor  # (series,), the :func:`relative_error` of all cells together


class WeightedMean:
    r"""A weighted mean over path points with its standard error, in one pass, batch by batch in path order.

    The points of a series are ordered along the path, so their gradients carry a trend that is not noise. With
    :math:`z_i = v_i (y_i - \hat y)`, the residual of point :math:`i` with weight :math:`v_i`, the variance of the
    mean :math:`\hat y = \sum v_i y_i / \sum v_i` is estimated from pairs of neighbours,

    .. math:: \widehat{\mathrm{var}}(\hat y) = \frac{n}{n - 1} \,
        \frac{\sum_j (z_{2j+1} - z_{2j})^2}{(\sum_i v_i)^2}, \qquad n = \frac{(\sum v_i)^2}{\sum v_i^2},

    in which a smooth trend cancels; where few points count, neighbours do not matter and it is the usual estimate
    of a ratio. :math:`n` is the effective sample size. A last point without neighbour is its own pair.

    *Drawn steps.* Where it is drawn how far a point moves the cells, effects :math:`y_i = g_i s_i`, gradients
    times steps, vary with the draw of :math:`s_i` even where the gradient is the same everywhere. How far a step
    is from its mean over all draws :math:`\bar s`, which is known, has mean 0, so what the mean gradient
    :math:`\bar g` makes of it is taken out,

    .. math:: y_i' = g_i s_i - \bar g \, (s_i - \bar s),

    and the noise that is left is that of the gradient alone; its bias is :math:`O(1 / n)`.
    """

    def __init__(self) -> None:
        self._sums: list[Tensor] = []
        self._pairs: list[list[Tensor]] = []  # differences of weighted values, of weights, and of weighted steps
        self._single: list[Tensor] = []  # a point left over, which waits for the next batch

    def add(
        self,
        y: Tensor,
        weight: Tensor | None = None,
        active: Tensor | None = None,
        step: Tensor | None = None,
        mean_step: Tensor | None = None,
    ) -> None:
        """Take points ``y``, (series, points, time, channel), with weights that broadcast to (series, points).

        ``active``, like ``y``, is 1 for the cells each point counts for and 0 for others. With a drawn ``step``,
        like ``y``, and its mean, (series, time, channel), ``y`` are gradients.
        """
        count = torch.full_like(y[:, 0], y.shape[1]) if active is None else active.sum(1)
        v, sums = torch.ones_like(y[:1, :1]).expand_as(y) if active is None else active, [count, count]
        if weight is not None:
            v = weight[..., None, None] * v
            sums = [v.sum(1), _squares(v)]
        p = torch.mul(y, v, out=torch.empty(y.shape, dtype=y.dtype, device=y.device))  # whatever y's layout
        shifts, more = [], []
        if step is not None and mean_step is not None:
            shift = (step - mean_step[:, None]) * v
            shifts, more, p = [shift], [p.sum(1), shift.sum(1)], p * step
        totals = [p.sum(1), *sums, count, *more]
        self._sums = [old + new for old, new in zip(self._sums, totals, strict=True)] if self._sums else totals
        parts = [p, v, *shifts]
        if self._single:
            parts = [torch.cat([old, new], 1) for old, new in zip(self._single, parts, strict=True)]
        points = parts[0].shape[1]
        even = points // 2 * 2
        self._single = [part[:, even:] for part in parts] if even < points else []
        self._pairs.append([part[:, 1:even:2] - part[:, 0:even:2] for part in parts])

    def result(
        self, scale: Tensor | None = None, observed: Tensor | None = None, unmet: Tensor | None = None
    ) -> Means:
        """Return the estimate times a scale; a cell no point counted for has mean 0 and an infinite error.

        See :func:`_finish` for the other arguments.
        """
        total, weight, squares, points, *of_steps = self._sums
        weight = weight.clamp(min=torch.finfo(weight.dtype).tiny)
        factors = []
        if of_steps:
            gradient, shift = of_steps[0] / weight, of_steps[1]
            total, factors = torch.addcmul(total, gradient, shift, value=-1), [gradient]
        mean = total / weight
        spread = torch.zeros_like(mean)
        for values, *others in [*self._pairs, self._single] if self._single else self._pairs:
            rest = values
            for part, factor in zip(others, [mean, *factors], strict=True):
                rest = torch.addcmul(rest, part, factor[:, None], value=-1)
            spread = spread + _squares(rest)
        effective = weight * (weight / squares.clamp(min=torch.finfo(weight.dtype).tiny))
        error = (effective / (effective - 1).clamp(min=1e-6) * spread).sqrt() / weight
        error = error.masked_fill_(points < 2, torch.inf)
        if scale is not None:
            mean, error = scale * mean, torch.where(error.isinf(), torch.inf, scale.abs() * error)
        return _finish((mean, error, points, effective), scale, observed, unmet)


def _finish(
    parts: Tensors, scale: Tensor | None, observed: Tensor | None, unmet: Tensor | None, *, even: bool = False
) -> Means:
    """Complete mean, error, points and effective points: unobserved cells hold 0 everywhere.

    Errors are wider by an ``unmet`` change of the score, (series,), in which each cell may have its share. With
    ``even``, cells with fewer than two draws have an error like the others.
    """
    mean, error, points, effective = parts if observed is None else (part.where(observed, 0) for part in parts)
    if unmet is not None and scale is not None:
        error = torch.hypot(error, unmet[:, None, None].to(error) * scale.abs())
    relative = relative_error(mean, error, observed, effective if even else None)
    return Means(mean, error, points, effective, relative)


def _squares(part: Tensor) -> Tensor:
    """Sum of squares over the points; on a GPU without writing the squares down, which is slower on a CPU."""
    if not part.is_cuda:
        return part.square().sum(1)
    norm: Tensor = torch.linalg.vector_norm(part, dim=1)
    return norm.square_()


def captured(
    model: Model | None, work: Callable[..., Tensors], parts: Mapping[str, Tensor | None], **options: Hashable
) -> Tensors:
    """Return ``work(**parts, **options)``, of a few series from a graph captured like the model's passes.

    It is launched as slowly as a pass. Parts that are None are left out; options are the same in every replay.
    """
    known = {name: part for name, part in parts.items() if part is not None}

    def by_place(*tensors: Tensor) -> Tensors:
        return work(**dict(zip(known, tensors, strict=True)), **options)

    inputs, replayed = tuple(known.values()), None
    if model is not None and inputs[0].is_cuda and max(part.numel() for part in inputs) <= CELLS:
        kind = (work.__name__, *options.items(), *known)
        replayed = run_captured(model, kind, by_place, inputs, uses_model=False)
    return work(**known, **options) if replayed is None else replayed


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

    The estimate is unbiased up to :math:`O(1 / n)`: slopes and means come from the same points. Of drawn steps
    it knows what :class:`WeightedMean` does.
    """

    def __init__(self, displacement: Tensor, model: Model | None = None) -> None:
        """Start with the displacement of each cell, (series, time, channel).

        With a model, the work on a few series is captured like its passes, since it is launched as slowly.
        """
        self._displacement, self._model = displacement, model if displacement.is_cuda else None
        self._sums: Tensors = ()
        self._waiting: dict[str, Any] = {}  # points that were not summed up yet
        self.change = torch.zeros_like(displacement[:, 0, 0])  # of the score on the whole way, where it is known

    def add(
        self,
        gradient: Tensor,
        weight: Tensor | None,
        active: Tensor,
        position: Tensor,
        gap: Tensor | None,
        step: Tensor | None = None,
        mean_step: Tensor | None = None,
    ) -> None:
        """Take points: ``gradient``, ``active`` (series, points, time, channel), the others (series, points).

        ``position`` is 0 at the baseline and 1 at the input, ``gap`` the score of the input minus that of each
        point; without it only the position is used. Steps are in units of the displacement.
        """
        self._flush()
        active = active.to(gradient.dtype)
        parts = {"gradient": gradient, "active": active, "position": position, "weight": weight, "gap": gap}
        self._waiting = parts | {"step": step, "mean_step": mean_step}
        if self._sums or self._model is None or gradient.numel() > CELLS:
            self._flush()

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._flush()
        self._displacement, self.change = self._displacement[rows], self.change[rows]
        self._sums = tuple(part[rows] for part in self._sums)

    def result(self, observed: Tensor | None = None, unmet: Tensor | None = None) -> Means:
        """Return the estimate; a cell no point counted for has mean 0 and an infinite error.

        See :func:`_finish` for the arguments. A single series waits for each operation, so all of them, from the
        points that wait on, are captured as one.
        """
        if self._waiting:
            parts = {"displacement": self._displacement, "change": self.change, **self._waiting}
            return Means(*captured(self._model, _from_points, parts | {"observed": observed, "unmet": unmet}))
        return _estimate(self._displacement, self.change, self._sums, observed, unmet)

    def _flush(self) -> None:
        """Sum up the points that waited for the result, where all of it could have been captured as one."""
        if not self._waiting:
            return
        with computing("exact", self._displacement.device):
            new = _sums(self._displacement, **self._waiting)
        if self._sums:
            (unit, seen), (new_unit, new_seen) = self._sums[:2], new[:2]
            largest = torch.maximum(unit, new_unit)
            both = zip(_in_units(self._sums, unit / largest), _in_units(new, new_unit / largest), strict=True)
            new = largest, torch.maximum(seen, new_seen), *(one + other for one, other in both)
        self._sums, self._waiting = new, {}


def _from_points(
    displacement: Tensor,
    change: Tensor,
    observed: Tensor | None = None,
    unmet: Tensor | None = None,
    **points: Any,
) -> Tensors:
    with computing("exact", displacement.device):
        return _estimate(displacement, change, _sums(displacement, **points), observed, unmet)


def _sums(
    displacement: Tensor,
    gradient: Tensor,
    active: Tensor,
    position: Tensor,
    weight: Tensor | None = None,
    gap: Tensor | None = None,
    step: Tensor | None = None,
    mean_step: Tensor | None = None,
) -> Tensors:
    """Sum over points what the regression needs, as products of matrices.

    First come two more, (series, 1): the unit of the completeness controls, without which their powers would leave
    the range of numbers, and the largest change of the score that a point saw.
    """
    # whatever the layout of the gradient, which for recurrent layers is not that of the series
    plain = torch.mul(gradient, active, out=torch.empty_like(active, memory_format=torch.contiguous_format))
    moved, moving = (plain if step is None else plain * step).flatten(2), active.flatten(2)
    way = displacement.flatten(1).square()[..., None]
    slope = torch.bmm(moved, displacement.flatten(1)[..., None])[..., 0]
    length = torch.bmm(moving, way)[..., 0].sqrt()
    w = torch.ones_like(slope) if weight is None else weight.to(slope)
    u = w.square()
    unit = slope.abs().amax(1, keepdim=True)
    seen = torch.zeros_like(unit) if gap is None else gap.abs().amax(1, keepdim=True)
    unit = torch.maximum(unit, seen).clamp(min=TINY)
    place = position.to(slope).expand_as(slope)
    e = [place - 0.5]  # the controls
    if gap is not None:
        steep, left = slope / unit, gap / unit
        e += [place * steep - left, place * (place * steep - 2 * left)]
    on_effects, of_steps = torch.stack([w, u, *(u * a for a in e)], 1), list[Tensor]()
    effects = torch.bmm(on_effects, moved)
    if step is not None and mean_step is not None:
        shift, square = ((step - mean_step[:, None]) * active).flatten(2), on_effects[:, 1:2]
        both, alone = torch.bmm(square, moved * shift), torch.bmm(square, shift.square())
        mean = torch.bmm(on_effects[:, :1], plain.flatten(2))
        of_steps = [torch.cat([mean, both, alone, torch.bmm(on_effects, shift)], 1)]
    energy = torch.bmm(moved.square_(), way)[..., 0]
    # points count by their part in squared effects; those without any count for all cells alike
    steep = torch.where(energy < TINY, 0, u / energy.clamp(min=TINY))
    alike = torch.where((energy < TINY) & (length > 0), u / length.square().clamp(min=TINY), 0)
    share = torch.where(length > 0, w / length, 0)  # of a cell's displacement in that of all active ones
    products = [a * b for a, b in combinations_with_replacement(e, 2)]
    factors = [w, u, *(w * a for a in e), *(u * a for a in (*e, *products)), alike, share, torch.ones_like(w)]
    on_active, on_squares = torch.stack(factors, 1), torch.stack([u, steep], 1)
    sums = torch.bmm(on_active, moving), effects, torch.bmm(on_squares, moved)
    powers = torch.stack([a.pow(power).sum(1) for power in (2, 4) for a in e], 1)
    return unit, seen, *sums, on_active.sum(2), powers, *of_steps


def _in_units(sums: Tensors, ratio: Tensor) -> Tensors:
    """Turn sums behind the unit into another one; ``ratio`` (series, 1) is the old one divided by the new one."""
    on_active, on_effects, squares, whole, powers, *of_steps = sums[2:]
    if powers.shape[1] == 2:  # the position has no unit
        return sums[2:]
    one, square = torch.ones_like(ratio), ratio.square()
    controls, products = [one, ratio, ratio], [one, ratio, ratio, square, square, square]
    factors = torch.cat([one, one, *controls, *controls, *products, one, one, one], 1)
    effects = [one, one, *controls]
    return (
        on_active * factors[..., None],
        on_effects * torch.cat(effects, 1)[..., None],
        squares,
        whole * factors,
        powers * torch.cat([one, square, square, one, square.square(), square.square()], 1),
        *(part * torch.cat([one, one, one, *effects], 1)[..., None] for part in of_steps),
    )


def _estimate(
    displacement: Tensor, change: Tensor, sums: Tensors, observed: Tensor | None, unmet: Tensor | None
) -> Means:
    """Estimate every cell from the sums over its points, in the order of the class's description.

    Cells lend each other variance by the square of their displacement.
    """
    unit, seen, on_active, on_effects, on_squares, whole, powers, *of_steps = sums
    if of_steps:  # take out what the mean gradient makes of steps that are not the mean one
        gradient, both, alone, by_control = of_steps[0].tensor_split([1, 2, 3], 1)
        gradient = gradient / on_active[:, :1].clamp(min=TINY)
        left = (on_squares[:, :1] - 2 * gradient * both + gradient.square() * alone).clamp(min=0)
        on_effects = torch.addcmul(on_effects, gradient, by_control, value=-1)
        on_squares = torch.cat([left, on_squares[:, 1:]], 1)
    k, points, way = powers.shape[1] // 2, whole[:, -1:].clamp(min=1), displacement.flatten(1)
    total, mass, number = on_active[:, 0].clamp(min=TINY), on_active[:, 1].clamp(min=TINY), on_active[:, -1]
    ridge = [RIDGE[a] * powers[:, a : a + 1] / points for a in range(k)]
    mean, rest, lever = _regress(ridge, on_active.unbind(1), on_effects.unbind(1), on_squares[:, 0])
    effective = total * (total / mass)

    tails = torch.zeros_like(points)  # how far few points carry the completeness controls, from 0 to 1
    if k > 1:
        carried = powers[:, k + 1 :] / powers[:, 1:k].square().clamp(min=TINY)
        usual = TAILS / points  # in smooth models
        tails = ((carried.amax(1, keepdim=True) - usual) / (1 - usual).clamp(min=0.05)).clamp(0, 1)
    uy = on_effects[:, 1]
    spread = torch.addcmul(on_squares[:, 0], uy, uy / mass, value=-1)
    rest = torch.lerp(rest, spread, tails).clamp(min=0) * (number / mass)  # of draws with weight 1
    freedom = effective - 1 - sum((number / (number + firm) for firm in RIDGE[:k]), torch.zeros_like(total))
    freedom = torch.where(freedom > ROUNDED, freedom, 0)  # two draws have none, up to rounding
    # where no cell has any left, what was left over is all that is known of the variance: little, not nothing
    freedom = torch.where((freedom > 0).any(1, keepdim=True), freedom, LITTLE)
    known = torch.where(freedom > 0, rest, 0)
    left, lent = (known * way.square()).sum(1, keepdim=True), freedom * way.square()
    sizes = on_squares[:, 0] / mass, (on_squares[:, 1] + on_active[:, -3]) / mass  # and as shares of their points
    size, share = (left / (lent * one).sum(1, keepdim=True).clamp(min=TINY) * one for one in sizes)
    in_tails = IN_TAILS * (FIRM * tails).clamp(max=1)
    variance = (known + BORROWED * size + in_tails * share) / (freedom + BORROWED + in_tails)
    error = (variance * lever * mass).sqrt() * (way.abs() / total)
    if k > 1:
        part = on_active[:, -2] * way.abs() / total
        off = []  # how far the means of the completeness controls are from 0 beyond their own noise
        for a in range(1, k):
            average, square = whole[:, 2 + a] / whole[:, 0], whole[:, 2 + 2 * k + a * k - a * (a - 1) // 2]
            noise = square - 2 * average * whole[:, 2 + k + a] + average.square() * whole[:, 1]
            off.append((1 + a) * (average.abs() - NOISE * noise.clamp(min=0).sqrt() / whole[:, 0]).clamp(min=0))
        error = torch.hypot(error, WIDER * torch.stack(off).amax(0)[:, None] * unit * part)
        change = torch.nan_to_num(change[:, None], posinf=0, neginf=0).abs()
        unseen = (change - seen).clamp(min=0)
        unseen = UNSEEN / points * unseen * (unseen / change.clamp(min=TINY)).pow(3)
        error = torch.hypot(
            error, unseen * way / torch.linalg.vector_norm(way, dim=1, keepdim=True).clamp(min=TINY)
        )
    parts = (mean * way).where(number > 0, 0), error.masked_fill(number < 2, torch.inf), number, effective
    return _finish(tuple(part.view_as(displacement) for part in parts), displacement, observed, unmet, even=True)


def _regress(
    firm: Sequence[Tensor], on_active: Sequence[Tensor], on_effects: Sequence[Tensor], squares: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Regress every cell on its controls: return the mean, the squared residuals and the leverage.

    The ridge goes by the size of a control in all points, ``firm``: weighted by those of a series, points in which
    nothing moves would make it vanish. Behind the controls come the effects and the mean of the controls in a
    symmetric matrix, given above its diagonal.
    """
    k, (wy, uy, *uey) = len(firm), on_effects
    total, mass, number = on_active[0].clamp(min=TINY), on_active[1].clamp(min=TINY), on_active[-1]
    weight, nothing = mass / number.clamp(min=1), torch.zeros_like(total)  # of one point
    ridge = [one * weight + TINY for one in firm]
    ue = on_active[2 + k : 2 + 2 * k]
    centre = [one / mass for one in ue]
    grid: dict[tuple[int, int], Tensor] = {}
    for place, (a, b) in enumerate(combinations_with_replacement(range(k), 2), 2 + 2 * k):
        grid[a, b] = torch.addcmul(on_active[place], ue[a], centre[b], value=-1)
    for a in range(k):
        grid[a, a] = grid[a, a] + ridge[a]
        grid[a, k] = torch.addcmul(uey[a], uy, centre[a], value=-1)
        grid[a, k + 1] = on_active[2 + a] / total
    grid |= {(k, k): torch.addcmul(squares, uy, uy / mass, value=-1), (k, k + 1): nothing, (k + 1, k + 1): nothing}
    for pivot in range(k):
        for row in range(pivot + 1, k + 2):
            factor = grid[pivot, row] / grid[pivot, pivot]
            for column in range(row, k + 2):
                grid[row, column] = torch.addcmul(grid[row, column], factor, grid[pivot, column], value=-1)
    slopes: list[Tensor] = []
    for row in reversed(range(k)):
        rest = grid[row, k]
        for column, slope in enumerate(slopes, row + 1):
            rest = rest - grid[row, column] * slope
        slopes.insert(0, rest / grid[row, row])
    rest = grid[k, k] - sum((one * slope.square() for one, slope in zip(ridge, slopes, strict=True)), nothing)
    return wy / total + grid[k, k + 1], rest, 1 - mass * grid[k + 1, k + 1]
