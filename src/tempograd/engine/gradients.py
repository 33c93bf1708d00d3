"""Gradients of the explained score with respect to a series, from the model or from a captured CUDA graph."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.core.errors import ModelError
from tempograd.engine.ask import Ask, Reading
from tempograd.engine.background import Block
from tempograd.engine.cuda import CELLS, Tensors, run_captured
from tempograd.engine.model import Model, NotCapturableError
from tempograd.engine.outputs import by_class, class_count, default_class, findings, select_target
from tempograd.engine.predictor import forward

NO_GRAPH = (
    "The model's output does not depend on its input in a way autograd can see: it may run under no_grad, detach "
    "its input, turn it into tokens or leave PyTorch; use a method that needs no gradient, such as occlusion."
)

REFUSED = {  # what torch says of a model, and what to do
    "RNN backward can only be called in training mode": (
        "cuDNN cannot differentiate a recurrent layer of this model, which could not be prepared: pass the "
        "nn.Module itself, or tempograd.wrap(module, call=function)."
    ),
    "checkpoint is incompatible with .grad()": (
        "The model calls torch.utils.checkpoint with use_reentrant=True, which gives no gradient of its input: "
        "pass use_reentrant=False there, or use a method that needs no gradient, such as occlusion."
    ),
    "on a tensor that doesn't require gradient": NO_GRAPH,  # by captum's hooks on layers
}
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
    x, index, first = blocks[0].x, blocks[0].index, None
    clean, others = len(x) if blocks[0].target is None else 0, x[:0] if beside is None else beside.flatten(0, 1)
    extra = torch.cat([x[:clean], others])
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
        raw = asks[0].with_axis(forward(asks[0].at(rows), flat))
    for place, (ask, block) in enumerate(zip(asks, blocks, strict=True), 1):
        known, read = (block, None) if first is None else _read_both(ask, block, first, extra)
        score = ask.score(ask.apply_link(raw), known, points, flat)
        if not score.requires_grad:
            raise ModelError(NO_GRAPH)
        here = score.detach().view(series, points, *score.shape[1:])
        if isinstance(known.steps, str):
            yield Gradients(own_steps(score, flat).view_as(z), here, read, known)
            continue
        gradient = differentiate(score.sum(), flat, again=place < len(asks))
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
    target = _plain_target(ask, block.rows) if reads else block.target
    chosen = target if isinstance(target, Tensor) else None
    if chosen is None and not (reads and ask.question.target is None):
        return None
    if ask.task == "per_step" or (chosen is None and ask.task == "forecast"):  # whose mean is explained
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
        gradient = differentiate(score[rows:].sum(), z)
        if gradient is None:
            raise NotCapturableError
        return first, findings(first[:series] if reads else raw.detach()), target, score.detach(), gradient

    return work


def _read_both(ask: Ask, block: Block, raw: Tensor, z: Tensor) -> tuple[Block, Tensor | None]:
    """Take the outputs of the clean series, if their target is not known yet, and of what was read with them."""
    series = len(block.x)
    if block.target is None:
        block = ask.read(block, raw[:series])
        raw, z = raw[series:], z[series:]
    if len(raw) == 0:
        return block, None
    rows = len(raw) // series
    score = ask.score(ask.apply_link(raw.detach()), block, rows, z)
    return block, score.view(series, rows, *score.shape[1:])


def _plain_target(ask: Ask, rows: slice) -> Tensor | None:
    """Return the requested classes before the model ran, if only their range is left to be checked."""
    requested = ask.question.target
    if type(requested) is int and requested >= 0:
        return torch.full((rows.stop - rows.start,), requested, device=ask.device)
    if not isinstance(requested, Tensor) or requested.dtype != torch.int64 or requested.shape != ask.ids.shape:
        return None
    return None if bool((requested < 0).any()) else requested[rows].to(ask.device)


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


def differentiate(score: Tensor, z: Tensor, *, again: bool = False) -> Tensor | None:
    """Return the gradient, None if the score does not depend on ``z``; ``again`` keeps the graph."""
    with one_sentence():
        return torch.autograd.grad(score, z, retain_graph=again, allow_unused=True)[0]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Say what to do where torch refuses to differentiate a model."""
    try:
        yield
    except RuntimeError as error:
        message = next((REFUSED[words] for words in REFUSED if words in str(error)), None)
        if message is None:
            raise
        raise ModelError(message) from error


def own_steps(score: Tensor, z: Tensor) -> Tensor:
    """Each cell's effect on the score of its own step: one backward pass per step."""
    own, seen = torch.zeros_like(z), False
    for t in range(z.shape[1]):
        gradient = differentiate(score[:, t].sum(), z, again=True)
        if gradient is not None:
            own[:, t], seen = gradient[:, t], True
    if not seen:
        raise ModelError(NO_GRAPH)
    return own
