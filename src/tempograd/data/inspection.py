"""What is known of files before their series are read, and which of them runs read together."""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, brief, one_line
from tempograd.data.columns import Columns
from tempograd.data.files import File, arrow, list_files
from tempograd.data.fragments import Fragment, Piece, own_columns, scale_version, whole_file
from tempograd.data.pivot import Roles, find_roles, require_names, unlike
from tempograd.data.reading import TABLES, in_file, in_one_message, load_arrays, own_id
from tempograd.data.table import ArrowTable, CsvTable, Table, open_parquet, plain_type

C = TypeVar("C", bound=Columns)
Cut = tuple[int, int, int | None]  # where a piece begins and ends, and its rows where they are known
WHOLE: Cut = (0, 0, None)
THREADS = 8  # that wait for files
AT_ONCE = 64  # files that a thread takes
SMALL = 8 << 20  # bytes of files that are read together
MOST_FILES = 256  # that are read together


class Inspected(NamedTuple):
    """What is known of a file without reading its series.

    Attributes
    ----------
    file : File
    stamp : tuple of int
        What changes whenever the file, or the table by which it is scaled, is written: it is not read again while
        that is the same. Empty where it is not known.
    version : tuple of int
        What changes with its content.
    cuts
        The parts of it that are read one by one.
    kept : str
        The Arrow schema of the columns that go along, serialised.
    error : str
        Why it cannot be read, arguments in the sentence marked.
    ids : bool
        Whether it is known to name its series.
    channels : tuple of str, optional
        Which it names.
    """

    file: File
    stamp: tuple[int, ...]
    version: tuple[int, ...] = ()
    cuts: Sequence[Cut] = (WHOLE,)
    kept: str = ""
    error: str = ""
    ids: bool = False
    channels: tuple[str, ...] | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was, as it comes from a file."""
        return cls(**{**{name: _tupled(part) for name, part in plain.items()}, "file": File(*plain["file"])})

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        return self._asdict() | {"file": (self.file.path, self.file.origin)}


def _tupled(plain: Any) -> Any:
    return tuple(map(_tupled, plain)) if isinstance(plain, list) else plain


def inspect_files(
    path: Any, source: Columns, size: int, known: Mapping[str, Inspected] = MappingProxyType({})
) -> list[Inspected]:
    """Look at files, each once; what is ``known`` by path is not read again while it has its stamp.

    A file that cannot be read, or that names other channels than most, has an error instead of stopping others.
    """
    if not isinstance(path, (str, Path, list, tuple)):
        raise InputError(f"Runs read files, got {brief(path)}: what is in memory goes to tg.explain.")
    files, looking = list_files(path), _Inspector(source, size, known)
    at_once = max(1, min(AT_ONCE, len(files) // (4 * THREADS)))
    with ThreadPoolExecutor(THREADS) as pool:
        starts = range(0, len(files), at_once)
        parts = [pool.submit(copy_context().run, looking.at, files[start : start + at_once]) for start in starts]
        try:
            found = [each for part in parts for each in part.result()]
        finally:  # where somebody interrupts, nobody waits for the others
            pool.shutdown(cancel_futures=True)
    return found if source.channels is not None else _of_other_channels(found)


def agreed_channels(found: Sequence[Inspected], source: C) -> C:
    """Return the source with the channels that its files have, where these are several and name some."""
    if len(found) < 2 or source.channels is not None:
        return source
    return replace(source, channels=next((each.channels for each in found if not each.error), None))


def kept_types(found: Sequence[Inspected]) -> Any:
    """Return the schema of the columns that go along, of types that hold the values of all files."""
    pa, agreed = arrow(), None
    first = {each.kept: each.file.where for each in reversed(found) if each.kept}
    for kept, where in reversed(first.items()):
        schema = pa.ipc.read_schema(pa.BufferReader(b64decode(kept)))
        try:
            agreed = pa.unify_schemas([agreed or schema, schema], promote_options="permissive")
        except pa.ArrowException as error:
            reason = f"unlike other files ({one_line(str(error), 120)})"
            advice = f"write its columns alike, or leave them out of {arg:source.keep}"
            raise DataError(f"{where} holds other columns of {arg:source.keep}, {reason}: {advice}.") from error
    texts = [field.with_type(pa.string()) if field.type == pa.null() else field for field in agreed or ()]
    return agreed and pa.schema(texts)


def joined_fragments(found: Sequence[Inspected], size: int) -> list[Fragment]:
    """Put neighbouring small files together, up to ``size`` series; large ones are cut.

    A folder that is a column has fragments of its own.
    """
    groups: list[list[Piece]] = []
    filling: dict[Any, tuple[list[Piece], float]] = {}
    for each in found:
        pieces = [Piece(each.file.path, each.file.origin, *cut, each.version) for cut in each.cuts]
        if each.error or not pieces:
            continue
        rows = pieces[0].rows
        share = max(each.version[0] / SMALL if rows is None else rows / size, 1 / MOST_FILES)
        if len(pieces) > 1 or share >= 1:
            groups += [[piece] for piece in pieces]
            continue
        key = rows is None, each.file.ending, tuple(each.file.columns.items())
        group, filled = filling.get(key, ([], 1.0))
        if filled + share > 1:
            group, filled = [], 0.0
            groups.append(group)
        group += pieces
        filling[key] = group, filled + share
    return [Fragment(tuple(group), len(found) == 1) for group in groups]


def _of_other_channels(found: list[Inspected]) -> list[Inspected]:
    """Note an error of files whose channels are not those of most, or of the first of as many."""
    sets = Counter(frozenset(each.channels or ()) for each in found if not each.error)
    if len(sets) < 2:
        return found
    agreed = sets.most_common(1)[0][0]
    errors = (unlike(each.file.where, each.channels, agreed) for each in found)
    return [each if each.error else each._replace(error=error) for each, error in zip(found, errors, strict=True)]


class _Inspector:
    """Looks at files; tables with the same first line are alike."""

    def __init__(self, source: Columns, size: int, known: Mapping[str, Inspected]) -> None:
        self.source, self.size, self.known = source, size, known
        self.scale = scale_version(source)
        self.heads: dict[str, tuple[str, ...] | None] = {}

    def at(self, files: Iterable[File]) -> list[Inspected]:
        return [self.one(file) for file in files]

    def one(self, listed: File) -> Inspected:
        """Look at a file; what is wrong with it becomes a sentence."""
        there = listed.remote or Path(listed.path).is_absolute()  # workers elsewhere stand in other folders
        file = listed if there else replace(listed, path=str(Path(listed.path).absolute()))
        stamp: tuple[int, ...] = ()
        try:
            if file.path.encode(errors="replace").decode() != file.path:
                file = File(one_line(file.path, None), one_line(file.origin, None))
                raise DataError(f"{file.where} has a name that is no text in UTF-8: call it otherwise.")
            if seen := file.stamp:
                stamp = (*seen, *self.scale)
            known = self.known.get(file.path)
            if known is not None and stamp and known.stamp == stamp and not known.error:
                return known._replace(file=file)
            version = (*file.version, *self.scale)
            return Inspected(file, stamp, version, **self._looked(file, own_columns(file, self.source), version))
        except (TempogradError, OSError, ValueError) as error:
            text = error.finding.marked if isinstance(error, TempogradError) else f"{file.where}: {error}"
            return Inspected(file, stamp, error=one_line(text, None))

    def _looked(self, file: File, own: Sequence[str], version: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of what is known of a file by its kind."""
        if file.ending == ".parquet":
            return self._parquet(file, own)
        if file.ending in TABLES:
            return self._text(file, own)
        if not version[0]:
            raise DataError(f"{file.where} is empty.")
        if file.ending == ".npy" and not file.remote:
            with in_file(file.where):
                total = len(whole_file(file, version, self.source))
            starts = range(0, total, self.size)
            return {"cuts": [(row, min(row + self.size, total), min(self.size, total - row)) for row in starts]}
        found: dict[str, Any] = {"kept": self._kept({})}
        if file.ending == ".npz":
            with in_file(file.where):
                arrays = load_arrays(file, ["channels", "ids"])
                found["channels"] = validation.check_names(arrays.get("channels"), None, "channels")
            found["ids"] = "ids" in arrays
        return found

    def _parquet(self, file: File, own: Sequence[str]) -> dict[str, Any]:
        with open_parquet(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            roles = self._roles(file, ArrowTable(file.where, schema, opened.read, first=1), own)
            counts = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        kept = self._kept({name: plain_type(schema.field(name).type) for name in own})
        found = {"kept": kept, "ids": roles.id is not None}
        if roles.format == "lists":
            return found | {"cuts": _cuts(counts, self.size)}
        return found | {"channels": roles.values if roles.format == "long" else None}

    def _text(self, file: File, own: Sequence[str]) -> dict[str, Any]:
        """Look at a table of text: at the first line of those that begin alike."""
        with file.text() as text:
            line = text.readline()
        if '"' in line or line not in self.heads:
            roles = self._roles(file, CsvTable(file), own)
            self.heads[line] = roles.values if roles.format == "long" else None
        return {"kept": self._kept({}), "channels": self.heads[line]}

    def _kept(self, types: Mapping[str, Any]) -> str:
        """Return the types of the columns that go along; what folders and tables of text hold is text."""
        if not self.source.keep:
            return ""
        schema = arrow().schema({name: types.get(name, arrow().string()) for name in self.source.keep})
        return b64encode(schema.serialize()).decode()

    def _roles(self, file: File, table: Table, own: Sequence[str]) -> Roles:
        asked = [name for name in (self.source.x, self.source.mask, *own) if name is not None]
        require_names(table.where, "column", asked, table.columns)
        return in_one_message(own_id(file, self.source)[0], lambda asked: find_roles(table, asked))


def _cuts(counts: Sequence[int], size: int) -> list[Cut]:
    """Put neighbouring row groups of whole series together, as many as hold about ``size`` rows."""
    ends = np.cumsum([0, *counts]).tolist()
    groups = [group for group, rows in enumerate(counts) if rows]
    cuts = [[*part] for _, part in groupby(groups, lambda group: ends[group] // size)]
    return [(part[0], part[-1] + 1, ends[part[-1] + 1] - ends[part[0]]) for part in cuts]
