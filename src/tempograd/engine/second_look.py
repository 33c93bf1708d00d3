"""A few series asked once more: whether the answer is the same, how the model ends, what its layers receive.

A module that gave no reason for doubt is not asked again for series of the same size, as long as its attributes
and the addresses of its tensors are what they were.
"""

import weakref
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tempograd.engine.modules import Model, is_compiled, owner
from tempograd.engine.prediction import raw
from tempograd.engine.realisation import random_state
from tempograd.engine.replay import UnrecordableError, plain_state
from tempograd.engine.touched import Touch, across, watching

FEW = 4  # series that are asked again
ROUNDED = 100  # times the precision of a number: what another batch may change
COARSE = 0.05  # what it may change where a model multiplies in half precision
VIEWS = {"View", "UnsafeView", "Squeeze", "Unsqueeze", "Select", "Slice", "Transpose", "Permute", "Clone", "Alias"}
VIEWS |= {"ReshapeAlias", "ToCopy", "Cat", "Stack", "Expand", "T", "Split", "Unbind", "Index"}
SIGMOIDS = ("Sigmoid", "Hardsigmoid")
KEPT = 8  # sizes and states per module

_trusted: "weakref.WeakKeyDictionary[nn.Module, list[Hashable]]" = weakref.WeakKeyDictionary()


class SecondLook(NamedTuple):
    """What a second pass over a few series told."""

    x: Tensor  # the series
    answer: Tensor  # raw
    sigmoid: bool  # whether the model ends with a sigmoid
    touched: list[Touch]
    drew: bool  # whether random numbers were drawn


def second_look(model: Model, x: Tensor) -> SecondLook | None:
    """Ask about series again; None if the model fails there, which is no reason to fail."""
    z, state = x[:FEW].detach(), random_state(model)
    noting = _unseen if is_compiled(model) else watching  # a hook would be compiled as well
    for differentiable in (True, False):  # a model that leaves torch can be asked without a gradient only
        try:
            with torch.set_grad_enabled(differentiable), noting(z.numel()) as touched:
                answer = raw(model, z.clone().requires_grad_(differentiable).clone())
        except Exception:  # no look is no harm
            continue
        return SecondLook(z, answer.detach(), _sigmoid(answer), touched, random_state(model) != state)
    return None


def trusted(model: Model, x: Tensor) -> bool:
    """Tell whether a module was looked at for series of this size, and gave no reason for doubt."""
    module, key = owner(model), _key(model, x)
    return module is not None and key is not None and key in _trusted.get(module, ())


def trust(model: Model, look: SecondLook) -> None:
    """Remember a module that gives the same answers again, ends in no sigmoid and reads the axes as they are."""
    module, key = owner(model), _key(model, look.x)
    if module is None or key is None or look.drew or look.sigmoid or across(look.touched, look.x) is not None:
        return
    _trusted[module] = [*_trusted.get(module, ()), key][-KEPT:]


def _key(model: Model, x: Tensor) -> Hashable:
    """Return what decides how a module treats series; None for what cannot be told."""
    module = owner(model)
    if module is None:
        return None
    try:
        key = plain_state(module), getattr(model, "__func__", None), x.shape[1:], x.dtype, x.device
        hash(key)
    except (UnrecordableError, TypeError):
        return None
    return key


def _unseen(_: int) -> AbstractContextManager[list[Touch]]:
    return nullcontext([])


def _sigmoid(answer: Tensor) -> bool:
    """Tell whether all that an answer was put together from are sigmoids, as far as autograd wrote it down."""
    ends = set(_ends(answer.grad_fn, 20))
    return bool(ends) and ends <= set(SIGMOIDS)


def _ends(node: Any, depth: int) -> Iterator[str]:
    name = type(node).__name__.split("Backward", maxsplit=1)[0]
    if node is None or depth == 0 or name not in VIEWS:
        yield name
        return
    for following, _ in node.next_functions:
        yield from _ends(following, depth - 1)


def answers_differ(model: Model, first: Tensor, look: SecondLook) -> bool:
    """Tell whether the model answers the same series differently: it draws, or remembers.

    Only what rounding in another batch cannot explain counts; if in doubt, it is asked twice under the same
    circumstances. A model that draws and still answers the same seeds itself: then a series is asked about at two
    places of a batch, which may meet other numbers.

    Parameters
    ----------
    model : Model
    first : Tensor of shape (series, …)
        Its first answers, the same series among them.
    look : SecondLook
    """
    count = min(len(first), len(look.answer))
    again = look.answer[:count].cpu()
    gap, size = _gap(first[:count].to(again), again), _size(again)
    same = not gap > ROUNDED * _precision(again) * size
    if same and not look.drew:
        return False
    try:
        with torch.no_grad():
            twice = raw(model, torch.cat([look.x, look.x])) if same else raw(model, look.x)
            other = twice[len(look.x) :] if same else raw(model, look.x)
    except Exception:  # no look is no harm
        return False
    if same:
        return _gap(twice[: len(look.x)], other) > ROUNDED * _precision(other) * size
    return _gap(twice, other) > ROUNDED * _precision(other) * size or gap > COARSE * size


def asked_twice(model: Model, x: Tensor) -> tuple[Tensor, bool] | None:
    """Return the answers to a few series, and whether the model answers otherwise when it is asked again."""
    with torch.no_grad():
        try:
            first = raw(model, x[:FEW].clone())
        except Exception:  # no look is no harm
            return None
        look = second_look(model, x)
    return None if look is None else (first, answers_differ(model, first.cpu(), look))


def _gap(first: Tensor, second: Tensor) -> float:
    if first.shape != second.shape:  # a forecast of random length
        return torch.inf
    gap = (first.double() - second.double()).abs()
    return float(gap.amax()) if gap.numel() else 0.0


def _size(answer: Tensor) -> float:
    return float(answer.double().abs().amax()) if answer.numel() else 0.0


def _precision(answer: Tensor) -> float:
    return min(torch.finfo(answer.dtype).eps, 1e-4) if answer.is_floating_point() else 0.0
