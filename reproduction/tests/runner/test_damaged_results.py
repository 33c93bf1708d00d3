"""What a crash, a full disk or an editor leaves in the folder of a run is no result: its cell runs again."""

import json
from dataclasses import asdict

import pytest
import torch
from safetensors.torch import load_file, save_file

import tempograd as tg
from reproduction.tests.helpers.plans import contents, plan
from tempograd.core.errors import DataError
from tempograd_paper.commands import main
from tempograd_paper.runner import Record, run_cells
from tempograd_paper.runner.store import Store
from tempograd_paper.tables.archive import load_records
from tests.fuzz.series_files import one_sentence

DEEP = "[" * 100_000


def emptied(path):
    path.write_bytes(b"")


def halved(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def with_header(**changes):
    """Replace parts of the header's JSON, or all of it."""

    def delta(path):
        record = Record.load(path)
        plain = {"cell": asdict(record.cell), "facts": record.facts} | changes
        save_file(load_file(path), path, {"tempograd": changes.get("text") or json.dumps(plain)})

    return delta


def with_tensors(**changes):
    def delta(path):
        record = Record.load(path)
        header = {"tempograd": json.dumps({"cell": asdict(record.cell), "facts": record.facts})}
        tensors = {name: tensor for name, tensor in (load_file(path) | changes).items() if tensor is not None}
        save_file(tensors, path, header)

    return delta


DAMAGES = {
    "empty": emptied,
    "half": halved,
    "deep": with_header(text=DEEP),
    "no JSON": with_header(text="{"),
    "a list": with_header(text="[1]"),
    "facts are a list": with_header(facts=[]),
    "facts of facts": with_header(facts={"model": 3}),
    "no cell": with_header(cell={}),
    "no ids": with_tensors(ids=None),
    "ids of another type": with_tensors(ids=torch.ones(3)),
    "a score too few": with_tensors(**{"score.aup": None}),
    "a score too many": with_tensors(**{"score.other": torch.ones(3)}),
    "scores of other series": with_tensors(**{"score.accuracy": torch.ones(2)}),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two cells, kept as bytes."""
    folder = tmp_path_factory.mktemp("finished")
    run_cells(plan(methods=("random", "occlusion")).cells(), folder, root=None, device="cpu")
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(finished, tmp_path):
    for name, content in finished.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_none_and_its_cell_runs_again(damage, folder):
    cells, before = plan(methods=("random", "occlusion")).cells(), contents(folder)
    path = Store(folder).record_path(cells[0])
    DAMAGES[damage](path)
    with pytest.raises(
        DataError, match=r"is no record of a benchmark: remove it, and run the plan again"
    ) as error:
        load_records(folder, plan(methods=("random", "occlusion")))  # as the command table does
    one_sentence(str(error.value))
    with pytest.warns(
        tg.TempogradWarning, match=rf"{path.name} is no record that can be read: its cell runs again"
    ):
        outcome = run_cells(cells, folder, root=None, device="cpu")
    assert (outcome.there, outcome.done, outcome.failed) == (1, 1, {})
    assert contents(folder) == before


def test_the_record_of_another_cell(folder):
    first, second = plan(methods=("random", "occlusion")).cells()
    store, before = Store(folder), contents(folder)
    store.record_path(second).write_bytes(store.record_path(first).read_bytes())
    with pytest.raises(DataError, match=r" is the record of another cell: remove it, and run again\.$"):
        load_records(folder, plan(methods=("random", "occlusion")))
    with pytest.warns(tg.TempogradWarning, match=rf"{second.key}.safetensors is no record"):
        assert run_cells([first, second], folder, root=None, device="cpu").done == 1
    assert contents(folder) == before


def test_several_are_told_in_one_sentence(folder):
    cells = plan(methods=("random", "occlusion")).cells()
    for cell in cells:
        emptied(Store(folder).record_path(cell))
    with pytest.warns(
        tg.TempogradWarning, match="and 1 more are no records that can be read: their cells"
    ) as caught:
        assert run_cells(cells, folder, root=None, device="cpu").done == 2
    one_sentence(str(caught[0].message))


@pytest.mark.parametrize("content", ["", "{", DEEP, "3", "[]", '{"chosen": null}'])
def test_damaged_notes_of_an_explanation(content, folder):
    (cell,) = plan(methods=("random",)).cells()
    store, before = Store(folder), contents(folder)
    store.record_path(cell).unlink()
    store.explanation_path(cell).with_suffix(".json").write_text(content)
    with pytest.warns(
        tg.TempogradWarning, match="or the .json beside it is damaged: its series are explained again"
    ):
        outcome = run_cells([cell], folder, root=None, device="cpu")
    assert (outcome.done, outcome.failed) == (1, {})
    assert contents(folder) == before


def test_a_damaged_explanation(folder):
    (cell,) = plan(methods=("random",)).cells()
    store, before = Store(folder), contents(folder)
    store.record_path(cell).unlink()
    emptied(store.explanation_path(cell))
    with pytest.warns(tg.TempogradWarning, match="is damaged: its series are explained again"):
        assert run_cells([cell], folder, root=None, device="cpu").done == 1
    assert contents(folder) == before


def test_the_command_says_that_a_record_is_damaged(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tempograd_paper.runner.reading.DATASET_LABELS", {"toy": "Toy"})
    path, out = tmp_path / "p.toml", tmp_path / "out"
    path.write_text(
        'datasets = ["toy"]\nmodels = ["gru"]\nfolds = [0]\nseries = 3\nprotocol = "fair"\n'
        'explainers = ["random"]\nmetrics = [{ metric = "cpd", k = 0.1 }]\n'
        "training = { epochs = 1 }\nsizes = { hidden = 4 }\n"
    )
    run = ["run", str(path), "--out", str(out), "--device", "cpu"]
    assert main(run) == 0
    (record,) = (out / "records").iterdir()
    whole = record.read_bytes()
    emptied(record)
    capsys.readouterr()
    assert main(["table", str(path), "--results", str(out)]) == 3
    assert f"{record.name} is no record of a benchmark" in capsys.readouterr().err
    assert main(run) == 0
    printed = capsys.readouterr()
    assert "1 cell: 0 there before, 1 done, 0 failed." in printed.out
    assert printed.err.startswith("tempograd: warning: ")
    assert f"{record.name} is no record that can be read: its cell runs again." in printed.err
    assert len(record.read_bytes()) == pytest.approx(len(whole), abs=50)  # but for the seconds it took
