"""What the Tab key offers, asked in real shells."""

import subprocess
import sys

import pytest

from tempograd.cli import main
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_tempograd
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "tempograd.bash"
    done = subprocess.run(
        [sys.executable, "-m", "tempograd", "completion", "bash"], capture_output=True, text=True, check=True
    )
    path.write_text(done.stdout)
    return path


def offered(script, *words, folder=None):
    quoted = " ".join(f"'{word}'" for word in ("tempograd", *words))
    command = ["bash", "--norc", "-c", ASK.format(script=script, words=quoted)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()


def test_commands_options_and_choices(script):
    assert offered(script, "ex") == ["explain"]
    assert offered(script, "explain", "--da") == ["--data"]
    assert offered(script, "explain", "--align", "") == ["time", "order"]
    assert offered(script, "completion", "") == ["bash", "zsh", "fish"]


def test_names_of_every_kind(script):
    assert sorted(offered(script, "explain", "--method", "")) == sorted(EXPLAINERS)
    assert sorted(offered(script, "evaluate", "--metrics", "")) == sorted(METRICS)
    assert offered(script, "train", "stat") == ["state"]
    assert sorted(offered(script, "train", "state", "--model", "")) == ["cnn", "gru", "transformer"]
    assert offered(script, "bench", "table3") == ["table3", "table3-open"]


def test_files_stand_beside_names(script, tmp_path):
    for name in ("state.csv", "model.pt2", "states.html"):
        (tmp_path / name).touch()
    found = offered(script, "explain", "--data", "state", folder=tmp_path)
    assert sorted(found) == ["state", "state.csv", "states.html"]
    assert offered(script, "explain", "--model", "mod", folder=tmp_path) == ["model.pt2"]
    assert offered(script, "evaluate", "mod", folder=tmp_path) == ["model.pt2"]
    (tmp_path / "data").mkdir()
    assert offered(script, "explain", "--root", "", folder=tmp_path) == ["data"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_with_all_names(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "timexpp" in text
    assert "table3-open" in text


def test_the_script_is_sound(script):
    subprocess.run(["bash", "-n", script], check=True)


def test_without_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == "tempograd: This needs shtab: pip install 'tempograd[shell]'.\n"
