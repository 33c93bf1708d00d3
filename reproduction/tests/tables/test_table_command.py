"""``python -m tempograd_paper table`` on small results."""

import json

import pytest

from reproduction.tests.helpers.results import toy_plan, toy_records
from tempograd_paper.commands import main
from tempograd_paper.tables.rendering import render
from tempograd_paper.tables.sizes import sizes_table
from tempograd_paper.tables.tabulation import tabulate


@pytest.fixture
def plans(monkeypatch):
    """Stand in for the plans of the package; what was asked for is kept."""
    asked = []
    found = {"toy": toy_plan(), "sizes": toy_plan(name="sizes", kind="sizes", datasets=("state",))}

    def load_plan(source, *, protocol=None, to_run=True):
        asked.append((source, protocol, to_run))
        return found[source]

    monkeypatch.setattr("tempograd_paper.actions.load_plan", load_plan)
    return asked


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for key, record in toy_records(toy_plan()).items():
        record.save(folder / "records" / f"{key}.safetensors")
    return folder


def text(form):
    return render(tabulate(toy_plan(), toy_records(toy_plan())), form)


@pytest.mark.parametrize("form", ["markdown", "latex", "csv", "json"])
def test_it_prints_what_the_library_renders(plans, results, capsys, form):
    assert main(["table", "toy", "--results", str(results), "--format", form]) == 0
    assert capsys.readouterr().out == text(form)
    assert plans == [("toy", None, False)]
    if form == "json":
        assert main(["table", "toy", "--results", str(results), "--json"]) == 0
        assert capsys.readouterr().out == text(form)


def test_it_writes_a_file_and_an_archive_that_gives_the_same(plans, results, tmp_path, capsys):
    out, archive = tmp_path / "table.md", tmp_path / "archive"
    argv = ["table", "toy", "--results", str(results), "--protocol", "fair", "--out", str(out)]
    assert main([*argv, "--archive", str(archive)]) == 0
    assert capsys.readouterr().out == f"Wrote {out}.\n"
    assert out.read_text(encoding="utf-8") == text("markdown")
    assert plans == [("toy", "fair", False)]
    assert [path.name for path in archive.iterdir()] == ["records.parquet"]
    assert main(["table", "toy", "--results", str(archive)]) == 0
    assert capsys.readouterr().out == text("markdown")


def test_results_must_be_named_and_be_there(plans, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["table", "toy"])
    assert stop.value.code == 2
    assert (
        "python -m tempograd_paper table: error: tell where the results are: --results DIR"
        in capsys.readouterr().err
    )
    assert main(["table", "toy", "--results", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith(f"tempograd: {tmp_path} holds no results, neither records/ of a run")


def test_sizes_need_no_results(plans, tmp_path, capsys, monkeypatch):
    assert main(["table", "sizes", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == render(sizes_table(tmp_path, ["state"]), "markdown")
    monkeypatch.setattr("tempograd_paper.actions.sizes_table", lambda root: sizes_table(root, ["switch_feature"]))
    assert main(["table", "table7", "--root", str(tmp_path), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split("\n")[1] == "switch_feature,1000,100,3,2,1000,100,3,2,"
    assert main(["table", "table7", "--root", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert list(row.values()) == ["switch_feature", 1000, 100, 3, 2, 1000, 100, 3, 2, None]
