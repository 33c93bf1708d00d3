"""Reading ``.npy`` files that hold object arrays, and therefore a pickle, without running what it names."""

import re
from pathlib import Path
from pickle import Unpickler
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tempograd.core.errors import DataError, one_line, short_path

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
PLAIN_TYPE = re.compile(r"[iuf][1248]|b1|O8?")  # the types that an array in such a file may have


def read_npy(path: Path) -> NDArray[Any]:
    """Read a ``.npy`` file that need not be trusted; arrays of numbers are mapped from the disk, not copied.

    An array of objects is stored as a pickle, which may name any function and have it called with any
    argument. Here the names that numpy writes lead to stand-ins that only take shape, type and bytes down, and
    every other name is refused: no code named by the file runs, and no state of it reaches numpy's own
    ``__setstate__``, which trusts what it is told about the bytes.

    Parameters
    ----------
    path : path
        A file written by ``np.save``. Arrays of numbers, and arrays of objects that are numbers or such arrays.
    """
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"version {version} of the format holds no plain array")
            shape, _, kind = HEADERS[version](file)
            if kind.kind == "O":
                return _unpickled(file, path, shape)
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can make the unpickler raise anything
        raise DataError(
            f"{short_path(path)} is no array that can be read ({one_line(str(error), 90)}): fetch it again."
        ) from error


def _unpickled(file: IO[bytes], path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    found = _Rebuilder(file, path).load()
    if not isinstance(found, _Array) or found.shape != shape:
        raise ValueError("its header and its contents disagree")
    return found.build()


class _Rebuilder(Unpickler):
    """Hands out stand-ins for what numpy names in a pickled array, and nothing else."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file)
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        stand_in = STAND_INS.get((module.replace("numpy._core", "numpy.core"), name))
        if stand_in is None:
            wanted = one_line(f"{module}.{name}", 60)
            raise DataError(
                f"{short_path(self.path)} asks for {wanted}, but only plain numpy arrays are read from it: "
                "nothing was run, and the file is not to be trusted."
            )
        return stand_in


class _Type:
    """Stands in for ``numpy.dtype``: a plain type and its byte order."""

    def __init__(self, code: str, *_: bool) -> None:
        if not PLAIN_TYPE.fullmatch(code):
            raise ValueError(f"arrays of type {code!r} are not read")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands in for ``numpy.ndarray``: takes the state down, and builds the array from checked parts."""

    shape: tuple[int, ...] = ()
    kind: _Type
    fortran: bool
    contents: Any

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.kind, self.fortran, self.contents = state

    def build(self) -> NDArray[Any]:
        if self.kind.dtype.kind != "O":
            plain = np.frombuffer(self.contents, self.kind.dtype)
            return plain.reshape(self.shape, order="F" if self.fortran else "C")
        cells = np.empty(len(self.contents), dtype=object)
        for index, cell in enumerate(self.contents):
            cells[index] = cell.build() if isinstance(cell, _Array) else cell
        return cells.reshape(self.shape)  # numpy lists objects in C order, whatever the array's own


class _Reconstruct:
    """Stands in for the function that makes the empty array which a state is then given to."""

    __slots__ = ()  # so that a pickle cannot give it attributes

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _Scalar:
    """Stands in for the function that makes one number of a numpy type."""

    __slots__ = ()

    def __call__(self, kind: _Type, contents: bytes) -> Any:
        return np.frombuffer(contents, kind.dtype)[0]


STAND_INS: dict[tuple[str, str], object] = {  # numpy 2 calls numpy.core numpy._core
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy.core.multiarray", "scalar"): _Scalar(),
}
