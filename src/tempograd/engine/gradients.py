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
    beside: Tensor | None  # (series, rows, …): scores of what was read beside the points
    block: Block  # its target now known


def gradients(question: Question, z: Tensor, block: Block, beside: Tensor | None = None) -> Gradients:
    """Differentiate the explained score.

    Parameters
    ----------
    question : Question
    z : Tensor of shape (series, points, time, channel)
    block : Block
        If its target is not known yet, the clean series are read in the same pass.
    beside : Tensor of shape (series, rows, time, channel), optional
        What else is read in the same pass, without a gradient.
    """
    series, points = z.shape[:2]
    known = _played(question, z, block, beside)
    if known is not None:
        return known
    flat = z.flatten(0, 1).requires_grad_()
    read: Tensor | None = None
    extra = _extra(block, beside)
    if extra is not None:
        answer = question.call(torch.cat([extra, flat]))
        block, read = _read_both(question, block, answer[: len(extra)])
        answer = answer[len(extra) :]
    else:
        answer = raw(question.model, flat)
    score = question.score(question.linked(answer), block, points)
    require_graph(score)
    here = score.detach().view(series, points, *score.shape[1:])
    if isinstance(block.steps, str):
        return Gradients(own_steps(score, flat).view_as(z), here, read, block)
    gradient = differentiate(score.sum(), flat)
    if gradient is None:  # it reached the weights of the model, and not the series
        raise ModelError(NO_GRAPH)
    return Gradients(gradient.reshape(z.shape), here, read, block)


def _extra(block: Block, beside: Tensor | None) -> Tensor | None:
    """Return what is read beside the path points: the clean series if nobody has, and behind them the rest."""
    rows = [block.x] if block.target is None else []
    rows += [] if beside is None else [beside.flatten(0, 1)]
    return torch.cat(rows) if rows else None


def _played(question: Question, z: Tensor, block: Block, beside: Tensor | None) -> Gradients | None:
    """Do the same with the recording of an earlier pass, where there is one."""
    if not z.is_cuda or question.asked_steps is not None or block.steps is not None:
        return None
    target = block.target
    if target is None:
        target = _plain_target(question, block.rows)
    chosen = target if isinstance(target, Tensor) else None
    if chosen is None and (block.target is not None or question.asked_target is not None):
        return None
    found = played(question.model, question.output, z, _extra(block, beside), chosen)
    if found is None:
        return None
    answer, score, gradient = found
    if answer is None:
        return Gradients(gradient, score, None, block)
    block, read = _read_both(question, block, answer)
    return Gradients(gradient, score, read, block)


def _read_both(question: Question, block: Block, answer: Tensor) -> tuple[Block, Tensor | None]:
    """Take the answers to the clean series, if their target is not known yet, and to what was read with them."""
    series = len(block.x)
    if block.target is None:
        block = question.read(block, answer[:series])
        answer = answer[series:]
    if len(answer) == 0:
        return block, None
    rows = len(answer) // series
    score = question.score(question.linked(answer.detach()), block, rows)
    return block, score.view(series, rows, *score.shape[1:])


def _plain_target(question: Question, rows: slice) -> Tensor | None:
    """Return the asked classes before the model answered, if nothing but their range is left to be checked."""
    asked = question.asked_target
    if type(asked) is int and asked >= 0:
        return torch.full((rows.stop - rows.start,), asked, device=question.device)
    if not isinstance(asked, Tensor) or asked.dtype != torch.int64 or asked.shape != question.ids.shape:
        return None
    return None if bool((asked < 0).any()) else asked[rows].to(question.device)
