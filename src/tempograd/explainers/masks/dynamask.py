"""Dynamask: the mask of given area that keeps the prediction best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from tempograd.core import settings
from tempograd.core.estimate import Estimate
from tempograd.core.progress import Advance, progress_bar
from tempograd.engine import Ask, slices
from tempograd.explainers.base import EXPLAINERS, one_by_one
from tempograd.explainers.masks.base import LearntMask, LossTerm, MaskBatch, perturbation
from tempograd.typing import MaskPerturbation, Setting

# The regularisers of Dynamask: how much of a series a mask keeps, and how often it changes in time.

Term = Callable[[Tensor], Tensor]
Keep = Callable[[slice, Tensor, Tensor], None]  # gets some series, their masks for each area, and the errors
_ROUNDING = 1e-6  # (1 - 0.9) * 10 is below 1
_EQUAL = 1e-4  # Adam's first steps have one length, so that many cells of a mask differ by rounding only


def area_term(observed: Tensor, areas: Sequence[float]) -> Term:
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
        squares = (flat - nearest).square().masked_fill(hidden, 0)
        return (squares.sum(-1) / cells.clamp(min=1)[:, None]).sum()

    return term


def time_term(observed: Tensor) -> Term:
    r"""Return the sum over series and areas of :math:`\overline{|m_{t+1} - m_t|}`, between observed neighbours."""
    pairs = (observed[:, 1:] & observed[:, :-1])[:, None]
    count = pairs.flatten(1).sum(1).clamp(min=1)

    def term(mask: Tensor) -> Tensor:
        changes = (mask.diff(dim=2).abs() * pairs).flatten(2).sum(-1)
        return (changes / count[:, None]).sum()

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

    areas: tuple[float, ...] = settings.increasing_shares((0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
    perturbation: MaskPerturbation = settings.choice("mean", MaskPerturbation)
    width: float = settings.positive(2.0)
    epochs: int = settings.integer(500)
    lr: float = settings.positive(0.01)
    size_weight: float = settings.real(0.1)
    growth: float = settings.positive(100.0)
    time_weight: float = settings.real(0.1)
    deletion: bool = settings.boolean(False)
    tolerance: float | None = settings.positive(0.05, optional=True)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return a few settings, since each is learnt: what takes the place of values, fewer cells, deletion."""
        return [{"perturbation": "blur"}, {"areas": (0.05, 0.1, 0.15, 0.2)}, {"deletion": True}]

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        values = torch.zeros(ask.x.shape, device=ask.x.device)

        def keep(rows: slice, masks: Tensor, errors: Tensor) -> None:
            every = torch.arange(len(masks), device=masks.device)
            values[rows] = masks[every, self._choose(errors)].to(values)

        self._learn(ask, slice(0, len(values)), keep)
        return Estimate(values)

    def _learn(self, ask: Ask, series: slice, keep: Keep) -> None:
        """Learn the masks of some series, and hand them over block by block."""
        areas = len(self._learnt)
        total = (series.stop - series.start) * areas * self.epochs
        with progress_bar(total, f"explain with {self.name}") as advance:

            def work(rows: slice, size: int) -> None:
                keep(rows, *self._fit_masks(ask, rows, size, advance))

            ask.batching.run(series, areas, work)

    def _fit_masks(self, ask: Ask, rows: slice, size: int, advance: Advance) -> tuple[Tensor, Tensor]:
        """Return masks (series, area, time, channel) and their errors (series, area)."""
        batch = self._read(ask, rows)
        ask.verify_once()
        found = []
        for part in slices(len(self._learnt), max(1, size // len(batch.block.x))):
            shape = (len(batch.block.x), part.stop - part.start, *batch.block.x.shape[1:])
            mask = batch.block.x.new_full(shape, 0.5, dtype=ask.precision, requires_grad=True)
            problem, error = self._problem(batch, mask, self._learnt[part])
            done = partial(advance, shape[0] * shape[1])
            self._optimize(ask, [[problem]], [mask], done=done, bounded=True)
            with torch.no_grad():
                found.append((mask.where(batch.block.observed[:, None], 0), error()))
        masks, errors = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        if len(self._learnt) < len(self.areas):
            masks, errors = masks.expand(-1, len(self.areas), -1, -1), errors.expand(-1, len(self.areas))
        return masks, errors

    @property
    def _learnt(self) -> tuple[float, ...]:
        """Return the areas whose masks differ: without a weight on the size, no loss knows its area."""
        return self.areas if self.size_weight else self.areas[:1]

    def _problem(
        self, batch: MaskBatch, mask: Tensor, areas: tuple[float, ...]
    ) -> tuple[LossTerm, Callable[[], Tensor]]:
        perturb = perturbation(self.perturbation, batch.block, self.width, mask.dtype)
        size, rough = area_term(batch.block.observed, areas), time_term(batch.block.observed)

        def error() -> Tensor:
            return batch.error(perturb(1 - mask if self.deletion else mask))

        def loss(epoch: int) -> Tensor:
            total = self._aim(error()).sum()
            if self.size_weight:
                total = total + self.size_weight * self.growth ** (epoch / self.epochs) * size(mask)
            if self.time_weight:
                total = total + self.time_weight * rough(mask)
            return total

        return LossTerm(batch.block.rows, [mask], loss), error

    def _aim(self, errors: Tensor) -> Tensor:
        """Return what a mask is to make small: its error, or for deletion the opposite."""
        return -errors if self.deletion else errors

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
