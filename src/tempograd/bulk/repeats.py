"""Ids that occur in two files of results, found in memory that does not grow with the run."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.manifest import RETIRED, Entry, Manifest
from tempograd.bulk.store import Store
from tempograd.core.errors import DataError, arg, brief, listed
from tempograd.data.files import arrow
from tempograd.data.fragments import TWO_KINDS

AT_ONCE = 1 << 22  # keys that are held at a time: beyond, files are read several times
ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads ids that have a common divisor evenly


def refuse_repeats(manifest: Manifest) -> None:
    """Refuse results of which two fragments have the same id, or one numbers for ids and another texts."""
    entries = list(manifest.entries.values())
    refuse_two_kinds(entries)
    passes = max(1, -(-sum(entry.totals.rows for entry in entries) // AT_ONCE))
    for number in range(passes if len(entries) > 1 else 0):
        keys = np.concatenate([keys_of(manifest.store, entry, number, passes) for entry in entries])
        keys.sort()
        twice = keys[1:][keys[1:] == keys[:-1]]
        if len(twice):
            raise refusal(manifest.store, entries, int(twice[0]))


def refuse_two_kinds(entries: Iterable[Entry]) -> None:
    """Refuse whole numbers for ids in one file of results and texts in another."""
    first: dict[str, str] = {}
    for entry in entries:
        first.setdefault(entry.made["ids"], entry.fragment.pieces[0].origin)
    if len(first) == 2:
        raise DataError(TWO_KINDS.format(first["numbers"], first["texts"]))


def refusal(store: Store, entries: Sequence[Entry], key: int) -> DataError:
    """Say which series is in which files, and what to do about it."""
    return DataError(
        f"{told(store, entries, key)}: results are found by ids, so give every series one of its own; a folder's "
        f"column can be part of it, as {arg:source.id=day,machine}. What is done stays: start again when files "
        "have other ids, or name a new folder."
    )


def told(store: Store, entries: Sequence[Entry], key: int) -> str:
    """Say which id occurs more than once, and which files of the source have it."""
    pa, origins, called = arrow(), set[str](), None
    for entry in (entry for entry in entries if key in keys_of(store, entry)):
        rows = read_summary(store, entry, ["id", "key", "source"])
        rows = rows.filter(pa.compute.equal(rows.column("key"), key))
        origins |= set(rows.column("source").to_pylist())
        called = rows.column("id")[0].as_py()
    return f"The id {brief(called)} occurs more than once ({listed(sorted(origins))})"


def keys_of(store: Store, entry: Entry, number: int = 0, passes: int = 1) -> NDArray[np.int64]:
    """Return the distinct keys of a file, or those of one pass: what is twice in one fragment is a fault there."""
    keys = np.asarray(read_summary(store, entry, ["key"]).column("key").to_numpy(), dtype=np.int64)
    return np.unique(keys if passes == 1 else keys[_part(keys, passes) == number])


def _part(keys: NDArray[np.int64], count: int) -> NDArray[np.uint64]:
    mixed = (keys.astype(np.uint64) * ODD) >> np.uint64(32)
    return np.asarray(mixed % np.uint64(count))


def read_summary(store: Store, entry: Entry, columns: list[str]) -> Any:
    """Return columns of the summary of a fragment."""
    pa = arrow()
    names = [name for name in entry.files if name.startswith("summary/")]
    if not names:
        return pa.table({name: pa.array([], pa.int64()) for name in columns})
    return pa.concat_tables([read_rows(store, name, columns=columns, use_threads=False) for name in names])


def read_rows(store: Store, name: str, **options: Any) -> Any:
    """Return a file of results, or of earlier ones that were put aside since."""
    read, options = arrow().parquet.read_table, options | {"partitioning": None, "filesystem": store.fs}
    try:
        return read(store.path(name), **options)
    except FileNotFoundError:
        return read(store.path(f"{RETIRED}/{name}"), **options)
