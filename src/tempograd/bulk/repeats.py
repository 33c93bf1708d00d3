"""Ids that occur in two files of results, found in memory that does not grow with the run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.table import read_footer
from tempograd.core.errors import DataError, brief, listed, short_path
from tempograd.data.files import arrow
from tempograd.data.fragments import TWO_KINDS

AT_ONCE = 1 << 22  # keys that are held at a time: beyond, files are read several times
ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads ids that have a common divisor evenly


def refuse_repeats(paths: Sequence[Path], rows: int) -> None:
    """Refuse results of which two files have the same id, or one numbers for ids and another texts."""
    refuse_two_kinds(paths)
    key = repeated_key(paths, rows)
    if key is not None:
        raise refusal(paths, key)


def refuse_two_kinds(paths: Iterable[Path]) -> None:
    """Refuse whole numbers for ids in one file of results and texts in another."""
    first: dict[bool, Path] = {}
    for path in paths:
        first.setdefault(has_numbers(path), path)
    if len(first) == 2:
        raise DataError(TWO_KINDS.format(*(short_path(_origin(first[whole])) for whole in (True, False))))


def repeated_key(paths: Sequence[Path], rows: int) -> int | None:
    """Return a key that two files have, None if all differ; no file is compared with itself."""
    passes = max(1, -(-rows // AT_ONCE))
    for number in range(passes if len(paths) > 1 else 0):
        keys = np.concatenate([keys_of(path, number, passes) for path in paths])
        keys.sort()
        twice = keys[1:][keys[1:] == keys[:-1]]
        if len(twice):
            return int(twice[0])
    return None


def refusal(paths: Sequence[Path], key: int) -> DataError:
    """Say which series is in which files, and what to do about it."""
    return DataError(
        f"{told(paths, key)}: results are found by ids, so give every series one of its own. What is done stays: "
        "change the ids of one file and start the run again, or leave a file out and name a new folder."
    )


def told(paths: Sequence[Path], key: int) -> str:
    """Say which id occurs more than once, and which files of the source have it."""
    files = [path for path in paths if key in keys_of(path)]
    origins = sorted(set(map(_origin, files)))
    where = listed([short_path(name) for name in origins])
    return f"The id {brief(_id_of(files[0], key))} occurs more than once ({where})"


def _origin(path: Path) -> str:
    return str(read_footer(str(path)).get("fragment", {}).get("origin", path.name))


def keys_of(path: Path, number: int = 0, passes: int = 1) -> NDArray[np.int64]:
    """Return the distinct keys of a file, or those of one pass: what is twice in one fragment is a fault there."""
    keys = np.asarray(_read(path, ["key"]).column("key").to_numpy(), dtype=np.int64)
    return np.unique(keys if passes == 1 else keys[_part(keys, passes) == number])


def _part(keys: NDArray[np.int64], count: int) -> NDArray[np.uint64]:
    mixed = (keys.astype(np.uint64) * ODD) >> np.uint64(32)
    return np.asarray(mixed % np.uint64(count))


def _id_of(path: Path, key: int) -> Any:
    rows = _read(path, ["id", "key"])
    place = int(np.flatnonzero(np.asarray(rows.column("key")) == key)[0])
    return rows.column("id")[place].as_py()


def _read(path: Path, columns: list[str]) -> Any:
    return arrow().parquet.read_table(str(path), columns=columns, use_threads=False, partitioning=None)


def has_numbers(path: Path) -> bool:
    """Tell whether a file of results has whole numbers for ids, and not texts."""
    pa = arrow()
    return bool(pa.types.is_integer(pa.parquet.read_schema(str(path)).field("id").type))
