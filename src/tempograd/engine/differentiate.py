"""Gradients of a score with respect to a series, and one sentence where there is none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from tempograd.errors import ModelError

NO_GRAPH = (
    "The model's output does not depend on its input in a way autograd can see: it may run under no_grad, detach "
    "its input, turn it into tokens or leave PyTorch; use a method that needs no gradient, such as occlusion."
)


def require_graph(score: Tensor) -> None:
    """Refuse a score that autograd cannot follow back to anything."""
    if not score.requires_grad:
        raise ModelError(NO_GRAPH)


def require_path(score: Tensor, z: Tensor) -> None:
    """Refuse a score that autograd cannot follow back to ``z``, though perhaps to the weights of a model."""
    require_graph(score)
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
    with _one_sentence():
        return torch.autograd.grad(score, z, retain_graph=again, allow_unused=True)[0]


def differentiate_each(score: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient with respect to each of several inputs, zeros where it ignores one but not all."""
    with _one_sentence():
        found = torch.autograd.grad(score, inputs, allow_unused=True)
    if all(gradient is None for gradient in found):
        raise ModelError(NO_GRAPH)
    pairs = zip(found, inputs, strict=True)
    return [torch.zeros_like(part) if gradient is None else gradient for gradient, part in pairs]


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
            "cuDNN cannot differentiate a recurrent layer of this model, which could not be prepared: pass the "
            "nn.Module itself, or tempograd.wrap(module, call=function)."
        ) from error


def own_steps(score: Tensor, z: Tensor) -> Tensor:
    """Each cell's effect on the score of its own step: one backward pass per step."""
    own = torch.zeros_like(z)
    unseen = 0
    for t in range(z.shape[1]):
        gradient = differentiate(score[:, t].sum(), z, again=True)
        if gradient is None:
            unseen += 1
        else:
            own[:, t] = gradient[:, t]
    if unseen == z.shape[1]:
        raise ModelError(NO_GRAPH)
    return own
