"""What is known of files before their series are read, and which of them runs read together."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, brief, one_line, quote
from tempograd.data.columns import Columns
from tempograd.data.files import File, list_files
from tempograd.data.fragments import (
    WHOLE,
    Cut,
    Fragment,
    FragmentKind,
    Piece,
    own_columns,
    scale_version,
    whole_file,
)
from tempograd.data.kept import type_name, unified
from tempograd.data.pivot import find_roles, require_names
from tempograd.data.reading import TABLES, in_file, in_one_message, load_arrays, own_id
from tempograd.data.table import ArrowTable, CsvTable, Table, open_parquet

C = TypeVar("C", bound=Columns)
THREADS = 8  # that wait for files
AT_ONCE = 64  # files that a thread takes
SMALL = 8 << 20  # bytes of files that are read together
MOST_FILES = 256  # that are read together
NEIGHBOURS = 8  # files that a folder must hold to be no part of the one above
APART = 128  # one name in so many ends a fragment, so that a new file shifts its neighbours alone


class Inspected(NamedTuple):
    """What is known of a file without reading its series.

    Attributes
    ----------
    file : File
    stamp : list of int
        What changes whenever the file, or the table by which it is scaled, is written: it is not read again while
        that is the same. Empty where it is not known.
    version : tuple of int
        What changes with its content.
    kind, cuts
        How it is read, and the parts of it that are read one by one.
    kept : dict of str to str
        The type of each column that goes along.
    error : str
        Why it cannot be read, arguments in the sentence marked.
    ids : {"numbers", "texts", ""}
        What its series are called by, where that is known.
    channels : tuple of str, optional
        Which it names.
    """

    file: File
    stamp: list[int]
    version: tuple[int, ...] = ()
    kind: FragmentKind = "file"
    cuts: Sequence[Cut] = (WHOLE,)
    kept: Mapping[str, str] = {}
    error: str = ""
    ids: str = ""
    channels: tuple[str, ...] | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        channels = None if plain["channels"] is None else tuple(plain["channels"])
        lists = {"version": tuple(plain["version"]), "cuts": [tuple(cut) for cut in plain["cuts"]]}
        return cls(**{**plain, **lists, "file": File(*plain["file"]), "channels": channels})

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        lists = {name: list(getattr(self, name)) for name in ("version", "cuts")}
        return {**self._asdict(), **lists, "file": [self.file.path, self.file.origin], "kept": dict(self.kept)}


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


def kept_types(found: Sequence[Inspected]) -> dict[str, str]:
    """Return the type in all files of each column that goes along."""
    types: dict[str, tuple[str, File]] = {}
    for each in found:
        for name, kind in each.kept.items():
            known, file = types.setdefault(name, (kind, each.file))
            try:
                types[name] = (known, file) if kind == known else (unified([known, kind]), each.file)
            except DataError as error:
                what = f"column {quote(name)} holds {known} in {file.where} and {kind} in {each.file.where}"
                raise DataError(f"The {what}: write it alike, or leave it out of {arg:source.keep}.") from error
    return {name: "string" if kind == "null" else kind for name, (kind, _) in types.items()}


def joined_fragments(found: Sequence[Inspected], size: int) -> list[Fragment]:
    """Put neighbouring small files of a folder together, up to ``size`` series; large ones are cut.

    A folder that is a column has fragments of its own, and files that come later change the last ones of their
    folder, or those beside them.
    """
    groups: list[tuple[FragmentKind, list[Piece]]] = []
    filling: dict[Any, tuple[list[Piece], float]] = {}
    counts = Counter(each.file.origin.rpartition("/")[0] for each in found)
    for each in found:
        pieces = [Piece(each.file.path, each.file.origin, *cut, each.version) for cut in each.cuts]
        if each.error or not pieces:
            continue
        rows = pieces[0].rows
        share = max(each.version[0] / SMALL if rows is None else rows / size, 1 / MOST_FILES)
        if len(pieces) > 1 or share >= 1:
            groups += [(each.kind, [piece]) for piece in pieces]
            continue
        folder, columns = each.file.origin.rpartition("/")[0], each.file.columns
        place = folder if columns or counts[folder] >= NEIGHBOURS else folder.rpartition("/")[0]
        key = each.kind, each.file.ending, place, tuple(columns.items())
        group, filled = filling.get(key, ([], 1.0))
        if filled + share > 1:
            group, filled = [], 0.0
            groups.append((each.kind, group))
        group += pieces
        last = zlib.crc32(each.file.origin.encode()) % APART == 0
        filling[key] = group, 1.0 if last else filled + share
    return [Fragment(kind, tuple(group), len(found) == 1) for kind, group in groups]


def _of_other_channels(found: list[Inspected]) -> list[Inspected]:
    """Note an error of files whose channels are not those of most, or of the first of as many."""
    sets = Counter(frozenset(each.channels or ()) for each in found if not each.error)
    if len(sets) < 2:
        return found
    agreed = sets.most_common(1)[0][0]
    like = (
        "the first file" if frozenset(found[0].channels or ()) == agreed and not found[0].error else "most files"
    )
    rule = f"all files must name the same channels, unless {arg:source.channels} chooses some"
    for place, each in enumerate(found):
        other = sorted(agreed.symmetric_difference(each.channels or ()))
        if other and not each.error:
            has = f"has {'no' if other[0] in agreed else 'a'} column {quote(other[0])}"
            found[place] = each._replace(error=f"{each.file.where} {has}, unlike {like}: {rule}.")
    return found


class _Inspector:
    """Looks at files; tables with the same first line are alike."""

    def __init__(self, source: Columns, size: int, known: Mapping[str, Inspected]) -> None:
        self.source, self.size, self.known = source, size, known
        self.scale = scale_version(source)
        self.heads: dict[bytes, tuple[str, ...] | None] = {}

    def at(self, files: Iterable[File]) -> list[Inspected]:
        return [self.one(file) for file in files]

    def one(self, listed: File) -> Inspected:
        """Look at a file; what is wrong with it becomes a sentence."""
        there = listed.remote or Path(listed.path).is_absolute()  # workers elsewhere stand in other folders
        file = listed if there else replace(listed, path=str(Path(listed.path).absolute()))
        stamp: list[int] = []
        try:
            if file.path.encode(errors="replace").decode() != file.path:
                file = File(one_line(file.path, None), one_line(file.origin, None))
                raise DataError(f"{file.where} has a name that is no text in UTF-8: call it otherwise.")
            if seen := file.stamp:
                stamp = [*seen, *self.scale]
            known = self.known.get(file.path)
            if known is not None and stamp and known.stamp == stamp and not known.error:
                return known._replace(file=file)
            version, head = file.scan()
            own = own_columns(file, self.source)
            found = self._looked(file, own, (*version, *self.scale), head)
            kept = {name: "string" for name in self.source.keep if name in file.columns} | found.get("kept", {})
            return Inspected(file, stamp, (*version, *self.scale), **found | {"kept": kept})
        except (TempogradError, OSError, ValueError) as error:
            text = error.finding.marked if isinstance(error, TempogradError) else f"{file.where}: {error}"
            return Inspected(file, stamp, error=one_line(text, None))

    def _looked(self, file: File, own: Sequence[str], version: tuple[int, ...], head: bytes) -> dict[str, Any]:
        """Return the fields of what is known of a file by its kind."""
        source = self.source
        if file.ending == ".parquet":
            return self._parquet(file, own)
        if file.ending in TABLES:
            return self._text(file, own, head)
        if not version[0]:
            raise DataError(f"{file.where} is empty.")
        if file.ending == ".npy" and not file.remote:
            with in_file(file.where):
                total = len(whole_file(Piece(file.path, file.origin, version=version), "array", source).x)
            starts = range(0, total, self.size)
            cuts = [(start, min(start + self.size, total), min(self.size, total - start)) for start in starts]
            return {"kind": "array", "cuts": cuts}
        if file.ending != ".npz":
            return {}
        with in_file(file.where):
            arrays = load_arrays(file, ["channels", "ids"])
            channels = validation.check_names(arrays.get("channels"), None, "channels")
        ids = {"i": "numbers", "u": "numbers", "U": "texts", "S": "texts"}
        return {"channels": channels, "ids": ids.get(arrays["ids"].dtype.kind, "") if "ids" in arrays else ""}

    def _parquet(self, file: File, own: Sequence[str]) -> dict[str, Any]:
        with open_parquet(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            table = ArrowTable(file.where, schema, opened.read, first=1)
            roles = self._roles(file, table, own)
            counts = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        texts = roles.id in table.words or own_id(file, self.source)[1]
        ids = "" if roles.id is None else "texts" if texts else "numbers"
        kept = {name: type_name(schema.field(name).type) for name in own}
        found = {"kept": kept, "ids": ids, "channels": roles.values if roles.format == "long" else None}
        return found | ({"kind": "rows", "cuts": _cuts(counts, self.size)} if roles.format == "lists" else {})

    def _text(self, file: File, own: Sequence[str], head: bytes) -> dict[str, Any]:
        """Look at a table of text: at the first line of those that begin alike, unless columns go along."""
        line = _first_line(file, head)
        if own or line not in self.heads:
            table = CsvTable(file)
            roles = self._roles(file, table, own)
            channels = roles.values if roles.format == "long" else None
            columns = table.kept(own, slice(None)) if own else {}  # type: ignore[arg-type]  # of all rows
            kept = {name: _type_in_text(column) for name, column in columns.items()}
            if line:
                self.heads[line] = channels
            return {"channels": channels, "kept": kept}
        return {"channels": self.heads[line]}

    def _roles(self, file: File, table: Table, own: Sequence[str]) -> Any:
        asked = [name for name in (self.source.x, self.source.mask, *own) if name is not None]
        require_names(table.where, "column", asked, table.columns)
        return in_one_message(own_id(file, self.source)[0], lambda asked: find_roles(table, asked))


def _cuts(counts: Sequence[int], size: int) -> list[Cut]:
    """Put neighbouring row groups of whole series together, as many as hold about ``size`` rows."""
    cuts: list[Cut] = []
    start = rows = 0
    for group, count in enumerate(counts):
        if rows and rows + count > size:
            cuts.append((start, group, rows))
            start, rows = group, 0
        rows += count
    return [*cuts, *([(start, len(counts), rows)] if rows else [])]


def _first_line(file: File, head: bytes) -> bytes:
    """Return the first line of a table of text; nothing where its end is not certain."""
    if file.plain_name.endswith(".gz"):
        try:
            head = zlib.decompressobj(31).decompress(head, 1 << 16)
        except zlib.error:
            return b""
    line, end, _ = head.partition(b"\n")
    return line if end and line.strip() and b'"' not in line else b""


def _type_in_text(column: Any) -> str:
    """Return the type of a column of text, of which NaN says nothing."""
    nothing = str(column.type) == "double" and bool(np.isnan(column.to_numpy()).all())
    return "null" if nothing else type_name(column.type)
