"""``.npz`` and ``.npy`` files: the arrays as they are, checked."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd import checks
from tempograd.data.own.labels import as_numbers
from tempograd.data.own.roles import Asked
from tempograd.data.own.series import Series
from tempograd.data.own.table import Coder
from tempograd.errors import DataError, InputError


def from_arrays(path: Path, asked: Asked) -> Series:
    """Read arrays by name; only x is needed."""
    arrays = _load(path)
    if not asked.labels:
        arrays = {name: array for name, array in arrays.items() if name not in {"y", "truth"}}
    if "x" not in arrays:
        raise DataError(f"{path} must hold an array x (series, time, channel); it has {', '.join(arrays)}.")
    x = checks.series(arrays["x"], gaps=asked.missing == "mask")
    x, mask, _ = checks.without_gaps(x, checks.observed(arrays.get("mask"), x), None, "x")  # 0, as in tables
    y, classes = _labels(arrays.get("y"), len(x), asked, str(path))
    ids, names = arrays.get("ids"), None
    if ids is not None and ids.dtype.kind in "US":
        ids, names = None, checks.names(_texts(ids), len(x), "ids")
        if len(set(names or ())) < len(x):
            raise InputError("ids must be distinct, but one of the names occurs more than once.")
    return Series(
        x=x,
        y=y,
        mask=mask,
        truth=checks.observed(arrays.get("truth"), x),
        ids=checks.identifiers(ids, len(x)),
        channels=checks.names(asked.channels or _texts(arrays.get("channels")), x.shape[2], "channels"),
        times=checks.names(_texts(arrays.get("times")), x.shape[1], "times"),
        names=names,
        classes=classes,
        labelled="y" in arrays,
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"x": content}
        with content:
            return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged or holds Python objects, which are never loaded.") from error


def _labels(labels: Any, count: int, asked: Asked, where: str) -> tuple[Tensor, tuple[str, ...] | None]:
    if labels is None:
        return torch.zeros(count, dtype=torch.int64), None
    if labels.dtype.kind not in "iufUS":
        raise InputError(f"y must hold classes (integers or text) or real values, got {labels.dtype}.")
    if labels.dtype.kind in "US" or asked.classes is not None:
        coder = Coder()
        codes = coder.codes(_texts(labels.reshape(-1)) or ())
        numbers, classes = as_numbers(
            list(coder), asked.classes, where, lambda _, what: DataError(f"{where}, array y: {what}.")
        )
        return torch.as_tensor(numbers[codes].reshape(labels.shape)), classes
    tensor = checks.numbers(labels, "y")
    return (tensor if tensor.is_floating_point() else tensor.long()), None


def _texts(array: Any) -> tuple[str, ...] | None:
    if array is None:
        return None
    return tuple(text.decode() if isinstance(text, bytes) else str(text) for text in np.asarray(array).tolist())
