"""Help that helps: one line per command, groups, and examples that are right."""

import re
import shlex

import pytest

from tempograd.cli import COMMANDS as REGISTERED
from tempograd.cli import main, make_parser
from tempograd_paper import commands as paper

COMMANDS = {
    "tempograd": ("demo", "list", "train", "explain", "runs", "evaluate", "tune", "rank", "report", "top", "plot")
}
COMMANDS |= {"python -m tempograd_paper": ("run", "table", "answers", "list")}
PARSERS = {"tempograd": make_parser, "python -m tempograd_paper": paper.make_parser}
EACH = pytest.mark.parametrize(
    ("program", "command"), [(each, name) for each in COMMANDS for name in COMMANDS[each]]
)


def parts(program="tempograd"):
    """Return the parsers of a program's commands, by their names."""
    (action,) = (each for each in PARSERS[program]()._actions if isinstance(each.choices, dict))
    return action.choices


def test_tempograd_alone_shows_the_usual_path(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    path = re.findall(r"tempograd (demo|train|explain|evaluate|top|report)\b", shown.split("the usual path:")[1])
    assert path == ["demo", "train", "explain", "evaluate", "top", "report"]


@pytest.mark.parametrize("program", PARSERS)
def test_every_command_of_the_usual_path_can_be_parsed(program):
    parser = PARSERS[program]()
    lines = [line.split(f"  {program} ")[1] for line in parser.epilog.splitlines() if f"  {program} " in line]
    assert len(lines) >= 3
    for line in lines:
        parser.parse_args(shlex.split(line))


@pytest.mark.parametrize("program", PARSERS)
def test_all_commands_are_here(program):
    others = REGISTERED.offers if program == "tempograd" else ()
    assert tuple(name for name in parts(program) if name not in others) == COMMANDS[program]
    assert not others or {"bench", "table"} <= set(others) & set(parts(program))


@EACH
def test_every_command_has_examples_that_can_be_parsed(program, command):
    examples = parts(program)[command].epilog.split("Examples:\n")[1].splitlines()
    assert 2 <= len(examples) <= 3
    for example in examples:
        assert example.startswith(f"  {program} {command}")
        PARSERS[program]().parse_args(shlex.split(example.removeprefix(f"  {program} ")))


@EACH
def test_every_option_says_what_it_does(program, command):
    for action in parts(program)[command]._actions:
        assert action.help or action.metavar == "E.safetensors", action.dest


@pytest.mark.parametrize("command", ["explain"])
def test_what_runs_code_is_said(command):
    assert (
        "The last two can run code as soon as they are opened: pass --trust for files of people you trust."
        in parts()[command].epilog
    )
