"""Where a run lies: a folder here, or an address such as ``s3://…`` that fsspec opens; and what the run is of.

``summary/``, ``drivers/`` and ``cells/`` hold Parquet files, ``_tempograd/`` what the run is of and which of these
files count (:mod:`tempograd.bulk.manifest`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from tempograd.core.errors import DataError, OutputError, brief, one_line, short_path, warn
from tempograd.core.io import PREFIX, as_path, reason, scratch, sync, write_atomically
from tempograd.data.files import OWN, REMOTE
from tempograd.explanation import Explanation

LOCAL = re.compile("^(file|local)://")
FAILED, RUN, EXAMPLE = (f"{OWN}/{name}" for name in ("failed.json", "run.json", "example.safetensors"))
VERSIONS = f"{OWN}/versions"
TABLES = ("cells", "drivers", "summary")  # in the order in which they are finished
FORMAT = 3  # of the folder and its files
OWN_ERROR = re.compile(r"^tempograd\.[\w.]+: ")
DIFFERENCES = 3  # that a sentence names
TOLD = {"code": "the code of the model, or a value that it holds"}  # its marks help nobody
Files = dict[str, tuple[int, float]]  # size and time of each, by names


class Store:
    """Files of a run by names such as ``summary/3f….parquet``; each is whole or not there.

    Parameters
    ----------
    place : str or path
        A folder, or an address.
    """

    def __init__(self, place: str | Path) -> None:
        text = LOCAL.sub("", str(place))
        self.place, self.local = text.rstrip("/") if REMOTE.match(text) else str(place), not REMOTE.match(text)
        path = str(as_path(text if isinstance(place, str) else place, "out").absolute())
        self.fs, self.root = _opened(path if self.local else text, local=self.local)

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.root if self.local else self.place,)  # workers stand in other folders

    def __str__(self) -> str:
        return short_path(self.place)

    def path(self, name: str) -> str:
        """Return what ``fs`` calls a file."""
        return f"{self.root}/{name}".rstrip("/")

    def address(self, name: str) -> str:
        """Return what other programs call a file."""
        return self.path(name) if self.local else f"{self.place.partition('?')[0]}/{name}".rstrip("/")

    def files(self, folder: str) -> Files:
        """Return size and time of every file below a folder, by names; of times elsewhere nobody knows much."""
        self.fs.invalidate_cache()
        found = self.fs.find(self.path(folder), detail=True) if self.local or self.exists(folder) else {}
        start = len(self.root) + 1
        return {name[start:]: (each["size"], each["mtime"] if self.local else 0.0) for name, each in found.items()}

    def exists(self, name: str) -> bool:
        """Tell whether there is a file, or any below it."""
        return bool(self.fs.exists(self.path(name)))

    def read(self, name: str) -> bytes:
        """Return what a file holds; FileNotFoundError where there is none."""
        self.fs.invalidate_cache()
        return bytes(self.fs.cat_file(self.path(name)))

    def load(self, name: str) -> Any:
        """Return plain data, None where there is none."""
        try:
            return json.loads(self.read(name))
        except (OSError, ValueError):
            return None

    def write(self, name: str, content: Any) -> None:
        """Write plain data, over what is there."""
        self.write_text(name, json.dumps(content))

    def write_text(self, name: str, text: str) -> None:
        """Write a text, over what is there."""
        with self.scratch() as folder:
            (folder / "new").write_text(text, encoding="utf-8")
            self.publish(folder / "new", name)

    def append(self, name: str, text: str) -> None:
        """Write a text behind what a file holds, where that can be."""
        path = self.path(name)
        with self.writing(name), suppress(NotImplementedError, ValueError), self.fs.open(path, "ab") as file:
            file.write(text.encode())

    def create(self, name: str, content: Any) -> bool:
        """Write plain data unless somebody has meanwhile, and tell whether this was the first.

        A link here, a conditional put elsewhere; a store that has neither can have one writer at a time.
        """
        text, path = json.dumps(content), Path(self.path(name))
        lacking = (OSError,) if self.local else (NotImplementedError, ValueError, TypeError)
        with self.writing(name), self.scratch() as folder:
            new = folder / "new"
            new.write_text(text, encoding="utf-8")
            if self.local:
                sync(new)
                path.parent.mkdir(parents=True, exist_ok=True)
            try:
                if self.local:
                    path.hardlink_to(new)
                else:
                    self.fs.pipe_file(self.path(name), text.encode(), mode="create")
            except FileExistsError:
                return False
            except lacking:
                if self.exists(name):
                    return False
                warn(f"{self} has no exclusive write: let one run at a time write there.")
                self.publish(new, name)
        return True

    def publish(self, file: Path, name: str) -> None:
        """Put a finished file of this machine under its name, at once and whole."""
        with self.writing(name):
            if self.local:
                Path(self.path(name)).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.path(name), file.replace)
            else:
                self.fs.put_file(str(file), self.path(name))

    def move(self, name: str, new: str) -> None:
        """Call a file otherwise; one that is gone was moved by somebody else."""
        with self.writing(name), suppress(FileNotFoundError):
            self.fs.makedirs(self.path(new).rpartition("/")[0], exist_ok=True)
            self.fs.mv(self.path(name), self.path(new))

    def delete(self, name: str) -> None:
        """Remove a file if it is there."""
        with self.writing(name), suppress(FileNotFoundError):
            self.fs.rm_file(self.path(name))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a folder of this machine for files that are being written, near to where they will lie."""
        if not self.local:
            with TemporaryDirectory(prefix="tempograd-") as temporary:
                yield Path(temporary)
            return
        with self.writing(""):
            Path(self.root).mkdir(parents=True, exist_ok=True)
            with scratch(self.root) as folder:
                yield folder

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Write inside the block; what goes wrong becomes one sentence."""
        try:
            yield
        except (OutputError, FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise OutputError(f"{short_path(self.address(name))} cannot be written: {reason(error)}.") from error


class RunFolder(Store):
    """A folder that is a run, or can become one."""

    @property
    def is_run(self) -> bool:
        """Tell whether a run has begun here."""
        return self.exists(RUN)

    def check(self) -> None:
        """Refuse a folder that is neither new nor empty nor a run."""
        try:
            names = [Path(each).name for each in self.fs.ls(self.root, detail=False)]
        except FileNotFoundError:
            return
        except Exception as error:  # whatever the library of a store raises
            raise OutputError(f"{self} cannot be written: {reason(error)}.") from error
        if any(not name.startswith((OWN, PREFIX)) for name in names) and not self.is_run:
            raise OutputError(f"{self} is neither a run nor empty: name a new folder, or an empty one.")

    def agree(self, content: Mapping[str, Any]) -> None:
        """Refuse the run that is here if it is of other facts."""
        known = self.told() if self.is_run else content
        if known["key"] != content["key"]:
            what = _differences(known["facts"], json.loads(json.dumps(content["facts"])))
            told = f"{self} holds results of another run, which differs in {what}: name another folder."
            raise DataError(told, code="run.other")

    def begin(self, content: Mapping[str, Any], example: Explanation) -> None:
        """Begin a run, unless one of the same facts has begun."""
        if not self.is_run:
            try:
                with self.scratch() as folder:
                    example.save(folder / "example.safetensors")
                    self.publish(folder / "example.safetensors", EXAMPLE)
            except FileNotFoundError as error:  # a bucket that is none
                raise OutputError(f"{self} cannot be written: {reason(error)}.") from error
            self.fs.makedirs(self.path(VERSIONS), exist_ok=True)  # which some stores need
            self.create(RUN, {"tempograd": "run", "format": FORMAT, **content})
        self.agree(content)

    def told(self) -> dict[str, Any]:
        """Return what the run is of."""
        found = self.load(RUN)
        if found is None:
            raise DataError(f"{self} is no run: name a folder that a run over a data set wrote.")
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise DataError(f"{self.address(RUN)} is of no run that this version of tempograd knows.")
        return found

    def example(self) -> Explanation:
        """Return the explanation of the first two series, which tells what all series share."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "example.safetensors"
            file.write_bytes(self.read(EXAMPLE))
            return Explanation.load(file)


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

    def flat(facts: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        parts = {name: part if isinstance(part, dict) else {name: part} for name, part in facts.items()}
        return {(name, key): value for name, part in parts.items() for key, value in part.items()}

    one, two = flat(old), flat(new)
    pairs = [(key[1], one.get(key), two.get(key)) for key in one | two if one.get(key) != two.get(key)]
    told = [TOLD.get(name) or f"{name} ({brief(was)} there, {brief(now)} here)" for name, was, now in pairs]
    return ", ".join(told[:DIFFERENCES]) + ", …" * (len(told) > DIFFERENCES)


def _opened(address: str, *, local: bool) -> tuple[Any, str]:
    """Return the file system of an address, by fsspec, and the path in it; options may follow as a query."""
    from fsspec import filesystem  # noqa: PLC0415  # comes with torch, and takes its time

    if local:
        return filesystem("file"), address
    plain, _, query = address.partition("?")
    options = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
    if "endpoint_override" in options:  # as pyarrow calls it
        options["endpoint_url"] = unquote(options.pop("endpoint_override"))
    try:
        fs = filesystem(plain.partition("://")[0], **options)
        return fs, str(fs._strip_protocol(plain)).rstrip("/")
    except (ImportError, ValueError, OSError, TypeError) as error:
        why = one_line(str(error), 200).rstrip(".")
        raise OutputError(f"{short_path(address)} cannot be opened: {why}.") from error
