"""``python -m tempograd_paper run`` from a plan file to records, and every way it can end."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from reproduction.tests.helpers.plans import PLAN, contents
from tempograd.core.errors import short_path
from tempograd_paper.commands import main
from tempograd_paper.protocols import settings
from tempograd_paper.runner import Record, load_plan
from tempograd_paper.runner.running import Outcome
from tempograd_paper.tables.archive import write_archive


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr("tempograd_paper.runner.reading.DATASET_LABELS", {"toy": "Toy"})
    path = tmp_path / "my plan.toml"
    path.write_text(PLAN)
    return path


def proposed(printed, capsys):
    """Run what is printed under "Next:" as it stands, and return its words."""
    (line,) = re.findall(r"^Next: (.*)$", printed, re.MULTILINE)
    *program, words = line.partition("python -m tempograd_paper ")
    words = shlex.split(words)
    assert (program, main(words)) == (["", "python -m tempograd_paper "], 0)
    assert "CPD" in capsys.readouterr().out
    return words


def cells(folder):
    found = [header["cell"] for header, _ in contents(folder).values()]
    return sorted((cell["method"], cell["fold"]) for cell in found)


def test_a_plan_runs_and_goes_on_where_it_was(plan, tmp_path, capsys):
    out = tmp_path / "out"
    only = ["--folds", "1", "--methods", "occlusion"]
    assert main(["run", str(plan), "--out", str(out), "--device", "cpu", *only]) == 0
    assert cells(out) == [("occlusion", 1)]
    captured = capsys.readouterr()
    assert "1 cell: 0 there before, 1 done, 0 failed." in captured.out
    proposed(captured.out, capsys)
    assert captured.err == ""  # bars are for terminals
    assert main(["run", str(plan), "--out", str(out), "--device", "cpu"]) == 0
    methods = ("integrated_gradients", "occlusion", "random")
    assert cells(out) == [(method, fold) for method in methods for fold in (0, 1)]
    printed = capsys.readouterr().out
    assert "6 cells: 1 there before, 5 done, 0 failed." in printed
    assert proposed(printed, capsys) == ["table", str(plan), "--results", str(out), "--protocol", "fair"]


def test_the_run_that_a_table_without_results_asks_for(plan, tmp_path, capsys):
    empty = tmp_path / "no results"
    empty.mkdir()
    assert main(["table", str(plan), "--results", str(empty)]) == 3
    (line,) = re.findall(r": run python -m tempograd_paper (.*) first\.", capsys.readouterr().err)
    assert main([*shlex.split(line), "--methods", "random", "--folds", "0", "--device", "cpu"]) == 0
    assert main(["table", str(plan), "--results", str(empty)]) == 0
    (line,) = re.findall(
        r"are not there .*: run python -m tempograd_paper (.*)$", capsys.readouterr().out, re.MULTILINE
    )
    words = shlex.split(line.replace("RESULTS", shlex.quote(str(empty))))
    assert main([*words, "--device", "cpu"]) == 0
    assert "1 there before, 5 done, 0 failed." in capsys.readouterr().out


def test_the_protocol_of_the_command_wins(plan, tmp_path, monkeypatch):
    monkeypatch.setitem(settings.STAND_INS, "toy", "state")
    out = tmp_path / "out"
    arguments = ["--protocol", "published", "--methods", "random", "--folds", "0", "--device", "cpu"]
    assert main(["run", str(plan), "--out", str(out), *arguments]) == 0
    ((header, _),) = contents(out).values()
    assert header["cell"]["protocol"] == "published"
    assert header["facts"]["model"]["learning_rate"] == 0.01


def test_a_missing_data_set_is_named_with_its_line(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TEMPOGRAD_DATA", raising=False)
    monkeypatch.setattr("tempograd_paper.runner.reading.DATASET_LABELS", {"toy": "Toy", "wafer": "Wafer"})
    plan.write_text(PLAN.replace('["toy"]', '[\n  "toy",\n  "wafer",\n]'))
    assert main(["run", str(plan), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 3
    assert f"{short_path(plan)}, line 4: wafer is read from files" in capsys.readouterr().err
    assert not (tmp_path / "out" / "models").exists()


def test_a_misspelt_method_stops_everything_before_it_starts(plan, tmp_path, capsys):
    plan.write_text(PLAN.replace("occlusion", "oclusion"))
    assert main(["run", str(plan), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 3
    error = capsys.readouterr().err
    assert f"{short_path(plan)}, line 7:" in error
    assert "Did you mean 'occlusion'?" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "name", "complaint"),
    [
        ("--folds", "7", "No fold of {plan} is called '7'. Known names: 0, 1."),
        ("--methods", "oclusion", "No method of {plan} is called 'oclusion'. Did you mean 'occlusion'?"),
        ("--datasets", "toy,wafer", "No dataset of {plan} is called 'wafer'. Known names: toy."),
    ],
)
def test_a_name_that_the_plan_does_not_have_is_an_error(plan, tmp_path, capsys, option, name, complaint):
    assert main(["run", str(plan), "--out", str(tmp_path / "out"), option, name, "--device", "cpu"]) == 2
    assert complaint.format(plan=plan) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_out_that_is_no_folder_is_one_sentence(plan, capsys):
    assert main(["run", str(plan), "--out", str(plan), "--device", "cpu"]) == 5
    assert f"{short_path(plan)} is no folder that can be written to: File exists." in capsys.readouterr().err


def test_failed_cells_are_listed_and_the_exit_code_says_so(plan, tmp_path, capsys, monkeypatch):
    def broken(*arguments, **named):
        raise ZeroDivisionError("made for the test")

    monkeypatch.setattr("tempograd.explainers.Occlusion.attribute", broken)
    out = tmp_path / "out"
    assert main(["run", str(plan), "--out", str(out), "--folds", "0", "--device", "cpu"]) == 5
    printed = capsys.readouterr()
    assert "3 cells: 0 there before, 2 done, 1 failed." in printed.out
    assert "occlusion on toy/only, gru, fold 0: ZeroDivisionError: made for the test" in printed.out
    assert f"Some cells failed; their tracebacks are in {out / 'failures'}." in printed.err
    assert cells(out) == [("integrated_gradients", 0), ("random", 0)]


@pytest.fixture
def asked(monkeypatch):
    """Keep what the command asks for, and run nothing."""
    seen = {}

    def prepare(cells, out, root):
        seen.setdefault("prepared", []).append((len(cells), out, root))

    def run_cells(cells, out, **options):
        seen["run"] = (len(cells), out, options)
        return Outcome(1, len(cells) - 1, {})

    monkeypatch.setattr("tempograd_paper.actions.prepare", prepare)
    monkeypatch.setattr("tempograd_paper.actions.run_cells", run_cells)
    return seen


def test_every_option_reaches_the_run(plan, asked):
    options = ["--root", "there", "--workers", "3", "--device", "cpu:0"]
    assert main(["run", str(plan), "--out", "here", *options]) == 0
    assert asked["prepared"] == [(6, Path("here"), Path("there"))]
    assert asked["run"] == (6, Path("here"), {"root": Path("there"), "device": "cpu:0", "workers": 3})


def test_without_options_one_worker_runs_on_the_best_device(plan, asked, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["run", str(plan), "--out", "here"]) == 0
    assert asked["run"] == (6, Path("here"), {"root": None, "device": "cpu", "workers": 1})


def test_some_data_sets_can_be_chosen(plan, asked, monkeypatch):
    monkeypatch.setattr("tempograd_paper.runner.reading.DATASET_LABELS", {"toy": "Toy", "wafer": "Wafer"})
    plan.write_text(PLAN.replace('["toy"]', '["toy", "wafer"]'))
    assert main(["run", str(plan), "--out", "here", "--datasets", "wafer", "--methods", "random"]) == 0
    assert [count for count, *_ in asked["prepared"]] == [0, 2]
    assert asked["run"][0] == 2


def test_folds_that_an_archive_has_whole_are_not_run_again(plan, asked, tmp_path):
    loaded = load_plan(plan, to_run=False)
    whole = [cell for cell in loaded.cells() if cell.fold == 0]
    part = [cell for cell in loaded.cells() if cell.fold == 1][:1]
    scores = {measure.name: torch.ones(2) for measure in loaded.measures}
    records = {cell.key: Record(cell, torch.arange(2), scores, {}) for cell in whole + part}
    write_archive(tmp_path / "kept", loaded, records)
    assert main(["run", str(plan), "--out", "here", "--kept", str(tmp_path / "kept")]) == 0
    assert asked["run"][0] == 3  # fold 1, and its first cell too: all methods must explain the same model


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--workers", "0"], "--workers must be at least 1, got 0."),
        (["--device", "abacus"], "There is no device 'abacus' here: use cpu"),
    ],
)
def test_impossible_options_start_nothing(plan, asked, capsys, options, sentence):
    assert main(["run", str(plan), "--out", "here", *options]) == 5
    assert sentence in capsys.readouterr().err
    assert "run" not in asked
