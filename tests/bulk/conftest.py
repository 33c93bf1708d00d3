"""What tests of runs share."""

from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

import tempograd as tg
from tempograd.data.columns import Columns


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
