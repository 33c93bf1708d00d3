"""Occlusion: how far the prediction moves when one value is replaced, by a baseline or by other series."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from tempograd.core import validation
from tempograd.core.errors import ModelError, SettingError, arg
from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, fold_in, keys, randint
from tempograd.engine import Ask, Block, Prefixes, slices
from tempograd.engine.ask import Background, with_targets
from tempograd.engine.batching import CELLS
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training
from tempograd.typing import Inputs, Marginal, Model, OcclusionScore, Setting

FITTED, TINY = 2, 1e-30  # draws that a line always goes through
MISSED = 10.0  # times by which draws that missed far values widen an error at most
SERIES = 10  # that values come from where nobody says how many
EVEN = 16  # matrix products treat all rows alike when their number is a multiple of this
# from the falls of a target, (series, time, channel, draws, outputs), and the new values: scores, and their errors
_Reduce = Callable[[Block, Tensor, Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class CellReplacement(Explainer):
    """What methods share that replace single cells and look how far the prediction falls."""

    zero_if_ignored: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    def _replace_cells(
        self, ask: Ask, draws: int, replacement: Callable[[Block], Tensor], reduce: _Reduce, *, every: bool = False
    ) -> list[Tensor]:
        """Replace each observed cell alone, ``draws`` times; return scores and errors of each target, (2, …).

        ``replacement`` gives the new values of a block, (series, time, channel, draws). ``reduce`` takes what the
        prediction of the clean series is above that of the changed one, 0 where nothing was observed: that of the
        target of each ask or, with ``every``, each output.
        """
        asks = ask.each()
        ask = asks[0]
        maps = [torch.zeros(2, *ask.x.shape, device=ask.x.device) for _ in asks]
        with_targets(asks, ask.block(slice(0, 1)))  # tells whether there is one output per step
        own = self._at_own_step(ask)

        def work(rows: slice, size: int) -> None:
            ask.verify_once()
            blocks = with_targets(asks, ask.block(rows))
            values = replacement(blocks[0])
            compute = self._in_prefixes if own else _in_whole_series
            for block, fall, whole in zip(blocks, compute(asks, blocks, size, values, every), maps, strict=True):
                if not bool(fall.isfinite().all()):
                    odd = "The model returned NaN or infinity when one value of a series was replaced"
                    raise ModelError(f"{odd}: replace by values within the range of the data.")
                for place, part in enumerate(reduce(block, fall.to(ask.precision), values)):
                    whole[place, rows] = part.to(whole)

        cells = ask.x.shape[2] if own else max(1, int(ask.observed_cells.max()))
        ask.batching.run(len(ask.x), cells * draws + 1, work, f"explain with {self.name}")
        return maps

    def _at_own_step(self, ask: Ask) -> bool:
        """Tell whether a value is judged by the prediction at its own step, from the series up to it."""
        return isinstance(ask.resolved.steps, str)

    def _own_target(self, block: Block, prefixes: Prefixes) -> Tensor:
        """Return the class that each step is then judged by, (series, time)."""
        return cast("Tensor", block.target)  # steps of their own have no function as target

    def _in_prefixes(
        self, asks: Sequence[Ask], blocks: Sequence[Block], size: int, values: Tensor, every: bool
    ) -> list[Tensor]:
        """Read the prediction at each cell's own step, from the series up to it."""
        series, time, channels, draws = values.shape
        block = blocks[0]
        prefixes = Prefixes(asks[0], block, size)
        targets = [self._own_target(each, prefixes) for each in blocks]
        values = torch.where(block.observed[..., None], values, block.x[..., None]).flatten(2)
        channel = torch.arange(channels, device=values.device).repeat_interleave(draws)
        width = prefixes.outputs.shape[-1] if every else 1
        falls = [prefixes.outputs.new_zeros(series, time, channels * draws, width) for _ in asks]
        for batch in slices(channels * draws, max(1, size // series - 1)):
            changed = batch.stop - batch.start
            for starts in prefixes.starts(changed + 1, 1):
                windows = block.x[:, starts, None, None].repeat(1, 1, changed + 1, 1, 1)  # the first stays clean
                new = values[:, starts, batch, None, None]
                windows[:, :, 1:].scatter_(-1, channel[batch, None, None].expand_as(new), new)
                outputs = prefixes.replaced(starts, windows)[:, :, :, 0]
                for target, fall in zip(targets, falls, strict=True):
                    place = target[:, starts, None, None].expand(*outputs.shape[:3], 1)
                    score = outputs if every else outputs.gather(-1, place)
                    fall[:, starts, batch] = score[:, :, :1] - score[:, :, 1:]
        whole = [fall.view(series, time, channels, draws, -1) for fall in falls]
        return [fall.where(block.observed[..., None, None], 0) for fall in whole]


def _in_whole_series(
    asks: Sequence[Ask], blocks: Sequence[Block], size: int, values: Tensor, every: bool
) -> list[Tensor]:
    """Run the series once for each observed cell and draw, beside the clean series.

    Clean and changed series go through the model together, in an even number of rows, so that a cell the model
    ignores scores exactly 0 and not the difference of two roundings.
    """
    x, draws, width = blocks[0].x, values.shape[-1], values[0, ..., 0].numel()
    places = blocks[0].observed.flatten().nonzero()[:, 0]
    new = values.flatten(0, 2)[places].flatten()
    clean = torch.arange(len(x), device=x.device)
    even = EVEN if size >= EVEN else 1
    falls: list[list[Tensor]] = [[] for _ in asks]
    for batch in slices(len(new), max(1, size - size % even - len(x))):
        place = places[torch.arange(batch.start, batch.stop, device=x.device) // draws]
        more = place.new_zeros(-(len(x) + len(place)) % even)
        owner, changed = torch.cat([clean, place // width, more]), slice(len(x), len(x) + len(place))
        z, cell = x[owner], place % width
        z[changed].flatten(1).scatter_(1, cell[:, None], new[batch, None])
        parts = [_read(asks, z[p], blocks, owner[p], every) for p in slices(len(z), size)]
        for fall, scores in zip(falls, zip(*parts, strict=True), strict=True):
            score = torch.cat(scores)
            fall.append(score[owner[changed]] - score[changed])
    whole = []
    for fall in falls:
        seen = torch.cat(fall) if fall else new.new_zeros(0, 1)
        cells = seen.new_zeros(values.numel() // draws, draws, seen.shape[-1])
        cells[places] = seen.view(len(places), *cells.shape[1:])
        whole.append(cells.view(*values.shape, -1))
    return whole


@torch.no_grad()
def _read(asks: Sequence[Ask], z: Tensor, blocks: Sequence[Block], owner: Tensor, every: bool) -> list[Tensor]:
    """Return the explained score of each row, or all its outputs, (rows, outputs), for each ask."""
    raw, scores = asks[0].forward(z, blocks[0].index[owner]), []
    for ask, block in zip(asks, blocks, strict=True):
        outputs = ask.apply_link(raw)
        parts = {"target": block.target, "steps": block.steps}
        if getattr(block.target, "takes_input", False):
            parts["observed"] = block.observed
        rows: dict[str, Any] = {name: part[owner] for name, part in parts.items() if isinstance(part, Tensor)}
        if not every:
            scores.append(ask.score(outputs, block._replace(**rows), 1, z)[:, None])
            continue
        outputs = (outputs * rows["steps"][..., None]).sum(1) if "steps" in rows else outputs
        scores.append(outputs.flatten(1))
    return scores


def _with_draws(ask: Ask, maps: Tensor, samples: int) -> Estimate:
    """Return the scores with their errors, from as many draws of every observed cell."""
    seen = torch.ones_like(maps[0]) if ask.mask is None else ask.mask.to(maps)
    return Estimate(maps[0], maps[1], (seen * samples).to(torch.int32), seen * samples)


# Feature occlusion: what the prediction loses when a single value is replaced.


@EXPLAINERS.register("occlusion", "fo")
@dataclass(frozen=True)
class Occlusion(CellReplacement):
    r"""Feature occlusion.

    .. math:: A_{t,d} = F_{\hat y}(x) - F_{\hat y}\big(x \text{ with } x_{t,d} \leftarrow x'_{t,d}\big).

    A positive score means that the value supports the target.

    Parameters
    ----------
    absolute : bool, default=False
        Whether scores are magnitudes, without their sign.
    n_samples : int, optional
        With ``baseline="background"`` only: how many series values come from, by default 10; each costs one pass
        of the model for every value.

    Notes
    -----
    With ``baseline="background"`` a value gives way to those of :math:`S` other series :math:`z_s`, drawn from the
    background, at the same step and channel,

    .. math:: A_{t,d} = \frac{1}{S} \sum_{s=1}^{S} \Big( F_{\hat y}(x)
        - F_{\hat y}\big(x \text{ with } x_{t,d} \leftarrow z_{s,t,d}\big) \Big),

    Their mean over the whole background is known, so what a straight line through the draws says of it is
    corrected for: with steps :math:`x_{t,d} - z_{s,t,d}` and the regression of the falls on them, the score is the
    height of the line at the mean step. It and its standard error are jackknifed over the draws; the error widens
    where these missed far values.

    :meth:`fit` takes training series; values are then replaced by the mean of these at the same step and
    channel, unless the call names a baseline. Every observed value costs one pass of the model. With
    ``steps="own"`` a value is judged by the prediction at its own step; a recurrent model then runs one step
    from its remembered state instead of the whole series.

    References
    ----------
    .. [1] M. D. Zeiler and R. Fergus, "Visualizing and Understanding Convolutional Networks", ECCV 2014.
       https://arxiv.org/abs/1311.2901
    .. [2] H. Suresh et al., "Clinical Intervention Prediction and Understanding with Deep Neural Networks",
       MLHC 2017. https://arxiv.org/abs/1705.08498

    Examples
    --------
    >>> product = lambda x: x.prod(1)
    >>> Occlusion()(product, torch.tensor([[[3.0], [-2.0]]]), baseline=1.0, output="raw").values.flatten()
    tensor([-4., -9.])
    """

    takes_inputs: ClassVar[bool] = True
    takes_background: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    absolute: bool = validation.boolean(False)
    n_samples: int | None = validation.integer(None)
    means: Inputs | None = validation.learnt()

    def _fit(self, model: Model, x: Any, seed: int) -> Self:
        """Return a new explainer that replaces by the mean of training series at each step and channel."""
        mean = partial(torch.mean, dim=0, keepdim=not isinstance(x, Tensor), dtype=torch.float64)
        return replace(self, means=tree_map(mean, x))

    def attribute(self, ask: Ask) -> list[Estimate]:
        if ask.background is None:
            if self.n_samples is not None:
                idle = f"makes no difference without {arg:question.baseline=background}: leave it out."
                raise SettingError(f"{arg:method.n_samples={self.n_samples}} {idle}")
            maps = self._replace_cells(ask, 1, lambda block: block.baseline[..., None], _fall)
            return [self._signed(Estimate(values)) for values, _ in maps]
        samples = self.n_samples or SERIES

        def drawn(block: Block) -> Tensor:
            return cast("Background", block.background).starts(block, samples)(slice(0, samples)).movedim(1, -1)

        maps = self._replace_cells(ask, samples, drawn, regressed)
        evals = torch.full(ask.x.shape[:1], samples, dtype=torch.int32, device=ask.x.device)
        return [self._signed(_with_draws(ask, one, samples)._replace(n_evals=evals)) for one in maps]

    def question(self, ask: Ask) -> Ask:
        """Put the learnt means in the place of a baseline that nobody named."""
        ask = super().question(ask)
        if self.means is None or ask.named_baseline or ask.background is not None:
            return ask
        means = ask.call.pooled(self.means, "The training series")
        means = means[0] if ask.call.packing is not None else means
        check_training(means.shape, ask)
        return ask.replace(baseline=means.to(ask.x).expand_as(ask.x))

    def _signed(self, estimate: Estimate) -> Estimate:
        values = estimate.values.abs() if self.absolute else estimate.values
        return estimate._replace(values=values, signed=not self.absolute)


def _fall(_: Block, falls: Tensor, __: Tensor) -> tuple[Tensor]:
    return (falls[..., 0, 0],)


def regressed(block: Block, falls: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the mean fall of each cell over all series that could have been drawn, and its standard error.

    Falls :math:`f_i` are (series, time, channel, samples, 1), the values that they come with have one axis less.
    How far these are from the series, :math:`s_i`, has a known mean :math:`\bar s` over all that could be drawn.
    With :math:`c_i = s_i - \frac1n \sum_j s_j` the line through the falls has there the height
    :math:`\sum_i a_i f_i`,

    .. math:: a_i = \frac1n + \frac{c_i}{\sum_j c_j^2} \Big( \bar s - \frac1n \sum_j s_j \Big), \qquad
        q_i = \frac{a_i r_i}{1 - \frac1n - c_i^2 / \sum_j c_j^2},

    and without draw :math:`i`, whose residual is :math:`r_i`, it would be lower by :math:`q_i`: the jackknife
    (Tukey 1958) corrects the height by :math:`\frac{n - 1}{n} \sum q_i`, for what a curve that bends makes of it,
    and has the variance :math:`\frac{n - 1}{n} \sum (q_i - \bar q)^2`. That grows where the steps vary less than
    those of the whole pool.
    """
    background, samples, falls = cast("Background", block.background), values.shape[-1], falls[..., 0].double()
    steps = block.x[..., None].double() - values.double()
    centred = steps - steps.mean(-1, keepdim=True)
    square = centred.square().sum(-1, keepdim=True)
    direction = torch.where((square > 0) & (samples > FITTED), centred / square.clamp(min=TINY), 0)
    ahead = background.mean_step(block).double()[..., None] - steps.mean(-1, keepdim=True)
    share = 1 / samples + ahead * direction  # of each draw in the estimate
    rest = falls - falls.mean(-1, keepdim=True) - (direction * falls).sum(-1, keepdim=True) * centred
    without = share * rest / (1 - 1 / samples - centred * direction).clamp(min=TINY)  # what each draw changes
    mean = (share * falls + (samples - 1) / samples * without).sum(-1)
    spread = (samples - 1) / samples * (without - without.mean(-1, keepdim=True)).square().sum(-1)
    known, seen = background.spread, square[..., 0] / samples
    missed = (known / seen.clamp(min=TINY)).clamp(1, MISSED).square()  # a curve bends with the square of the step
    error = torch.where(seen > 0, (spread * missed).sqrt(), torch.where(known > 0, torch.inf, 0))
    return mean, error.where(block.observed, 0)


# Augmented feature occlusion: how far the prediction moves when a value is swapped for those of other series.
#
# Few draws of a skewed pool miss its far values, and then show too small a spread as well as too small a mean. But
# all values of the pool are known, and so is their distance :math:`d = |X - x|` from the value of the series. What
# the variance of the drawn distances misses of that of all counts with the square of the move per distance,
#
# .. math:: \sigma^2 = s_m^2 + \Big( \frac{\sum_s m_s}{\sum_s d_s} \Big)^2 \max(S_d^2 - s_d^2, 0),
#
# a ratio estimator with a known auxiliary variance (Cochran 1977, chapter 6). For moves in proportion to the
# distance it is never below the variance over the whole pool.

POOL = 2**22  # values of the pool that distances are taken from; of a larger one, evenly spaced rows
ROUNDING = 1e-12  # of a difference of variances, as a share of the mean square


_Distances = Callable[[Tensor], tuple[Tensor, Tensor]]


def pool_distances(table: Tensor) -> _Distances:
    """Return what tells how far the values of a pool lie from any ``x``, (columns, points).

    It gives mean and variance of the distance from the same column of ``table``, (rows, columns), each like x.
    """
    values = table[:: -(-table.numel() // POOL)].double().mT
    centre = values.mean(-1, keepdim=True)
    ordered = (values - centre).sort(-1)[0].contiguous()
    below = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))
    size = ordered.square().mean(-1, keepdim=True)

    def distances(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.to(centre) - centre
        count = ordered.shape[-1]
        rank = torch.searchsorted(ordered, x.contiguous())
        mean = (x * (2 * rank - count) + below[:, -1:] - 2 * below.gather(-1, rank)) / count
        square = size + x.square()
        spread = square - mean.square()
        return mean, spread.where(spread > ROUNDING * square, 0)

    return distances


@EXPLAINERS.register("augmented_occlusion", "afo")
@dataclass(frozen=True)
class AugmentedOcclusion(CellReplacement):
    r"""Augmented feature occlusion.

    .. math:: A_{t,d} = \frac{1}{S} \sum_{s=1}^{S} \big| F_{\hat y}(x)
        - F_{\hat y}\big(x \text{ with } x_{t,d} \leftarrow X_{r_s,t,d}\big) \big|,

    where the rows :math:`r_s` are drawn from the training series :math:`X`, anew for every value.

    Parameters
    ----------
    n_samples : int, default=10
        Draws per value; each costs one pass of the model.
    marginal : {"per_time", "pooled"}
        Whether replacements come from the same step of other series, or from any step.
    over : {"target", "all"}
        Whether the move is that of the target's score, or the mean over all outputs.

    Notes
    -----
    Scores are magnitudes: they do not tell the direction. ``steps="own"`` judges a value by the prediction at
    its own step; a recurrent model then runs one step from its remembered state instead of the whole series.

    The standard error knows how far all values of the pool lie from the value of the series, and widens where the
    draws :math:`m_s` missed far ones [2]_. It is infinite where every draw was the value of the series itself and
    the pool has others. Where few values of a pool move the prediction and no draw met one, nothing shows it: 95 %
    intervals of 10 to 30 draws held in 65 to 80 % of the values of steep sigmoids, and in 84 to 90 % of those of
    small convolutional networks.

    .. math:: s^2 = \frac{1}{S} \Big( s_m^2 + \Big( \frac{\sum_s m_s}{\sum_s d_s} \Big)^2
        \max(S_d^2 - s_d^2, 0) \Big), \qquad d_s = |X_{r_s,t,d} - x_{t,d}|

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise Feature Importance for Time-series
       Models", NeurIPS 2020. https://arxiv.org/abs/2003.02821
    .. [2] W. G. Cochran, "Sampling Techniques", 3rd edition, chapter 6, Wiley 1977.

    Examples
    --------
    >>> model, train = lambda x: x.sum(1), torch.full((5, 2, 1), 1.0)
    >>> explainer = AugmentedOcclusion().fit(model, train)
    >>> explainer(model, torch.tensor([[[3.0], [-2.0]]]), output="raw").values.flatten()
    tensor([2., 3.])
    """

    signed: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = True
    uses_baseline: ClassVar[bool] = False

    n_samples: int = validation.integer(10)
    marginal: Marginal = validation.choice("per_time", Marginal)
    over: OcclusionScore = validation.choice("target", OcclusionScore)
    rows: Tensor | None = validation.learnt()

    def _fit(self, model: Model, x: Any, seed: int) -> Self:
        """Return a new explainer that draws from these training series."""
        return replace(self, rows=x)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return where values come from, and what moves."""
        return [{"marginal": "pooled"}, {"over": "all"}, {"marginal": "pooled", "over": "all"}]

    def attribute(self, ask: Ask) -> list[Estimate]:
        pool = cast("Tensor", self.rows)  # no call gets here before fit
        check_training(pool.shape, ask)
        if pool.numel() <= CELLS:  # a larger one stays where it is
            pool = pool.to(ask.device)
        table = pool.flatten(0, 1) if self.marginal == "pooled" else pool.flatten(1)  # a column of values each
        drawn, reduce = partial(self._drawn, table, ask.seed), partial(self._moves, pool_distances(table))
        maps = self._replace_cells(ask, self.n_samples, drawn, reduce, every=self.over == "all")
        return [_with_draws(ask, one, self.n_samples) for one in maps]

    def _moves(self, distances: _Distances, block: Block, falls: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean move of each cell and its standard error, like the series of a block.

        The error is infinite where every draw was the value of the series itself, and the pool has others.
        """
        moves, shape = falls.abs().mean(-1), block.x.shape
        if self.n_samples == 1:
            return moves[..., 0], torch.where(block.observed, torch.inf, 0)
        columns = shape[2] if self.marginal == "pooled" else shape[1] * shape[2]
        points = block.x.reshape(-1, columns).mT
        mean, known = (part.mT.reshape(shape).to(moves.device) for part in distances(points))
        distance = (drawn - block.x[..., None]).abs().double()
        missed = (known - distance.var(-1)).clamp(min=0)
        spread = (moves.double().var(-1) + (moves.double().sum(-1) / distance.sum(-1)).square() * missed).sqrt()
        spread = torch.where(distance.any(-1), spread, torch.where(mean > 0, torch.inf, 0))
        return moves.mean(-1), spread.where(block.observed, 0) / self.n_samples**0.5

    def _drawn(self, table: Tensor, seed: int, block: Block) -> Tensor:
        """Draw a training value for each cell and sample, (series, time, channel, samples)."""
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        streams = fold_in(keys(seed, block.ids, Stream.REPLACEMENTS), self.n_samples)[..., None]
        row = randint(streams, cell, len(table)).to(table.device)
        drawn = table[row, (cell % table.shape[1]).to(table.device)].to(block.x)  # (series, samples, cells)
        return drawn.transpose(1, 2).reshape(*block.x.shape, self.n_samples)
