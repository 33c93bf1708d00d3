"""Before a model's file is opened: whether it is one, whether it is whole, and whether it is trusted."""

import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tempograd.errors import DataError, TempogradError, short_path

ARCHIVE = b"PK\x03\x04"  # how a zip archive begins, by which torch knows one
PIECE = 1 << 20  # bytes read at a time
LONG = 120  # characters of a path that a sentence can carry


def named(path: str | Path) -> str:
    """Return a path, or what may be one, as it can stand in a sentence of one line."""
    return short_path(path, LONG)


def exists(path: Path) -> bool:
    """Tell whether there is something at a path; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def begin(path: Path) -> bytes:
    """Return how a file begins; refuse what is none or cannot be read: a folder, or a pipe that may never end."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                return file.read(len(ARCHIVE))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{named(path)} does not exist.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise DataError(f"{named(path)} cannot be opened: {reason}.") from error
    kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
    raise DataError(f"{named(path)} is {kind}: name the file of a model.")


def require_trust(path: Path, kind: str, why: str, *, trust: bool) -> None:
    """Refuse a file that can run code, unless the caller says that it may."""
    if not trust:
        raise DataError(
            f"{named(path)} is {kind}, {why}, so it was not loaded: pass trust=True if you trust whoever made it."
        )


@contextmanager
def archive(path: Path, otherwise: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive to look at its parts; ``otherwise`` is said of what is none."""
    if begin(path) != ARCHIVE:
        raise DataError(otherwise)
    try:
        with zipfile.ZipFile(path) as found:
            yield found
    except TempogradError:
        raise
    except Exception as error:  # zipfile raises many kinds for damaged headers
        raise DataError(otherwise) from error


def require_whole(parts: zipfile.ZipFile, path: Path) -> None:
    """Compare the parts of an archive with their checksums, which torch does not do."""
    for part in parts.infolist():
        if part.CRC == 0:  # not kept: torch.serialization.set_crc32_options(False)
            continue
        try:
            with parts.open(part) as file:
                while file.read(PIECE):
                    pass
        except Exception as error:  # zipfile and zlib raise many kinds
            raise DataError(
                f"{named(path)} is damaged: a part of it does not match its checksum; fetch or write it again."
            ) from error
