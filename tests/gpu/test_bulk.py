"""Runs from files to files on a GPU: the numbers of one call, up to rounding."""

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.models import build

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
SETTINGS = {"n_samples": 20, "seed": 3}


@pytest.mark.parametrize("kind", ["gru", "cnn", "transformer"])
@pytest.mark.parametrize("unequal", [False, True])
def test_files_give_the_numbers_of_one_call(kind, unequal, tmp_path):
    torch.manual_seed(0)
    model = build(kind, 3, 2).double().eval().cuda()  # in single precision cuDNN rounds to TF32
    draw = np.random.RandomState(0)
    series = [draw.randn(draw.randint(6, 13) if unequal else 12, 3).astype(np.float32) for _ in range(150)]
    nested = pa.array([row.tolist() for row in series], pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"id": np.arange(150), "x": nested}), tmp_path / "in.parquet", row_group_size=40)
    padded = pytest.warns(tg.TempogradWarning, match="series end before the last step: the model reads 0 there")
    with padded if unequal else nullcontext():
        run = tg.explain_dataset(
            model,
            tg.Source(tmp_path / "in.parquet", shape=(12, 3)),
            tmp_path / "out",
            fragment=40,
            batch_size=16,
            **SETTINGS,
        )
    taken = run.take(list(range(150)))
    x = torch.zeros(150, 12, 3)
    mask = torch.zeros(150, 12, 3, dtype=torch.bool)
    for row, one in enumerate(series):
        x[row, : len(one)], mask[row, : len(one)] = torch.from_numpy(one), True
    for device in ("cuda", "cpu"):  # the draws are the same on both
        observed = tg.Series(x, mask=mask if unequal else None)
        whole = tg.explain(model.to(device), observed, **SETTINGS)
        torch.testing.assert_close(taken.values, whole.values.cpu(), rtol=1e-4, atol=1e-7)
        assert torch.equal(taken.target, whole.target.cpu())
    model.cuda()
