"""The gradient of the explained score at path points, from the model or from a recording of it."""

from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.engine.differentiate import NO_GRAPH, differentiate, own_steps, require_graph
from tempograd.engine.passes import played
from tempograd.engine.prediction import raw
from tempograd.engine.question import Block, Question
from tempograd.errors import ModelError


class Gradients(NamedTuple):
    """What a pass over path points told."""

    gradient: Tensor  # (series, points, time, channel)
    score: Tensor  # (series, points); for ``steps="own"`` that of each step, (series, points, time)
    first: Tensor | None  # (series, …): score where the paths start, if it was asked for and just read
    block: Block  # its target now known


def gradients(question: Question, z: Tensor, block: Block, start: Tensor | None = None) -> Gradients:
    """Differentiate the explained score.

    Parameters
    ----------
    question : Question
    z : Tensor of shape (series, points, time, channel)
    block : Block
        If its target is not known yet, the clean series are read in the same pass.
    start : Tensor of shape (series, time, channel), optional
        Read with the clean series.
    """
    series, points = z.shape[:2]
    known = _played(question, z, block, start)
    if known is not None:
        return known
    flat = z.flatten(0, 1).requires_grad_()
    first: Tensor | None = None
    if block.target is None:
        extra = [block.x] if start is None else [block.x, start]
        answer = question.call(torch.cat([*extra, flat]))
        block, first = _read_both(question, block, answer[: series * len(extra)])
        answer = answer[series * len(extra) :]
    else:
        answer = raw(question.model, flat)
    score = question.score(question.linked(answer), block, points)
    require_graph(score)
    here = score.detach().view(series, points, *score.shape[1:])
    if isinstance(block.steps, str):
        return Gradients(own_steps(score, flat).view_as(z), here, first, block)
    gradient = differentiate(score.sum(), flat)
    if gradient is None:  # it reached the weights of the model, and not the series
        raise ModelError(NO_GRAPH)
    return Gradients(gradient.reshape(z.shape), here, first, block)


def _played(question: Question, z: Tensor, block: Block, start: Tensor | None) -> Gradients | None:
    """Do the same with the recording of an earlier pass, where there is one."""
    if not z.is_cuda or question.asked_steps is not None or block.steps is not None:
        return None
    target, clean = block.target, None
    if target is None:
        target = _plain_target(question, block.rows)
        clean = block.x if start is None else torch.cat([block.x, start])
    chosen = target if isinstance(target, Tensor) else None
    if chosen is None and (clean is None or question.asked_target is not None):
        return None
    found = played(question.model, question.output, z, clean, chosen)
    if found is None:
        return None
    answer, score, gradient = found
    if answer is None:
        return Gradients(gradient, score, None, block)
    block, first = _read_both(question, block, answer)
    return Gradients(gradient, score, first, block)


def _read_both(question: Question, block: Block, answer: Tensor) -> tuple[Block, Tensor | None]:
    """Take the answers to the clean series and, if they were asked for, to where the paths start."""
    series = len(block.x)
    block = question.read(block, answer[:series])
    if len(answer) == series:
        return block, None
    return block, question.score(question.linked(answer[series:].detach()), block, 1)


def _plain_target(question: Question, rows: slice) -> Tensor | None:
    """Return the asked classes before the model answered, if nothing but their range is left to be checked."""
    asked = question.asked_target
    if type(asked) is int and asked >= 0:
        return torch.full((rows.stop - rows.start,), asked, device=question.device)
    if not isinstance(asked, Tensor) or asked.dtype != torch.int64 or asked.shape != question.ids.shape:
        return None
    return None if bool((asked < 0).any()) else asked[rows].to(question.device)
