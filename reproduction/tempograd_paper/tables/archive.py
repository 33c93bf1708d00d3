"""Results as files: the records of a run, or the small file of them that a repository keeps."""

import itertools
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tempograd.core.errors import LONGEST, DataError, short_path
from tempograd.core.io import START, Kind, check_output, made, write_atomically
from tempograd.data.files import arrow
from tempograd.models.files import exists
from tempograd_paper.cell import Cell, cell_from
from tempograd_paper.labels import PROGRAM
from tempograd_paper.runner.plan import Plan
from tempograd_paper.runner.record import UNREADABLE, Record
from tempograd_paper.tables.rounding import rounded, step_of

ARCHIVE = "records.parquet"
ABOUT, ID = "tempograd_record", "id"  # the columns that are no measures
KIND = Kind("archive", lambda path: ABOUT in _end(path))


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
    if exists(folder / ARCHIVE):
        archived = read_archive(folder / ARCHIVE)
        return {key: archived[key] for key in keys if key in archived}
    if not exists(folder / "records"):
        run = f"{PROGRAM} run {shlex.join([plan.name, '--protocol', plan.protocol, '--out', str(folder)])}"
        what = f"holds no results, neither records/ of a run nor {ARCHIVE} of an archive"
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
    """Write the records of a plan as ``records.parquet``: a row for each series of each record.

    Rows are in the order of the plan: the same records give the same file. Scores are rounded as far as no digit
    of the plan's table moves, see :func:`~tempograd_paper.tables.rounding.rounded`. The file replaces none of the
    ``inputs``, nor, without ``force``, one that is no archive.
    """
    kept = {cell.key: records[cell.key] for cell in plan.cells() if cell.key in records}
    if not kept:
        raise DataError(f"No cell of {plan.name} is there: nothing can be archived before it was run.")
    pa = arrow()  # may be missing: asked for before anything is written
    folder = made(folder)
    check_output(folder / ARCHIVE, KIND, inputs=list(inputs), force=force)
    table = _table(rounded(plan, kept), [measure.name for measure in plan.measures])
    measures = dict.fromkeys(table.column_names[2:], "BYTE_STREAM_SPLIT")
    options = {
        "compression": "zstd",
        "compression_level": 19,
        "use_dictionary": [ABOUT],
        "dictionary_pagesize_limit": 1 << 30,  # what a record tells of itself is written once, however long
        "column_encoding": {ID: "DELTA_BINARY_PACKED"} | measures,
        "row_group_size": len(table),
        "write_statistics": False,
        "store_schema": False,
    }
    write_atomically(folder / ARCHIVE, lambda path: pa.parquet.write_table(table, path, **options))
    return folder


def read_archive(path: Path) -> dict[str, Record]:
    """Read what :func:`write_archive` wrote: the records by the keys that they were kept under."""
    pa = arrow()
    try:
        with pa.parquet.ParquetFile(path, read_dictionary=[ABOUT]) as file:
            table = file.read().unify_dictionaries().combine_chunks()
        about = table[ABOUT].chunk(0)
        starts = [0, *(np.flatnonzero(np.diff(about.indices.to_numpy())) + 1), len(table)]
        found = {}
        for first, last in itertools.pairwise(starts):
            parts = json.loads(about[first].as_py())
            found[parts["key"]] = _record(parts, table.slice(first, last - first))
    except (*UNREADABLE, IndexError, pa.ArrowException) as error:
        raise DataError(
            f"{short_path(path)} is no archive of a benchmark: write it again with --archive."
        ) from error
    return found


def _table(records: Mapping[str, Record], measures: Sequence[str]) -> Any:
    """Return the rows of all records: what a record tells of itself, the id of a series, its scores in steps."""
    pa, abouts, ids = arrow(), [], []
    columns: dict[str, list[Any]] = {name: [] for name in measures}
    for key, record in records.items():
        scores = {name: values.double().numpy() for name, values in record.scores.items()}
        pooled = {name: values.item() for name, values in scores.items() if len(values) != len(record.ids)}
        steps = {name: step_of(values[~np.isnan(values)]) for name, values in scores.items() if name not in pooled}
        parts = {"key": key, "cell": asdict(record.cell), "steps": steps, "pooled": pooled, "facts": record.facts}
        abouts.append(json.dumps(parts, ensure_ascii=False))
        ids.append(record.ids.numpy())
        for name, column in columns.items():
            counts = scores[name] / steps[name] if name in steps else np.full(len(record.ids), np.nan)
            column.append(pa.array(counts, from_pandas=True).cast(pa.int32()))
    numbers = np.repeat(np.arange(len(records), dtype=np.int32), [len(part) for part in ids])
    first = {ABOUT: pa.DictionaryArray.from_arrays(numbers, abouts), ID: np.concatenate(ids)}
    scored = {name: pa.chunked_array(column) for name, column in columns.items()}
    return pa.table(first | scored)


def _record(parts: dict[str, Any], table: Any) -> Record:
    cell = cell_from(parts["cell"], parts["key"])
    scores = {
        measure.name: [parts["pooled"][measure.name]]
        if measure.name in parts["pooled"]
        else parts["steps"][measure.name] * table[measure.name].to_numpy()
        for measure in cell.measures
    }
    named = {name: torch.as_tensor(values, dtype=torch.float32) for name, values in scores.items()}
    return Record(cell, torch.tensor(table[ID].to_numpy()), named, parts["facts"]).checked()


def _end(path: Path) -> str:
    """Return the last letters of a file, where Parquet files say what they are."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - START))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
