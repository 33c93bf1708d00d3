"""A model at rest: evaluation mode, frozen weights, recurrent layers ready for cuDNN, all put back."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain

import torch
from torch import Tensor, nn

Model = Callable[[Tensor], Tensor]
RECURRENT = re.compile(r"aten(\.|::)(gru|lstm|rnn_tanh|rnn_relu)\b")


def owner(model: Model) -> nn.Module | None:
    """Return the module behind a model: itself, or the object a method such as ``net.predict`` belongs to."""
    module = getattr(model, "__self__", model)
    return module if isinstance(module, nn.Module) else None


def place(model: Model, x: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where the model computes and in which precision; a model without weights follows ``x``."""
    module = owner(model)
    if module is not None:
        for tensor in chain(module.parameters(), module.buffers()):
            if tensor.is_floating_point():
                return tensor.device, tensor.dtype
    return x.device, x.dtype


@contextmanager
def quiet(model: Model) -> Iterator[Callable[[], None]]:
    """Run the block on a model that nothing disturbs, and leave it as it was found, errors included.

    cuDNN refuses to differentiate a recurrent layer in evaluation mode. Only the recurrent layers are
    switched to training mode, with their dropout at 0, which leaves their output as it is; everything
    else is in evaluation mode. Inside a program of ``torch.export`` or TorchScript there are no layers left to
    switch, so one with recurrent layers runs without cuDNN. Random numbers drawn by the model do not reach the
    caller's generators. The block gets a function that puts the buffers back before the rest.
    """
    module = owner(model)
    device, _ = place(model, torch.empty(0))
    devices = [device] if device.type == "cuda" else []
    outside = torch.inference_mode(mode=False) if torch.is_inference_mode_enabled() else nullcontext()
    plain = torch.backends.cudnn.flags(enabled=False) if devices and _recurs(module) else nullcontext()
    with torch.random.fork_rng(devices=devices), outside, torch.enable_grad(), _no_denormals(), plain:
        if module is None:
            yield lambda: None
            return
        parts, parameters = list(module.modules()), list(module.parameters())
        restore, restore_buffers = _remember(parts, parameters), _remember_buffers(list(module.buffers()))
        try:
            _settle(parts, parameters)
            yield restore_buffers
        finally:
            restore()
            restore_buffers()


def _recurs(module: nn.Module | None) -> bool:
    """Tell whether a module holds a program with recurrent layers.

    Examples
    --------
    >>> _recurs(nn.GRU(1, 1))
    False
    """
    programs = [] if module is None else list(module.modules())
    graphs = [str(part.graph) for part in programs if isinstance(part, torch.fx.GraphModule)]
    graphs += [str(part.inlined_graph) for part in programs[:1] if isinstance(part, torch.jit.ScriptModule)]
    return any(RECURRENT.search(graph) for graph in graphs)


@contextmanager
def _no_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 for 0.

    Gradients that vanish over a long series are full of them, and a CPU needs ten times as long for each.
    """
    before = bool(torch.tensor(1e-40) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _settle(parts: list[nn.Module], parameters: list[nn.Parameter]) -> None:
    for part in parts:
        recurrent = isinstance(part, nn.RNNBase)
        if part.training != recurrent:  # to set an attribute of a module takes long
            part.training = recurrent
        if isinstance(part, nn.RNNBase):
            part.dropout = 0.0
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.requires_grad_(False)


def _remember_buffers(buffers: list[Tensor]) -> Callable[[], None]:
    copies = [(buffer, buffer._version, buffer.clone()) for buffer in buffers]

    def restore() -> None:
        for buffer, version, copy in copies:
            if buffer._version != version:  # a forward that counts or keeps state in a buffer
                buffer.detach().copy_(copy)

    return restore


def _remember(parts: list[nn.Module], parameters: list[nn.Parameter]) -> Callable[[], None]:
    modes = [(part, part.training) for part in parts]
    dropouts = [(part, part.dropout) for part in parts if isinstance(part, nn.RNNBase)]
    trainable = [(parameter, parameter.requires_grad) for parameter in parameters]

    def restore() -> None:
        for part, mode in modes:
            if part.training != mode:
                part.training = mode
        for layer, dropout in dropouts:
            layer.dropout = dropout
        for parameter, flag in trainable:
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)

    return restore
