"""Scores of many records as one Parquet file, written and read by DuckDB."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.benchmark.record import Record
from tempograd.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = ("key", "id", "measure", "score")
IDS = ""  # the measure under which the ids of a record stand whose metrics are all pooled


class Scores(NamedTuple):
    """Scores of one measure of one record, one per series; ``pooled``: one for all of them."""

    key: str
    measure: str
    ids: NDArray[np.int64]
    values: NDArray[np.float32]
    pooled: bool = False


def write_scores(connection: "DuckDBPyConnection", records: Sequence[Record], path: Path) -> None:
    """Write key, id, measure and score of every record; a pooled score has no id, an undefined score is NULL."""
    parts = [part for record in records for part in _parts(record)]
    lengths = [len(part.ids) for part in parts]
    columns = {
        "key": np.repeat(np.array([part.key for part in parts], dtype=object), lengths),
        "id": np.concatenate([part.ids for part in parts]),
        "measure": np.repeat(np.array([part.measure for part in parts], dtype=object), lengths),
        "score": np.concatenate([part.values for part in parts]),
        "pooled": np.repeat([part.pooled for part in parts], lengths),
    }
    connection.register("scores", columns)
    query = """
        SELECT key, CASE WHEN pooled THEN NULL ELSE id END AS id, measure,
               CASE WHEN isnan(score) THEN NULL ELSE score END AS score
        FROM scores
    """
    target = str(path).replace("'", "''")
    # version 2 splits floats into their bytes, which makes them a tenth smaller
    try:
        connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2)")
    except sys.modules["duckdb"].IOException as error:
        raise OSError(str(error)) from error


def read_scores(path: Path) -> dict[str, dict[str, Scores]]:
    """Return the scores by key and measure."""
    connection = database()
    import duckdb  # noqa: PLC0415  # an extra, and it is there

    if not path.exists():
        raise DataError(f"{path} does not exist.")
    query = """
        SELECT key, measure, coalesce(id, 0) AS id, coalesce(score, 'nan'::FLOAT) AS score, id IS NULL AS pooled
        FROM read_parquet(?, file_row_number = true)
        ORDER BY file_row_number
    """
    try:
        columns = connection.execute(query, [str(path)]).fetchnumpy()
    except duckdb.Error as error:
        raise DataError(f"{path} cannot be read: write it again with --archive.") from error
    key, measure = (np.asarray(columns[name], dtype=object) for name in ("key", "measure"))
    changes = np.flatnonzero((key[1:] != key[:-1]) | (measure[1:] != measure[:-1])) + 1
    found: dict[str, dict[str, Scores]] = {}
    for start, end in zip([0, *changes], [*changes, len(key)], strict=True):
        ids, values = np.array(columns["id"][start:end]), np.array(columns["score"][start:end])
        part = Scores(key[start], measure[start], ids, values, bool(columns["pooled"][start]))
        found.setdefault(part.key, {})[part.measure] = part
    return found


def database() -> "DuckDBPyConnection":
    """Open a database in memory."""
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError("duckdb", "data") from None
    return duckdb.connect()


def _parts(record: Record) -> Iterator[Scores]:
    key, ids = record.cell.key, record.ids.numpy()
    pooled = {name: len(scores) != len(ids) for name, scores in record.scores.items()}
    if all(pooled.values()):
        yield Scores(key, IDS, ids, np.full(len(ids), np.nan, np.float32))
    for name, scores in record.scores.items():
        values: NDArray[Any] = scores.float().numpy()
        yield Scores(key, name, ids[: len(values)], values, pooled[name])
