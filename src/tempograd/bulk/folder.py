"""The folder of a run: what it is of, what is done, and how a file of results comes into it.

``data/`` holds one Parquet file per fragment, each written where nobody sees it, synced and renamed, so that a
listing of names is all there is to know of what is done. ``_tempograd/`` holds what the run is of.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tempograd.bulk.table import read_footer
from tempograd.core.errors import DataError, OutputError, brief, short_path, warn
from tempograd.core.io import as_path, made, reason, scratch, write_atomically
from tempograd.data.files import OWN, REMOTE
from tempograd.data.fragments import Fragment, digest
from tempograd.models.files import exists

DATA, STALE, FAILED = "data", "stale", "failed"
EXAMPLE = "example.safetensors"
FORMAT = 1  # of the folder and its files
ENDING = ".parquet"
OWN_ERROR = re.compile(r"^tempograd\.[\w.]+: ")
DIFFERENCES = 3  # that a sentence names
TOLD = {"code": "the code of the model, or a value that it holds"}  # its marks help nobody


class RunFolder:
    """A folder that is a run, or can become one."""

    def __init__(self, path: str | Path) -> None:
        self.root = as_path(path, "out")
        if REMOTE.match(str(path)):
            raise OutputError(
                f"{short_path(str(path))} is no folder of a file system, where results go: name one, and copy it "
                "there."
            )
        self.own, self.data = self.root / OWN, self.root / DATA
        self.begun_here = False

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFolder, (str(self.root.resolve()),)  # workers elsewhere stand in other folders

    @property
    def is_run(self) -> bool:
        """Tell whether a run has begun here."""
        return exists(self.own / "run.json")

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Check the folder, and leave nothing behind where the block fails before a run has begun."""
        new = [folder for folder in (self.root, *self.root.parents) if not exists(folder)]
        try:
            self.check()
            yield
        except BaseException:
            if self.begun_here and not self.done():
                self._withdraw()
            if not self.is_run:
                for folder in (self.own, self.data, *new):
                    with suppress(OSError):  # not empty: somebody else's
                        folder.rmdir()
            raise

    def check(self) -> None:
        """Refuse a folder that is neither new nor empty nor a run, or that cannot be written to."""
        if exists(self.root) and not self.root.is_dir():
            raise OutputError(f"{short_path(self.root)} is a file: results go to a folder.")
        if exists(self.root) and not self.is_run:
            others = [each.name for each in self.root.iterdir() if each.name not in {OWN, DATA}]
            others += [each.name for each in self.data.glob(f"*{ENDING}")]
            if [name for name in others if not name.startswith(".tempograd-")]:
                raise OutputError(
                    f"{short_path(self.root)} holds other files and no run: name a new or an empty folder."
                )
        for folder in (self.root, self.own, self.data):
            made(folder)

    def begin(self, facts: Mapping[str, Any], more: Mapping[str, Any]) -> str:
        """Begin a run, or go on with one of the same facts, and return its key; another is refused.

        ``more`` goes along and makes no difference.
        """
        key = digest(dict(facts), size=16)
        content = {"tempograd": "run", "format": FORMAT, "key": key, "facts": facts, **more}
        if not self.is_run:
            self._create(json.dumps(content, indent=1))
        known = self.read()
        if known["key"] != key:
            raise DataError(
                f"{short_path(self.root)} holds results of another run, which differs in "
                f"{_differences(known['facts'], json.loads(json.dumps(facts)))}: name another folder.",
                code="run.other",
            )
        return key

    def _create(self, text: str) -> None:
        """Write ``run.json`` if nobody has meanwhile."""
        path = self.own / "run.json"
        try:
            with scratch(self.own) as folder:
                new = folder / "new"
                new.write_text(text, encoding="utf-8")
                with new.open("rb+") as file:
                    os.fsync(file.fileno())
                try:
                    path.hardlink_to(new)
                except FileExistsError:
                    return
                except OSError:  # a file system without links
                    new.replace(path)
                self.begun_here = True
        except OSError as error:
            raise OutputError(f"{short_path(path)} cannot be written: {reason(error)}.") from error

    def _withdraw(self) -> None:
        """Let a run that was begun here, and explained nothing, be none."""
        files = [path for path in self.own.iterdir() if path.is_file()]
        for path in sorted(files, key=lambda path: path.name != "run.json"):  # that one first
            path.unlink(missing_ok=True)

    def read(self) -> dict[str, Any]:
        """Return what the run is of."""
        path = self.own / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise DataError(
                f"{short_path(self.root)} is no run: name a folder that a run over a data set wrote."
            ) from None
        except (OSError, ValueError) as error:
            raise DataError(f"{short_path(path)} cannot be read: {brief(str(error))}.") from error
        if not isinstance(found, dict) or found.get("tempograd") != "run" or found.get("format") != FORMAT:
            raise DataError(f"{short_path(path)} is of no run that this version of tempograd knows.")
        return found

    def write(self, name: str, content: Any) -> None:
        """Write plain data beside what the run is of."""
        write_atomically(self.own / name, lambda path: path.write_text(json.dumps(content), encoding="utf-8"))

    def load(self, name: str) -> Any:
        """Return plain data that :meth:`write` wrote, None if it did not."""
        with suppress(OSError, ValueError):
            return json.loads((self.own / name).read_text(encoding="utf-8"))
        return None

    def path(self, name: str) -> Path:
        """Return where the results of a fragment are, or will be."""
        return self.data / f"{name}{ENDING}"

    def done(self) -> set[str]:
        """Return the names of the fragments whose results are there."""
        with suppress(FileNotFoundError), os.scandir(self.data) as entries:
            return {each.name[: -len(ENDING)] for each in entries if each.name.endswith(ENDING)}
        return set()

    def retire(self, fragments: Iterable[Fragment]) -> list[str]:
        """Put results of earlier versions of these fragments' places and files aside, and return their names."""
        current = {fragment.name: fragment.path for fragment in fragments}
        places, paths = {name.partition("-")[0] for name in current}, set(current.values())
        others = self.done() - current.keys()
        old = sorted(name for name in others if name.partition("-")[0] in places or self._source(name) in paths)
        for name in old:
            with suppress(FileNotFoundError):  # another driver was faster
                self.path(name).replace(made(self.own / STALE) / f"{name}{ENDING}")
        if old:
            files = "1 file" if len(old) == 1 else f"{len(old):,} files"
            warn(
                f"Input has changed since {files} of results: moved to {short_path(self.own / STALE)}, and "
                "computed anew."
            )
        return old

    def _source(self, name: str) -> str | None:
        """Return the file that a result is of, which may have been called otherwise then."""
        fragment: dict[str, str] = read_footer(str(self.path(name))).get("fragment", {})
        return fragment.get("path")

    def stale(self) -> list[str]:
        """Return the names of results that are of earlier input."""
        return sorted(each.stem for each in (self.own / STALE).glob(f"*{ENDING}"))

    def note_failure(self, fragment: Fragment, text: str) -> None:
        """Write down why a fragment has no results."""
        made(self.own / FAILED)
        self.write(f"{FAILED}/{fragment.name}.json", {"fragment": fragment.plain, "error": text})

    def failures(self) -> dict[str, str]:
        """Return why fragments failed, by their names."""
        found = {path.stem: self.load(f"{FAILED}/{path.name}") for path in (self.own / FAILED).glob("*.json")}
        return {name: str(note["error"]) for name, note in sorted(found.items()) if note}

    def forget_failures(self) -> None:
        """Let everything that failed be tried again."""
        for path in (self.own / FAILED).glob("*.json"):
            path.unlink(missing_ok=True)


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
