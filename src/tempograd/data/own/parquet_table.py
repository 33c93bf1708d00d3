"""Parquet tables, read by DuckDB."""

from collections.abc import Iterable, Sequence
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from tempograd.data._duckdb import connect
from tempograd.data.own.table import NO_CHANNEL, Coder, Floats, Table, Text, refuse_large
from tempograd.errors import DataError

MEMORY = "4GB"
NUMBERS = ("DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U")


class ParquetTable(Table):
    """A Parquet file; its rows keep their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = self._ask("DESCRIBE SELECT *")
        self._kinds = {
            str(name): str(kind) for name, kind in zip(found["column_name"], found["column_type"], strict=True)
        }
        self.columns = list(self._kinds)
        self.aside = frozenset(name for name in self.columns if name.startswith("__index_level_"))  # by pandas

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Floats]:
        texts = list(texts)
        for name in numbers:
            if not self._kinds[name].startswith(NUMBERS) or self._kinds[name].endswith("]"):
                raise DataError(
                    f"{self.path}: column {name!r} holds {self._kinds[name]}, not numbers: {NO_CHANNEL}."
                )
        wanted = [f"CAST({_quoted(name)} AS VARCHAR) AS text{place}" for place, name in enumerate(texts)]
        wanted += [f"CAST({_quoted(name)} AS DOUBLE) AS number{place}" for place, name in enumerate(numbers)]
        found = self._ask(f"SELECT {', '.join(wanted)}")
        rows = len(next(iter(found.values())))
        if not rows:
            raise DataError(f"{self.path} holds no series: it has no row.")
        values = np.empty((rows, len(numbers)))
        for place in range(len(numbers)):
            values[:, place] = np.ma.filled(found[f"number{place}"], np.nan)
        refuse_large(self, values, numbers)
        columns = {name: np.ma.filled(found[f"text{place}"], "") for place, name in enumerate(texts)}
        return {name: _coded(column) for name, column in columns.items()}, values

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{self.path}, row {row + 1}: {what}.")

    def _ask(self, what: str) -> dict[str, Any]:
        if not self.path.exists():
            raise DataError(f"{self.path} does not exist.")
        with connect(MEMORY) as connection:
            connection.execute("SET preserve_insertion_order = true")
            place = escape(str(self.path)).replace("'", "''")
            return connection.execute(f"{what} FROM read_parquet('{place}')").fetchnumpy()


def _coded(column: Any) -> Text:
    coder = Coder()
    codes = coder.codes(["" if text is None else text for text in column.tolist()])
    return Text(codes, list(coder))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
