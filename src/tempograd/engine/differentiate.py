"""Gradients of a score with respect to a series, and one sentence where there is none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from tempograd.errors import ModelError


def require_graph(score: Tensor) -> None:
    """Refuse a score that autograd cannot follow back to anything."""
    if not score.requires_grad:
        raise ModelError(
            "The model's output does not depend on its input in a way autograd can see: it may run under "
            "no_grad, detach its input or leave PyTorch; use a method that needs no gradient."
        )


def differentiate(score: Tensor, z: Tensor, *, again: bool = False) -> Tensor | None:
    """Return the gradient, None if the score does not depend on ``z``; ``again`` keeps the graph."""
    with _one_sentence():
        return torch.autograd.grad(score, z, retain_graph=again, allow_unused=True)[0]


def differentiate_each(score: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient with respect to each of several inputs, zeros where the score ignores one."""
    with _one_sentence():
        return list(torch.autograd.grad(score, inputs, allow_unused=True, materialize_grads=True))


def accumulate(loss: Tensor, leaves: Sequence[Tensor]) -> None:
    """Add the gradient of a loss to the ``grad`` of the given leaves, and of no other tensor."""
    with _one_sentence():
        torch.autograd.backward(loss, inputs=leaves)


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "RNN backward can only be called in training mode" not in str(error):
            raise
        raise ModelError(
            "cuDNN cannot differentiate the recurrent layer inside this function: pass the nn.Module itself, or a "
            "method of it, so that its layers can be prepared."
        ) from error


def own_steps(score: Tensor, z: Tensor) -> Tensor:
    """Each cell's effect on the score of its own step: one backward pass per step."""
    own = torch.zeros_like(z)
    for t in range(z.shape[1]):
        gradient = differentiate(score[:, t].sum(), z, again=True)
        if gradient is not None:
            own[:, t] = gradient[:, t]
    return own
