"""How exactly the model computes: as torch's own settings say, or faster and less exactly for one call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from tempograd import checks
from tempograd.engine.holding import Hold

PRECISIONS = ("full", "tf32", "bf16")


@contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Run the block with another precision of matrix products, and put torch's settings back.

    ``"full"`` leaves everything as torch's settings say; unless they were changed, they let cuDNN round the
    products of recurrent and convolutional layers to TF32 (10 bits) on a GPU. ``"tf32"`` does so for all float32
    products on a GPU. ``"bf16"`` is torch's autocast with 8 bits, on any device.
    """
    checks.one_of(precision, "precision", PRECISIONS)
    if precision == "bf16":
        with torch.autocast(device.type, torch.bfloat16):
            yield
        return
    if precision == "full":
        yield
        return
    with _set(_places(), "tf32", older=True):
        yield


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Run the block with matrix products in the precision of their numbers, whatever the settings.

    For the library's own sums, whose differences would be lost in the few bits that are enough for a model.
    """
    with _set(_products(), "ieee", older=False), torch.autocast(device.type, enabled=False):
        yield


@contextmanager
def _set(places: tuple[tuple[Any, str], ...], precision: str, *, older: bool) -> Iterator[None]:
    """Change settings for the block; another thread may be doing so too, and what both found is put back."""
    every = (*_places(), *_products())
    hold, before = Hold(), [getattr(place, name) for place, name in places]
    hold.take("precision", lambda: partial(_put, every, [getattr(place, name) for place, name in every]))
    try:
        _put(places, [precision if name == "fp32_precision" else older for _, name in places])
        yield
    finally:
        _put(places, before)
        hold.release()


def _put(places: tuple[tuple[Any, str], ...], values: Sequence[Any]) -> None:
    for (place, name), value in zip(places, values, strict=True):
        setattr(place, name, value)


def rounding() -> tuple[Any, ...]:
    """Return torch's settings of the precision of matrix products."""
    return tuple(getattr(place, name) for place, name in _places())


def resolution(device: torch.device, dtype: torch.dtype) -> float:
    """Return how exactly a model computes at best: the relative distance of its numbers, products included."""
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    rounded = device.type == "cuda" and dtype == torch.float32 and any(map(_rounds, rounding()))
    return 2.0**-10 if rounded else torch.finfo(dtype).eps


def _rounds(setting: Any) -> bool:
    return setting is True or setting == "tf32"


def _places() -> tuple[tuple[Any, str], ...]:
    backends: Any = torch.backends
    if hasattr(backends.cudnn, "rnn"):  # since torch 2.9, where reading the older names may fail
        places = (backends.cuda.matmul, backends.cudnn.rnn, backends.cudnn.conv)
        return tuple((place, "fp32_precision") for place in places)
    return (backends.cuda.matmul, "allow_tf32"), (backends.cudnn, "allow_tf32")


def _products() -> tuple[tuple[Any, str], ...]:
    backends: Any = torch.backends
    if hasattr(backends.cudnn, "rnn"):
        return (backends.cuda.matmul, "fp32_precision"), (backends.mkldnn.matmul, "fp32_precision")
    return ((backends.cuda.matmul, "allow_tf32"),)
