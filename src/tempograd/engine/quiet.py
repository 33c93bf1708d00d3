"""A model at rest: evaluation mode, frozen weights, recurrent layers ready for cuDNN, all put back."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils.hooks import RemovableHandle

from tempograd.engine.bits import Bits
from tempograd.engine.holding import Hold
from tempograd.engine.modules import Model, is_compiled, modules_of, place, require_numbers
from tempograd.errors import ModelError

RECURRENT = re.compile(r"aten(\.|::)(gru|lstm|rnn_tanh|rnn_relu)\b")
LARGE = 2**26  # weights; of larger modules no copy is kept

_trained: "WeakValueDictionary[int, nn.Module]" = WeakValueDictionary()  # copies of a model that a method trains
_here = threading.local()  # the calls of this thread, and whether its model is running


@contextmanager
def quiet(model: Model) -> Iterator[Callable[[], None]]:
    """Run the block on a model that nothing disturbs, and leave it as it was found, errors included.

    The modules of a model are found where they can be, and any other one that runs when the model does, inside a
    function say, comes to rest at its first touch (see :func:`running`). All modules are in evaluation mode but
    for recurrent layers: cuDNN refuses to differentiate those, so they are in training mode with their dropout at
    0, which leaves their output as it is. Inside a program of ``torch.export`` or TorchScript there are no layers
    left to switch, so one with recurrent layers runs without cuDNN. Random numbers drawn by the model do not
    reach the caller's generators. Several threads may do this with one model at the same time. The block gets a
    function that puts the buffers back before the rest.
    """
    outside = torch.inference_mode(mode=False) if torch.is_inference_mode_enabled() else nullcontext()
    device, _ = place(model, torch.empty(0))
    call = _Call()
    with outside, torch.enable_grad(), _no_denormals():
        try:
            call.keep_generators(device)
            for module in modules_of(model):
                call.settle(module)
            if not is_compiled(model):  # which would compile the hook as well, each time anew
                call.hold.take("hook", _hooked)
            with _entered(call):
                yield call.restore_buffers
        finally:
            changed = call.leave()
    if changed:
        raise ModelError(changed)


@contextmanager
def running() -> Iterator[None]:
    """Mark the block as a run of the model: what runs there comes to rest in the :func:`quiet` around it."""
    before = getattr(_here, "running", False)
    _here.running = True
    try:
        yield
    finally:
        _here.running = before


def spare(module: nn.Module) -> None:
    """Leave a module as it is when it runs: a copy that a method trains."""
    _trained.update((id(part), part) for part in module.modules())


def undisturbed_by_others() -> bool:
    """Tell whether all hooks on every module's forward are the one of this library."""
    return all(hook is _touch for hook in nn_module._global_forward_pre_hooks.values())


class _Call:
    """What one call has brought to rest."""

    def __init__(self) -> None:
        self.hold = Hold()
        self._buffers: list[_Buffer] = []
        self._weights: list[tuple[nn.Module, list[nn.Parameter], Bits | None, list[int]]] = []
        self._touched: set[int] = set()

    def keep_generators(self, device: torch.device) -> None:
        """Put the state of the random generators back in the end."""
        self.hold.take("generator", _kept_generator)
        if device.type == "cuda":
            self.hold.take(device, lambda: _kept_cuda_generator(device))

    def settle(self, module: nn.Module) -> None:
        """Bring a module to rest, with everything in it."""
        if id(module) in self._touched:
            return
        require_numbers(module)
        parts = list(module.modules())
        self._touched.update(map(id, parts))
        self._remember_weights(module)
        for part in parts:
            self.hold.take(("module", id(part)), lambda part=part: _settled(part))  # type: ignore[misc]
        for weight in module.parameters():
            self.hold.take(("weight", id(weight)), lambda weight=weight: _frozen(weight))  # type: ignore[misc]
        for buffer in module.buffers():
            kept = _Buffer(buffer)
            self._buffers.append(kept)
            self.hold.take(("buffer", id(buffer)), lambda kept=kept: kept.restore)  # type: ignore[misc]
        if _recurs(module) and any(weight.is_cuda for weight in module.parameters()):
            self.hold.take("cudnn", _without_cudnn)

    def leave(self) -> str:
        """Put everything back, and say in a sentence if the model changed its own weights."""
        try:
            return self._changed_weights()
        finally:
            self.hold.release()

    def restore_buffers(self) -> None:
        """Put buffers back that a forward has changed, since it counts or keeps state in them."""
        for buffer in self._buffers:
            buffer.restore()

    def _remember_weights(self, module: nn.Module) -> None:
        weights = list(module.parameters())
        few = sum(weight.numel() for weight in weights) <= LARGE
        versions = [weight._version for weight in weights]
        self._weights.append((module, weights, Bits(weights) if few else None, versions))

    def _changed_weights(self) -> str:
        """Put weights back that the model's own forward has changed, and say so; nothing if there are none."""
        names, lost = [], False
        for module, weights, bits, versions in self._weights:
            changed = versions != [weight._version for weight in weights] if bits is None else not bits.same()
            if not changed:
                continue
            names.append(type(module).__name__)
            if bits is None:
                lost = True
            else:
                bits.restore()
        if not names:
            return ""
        end = "they cannot all be put back, so load the model again" if lost else "they were put back"
        return (
            f"The weights of {', '.join(names)} changed while the model ran, so that every pass explained another "
            f"one ({end}): take the update out of its forward."
        )


class _Buffer:
    """The values of a buffer, for the case that a forward changes them."""

    def __init__(self, buffer: Tensor) -> None:
        self._buffer, self._version, self._copy = buffer, buffer._version, buffer.clone()

    def restore(self) -> None:
        if self._buffer._version != self._version:
            self._buffer.detach().copy_(self._copy)
            self._version = self._buffer._version


def _settled(part: nn.Module) -> Callable[[], None]:
    mode, recurrent = part.training, isinstance(part, nn.RNNBase)
    dropout = part.dropout if isinstance(part, nn.RNNBase) else 0.0
    if mode != recurrent:  # to set an attribute of a module takes long
        part.training = recurrent
    if isinstance(part, nn.RNNBase):
        part.dropout = 0.0

    def restore() -> None:
        if part.training != mode:
            part.training = mode
        if isinstance(part, nn.RNNBase):
            part.dropout = dropout

    return restore


def _frozen(weight: nn.Parameter) -> Callable[[], None]:
    if not weight.requires_grad:
        return lambda: None
    weight.requires_grad_(False)

    def restore() -> None:
        weight.requires_grad_(True)

    return restore


def _kept_generator() -> Callable[[], None]:
    state = torch.get_rng_state()
    return lambda: torch.set_rng_state(state)


def _kept_cuda_generator(device: torch.device) -> Callable[[], None]:
    state = torch.cuda.get_rng_state(device)
    return lambda: torch.cuda.set_rng_state(state, device)


def _without_cudnn() -> Callable[[], None]:
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False

    def restore() -> None:
        torch.backends.cudnn.enabled = before

    return restore


@contextmanager
def _entered(call: _Call) -> Iterator[None]:
    """Let the hook bring to rest what runs in this thread."""
    calls: list[_Call] = _here.__dict__.setdefault("calls", [])
    calls.append(call)
    try:
        yield
    finally:
        calls.remove(call)


def _hooked() -> Callable[[], None]:
    handle: RemovableHandle = nn_module.register_module_forward_pre_hook(_touch)
    return handle.remove


def _touch(module: nn.Module, _: object) -> None:
    """Bring a module to rest before its first forward in a run of the model."""
    calls: list[_Call] = getattr(_here, "calls", [])
    if calls and getattr(_here, "running", False) and id(module) not in _trained:
        calls[-1].settle(module)


def _recurs(module: nn.Module) -> bool:
    """Tell whether a module holds a program with recurrent layers.

    Examples
    --------
    >>> _recurs(nn.GRU(1, 1))
    False
    """
    parts = list(module.modules())
    graphs = [str(part.graph) for part in parts if isinstance(part, torch.fx.GraphModule)]
    graphs += [str(part.inlined_graph) for part in parts[:1] if isinstance(part, torch.jit.ScriptModule)]
    return any(RECURRENT.search(graph) for graph in graphs)


@contextmanager
def _no_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 for 0.

    Gradients that vanish over a long series are full of them, and a CPU needs ten times as long for each.
    """
    before = bool(torch.tensor(1e-40, dtype=torch.float32) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
