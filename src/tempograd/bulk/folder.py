"""The folder of a run, here or at an address: what it is of, and what went wrong.

``summary/``, ``drivers/`` and ``cells/`` hold Parquet files, ``_tempograd/`` what the run is of and which of these
files count (:mod:`tempograd.bulk.manifest`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tempograd.bulk.store import Store
from tempograd.bulk.table import TABLES
from tempograd.core.errors import DataError, OutputError, brief
from tempograd.data.files import OWN
from tempograd.data.fragments import digest
from tempograd.explanation import Explanation

FAILED, RUN, EXAMPLE = f"{OWN}/failed", f"{OWN}/run.json", f"{OWN}/example.safetensors"
FORMAT = 2  # of the folder and its files
OWN_ERROR = re.compile(r"^tempograd\.[\w.]+: ")
DIFFERENCES = 3  # that a sentence names
TOLD = {"code": "the code of the model, or a value that it holds"}  # its marks help nobody


class RunFolder:
    """A folder that is a run, or can become one."""

    def __init__(self, place: str | Path) -> None:
        self.store = Store(place)
        self.begun_here = False

    @property
    def is_run(self) -> bool:
        """Tell whether a run has begun here."""
        return self.store.exists(RUN)

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Check the folder, and leave nothing behind where the block fails before a run has begun."""
        root = Path(self.store.root)
        with self.store.writing(""):
            new = [each for each in (root, *root.parents) if self.store.fs is None and not each.exists()]
        try:
            self.check()
            yield
        except BaseException:
            if self.begun_here:
                for name in sorted(self.store.files(OWN), key=lambda name: name != RUN):  # that one first
                    self.store.delete(name)
            if self.store.fs is None and not self.is_run:
                for folder in (root / OWN, *new):
                    with suppress(OSError):  # not empty: somebody else's
                        folder.rmdir()
            raise

    def check(self) -> None:
        """Refuse a folder that is neither new nor empty nor a run, or that cannot be written to."""
        self.store.check()
        if not self.is_run and any(not each.startswith(OWN) for each in self.store.names()):
            raise OutputError(f"{self.store} holds other files and no run: name a new or an empty folder.")

    def begin(self, facts: Mapping[str, Any], more: Mapping[str, Any], example: Explanation) -> str:
        """Begin a run, or go on with one of the same facts, and return its key; another is refused.

        ``more`` goes along and makes no difference.
        """
        key = digest(dict(facts), size=16)
        content = {"tempograd": "run", "format": FORMAT, "key": key, "facts": facts, **more}
        if not self.is_run:
            with self.store.scratch() as folder:
                example.save(folder / "example.safetensors")
                self.store.publish(folder / "example.safetensors", EXAMPLE)
            self.begun_here = self.store.create(RUN, content)
        known = self.read()
        if known["key"] != key:
            raise DataError(
                f"{self.store} holds results of another run, which differs in "
                f"{_differences(known['facts'], json.loads(json.dumps(facts)))}: name another folder.",
                code="run.other",
            )
        return key

    def read(self) -> dict[str, Any]:
        """Return what the run is of."""
        try:
            found = json.loads(self.store.read(RUN))
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(f"{self.store} is no run: name a folder that a run over a data set wrote.") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{self.store.address(RUN)} cannot be read: {brief(str(error))}.") from error
        if not isinstance(found, dict) or found.get("tempograd") != "run" or found.get("format") != FORMAT:
            raise DataError(f"{self.store.address(RUN)} is of no run that this version of tempograd knows.")
        return found

    def example(self) -> Explanation:
        """Return the explanation of the first two series, which tells what all series share."""
        with self.store.scratch() as folder:
            return Explanation.load(self.store.local(EXAMPLE, folder))

    def results(self) -> dict[str, tuple[int, float]]:
        """Return size and time of every file of results."""
        return {name: told for table in TABLES for name, told in self.store.files(table).items()}

    def note_failure(self, where: str, text: str) -> None:
        """Write down why a file, or some of them, has no results."""
        self.store.write(f"{FAILED}/{digest(where)}.json", {"where": where, "error": text})

    def failures(self) -> dict[str, str]:
        """Return why files failed, by what messages call them."""
        notes = [self.store.load(name) for name in self.store.files(FAILED)]
        return {str(note["where"]): str(note["error"]) for note in notes if note}

    def forget_failures(self) -> None:
        """Let everything that failed be tried again."""
        for name in self.store.files(FAILED):
            self.store.delete(name)


def kept_reason(text: str) -> str:
    r"""Return the reason at the end of a traceback; errors of this library say all in their sentence.

    Examples
    --------
    >>> kept_reason("Traceback …\n  File …\ntempograd.core.errors.DataError: q.csv holds no series.\n")
    'q.csv holds no series.'
    >>> kept_reason("Traceback …\nRuntimeError: the cable is loose\n")
    'RuntimeError: the cable is loose'
    """
    return OWN_ERROR.sub("", text.strip().rpartition("\n")[2])


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say in which facts two runs differ, and how."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    told = []
    for name in names:
        one, two = old.get(name), new.get(name)
        if isinstance(one, dict) and isinstance(two, dict):
            inner = [each for each in {**one, **two} if one.get(each) != two.get(each)]
            told += [f"{each} ({brief(one.get(each))} there, {brief(two.get(each))} here)" for each in inner]
        else:
            told.append(TOLD.get(name) or f"{name} ({brief(one)} there, {brief(two)} here)")
    rest = f" and {len(told) - DIFFERENCES} more" if len(told) > DIFFERENCES else ""
    return ", ".join(told[:DIFFERENCES]) + rest
