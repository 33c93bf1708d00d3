"""Where a run lies: a folder here, or an address such as ``s3://…`` that fsspec opens."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tempograd.core.errors import OutputError, one_line, short_path, warn
from tempograd.core.io import PREFIX, as_path, made, reason, scratch, sync, write_atomically
from tempograd.data.files import REMOTE

BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss"}
LOCAL = ("file://", "local://")


class Store:
    """Files of a run by names such as ``summary/3f….parquet``; each is whole or not there.

    Parameters
    ----------
    place : str or path
        A folder, or an address.
    """

    def __init__(self, place: str | Path) -> None:
        text = str(place)
        for scheme in LOCAL:
            text = text.removeprefix(scheme)
        self.fs: Any = None
        if REMOTE.match(text):
            self.place, self.fs, self.root = text.rstrip("/"), *_opened(text)
        else:
            self.root = str(as_path(text if isinstance(place, str) else place, "out").absolute())
            self.place = str(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.place if self.fs is not None else self.root,)  # workers stand in other folders

    def __str__(self) -> str:
        return short_path(self.place)

    def path(self, name: str) -> str:
        """Return what ``fs``, or the system, calls a file."""
        return f"{self.root}/{name}".rstrip("/")

    def address(self, name: str) -> str:
        """Return what other programs call a file."""
        return self.path(name) if self.fs is None else f"{self.place.partition('?')[0]}/{name}".rstrip("/")

    def files(self, folder: str) -> dict[str, tuple[int, float]]:
        """Return size and time of every file below a folder, by names."""
        if self.fs is not None:
            self.fs.invalidate_cache()
            with suppress(FileNotFoundError):
                found = self.fs.find(self.path(folder), detail=True)
                return {name[len(self.root) + 1 :]: (info["size"], 0.0) for name, info in found.items()}
            return {}
        listed: dict[str, tuple[int, float]] = {}
        waiting = [folder]
        while waiting:
            above = waiting.pop()
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.path(above)) as entries:
                for each in entries:
                    name = f"{above}/{each.name}"
                    if each.is_dir():
                        waiting.append(name)
                    else:
                        status = each.stat()
                        listed[name] = status.st_size, status.st_mtime
        return listed

    def names(self) -> list[str]:
        """Return what lies in the folder itself, without what is being written."""
        with suppress(FileNotFoundError):
            if self.fs is not None:
                return [Path(each).name for each in self.fs.ls(self.root, detail=False)]
            return [each.name for each in Path(self.root).iterdir() if not each.name.startswith(PREFIX)]
        return []

    def exists(self, name: str) -> bool:
        """Tell whether there is a file."""
        return Path(self.path(name)).exists() if self.fs is None else bool(self.fs.exists(self.path(name)))

    def read(self, name: str) -> bytes:
        """Return what a file holds; FileNotFoundError where there is none."""
        if self.fs is None:
            return Path(self.path(name)).read_bytes()
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
        if self.fs is None:
            path = Path(self.path(name))
            made(path.parent)
            write_atomically(path, lambda new: new.write_text(text, encoding="utf-8"))
        else:
            with self.writing(name):
                self.fs.pipe_file(self.path(name), text.encode())

    def append(self, name: str, text: str) -> None:
        """Write a text behind what a file of this machine holds."""
        with self.writing(name), Path(self.path(name)).open("a", encoding="utf-8") as file:
            file.write(text)

    def create(self, name: str, content: Any) -> bool:
        """Write plain data unless somebody has meanwhile, and tell whether this was the first.

        A link here, a conditional put elsewhere; a store that has neither can have one writer at a time.
        """
        text = json.dumps(content).encode()
        with self.writing(name):
            if self.fs is None:
                return _linked(Path(self.path(name)), text)
            try:
                self.fs.pipe_file(self.path(name), text, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, ValueError, TypeError):
                if self.exists(name):
                    return False
                warn(f"{self} has no exclusive write: let one run at a time write there.")
                self.fs.pipe_file(self.path(name), text)
            return True

    def publish(self, file: Path, name: str) -> None:
        """Put a finished file of this machine under its name, at once and whole."""
        with self.writing(name):
            if self.fs is None:
                path = Path(self.path(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                sync(file)
                file.replace(path)
                with suppress(OSError):  # the file is there either way
                    sync(path.parent)
            else:
                self.fs.put_file(str(file), self.path(name))

    def move(self, name: str, new: str) -> None:
        """Call a file otherwise; one that is gone was moved by somebody else."""
        with self.writing(name), suppress(FileNotFoundError):
            if self.fs is None:
                path = Path(self.path(new))
                path.parent.mkdir(parents=True, exist_ok=True)
                Path(self.path(name)).replace(path)
            else:
                self.fs.mv(self.path(name), self.path(new))

    def delete(self, name: str) -> None:
        """Remove a file if it is there."""
        with self.writing(name), suppress(FileNotFoundError):
            if self.fs is None:
                Path(self.path(name)).unlink()
            else:
                self.fs.rm_file(self.path(name))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a folder of this machine for files that are being written, near to where they will lie."""
        if self.fs is None:
            with self.writing(""), scratch(made(self.root)) as folder:
                yield folder
        else:
            with TemporaryDirectory(prefix="tempograd-") as temporary:
                yield Path(temporary)

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Write inside the block; what goes wrong becomes one sentence."""
        try:
            yield
        except (OutputError, FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise OutputError(f"{short_path(self.address(name))} cannot be written: {reason(error)}.") from error

    def check(self) -> None:
        """See that files can be written."""
        if self.fs is None:
            if Path(self.root).exists() and not Path(self.root).is_dir():
                raise OutputError(f"{self} is a file: results go to a folder.")
            made(self.root)
            return
        try:
            if (
                not set([self.fs.protocol] if isinstance(self.fs.protocol, str) else self.fs.protocol) & BUCKETS
            ):  # there, a name that is misspelt would become a bucket
                self.fs.makedirs(self.root, exist_ok=True)
            self.write("_tempograd/probe.json", {})
            self.delete("_tempograd/probe.json")
        except OutputError:
            raise
        except Exception as error:  # whatever the library of a store raises
            raise OutputError(f"{self} cannot be written: {one_line(str(error), 200).rstrip('.')}.") from error

    def local(self, name: str, folder: Path) -> Path:
        """Return a file of this machine with what a file holds, a copy in ``folder`` where that lies elsewhere."""
        if self.fs is None:
            return Path(self.path(name))
        copy = folder / Path(name).name
        copy.write_bytes(self.read(name))
        return copy


def _linked(path: Path, text: bytes) -> bool:
    """Write a new file under its name, and tell whether that was free."""
    made(path.parent)
    with scratch(path.parent) as folder:
        new = folder / "new"
        new.write_bytes(text)
        sync(new)
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if path.exists():
                return False
            shutil.move(new, path)
    return True


def _opened(address: str) -> tuple[Any, str]:
    """Return the file system of an address, by fsspec, and the path in it; options may follow as a query."""
    from fsspec import filesystem  # noqa: PLC0415  # comes with torch, and takes its time
    from fsspec.core import split_protocol  # noqa: PLC0415

    plain, _, query = address.partition("?")
    scheme, _ = split_protocol(plain)
    options = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
    if "endpoint_override" in options:  # as pyarrow calls it
        options["endpoint_url"] = options.pop("endpoint_override")
        options["endpoint_url"] = options["endpoint_url"].replace("%3A", ":").replace("%2F", "/")
    try:
        fs = filesystem(scheme, **options)
        return fs, str(fs._strip_protocol(plain)).rstrip("/")
    except (ImportError, ValueError, OSError, TypeError) as error:
        raise OutputError(
            f"{short_path(address)} cannot be opened: {one_line(str(error), 200).rstrip('.')}."
        ) from error
