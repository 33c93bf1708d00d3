"""Parquet tables, read by DuckDB with bounded memory and no network."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempograd._utils.progress import PERIOD, progress
from tempograd.data.files import reading, refuse_beyond_memory
from tempograd.data.readers.columns import NO_CHANNEL, Coder, Floats, Table, Text, refuse_large
from tempograd.errors import DataError, InputError, MissingExtraError, one_line, quote, short_path

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# DuckDB as this library uses it: bounded memory, no network, a progress line, errors in one sentence.

OLDEST = 2  # earlier versions take the readable half of a truncated gzip file for the whole
NOUNS = {"DOUBLE": "number", "BIGINT": "whole number", "INTEGER": "whole number", "TIMESTAMP": "date and time"}


@contextmanager
def connect(memory: str, spill: Path | None = None) -> "Iterator[DuckDBPyConnection]":
    """Open a database that holds at most ``memory`` in memory and the rest in the folder ``spill``, if given."""
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError("duckdb", "data") from error
    if int(duckdb.__version__.split(".")[0]) < OLDEST:
        raise MissingExtraError(f"duckdb {OLDEST} or later, not {duckdb.__version__}", "data")
    with closing(duckdb.connect()) as connection:
        for setting, value in (
            ("temp_directory", "" if spill is None else str(spill)),
            ("autoinstall_known_extensions", False),  # what is not built in must not be fetched
            ("autoload_known_extensions", False),
            ("preserve_insertion_order", False),
        ):
            connection.execute(f"SET {setting} = ?", [value])
        try:
            connection.execute("SET memory_limit = ?", [memory])
        except duckdb.Error as error:
            raise InputError(f"memory must be a size such as '4GB', got {memory!r}.") from error
        with _in_one_sentence(memory):
            yield connection


def show_csv(connection: "DuckDBPyConnection", name: str, path: Path, columns: Mapping[str, str]) -> None:
    """Show the CSV file at ``path`` as the view ``name``; ``columns`` are all that it has, with their types."""
    types = ", ".join(f"{_quoted(column)}: {_quoted(kind)}" for column, kind in columns.items())
    connection.execute(
        f"CREATE TEMP VIEW {name} AS SELECT * FROM read_csv({_quoted(escape(str(path)))}, auto_detect = false, "
        f"header = true, delim = ',', quote = '\"', escape = '\"', columns = {{{types}}})"
    )


def run_script(connection: "DuckDBPyConnection", script: str, label: str, size: int) -> None:
    """Run the statements of ``script``, which read ``size`` bytes of files, with one progress line for all."""
    with progress(size, label) as advance, ThreadPoolExecutor(1) as pool:
        job, read = pool.submit(connection.execute, script), _bytes_read()
        try:
            while wait([job], timeout=PERIOD).not_done:
                before, read = read, _bytes_read()
                advance(read - before)
        except BaseException:
            connection.interrupt()  # or the pool would wait for the script's end
            raise
        job.result()


def _bytes_read() -> int:
    """Return what this process has read from files, where the system tells (Linux), else 0.

    DuckDB's own estimate does not help: it weighs the steps of a query by rows it cannot count beforehand.
    """
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def write_parquet(connection: "DuckDBPyConnection", table: str, order: str, path: Path) -> None:
    """Write a table as a Parquet file, sorted."""
    try:
        connection.execute(f"COPY (FROM {table} ORDER BY {order}) TO {_quoted(str(path))} (FORMAT parquet)")
    except sys.modules["duckdb"].IOException as error:
        raise OSError(str(error)) from error


def read_parquet(connection: "DuckDBPyConnection", path: Path) -> dict[str, NDArray[Any]]:
    """Read a Parquet file as one array per column, NaN where a number is missing."""
    found = connection.execute(f"FROM read_parquet({_quoted(escape(str(path)))})").fetchnumpy()
    return {
        name: np.ma.filled(values, np.nan) if np.ma.isMaskedArray(values) else np.asarray(values)
        for name, values in found.items()
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _in_one_sentence(memory: str) -> Iterator[None]:
    duckdb = sys.modules["duckdb"]
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"Memory or disk ran out with memory={memory!r}: give more (memory= or TEMPOGRAD_MEMORY) or make room "
            f"where the cache is ({one_line(str(error).splitlines()[0], 90)})."
        ) from error
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
        raise  # of a query written here
    except duckdb.Error as error:  # a damaged file can make it raise all others
        # without the cause: DuckDB quotes the whole line, and that is a patient's
        raise DataError(explain(str(error))) from None


def explain(message: str) -> str:
    r"""Say in one sentence what DuckDB says about a damaged file in twenty lines.

    Examples
    --------
    >>> explain("CSV Error on Line: 7\nExpected Number of Columns: 4 Found: 2\nPossible fixes:\n  file = a.csv")
    'a.csv, line 7 has fewer columns than its header, which has 4.'
    """
    line, file = re.search(r"on Line: (\d+)", message), re.search(r"^ *file ?= ?(.+)$", message, re.MULTILINE)
    where = f"{short_path(file[1])}, line {line[1]}" if line and file else ""
    if where and (found := re.search(r'column "(.+)"\. Could not convert string "(.*)" to \'(\w+)\'', message)):
        return f"{where}: {one_line(found[1])} is {quote(found[2])}, which is no {NOUNS.get(found[3], found[3])}."
    if where and (found := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)):
        how = "fewer" if int(found[2]) < int(found[1]) else "more"
        return f"{where} has {how} columns than its header, which has {found[1]}."
    if where and "unterminated quote" in message:
        return f"{where}: a quotation mark is opened and never closed."
    if found := re.search(r"GZIP stream: (.+)", message):
        return f"{short_path(found[1])} is damaged and cannot be unpacked: fetch it again."
    return f"{where or 'DuckDB stopped'}: {one_line(message.splitlines()[0], 200).removesuffix('.')}."


# Parquet tables, read by DuckDB.

MEMORY = "4GB"
NUMBER = re.compile(r"DOUBLE|FLOAT|DECIMAL\([0-9]+,[0-9]+\)|BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
BYTES, TEXT_BYTES = 17, 64  # that a number and a short text take while they are read


class ParquetTable(Table):
    """A Parquet file; its rows keep their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found, counted = self._ask("DESCRIBE SELECT *", "SELECT count(*) AS rows")
        self._rows = int(counted["rows"][0])
        self._kinds = {
            str(name): str(kind) for name, kind in zip(found["column_name"], found["column_type"], strict=True)
        }
        self.columns = list(self._kinds)
        self.aside = frozenset(name for name in self.columns if name.startswith("__index_level_"))  # by pandas

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Floats]:
        texts = list(texts)
        for name in numbers:
            if not NUMBER.fullmatch(self._kinds[name]):
                raise DataError(
                    f"{short_path(self.path)}: column {quote(name)} holds {one_line(self._kinds[name])}, not "
                    f"numbers: {NO_CHANNEL}."
                )
        wanted = [f"CAST({_in_quotes(name)} AS VARCHAR) AS text{place}" for place, name in enumerate(texts)]
        wanted += [f"{self._number(name)} AS number{place}" for place, name in enumerate(numbers)]
        if not self._rows:
            raise DataError(f"{short_path(self.path)} holds no series: it has no row.")
        size = self._rows * (BYTES * len(numbers) + TEXT_BYTES * len(texts))
        refuse_beyond_memory(self.path, size, "its content", "cut it into several files")
        (found,) = self._ask(f"SELECT {', '.join(wanted)}")
        if any(len(column) != self._rows for column in found.values()):
            raise DataError(f"{short_path(self.path)} is damaged: it has not as many rows as it says.")
        values = np.empty((self._rows, len(numbers)))
        for place in range(len(numbers)):
            values[:, place] = np.ma.filled(found[f"number{place}"].astype(np.float64), np.nan)
        refuse_large(self, values, numbers)
        columns = {name: np.ma.filled(found[f"text{place}"], "") for place, name in enumerate(texts)}
        return {name: _coded(column) for name, column in columns.items()}, values

    def _number(self, name: str) -> str:
        """Name a column; those that numpy does not have are cast, and no others, since casts of many take long."""
        odd = self._kinds[name].startswith(("HUGEINT", "UHUGEINT"))
        return f"CAST({_in_quotes(name)} AS DOUBLE)" if odd else _in_quotes(name)

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{short_path(self.path)}, row {row + 1}: {what}.")

    def _ask(self, *questions: str) -> list[dict[str, Any]]:
        source = escape(str(self.path)).replace("'", "''")
        # columns that the names of folders make up are not in the file
        table = f"FROM read_parquet('{source}', hive_partitioning = false)"
        with reading(self.path), connect(MEMORY) as connection:
            connection.execute("SET preserve_insertion_order = true")
            try:
                return [connection.execute(f"{question} {table}").fetchnumpy() for question in questions]
            except Exception as error:  # on a damaged file DuckDB may raise anything, its internal errors included
                raise _unreadable(self.path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    if type(error).__name__ == "OutOfMemoryException" or isinstance(error, MemoryError):
        return DataError(
            f"{short_path(path)} needs more memory than {MEMORY}, or is damaged: cut it into several files."
        )
    reason = one_line(str(error).strip().splitlines()[0], 90)
    return DataError(f"{short_path(path)} is damaged or no Parquet file: write or fetch it again ({reason}).")


def _coded(column: Any) -> Text:
    coder = Coder()
    codes = coder.codes(["" if text is None else text for text in column.tolist()])
    return Text(codes, list(coder))


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
