"""TIMING: integrated gradients along paths that leave random segments untouched."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, cast

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import SettingError, arg
from tempograd.core.estimate import Estimate
from tempograd.core.formatting import counted
from tempograd.core.rng import FAR, Stream, fold_in, keys, split
from tempograd.engine import Ask, Block
from tempograd.engine.cuda import host_copy
from tempograd.engine.inputs import Region
from tempograd.explainers.base import EXPLAINERS
from tempograd.explainers.path import PathMethod
from tempograd.explanation.diagnostics import GIVEN_UP, GOAL
from tempograd.sampling import integration
from tempograd.sampling import segments as drawing  # segments is a setting here
from tempograd.typing import Setting, StopWhen

SMALL = 2**20  # cells of all masks together, worth remembering between calls
REGIONS = 64  # more stages than any schedule has: streams of regions are not those of stages
FIRST, ENOUGH = 50, 400  # samples of the first stage, and where the default gives up
SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of cells that masks hold, which are worth trying
SPANS = ((40, 20), (20, 10), (10, 3), (3, 2))  # and lengths of segments, as parts of the series
SHARE, FEW = 0.8, 5  # anchored masks, where cells are active in fewer of the first points than that
MANY = 10  # the same where the held share is given: there 3 to 9 % of the error
_Place = tuple[torch.device, torch.dtype]


@EXPLAINERS.register("timing")
@dataclass(frozen=True)
class Timing(PathMethod):
    r"""Temporality-aware integrated gradients.

    Plain integrated gradients fades the whole series in at once, so the model sees series whose temporal
    order means nothing. TIMING fixes random segments at their true values while the rest moves from the
    baseline :math:`x'` to the input :math:`x`, and averages over the masks :math:`M` that let a cell move:

    .. math::

        A_{t,d} = (x - x')_{t,d} \; \mathbb{E}_{\alpha, M}\!\left[
            \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big)
            \;\middle|\; M_{t,d} = 1 \right].

    Parameters
    ----------
    n_samples : int, optional
        Path points; each has its own mask and costs one pass of the model. By default as many as a series needs:
        50, and twice as many again and again, until its map has an estimated relative error of 10 %, or of 30 %
        if every driver that its sentence names is certain, at most 400 (50 without ``control_variates`` or
        segments).
    held : float, optional
        Share of the cells that a mask holds on average, at least 0 and below 1. By default about one half.
    segments : int, optional
        Segments fixed per mask, for those who want the count instead of ``held``.
    min_length, max_length : int, optional
        Bounds of the length of a segment, by default a tenth and a third of the series. ``max_length=1`` holds
        single cells.
    tolerance : float, optional
        Draw further samples, in stages that double their number from ``n_samples`` on, until a series is good
        enough: easy series cost less. 0.1 stops at an estimated relative error of the map of 10 %.
    max_samples : int, optional
        Where ``tolerance`` gives up, by default 3200; :meth:`Explanation.verdict` says so.
    stop_when : {"error", "top"}, optional
        What ``tolerance`` is about, by default the error. With ``"top"`` it is the share of the top tenth of the
        cells that may still have changed when the samples were last doubled.
    control_variates : bool, default=True
        Take noise out of the estimate by regressing each cell's effects on the position on the path and on how far
        a point's slope and score are from completeness, which have mean 0 and cost no pass. Errors then also count
        what is missing of the change of the score, so that they hold where a model is steep. Slopes come
        from the same points as means, which biases the estimate by :math:`O(1 / n)`: with 50 samples by at most
        about 0.8 % of smooth maps and 7 % of steep ones. ``False`` gives the plain weighted mean over one grid of
        positions.
    anchored : float, optional
        Share of the masks that are drawn given that a chosen cell is active. Exact weights, the ratio of the two
        densities, undo it in expectation; their mean is divided by their sum, and such a ratio is biased by
        :math:`O(1 / n)` as well. By default 0.8 where a cell would be active in fewer than 5 samples, or 10 with
        ``held``, and none elsewhere. In any case the last masks are redrawn until every observed cell is active at
        least once; only with ``anchored=0`` masks are independent and stay as they come. Single cells need no
        anchors: by default they take even turns.

    Notes
    -----
    **One family.** ``held=0`` (or ``segments=0``) fixes nothing and is midpoint integrated gradients. ``held=h,
    max_length=1`` holds every cell independently with probability :math:`h`, and estimates what
    ``RandIG(p=1-h)`` does; each cell is active equally often, up to one, along the path. The more is held, the
    closer a score comes to the change of the prediction when its value alone is taken away.

    **What is drawn.** A mask holds :math:`n` segments, or :math:`n + 1` with the probability that makes the mean
    share of held cells of a series exactly ``held``; each has a length uniform between the bounds, one uniform
    channel and a uniform start. Unobserved cells count like others up to a series' last observed step.

    With segments the scores do not sum to the change of the prediction. A series that ends before others
    (padding) has its own segments, cut to its own length. Of several inputs, those with the same steps share their
    masks, as if they were the channels of one series, others have masks of their own, and of static values single
    ones are fixed.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 1, bias=False))
    >>> x = torch.arange(6.0).view(1, 3, 2)
    >>> found = Timing(n_samples=20)(model, x, output="raw").values
    >>> bool(torch.allclose(found, (model[1].weight.view(3, 2) * x)))
    True
    """

    n_samples: int | None = validation.integer(None)
    held: float | None = validation.real(None, high=1.0, closed=(True, False))
    segments: int | None = validation.integer(None, least=0)
    min_length: int | None = validation.integer(None)
    max_length: int | None = validation.integer(None)
    tolerance: float | None = validation.real(None, high=1.0, closed=(False, False))
    max_samples: int | None = validation.integer(None)
    stop_when: StopWhen | None = validation.choice(None, StopWhen)
    control_variates: bool = validation.boolean(True)
    anchored: float | None = validation.real(None, high=0.95)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return nothing held, which is integrated gradients, and shares of held cells by lengths of segments."""
        usual = [(max(1, shape[0] // low), max(1, shape[0] // high)) for low, high in SPANS]
        family: list[dict[str, Setting]] = [
            {"held": share, "min_length": low, "max_length": high}
            for share in SHARES
            for low, high in dict.fromkeys([(1, 1), *usual])
            if (share, (low, high)) != (0.5, usual[2])  # the default
        ]
        return [{"segments": 0}, *family]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_length and self.max_length and self.min_length > self.max_length:
            raise SettingError(f"min_length={self.min_length} is above max_length={self.max_length}: swap them.")
        if self.held is not None and self.segments is not None:
            both = f"{arg:method.held={self.held:g}} and {arg:method.segments={self.segments}}"
            raise SettingError(f"{both} both say how much a mask holds: pass one.")
        if self.tolerance is None:
            if self.max_samples is not None or self.stop_when is not None:
                idle = f"{arg:method.max_samples} and {arg:method.stop_when} make no difference without"
                raise SettingError(f"{idle} {arg:method.tolerance}: pass {arg:method.tolerance=0.1} too.")
            return
        object.__setattr__(self, "max_samples", self.max_samples or GIVEN_UP)
        object.__setattr__(self, "stop_when", self.stop_when or "error")
        if not self.controlled:
            raise SettingError(f"{arg:method.tolerance} needs {arg:method.control_variates=True} and segments.")

    @property
    def controlled(self) -> bool:
        """Return whether scores and positions take noise out of the mean; without segments there is none."""
        return self.control_variates and 0 not in (self.segments, self.held)

    @property
    def schedule(self) -> integration.Schedule:
        """Return the points in their stages; without controls they are one grid over the path."""
        if not self.controlled:
            return integration.Schedule((self.n_samples or FIRST,))
        if self.tolerance is None and self.n_samples is None:
            return integration.Schedule(integration.geometric(FIRST, ENOUGH), tolerance=GOAL, stop_when="answer")
        first = self.n_samples or FIRST
        if self.tolerance is None:
            return integration.Schedule(integration.geometric(min(first, FIRST), first))
        stages = integration.geometric(first, self.max_samples or GIVEN_UP)
        return integration.Schedule(stages, tolerance=self.tolerance, stop_when=self.stop_when or "error")

    def attribute(self, ask: Ask) -> list[Estimate]:
        schedule, (count, time, channels), label = self.schedule, ask.x.shape, f"explain with {self.name}"
        large = count * schedule.stages[0] * time * channels > SMALL
        if large or ask.mask is not None or ask.call.packing is not None:
            return integration.integrate(ask, schedule, self.paths(ask), label=label)
        setting, ids = self.segment_settings(time, channels, time), tuple(ask.ids.tolist())
        if self._examined:
            drawing.warn_of_rare_cells([setting], sum(schedule.stages))

        def path(block: Block, stage: int) -> integration.GradientPath:
            if stage > 0:  # of some series only
                drawn = draw_whole(self, setting, block.ids, ask.seed, ask.dtype, stage)
                return self.masked_path(block, drawn, stage)
            drawn = _small_draw(self, setting, ids, ask.seed, (ask.device, ask.dtype))
            weights = None if drawn.weights is None else drawn.weights[block.rows]
            return self.masked_path(block, drawn._replace(masks=drawn.masks[block.rows], weights=weights))

        return integration.integrate(ask, schedule, path, label=label)

    def paths(self, ask: Ask) -> Callable[[Block, int], integration.GradientPath]:
        """Return what draws the masks of a block of series in a stage and makes the paths that they leave.

        Regions of several inputs draw masks by themselves; their densities, and so their weights, multiply.
        """
        packing = ask.call.packing
        regions: list[Region] | list[None] = [None] if packing is None else packing.regions()
        draws = [_RegionDraw.of(self, ask, *region) for region in enumerate(regions)]
        if self._examined:
            settings = [setting for draw in draws for setting in draw.by_length.values()]
            drawing.warn_of_rare_cells(settings, sum(self.schedule.stages))

        def path(block: Block, stage: int) -> integration.GradientPath:
            parts = [draw.sample(block, stage) for draw in draws]
            drawn = self.masked_path(block, _joined(block, draws, parts), stage)
            if stage > 0:  # what could be seen was seen in the first
                return drawn
            unseen = host_copy(torch.stack([part.unseen.to(block.x.device) for part in parts]).any())

            def resample() -> integration.GradientPath:
                if not unseen():
                    return drawn
                pairs = zip(draws, parts, strict=True)
                covered = [drawing.cover_all_cells(part, *draw.place(block)) for draw, part in pairs]
                return self.masked_path(block, _joined(block, draws, covered))

            return drawn._replace(resample=resample)

        return path

    def segment_settings(self, length: int, channels: int, longest: int) -> drawing.SegmentSettings:
        """Complete the setting for series of ``length`` steps, and refuse what cannot be estimated.

        ``longest`` is the length of the batch.
        """
        count, held = (0, None) if length == 0 else (self.segments, self.held)
        setting = drawing.complete(
            max(length, 1), channels, count, self.min_length, self.max_length, longest, held
        )
        active = setting.p_active()
        share = 0.0 if setting.single else self.anchored
        if share is None:
            enough = FEW if self.held is None else MANY
            share = SHARE if active.min() * self.schedule.stages[0] < enough else 0.0
        rare = active < drawing.RAREST
        if self._examined and rare.any():
            where = f"of series of {counted(setting.time, 'step')} and {counted(channels, 'channel')}"
            default = drawing.complete(setting.time, channels, None, None, None, longest)
            raise SettingError(f"{setting} fix step {rare.argmax()} {where} (almost) always: try {default}.")
        samples = self.n_samples or FIRST
        turns = float(active[0]) * samples
        if self._examined and setting.single and round(turns, 6) < 1:
            enough = math.ceil(round(samples / turns, 3))
            few = f"leaves a single cell active in {turns:.2g} of {samples} samples"
            less = f"use {arg:method.n_samples={enough}} at least, or a smaller held"
            raise SettingError(f"{arg:method.held={setting.held:g}} {few}: {less}.")
        return replace(setting, anchored=share)

    def draw(
        self, stream: Tensor, sampler: drawing.SegmentSampler, observed: Tensor, stage: int = 0
    ) -> drawing.MaskSample:
        """Draw the masks of a block of series in a stage."""
        stages = self.schedule.stages
        here = split(stream, FAR - stage) if stage > 0 else stream  # no point has that number
        if self.anchored != 0 and sampler.most:
            drawn = drawing.draw_masks(here, sampler, observed, stages[stage])
        else:
            streams = fold_in(here, stages[stage])
            anchors, unseen = torch.full_like(streams[0], -1), torch.zeros((), dtype=torch.bool)
            drawn = drawing.MaskSample(
                self._sample_masks(streams, sampler), None, anchors, streams, anchors, unseen
            )
        if not sampler.free:
            return drawn
        if self.anchored == 0:
            cells = drawing.independent_cells(drawn.streams, sampler)
        else:
            cells = drawing.balanced_cells(stream, sampler, stages[stage], sum(stages[:stage]))
        return drawn._replace(masks=torch.where(sampler.single[:, None, None, None], cells, drawn.masks))

    def _sample_masks(self, streams: Tensor, sampler: drawing.SegmentSampler) -> Tensor:
        """Draw independent masks, True where a cell moves, (series, points, time, channel)."""
        return drawing.sample_masks(streams, sampler)

    def _positions(self, points: int, like: Tensor) -> Tensor:
        """Return where points lie on the path, (points,), from 0 at the baseline to 1 at the series."""
        return integration.midpoints(points, like)

    def masked_path(self, block: Block, drawn: drawing.MaskSample, stage: int = 0) -> integration.GradientPath:
        """Return the paths that masks leave, from the baseline or each from a background series of its own."""
        points, background = drawn.masks.shape[1], block.background
        alpha, mean_step = self._positions(points, block.x), None
        scale = block.x - block.baseline if background is None else background.displacement(block)
        starts = None if background is None else background.starts(block, points, stage)
        if background is not None:
            mean_step = integration.in_units(background.mean_step(block)[:, None], scale)[:, 0]

        def at(batch: slice) -> integration.Points:
            active = drawn.masks[:, batch].view(torch.uint8)
            if starts is not None or not active.is_cuda:
                active = active.to(block.x.dtype)  # products are faster on a CPU than from bytes
            weight = None if drawn.weights is None else drawn.weights[:, batch]
            moved = scale[:, None] if starts is None else block.x[:, None] - starts(batch)
            back = active * (alpha[batch, None, None] - 1)  # how far towards the start, 0 where a cell is fixed
            z = torch.addcmul(block.x[:, None], back, moved, out=back)  # in memory that is there
            step = None if starts is None else integration.in_units(moved, scale)
            return integration.Points(z, weight, active, step, mean_step, alpha[batch])

        start = block.baseline if background is None else None
        straight = background is None and 0 in (self.segments, self.held)
        return integration.GradientPath(scale, at, start=start, straight=straight, controlled=self.controlled)


class _RegionDraw(NamedTuple):
    """Draws the masks of the series, or of one region of several inputs."""

    explainer: Timing
    seed: int
    number: int
    region: Region | None
    by_length: dict[int, drawing.SegmentSettings]
    table: drawing.SegmentSampler

    @classmethod
    def of(cls, explainer: Timing, ask: Ask, number: int, region: Region | None) -> "_RegionDraw":
        """Complete the setting of a region for every length: single cells of static values in any case."""
        x, mask, lengths = ask.x, ask.mask, ask.lengths
        if region is not None:
            if region.is_static:
                count = 0 if explainer.segments == 0 else None
                explainer = replace(explainer, segments=count, min_length=None, max_length=None)
            x, mask = region.of(x), None if mask is None else region.of(mask)
            lengths = validation.lengths(mask, x)
        each = sorted(set(lengths.tolist()))
        by_length = {length: explainer.segment_settings(length, x.shape[2], x.shape[1]) for length in each}
        table = drawing.SegmentSampler.table(by_length, x, ask.device, ask.dtype)
        return cls(explainer, ask.seed, number, region, by_length, table)

    def sample(self, block: Block, stage: int) -> drawing.MaskSample:
        """Draw the masks of a block; the first region has those that a model of it alone would have."""
        stream = keys(self.seed, block.ids, Stream.SEGMENTS)
        if self.number > 0:
            stream = split(stream, FAR - REGIONS - self.number)
        return self.explainer.draw(stream, *self.place(block), stage)

    def place(self, block: Block) -> tuple[drawing.SegmentSampler, Tensor]:
        """Return what draws the region's masks of a block, and which of its cells were observed."""
        if self.region is None:
            return self.table.of(block.lengths), block.observed
        observed = self.region.of(block.observed)
        return self.table.of(validation.lengths(observed, self.region.of(block.x))), observed


def _joined(block: Block, draws: list[_RegionDraw], parts: list[drawing.MaskSample]) -> drawing.MaskSample:
    """Put the masks of all regions together; cells between them are as good as active."""
    if draws[0].region is None:
        return parts[0]
    masks = torch.ones(*parts[0].masks.shape[:2], *block.x.shape[1:], dtype=torch.bool, device=block.x.device)
    weights: Tensor | None = None
    for draw, part in zip(draws, parts, strict=True):
        cast("Region", draw.region).put(masks, part.masks)
        if part.weights is not None:
            weights = part.weights if weights is None else weights * part.weights
    return parts[0]._replace(masks=masks, weights=weights)


@lru_cache(maxsize=8)
def _small_draw(
    explainer: Timing, setting: drawing.SegmentSettings, ids: tuple[int, ...], seed: int, where: _Place
) -> drawing.MaskSample:
    """Draw the masks of a few series and keep them.

    Draws depend on the ids and not on the values, and most who explain one series at a time use the same id.
    """
    return draw_whole(explainer, setting, torch.tensor(ids, device=where[0]), seed, where[1])


def draw_whole(
    explainer: Timing, setting: drawing.SegmentSettings, ids: Tensor, seed: int, dtype: torch.dtype, stage: int = 0
) -> drawing.MaskSample:
    """Draw the masks of series that are observed in every cell; in the first stage each moves at least once."""
    observed = torch.ones(len(ids), setting.time, setting.channels, dtype=torch.bool, device=ids.device)
    table = drawing.SegmentSampler.table({setting.time: setting}, observed, ids.device, dtype)
    sampler = table.of(torch.full_like(ids, setting.time))
    drawn = explainer.draw(keys(seed, ids, Stream.SEGMENTS), sampler, observed, stage)
    return drawing.cover_all_cells(drawn, sampler, observed) if stage == 0 and drawn.unseen else drawn
