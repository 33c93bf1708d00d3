"""Occlusion: how far the prediction moves when one value is replaced, by a baseline or by other series."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd._utils.rng import Stream, fold_in, keys, randint
from tempograd.engine import Block, Prefixes, Request, slices, spans, wider
from tempograd.engine.batching import CELLS
from tempograd.errors import ModelError
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training
from tempograd.explainers.integration import Attribution
from tempograd.typing import Array, Inputs, Marginal, Model, OcclusionScore

EVEN = 16  # matrix products treat all rows alike when their number is a multiple of this
_Replace = Callable[[Block], Tensor]  # new values, (series, time, channel, draws)
Finish = Callable[[Block, Tensor], None]  # takes the falls, (series, time, channel, draws, outputs)


@dataclass(frozen=True)
class CellReplacement(Explainer):
    """What methods share that replace single cells and look how far the prediction falls."""

    zero_if_ignored: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    def _replace_cells(
        self, request: Request, draws: int, replacement: _Replace, finish: Finish, *, every: bool = False
    ) -> None:
        """Replace each observed cell alone, ``draws`` times, and hand over by how much the prediction falls.

        ``finish`` takes what the prediction of the clean series is above that of the changed one, 0 where nothing
        was observed: that of the target or, with ``every``, each output.
        """
        request.with_target(request.block(slice(0, 1)))  # tells whether there is one output per step
        own = self._at_own_step(request)

        def work(rows: slice, size: int) -> None:
            request.verify_once()
            block = request.with_target(request.block(rows))
            compute = self._in_prefixes if own else _in_whole_series
            falls = compute(request, block, size, replacement(block), every)
            if not bool(falls.isfinite().all()):
                raise ModelError(
                    "The model returned NaN or infinity when one value of a series was replaced: replace by "
                    "values within the range of the data."
                )
            finish(block, falls.to(request.precision))

        cells = request.x.shape[2] if own else max(1, int(request.observed_cells.max()))
        batching = request.batching if own else wider(request.batching, request.model)
        batching.run(len(request.x), cells * draws + 1, work, f"explain with {self.name}")

    def _at_own_step(self, request: Request) -> bool:
        """Tell whether a value is judged by the prediction at its own step, from the series up to it."""
        return isinstance(request.steps, str)

    def _own_target(self, block: Block, prefixes: Prefixes) -> Tensor:
        """Return the class that each step is then judged by, (series, time)."""
        if not isinstance(block.target, Tensor):
            raise RuntimeError("Steps of their own have no function as target.")
        return block.target

    def _in_prefixes(self, request: Request, block: Block, size: int, values: Tensor, every: bool) -> Tensor:
        """Read the prediction at each cell's own step, from the series up to it."""
        series, time, channels, draws = values.shape
        prefixes = Prefixes(request, block, size)
        target = self._own_target(block, prefixes)
        values = torch.where(block.observed[..., None], values, block.x[..., None]).flatten(2)
        channel = torch.arange(channels, device=values.device).repeat_interleave(draws)
        falls = prefixes.outputs.new_zeros(
            series, time, channels * draws, prefixes.outputs.shape[-1] if every else 1
        )
        for batch in slices(channels * draws, max(1, size // series - 1)):
            changed = batch.stop - batch.start
            for starts in prefixes.starts(changed + 1, 1):
                windows = block.x[:, starts, None, None].repeat(1, 1, changed + 1, 1, 1)  # the first stays clean
                new = values[:, starts, batch, None, None]
                windows[:, :, 1:].scatter_(-1, channel[batch, None, None].expand_as(new), new)
                outputs = prefixes.replaced(starts, windows)[:, :, :, 0]
                if not every:
                    outputs = outputs.gather(-1, target[:, starts, None, None].expand(*outputs.shape[:3], 1))
                falls[:, starts, batch] = outputs[:, :, :1] - outputs[:, :, 1:]
        falls = falls.view(series, time, channels, draws, -1)
        return falls.where(block.observed[..., None, None], 0)


def _in_whole_series(request: Request, block: Block, size: int, values: Tensor, every: bool) -> Tensor:
    """Run the series once for each observed cell and draw, beside the clean series.

    Clean and changed series go through the model together, in an even number of rows, so that a cell the model
    ignores scores exactly 0 and not the difference of two roundings. Up to the cell they are alike.
    """
    series, draws, width = len(values), values.shape[-1], block.x[0].numel()
    places = block.observed.flatten().nonzero()[:, 0]
    new = values.flatten(0, 2)[places].flatten()
    clean = torch.arange(series, device=places.device)
    even = EVEN if size >= EVEN else 1
    falls = []
    for batch in slices(len(new), max(1, size - size % even - series)):
        place = places[torch.arange(batch.start, batch.stop, device=places.device) // draws]
        more = place.new_zeros(-(series + len(place)) % even)
        owner = torch.cat([clean, place // width, more])
        z, changed = block.x[owner], slice(series, series + len(place))
        row = torch.arange(len(z), device=z.device)[changed]
        when = place % width // z.shape[2]
        z[row, when, place % z.shape[2]] = new[batch]
        alike = _alike(owner, changed, when, z.shape[1])
        parts = [
            _read(request, z[part], _of(block, owner[part]), alike[part], every) for part in slices(len(z), size)
        ]
        score = torch.cat(parts)
        falls.append(score[owner[changed]] - score[changed])
    found = torch.cat(falls) if falls else new.new_zeros(0, 1)
    whole = found.new_zeros(block.x.numel(), draws, found.shape[-1])
    whole[places] = found.view(len(places), draws, whole.shape[-1])
    return whole.view(*values.shape, -1)


def _of(block: Block, index: Tensor) -> Block:
    """Give every row the target and steps of its series, and for a score of series the observed cells."""
    target = block.target[index] if isinstance(block.target, Tensor) else block.target
    steps = block.steps[index] if isinstance(block.steps, Tensor) else block.steps
    observed = block.observed[index] if getattr(target, "takes_input", False) else block.observed
    return block._replace(target=target, steps=steps, observed=observed)


def _alike(owner: Tensor, changed: slice, when: Tensor, time: int) -> Tensor:
    """Return the same number for rows that are alike up to the end of a span, as all are until the change."""
    ends = torch.tensor([span.stop for span in spans(time)], device=owner.device)
    alike = owner[:, None].repeat(1, len(ends))
    own = len(owner) + torch.arange(len(when), device=owner.device)[:, None]
    alike[changed] = torch.where(when[:, None] < ends, own, alike[changed])
    return alike


@torch.no_grad()
def _read(request: Request, z: Tensor, block: Block, alike: Tensor, every: bool) -> Tensor:
    """Return the explained score of each row, or all its outputs, (rows, outputs)."""
    outputs = request.apply_link(request.forward(z, alike))
    if not every:
        return request.score(outputs, block, 1, z)[:, None]
    if isinstance(block.steps, Tensor):
        outputs = (outputs * block.steps[..., None]).sum(1)
    return outputs.flatten(1)


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

    Notes
    -----
    :meth:`fit` takes training series; values are then replaced by the mean of these at the same step and
    channel, otherwise by the call's baseline. Every observed value costs one pass of the model. With
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
    deterministic: ClassVar[bool] = True

    absolute: bool = settings.boolean(False)
    means: Inputs | None = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    def fit(self, model: Model, x: Inputs, *, seed: int = 0) -> Self:
        """Return a new explainer that replaces by the mean of training series at each step and channel."""
        if isinstance(x, Mapping):
            return replace(self, means={name: _mean(part, name) for name, part in x.items()})
        if isinstance(x, tuple):
            return replace(self, means=tuple(_mean(part, "the training series") for part in x))
        return replace(
            self, means=validation.check_series(x, name="the training series").mean(0, dtype=torch.float64)
        )

    def attribute(self, request: Request) -> Attribution:
        self._put_means(request)
        values = torch.zeros(request.x.shape, device=request.x.device)

        def finish(block: Block, falls: Tensor) -> None:
            values[block.rows] = falls[..., 0, 0].to(values)

        self._replace_cells(request, 1, lambda block: block.baseline[..., None], finish)
        return self._signed(values)

    def _put_means(self, request: Request) -> None:
        if self.means is not None:
            means = request.pooled(self.means, "The training series")
            means = means[0] if request.call.packing is not None else means
            check_training(means.shape, request)
            request.baseline = means.to(request.x).expand_as(request.x)  # and the explanation says so

    def _signed(self, values: Tensor) -> Attribution:
        return Attribution(values.abs_() if self.absolute else values, signed=not self.absolute)


def _mean(x: Array, name: str) -> Tensor:
    """Return the mean row of an input, as a batch of one."""
    return validation.as_tensor(x, name).mean(0, keepdim=True, dtype=torch.float64)


# Augmented feature occlusion: how far the prediction moves when a value is swapped for those of other series.


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

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise Feature Importance for Time-series
       Models", NeurIPS 2020. https://arxiv.org/abs/2003.02821

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

    n_samples: int = settings.integer(10)
    marginal: Marginal = settings.choice("per_time", Marginal)
    over: OcclusionScore = settings.choice("target", OcclusionScore)
    rows: Tensor | None = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    def fit(self, model: Model, x: Inputs, *, seed: int = 0) -> Self:
        """Return a new explainer that draws from these training series."""
        return replace(self, rows=validation.check_series(x, name="the training series"))

    def attribute(self, request: Request) -> Attribution:
        pool = cast("Tensor", self.rows)  # no call gets here before fit
        check_training(pool.shape, request)
        if pool.numel() <= CELLS:  # a larger one stays where it is
            pool = pool.to(request.device)
        values = torch.zeros(request.x.shape, device=request.x.device)
        error = torch.zeros_like(values)
        seen = torch.ones_like(values) if request.mask is None else request.mask.to(values)

        def finish(block: Block, falls: Tensor) -> None:
            moves = falls.abs().mean(-1)
            values[block.rows] = moves.mean(-1).to(values)
            if self.n_samples > 1:
                error[block.rows] = (moves.std(-1) / self.n_samples**0.5).to(error)

        drawn = partial(self._drawn, pool=pool, seed=request.seed)
        self._replace_cells(request, self.n_samples, drawn, finish, every=self.over == "all")
        if self.n_samples == 1:
            error.masked_fill_(seen > 0, torch.inf)
        count = seen * self.n_samples
        return Attribution(values, error, count.to(torch.int32), count)

    def _drawn(self, block: Block, pool: Tensor, seed: int) -> Tensor:
        """Draw a training value for each cell and sample, (series, time, channel, samples)."""
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        table, column = pool.flatten(1), cell
        if self.marginal == "pooled":
            table, column = pool.flatten(0, 1), cell % pool.shape[2]
        streams = fold_in(keys(seed, block.ids, Stream.REPLACEMENTS), self.n_samples)[..., None]
        row = randint(streams, cell, len(table)).to(pool.device)
        drawn = table[row, column.to(pool.device)].to(block.x)  # (series, samples, cells)
        return drawn.transpose(1, 2).reshape(*block.x.shape, self.n_samples)
