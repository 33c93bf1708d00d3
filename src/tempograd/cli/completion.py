"""``tempograd completion``: what the Tab key offers in a shell."""

import argparse
from typing import Any

from tempograd.cli.arguments import Commands, add_command
from tempograd.errors import MissingExtraError

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = (
    "bash > ~/.local/share/bash-completion/completions/tempograd",
    "zsh > ~/.zfunc/_tempograd",
    "fish > ~/.config/fish/completions/tempograd.fish",
)
NAMES = {  # arguments that take a name, by what they are called
    "dataset": "datasets",
    "datasets": "datasets",
    "method": "explainers",
    "methods": "explainers",
    "metrics": "metrics",
}
MIXED = {"data": "datasets", "train": "datasets", "plan": "plans"}  # a name or a file
FOLDERS = {"root", "results", "archive"}
FILES = {"explanations", "weights", "raw", "out"}


def add_completion(commands: Commands) -> None:
    parser = add_command(commands, "completion", "print what makes the Tab key complete commands", EXAMPLES)
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError("shtab", "shell") from error
    from tempograd.cli import make_parser

    parser = make_parser()
    for command, part in _commands(parser).items():
        for action in part._actions:
            _complete(action, command)
    print(shtab.complete(parser, shell=args.shell))


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _complete(action: Any, command: str) -> None:
    """Tell shtab what an argument may be: some names, files, folders, or names and files."""
    import shtab

    from tempograd.cli.listing import describe

    kind = NAMES.get(action.dest)
    if action.dest == "model":  # a name where a model is trained, a file where one is used
        kind = "models" if command == "train" else None
    if kind is not None:
        action.choices = [entry["name"] for entry in describe(kind)]
    elif action.dest in MIXED:
        known = [entry["name"] for entry in describe(MIXED[action.dest])]
        action.complete = _names_or_files(MIXED[action.dest], known)
    elif action.dest in FOLDERS or (action.dest == "out" and command in {"bench", "demo"}):
        action.complete = shtab.DIRECTORY
    elif action.dest in FILES | {"model"}:
        action.complete = shtab.FILE


def _names_or_files(kind: str, names: list[str]) -> dict[str, Any]:
    """Return what completes to one of the names or to a file, in every shell."""
    function, words = f"_tempograd_{kind}", " ".join(names)
    return {
        "bash": function,
        "zsh": function,
        "fish": f"(printf '%s\\n' {words}; __fish_complete_path (commandline -ct))",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{words}" -- $1\n  compgen -f -- $1\n}}\n',
            "zsh": f"{function}() {{\n  _alternative 'names:name:({words})' 'files:file:_files'\n}}\n",
        },
    }
