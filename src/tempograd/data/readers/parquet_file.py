"""Parquet tables, read by DuckDB with bounded memory and no network."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.core.errors import DataError, InputError, MissingExtraError, one_line, quote, short_path
from tempograd.data.files import reading, refuse_beyond_memory
from tempograd.data.readers.columns import NO_CHANNEL, Table, Text, _Floats, refuse_large, unnamed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OLDEST = 2  # earlier versions take the readable half of a truncated gzip file for the whole
MEMORY = "4GB"
NUMBER = re.compile(r"DOUBLE|FLOAT|DECIMAL\([0-9]+,[0-9]+\)|BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
BYTES, TEXT_BYTES = 17, 64  # that a number and a short text take while they are read


@contextmanager
def open_duckdb(memory: str, spill: Path | None = None) -> "Iterator[DuckDBPyConnection]":
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
        yield connection


class ParquetTable(Table):
    """A Parquet file; its rows keep their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found, counted = self._query("DESCRIBE SELECT *", "SELECT count(*) AS rows")
        self._rows = int(counted["rows"][0])
        self._kinds = {
            str(name): str(kind) for name, kind in zip(found["column_name"], found["column_type"], strict=True)
        }
        self.columns, self.aside = list(self._kinds), unnamed(list(self._kinds))[1]

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
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
        (found,) = self._query(f"SELECT {', '.join(wanted)}")
        if any(len(column) != self._rows for column in found.values()):
            raise DataError(f"{short_path(self.path)} is damaged: it has not as many rows as it says.")
        values = np.empty((self._rows, len(numbers)))
        for place in range(len(numbers)):
            values[:, place] = np.ma.filled(found[f"number{place}"].astype(np.float64), np.nan)
        refuse_large(self, values, numbers)
        columns = {name: np.ma.filled(found[f"text{place}"], "").tolist() for place, name in enumerate(texts)}
        return {name: Text.of([text or "" for text in column]) for name, column in columns.items()}, values

    def _number(self, name: str) -> str:
        """Name a column; those that numpy does not have are cast, and no others, since casts of many take long."""
        odd = self._kinds[name].startswith(("HUGEINT", "UHUGEINT"))
        return f"CAST({_in_quotes(name)} AS DOUBLE)" if odd else _in_quotes(name)

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{short_path(self.path)}, row {row + 1}: {what}.")

    def _query(self, *queries: str) -> list[dict[str, Any]]:
        source = escape(str(self.path)).replace("'", "''")
        # columns that the names of folders make up are not in the file
        table = f"FROM read_parquet('{source}', hive_partitioning = false)"
        with reading(self.path), open_duckdb(MEMORY) as connection:
            connection.execute("SET preserve_insertion_order = true")
            try:
                return [connection.execute(f"{query} {table}").fetchnumpy() for query in queries]
            except Exception as error:  # on a damaged file DuckDB may raise anything, its internal errors included
                raise _unreadable(self.path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    if type(error).__name__ == "OutOfMemoryException" or isinstance(error, MemoryError):
        return DataError(
            f"{short_path(path)} needs more memory than {MEMORY}, or is damaged: cut it into several files."
        )
    reason = one_line(str(error).strip().splitlines()[0], 90)
    return DataError(f"{short_path(path)} is damaged or no Parquet file: write or fetch it again ({reason}).")


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
