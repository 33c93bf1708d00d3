"""What a run has done: every commit is a version that lists files, and a reader names one.

``_tempograd/versions/000000000001.json`` holds what a commit added and removed, and can be made once, so that two
drivers never make the same one. ``_tempograd/whole/`` holds all entries of a version now and then, so that neither
a commit nor a reader gets slower with the number of commits. A worker leaves what it has finished in
``_tempograd/staged/``; from there it is committed, also after a driver was killed.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tempograd.bulk.store import Store
from tempograd.bulk.table import Totals, is_readable
from tempograd.core.errors import DataError, InputError
from tempograd.data.files import OWN
from tempograd.data.fragments import Fragment

VERSIONS, WHOLE, STAGED, RETIRED = (f"{OWN}/{name}" for name in ("versions", "whole", "staged", "retired"))
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
    totals : Totals
        Sums over its series.
    warnings : dict of str to int
        How often each was given.
    first_fault : str
        Of a series without an explanation.
    seconds : float
        That it took.
    made : dict of str to str
        Device, versions, and whether ids are "numbers" or "texts".
    """

    fragment: Fragment
    files: dict[str, tuple[int, float]]
    totals: Totals
    warnings: dict[str, int]
    first_fault: str
    seconds: float
    made: dict[str, str]

    @property
    def name(self) -> str:
        """The name of its fragment."""
        return self.fragment.name

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        own = {name: value for name, value in vars(self).items() if name not in {"fragment", "totals"}}
        return {"fragment": self.fragment.plain, "totals": asdict(self.totals), **own}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Entry":
        """Return what :attr:`plain` was."""
        files = {name: (size, time_) for name, (size, time_) in plain["files"].items()}
        fragment, totals = Fragment.from_plain(plain["fragment"]), Totals(**plain["totals"])
        return cls(**{**plain, "fragment": fragment, "totals": totals, "files": files})

    def checked(self, store: Store, listed: Mapping[str, tuple[int, float]]) -> "Entry | None":
        """Return the entry if its files are whole, None if one is lost or damaged.

        A file that was touched since is read once, with the checksums of its pages.
        """
        files = dict(self.files)
        for name, (size, when) in self.files.items():
            found = listed.get(name)
            if found is None or found[0] != size:
                return None
            if found[1] != when and not is_readable(store.path(name)):
                return None
            files[name] = found
        return replace(self, files=files)


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
        wholes = [number for number in _numbers(self.store.files(WHOLE)) if self.version < number <= last]
        for number in sorted(wholes, reverse=True):
            if (found := self.store.load(f"{WHOLE}/{number:012}.json")) is not None:
                self.entries = {entry.name: entry for entry in map(Entry.from_plain, found)}
                self.version = self.whole = number
                break
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
            known = {name: entry for name, entry in new.items() if self.entries.get(name) != entry}
            gone |= {name: self.entries[name] for name in old & self.entries.keys()}
            if not known and not old & self.entries.keys():
                break
            change = {
                "version": self.version + 1,
                "time": time.time(),
                "added": [entry.plain for entry in known.values()],
                "removed": sorted(old & self.entries.keys()),
            }
            if self.store.create(f"{VERSIONS}/{self.version + 1:012}.json", change):
                self._apply(change)
                break
            self.refresh()
        for name in new:
            self.store.delete(f"{STAGED}/{name}.json")
        if gone:
            self._retire(gone.values())
        if self.version - self.whole >= max(EVERY, SHARE * len(self.entries)):
            self.whole = self.version
            content = [entry.plain for entry in self.entries.values()]
            self.store.write(f"{WHOLE}/{self.version:012}.json", content)

    def _retire(self, entries: Iterable[Entry]) -> None:
        """Put files aside that no entry has any more: readers of earlier versions find them there."""
        kept = {name for entry in self.entries.values() for name in entry.files}
        for name in (name for entry in entries for name in entry.files if name not in kept):
            self.store.move(name, f"{RETIRED}/{name}")

    def files(self, table: str, entries: Iterable[Entry] | None = None) -> list[str]:
        """Return the names of the files of a table, where they are now."""
        chosen = self.entries.values() if entries is None else entries
        names = sorted(name for entry in chosen for name in entry.files if name.startswith(f"{table}/"))
        aside = self.store.files(f"{RETIRED}/{table}")
        there = self.store.files(table) if aside else {}
        return [
            f"{RETIRED}/{name}" if name not in there and f"{RETIRED}/{name}" in aside else name for name in names
        ]

    def adopt(self, wanted: Mapping[str, Fragment]) -> list[Entry]:
        """Return what workers have finished and no driver has committed; what nobody wants is forgotten."""
        found = []
        for name in self.store.files(STAGED):
            plain = self.store.load(name)
            if plain is not None and Path(name).stem in wanted.keys() - self.entries.keys():
                found.append(Entry.from_plain(plain))
        return found


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(Path(name).stem) for name in names if Path(name).stem.isdecimal()]
