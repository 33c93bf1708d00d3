"""TIMING as released."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from tempograd.core.estimate import Estimate
from tempograd.core.question import Question
from tempograd.core.rng import scale
from tempograd.engine import Ask, Block
from tempograd.explainers import Timing
from tempograd.sampling.integration import GradientPath
from tempograd.sampling.segments import MaskSample, SegmentSampler, paint, placement_bits, sample_segments
from tempograd.typing import Output
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import RAW_OUTPUT, Released

EPSILON = torch.finfo(torch.float16).eps
SEGMENTS = {  # segments, min_length, max_length
    "mimic3": (50, 10, 48),
    "pam": (10, 10, 600),
    "boiler": (50, 1, 36),
    "epilepsy": (10, 10, 10),
    "wafer": (5, 10, 152),
    "freezer": (5, 10, 100),
    # The paper does not state these two: the best of the released sweep (perf/published_cells.py).
    "switch_feature": (5, 1, 100),
    "state": (10, 1, 200),
}


@dataclass(frozen=True)
class ReleasedTiming(Released, Timing):
    """TIMING as released.

    A segment never has the last of its possible starts, so the last step is almost never held (A3). A segment
    shorter than the longest of the whole draw also holds step 0 of its channel (A4); here one that is shorter than
    ``max_length``, which the longest of thousands has. 9.77e-4 is added to the count of points where a cell is
    free (A5), and the path has left end-points (A7). On synthetic data the raw output is explained (A6), and
    magnitudes are summed over the explanations of all prefixes of a series (1.4).

    The faults need masks that are drawn independently, ``anchored=0``.
    """

    faults: ClassVar[Mapping[str, str]] = {
        "A3": "a segment never has the last of its possible starts, so the last step is almost never held",
        "A4": "a segment shorter than the longest of the draw (max_length) also holds step 0 of its channel",
        "A5": "9.77e-4 is added to the count of free points",
        **RAW_OUTPUT,
        "A7": "left end-points of the path instead of midpoints",
        "1.4": "magnitudes are summed over the explanations of all prefixes of a series",
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 50 points with the segments of a data set.

        On real data A6 and 1.4 are off.
        """
        cls._check(dataset)
        quirks = frozenset(cls.faults if dataset in SYNTHETIC else {"A3", "A4", "A5", "A7"})
        idle = dict.fromkeys(("tolerance", "max_samples", "stop_when"))
        return cls(50, None, *SEGMENTS[dataset], **idle, anchored=0.0, control_variates=False, quirks=quirks)

    @property
    def controlled(self) -> bool:
        """Return whether scores and positions take noise out of the mean."""
        return super().controlled and not self.quirks

    def attribute(self, ask: Ask) -> list[Estimate]:
        if "1.4" in self.quirks:
            return [self._sum_over_prefixes(one) for one in ask.each()]
        return super().attribute(ask)

    def _sum_over_prefixes(self, ask: Ask) -> Estimate:
        """1.4: explain the last prediction of every prefix and add up the magnitudes.

        The target is the class predicted at the end of each prefix. A sum of magnitudes has no useful error.
        """
        ask.read_all()
        total = torch.zeros(ask.x.shape, device=ask.x.device)
        for end in range(1, ask.x.shape[1] + 1):
            part = Ask.create(
                ask.model,
                ask.x[:, :end],
                Question(
                    output=cast("Output", ask.output),
                    steps=None if ask.resolved.steps is None else end - 1,
                    baseline=ask.baseline[:, :end],
                ),
                mask=None if ask.mask is None else ask.mask[:, :end],
                seed=ask.seed + (end << 32),  # each prefix has its own masks
                ids=ask.ids,
                batch_size=ask.batch_size,
            )
            low, high = (min(length or end, end) for length in (self.min_length, self.max_length))
            short = replace(self, min_length=low, max_length=high, quirks=self.quirks - {"1.4"})
            total[:, :end] += short.attribute(part)[0].values.abs()
        return Estimate(total)

    def _sample_masks(self, streams: Tensor, sampler: SegmentSampler) -> Tensor:
        words = placement_bits(streams, sampler)
        length, channel, start = segments = sample_segments(words, sampler, streams)
        time, high = sampler.time[:, None, None], sampler.high[:, None, None]
        if "A3" in self.quirks:
            start = scale(words[:, :, 1], (time - length).clamp(min=1))
        if "A4" in self.quirks:
            short = (length < high) & (length > 0)
            start, channel = torch.cat([start, torch.zeros_like(start)], 2), torch.cat([channel, channel], 2)
            length = torch.cat([length, short.long()], 2)
        return paint(segments._replace(length=length, channel=channel, start=start), sampler)

    def _positions(self, points: int, like: Tensor) -> Tensor:
        return left_ends(points, like) if "A7" in self.quirks else super()._positions(points, like)

    def masked_path(self, block: Block, drawn: MaskSample, stage: int = 0) -> GradientPath:
        path, count = super().masked_path(block, drawn, stage), drawn.masks.sum(1)
        return path._replace(scale=path.scale * count / (count + EPSILON)) if "A5" in self.quirks else path


def left_ends(points: int, like: Tensor) -> Tensor:
    """Return positions at the beginning of equal parts of the path."""
    return torch.arange(points, device=like.device).to(like.dtype) / points
