r"""What a model predicts at every step from the series up to it, and what it would predict with other values.

The prediction at step :math:`t` is the model's output for that step or, for a model with one output per series,
its output for the prefix :math:`x_{0 \ldots t}`. Replacing a few values from step :math:`u` on changes nothing
before :math:`u`, so a recurrent model goes on from its remembered state: one step instead of a whole prefix.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tempograd.core.errors import ModelError, TempogradError
from tempograd.engine.ask import Ask, Block
from tempograd.engine.batching import slices
from tempograd.engine.model import Model, frozen, owner, place
from tempograd.engine.outputs import default_class
from tempograd.engine.predictor import forward

Parts = tuple[Tensor, ...]  # what one recurrent layer remembers: tensors (depth, rows, size), two for an LSTM
State = list[Parts]
PROBES = 2  # series on which shortcuts are tried
REJECTIONS = (RuntimeError, ValueError, IndexError, AssertionError)  # the last by exported programs
STEPS = 16  # single steps that count as one sequence: with more of them at once a CPU leaves its cache


class Prefixes:
    """The predictions of a few series at every step.

    The target of the block must be known, and with it whether the model has one output per step. At most ``size``
    sequences go through the model at once; ``fast`` lets a recurrent model go on from remembered states.

    Attributes
    ----------
    outputs : Tensor of shape (series, time, class)
        The prediction at every step.
    default : Tensor of shape (series, time)
        The class that is explained at every step where none was requested.
    columns : int
        How many the model returns; one may stand for two classes.
    """

    def __init__(self, ask: Ask, block: Block, size: int, *, fast: bool = True) -> None:
        self.ask, self.block, self.size = ask, block, size
        self._per_step = ask.resolved.per_step
        self._stepper = _find_stepper(ask, block) if fast else None
        with torch.no_grad():
            if self._stepper is None:
                raw = _read_plainly(ask, block.x)
            else:
                raw, self._states = self._stepper.run_with_states(block.x)
            self.outputs, self.columns = ask.apply_link(raw), raw.shape[2:].numel()
        self._shape = raw.shape[2:]
        picked = callable(ask.resolved.target)  # from the model's own columns
        self.default = raw.argmax(-1) if picked else default_class(raw.flatten(ask.resolved.axis), ask.output)

    def starts(self, candidates: int, length: int) -> Iterator[slice]:
        """Cut the steps into runs for which all ``candidates`` windows of all series fit through the model."""
        series, time, _ = self.block.x.shape
        room = self.size * (min(STEPS, max(1, time // length)) if self._stepper else 1)
        return slices(time, max(1, room // (series * candidates)))

    @torch.no_grad()
    def replaced(self, starts: slice, windows: Tensor) -> Tensor:
        """Predict with other values from some steps on: windows (series, starts, candidates, length, channel).

        Return the predictions at the steps of the windows, (series, starts, candidates, length, class), each from
        the values up to it. What lies beyond the end of the series is not looked at, and predicted as 0.
        """
        shape = windows.shape[:4]
        if self._stepper is not None:
            raw = self._step_on(self._stepper, starts, windows)
        elif self._per_step:
            raw = self._whole(starts, windows)
        else:
            raw = self._prefix_by_prefix(starts, windows)
        raw = self.ask.apply_link(raw.reshape(*shape, *self._shape))
        reached = torch.arange(starts.start, starts.stop)[:, None] + torch.arange(shape[3])
        return raw * (reached < self.block.x.shape[1]).to(raw.device)[:, None, :, None]

    def require_past(self, method: str) -> None:
        """Refuse a model whose prediction at a step depends on later steps."""
        x, time = self.block.x[:PROBES], self.block.x.shape[1]
        if not self._per_step or self._stepper is not None or time < 2:
            return
        half = time // 2
        with torch.no_grad():
            changed = _read_plainly(self.ask, torch.cat([x[:, :half], x[:, half:] + 1], 1))
            same = _read_plainly(self.ask, x)
        if not torch.allclose(changed[:, :half], same[:, :half], rtol=1e-3, atol=1e-5):
            raise ModelError(
                f"{method} needs predictions from the past alone, but this model's output at a step depends on "
                "later steps: use occlusion or integrated_gradients."
            )

    def _step_on(self, stepper: "Stepper", starts: slice, windows: Tensor) -> Tensor:
        candidates, length = windows.shape[2:4]
        rows, outputs = windows.flatten(0, 2), []
        state: State = [  # (starts, depth, series, size) in the order of windows: (depth, series · starts, size)
            tuple(part[starts].permute(1, 2, 0, 3).flatten(1, 2).contiguous() for part in layer)
            for layer in self._states
        ]
        for step in range(length):
            # afterwards each candidate has its own past
            raw, memories = stepper.step(rows[:, step], state, candidates if step == 0 else 1)
            state = [memory.after for memory in memories]
            outputs.append(raw)
        return torch.stack(outputs, 1)

    def _whole(self, starts: slice, windows: Tensor) -> Tensor:
        """Put the windows into the whole series and read the outputs at their steps."""
        series, count, candidates, length, channels = windows.shape
        time = self.block.x.shape[1]
        padded = torch.nn.functional.pad(self.block.x, (0, 0, 0, length))
        z = padded[:, None, None].repeat(1, count, candidates, 1, 1)
        places = torch.arange(starts.start, starts.stop)[:, None] + torch.arange(length)
        index = places.to(z.device)[None, :, None, :, None]
        z.scatter_(3, index.expand(series, count, candidates, length, channels), windows)
        raw = _read_plainly(self.ask, z[..., :time, :].flatten(0, 2))
        raw = torch.nn.functional.pad(raw, (0, 0, 0, length)).view(series, count, candidates, time + length, -1)
        return raw.gather(3, index.expand(series, count, candidates, length, raw.shape[-1]))

    def _prefix_by_prefix(self, starts: slice, windows: Tensor) -> Tensor:
        series, count, candidates, length, _ = windows.shape
        x, time = self.block.x, self.block.x.shape[1]
        outputs = torch.zeros(series, count, candidates, length, self.columns).to(self.outputs)
        for i, start in enumerate(range(starts.start, starts.stop)):
            past = x[:, None, :start].expand(-1, candidates, -1, -1)
            for step in range(min(length, time - start)):
                z = torch.cat([past, windows[:, i, :, : step + 1]], 2).flatten(0, 1)
                outputs[:, i, :, step] = _last(self.ask.model, z, time).view(series, candidates, -1)
        return outputs


@torch.no_grad()
def at_every_step(ask: Ask, block: Block, z: Tensor) -> Tensor:
    """Return the raw prediction at every step of series like the block's, (rows, time, column)."""
    stepper = _find_stepper(ask, block)
    return _read_plainly(ask, z) if stepper is None else stepper.run_with_states(z)[0]


def _read_plainly(ask: Ask, z: Tensor, times: list[int] | None = None) -> Tensor:
    """Return the raw prediction at every step, or at some, without a shortcut, (rows, time, column)."""
    if ask.resolved.per_step:
        raw = forward(ask.model, z, per_step=True)
        return raw if times is None else raw[:, times]
    time = ask.x.shape[1]
    return torch.stack([_last(ask.model, z[:, : t + 1], time) for t in times or range(z.shape[1])], 1)


def _last(model: Model, z: Tensor, time: int) -> Tensor:
    """Return the raw output for prefixes of series of ``time`` steps, (rows, class)."""
    try:
        return forward(model, z)
    except REJECTIONS as error:
        if z.shape[1] == time or isinstance(error, (torch.OutOfMemoryError, TempogradError)):
            raise
        raise ModelError(
            "This method needs predictions on prefixes, but the model rejects the first "
            f"{z.shape[1]} of {time} steps ({str(error).splitlines()[0]}): use a method that explains the final "
            "prediction, such as occlusion."
        ) from error


def require_prefixes(model: Model, x: Tensor) -> None:
    """Refuse, before anything is learnt, a model that does not take the first step of the series ``x``."""
    with frozen(model), torch.no_grad():
        _last(model, x[:1, :1].to(*place(model, x)), x.shape[1])


@dataclass
class Stepper:
    """Runs one more step of a model whose memory is all in ``nn.GRU``, ``nn.LSTM`` and ``nn.RNN`` layers.

    The model is called with a series of one step while its recurrent layers start from the given states. Whether
    that is the same as a run over the whole prefix depends on the rest of the model (a mean over all steps is
    not), so :func:`_find_stepper` tries it on a few series before anybody relies on it.
    """

    model: Model
    layers: list[nn.RNNBase]

    def step(self, z: Tensor, state: State | None = None, candidates: int = 1) -> tuple[Tensor, list["_Memory"]]:
        """Go one step on with the values ``z``, (rows · candidates, channel); all of a row from the same state.

        Return the model's raw output, (rows · candidates, class), and the memories of the layers. Without a state
        they start from what the model gives them.
        """
        starts: list[Parts | None] = [None] * len(self.layers) if state is None else [*state]
        memories = [_Memory(layer, parts, candidates) for layer, parts in zip(self.layers, starts, strict=True)]
        with ExitStack() as stack:
            for memory in memories:
                memory.watch(stack)
            raw = forward(self.model, z[:, None])
        return (raw[:, -1] if raw.ndim == 3 else raw), memories

    def run_with_states(self, x: Tensor) -> tuple[Tensor, State]:
        """Return the outputs after every step, (rows, time, class), and the states before it.

        The states have a leading axis for time: (time, depth, rows, size). Before the first step they are what
        the model gives its layers, or zeros.
        """
        raw, memories = self.step(x[:, 0])
        before = [[memory.before or tuple(map(torch.zeros_like, memory.after)) for memory in memories]]
        outputs = [raw]
        for t in range(1, x.shape[1]):
            before.append([memory.after for memory in memories])
            raw, memories = self.step(x[:, t], before[-1])
            outputs.append(raw)
        layers = zip(*before, strict=True)
        return torch.stack(outputs, 1), [tuple(map(torch.stack, zip(*layer, strict=True))) for layer in layers]


class _Memory:
    """Lets a layer start from given states, and notes what it started from and ended with."""

    def __init__(self, layer: nn.RNNBase, before: Parts | None = None, candidates: int = 1) -> None:
        self.layer, self.before, self.candidates = layer, before, candidates
        self.after: Parts = ()

    def watch(self, stack: ExitStack) -> None:
        """Do so until the stack is left."""
        plain = isinstance(self.layer, nn.GRU) and self.layer.num_layers == 1 and not self.layer.bidirectional
        if plain and self.before is not None and self.candidates > 1:
            stack.callback(self.layer.__dict__.pop, "forward", None)
            self.layer.forward = self._forward
        else:
            stack.enter_context(self.layer.register_forward_pre_hook(self._start, with_kwargs=True))
            stack.enter_context(self.layer.register_forward_hook(self._end))

    def _start(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self.before is None:
            given = args[1] if len(args) > 1 else kwargs.get("hx")
            self.before = None if given is None else _parts(given)
            return args, kwargs
        state = tuple(part.repeat_interleave(self.candidates, 1) for part in self.before)
        return (args[0] if args else kwargs["input"], state if len(state) > 1 else state[0]), {}

    def _end(self, _: nn.Module, __: Any, result: tuple[Tensor, Any]) -> None:
        self.after = _parts(result[1])

    def _forward(self, values: Tensor, _: Any = None) -> tuple[Tensor, Tensor]:
        """Take the step of a GRU: return the states (rows · candidates, size) after it, twice.

        All candidates of a row go on from its state (rows, size), so the product of state and weights, nearly all
        of the work, is computed once for them. See :class:`tempograd.models.networks.GRUClassifier`.
        """
        layer: Any = self.layer
        state, size, axis = (self.before or ())[0][0], layer.hidden_size, 1 if layer.batch_first else 0
        own = linear(values.squeeze(axis), layer.weight_ih_l0, layer.bias_ih_l0 if layer.bias else None)
        common = linear(state, layer.weight_hh_l0, layer.bias_hh_l0 if layer.bias else None)[:, None]
        own = own.view(len(state), self.candidates, 3 * size)
        gates = own[..., : 2 * size].add_(common[..., : 2 * size]).sigmoid_()
        remembered = common[..., 2 * size :].expand(-1, self.candidates, -1)
        new = own[..., 2 * size :].addcmul_(gates[..., :size], remembered).tanh_()
        after = torch.lerp(new, state[:, None].expand_as(new), gates[..., size:]).flatten(0, 1)
        self.after = (after[None],)
        return after.unsqueeze(axis), after[None]


def _parts(state: Tensor | Parts) -> Parts:
    return state if isinstance(state, tuple) else (state,)


@torch.no_grad()
def _find_stepper(ask: Ask, block: Block) -> Stepper | None:
    """Try once per ask whether the model can go on from remembered states, with the outputs of whole prefixes."""
    if "stepper" in ask.shortcuts:
        return ask.shortcuts["stepper"]  # type: ignore[no-any-return]
    x, time, module, usable = block.x[:PROBES], block.x.shape[1], owner(ask.model), None
    layers = [] if module is None else [part for part in module.modules() if isinstance(part, nn.RNNBase)]
    if layers and not any(layer.bidirectional for layer in layers):
        times = sorted({0, min(1, time - 1), time // 2, time - 1})
        expected, stepper = _read_plainly(ask, x, times), Stepper(ask.model, layers)
        with suppress(Exception):  # whatever such a model raises about a single step, whole prefixes remain
            outputs = stepper.run_with_states(x)[0][:, times]
            if outputs.shape == expected.shape and torch.allclose(outputs, expected, rtol=1e-3, atol=1e-5):
                usable = stepper
    ask.shortcuts["stepper"] = usable
    return usable
