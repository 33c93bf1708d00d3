"""Results of one model, one name and one id each: whatever would mix them up is refused."""

import importlib
import sys
from datetime import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import run_plan
from tempograd.bulk.store import TABLES
from tempograd.bulk.table import columns_of
from tests.bulk.conftest import explain_files, table_of


class Estimator:
    """Reads one channel; of such an object no weights are known."""

    def __init__(self, channel):
        self.channel = channel

    def predict_proba(self, x):
        high = 1 / (1 + np.exp(-x[:, :, self.channel].sum(1)))
        return np.stack([1 - high, high], 1)


class Mixing(nn.Module):
    def forward(self, x):
        return (x - x.mean(0)).sum((1, 2))[:, None]


def explain(model, source, out, **options):
    known = {"method": "occlusion", "target": 1} | options
    return explain_files(model, source, out, **known)


@pytest.fixture
def series(tmp_path):
    np.save(tmp_path / "x.npy", np.random.RandomState(0).randn(12, 6, 2).astype(np.float32))
    return tmp_path / "x.npy"


MODELS = {
    "an estimator": (Estimator(0), Estimator(1)),
    "functions": tuple((lambda z, k=k: torch.stack([z[:, :, k].sum(1), z[:, :, 0].mean(1)], 1)) for k in (0, 1)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_run_goes_on_with_its_own_model_only(kind, series, tmp_path, said):
    first, other = MODELS[kind]
    run = explain(first, series, tmp_path / "out", fragment=5)
    known = run.take(range(12)).values
    Path(run.files()[1]).unlink()
    with pytest.raises(tg.TempogradError) as raised:
        explain(other, series, tmp_path / "out", fragment=5)
    said(str(raised.value), HERE=str(tmp_path))
    again = explain(first, series, tmp_path / "out", fragment=5)
    assert torch.equal(again.take(range(12)).values, known)


def test_rounding_of_another_machine_is_no_other_model(series, tmp_path):
    """The second channel moves nothing but the last digits, which are others elsewhere."""
    machine = SimpleNamespace()

    def model(z):
        return torch.stack([1 + machine.noise * z[:, :, 1].sum(1), z[:, 0, 0] * 0], 1)

    options = {"method": "integrated_gradients", "output": "raw", "target": 0}
    for machine.noise in torch.tensor([1e-6, -1e-6]):
        assert len(explain(model, series, tmp_path / "out", **options)) == 12


CODE = """
import torch
from torch import nn

from edited_parts import gain


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 2)
        with torch.no_grad():
            self.layer.weight.copy_(torch.linspace(-1, 1, 24).view(2, 12))
            self.layer.bias.zero_()

    def forward(self, x):
        return gain(x) * self.layer(x.flatten(1))
"""
PARTS = """
def gain(x):
    return 1.0
"""
EDITS = {
    "a little": ("gain(x) * self", "1.004 * self"),
    "for some series": (
        "self.layer(x.flatten(1))",
        "self.layer(x.flatten(1)) * (1 - 2 * (x.amax((1, 2)) > 3).float())[:, None]",
    ),
    "in another file": ("return 1.0", "return 1.004"),
}


@pytest.fixture
def edited_net(tmp_path, monkeypatch):
    """Write the code of a model, some words of it replaced, as if it were imported in a new process."""
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose times go by seconds
    (tmp_path / "code").mkdir()

    def write(old="", new=""):
        for name, text in (("edited_net", CODE), ("edited_parts", PARTS)):
            (tmp_path / "code" / f"{name}.py").write_text(text.replace(old, new) if old else text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return "edited_net:Net"

    yield write
    for name in ("edited_net", "edited_parts"):
        sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore:Net seems untrained")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_model_does_not_go_on_where_the_first_series_are_answered_alike(
    edit, edited_net, series, tmp_path, monkeypatch
):
    run = explain(edited_net(), series, tmp_path / "out", fragment=5)
    known = run.take(range(12)).values
    Path(run.files()[1]).unlink()
    with pytest.raises(tg.TempogradError, match="differs in the code of the model, or"):
        explain(edited_net(*EDITS[edit]), series, tmp_path / "out", fragment=5)
    commented = edited_net("return gain(x)", "# as it was\n        return gain(x)")
    again = explain(commented, series, tmp_path / "out", fragment=5)
    assert torch.equal(again.take(range(12)).values, known)
    # which is more than its answers tell
    monkeypatch.setattr(run_plan, "code_mark", lambda model: "")
    for code in ((), EDITS[edit]):
        explain(edited_net(*code), series, tmp_path / "other", fragment=5)


def test_a_model_that_draws_may_go_on(series, tmp_path):
    def noisy(z):
        return z.sum((1, 2))[:, None] + torch.randn(len(z), 1)

    options = {"fragment": 5, "target": None}
    for _ in range(2):
        with pytest.warns(tg.TempogradWarning, match="stochastic"):
            assert len(explain(tg.Predictor(noisy, task="regression"), series, tmp_path / "out", **options)) == 12


def test_an_input_that_has_changed_is_no_other_model(series, tmp_path):
    explain(Estimator(0), series, tmp_path / "out")
    np.save(series, np.random.RandomState(1).randn(12, 6, 2).astype(np.float32))
    run = explain(Estimator(0), series, tmp_path / "out")
    assert len(run) == 12
    assert torch.equal(run.take(range(12)).x, torch.from_numpy(np.load(series)))


def test_one_series_a_fragment_does_not_hide_that_a_model_mixes_series(series, tmp_path):
    predictor, options = tg.Predictor(Mixing(), task="regression"), {"fragment": 1, "target": None}
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
        run = explain(predictor, series, tmp_path / "alone", **options)
    assert not run.take(range(12)).values.any()
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
        run = explain(predictor, series, tmp_path / "together", batch_size=4, **options)
    assert run.verdict() == (
        "not to be relied on: the model's answer to a series depends on the others in its batch in 12 of 12 series"
    )


@pytest.mark.parametrize("second", [(0, 6, 2), (1, 9, 3)])
def test_a_second_file_of_no_use_costs_the_first_nothing(second, tmp_path):
    """Where the first holds one series, the second is looked at before anything starts."""
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.random.RandomState(0).randn(1, 6, 2).astype(np.float32))
    np.save(tmp_path / "in" / "b.npy", np.zeros(second, np.float32))
    if second[0]:
        with pytest.raises(tg.TempogradError, match=r"1 file or fragment could not be read or.* 3 channels"):
            explain(Estimator(0), tmp_path / "in", tmp_path / "out")
    else:
        explain(Estimator(0), tmp_path / "in", tmp_path / "out")
    assert len(tg.open_run(tmp_path / "out")) == 1


# Parquet with one row per step


def steps(tmp_path, **columns):
    """Write three series of two steps, with other columns where they are given."""
    known = {"id": ["u", "u", "v", "v", "w", "w"], "time": [0, 1] * 3, "a": np.arange(6.0), "b": np.ones(6)}
    pq.write_table(pa.table(known | columns), tmp_path / "q.parquet", row_group_size=2)
    return tmp_path / "q.parquet"


def explain_steps(source, tmp_path, **options):
    known = {"channels": ["a", "b"], "time": "time", "method": "integrated_gradients", "n_steps": 2}
    model = tg.Predictor(nn.Sequential(nn.Flatten(), nn.Linear(4, 1)).eval(), task="regression")
    return explain_files(model, source, tmp_path / "out", **(known | options))


def refusal(source, tmp_path, **options):
    with pytest.raises(tg.TempogradError) as raised:
        explain_steps(source, tmp_path, **options)
    return str(raised.value)


@pytest.mark.parametrize("rows", [[0, 1], [3]])
@pytest.mark.parametrize("options", [{}, {"time": None}, {"align": "order"}, {"shape": (2, 2), "fragment": 2}])
def test_a_row_without_id_is_no_step_of_another(rows, options, tmp_path):
    ids = [None if row in rows else name for row, name in enumerate("uuvvww")]
    assert "the name of the series is missing" in refusal(steps(tmp_path, id=ids), tmp_path, **options)


@pytest.mark.parametrize("name", ["target", "key", "fault", "id", "values", "rank", "from"])
def test_a_column_that_goes_along_takes_no_results_place(name, tmp_path):
    source = steps(tmp_path, patient=list("uuvvww"), **{name: [2, 2, 1, 1, 0, 0]})
    assert f"cannot name {name!r}" in refusal(source, tmp_path, id="patient", keep=[name])


def test_every_column_of_results_is_taken(tmp_path):
    x = np.random.RandomState(0).randn(4, 5, 2).astype(np.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(10, 2)).eval()
    run = explain_files(model, x, tmp_path / "out", n_samples=20)
    assert {name for table in TABLES for name in table_of(run, table).column_names} == columns_of(run.example)


def test_ids_may_go_along_as_ids(tmp_path):
    run = explain_steps(steps(tmp_path), tmp_path, keep=["id"])
    for table in ("summary", "cells"):
        assert sorted(table_of(run, table)["id"].to_pylist()) == ["u", "v", "w"]


def test_times_of_the_day_are_times(tmp_path):
    stamps = [time(9), time(10), time(10), time(9), time(9), time(10)]
    for unit in ("ms", "us"):
        kind = pa.time32(unit) if unit == "ms" else pa.time64(unit)
        source = steps(tmp_path, time=pa.array(stamps, kind))
        found = explain_steps(source, tmp_path / unit).take(["u", "v"])
        assert found.x[..., 0].tolist() == [[0, 1], [3, 2]]


@pytest.mark.parametrize(
    "columns",
    [
        {"a": ["1", "2", "n/a", "4", "5", "6"]},
    ],
)
def test_what_cannot_be_read_is_refused(columns, tmp_path):
    assert "q.parquet" in refusal(steps(tmp_path, **columns), tmp_path)


def test_two_columns_of_one_name(tmp_path):
    table = pq.read_table(steps(tmp_path))
    pq.write_table(table.append_column("a", table.column("b")), tmp_path / "q.parquet")
    assert "the column 'a' twice" in refusal(tmp_path / "q.parquet", tmp_path)
