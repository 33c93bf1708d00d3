"""The help of every command, as it is read."""

import pytest

from tempograd.cli import main

COMMANDS = ("demo", "list", "train", "explain", "runs", "evaluate", "tune", "rank", "report", "top", "plot")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command, capsys, monkeypatch, said):
    """Without its first paragraph: how the usage is broken into lines depends on the version of Python."""
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    usage, _, text = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith(f"usage: tempograd {command}")
    said(text)
