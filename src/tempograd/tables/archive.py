"""Results as files: the records of a run, or the compact form of them that a repository keeps."""

import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tempograd._utils.io import Kind, check_output, end, start, writable, write_atomically
from tempograd.benchmark.cell import Cell, cell_from
from tempograd.benchmark.plan import Plan
from tempograd.benchmark.record import UNREADABLE, Record
from tempograd.errors import LONGEST, DataError, short_path
from tempograd.metrics import summarise
from tempograd.models.checkpoint import exists
from tempograd.tables.score_file import COLUMNS, Scores, database, read_scores, write_scores

CELLS, SCORES = "cells.json", "scores.parquet"
ARCHIVE = {
    CELLS: Kind("archive", lambda path: start(path).startswith('[\n {\n  "key": "')),
    SCORES: Kind("archive", lambda path: all(name in end(path) for name in (*COLUMNS, "DuckDB", "PAR1"))),
}


def load_records(folder: str | Path, plan: Plan) -> dict[str, Record]:
    """Return the records of a plan's cells, by key, from the folder of a run or from an archive.

    Parameters
    ----------
    folder : path
        Holds ``records/<key>.safetensors``, as ``tempograd bench`` leaves them, or what :func:`write_archive`
        wrote.
    plan : Plan
        Records of other plans are left alone, and cells that were not run are not in the result.
    """
    folder, keys = Path(folder), [cell.key for cell in plan.cells()]
    if exists(folder / CELLS):
        archived = _read_archive(folder)
        return {key: archived[key] for key in keys if key in archived}
    if not exists(folder / "records"):
        run = shlex.join(["tempograd", "bench", plan.name, "--protocol", plan.protocol, "--out", str(folder)])
        what = f"holds no results, neither records/ of a run nor {CELLS} of an archive"
        start, end = f"{short_path(folder)} {what}: run", "first."
        sentences = f"{start} {run} {end}", f"There are no results yet: run {run} {end}"
        whole = (text for text in sentences if len(text) <= LONGEST)  # a command is printed whole or not at all
        raise DataError(next(whole, f"{start} tempograd bench {end}"))
    paths = {key: folder / "records" / f"{key}.safetensors" for key in keys}
    records = {key: Record.load(path) for key, path in paths.items() if path.exists()}
    for key, record in records.items():
        if record.cell.key != key:
            raise DataError(f"{short_path(paths[key])} is the record of another cell: remove it, and run again.")
    return records


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
        cells = {entry["key"]: (cell_from(entry["cell"]), entry["facts"]) for entry in entries}
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
