"""Methods that learn a mask for each series: Dynamask, extremal masks and ContraLSP."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tempograd.core import validation
from tempograd.core.errors import InputError, arg
from tempograd.core.estimate import Estimate
from tempograd.core.optimisers import Adam
from tempograd.core.progress import progress_bar
from tempograd.core.rng import Stream, keys, normal, split
from tempograd.engine import Ask, Block, apply_link, both_logits, slices
from tempograd.engine.gradients import require_path
from tempograd.engine.model import by_lists
from tempograd.explainers.base import EXPLAINERS, Explainer, one_by_one
from tempograd.typing import Contrast, MaskPerturbation, Setting

# How masks are learnt: clean outputs are read once, each series has one loss, Adam takes the steps

TensorFunction = Callable[[Tensor], Tensor]


class MaskBatch(NamedTuple):
    """Some series that go through the model together, and how far the outputs of others are from theirs."""

    block: Block
    error: TensorFunction  # (series, points, time, channel) to (series, points)


class LossTerm(NamedTuple):
    """A loss that depends on the epoch and on some leaves, and the series that it is about."""

    rows: slice
    leaves: Sequence[Tensor]
    loss: Callable[[int], Tensor]


Groups = Sequence[Sequence[LossTerm]]


def over_steps(each: Tensor, steps: Tensor | None) -> Tensor:
    """Return the mean of (series, points, …) over the explained steps, or over all there are."""
    if steps is not None:
        return (each * steps[:, None]).sum(-1) / steps.sum(-1, keepdim=True).clamp(min=1)
    return each.flatten(2).mean(-1) if each.ndim > 2 else each


class LearntMask(Explainer):
    """A method that learns a mask for each explained series."""

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False

    epochs: int  # fields of every such method
    lr: float

    def _distance(self, clean: Tensor, output: str, steps: Tensor | None) -> TensorFunction:
        r"""Return the distance of raw outputs (series, points, …, class) from the clean ones (series, …, class).

        Probabilities are compared by :math:`\mathrm{KL}(p_{clean} \| p)`, whose gradient is that of the
        cross-entropy and which is 0 for equal outputs, and which of several labels is the sum of that of each; raw
        outputs by the mean squared difference. Steps are averaged.
        """
        if output == "sigmoid":  # a label is there or not: two classes of its own
            labels = self._distance(clean.flatten(1)[..., None], "probability", None)
            count = clean[0].numel()
            return lambda raw: count * labels(raw.flatten(2)[..., None])
        clean = both_logits(clean[:, None], output)
        log_clean = clean.log_softmax(-1)
        chance = log_clean.exp()

        def apart(raw: Tensor) -> Tensor:
            raw = both_logits(raw, output)
            if output != "probability":
                return over_steps((apply_link(raw, output) - apply_link(clean, output)).square().mean(-1), steps)
            return over_steps((chance * (log_clean - raw.log_softmax(-1))).sum(-1), steps)

        return apart

    def _steps(self, ask: Ask, groups: Groups, leaves: Sequence[Tensor]) -> Groups:
        """Return the loss terms of each step of an epoch; one without any moves nothing."""
        return groups

    def _optimize(self, ask: Ask, groups: Groups, leaves: Sequence[Tensor], *, bounded: bool) -> None:
        """Take one step of Adam per group and epoch; ``bounded`` keeps the leaves, all of them masks, in [0, 1].

        The losses of a group add up, so that it does not matter how its series are cut into batches. A mask that a
        group does not use rests during its step.
        """
        groups = self._steps(ask, groups, leaves)
        optimiser = Adam(leaves, lr=self.lr, foreach=by_lists(), fused=by_lists() is None)
        with progress_bar(self.epochs, f"explain with {self.name}") as advance:
            for epoch in range(self.epochs):
                for group in groups:
                    for term in group:
                        torch.autograd.backward(term.loss(epoch), inputs=term.leaves)
                    optimiser.step()
                    optimiser.zero_grad()
                    for mask in leaves if bounded else ():
                        mask.detach().clamp_(0, 1)
                advance()

    def _read(self, ask: Ask, rows: slice, *, empty: bool = False) -> MaskBatch:
        """Read some series in a pass of their own; ``empty`` compares with the outputs of the baseline instead."""
        block = ask.block(rows)
        with torch.no_grad():
            raw = ask.raw_outputs(block.x[:, None], block)[:, 0]
            block = ask.read(block, raw)
            if empty:
                raw = ask.raw_outputs(block.baseline[:, None], block)[:, 0]
        if isinstance(block.steps, str):
            both = f"{self.name} explains steps together, got {arg:question.steps=own}"
            raise InputError(f"{both}: leave it out, or pass a list of steps.")
        apart = self._distance(raw.to(ask.precision), ask.output, block.steps)

        def error(z: Tensor) -> Tensor:
            raw = ask.raw_outputs(z.to(ask.dtype), block)
            if torch.is_grad_enabled() and "differentiable" not in ask.shortcuts:
                require_path(raw, z)
                ask.shortcuts["differentiable"] = True
            return apart(raw.to(ask.precision))

        return MaskBatch(block, error)


# What a mask does to a series: 1 keeps a value, 0 replaces it by what its surroundings suggest

_SHARPEST = 1e-6  # width of the blur at mask 1, as a share of the widest


def perturbation(kind: str, block: Block, width: float, dtype: torch.dtype) -> TensorFunction:
    """Return the operator of a block: masks (series, areas, time, channel) to perturbed series of that shape.

    Only observed values take part in a blend, and only they are replaced. ``width`` is the standard deviation of
    the widest blur, or the steps to either side of the window; ``dtype`` is that of the masks.
    """
    x = block.x.to(dtype)
    if kind == "blur":
        return blur(x, block.observed, width)
    if kind == "window":
        kept, count = _neighbours(x, block.observed, math.floor(width))
        towards = kept.sum(-1) / count.sum(-1).clamp(min=1)
    else:
        towards = validation.average(x, block.observed) if kind == "mean" else block.baseline.to(dtype)
    away = ((x - towards) * block.observed)[:, None]
    return lambda mask: x[:, None] - (1 - mask) * away  # a + m (x - a) for what to fade to, a


def blur(x: Tensor, observed: Tensor, widest: float) -> TensorFunction:
    r"""Return the blur whose width each mask cell sets itself.

    .. math:: \pi(x, m)_{t} = \frac{\sum_{t'} e^{-(t - t')^2 / 2 s^2} x_{t'}}{\sum_{t'} e^{-(t - t')^2 / 2 s^2}},
        \qquad s = s_{\max} (1 - m_t).

    Neighbours further than four widths away weigh less than 0.04 % and are left out.
    """
    radius = min(math.ceil(4 * widest), x.shape[1] - 1)
    values, count = _neighbours(x, observed, radius)
    values, count = _both_sides(values)[:, None], _both_sides(count)[:, None]
    squares = torch.arange(radius + 1, device=x.device).to(x.dtype).square()
    fixed = ~observed[:, None]

    def perturb(mask: Tensor) -> Tensor:
        weight = ((widest * (1 + _SHARPEST - mask)).square().mul(-2).reciprocal()[..., None] * squares).exp()
        blurred = (weight * values).sum(-1) / (weight * count).sum(-1).clamp(min=_SHARPEST)
        return torch.where(fixed, x[:, None], blurred)

    return perturb


def _neighbours(x: Tensor, observed: Tensor, radius: int) -> tuple[Tensor, Tensor]:
    """Observed values around each cell and their number, (series, time, channel, 2 radius + 1)."""
    both = torch.stack([x * observed, observed.to(x)])
    both = pad(both, (0, 0, radius, radius)).unfold(2, 2 * radius + 1, 1)
    return both[0], both[1]


def _both_sides(around: Tensor) -> Tensor:
    """Add the neighbours at equal distance: distance 0, 1, … radius along the last axis."""
    radius = around.shape[-1] // 2
    after, before = around[..., radius:], around[..., : radius + 1].flip(-1)
    return torch.cat([after[..., :1], after[..., 1:] + before[..., 1:]], -1)


# The regularisers of Dynamask: how much of a series a mask keeps, and how often it changes in time.

_ROUNDING = 1e-6  # (1 - 0.9) * 10 is below 1
_EQUAL = 1e-4  # Adam's first steps have one length, so that many cells of a mask differ by rounding only


def area_term(observed: Tensor, areas: Sequence[float]) -> TensorFunction:
    r"""Return the sum over series and areas of :math:`\overline{(m - r_a(m))^2}`, over observed cells.

    :math:`r_a` is 1 for the largest cells of a mask and 0 for the others, of which there are
    :math:`\lfloor (1 - a) n \rfloor`. Cells that are equal, to 1e-4, and of which only some have a
    place share it: neither their order nor rounding decides.
    """
    cells = observed.flatten(1).sum(1)  # (series,)
    shares = 1 - torch.tensor(areas, dtype=torch.float64, device=observed.device)
    ones = cells[:, None] - (shares * cells[:, None] + _ROUNDING).floor().long()  # (series, area)
    most, place = max(1, int(ones.max())), (ones - 1).clamp(min=0)[..., None]
    hidden = ~observed.flatten(1)[:, None]

    def term(mask: Tensor) -> Tensor:
        flat = mask.flatten(2)
        with torch.no_grad():
            seen = flat.masked_fill(hidden, -1)
            least = seen.topk(most).values.gather(-1, place)
            above, equal = seen > least + _EQUAL, (seen - least).abs() <= _EQUAL
            room = (ones[..., None] - above.sum(-1, keepdim=True)) / equal.sum(-1, keepdim=True)
            nearest = torch.where(equal, room.to(flat), above.to(flat))
        return ((flat - nearest).square().masked_fill(hidden, 0).sum(-1) / cells.clamp(min=1)[:, None]).sum()

    return term


def time_term(observed: Tensor) -> TensorFunction:
    r"""Return the sum over series and areas of :math:`\overline{|m_{t+1} - m_t|}`, between observed neighbours."""
    pairs = (observed[:, 1:] & observed[:, :-1])[:, None]
    count = pairs.flatten(1).sum(1).clamp(min=1)

    def term(mask: Tensor) -> Tensor:
        return ((mask.diff(dim=2).abs() * pairs).flatten(2).sum(-1) / count[:, None]).sum()

    return term


@EXPLAINERS.register("dynamask")
@dataclass(frozen=True)
class Dynamask(LearntMask):
    r"""Dynamask.

    For each area :math:`a` a mask :math:`m \in [0, 1]^{T \times D}` minimises

    .. math:: \mathrm{err}\big(f(\pi(x, m)), f(x)\big) + \lambda_k \, \overline{(m - r_a(m))^2}
        + \lambda_c \, \overline{|m_{t+1} - m_t|}, \qquad \lambda_k = \lambda_0 \delta^{k / E},

    where :math:`\pi` replaces values with a small mask by a blend of their neighbours, :math:`r_a` is 1 for the
    share :math:`a` of the observed cells with the largest mask and 0 for the others, and :math:`k` is the epoch
    of :math:`E`. The score is the mask of the best area.

    Parameters
    ----------
    areas : tuple of float, increasing
        Shares of the observed cells that a mask may keep.
    perturbation : {"blur", "mean", "window", "reference"}
        What a value fades to: a Gaussian blur of its channel, the channel's mean, the mean of a window around
        it, or the baseline.
    width : float
        Standard deviation of the widest blur, or steps to either side of the window.
    epochs : int
    lr : float
        Step of Adam; masks start at 1/2, so ``epochs * lr`` must be well above that.
    size_weight, growth : float
        :math:`\lambda_0` and :math:`\delta`.
    time_weight : float
        :math:`\lambda_c`.
    deletion : bool
        Look for the cells that change the prediction most when they are perturbed, rather than for those
        that keep it when the others are.
    tolerance : float or None
        Take the smallest area with an error below this ("extremal"; above it for deletion). Where no area is good
        enough, and with None, it is the area with the smallest error of each series ("best"): nearly always the
        largest one, since more cells keep more of the prediction.

    Notes
    -----
    Each (series, area) is a problem of its own, all of them in one tensor; with ``size_weight=0`` the areas of a
    series have one and the same, which is learnt once. Cells with equal masks share their part of the area. The
    error is :math:`\mathrm{KL}(p(x) \| p(\pi(x, m)))`, or the mean squared difference for
    ``output="raw"``, over all outputs: there is no target class. The steps of Adam amplify rounding, so in single
    precision a mask can depend on what else is in the batch; in double precision it does not.

    References
    ----------
    .. [1] J. Crabbé and M. van der Schaar, "Explaining Time Series Predictions with Dynamic Masks", ICML 2021.
       https://arxiv.org/abs/2106.05303

    Examples
    --------
    >>> first = lambda x: (x[:, :2] ** 2).sum((1, 2))[:, None]
    >>> x = torch.tensor([[[3.0], [-2.0], [2.0], [1.0]]])
    >>> dynamask = Dynamask((0.5,), "reference", epochs=100, lr=0.05, time_weight=0.0)
    >>> dynamask(first, x, output="raw").values.flatten()
    tensor([1., 1., 0., 0.])
    """

    deterministic: ClassVar[bool] = True
    blends_steps: ClassVar[bool] = True

    areas: tuple[float, ...] = validation.setting((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), validation.check_shares)
    perturbation: MaskPerturbation = validation.choice("mean", MaskPerturbation)
    width: float = validation.positive(2.0)
    epochs: int = validation.integer(500)
    lr: float = validation.positive(0.01)
    size_weight: float = validation.real(0.1)
    growth: float = validation.positive(100.0)
    time_weight: float = validation.real(0.1)
    deletion: bool = validation.boolean(False)
    tolerance: float | None = validation.positive(0.05, optional=True)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: what takes the place of values, fewer cells, deletion."""
        return [{"perturbation": "blur"}, {"areas": (0.05, 0.1, 0.15, 0.2)}, {"deletion": True}]

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        chosen = self._chosen(*self._learn(ask, slice(0, len(ask.x))))
        return Estimate(chosen.to(ask.x.device, torch.get_default_dtype()))

    def _learn(self, ask: Ask, series: slice) -> tuple[Tensor, Tensor]:
        """Return the masks of some series (series, area, time, channel) and their errors (series, area)."""
        areas = self.areas if self.size_weight else self.areas[:1]  # otherwise no loss knows its area
        learnt: list[tuple[Tensor, Tensor]] = []

        def work(rows: slice, size: int) -> None:
            batch = self._read(ask, rows)
            ask.verify_once()
            parts = slices(len(areas), max(1, size // len(batch.block.x)))
            pairs = [self._fit_masks(ask, batch, areas[part]) for part in parts]
            masks, errors = (torch.cat(each, 1).to(ask.x.device) for each in zip(*pairs, strict=True))
            learnt.append((masks, errors))

        ask.batching.run(series, len(areas), work)
        masks, errors = (torch.cat(parts) for parts in zip(*learnt, strict=True))
        shape = len(masks), len(self.areas)
        return masks.expand(*shape, *masks.shape[2:]), errors.expand(*shape)

    def _fit_masks(self, ask: Ask, batch: MaskBatch, areas: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        block = batch.block
        shape = len(block.x), len(areas), *block.x.shape[1:]
        mask = block.x.new_full(shape, 0.5, dtype=ask.precision, requires_grad=True)
        perturb = perturbation(self.perturbation, block, self.width, mask.dtype)
        size, rough = area_term(block.observed, areas), time_term(block.observed)

        def error() -> Tensor:
            return batch.error(perturb(1 - mask if self.deletion else mask))

        def loss(epoch: int) -> Tensor:
            total = self._aim(error()).sum()
            if self.size_weight:
                total = total + self.size_weight * self.growth ** (epoch / self.epochs) * size(mask)
            if self.time_weight:
                total = total + self.time_weight * rough(mask)
            return total

        self._optimize(ask, [[LossTerm(block.rows, [mask], loss)]], [mask], bounded=True)
        with torch.no_grad():
            return mask.where(block.observed[:, None], 0), error()

    def _aim(self, errors: Tensor) -> Tensor:
        """Return what a mask is to make small: its error, or for deletion the opposite."""
        return -errors if self.deletion else errors

    def _chosen(self, masks: Tensor, errors: Tensor) -> Tensor:
        """Return the mask of each series' area."""
        return masks[torch.arange(len(masks), device=masks.device), self._choose(errors)]

    def _choose(self, errors: Tensor) -> Tensor:
        """Return the place of each series' area, (series,); of equally good ones the smallest."""
        loss = self._aim(errors)
        place, many = torch.arange(len(self.areas), device=errors.device), len(self.areas)
        best = torch.where(loss == loss.amin(1, keepdim=True), place, many - 1).amin(1)  # NaN: the last one
        if self.tolerance is None:
            return best
        limit = -self.tolerance if self.deletion else self.tolerance
        smallest = torch.where(loss < limit, place, many).amin(1)
        return torch.where(smallest < many, smallest, best)


# A small network that learns what to put in the place of a value, shared by all series it is trained on.


class Replacement(nn.Module):
    """A bidirectional GRU as wide as the series, its states scaled to length 1, and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, channels, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return replacements; ``lengths`` (on the CPU) keeps the backward pass in time from padding."""
        if lengths is None:
            states = self.gru(x)[0]
        else:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.shape[1])
        return cast("Tensor", self.head(normalize(states, dim=-1)))


class Trend(nn.Module):
    """One network per channel that sees its whole course: time to 32 to time, all channels at once."""

    HIDDEN = 32

    def __init__(self, time: int, channels: int) -> None:
        super().__init__()
        self.time = time
        self.first = _uniform(time, channels, time, self.HIDDEN)
        self.first_bias = _uniform(time, channels, self.HIDDEN)
        self.second = _uniform(self.HIDDEN, channels, self.HIDDEN, time)
        self.second_bias = _uniform(self.HIDDEN, time, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the trend of the first ``time`` steps and 0 for padding after them."""
        hidden = (torch.einsum("ntd,dth->ndh", x[:, : self.time], self.first) + self.first_bias).relu()
        trend = torch.einsum("ndh,dht->ntd", hidden, self.second) + self.second_bias
        return pad(trend, (0, 0, 0, x.shape[1] - self.time))


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights as a linear layer with so many inputs has them at first."""
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))


def seeded(ask: Ask, make: Callable[[], list[nn.Module]]) -> nn.ModuleList:
    """Make networks whose first weights depend on the seed alone, on the model's device."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(ask.seed & 0x7FFFFFFFFFFFFFFF)
        return nn.ModuleList(make()).to(ask.device, ask.precision)


class SharingPart:
    """Some series, what is learnt of each cell, and the networks they share with all others."""

    def __init__(self, ask: Ask, batch: MaskBatch, networks: nn.ModuleList) -> None:
        self.batch, self.networks = batch, networks
        block, dtype = batch.block, ask.precision
        self.x, self.observed = block.x.to(dtype), block.observed
        lengths = ask.lengths[block.rows]
        self.lengths = None if bool((lengths == ask.x.shape[1]).all()) else lengths.clamp(min=1)
        self.centred = self.x - block.baseline.to(dtype)
        self.cells = self.observed.flatten(1).sum(1).clamp(min=1)
        self.learnt = torch.full_like(self.x, 0.5, requires_grad=True)
        self.stream = keys(ask.seed, block.ids, Stream.GATES)

    def moved(self) -> Tensor:
        """Return what takes the place of each value, counted from the baseline."""
        return cast("Tensor", self.networks[0](self.centred, self.lengths))


class SharingMask(LearntMask):
    """A method that learns the masks of all series at once, with networks that they share."""

    shared: ClassVar[bool] = True

    replacement_weight: float  # fields of every such method
    fit_batch_size: int | None = None
    deletion: bool = False

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        """Cut series into batches that fit the device; if they do not, all starts again with smaller ones."""
        values, total = torch.zeros(ask.x.shape, device=ask.x.device), len(ask.x)

        def work(_: slice, size: int) -> None:
            networks, groups = self._networks(ask), list[list[SharingPart]]()
            for group in slices(total, self.fit_batch_size or total):
                cuts = (range(group.start, group.stop)[own] for own in slices(group.stop - group.start, size))
                batches = [self._read(ask, slice(cut.start, cut.stop), empty=self.deletion) for cut in cuts]
                groups.append([SharingPart(ask, batch, networks) for batch in batches])
            ask.verify_once()
            parts = [part for group in groups for part in group]
            leaves = [*(part.learnt for part in parts), *networks.parameters()]
            self._optimize(ask, self._terms(groups), leaves, bounded=False)
            for part in parts:
                mask = self._mask(part).detach().clamp(0, 1)
                values[part.batch.block.rows] = mask.where(part.observed, 0).to(values)

        ask.batching.run(1, 1, work)
        return Estimate(values)

    def _networks(self, ask: Ask) -> nn.ModuleList:
        """Return the shared networks, the first of which replaces values."""
        return seeded(ask, lambda: [Replacement(ask.x.shape[2])])

    def _terms(self, groups: Sequence[Sequence[SharingPart]]) -> list[list[LossTerm]]:
        """Return the losses of each step of an epoch."""

        def term(part: SharingPart) -> LossTerm:
            leaves = [part.learnt, *part.networks.parameters()]
            return LossTerm(part.batch.block.rows, leaves, partial(self._loss, part))

        return [[term(part) for part in group] for group in groups]

    @abstractmethod
    def _loss(self, part: SharingPart, epoch: int) -> Tensor:
        """Return the sum of the series' losses."""

    def _mask(self, part: SharingPart) -> Tensor:
        """Return the masks of a part, before they are cut to [0, 1]."""
        return part.learnt

    def _total(self, part: SharingPart, share: Tensor, moved: Tensor, size: Tensor) -> Tensor:
        """Replace a share of each value; ``size`` is the weighted size of the mask, cell by cell."""
        z = part.x + share * (moved - part.centred) * part.observed
        size = (size + self.replacement_weight * moved.abs()) * part.observed
        each: Tensor = part.batch.error(z[:, None])[:, 0] + size.flatten(1).sum(1) / part.cells
        return each.sum()


@EXPLAINERS.register("extremal_mask")
@dataclass(frozen=True)
class ExtremalMask(SharingMask):
    r"""Extremal masks with learned replacements (Extrmask).

    .. math:: \min_{m, \theta} \; \mathrm{err}\big(f(\bar m x + (1 - \bar m) r_\theta(x)), f(x)\big)
        + \lambda_1 \overline{|m|} + \lambda_2 \overline{|r_\theta(x)|}, \qquad \bar m = \mathrm{clamp}(m, 0, 1),

    where :math:`r_\theta` is a bidirectional GRU shared by all series that are explained together. The score
    is :math:`\bar m`. Replacements are counted from the baseline.

    Parameters
    ----------
    mask_weight, replacement_weight : float
        :math:`\lambda_1` and :math:`\lambda_2`. The paper has 1 and 1 for squared differences of raw outputs;
        they are larger than divergences of probabilities.
    epochs : int
    lr : float
        Step of Adam, for masks and network.
    fit_batch_size : int, optional
        Series per step of the network, by default all of them, in which case their order does not matter.
    deletion : bool
        Look for the fewest cells whose replacement turns the prediction into that of the baseline:
        the error is then :math:`\mathrm{err}\big(f((1 - \bar m) x + \bar m \, r_\theta(x)), f(x')\big)`.

    Notes
    -----
    The error is :math:`\mathrm{KL}(p(x) \| p(\cdot))`, or the mean squared difference for ``output="raw"``, over
    all outputs: there is no target class. Since the network is shared, a score depends on the company of a series.
    Losses of series add up, so that neither the memory of the device nor Adam's guard against small
    gradients changes a mask.

    References
    ----------
    .. [1] J. Enguehard, "Learning Perturbations to Explain Time Series Predictions", ICML 2023.
       https://arxiv.org/abs/2305.18840

    Examples
    --------
    >>> first_two = lambda x: x[:, :2, 0]
    >>> x = torch.tensor([[[3.0], [-2.0], [2.0], [1.0]]])
    >>> ExtremalMask(1.0, 10.0, epochs=100, lr=0.1)(first_two, x, output="raw").values.flatten().round()
    tensor([1., 1., 0., 0.])
    """

    mask_weight: float = validation.real(0.1)
    replacement_weight: float = validation.real(1.0)
    epochs: int = validation.integer(500)
    lr: float = validation.positive(0.01)
    fit_batch_size: int | None = validation.integer(None)
    deletion: bool = validation.boolean(False)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: weights of the mask, and deletion."""
        return [{"mask_weight": 0.01}, {"mask_weight": 1.0}, {"deletion": True}]

    def _loss(self, part: SharingPart, epoch: int) -> Tensor:
        kept = part.learnt.clamp(0, 1)
        share = kept if self.deletion else 1 - kept
        return self._total(part, share, part.moved(), self.mask_weight * part.learnt.abs())


# ContraLSP: random gates shaped by the trend of each channel, and replacements that are learnt by contrast.
#
# Its triplet loss is between two groups of points, which are found anew at every step.

ROUNDS = 10


def contrast(points: Tensor) -> Tensor:
    r"""Return the mean over two groups of :math:`\max(d_+ - d_- + 1, 0)`.

    The anchor of a group is its member nearest to the centre; :math:`d_+` is its mean distance (mean absolute
    difference) to the other members and :math:`d_-` that to the other group. A group of one has no term.

    Examples
    --------
    >>> float(contrast(torch.tensor([[0.0], [0.5], [4.0], [4.5]])))
    0.0
    >>> float(contrast(torch.tensor([[0.0], [0.0], [0.5], [0.5]])))
    0.5
    """
    with torch.no_grad():
        first, centres = two_means(points.detach())
    total = points.new_zeros(())
    for own, centre in zip((first, ~first), centres, strict=True):
        size, others = own.sum(), (~own).sum()
        away = (points.detach() - centre).square().sum(1).masked_fill(~own, torch.inf)
        apart = (points - points[away.argmin()]).abs().mean(1)
        near = (apart * own).sum() / (size - 1).clamp(min=1)
        far = (apart * ~own).sum() / others.clamp(min=1)
        total = total + (near - far + 1).clamp(min=0) * ((size > 1) & (others > 0))
    return total / 2


def two_means(points: Tensor) -> tuple[Tensor, Tensor]:
    """Part points into two groups by a fixed rule: which are in the first, and both centres.

    The rounds start at the point farthest from the mean and the point farthest from that one.
    """

    def farthest(place: Tensor) -> Tensor:
        return points[(points - place).square().sum(1).argmax()]

    start = farthest(points.mean(0))
    centres = torch.stack([start, farthest(start)])
    first = points.new_ones(len(points), dtype=torch.bool)
    for _ in range(ROUNDS):
        distances = (points[:, None] - centres).square().sum(2)
        first = distances[:, 0] <= distances[:, 1]
        member = torch.stack([first, ~first]).to(points)
        count = member.sum(1, keepdim=True)
        centres = torch.where(count > 0, member @ points / count.clamp(min=1), centres)
    return first, centres


@EXPLAINERS.register("contralsp")
@dataclass(frozen=True)
class ContraLSP(SharingMask):
    r"""Contrastive and locally sparse perturbations (ContraLSP).

    With :math:`\epsilon \sim N(0, 1)` per cell and epoch, the gate of a cell and its mask are

    .. math:: g = \mu + \tfrac12 + \sigma \epsilon, \qquad
        m = \mathrm{clamp}\big(g \cdot \mathrm{sigmoid}(g \, \tau(x)), 0, 1\big),

    where :math:`\tau` is one small network per channel that sees the channel's whole course. They minimise

    .. math:: \mathrm{err}\big(f(m x + (1 - m) r_\theta(x)), f(x)\big) + \lambda_1 \overline{\Phi(q / \sigma)}
        + \lambda_2 \overline{|r_\theta(x)|}, \qquad
        q = (\mu + \tfrac12) \, \mathrm{sigmoid}\big((\mu + \tfrac12) \tau(x)\big),

    in which :math:`\Phi(q / \sigma)` is the chance that a gate is open and :math:`r_\theta` a bidirectional GRU.
    The score is the mask without noise. Replacements are counted from the baseline.

    Parameters
    ----------
    mask_weight, replacement_weight : float
        :math:`\lambda_1` and :math:`\lambda_2`.
    sigma : float
        Standard deviation of the gates' noise.
    epochs : int
    lr : float
        Step of Adam, for gates and networks.
    contrastive : {"none", "triplet"}
        Whether replacements are also drawn together within each of two groups of them and kept apart from the
        other group, as the paper describes it.

    Notes
    -----
    All networks are shared by the series that are explained together, so a score depends on their company, but
    not on their order. The error is :math:`\mathrm{KL}(p(x) \| p(\cdot))`, or the mean squared difference for
    ``output="raw"``, over all outputs: there is no target class. Losses of series add up.

    References
    ----------
    .. [1] Z. Liu et al., "Explaining Time Series via Contrastive and Locally Sparse Perturbations", ICLR 2024.
       https://arxiv.org/abs/2401.08552

    Examples
    --------
    >>> first = lambda x: x[:, :2].sum((1, 2))[:, None]
    >>> x = torch.tensor([[[3.0], [-2.0], [2.0], [1.0]]])
    >>> ContraLSP(lr=0.1, epochs=200)(first, x, output="raw").values.flatten().round()
    tensor([1., 1., 0., 0.])
    """

    mask_weight: float = validation.real(1.0)
    replacement_weight: float = validation.real(1.0)
    sigma: float = validation.positive(0.5)
    epochs: int = validation.integer(500)
    lr: float = validation.positive(0.01)
    contrastive: Contrast = validation.choice("none", Contrast)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: weights of the mask, and the other loss."""
        return [{"mask_weight": 0.1}, {"mask_weight": 10.0}, {"contrastive": "triplet"}]

    def _networks(self, ask: Ask) -> nn.ModuleList:
        channels, longest = ask.x.shape[2], max(1, int(ask.lengths.max()))
        return seeded(ask, lambda: [Replacement(channels), Trend(longest, channels)])

    def _terms(self, groups: Sequence[Sequence[SharingPart]]) -> list[list[LossTerm]]:
        (terms,), (parts,) = super()._terms(groups), groups
        total = sum(len(part.x) for part in parts)

        def apart(_: int) -> Tensor:
            moved = torch.cat([part.moved() * part.observed for part in parts])
            return self.replacement_weight * total * contrast(moved.flatten(1))

        if self.contrastive == "triplet" and total > 1:
            terms.append(LossTerm(slice(0, 0), list(parts[0].networks[0].parameters()), apart))
        return [terms]

    def _loss(self, part: SharingPart, epoch: int) -> Tensor:
        tau, moved, gate = _trend(part), part.moved(), part.learnt + 0.5
        places = torch.arange(gate[0].numel(), device=gate.device)
        noise = normal(split(part.stream, epoch)[..., None], places).to(gate).view_as(gate)
        mask = _gated(gate + self.sigma * noise, tau).clamp(0, 1)
        chance = 0.5 + 0.5 * (_gated(gate, tau) / (self.sigma * math.sqrt(2))).erf()  # that the gate is open
        return self._total(part, 1 - mask, moved, self.mask_weight * chance)

    def _mask(self, part: SharingPart) -> Tensor:
        with torch.no_grad():
            return _gated(part.learnt + 0.5, _trend(part))


def _trend(part: SharingPart) -> Tensor:
    return cast("Tensor", part.networks[1](part.x * part.observed))


def _gated(gate: Tensor, tau: Tensor) -> Tensor:
    """Return the mask of a gate before it is cut to [0, 1]."""
    return gate * (gate * tau).sigmoid()
