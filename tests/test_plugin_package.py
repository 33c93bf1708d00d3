"""A package of somebody else's is as good as ours: listed, used, reported, and held by the same contract."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import tempograd as tg
from tempograd import testing
from tempograd.cli import COMMANDS, main
from tests.helpers.report_page import Page

PACKAGE = Path(__file__).parent / "plugin_package"
REGISTRIES = {"explainers": tg.EXPLAINERS, "metrics": tg.METRICS, "datasets": tg.DATASETS, "commands": COMMANDS}


def install(folder: Path) -> None:
    """Write what an installer writes beside a package, from its pyproject.toml; no network is needed for that."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    place = folder / f"tempograd_slopes-{project['version']}.dist-info"
    place.mkdir()
    fields = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    fields["Summary"] = project["description"]
    (place / "METADATA").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (place / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the package for one test, in a folder of its own that is the current one."""
    for registry in REGISTRIES.values():
        registry.working()  # what others register when they are imported, which is once
    install(tmp_path)
    for folder in (PACKAGE, tmp_path):
        monkeypatch.syspath_prepend(folder)
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "_offers", None)
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "slopes"]:
        del sys.modules[name]


def test_everything_is_there_and_says_where_it_comes_from(installed, capsys):
    names = {"explainers": "gradient_times_input", "metrics": "drop", "datasets": "ramps"}
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for kind, name in names.items():
        (entry,) = (entry for entry in found[kind] if entry["name"] == name)
        assert entry["package"] == "tempograd-slopes 0.3"
        assert entry["about"].endswith(".")
        assert {each["package"] for each in found[kind]} >= {None, "tempograd-slopes 0.3"}
    assert {entry["package"] for entry in found["models"]} == {None}
    assert main(["list", "metrics"]) == 0
    line = re.search(r"^drop .*(\n .*)*", capsys.readouterr().out, re.MULTILINE)[0]
    assert " ".join(line.split()) == (
        "drop Fall of the explained output when the most important cells are gone. Higher is better. "
        "(from tempograd-slopes 0.3)"
    )


def test_it_goes_the_usual_path(installed, capsys):
    """Train on its data, explain with its method, score with its metric, and see both in the report."""
    train = ["train", "ramps", "--epochs", "2", "--device", "cpu"]
    explain = ["explain", "--model", "model.safetensors", "--data", "ramps", "--method", "gradient_times_input"]
    assert main(train) == 0
    assert main([*explain, "--set", "factor=2.0"]) == 0
    assert "with gradient_times_input" in capsys.readouterr().out
    explanation = tg.Explanation.load("explanation.safetensors")
    assert (explanation.method, explanation.parameters) == ("gradient_times_input", {"factor": 2.0})
    metrics = ["--metrics", "drop,comprehensiveness"]
    assert main(["evaluate", "explanation.safetensors", "--model", "model.safetensors", *metrics, "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out)["explanations"]
    assert scores["metrics"]["drop"]["scores"] == scores["metrics"]["comprehensiveness"]["scores"]
    model, split = tg.load_model("model.safetensors", "cpu"), tg.load_dataset("ramps").test
    ours = tg.explain(model, tg.Series(split.x, ids=split.ids))
    tg.report("report.html", model, [explanation, ours])
    methods = Page(Path("report.html")).content["maps"]
    assert [entry["label"] for entry in methods] == ["gradient_times_input", "timing"]


def test_its_command_runs(installed, capsys):
    assert main(["steepest", "--channel", "0"]) == 0
    assert re.fullmatch(r"step [0-4]\n", capsys.readouterr().out)


def test_it_keeps_the_contract(installed):
    """As its author would test it."""
    from slopes.methods import GradientTimesInput

    testing.check_explainer(GradientTimesInput)
    testing.check_explainer(tg.EXPLAINERS["gradient_times_input"](factor=3.0), rules=["settings", "seed"])
    testing.check_metric(tg.METRICS["drop"])


def test_its_numbers_are_right(installed):
    """The square: its gradient at 3 is 6, and the score 18."""
    x, square = torch.tensor([[[3.0], [-2.0]]]), lambda x: (x**2).sum((1, 2))[:, None]
    found = tg.explain(square, x, "gradient_times_input", output="raw")
    assert found.values.flatten().tolist() == [18.0, 8.0]


@pytest.mark.slow  # processes
def test_a_program_finds_it_by_the_path_alone(tmp_path, monkeypatch):
    """A process of its own, as a user starts it: listed in the help without its code, and then run."""
    install(tmp_path)
    code = "import sys; from tempograd.__main__ import run_from_shell as run"
    code += "\ntry: run()\nfinally: print('slopes' in sys.modules)"
    folders = [tmp_path, PACKAGE, *(path for path in sys.path if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
    said = []
    for words in (["--help"], ["steepest"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout)
    assert re.search(r"^    steepest +say at which step the ramps are steepest$", said[0], re.MULTILINE)
    assert said[0].endswith("\nFalse\n")
    assert re.fullmatch(r"step [0-4]\nTrue\n", said[1])
