"""Tensors in safetensors files, small and never trusted."""

from pathlib import Path

import safetensors
from torch import Tensor

from tempograd.brief import brief
from tempograd.errors import DataError, short_path
from tempograd.paths import as_path
from tempograd.stopping import uninterrupted


def load(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read the header and the tensors of a safetensors file; raises what safetensors and torch raise.

    Signals wait meanwhile: safetensors, interrupted, takes the file for damaged.
    """
    with uninterrupted(), safetensors.safe_open(path, "pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in list(file.keys())}


def read_tensors(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read a safetensors file: its header and its tensors."""
    path = as_path(path)
    try:
        return load(path)
    except FileNotFoundError:
        raise DataError(f"{short_path(path)} does not exist.") from None
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{short_path(path)} is not a readable safetensors file: {brief(error)}.") from error


def shrunk(tensor: Tensor) -> tuple[Tensor, list[int]]:
    """Cut repeated axes of an expanded view to one, so that a constant baseline costs nothing on disk."""
    shape = list(tensor.shape)
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and shape[axis]:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor.cpu().contiguous().clone(), shape
