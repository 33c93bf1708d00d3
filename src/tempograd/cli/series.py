"""Series from a data set or from a file."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tempograd.errors import DataError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Split

FILES = (".npz", ".npy")


class Series(NamedTuple):
    """A split with its channel names; without labels of their own its series are all in class 0."""

    split: "Split"
    channels: tuple[str, ...] | None
    labelled: bool


def read_series(
    source: str,
    part: str = "test",
    root: Path | None = None,
    variant: str | None = None,
    *,
    labels: bool = True,
) -> Series:
    """Read a data set by name, or a file by its ending; ``labels=False`` leaves y and truth of a file alone."""
    from tempograd.data import DATASETS, load_dataset

    path = Path(source)
    if source in DATASETS or not (path.suffix or path.exists()):
        data = load_dataset(source, root=root, variant=variant, fold=0 if part == "validation" else None)
        split: Split = getattr(data, part)
        return Series(split, data.channels, labelled=True)
    if path.suffix not in FILES:
        raise DataError(
            f"{path} cannot be read: files end in {' or '.join(FILES)}, and {source!r} is no data set "
            f"({', '.join(sorted(DATASETS))})."
        )
    arrays = _arrays(path)
    return _from_arrays(arrays if labels else {k: v for k, v in arrays.items() if k not in {"y", "truth"}}, path)


def _arrays(path: Path) -> dict[str, Any]:
    import numpy as np

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


def _from_arrays(arrays: dict[str, Any], path: Path) -> Series:
    import torch

    from tempograd import checks
    from tempograd.data import Split

    if "x" not in arrays:
        raise DataError(f"{path} must hold an array x (series, time, channel); it has {', '.join(arrays)}.")
    x = checks.series(arrays["x"])
    truth = checks.observed(arrays.get("truth"), x)
    labels = arrays.get("y")
    if labels is not None and labels.dtype.kind not in "iuf":
        raise InputError(f"y must hold classes (integers) or real values, got {labels.dtype}.")
    split = Split(
        x=x,
        y=torch.zeros(len(x), dtype=torch.int64) if labels is None else _labels(labels),
        mask=checks.observed(arrays.get("mask"), x),
        truth=truth,
        ids=checks.identifiers(arrays.get("ids"), len(x)),
    )
    channels = arrays.get("channels")
    return Series(split, None if channels is None else tuple(str(c) for c in channels), labels is not None)


def _labels(labels: Any) -> "Tensor":
    import torch

    tensor = torch.as_tensor(labels)
    return tensor if tensor.is_floating_point() else tensor.long()
