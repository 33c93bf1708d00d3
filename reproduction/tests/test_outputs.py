"""Runs and tables never destroy what they read or is not theirs, and know beforehand whether they can write."""

import errno
import os
from pathlib import Path

import pytest

from reproduction.tests.helpers.plans import PLAN
from reproduction.tests.helpers.results import toy_plan, toy_records
from tempograd.core import io
from tempograd_paper.commands import main
from tempograd_paper.tables.archive import write_archive
from tempograd_paper.tables.rendering import FORMATS, TABLE, render
from tempograd_paper.tables.sizes import sizes_table
from tempograd_paper.tables.tabulation import tabulate

RUN = ["run", "plan.toml", "--device", "cpu"]
PRINT = ["table", "plan.toml", "--results", "results"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a plan, which is the current one."""
    monkeypatch.setattr("tempograd_paper.runner.reading.DATASET_LABELS", {"toy": "Toy"})
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(
        PLAN.replace("[0, 1]", "[0]").replace('"integrated_gradients", "occlusion"', '"random"')
    )
    return tmp_path


def contents():
    """Return everything below the current folder, byte by byte."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def fails(capsys, *argv):
    """Run a command that must fail; return the one line it prints."""
    capsys.readouterr()
    assert main([str(word) for word in argv]) in {3, 5}
    captured = capsys.readouterr()
    assert captured.err.startswith("tempograd: ")
    assert captured.err.count("\n") == 1
    assert len(captured.err) <= 320
    return captured.err


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("out", ["plan.toml", "results/records.parquet"])
@pytest.mark.parametrize("link", [None, "symbolic", "hard"])
def test_an_input_is_never_overwritten(capsys, out, force, link):
    Path("results").mkdir()
    Path("results/records.parquet").write_text("of a run")
    if link == "symbolic":
        Path("link").symlink_to(out)
    elif link == "hard":
        Path("link").hardlink_to(out)
    path, before = "link" if link else out, contents()
    said = fails(capsys, *PRINT, "--out", path, *force)
    assert f"{path} is one of the inputs, which are never overwritten" in said
    assert contents() == before


def test_an_archive_does_not_overwrite_the_archive_it_is_made_of(capsys, monkeypatch):
    made = toy_plan()
    write_archive("results", made, toy_records(made))
    monkeypatch.setattr("tempograd_paper.actions.load_plan", lambda *_args, **_options: made)
    before = contents()
    for force in ([], ["--force"]):
        said = fails(capsys, "table", "toy", "--results", "results", "--archive", "results", *force)
        assert "is one of the inputs" in said
    assert contents() == before
    assert main(["table", "toy", "--results", "results", "--archive", "copy"]) == 0
    assert main(["table", "toy", "--results", "results", "--archive", "copy"]) == 0  # over its own
    Path("copy/records.parquet").write_text("mine")
    said = fails(capsys, "table", "toy", "--results", "results", "--archive", "copy")
    assert "records.parquet exists and is no archive" in said
    assert Path("copy/records.parquet").read_text() == "mine"
    assert main(["table", "toy", "--results", "results", "--archive", "copy", "--force"]) == 0


@pytest.mark.parametrize("form", FORMATS)
def test_tables_know_their_own(form):
    made = toy_plan()
    Path("t").write_text(render(tabulate(made, toy_records(made)), form))
    assert TABLE.wrote(Path("t"))
    Path("t").write_text(render(sizes_table(None, ["state"]), form))
    assert TABLE.wrote(Path("t"))
    pretty = '[\n  {\n    "a": 1\n  }\n]\n'
    for foreign in ("# My notes\n\n| a |\n", "\\paragraph{Mine.}\n", "a,b\n1,2\n", pretty, "[1]\n"):
        Path("t").write_text(foreign)
        assert not TABLE.wrote(Path("t"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("argv", [RUN, ["table", "plan.toml", "--results", "."]], ids=["run", "table"])
def test_a_disk_that_takes_nothing_is_found_before_the_work(capsys, monkeypatch, argv, number):
    def full(**_):
        raise OSError(number, os.strerror(number))

    def work(*_args, **_options):
        raise AssertionError("this was to be found out before the work")

    monkeypatch.setattr("tempograd_paper.runner.running.run_cell", work)
    monkeypatch.setattr("tempograd_paper.runner.running.train_cell", work)
    monkeypatch.setattr(io.tempfile, "mkdtemp", full)
    said = fails(capsys, *argv, "--out", "new")
    assert os.strerror(number) in said
    assert "cannot be written:" in said or "is no folder that can be written to:" in said
    assert not Path("new").is_file()


def test_a_full_disk_stops_a_run_with_one_sentence_and_it_goes_on_later(capsys, monkeypatch):
    bring = io.sync

    def full(path):
        if path.parent.parent.name in {"explanations", "failures"}:
            raise OSError(errno.ENOSPC, "x")
        bring(path)

    with monkeypatch.context() as patch:
        patch.setattr(io, "sync", full)
        assert "cannot be written: No space left on device." in fails(capsys, *RUN, "--out", "run")
    assert main([*RUN, "--out", "run"]) == 0
    assert "1 cell: 0 there before, 1 done, 0 failed." in capsys.readouterr().out


def test_a_run_sweeps_all_its_folders_and_leaves_a_lock_of_others_as_it_is():
    assert main([*RUN, "--out", "run"]) == 0
    for folder in ("", "data", "models", "explanations", "records", "failures"):
        Path("run", folder, ".tempograd-abcdefgh").mkdir(parents=True)
    Path("run", ".lock").write_text("mine")
    assert main([*RUN, "--out", "run"]) == 0
    assert list(Path("run").rglob(".tempograd-*")) == []
    assert Path("run", ".lock").read_text() == "mine"
