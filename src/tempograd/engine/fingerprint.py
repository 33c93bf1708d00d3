"""A short name for the exact weights of a model."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tempograd.engine.bits import grouped
from tempograd.engine.modules import Model, modules_of, require_numbers


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


def _fingerprint(module: nn.Module) -> Callable[[], str]:
    require_numbers(module)
    items = module.state_dict().items()
    state = sorted(((key, value) for key, value in items if isinstance(value, Tensor)), key=lambda item: item[0])
    digest = hashlib.sha256()
    for key, tensor in state:
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    groups = grouped([tensor.detach() for _, tensor in state])
    sums = [_checksums([bits for _, bits in group]) for group in groups]

    def name() -> str:
        final = digest.copy()
        for pair in sums:
            final.update(str(pair.tolist()).encode())
        return f"{type(module).__name__}:{final.hexdigest()[:16]}"

    return name


def _checksums(group: list[Tensor]) -> Tensor:
    """Sum the bits, plainly and weighted by position, so that a swap is seen too."""
    bits = torch.cat(group).long()
    return torch.stack([bits.sum(), bits.mul_(torch.arange(1, len(bits) + 1, device=bits.device)).sum()])
