"""What a run has done: every commit is a version that lists files, and a reader names one; ids that come twice.

``_tempograd/versions/000000000001.json`` holds what a commit added and removed, and can be made once, so that two
drivers never make the same one. ``_tempograd/whole/`` holds all entries of a version now and then, so that neither
a commit nor a reader gets slower with the number of commits. A worker leaves what it has finished in
``_tempograd/staged/``; from there it is committed, also after a driver was killed.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.store import VERSIONS, Files, Store
from tempograd.core.errors import DataError, InputError, arg, brief, listed
from tempograd.data.files import OWN, arrow
from tempograd.data.fragments import TWO_KINDS, Fragment

WHOLE, STAGED, RETIRED = (f"{OWN}/{name}" for name in ("whole", "staged", "retired"))
EVERY, SHARE = 100, 0.1  # commits, and share of the entries, after which all entries are written


@dataclass(frozen=True)
class Entry:
    """A finished fragment: its files, and what can be added up over them.

    Attributes
    ----------
    fragment : Fragment
        What it was made from.
    files : dict of str to (int, float)
        Size and time of each file, by names.
    counts : dict of str to int
        What :func:`tempograd.bulk.table.as_tables` counts.
    warnings : dict of str to int
        How often each was given.
    seconds : float
        That it took.
    made : dict of str to str
        Device, versions, and whether ids are "numbers" or "texts".
    """

    fragment: Fragment
    files: Files
    counts: dict[str, int]
    warnings: dict[str, int]
    seconds: float
    made: dict[str, str]

    @property
    def name(self) -> str:
        """The name of its fragment."""
        return self.fragment.name

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size for size, _ in self.files.values())

    def of(self, table: str) -> list[str]:
        """Return the names of the files of a table."""
        return [name for name in self.files if name.startswith(f"{table}/")]

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        return vars(self) | {"fragment": self.fragment.plain}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Entry":
        """Return what :attr:`plain` was."""
        files = {name: (size, when) for name, (size, when) in plain["files"].items()}
        return cls(**{**plain, "fragment": Fragment.from_plain(plain["fragment"]), "files": files})

    def checked(self, store: Store, listed: Files) -> "Entry | None":
        """Return the entry if its files are whole, None if one is lost or damaged.

        A file that was touched since is read once, with the checksums of its pages.
        """
        found = {name: listed.get(name, (-1, 0.0)) for name in self.files}
        touched = [name for name in found if found[name] != self.files[name]]
        whole = all(found[name][0] == self.files[name][0] and is_readable(store.path(name)) for name in touched)
        return replace(self, files=found) if whole else None


class Manifest:
    """The entries of a version of a run, by default the last one."""

    def __init__(self, store: Store, version: int | None = None) -> None:
        self.store, self.wanted = store, version
        self.version = self.whole = 0
        self.entries: dict[str, Entry] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the versions that others have made since."""
        numbers = _numbers(self.store.files(VERSIONS))
        last = max(numbers, default=0)
        if self.wanted is not None and not 0 <= self.wanted <= last:
            raise InputError(f"The run has no version {self.wanted}: the last one is {last}.")
        last = last if self.wanted is None else self.wanted
        wholes = (number for number in _numbers(self.store.files(WHOLE)) if self.version < number <= last)
        found = self.store.load(f"{WHOLE}/{(whole := max(wholes, default=0)):012}.json")
        if found is not None:
            self.entries = {entry.name: entry for entry in map(Entry.from_plain, found)}
            self.version = self.whole = whole
        while self.version < last:
            name = f"{VERSIONS}/{self.version + 1:012}.json"
            found = self.store.load(name)
            if found is None:
                raise DataError(f"{self.store.address(name)} is lost or damaged: name another folder for the run.")
            self._apply(found)

    def _apply(self, change: Mapping[str, Any]) -> None:
        for name in change["removed"]:
            self.entries.pop(name, None)
        self.entries |= {entry.name: entry for entry in map(Entry.from_plain, change["added"])}
        self.version += 1

    def commit(self, added: Iterable[Entry], removed: Iterable[str] = ()) -> None:
        """Make a version with these entries and without those; what somebody else has committed stays as it is."""
        new, old = {entry.name: entry for entry in added}, set(removed)
        gone: dict[str, Entry] = {}
        while True:
            known = [entry for name, entry in new.items() if self.entries.get(name) != entry]
            here = old & self.entries.keys()
            gone |= {name: self.entries[name] for name in here}
            if not known and not here:
                break
            parts = {"added": [entry.plain for entry in known], "removed": sorted(here)}
            change = {"version": self.version + 1, "time": time.time(), **parts}
            if self.store.create(f"{VERSIONS}/{self.version + 1:012}.json", change):
                self._apply(change)
                break
            self.refresh()
        for name in new:
            self.store.delete(f"{STAGED}/{name}.json")
        kept = {name for entry in self.entries.values() for name in entry.files} if gone else set()
        for name in (name for entry in gone.values() for name in entry.files if name not in kept):
            self.store.move(name, f"{RETIRED}/{name}")  # where readers of earlier versions find it
        if self.version - self.whole >= max(EVERY, SHARE * len(self.entries)):
            self.whole = self.version
            content = [entry.plain for entry in self.entries.values()]
            self.store.write(f"{WHOLE}/{self.version:012}.json", content)

    def files(self, table: str) -> list[str]:
        """Return the names of the files of a table, where they are now."""
        names = sorted(name for entry in self.entries.values() for name in entry.of(table))
        aside = self.store.files(f"{RETIRED}/{table}")
        there = self.store.files(table) if aside else {}
        moved = {name for name in names if name not in there and f"{RETIRED}/{name}" in aside}
        return [f"{RETIRED}/{name}" if name in moved else name for name in names]

    def adopt(self, wanted: Collection[str]) -> list[Entry]:
        """Return what workers have finished and no driver has committed; what nobody wants is forgotten."""
        staged = [Entry.from_plain(plain) for plain in map(self.store.load, self.store.files(STAGED)) if plain]
        taken = {entry.name: entry for entry in staged if entry.name in wanted and entry.name not in self.entries}
        for entry in staged:
            if entry.name not in taken:  # or a worker would take it for what it is asked for
                self.store.delete(f"{STAGED}/{entry.name}.json")
        return [*taken.values()]


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(Path(name).stem) for name in names if Path(name).stem.isdecimal()]


# Reading results


def read_results(store: Store, entry: Entry, table: str, columns: list[str] | None = None) -> Any:
    """Return a table of a fragment, or columns of it."""
    return arrow().concat_tables([_read_file(store, name, columns) for name in entry.of(table)])


def _read_file(store: Store, name: str, columns: list[str] | None) -> Any:
    """Return a file of results, or of earlier ones that were put aside since."""
    options: dict[str, Any] = {"columns": columns, "filesystem": store.fs, "use_threads": False}
    try:
        return arrow().parquet.read_table(store.path(name), partitioning=None, **options)
    except FileNotFoundError:
        return arrow().parquet.read_table(store.path(f"{RETIRED}/{name}"), partitioning=None, **options)


def is_readable(path: str) -> bool:
    """Tell whether a Parquet file of this machine is whole, by reading all of it."""
    try:
        arrow().parquet.read_table(path, partitioning=None, page_checksum_verification=True)
    except (OSError, ValueError, arrow().ArrowException):
        return False
    return True


# Ids that occur in two files of results


def refuse_repeats(store: Store, entries: Collection[Entry]) -> None:
    """Refuse results of which two fragments have the same id, or one numbers for ids and another texts.

    Their keys are sorted in a file, so that memory does not grow with the run.
    """
    refuse_two_kinds(entries)
    if len(entries) < 2:
        return
    with store.scratch() as folder:
        keys = np.memmap(folder / "keys", np.int64, "w+", shape=sum(entry.counts["series"] for entry in entries))
        end = 0
        for entry in entries:
            own = keys_of(store, entry)
            keys[end : end + len(own)] = own
            end += len(own)
        keys[:end].sort()
        twice = np.flatnonzero(keys[1:end] == keys[: end - 1])
        if len(twice):
            part = f"a folder's column can be part of it, as {arg:source.id=day,machine}"
            ways = "What is done stays: start again when files have other ids, or name a new folder"
            told = repeat(store, entries, int(keys[twice[0]]))
            raise DataError(f"{told}: results are found by ids, so give every series its own; {part}. {ways}.")


def refuse_two_kinds(entries: Iterable[Entry]) -> None:
    """Refuse whole numbers for ids in one file of results and texts in another."""
    first = {entry.made["ids"]: entry.fragment.pieces[0].origin for entry in reversed([*entries])}
    if len(first) == 2:
        raise DataError(TWO_KINDS.format(first["numbers"], first["texts"]))


def repeat(store: Store, entries: Iterable[Entry], key: int) -> str:
    """Say which id occurs more than once, and which files of the source have it."""
    here, origins, called = arrow().compute.field("key") == key, set[str](), None
    for entry in (entry for entry in entries if key in keys_of(store, entry)):
        rows = read_results(store, entry, "summary", ["id", "key", "source"]).filter(here)
        origins |= set(rows.column("source").to_pylist())
        called = rows.column("id")[0].as_py()
    return f"The id {brief(called)} occurs more than once ({listed(sorted(origins))})"


def keys_of(store: Store, entry: Entry) -> NDArray[np.int64]:
    """Return the distinct keys of a fragment: what is twice in one is a fault there."""
    return np.unique(read_results(store, entry, "summary", ["key"]).column("key").to_numpy())
