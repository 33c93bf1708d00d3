"""Arrays and a header as one compressed text that a browser unpacks.

The layout, before gzip and base64: four bytes with the length of the header (little-endian), the header as JSON,
padded so that what follows starts at a multiple of eight, and the arrays, each at a multiple of eight.
Scores are only looked at, so they are stored in 16 bits: a score as a multiple of 1/32767 of the largest of its
series, the half-width of an interval on a logarithmic scale with steps of 0.03 %. Tables are exact.
"""

import base64
import gzip
import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.html_report.records import Floats

STEPS = 32767
UNKNOWN = 65535  # the code of an infinite half-width
DECADES = 9  # below 1e-9 of the largest half-width of a series the error is shown as 0
TYPES = {"float32", "int16", "uint8", "uint16", "uint32"}


class Pack:
    """Collects arrays; :meth:`text` writes them with the header."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[Any]) -> dict[str, Any]:
        """Keep an array and return where the browser finds it."""
        kind = str(array.dtype)
        if kind not in TYPES:
            raise TypeError(f"The page reads {', '.join(sorted(TYPES))}, not {kind}.")
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        place = {"at": self._size, "length": array.size, "type": kind}
        padded = raw + bytes(-len(raw) % 8)
        self._parts.append(padded)
        self._size += len(padded)
        return place

    def text(self, header: dict[str, Any]) -> str:
        """Return header and arrays as one base64 text; the same content gives the same text."""
        head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        head += b" " * (-(len(head) + 4) % 8)
        return compressed(struct.pack("<I", len(head)) + head + b"".join(self._parts))


def compressed(content: bytes) -> str:
    """Return content as gzip in base64, without a date."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def quantised(values: Floats) -> tuple[NDArray[np.int16], Floats]:
    """Return scores as whole multiples of a step, and the step of each series.

    Examples
    --------
    >>> whole, step = quantised(np.array([[0.5, -1.0]], dtype=np.float32))
    >>> whole, bool(np.allclose(whole * step[:, None], [[0.5, -1.0]], atol=1 / STEPS))
    (array([[ 16384, -32767]], dtype=int16), True)
    """
    axes = tuple(range(1, values.ndim))
    step = (np.abs(values).max(axis=axes, initial=0) / STEPS).astype(np.float32)
    safe = np.where(step > 0, step, 1).reshape(-1, *[1] * len(axes))
    return np.rint(values / safe).astype(np.int16), step


def coded(half: Floats) -> tuple[NDArray[np.uint16], Floats]:
    """Return half-widths as codes, 0 for none and 65535 for unknown, and the largest of each series.

    A code c between stands for largest · 10^(9 (c - 65534) / 65533).

    Examples
    --------
    >>> code, largest = coded(np.array([[2.0, 0.0, np.inf, 0.02]], dtype=np.float32))
    >>> code[0, :3], largest, round(float(2.0 * 10 ** (9 * (int(code[0, 3]) - 65534) / 65533)), 5)
    (array([65534,     0, 65535], dtype=uint16), array([2.], dtype=float32), 0.02)
    """
    axes = tuple(range(1, half.ndim))
    known = np.isfinite(half)
    largest = np.where(known, half, 0).max(axis=axes, initial=0).astype(np.float32)
    shaped = np.where(largest > 0, largest, 1).reshape(-1, *[1] * len(axes))
    share = np.where(known & (half > 0), half / shaped, 1).astype(np.float64)
    code = np.rint(65534 + np.log10(share) * 65533 / DECADES)
    code = np.where(known & (half > 0), np.clip(code, 0, 65534), 0)
    return np.where(known, code, UNKNOWN).astype(np.uint16), largest


def bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return flags as bits, the first in the lowest bit of the first byte."""
    return np.packbits(flags.ravel(), bitorder="little")
