"""Gradients of the explained score with respect to a series, from the model or from a captured CUDA graph."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.core.errors import ModelError
from tempograd.engine.ask import Ask, Block, Reading
from tempograd.engine.cuda import CELLS, Tensors, run_captured
from tempograd.engine.model import NO_GRAPH, Model, NotCapturableError
from tempograd.engine.outputs import by_class, class_count, default_class, findings, outputs_of, select_target
from tempograd.engine.predictor import forward

APART = 32  # rows of which scores alone are read: from here on cheaper in a pass of their own, without a way back


class Gradients(NamedTuple):
    """What a pass over path points told."""

    gradient: Tensor  # (series, points, time, channel)
    score: Tensor  # (series, points); for ``steps="own"`` that of each step, (series, points, time)
    beside: Tensor | None  # (series, rows, …): scores of what was read beside the points
    block: Block  # its target now known


def compute_gradients(
    asks: Sequence[Ask], z: Tensor, blocks: Sequence[Block], beside: Tensor | None = None
) -> Iterator[Gradients]:
    """Differentiate the explained score at ``z``, (series, points, time, channel), for each of some targets.

    There is one forward pass, and a backward pass for each target. If the target of the blocks is not known yet,
    the clean series are read in the same pass, and so is ``beside``, (series, rows, time, channel), without a
    gradient. The graph stays until the last gradient was taken, and none is kept here.
    """
    series, points = z.shape[:2]
    x, index = blocks[0].x, blocks[0].index
    clean, others = len(x) if blocks[0].target is None else 0, x[:0] if beside is None else beside.flatten(0, 1)
    extra = first = torch.cat([x[:clean], others])
    captured = _captured_gradients(asks[0], z, blocks[0], extra) if len(asks) == 1 and z.is_cuda else None
    if captured is not None:
        yield captured
        return
    flat, rows = z.flatten(0, 1).requires_grad_(), index.repeat_interleave(points)
    extra_rows = torch.cat([index[:clean], index.repeat_interleave(len(others) // len(x))])
    if 0 < len(extra) < APART or (len(extra) and z.is_cuda and z.numel() <= CELLS):
        raw = asks[0].forward(torch.cat([extra, flat]), torch.cat([extra_rows, rows]))
        first, raw = raw[: len(extra)], raw[len(extra) :]
    else:
        if len(extra):
            with torch.no_grad():
                first = asks[0].forward(extra, extra_rows)
        raw = asks[0].forward(flat, rows)
    for place, (ask, block) in enumerate(zip(asks, blocks, strict=True), 1):
        known, read = ask.read(block, first[:clean]) if clean else block, None
        if beside is not None:
            read = ask.score(ask.apply_link(first[clean:].detach()), known, beside.shape[1], others)
            read = read.view(*beside.shape[:2], *read.shape[1:])
        score = ask.score(ask.apply_link(raw), known, points, flat)
        if not score.requires_grad:
            raise ModelError(NO_GRAPH)
        here = score.detach().view(series, points, *score.shape[1:])
        if isinstance(known.steps, str):
            gradient = own_steps(score, flat)
        else:
            gradient = torch.autograd.grad(score.sum(), flat, retain_graph=place < len(asks), allow_unused=True)[0]
        if gradient is None:  # it reached the weights of the model, and not the series
            raise ModelError(NO_GRAPH)
        # recurrent layers give it step by step: laid out once, where all that reads it is not fast in any order
        gradient = gradient.reshape(z.shape)
        yield Gradients(gradient if z.is_cuda else gradient.contiguous(), here, read, known)


def _captured_gradients(ask: Ask, z: Tensor, block: Block, extra: Tensor) -> Gradients | None:
    """Do the same with the captured graph of an earlier pass: only the plainest pass has one.

    That is one output per series, and a target that is known or is the predicted class.
    """
    if z.numel() > CELLS or ask.question.steps is not None or block.steps is not None or ask.call.by_row:
        return None
    reads = block.target is None
    requested = ask.question.target if reads else block.target
    chosen = None  # known before the model ran, but for its range
    if isinstance(requested, Tensor) and not reads:
        chosen = requested
    elif type(requested) is int and requested >= 0:
        chosen = torch.full((len(block.x),), requested, device=ask.device)
    elif isinstance(requested, Tensor) and requested.dtype == torch.int64 and requested.shape == ask.ids.shape:
        chosen = None if bool((requested < 0).any()) else requested[block.rows].to(ask.device)
    if chosen is None and not (reads and requested is None):
        return None
    row = outputs_of(ask.task)
    if row.per_step or (chosen is None and callable(row.target)):  # a score of all outputs
        return None
    points, clean = z.shape[1], len(extra) > 0
    work = _gradient_pass(ask.model, ask.output, points, clean=clean, reads=reads)
    inputs = (z.flatten(0, 1), *([extra] if clean else []), *([] if chosen is None else [chosen]))
    outputs = run_captured(ask.model, (ask.output, points, not clean, chosen is None, reads), work, inputs)
    if outputs is None:
        return None
    raw, seen, target, all_scores, gradient = outputs
    scores, score = all_scores[: len(raw)], all_scores[len(raw) :].view(z.shape[:2])
    if reads:
        series = len(block.x)
        block = ask.read(block, raw[:series], Reading(seen, target, scores[:series]))
        scores = scores[series:]
    read = scores.view(len(block.x), -1) if len(scores) else None
    return Gradients(gradient.view(z.shape), score, read, block)


def _gradient_pass(
    model: Model, output: str, points: int, *, clean: bool, reads: bool = True
) -> Callable[..., Tensors]:
    """Return the work to capture: of points, rows that are read too, and a target, cut where out of range.

    Whoever asks a target must refuse one that is out of range when the output is there. If this ``reads`` the
    clean series, they are the first of the rows. Returned are the outputs of all rows, the findings of the first
    of them, the target, the scores of the rows and of the points, and the gradient.
    """

    def work(z: Tensor, *given: Tensor) -> Tensors:
        z = z.detach().requires_grad_()
        raw = forward(model, torch.cat([given[0], z]) if clean else z)
        if raw.ndim != 2 or not raw.requires_grad:
            raise NotCapturableError
        rows, series = len(raw) - len(z), len(z) // points
        first = raw[:rows].detach()
        if len(given) > clean:
            target = given[-1].clamp(max=class_count(raw.shape[1], output) - 1)
        else:
            target = default_class(first[:series], output)
        counts = (series * reads, rows - series * reads, len(z))
        targets = [target.repeat_interleave(count // series) for count in counts if count]
        score = select_target(by_class(raw, output), torch.cat(targets))
        gradient = torch.autograd.grad(score[rows:].sum(), z, allow_unused=True)[0]
        if gradient is None:
            raise NotCapturableError
        return first, findings(first[:series] if reads else raw.detach()), target, score.detach(), gradient

    return work


def require_path(score: Tensor, z: Tensor) -> None:
    """Refuse a score that autograd cannot follow back to ``z``, though perhaps to the weights of a model."""
    seen, waiting = set(), [score.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if getattr(node, "variable", None) is z or (z.grad_fn is not None and node == z.grad_fn):
            return
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
    if score is not z:
        raise ModelError(NO_GRAPH)


def own_steps(score: Tensor, z: Tensor) -> Tensor | None:
    """Each cell's effect on the score of its own step: one backward pass per step; None if there is none."""
    own, seen = torch.zeros_like(z), False
    for t in range(z.shape[1]):
        gradient = torch.autograd.grad(score[:, t].sum(), z, retain_graph=True, allow_unused=True)[0]
        if gradient is not None:
            own[:, t], seen = gradient[:, t], True
    return own if seen else None
