"""Tensors in safetensors files, small and never trusted."""

from pathlib import Path

import safetensors
from safetensors.torch import load_file
from torch import Tensor

from tempograd.brief import brief
from tempograd.errors import DataError


def read_tensors(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read a safetensors file: its header and its tensors."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            header = file.metadata() or {}
        return header, load_file(path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (safetensors.SafetensorError, OSError, TypeError, ValueError) as error:
        raise DataError(f"{brief(str(path))[1:-1]} is not a readable safetensors file: {brief(error)}.") from error


def shrunk(tensor: Tensor) -> tuple[Tensor, list[int]]:
    """Cut repeated axes of an expanded view to one, so that a constant baseline costs nothing on disk."""
    shape = list(tensor.shape)
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and shape[axis]:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor.cpu().contiguous().clone(), shape
