"""Masks beside a network that learns what to put in the place of a value: extremal masks and ContraLSP."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tempograd.core import settings
from tempograd.core.estimate import Estimate
from tempograd.core.progress import Advance
from tempograd.core.rng import Stream, keys, normal, split
from tempograd.engine import Ask
from tempograd.explainers.base import EXPLAINERS, one_by_one
from tempograd.explainers.masks.base import LearntMask, LossTerm, MaskBatch
from tempograd.typing import Contrast, Setting

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
        output: Tensor = self.head(normalize(states, dim=-1))
        return output


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


class _Part:
    """Some series, what is learnt of each cell, and the networks they share with all others."""

    settings: "ExtremalMask | ContraLSP"

    def __init__(self, settings: LearntMask, ask: Ask, batch: MaskBatch, networks: nn.ModuleList) -> None:
        self.settings = settings  # type: ignore[assignment]  # that of the subclass
        self.batch, self.networks, self.replacement = batch, networks, networks[0]
        block, dtype = batch.block, ask.precision
        self.x, self.observed = block.x.to(dtype), block.observed
        lengths = ask.lengths[block.rows]
        self.lengths = None if bool((lengths == ask.x.shape[1]).all()) else lengths.clamp(min=1)
        self.centred = self.x - block.baseline.to(dtype)
        self.cells = self.observed.flatten(1).sum(1).clamp(min=1)
        self.learnt = torch.full_like(self.x, 0.5, requires_grad=True)

    @property
    def problem(self) -> LossTerm:
        return LossTerm(self.batch.block.rows, [self.learnt, *self.networks.parameters()], self.loss)

    @abstractmethod
    def loss(self, epoch: int) -> Tensor:
        """Return the sum of the series' losses."""

    def moved(self) -> Tensor:
        replacement: Tensor = self.replacement(self.centred, self.lengths)
        return replacement

    def _total(self, share: Tensor, moved: Tensor, size: Tensor) -> Tensor:
        """Replace a share of each value; ``size`` is the weighted size of the mask, cell by cell."""
        z = self.x + share * (moved - self.centred) * self.observed
        size = (size + self.settings.replacement_weight * moved.abs()) * self.observed
        each: Tensor = self.batch.error(z[:, None])[:, 0] + size.flatten(1).sum(1) / self.cells
        return each.sum()


@EXPLAINERS.register("extremal_mask")
@dataclass(frozen=True)
class ExtremalMask(LearntMask):
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
    >>> ExtremalMask(1.0, 10.0)(first_two, x, output="raw").values.flatten().round()
    tensor([1., 1., 0., 0.])
    """

    shared: ClassVar[bool] = True

    mask_weight: float = settings.real(0.1)
    replacement_weight: float = settings.real(1.0)
    epochs: int = settings.integer(500)
    lr: float = settings.positive(0.01)
    fit_batch_size: int | None = settings.integer(None)
    deletion: bool = settings.boolean(False)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: weights of the mask, and deletion."""
        return [{"mask_weight": 0.01}, {"mask_weight": 1.0}, {"deletion": True}]

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        return self._fit_jointly(ask, partial(self._fit_masks, ask), self.fit_batch_size, empty=self.deletion)

    def _fit_masks(self, ask: Ask, groups: list[list[MaskBatch]], advance: Advance) -> Iterable[Tensor]:
        networks = seeded(ask, lambda: [Replacement(ask.x.shape[2])])
        parts = [[_Masks(self, ask, batch, networks) for batch in group] for group in groups]
        masks = [part.learnt for group in parts for part in group]
        steps = [[part.problem for part in group] for group in parts]
        self._optimize(ask, steps, masks, networks.parameters(), done=advance)
        return (mask.clamp(0, 1) for mask in masks)


class _Masks(_Part):
    """The masks of some series."""

    settings: ExtremalMask

    def loss(self, epoch: int) -> Tensor:
        kept = self.learnt.clamp(0, 1)
        share = kept if self.settings.deletion else 1 - kept
        return self._total(share, self.moved(), self.settings.mask_weight * self.learnt.abs())


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
class ContraLSP(LearntMask):
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

    shared: ClassVar[bool] = True

    mask_weight: float = settings.real(1.0)
    replacement_weight: float = settings.real(1.0)
    sigma: float = settings.positive(0.5)
    epochs: int = settings.integer(500)
    lr: float = settings.positive(0.01)
    contrastive: Contrast = settings.choice("none", Contrast)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: weights of the mask, and the other loss."""
        return [{"mask_weight": 0.1}, {"mask_weight": 10.0}, {"contrastive": "triplet"}]

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        return self._fit_jointly(ask, partial(self._fit_masks, ask))

    def _fit_masks(self, ask: Ask, groups: list[list[MaskBatch]], advance: Advance) -> Iterable[Tensor]:
        channels, longest = ask.x.shape[2], max(1, int(ask.lengths.max()))
        networks = seeded(ask, lambda: [Replacement(channels), Trend(longest, channels)])
        parts = [_Gates(self, ask, batch, networks) for batch in groups[0]]
        problems = [part.problem for part in parts]
        if self.contrastive == "triplet" and len(ask.x) > 1:
            problems.append(self._contrast(parts))
        gates = [part.learnt for part in parts]
        self._optimize(ask, [problems], gates, networks.parameters(), done=advance)
        with torch.no_grad():
            return [part.mask(part.learnt + 0.5, part.trend()).clamp(0, 1) for part in parts]

    def _contrast(self, parts: list["_Gates"]) -> LossTerm:
        total = sum(len(part.x) for part in parts)

        def loss(_: int) -> Tensor:
            moved = torch.cat([part.moved() * part.observed for part in parts])
            return self.replacement_weight * total * contrast(moved.flatten(1))

        return LossTerm(slice(0, 0), list(parts[0].replacement.parameters()), loss)


class _Gates(_Part):
    """The gates of some series; what is learnt of each cell is its mu."""

    settings: ContraLSP

    def __init__(self, settings: ContraLSP, ask: Ask, batch: MaskBatch, networks: nn.ModuleList) -> None:
        super().__init__(settings, ask, batch, networks)
        self.stream = keys(ask.seed, batch.block.ids, Stream.GATES)
        self.places = torch.arange(self.x[0].numel(), device=self.x.device)

    def trend(self) -> Tensor:
        tau: Tensor = self.networks[1](self.x * self.observed)
        return tau

    @staticmethod
    def mask(gate: Tensor, tau: Tensor) -> Tensor:
        """Return the mask before it is cut to [0, 1]."""
        return gate * (gate * tau).sigmoid()

    def loss(self, epoch: int) -> Tensor:
        settings, tau, moved, gate = self.settings, self.trend(), self.moved(), self.learnt + 0.5
        noise = normal(split(self.stream, epoch)[..., None], self.places).to(gate).view_as(gate)
        mask = self.mask(gate + settings.sigma * noise, tau).clamp(0, 1)
        open_ = 0.5 + 0.5 * (self.mask(gate, tau) / (settings.sigma * math.sqrt(2))).erf()
        return self._total(1 - mask, moved, settings.mask_weight * open_)
