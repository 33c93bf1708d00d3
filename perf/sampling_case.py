"""One model, one data set, one setting, several seeds at once: what the samplers under study draw from."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograd.core.question import Question
from tempograd.core.rng import Stream, keys
from tempograd.engine import Ask, Block, compute_gradients, frozen
from tempograd.explainers import Timing
from tempograd.sampling.segments import SegmentSampler


class Points(NamedTuple):
    """Path points of all series: masks, positions, weights, and what the model said there."""

    masks: Tensor  # (rows, points, time, channel), True where a cell moves
    alpha: Tensor  # (rows, points), 1 at the input
    weight: Tensor  # (rows, points)
    effect: Tensor  # like masks: (x - baseline) · gradient
    score: Tensor  # (rows, points)
    anchors: Tensor | None = None
    whole: Tensor | None = None  # (rows, points): the score at the far end of each path, where it was paid for


@dataclass
class Case:
    """Every series once per seed, on the model's device, its target known."""

    ask: Ask
    block: Block
    sampler: SegmentSampler
    stream: Tensor  # (2, rows)
    clean: Tensor  # (rows,): score of the series
    limit: int  # sequences per pass

    @property
    def rows(self) -> int:
        return len(self.block.x)

    @property
    def free(self) -> Tensor:
        """Probability that a cell moves, (rows, time, 1)."""
        return self.sampler.p_active[..., None]

    def differentiate(
        self, masks: Tensor, alpha: Tensor, weight: Tensor | None = None, anchors: Tensor | None = None
    ) -> Points:
        """One pass with gradient for every point."""
        x, difference = self.block.x, self.block.x - self.block.baseline
        effects, scores = [], []
        for batch in torch.arange(masks.shape[1], device=x.device).split(max(1, self.limit // self.rows)):
            back = masks[:, batch] * (alpha[:, batch, None, None] - 1)
            z = torch.addcmul(x[:, None], back, difference[:, None])
            ((gradient, score, _, _),) = compute_gradients([self.ask], z, [self.block])
            effects.append(gradient * difference[:, None])
            scores.append(score)
        weight = torch.ones_like(alpha) if weight is None else weight
        return Points(masks, alpha, weight, torch.cat(effects, 1), torch.cat(scores, 1), anchors)

    def far_end(self, masks: Tensor) -> Tensor:
        """One forward pass for every mask: the score where all that moves is at its baseline."""
        x, difference = self.block.x, self.block.x - self.block.baseline
        parts = masks.split(max(1, self.limit // self.rows), 1)
        return torch.cat(
            [self.ask.scores(x[:, None] - part * difference[:, None], self.block) for part in parts], 1
        )


@contextmanager
def case(
    model: nn.Module,
    x: Tensor,
    mask: Tensor | None,
    setting: tuple[int | None, ...],
    seeds: range,
    limit: int,
    **call,
) -> Iterator[Case]:
    """Prepare a case; ``setting`` is segments, min_length and max_length."""
    repeats = len(seeds)
    with frozen(model):
        ask = Ask.create(model, x, Question(**call), mask=mask)
        block = ask.with_target(ask.block(slice(0, len(x))))
        clean = ask.scores(block.x[:, None], block)[:, 0]
        explainer = Timing(50, None, *setting, anchored=0.5)
        time, channels = x.shape[1:]
        by_length = {
            length: explainer.segment_settings(length, channels, time)
            for length in sorted(set(ask.lengths.tolist()))
        }
        table = SegmentSampler.table(by_length, ask.x, ask.device, torch.float32)
        sampler = table.of(block.lengths.repeat(repeats))
        stream = torch.cat([keys(seed, block.ids, Stream.SEGMENTS) for seed in seeds], 1)
        wide = {
            name: part.repeat(repeats, *[1] * (part.ndim - 1))
            for name, part in block._asdict().items()
            if isinstance(part, Tensor)
        }
        yield Case(ask, block._replace(**wide), sampler, stream, clean.repeat(repeats), limit)
