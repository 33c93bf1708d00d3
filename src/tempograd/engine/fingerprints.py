"""Names of models: hashes of their weights, known again as long as no bit of them has changed."""

import hashlib
from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import torch
from torch import Tensor, nn

from tempograd.engine.bits import Bits, as_words, grouped
from tempograd.engine.model import Model, ModuleParts, modules_of, parts_of, require_numbers

SMALL = 2**22  # weights; of smaller modules a copy is kept between calls, of larger ones on a CPU a checksum
STATE = {name: getattr(nn.Module, name) for name in ("state_dict", "_save_to_state_dict", "get_extra_state")}
PLAIN = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16}

_known: "WeakKeyDictionary[nn.Module, _Known]" = WeakKeyDictionary()


def fingerprint(model: Model) -> Callable[[], str]:
    """Name the weights by a hash of their names, shapes and two checksums of their bits.

    The checksums are sent to the device at once; calling the result waits for them. A function around one module
    has the name of that module; around several it has theirs behind its own, and around none its own alone.

    Examples
    --------
    >>> fingerprint(torch.nn.ReLU())()
    'ReLU:e3b0c44298fc1c14'
    """
    modules = modules_of(model)
    if len(modules) != 1:
        own = str(getattr(model, "__qualname__", type(model).__name__))
        marks = [_fingerprint(module) for module in modules]
        return lambda: "+".join([own, *(mark() for mark in marks)])
    return _fingerprint(modules[0])


class _Known(NamedTuple):
    """The fingerprint that a module had, and of which bits: a copy of them, or for a large module a checksum."""

    signature: Hashable
    keys: list[str]
    bits: Bits | int
    name: str


def _fingerprint(module: nn.Module) -> Callable[[], str]:
    """Name the weights of one module; where they are bit for bit those of the last call, by its name.

    The bits are compared and nothing else is trusted: writes through ``.data`` leave no trace in a tensor, and its
    version does not count them.
    """
    parts = parts_of(module)
    require_numbers(parts)
    signature, small = _signature(module, parts)
    known = None if signature is None else _known.get(module)
    if known is not None and known.signature != signature:
        known = None
    if signature is not None and not small:
        return _large(module, signature, known)
    if known is not None and isinstance(known.bits, Bits):
        now = known.bits.again()
        differs = known.bits.differ(now)
        return lambda: _keep(module, signature, known.keys, now) if any(map(bool, differs)) else known.name
    keys, tensors = _state(module)
    if signature is None:
        return _hashed(module, keys, tensors)
    now = Bits(tensors)
    return lambda: _keep(module, signature, keys, now)


def _large(module: nn.Module, signature: Hashable, known: _Known | None) -> Callable[[], str]:
    """Name the weights of a large module by its last name, as long as their checksum is the same.

    A CRC reads each byte once and keeps nothing, and the hash takes several times as long. On a GPU, where a
    checksum would have to be waited for, the hash is quick.
    """
    keys, tensors = _state(module)
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return _hashed(module, keys, tensors)
    now = 0
    for tensor in tensors:
        now = crc32(as_words(tensor.contiguous()).numpy().data, now)
    if known is not None and known.bits == now:
        return lambda: known.name
    name = _hashed(module, keys, tensors)()
    _known[module] = _Known(signature, keys, now, name)
    return lambda: name


def _state(module: nn.Module) -> tuple[list[str], list[Tensor]]:
    """Return the names of a module's weights, in order, and the weights."""
    items = module.state_dict().items()
    state = sorted(((key, value) for key, value in items if isinstance(value, Tensor)), key=lambda item: item[0])
    return [key for key, _ in state], [tensor.detach() for _, tensor in state]


def _keep(module: nn.Module, signature: Hashable, keys: list[str], bits: Bits) -> str:
    name = _hashed(module, keys, bits.values())()
    _known[module] = _Known(signature, keys, bits, name)
    return name


def _hashed(module: nn.Module, keys: list[str], tensors: list[Tensor]) -> Callable[[], str]:
    digest = hashlib.sha256()
    for key, tensor in zip(keys, tensors, strict=True):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    sums = []  # of the bits, plainly and weighted by position, so that a swap is seen too
    for group in grouped(tensors):
        bits = torch.cat([part for _, part in group]).long()
        plain = bits.sum()
        position = torch.arange(1, len(bits) + 1, device=bits.device)
        sums.append(torch.stack([plain, bits.mul_(position).sum()]))

    def name() -> str:
        final = digest.copy()
        for pair in sums:
            final.update(str(pair.tolist()).encode())
        return f"{type(module).__name__}:{final.hexdigest()[:16]}"

    return name


def _signature(module: nn.Module, parts: ModuleParts) -> tuple[Hashable, bool]:
    """Return what the names and places of a module's weights depend on, and whether they are few.

    It is None where the class of the module decides on them.
    """
    found: list[Any] = [type(module)]
    for part in parts.modules:
        own = part.__dict__
        hooked = part._state_dict_hooks or part._state_dict_pre_hooks or not own.keys().isdisjoint(STATE)
        hooked = hooked or isinstance(part, torch.jit.ScriptModule)
        if hooked or any(getattr(type(part), name) is not method for name, method in STATE.items()):
            return None, False
        found += [*part._modules, *map(id, part._modules.values()), None, *part._parameters, None, *part._buffers]
        found.append(tuple(sorted(part._non_persistent_buffers_set)))
    size = 0
    for tensor in chain(parts.parameters, parts.buffers):
        size += tensor.numel()
        if tensor.dtype not in PLAIN or type(tensor) not in {Tensor, nn.Parameter}:
            return None, False
        found += [tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device]
    return tuple(found), size <= SMALL
