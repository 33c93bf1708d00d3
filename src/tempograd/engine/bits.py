"""The bits of tensors: copies that tell later whether they are the same, and that can be put back."""

from collections.abc import Iterator, Sequence
from copy import copy

import torch
from torch import Tensor

GROUP = 2**24  # elements of tensors that are compared at once
WIDTHS = {1: torch.uint8, 2: torch.int16}  # all others are whole numbers of 32-bit words
WORDS = WIDTHS | {4: torch.int32, 8: torch.int64}


class Bits:
    """A copy of the bits of some tensors, to tell later whether they are the same, and to put them back."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._count = len(tensors)
        self._groups: list[list[tuple[int, Tensor]]] = []  # of one kind, so that few operations serve many
        self._words: dict[int, Tensor] = {}  # views of those that have one
        waiting: dict[tuple[torch.dtype, torch.device], list[tuple[int, Tensor]]] = {}
        size = 0
        for place, tensor in enumerate(tensors):
            if tensor.is_meta:
                continue
            plain = tensor.detach()
            plain = torch.view_as_real(plain) if plain.is_complex() else plain
            waiting.setdefault((plain.dtype, plain.device), []).append((place, plain))
            if plain.is_contiguous():
                self._words[place] = as_words(plain)
            size += plain.numel()
            if size > GROUP:
                self._groups += waiting.values()
                waiting, size = {}, 0
        self._groups += waiting.values()
        self._copies = self._joined()

    def _joined(self) -> list[Tensor]:
        known = self._words
        return [
            torch.cat([known[place] if place in known else as_words(tensor) for place, tensor in group])
            for group in self._groups
        ]

    def again(self) -> "Bits":
        """Return a copy of the bits that the same tensors have now."""
        other = copy(self)
        other._copies = self._joined()
        return other

    def differ(self, other: "Bits") -> list[Tensor]:
        """Tell for each kind of tensors whether bits differ from those of another moment; nothing waits here."""
        return [torch.ne(one, two).any() for one, two in zip(self._copies, other._copies, strict=True)]

    def same(self) -> bool:
        """Tell whether no bit has changed, also where a change left no trace in the version of a tensor."""
        return all(torch.equal(now, before) for now, before in zip(self._joined(), self._copies, strict=True))

    def values(self) -> list[Tensor]:
        """Return the tensors as they were, in their order; complex numbers as pairs of real ones."""
        found = {place: before for place, _, before in self._before()}
        return [found[place] for place in range(self._count)]

    def restore(self) -> None:
        """Put the bits back."""
        for _, tensor, before in self._before():
            tensor.copy_(before)

    def _before(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        for group, words in zip(self._groups, self._copies, strict=True):
            sizes = [tensor.numel() * tensor.element_size() // words.element_size() for _, tensor in group]
            for (place, tensor), part in zip(group, torch.split(words, sizes), strict=True):
                yield place, tensor, part.view(tensor.dtype).view(tensor.shape)


def as_words(tensor: Tensor) -> Tensor:
    """Return a tensor as whole numbers, flat."""
    flat = tensor if tensor.ndim == 1 else tensor.reshape(-1)
    return flat.view(WORDS[tensor.element_size()])


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
