"""A recurrent model one step at a time, from states that are remembered instead of computed again."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.hooks import RemovableHandle

from tempograd.engine.modules import Model, owner
from tempograd.engine.prediction import raw

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

    def step(self, z: Tensor, state: State, candidates: int = 1) -> tuple[Tensor, State]:
        """Go one step on.

        Parameters
        ----------
        z : Tensor of shape (rows · candidates, channel)
            The values of the step.
        state : State
            What the layers remember, for every row; all ``candidates`` of a row go on from the same.
        candidates : int

        Returns
        -------
        answer : Tensor of shape (rows · candidates, class)
            The model's raw answer.
        state : State
            What the layers remember afterwards.
        """
        return self._call(
            z, [_Memory(layer, parts, candidates) for layer, parts in zip(self.layers, state, strict=True)]
        )

    def _call(self, z: Tensor, memories: list["_Memory"]) -> tuple[Tensor, State]:
        with ExitStack() as stack:
            for memory in memories:
                stack.enter_context(memory)
            answer = raw(self.model, z[:, None])
        return (answer[:, -1] if answer.ndim == 3 else answer), [memory.after for memory in memories]

    def answers(self, x: Tensor) -> Tensor:
        """Return the answers after every step, (rows, time, class), and remember nothing."""
        answer, state = self._call(x[:, 0], [_Memory(layer) for layer in self.layers])
        answers = [answer]
        for t in range(1, x.shape[1]):
            answer, state = self.step(x[:, t], state)
            answers.append(answer)
        return torch.stack(answers, 1)

    def walk(self, x: Tensor) -> tuple[Tensor, State]:
        """Return the answers after every step, (rows, time, class), and the states before it.

        The states have a leading axis for time: (time, depth, rows, size). Before the first step they are what
        the model gives its layers, or zeros.
        """
        memories = [_Memory(layer) for layer in self.layers]
        answer, state = self._call(x[:, 0], memories)
        answers, states = [answer], [state]
        for t in range(1, x.shape[1]):
            answer, state = self.step(x[:, t], state)
            answers.append(answer)
            states.append(state)
        before = [[memory.before or _zeros(memory.after) for memory in memories], *states[:-1]]
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


class _Memory:
    """Lets a layer start from given states while the block runs, and notes what it started from and ended with."""

    def __init__(self, layer: nn.RNNBase, before: Parts | None = None, candidates: int = 1) -> None:
        self.layer, self.before, self.candidates = layer, before, candidates
        self.after: Parts = ()

    def __enter__(self) -> None:
        if _is_plain_gru(self.layer) and self.before is not None and self.candidates > 1:
            self.layer.forward = self._forward  # taken back below
            return
        start = self.layer.register_forward_pre_hook(self._start, with_kwargs=True)
        self.handles = (start, self.layer.register_forward_hook(self._end))

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()
        self.layer.__dict__.pop("forward", None)

    handles: tuple[RemovableHandle, ...] = ()

    def _start(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        values = args[0] if args else kwargs["input"]
        if self.before is None:
            given = args[1] if len(args) > 1 else kwargs.get("hx")
            self.before = None if given is None else _parts(given)
            return args, kwargs
        state = tuple(part.repeat_interleave(self.candidates, 1) for part in self.before)
        return (values, state if len(state) > 1 else state[0]), {}

    def _end(self, _: nn.Module, __: Any, result: tuple[Tensor, Any]) -> None:
        self.after = _parts(result[1])

    def _forward(self, values: Tensor, _: Any = None) -> tuple[Tensor, Tensor]:
        """Take the step of a GRU, with what candidates have in common computed once."""
        axis = 1 if self.layer.batch_first else 0
        state = shared_gru_step(self.layer, values.squeeze(axis), (self.before or ())[0][0], self.candidates)
        self.after = (state[None],)
        return state.unsqueeze(axis), state[None]


def shared_gru_step(layer: nn.RNNBase, values: Tensor, state: Tensor, candidates: int) -> Tensor:
    """Return the states (rows · candidates, size) of a GRU after one step.

    All candidates of a row go on from its state (rows, size), so the product of state and weights, nearly all of
    the work, is computed once for them. See :class:`tempograd.models.recurrent.GRUClassifier` for the formula.
    """
    size = layer.hidden_size
    own = linear(values, layer.weight_ih_l0, layer.bias_ih_l0 if layer.bias else None)  # type: ignore[arg-type]
    common = linear(state, layer.weight_hh_l0, layer.bias_hh_l0 if layer.bias else None)[:, None]  # type: ignore[arg-type]
    own = own.view(len(state), candidates, 3 * size)
    gates = own[..., : 2 * size].add_(common[..., : 2 * size]).sigmoid_()
    new = (
        own[..., 2 * size :]
        .addcmul_(gates[..., :size], common[..., 2 * size :].expand(-1, candidates, -1))
        .tanh_()
    )
    return torch.lerp(new, state[:, None].expand_as(new), gates[..., size:]).flatten(0, 1)


def _is_plain_gru(layer: nn.RNNBase) -> bool:
    return isinstance(layer, nn.GRU) and layer.num_layers == 1 and not layer.bidirectional


def _parts(state: Tensor | Parts) -> Parts:
    return state if isinstance(state, tuple) else (state,)


def _zeros(parts: Parts) -> Parts:
    return tuple(torch.zeros_like(part) for part in parts)
