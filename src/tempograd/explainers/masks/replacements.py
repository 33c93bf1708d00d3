"""ContraLSP: random gates shaped by the trend of each channel, and replacements that are learnt by contrast."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from tempograd._utils import settings
from tempograd._utils.progress import Advance
from tempograd._utils.rng import Purpose, keys, normal, split
from tempograd.engine import Question
from tempograd.explainers.base import EXPLAINERS
from tempograd.explainers.integration import Attribution
from tempograd.explainers.masks.base import LearntMask, Piece, Problem, Replacement, Trend, ends, precision, seeded

# A triplet loss between two groups of points, which are found anew at every step.

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


CONTRASTS = ("none", "triplet")


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
        other group, as the authors describe it. Their code computes that term without a gradient, so that it
        has no effect: "none".

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

    mask_weight: float = settings.number(1.0)
    replacement_weight: float = settings.number(1.0)
    sigma: float = settings.positive(0.5)
    epochs: int = settings.whole(500)
    lr: float = settings.positive(0.01)
    contrastive: str = settings.choice("none", CONTRASTS)

    def attribute(self, question: Question) -> Attribution:
        return self._together(question, partial(self._fit, question))

    def _fit(self, question: Question, groups: list[list[Piece]], advance: Advance) -> Iterable[Tensor]:
        channels, longest = question.x.shape[2], max(1, int(question.lengths.max()))

        def make() -> torch.nn.ModuleList:
            return torch.nn.ModuleList([Replacement(channels), Trend(longest, channels)])

        networks = seeded(question, precision(question), make)
        parts = [_Gates(self, question, piece, networks) for piece in groups[0]]
        problems = [Problem(part.rows, [part.mu, *networks.parameters()], part.loss) for part in parts]
        if self.contrastive == "triplet" and len(question.x) > 1:
            problems.append(self._contrast(parts))
        gates = [part.mu for part in parts]
        self._optimise(question, [problems], gates, networks.parameters(), done=advance)
        with torch.no_grad():
            return [part.mask(part.mu + 0.5, part.trend()).clamp(0, 1) for part in parts]

    def _contrast(self, parts: list["_Gates"]) -> Problem:
        total = sum(len(part.x) for part in parts)

        def loss(_: int) -> Tensor:
            moved = torch.cat([part.moved() * part.observed for part in parts])
            return self.replacement_weight * total * contrast(moved.flatten(1))

        return Problem(slice(0, 0), list(parts[0].replacement.parameters()), loss)


class _Gates:
    """The gates of some series, and the networks they share with all others."""

    def __init__(
        self, settings: ContraLSP, question: Question, piece: Piece, networks: torch.nn.ModuleList
    ) -> None:
        self.settings, self.piece, self.rows = settings, piece, piece.block.rows
        self.replacement, self.network = networks
        block, dtype = piece.block, precision(question)
        self.x, self.observed, self.lengths = block.x.to(dtype), block.observed, ends(question, block)
        self.centred = self.x - block.baseline.to(dtype)
        self.cells = self.observed.flatten(1).sum(1).clamp(min=1)
        self.mu = torch.full_like(self.x, 0.5, requires_grad=True)
        self.stream = keys(question.seed, block.ids, Purpose.GATES)
        self.places = torch.arange(self.x[0].numel(), device=self.x.device)

    def trend(self) -> Tensor:
        tau: Tensor = self.network(self.x * self.observed)
        return tau

    def moved(self) -> Tensor:
        replacement: Tensor = self.replacement(self.centred, self.lengths)
        return replacement

    @staticmethod
    def mask(gate: Tensor, tau: Tensor) -> Tensor:
        """Return the mask before it is cut to [0, 1]."""
        return gate * (gate * tau).sigmoid()

    def loss(self, epoch: int) -> Tensor:
        settings, tau, moved, gate = self.settings, self.trend(), self.moved(), self.mu + 0.5
        noise = normal(split(self.stream, epoch)[..., None], self.places).to(gate).view_as(gate)
        mask = self.mask(gate + settings.sigma * noise, tau).clamp(0, 1)
        z = self.x + (1 - mask) * (moved - self.centred) * self.observed
        open_ = 0.5 + 0.5 * (self.mask(gate, tau) / (settings.sigma * math.sqrt(2))).erf()
        size = (settings.mask_weight * open_ + settings.replacement_weight * moved.abs()) * self.observed
        each: Tensor = self.piece.error(z[:, None])[:, 0] + size.flatten(1).sum(1) / self.cells
        return each.sum()
