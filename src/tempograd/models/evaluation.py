"""Running a model as it will be used: evaluation mode, no gradients, batch by batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.data.base import Split
from tempograd.errors import InputError
from tempograd.models.outputs import numbers_of

BATCH = 256


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Run the block with ``model`` in evaluation mode and put every submodule back as it was."""
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:  # exported modules have no eval() to call
        module.training = False
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def place(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the floating-point type that a model expects its input in."""
    for tensor in chain(model.parameters(), model.buffers()):
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """Share of right predictions: over the series, or over all steps where every step has a label.

    Examples
    --------
    >>> always_one = nn.Sequential(nn.Flatten(), nn.Linear(8, 2))
    >>> with torch.no_grad():
    ...     _ = always_one[1].weight.zero_(), always_one[1].bias.copy_(torch.tensor([0.0, 1.0]))
    >>> accuracy(always_one, Split(torch.randn(4, 4, 2), torch.tensor([1, 1, 0, 1])))
    0.75
    """
    with evaluation_mode(model):
        right = sum(int((logits.argmax(-1) == y).sum()) for logits, y in _predictions(model, split))
    return right / split.y.numel()


@torch.no_grad()
def mean_loss(model: nn.Module, split: Split) -> float:
    """Mean cross-entropy, over the series or over all steps where every step has a label."""
    with evaluation_mode(model):
        total = sum(float(cross_entropy(logits, y, "sum")) for logits, y in _predictions(model, split))
    return total / split.y.numel()


@torch.no_grad()
def predictions(model: nn.Module, split: Split) -> tuple[Tensor, Tensor]:
    """Return logits (M, C) and labels (M,) on the CPU, of all series or of all their steps."""
    with evaluation_mode(model):
        parts = [(logits.flatten(0, -2).cpu(), y.flatten().cpu()) for logits, y in _predictions(model, split)]
    return torch.cat([logits for logits, _ in parts]), torch.cat([y for _, y in parts])


def cross_entropy(logits: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits (…, C) and labels (…)."""
    return functional.cross_entropy(one_per_class(logits, y).flatten(0, -2), y.flatten(), reduction=reduction)


def one_per_class(logits: Tensor, y: Tensor) -> Tensor:
    """Return logits (…, C) for labels (…): a single logit l, with or without an axis of its own, means (0, l).

    Examples
    --------
    >>> one_per_class(torch.tensor([2.0, -1.0]), torch.tensor([1, 1]))
    tensor([[ 0.,  2.],
            [ 0., -1.]])
    """
    logits = logits[..., None] if logits.ndim == y.ndim else logits
    return torch.cat([torch.zeros_like(logits), logits], -1) if logits.shape[-1] == 1 else logits


def _predictions(model: nn.Module, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
    if not len(split):
        raise InputError("There is no series to predict: the split is empty.")
    if split.y.is_floating_point():
        raise InputError(f"y must hold classes here, got {split.y.dtype}: values of a regression have no classes.")
    device, dtype = place(model)
    for x, y in zip(torch.split(split.x, BATCH), torch.split(split.y, BATCH), strict=True):
        z = x.to(device, dtype)
        yield one_per_class(numbers_of(model(z), z), y), y.to(device)
