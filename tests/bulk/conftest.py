"""What tests of runs share."""

import json
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.data import fragments
from tempograd.data.pivot import Columns


@pytest.fixture
def alone(monkeypatch):
    """Every file is a fragment of its own, as large ones are."""
    monkeypatch.setattr(fragments, "MOST_FILES", 1)


def explain_files(model, source, out, **options):
    """Explain a source whose options are among those of the call; series are written to a file before."""
    columns = {each.name: options.pop(each.name) for each in fields(Columns) if each.name in options}
    if isinstance(source, (tg.Series, torch.Tensor)) or hasattr(source, "__array__"):
        source, more = written(tg.Series.of(source), Path(out).with_suffix(".parquet"))
        columns = more | columns
    return tg.explain_dataset(model, tg.Source(source, **columns) if columns else source, out, **options)


def written(series, path):
    """Write series to a Parquet file, a group of rows for each, and return it with what is said of its columns."""
    whole = series.padded()
    ids = whole.ids.tolist() if isinstance(whole.ids, torch.Tensor) else whole.ids
    parts = {"id": ids, "x": list(map(list, whole.x.numpy()))}
    if whole.mask is not None:
        parts["seen"] = list(map(list, whole.mask.float().numpy()))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(parts), path, row_group_size=1)
    return path, {
        "mask": None if whole.mask is None else "seen",
        "channels": whole.channels,
        "shape": whole.shape[1:],
    }


def table_of(run, table="summary"):
    """Return all rows of a table of a run."""
    parts = [pq.read_table(path, partitioning=None) for path in run.files(table)]
    return pa.concat_tables(parts, promote_options="permissive")


def rows_of(run):
    """Return what is told of every series, summary and cells together, in the order of the files."""
    whole, cells = table_of(run), table_of(run, "cells")
    assert whole["key"].to_pylist() == cells["key"].to_pylist()
    for name in set(cells.column_names) - set(whole.column_names):
        whole = whole.append_column(name, cells[name])
    return whole.to_pylist()


def finished(out):
    """Return the names of the files that a worker has finished, committed or not: these are never made again."""
    staged = [_plain(path) for path in Path(out).glob("_tempograd/staged/*.json")]  # first, or one could be missed
    names = {name for entry in staged if entry for name in entry["files"]}
    try:
        entries = tg.open_run(out)._entries
    except tg.TempogradError:  # it has not begun
        return names
    return names.union(*(entry.files for entry in entries))


def _plain(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:  # committed meanwhile
        return None
