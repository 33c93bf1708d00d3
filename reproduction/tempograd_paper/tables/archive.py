"""Results as files: the records of a run, or the compact form of them that a repository keeps."""

import json
import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd._utils.io import START, Kind, check_output, start, writable, write_atomically
from tempograd.errors import LONGEST, DataError, MissingExtraError, short_path
from tempograd.metrics import summarise
from tempograd.models.files import exists
from tempograd_paper.cell import Cell, cell_from
from tempograd_paper.labels import PROGRAM
from tempograd_paper.runner.plan import Plan
from tempograd_paper.runner.record import UNREADABLE, Record

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# Scores of many records as one Parquet file, written and read by DuckDB.

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
    for first, last in zip([0, *changes], [*changes, len(key)], strict=True):
        ids, values = np.array(columns["id"][first:last]), np.array(columns["score"][first:last])
        part = Scores(key[first], measure[first], ids, values, bool(columns["pooled"][first]))
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


# Results as files: the records of a run, or the compact form of them that a repository keeps.

CELLS, SCORES = "cells.json", "scores.parquet"
ARCHIVE = {
    CELLS: Kind("archive", lambda path: start(path).startswith('[\n {\n  "key": "')),
    SCORES: Kind("archive", lambda path: all(name in _end(path) for name in (*COLUMNS, "DuckDB", "PAR1"))),
}


def load_records(folder: str | Path, plan: Plan) -> dict[str, Record]:
    """Return the records of a plan's cells, by key, from the folder of a run or from an archive.

    Parameters
    ----------
    folder : path
        Holds ``records/<key>.safetensors``, as a run leaves them, or what :func:`write_archive` wrote.
    plan : Plan
        Records of other plans are left alone, and cells that were not run are not in the result.
    """
    folder, keys = Path(folder), [cell.key for cell in plan.cells()]
    if exists(folder / CELLS):
        archived = _read_archive(folder)
        return {key: archived[key] for key in keys if key in archived}
    if not exists(folder / "records"):
        run = f"{PROGRAM} run {shlex.join([plan.name, '--protocol', plan.protocol, '--out', str(folder)])}"
        what = f"holds no results, neither records/ of a run nor {CELLS} of an archive"
        start, end = f"{short_path(folder)} {what}: run", "first."
        sentences = f"{start} {run} {end}", f"There are no results yet: run {run} {end}"
        whole = (text for text in sentences if len(text) <= LONGEST)  # a command is printed whole or not at all
        raise DataError(next(whole, f"{start} {PROGRAM} run {end}"))
    paths = {key: folder / "records" / f"{key}.safetensors" for key in keys}
    records = {key: Record.load(path) for key, path in paths.items() if path.exists()}
    for key, record in records.items():
        if record.cell.key != key:
            raise DataError(f"{short_path(paths[key])} is the record of another cell: remove it, and run again.")
    return records


def join_records(folders: Iterable[str | Path], plan: Plan) -> dict[str, Record]:
    """Return the records of several folders together: of each model those of the folder that has most.

    Of two that have as many the later one counts. Methods are compared on the same model. One that was trained
    again is another model, so its methods are never mixed with those of the first; unless it is the same to the
    last bit of its validation loss and quality: then the folders complete each other.
    """
    models: dict[str, dict[str, Record]] = {}
    for folder in folders:
        found: dict[str, dict[str, Record]] = {}
        for key, record in load_records(folder, plan).items():
            found.setdefault(record.cell.model_key, {})[key] = record
        for model, cells in found.items():
            before = models.get(model, {})
            if _one_model([*before.values(), *cells.values()]):
                models[model] = before | cells
            elif len(cells) >= len(before):
                models[model] = cells
    return {key: record for cells in models.values() for key, record in cells.items()}


def _one_model(records: Sequence[Record]) -> bool:
    """Whether all tell the same of their model, its validation loss included, which no two models share."""
    facts = [record.facts["model"] for record in records]
    return "validation_loss" in facts[0] and all(each == facts[0] for each in facts)


def unfinished(cells: Sequence[Cell], records: Mapping[str, Record]) -> list[Cell]:
    """Return the cells of all models of which some cell has no record."""
    open_models = {cell.model_key for cell in cells if cell.key not in records}
    return [cell for cell in cells if cell.model_key in open_models]


def write_archive(
    folder: str | Path,
    plan: Plan,
    records: Mapping[str, Record],
    *,
    inputs: Iterable[Path] = (),
    force: bool = False,
) -> Path:
    """Write the records of a plan as ``cells.json``, for people, and ``scores.parquet``, one line per score.

    Both are in the order of the plan: the same records give the same files. Neither replaces one of the
    ``inputs``, nor, without ``force``, a file that is no archive.
    """
    kept = [records[cell.key] for cell in plan.cells() if cell.key in records]
    if not kept:
        raise DataError(f"No cell of {plan.name} is there: nothing can be archived before it was run.")
    connection = database()  # may be missing: asked for before anything is written
    folder, inputs = writable(folder), list(inputs)
    for name, kind in ARCHIVE.items():
        check_output(folder / name, kind, inputs=inputs, force=force)
    text = json.dumps([_entry(record) for record in kept], indent=1, ensure_ascii=False)
    write_atomically(folder / SCORES, lambda path: write_scores(connection, kept, path))
    write_atomically(folder / CELLS, lambda path: path.write_text(text + "\n", encoding="utf-8"))
    return folder


def _entry(record: Record) -> dict[str, Any]:
    measures = {}
    for measure in record.cell.measures:
        summary = summarise(record.scores[measure.name])
        measures[measure.name] = {
            "mean": _finite(summary.mean),
            "standard_error": _finite(summary.standard_error),
            "count": summary.count,
        }
    return {"key": record.cell.key, "cell": asdict(record.cell), "measures": measures, "facts": record.facts}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_archive(folder: Path) -> dict[str, Record]:
    path = folder / CELLS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        cells = {entry["key"]: (cell_from(entry["cell"], entry["key"]), entry["facts"]) for entry in entries}
    except UNREADABLE as error:
        raise DataError(
            f"{short_path(path)} is no archive of a benchmark: write it again with --archive."
        ) from error
    scores = read_scores(folder / SCORES)
    return {key: _record(cell, facts, scores.get(key, {}), folder) for key, (cell, facts) in cells.items()}


def _record(cell: Cell, facts: dict[str, Any], scores: Mapping[str, Scores], folder: Path) -> Record:
    absent = [measure.name for measure in cell.measures if measure.name not in scores]
    if absent:
        raise DataError(
            f"{folder / SCORES} lacks {absent[0]} of {cell}: it does not belong to the {CELLS} beside it, write "
            "both again with --archive."
        )
    ids = next(part.ids for part in scores.values() if not part.pooled)
    named = {measure.name: torch.from_numpy(scores[measure.name].values) for measure in cell.measures}
    return Record(cell, torch.from_numpy(ids), named, facts)


def _end(path: Path) -> str:
    """Return the last letters of a file, where Parquet files say what they are."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - START))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
