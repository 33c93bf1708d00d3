"""DuckDB over the large tables of a data set: a progress line, and every error in one sentence."""

import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, InputError, MissingExtraError, one_line, quote, short_path
from tempograd.core.progress import PERIOD, progress_bar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
    with progress_bar(size, label) as advance, ThreadPoolExecutor(1) as pool:
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
