"""A recurrent model one step at a time, from states that are remembered instead of computed again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.engine.prediction import raw
from tempograd.engine.quiet import Model, owner

Parts = tuple[Tensor, ...]  # what one recurrent layer remembers: tensors (depth, rows, size), two for an LSTM
State = list[Parts]


class Stepper:
    """Runs one more step of a model whose memory is all in ``nn.GRU``, ``nn.LSTM`` and ``nn.RNN`` layers.

    The model is called with a series of one step while its recurrent layers start from the given states. Whether
    that is the same as a run over the whole prefix depends on the rest of the model (a mean over all steps is
    not), so :func:`stepper` tries it on a few series before anybody relies on it.
    """

    def __init__(self, model: Model, layers: list[nn.RNNBase]) -> None:
        self.model, self.layers = model, layers

    def step(self, z: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return the raw answer (rows, class) to the values ``z`` (rows, channel), and the states after them."""
        return self._step(z, state, {})

    def _step(self, z: Tensor, state: State | None, began: dict[int, Parts]) -> tuple[Tensor, State]:
        after: dict[int, Parts] = {}
        with ExitStack() as stack:
            for i, layer in enumerate(self.layers):
                stack.enter_context(_memory(layer, None if state is None else state[i], began, after, i))
            answer = raw(self.model, z[:, None])
        return (answer[:, -1] if answer.ndim == 3 else answer), [after[i] for i in range(len(self.layers))]

    def walk(self, x: Tensor) -> tuple[Tensor, State]:
        """Return the answers after every step, (rows, time, class), and the states before it.

        The states have a leading axis for time: (time, depth, rows, size). Before the first step they are what
        the model gives its layers, or zeros.
        """
        began: dict[int, Parts] = {}
        answer, state = self._step(x[:, 0], None, began)
        answers, states = [answer], [state]
        for t in range(1, x.shape[1]):
            answer, state = self.step(x[:, t], state)
            answers.append(answer)
            states.append(state)
        zeros = [tuple(torch.zeros_like(part) for part in layer) for layer in states[0]]
        before = [[began.get(i, layer) for i, layer in enumerate(zeros)], *states[:-1]]
        stacked = [
            tuple(torch.stack(parts) for parts in zip(*layers, strict=True))
            for layers in zip(*before, strict=True)
        ]
        return torch.stack(answers, 1), stacked


def stepper(model: Model, x: Tensor, expected: Tensor, times: list[int]) -> Stepper | None:
    """Return a stepper if it gives the answers ``expected`` at ``times``, (series, times, class), else None."""
    module = owner(model)
    layers = [] if module is None else [part for part in module.modules() if isinstance(part, nn.RNNBase)]
    if not layers or any(layer.bidirectional for layer in layers):
        return None
    found = Stepper(model, layers)
    try:
        answers = found.walk(x)[0][:, times]
    except Exception:  # whatever such a model raises about a single step, the plain way remains
        return None
    close = answers.shape == expected.shape and torch.allclose(answers, expected, rtol=1e-3, atol=1e-5)
    return found if close else None


@contextmanager
def _memory(
    layer: nn.RNNBase, before: Parts | None, began: dict[int, Parts], after: dict[int, Parts], index: int
) -> Iterator[None]:
    """Let a layer start from ``before``, if given; note what it started from by itself, and where it ends."""

    def start(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        values = args[0] if args else kwargs["input"]
        given = args[1] if len(args) > 1 else kwargs.get("hx")
        if before is None:
            if given is not None:
                began[index] = _parts(given)
            return args, kwargs
        return (values, before if len(before) > 1 else before[0]), {}

    def end(_: nn.Module, __: Any, result: tuple[Tensor, Any]) -> None:
        after[index] = _parts(result[1])

    handles = (layer.register_forward_pre_hook(start, with_kwargs=True), layer.register_forward_hook(end))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _parts(state: Tensor | Parts) -> Parts:
    return state if isinstance(state, tuple) else (state,)
