"""The command line speaks its own words: options, not Python; errors first; the word that was meant."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tempograd
from tempograd.cli import main, make_parser
from tempograd.cli.arguments import PYTHON, flag_of, options_of
from tempograd.core.errors import MARKED, UnknownNameError, closest, said
from tempograd.core.question import Effort
from tempograd.models import build, save_model

SOURCES = Path(tempograd.__file__).parent


def test_every_argument_that_a_sentence_names_is_an_option_of_a_command():
    (action,) = (each for each in make_parser()._actions if isinstance(each.choices, dict))
    known = {option for parser in action.choices.values() for option in parser._option_string_actions}
    sources = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    named = {spec for text in sources for spec in MARKED.findall(text) if spec[:2] != ("noun", "name")}
    assert len(named) > 60
    options = {said(f"{{arg:{noun}.{name}}}", "shell") for noun, name, _ in named}
    unknown = {option for option in options if option.startswith("--") and option.split()[0] not in known}
    assert unknown <= {"--factory", "--modules"}  # which Python alone has


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_model(build("gru", 2, 2, hidden=4), "m.safetensors")
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.normal(size=(6, 8, 2)).astype("f4"))
    np.savez("far.npz", x=rng.normal(size=(6, 8, 2)).astype("f4") + 50)
    np.savez("flat.npz", x=np.zeros((6, 8), "f4"))
    np.savez("wide.npz", x=np.zeros((6, 2, 8), "f4"))
    np.savez("whole.npz", x=np.zeros((6, 8, 2), "i4"))
    np.savez("infinite.npz", x=np.full((6, 8, 2), np.inf, "f4"))
    Path("odd.csv").write_text("who,when,heart\n1,0,80\n1,1,81\n")
    Path("text.csv").write_text("id,time,heart,name\n1,0,80,a\n1,1,81,b\n")
    return tmp_path


FAULTS = (
    "--data flat.npz",
    "--data wide.npz",
    "--data whole.npz",
    "--data infinite.npz",
    "--data odd.csv",
    "--data text.csv",
    "--data d.npz --target 5",
    "--data d.npz --steps 3",
    "--data d.npz --task regression",
    "--data d.npz --n-samples 0",
    "--data d.npz --set max_samples=10",
    "--data d.npz --set control_variates=maybe",
    "--data d.npz --tolerance 2",
    "--data d.npz --targets 0,1 --target 0",
    "--data d.npz --baseline background",
    "--data d.npz --out nowhere/e.safetensors",
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("place")
def test_errors_speak_of_options(fault, capsys, said):
    assert main(["explain", "--model", "m.safetensors", "--device", "cpu", *fault.split()]) in {2, 3, 5}
    said(capsys.readouterr().err)


@pytest.mark.usefixtures("place")
def test_an_error_is_the_last_line(capsys):
    argv = ["explain", "--model", "m.safetensors", "--data", "far.npz", "--device", "cpu"]
    assert main([*argv, "--target", "7"]) == 5
    assert capsys.readouterr().err.splitlines()[-1].startswith("tempograd: target 7 is out of range")
    assert main([*argv, "--method", "ig"]) == 2  # known before anything is read
    (only,) = capsys.readouterr().err.splitlines()
    assert "Did you mean 'integrated_gradients'?" in only
    assert main([*argv, "--n-samples", "5"]) == 0
    (far,) = capsys.readouterr().err.splitlines()
    assert far.startswith("tempograd: warning: 0 is far from every value of 2 of 2 channels (channel 0: ")


@pytest.mark.parametrize(
    ("option", "setting"), [("--n-samples 7", "n_samples=7"), ("--tolerance 0.3", "tolerance=0.3")]
)
@pytest.mark.usefixtures("place")
def test_settings_with_options_of_their_own(option, setting, capsys):
    from tempograd import Explanation

    start = ["explain", "--model", "m.safetensors", "--data", "d.npz", "--device", "cpu"]
    assert main([*start, *option.split(), "--out", "a.safetensors"]) == 0
    assert main([*start, "--set", setting, "--out", "b.safetensors"]) == 0
    one, other = (Explanation.load(f"{name}.safetensors") for name in "ab")
    assert one.values.tolist() == other.values.tolist()
    assert one.parameters == other.parameters
    name, value = setting.split("=")
    assert one.parameters[name] == float(value)


def test_two_letters_that_changed_places():
    assert closest("cdp", ["accuracy", "cpp", "cpd"]) == "cpd"
    assert closest("aupr", ["aup", "aur", "auprc"]) in {"aup", "auprc"}
    assert "Did you mean 'cpd'?" in str(UnknownNameError("metric", "cdp", ["cpp", "cpd", "aup"]))
    assert main(["rank", "--model", "m", "--data", "d", "--methods", "lime", "--metric", "cdp"]) == 2


def test_an_unknown_option_is_a_matter_of_its_command(capsys):
    words, hint = "--embedding 3", "settings are --set NAME=VALUE"
    with pytest.raises(SystemExit) as stop:
        main(["explain", "--model", "m", "--data", "d", *words.split()])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("usage: tempograd explain --model")
    assert told.splitlines()[-1] == f"tempograd explain: error: unrecognized arguments: {words}; {hint}"


GROUPS = ["the model", "the series", "the question", "the method", "the output"]


@pytest.mark.parametrize("word", ["explain", "evaluate", "report", "tune", "rank", "top", "plot"])
def test_groups_of_options_come_in_one_order(word, capsys):
    with pytest.raises(SystemExit) as stop:
        main([word, "--help"])
    assert stop.value.code == 0
    titles = re.findall(r"^(the \w+):$", capsys.readouterr().out, re.MULTILINE)
    known = [title.replace("methods", "method").replace("metrics", "method") for title in titles]
    assert known == [title for title in GROUPS if title in known]
    assert len(known) >= 3


def test_every_field_of_the_question_is_an_option():
    """Of Predictor, Question and Effort, but for what no command line can say."""
    (action,) = (each for each in make_parser()._actions if isinstance(each.choices, dict))
    known = set(action.choices["explain"]._option_string_actions)
    nouns = {"predictor": tempograd.Predictor, "question": tempograd.Question, "effort": Effort}
    for noun, kind in nouns.items():
        shown = [f.name for f in dataclasses.fields(kind) if f"{noun}.{f.name}" not in PYTHON]
        assert shown == list(options_of(noun))
        assert {flag_of(noun, name) for name in options_of(noun)} <= known
    assert {"predictor.model", "predictor.modules", "predictor.reset"} == PYTHON


def test_help_of_a_command_needs_no_torch():
    code = (
        "import sys, tempograd.cli as cli\n"
        "for word in ('explain', 'top', 'plot', 'report'):\n"
        "    try:\n        cli.main([word, '--help'])\n    except SystemExit:\n        pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
