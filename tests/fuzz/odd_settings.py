"""Values that settings get by mistake or by way of other libraries."""

import decimal
import fractions
import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from tempograd.explainers import EXPLAINERS

_DEEP: list[Any] = []
for _ in range(5000):
    _DEEP = [_DEEP]
_ENDLESS: dict[str, Any] = {}
_ENDLESS["me"] = _ENDLESS


class Shy:
    """Something that does not want to be seen or compared."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None


VALUES: dict[str, Any] = {
    "0": 0,
    "1": 1,
    "2": 2,
    "3": 3,
    "-1": -1,
    "0.5": 0.5,
    "1.0": 1.0,
    "1.5": 1.5,
    "-0.1": -0.1,
    "1e-9": 1e-9,
    "1e300": 1e300,
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "huge integer": 10**400,
    "minus huge integer": -(10**400),
    "2^63": 2**63,
    "True": True,
    "False": False,
    "None": None,
    "text": "abc",
    "no text": "",
    "long text": "a\n" * 500,
    "number as text": "3",
    "bytes": b"1",
    "list": [1],
    "no list": [],
    "tuple": (0.1, 0.2),
    "list of text": ["A3"],
    "deep list": _DEEP,
    "dict": {"a": 1},
    "endless dict": _ENDLESS,
    "set": {1},
    "numpy float": np.float64(0.5),
    "numpy float32": np.float32(0.5),
    "numpy half": np.float16(0.5),
    "numpy integer": np.int64(3),
    "numpy byte": np.uint8(2),
    "numpy bool": np.bool_(True),
    "numpy NaN": np.float64("nan"),
    "numpy text": np.str_("abc"),
    "numpy array": np.array([1, 2]),
    "numpy one": np.array(1),
    "large array": np.zeros((1000, 1000)),
    "tensor": torch.tensor([1.0, 2.0]),
    "tensor one": torch.tensor(1),
    "large tensor": torch.zeros(1000, 1000),
    "decimal": decimal.Decimal("0.5"),
    "fraction": fractions.Fraction(1, 2),
    "complex": 1j,
    "object": object(),
    "shy": Shy(),
    "function": len,
    "class": int,
    "ellipsis": ...,
}


def settings_of(method: str) -> list[str]:
    """Return the names of the hyper-parameters of a method."""
    return [part.name for part in fields(EXPLAINERS[method]) if not part.metadata.get("fitted")]
