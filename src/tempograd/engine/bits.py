"""The bits of many tensors, a few operations for all of them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

GROUP = 2**24  # elements
WIDTHS = {1: torch.uint8, 2: torch.int16}  # all others are whole numbers of 32-bit words


class Bits:
    """A copy of the bits of some tensors, to tell later whether they are the same, and to put them back."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = [tensor.detach() for tensor in tensors if tensor.device.type != "meta"]
        self._copies = [torch.cat([bits for _, bits in group]) for group in grouped(self._tensors)]

    def same(self) -> bool:
        """Tell whether no bit has changed, also where a change left no trace in the version of a tensor."""
        pairs = zip(grouped(self._tensors), self._copies, strict=True)
        return all(torch.equal(torch.cat([bits for _, bits in group]), copy) for group, copy in pairs)

    def restore(self) -> None:
        """Put the bits back."""
        for group, copy in zip(grouped(self._tensors), self._copies, strict=True):
            before = torch.split(copy, [bits.numel() for _, bits in group])
            for (tensor, _), bits in zip(group, before, strict=True):
                tensor.copy_(bits.view(tensor.dtype).view(tensor.shape))


def grouped(tensors: Sequence[Tensor]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect tensors of one width on one device with their bits, flat, so that few operations serve many of them.

    Complex numbers come as pairs of real ones.
    """
    waiting: dict[tuple[torch.dtype, torch.device], list[tuple[Tensor, Tensor]]] = {}
    size = 0
    for tensor in tensors:
        plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        bits = plain.contiguous().view(-1).view(WIDTHS.get(plain.element_size(), torch.int32))
        waiting.setdefault((bits.dtype, bits.device), []).append((plain, bits))
        size += bits.numel()
        if size > GROUP:
            yield from waiting.values()
            waiting, size = {}, 0
    yield from waiting.values()
