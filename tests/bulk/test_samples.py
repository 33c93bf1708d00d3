"""Samples of a run: the same series in every run, nested, without those that cannot be taken; what is input."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.models import build
from tests.bulk.conftest import explain_files

SERIES, TIME, CHANNELS = 60, 5, 2


@pytest.fixture
def x():
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build("gru", CHANNELS, 2, hidden=4).eval()


def explain(model, source, out, **options):
    return explain_files(model, source, out, method="integrated_gradients", **options)


def test_runs_over_the_same_series_have_the_same_sample(x, model, tmp_path):
    ids = torch.arange(SERIES) * 3 + 10
    run = explain(model, tg.Series(x, ids=ids), tmp_path / "a", fragment=7)
    order = torch.randperm(SERIES, generator=torch.Generator().manual_seed(1))
    other = explain_files(model, tg.Series(x[order], ids=ids[order]), tmp_path / "b", fragment=25, method="random")
    drawn = run.sample(9)
    assert len(set(drawn)) == 9
    assert set(drawn) <= set(ids.tolist())
    assert other.sample(9) == drawn == sorted(drawn)
    assert set(drawn) < set(run.sample(20))  # more of the same
    assert run.sample(9, seed=1) != drawn
    assert run.sample(1000) == ids.tolist()
    assert run.take(drawn).ids.tolist() == drawn


def test_every_series_has_its_chance(x, model, tmp_path):
    """Over 200 seeds each of 60 series is in a sample of 6 about 20 times: 4.2 standard deviations are 17.9."""
    run = explain(model, x, tmp_path / "a")
    counts = np.bincount([each for seed in range(200) for each in run.sample(6, seed)], minlength=SERIES)
    assert counts.sum() == 1200
    assert abs(counts - 20).max() < 18


def test_what_cannot_be_taken_is_not_drawn(x, model, tmp_path):
    bad = x.clone()
    bad[5, 0, 0] = torch.nan
    names = [f"bed {row}" for row in range(SERIES)]
    names[20] = "bed 19"  # twice in a fragment, where the second is a fault
    names[59] = "bed 0"  # twice in the run
    pq.write_table(pa.table({"id": names, "x": bad.tolist()}), tmp_path / "x.parquet", row_group_size=15)
    with pytest.raises(tg.TempogradError, match="The id 'bed 0' occurs more than once"):
        explain(model, tmp_path / "x.parquet", tmp_path / "a", fragment=15, max_faults=1)
    run = tg.open_run(tmp_path / "a")
    assert len(run.faults()) == 2
    drawn = run.sample(SERIES)
    assert drawn == sorted({f"bed {row}" for row in range(SERIES - 1)} - {"bed 5", "bed 19", "bed 20"})
    sound = [name for name in drawn if name != "bed 0"]
    assert run.take(sound).names == tuple(sound)
    with pytest.raises(tg.TempogradError, match="The id 'bed 0' occurs more than once"):
        run.take(["bed 0"])


def test_results_below_the_source_are_no_series(x, model, tmp_path):
    """Another start would else explain its own results."""
    pq.write_table(pa.table({"id": np.arange(SERIES), "x": x.tolist()}), tmp_path / "x.parquet")
    for _ in range(2):
        run = explain(model, tmp_path, tmp_path / "out")
        assert (len(run), run.summary()["left"]) == (SERIES, 0)
    for _ in range(2):
        run = explain(model, f"{tmp_path}/**/*.parquet", tmp_path / "out2")
        assert (len(run), run.summary()["left"]) == (SERIES, 0)


def test_a_run_finds_its_series_from_elsewhere(x, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", x.numpy())
    explain(model, "x.npy", "out")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert torch.equal(tg.open_run("../out").take([3, 7]).x, x[[3, 7]])


def test_progress_knows_what_was_done_before(x, model, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    run = explain(model, tmp_path / "x.npy", tmp_path / "out", fragment=20)
    Path(run.files()[0]).unlink()
    told = []
    explain(model, tmp_path / "x.npy", tmp_path / "out", fragment=20, progress=told.append)
    (only,) = told
    assert (only.done, only.total, only.left) == (60, 60, 0)
    assert only.per_second == pytest.approx(20 / only.seconds)


def test_values_of_other_series_may_come_as_a_series(tmp_path):
    x = torch.randn(6, 4, 2, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "a.npz", x=x.numpy())
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2))
    asked = {"baseline": "background", "background": tg.Series(x + 1), "n_samples": 4}
    run = tg.explain_dataset(net, tmp_path / "a.npz", tmp_path / "out", **asked)
    alone = tg.explain(net, x, **asked)
    assert torch.allclose(run.take(range(6)).values, alone.values, atol=1e-6)
