"""A data set as one file of arrays, which any machine can read without the original files."""

import json
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save_file
from torch import Tensor

from tempograd.core.errors import DataError
from tempograd.core.io import load, made, write_atomically
from tempograd.data import Dataset, Series

PARTS = ("train", "validation", "test")
TENSORS = ("x", "y", "mask", "truth", "ids")
SCALING = ("centre", "scale")


def save_prepared(data: Dataset, path: str | Path) -> Path:
    """Write a data set, processed and cut as it is, to one safetensors file.

    Examples
    --------
    >>> import tempfile, torch
    >>> split = Series(torch.ones(2, 3, 1), torch.tensor([0, 1]))
    >>> toy = Dataset("toy", split, None, split, classes=2, channels=("a",))
    >>> path = save_prepared(toy, Path(tempfile.mkdtemp()) / "toy.safetensors")
    >>> load_prepared(path).test.y
    tensor([0, 1])
    """
    tensors: dict[str, Tensor] = {}
    for part in PARTS:
        split: Series | None = getattr(data, part)
        for name in TENSORS if split is not None else ():
            tensor = getattr(split, name)
            if tensor is not None:
                tensors[f"{part}.{name}"] = tensor.contiguous().clone()
    for name in SCALING:
        if getattr(data, name) is not None:
            tensors[name] = getattr(data, name).contiguous().clone()
    names = ("name", "classes", "channels", "variant", "units")
    plain = {name: getattr(data, name) for name in names}
    header = {"tempograd": json.dumps(plain)}
    made(Path(path).parent)
    return write_atomically(path, lambda temporary: save_file(tensors, temporary, header))


def load_prepared(path: str | Path) -> Dataset:
    """Read what :func:`save_prepared` wrote."""
    try:
        header, tensors = load(path)
        plain = json.loads(header["tempograd"])
        parts: dict[str, Any] = {part: _split(tensors, part) for part in PARTS}
        for name in ("channels", "units"):
            plain[name] = None if plain.get(name) is None else tuple(plain[name])  # older files name no units
        parts |= {name: tensors.get(name) for name in SCALING}
        return Dataset(**plain, **parts)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no prepared data set or is damaged: remove it and prepare it anew.") from error


def _split(tensors: dict[str, Tensor], part: str) -> Series | None:
    found = {name: tensors.get(f"{part}.{name}") for name in TENSORS}
    return None if found["x"] is None else Series(**found)  # type: ignore[arg-type]  # x, y and ids come together
