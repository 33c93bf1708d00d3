"""Help that helps: one line per command, groups, and examples that are right."""

import re
import shlex

import pytest

from tempograd.cli import main, make_parser
from tempograd.cli.completion import _commands

COMMANDS = ("demo", "list", "train", "explain", "evaluate", "report", "bench", "table", "completion")


def test_tempograd_alone_shows_the_usual_path(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    path = re.findall(r"tempograd (demo|train|explain|evaluate|report)\b", shown.split("the usual path:")[1])
    assert path == ["demo", "train", "explain", "evaluate", "report"]


def test_every_command_of_the_usual_path_can_be_parsed():
    for line in make_parser().epilog.splitlines():
        if "  tempograd " in line:
            make_parser().parse_args(shlex.split(line.split("  tempograd ")[1]))


def test_all_commands_are_here():
    assert tuple(_commands(make_parser())) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_that_can_be_parsed(command):
    parser = _commands(make_parser())[command]
    examples = parser.epilog.split("Examples:\n")[1].splitlines()
    assert 2 <= len(examples) <= 3
    for example in examples:
        program, *words = shlex.split(example.split(" > ")[0])
        assert (program, words[0]) == ("tempograd", command)
        make_parser().parse_args(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command):
    for action in _commands(make_parser())[command]._actions:
        assert action.help or action.metavar == "E.safetensors", action.dest


@pytest.mark.parametrize("command", ["explain", "evaluate", "report"])
def test_what_runs_code_is_said(command):
    assert (
        "The last two can run code as soon as they are opened: pass --trust for files of people you trust."
        in _commands(make_parser())[command].epilog
    )
