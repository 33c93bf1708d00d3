"""The plainest pass of all, one output per series and a known target, in a form that can be recorded."""

from collections.abc import Callable

import torch
from torch import Tensor

from tempograd.engine.differentiate import differentiate
from tempograd.engine.modules import Model
from tempograd.engine.prediction import by_class, class_count, default_class, pick, raw
from tempograd.engine.replay import CELLS, Tensors, UnrecordableError, replay


def played(
    model: Model, output: str, z: Tensor, clean: Tensor | None, target: Tensor | None
) -> tuple[Tensor | None, Tensor, Tensor] | None:
    """Return the answers to the clean rows, the scores and the gradients from a recording; None if there is none.

    Parameters
    ----------
    model : Model
    output : str
    z : Tensor of shape (series, points, time, channel)
    clean : Tensor of shape (series or more, time, channel), optional
        What is answered too: the clean series and, behind them, others.
    target : LongTensor of shape (series,), optional
        By default what the model predicts for the series themselves. One that is out of range is cut, so the
        caller must refuse it when the answer is there.
    """
    if z.numel() > CELLS or not z.is_cuda:
        return None
    points, inputs = z.shape[1], tuple(part for part in (clean, target) if part is not None)
    work = _pass(model, output, points, clean=clean is not None)
    found = replay(model, (output, points, clean is None, target is None), work, (z.flatten(0, 1), *inputs))
    if found is None:
        return None
    answer, score, gradient = found
    return None if clean is None else answer, score.view(z.shape[:2]), gradient.view(z.shape)


def _pass(model: Model, output: str, points: int, *, clean: bool) -> Callable[..., Tensors]:
    def work(z: Tensor, *given: Tensor) -> Tensors:
        z = z.detach().requires_grad_()
        answer = raw(model, torch.cat([given[0], z]) if clean else z)
        if answer.ndim != 2 or not answer.requires_grad:
            raise UnrecordableError
        first, answer = answer.tensor_split([len(answer) - len(z)])
        asked = len(given) > clean
        if asked:
            target = given[-1].clamp(max=class_count(answer.shape[1], output) - 1)
        else:
            target = default_class(first[: len(z) // points].detach(), output)
        score = pick(by_class(answer, output), target.repeat_interleave(points))
        gradient = differentiate(score.sum(), z)
        if gradient is None:
            raise UnrecordableError
        return first.detach(), score.detach(), gradient

    return work
