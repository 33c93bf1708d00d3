"""Arrays in every form that people, libraries and accidents give them; each tells which numbers it stands for."""

import decimal
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

EXACT = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0)  # the same in every kind of float, of 8 bits too


class Odd(NamedTuple):
    """A value in some form."""

    name: str
    value: Any
    meaning: Any  # the float64 numbers it stands for; None where it stands for none and must be refused
    certain: bool = False  # whether it must be accepted wherever floats are


class Subclass(torch.Tensor):
    """A tensor of a library that gives it another name."""


class Array(np.ndarray):
    """An array of a library that gives it another name."""


class Foreign:
    """An array of another library: nothing but a way to become one of numpy."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.numbers, dtype)


class Cube:
    """What labelled arrays and frames have."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def to_numpy(self) -> Any:
        return self.numbers


class Raises:
    """An array that cannot be one."""

    shape = (2, 2)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise OSError("the line is dead\nand so is the other one")

    def __repr__(self) -> str:
        raise ValueError("no words")


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float64 numbers that every kind of float holds exactly."""
    return rng.choice(EXACT, size=shape)


def of_floats(given: np.ndarray) -> Iterator[Odd]:
    """Yield the same float64 numbers in forms of numpy, torch and others."""
    for name, form in {**NUMPY_FLOATS, **TORCH_FLOATS, **OTHERS}.items():
        yield Odd(name, form(given), given, certain=True)
    for name, form in {**LOSING, **LISTS}.items():
        yield Odd(name, form(given), given)
    for name, form in REFUSED.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # prototypes say that they are
            yield Odd(name, form(given), None)


def of_integers(given: np.ndarray) -> Iterator[Odd]:
    """Yield the same int64 numbers, of which none is negative, in many forms; all of them must be accepted."""
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u2", ">i8"):
        yield Odd(f"numpy {kind}", given.astype(kind), given, certain=True)
    for kind in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"):
        yield Odd(f"torch {kind}", torch.from_numpy(given).to(getattr(torch, kind)), given, certain=True)
    yield Odd("numpy backwards", given[::-1].copy()[::-1], given, certain=True)
    yield Odd("list", given.tolist(), given, certain=True)
    yield Odd("tuple", tuple(given.tolist()), given, certain=True)
    yield Odd("list of numpy", list(given), given, certain=True)
    yield Odd("list of tensors", [torch.tensor(int(part)) for part in given], given, certain=True)
    yield Odd("pandas", pd.Series(given), given, certain=True)
    yield Odd("foreign", Foreign(given), given, certain=True)
    for name, form in {**REFUSED, **NOT_WHOLE}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield Odd(name, form(given.astype(np.float64)), None)


def of_nothing() -> Iterator[Odd]:
    """Yield what is no array at all."""
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = [1.0]
    for _ in range(2000):
        deep = [deep]
    things = {
        "text": "abc",
        "long text": "line\n" * 1000,
        "bytes": b"abc",
        "dict": {"a": 1},
        "set": {1, 2},
        "generator": (part for part in (1, 2)),
        "ellipsis": ...,
        "function": len,
        "class": torch.Tensor,
        "module": torch,
        "object": object(),
        "raises": Raises(),
        "decimal": decimal.Decimal(1),
        "complex": 1j,
        "endless list": endless,
        "deep list": deep,
        "ragged list": [[1.0, 2.0], [3.0]],
        "list of texts": ["a", "b"],
        "list of nothing": [None, None],
        "list of lists": [[[[[1.0]]]]],
        "huge integer": 10**400,
        "list of huge integers": [10**400, 1],
        "NaT": np.datetime64("NaT"),
        "wrong array": Cube("abc"),
        "wrong to_numpy": Foreign,
    }
    for name, value in things.items():
        yield Odd(name, value, None)


Form = Callable[[np.ndarray], Any]


def _unaligned(given: np.ndarray) -> np.ndarray:
    records = np.zeros(given.shape, dtype=[("flag", "u1"), ("x", "f8")])
    records["x"] = given
    return records["x"]


def _read_only(given: np.ndarray) -> np.ndarray:
    given = given.copy()
    given.flags.writeable = False
    return given


NUMPY_FLOATS: dict[str, Form] = {
    **{f"numpy {kind}": lambda a, kind=kind: a.astype(kind) for kind in ("f2", "f4", "f8", ">f2", ">f4", ">f8")},
    "numpy backwards": lambda a: a[::-1].copy()[::-1],
    "numpy last axis backwards": lambda a: a[..., ::-1].astype("f4")[..., ::-1],
    "numpy backwards, other order": lambda a: a[::-1].astype(">f4")[::-1],
    "numpy Fortran": np.asfortranarray,
    "numpy every other": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "numpy unaligned": _unaligned,
    "numpy long double": lambda a: a.astype(np.longdouble),
    "numpy read-only": _read_only,
    "numpy subclass": lambda a: a.view(Array),
    "numpy broadcast": lambda a: np.broadcast_to(a, a.shape),
}
TORCH_FLOATS: dict[str, Form] = {
    **{
        f"torch {kind}": lambda a, kind=kind: torch.from_numpy(a).to(getattr(torch, kind))
        for kind in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
    },
    "torch with gradient": lambda a: torch.from_numpy(a).float().requires_grad_(),
    "torch parameter": lambda a: torch.nn.Parameter(torch.from_numpy(a).float()),
    "torch inside a graph": lambda a: torch.from_numpy(a).float().requires_grad_() * 1,
    "torch subclass": lambda a: torch.from_numpy(a).float().as_subclass(Subclass),
    "torch transposed": lambda a: torch.from_numpy(a.T.copy()).float().permute(*range(a.ndim - 1, -1, -1)),
    "torch negative view": lambda a: torch.complex(torch.zeros(a.shape), -torch.from_numpy(a).float()).conj().imag,
}
OTHERS: dict[str, Form] = {
    "foreign": Foreign,
    "labelled": Cube,
    "foreign float16": lambda a: Foreign(a.astype("f2")),
}
LISTS: dict[str, Form] = {
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "list of arrays": list,
    "list of tensors": lambda a: list(torch.from_numpy(a)),
}
LOSING: dict[str, Form] = {"pandas": lambda a: pd.DataFrame(a.reshape(len(a), -1))}
REFUSED: dict[str, Form] = {
    "numpy object": lambda a: a.astype(object),
    "numpy text": lambda a: a.astype(str),
    "numpy bytes": lambda a: a.astype("S5"),
    "numpy records": lambda a: np.zeros(a.shape, dtype=[("a", "f4"), ("b", "f4")]),
    "numpy dates": lambda a: a.astype(np.int64).astype("M8[s]"),
    "numpy durations": lambda a: a.astype(np.int64).astype("m8[s]"),
    "numpy complex": lambda a: a.astype(np.complex64),
    "numpy masked": lambda a: np.ma.masked_greater(a, 0.6),
    "numpy NaN": lambda a: np.where(a == a.flat[0], np.nan, a),
    "numpy infinity": lambda a: np.where(a == a.flat[0], np.inf, a),
    "torch complex": lambda a: torch.from_numpy(a).to(torch.complex64),
    "torch sparse": lambda a: torch.from_numpy(a).float().to_sparse(),
    "torch sparse rows": lambda a: torch.from_numpy(a.reshape(len(a), -1)).float().to_sparse_csr(),
    "torch nested": lambda a: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "torch ragged": lambda a: torch.nested.nested_tensor([torch.ones(2, 2)] * 2, layout=torch.jagged),
    "torch meta": lambda a: torch.from_numpy(a).float().to("meta"),
    "torch fake": lambda a: FakeTensorMode(allow_non_fake_inputs=True).from_tensor(torch.from_numpy(a).float()),
    "torch quantised": lambda a: torch.quantize_per_tensor(torch.from_numpy(a).float(), 0.5, 8, torch.quint8),
    "torch masked": lambda a: torch.masked.as_masked_tensor(torch.from_numpy(a), torch.from_numpy(a) > 0),
    "pandas objects": lambda a: pd.Series(["a"] * len(np.atleast_1d(a))),
    "pandas nothing": lambda a: pd.array([1, None] * len(np.atleast_1d(a)), dtype="Int64"),
    "a part is masked": lambda a: [np.ma.masked, *[0.0] * (len(np.atleast_1d(a)) - 1)],
}
NOT_WHOLE: dict[str, Form] = {
    "floats": lambda a: a,
    "float list": lambda a: a.tolist(),
    "bool": lambda a: a > 0,
    "torch floats": lambda a: torch.from_numpy(a).float(),
    "beyond 64 bits": lambda a: np.full(a.shape, 2**64 - 1, np.uint64),
    "nothing": lambda a: a[:0],
    "two axes": lambda a: a[:, None].astype(np.int64)[:, [0, 0]],
}
