"""Command line. Each command parses, calls the library, and prints what it returns.

What parses is light: torch is loaded with the module that does the work, which ``run`` of a command names.
"""

import argparse
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from tempograd.core.errors import TempogradError, TempogradWarning, one_line
from tempograd.core.progress import last_words, stoppable
from tempograd.core.registry import Registry, about
from tempograd.version import __version__

__all__ = ["main"]

OWN = {
    "demo": "train a model on embedded data, explain it with several methods, score them and write a report",
    "list": "show what there is, with one line each",
    "train": "train a model on a data set",
    "explain": "attribute a model's predictions to the values of its series",
    "runs": "tell how far a run over many files is, what failed in it and how good it is",
    "evaluate": "score explanations, and compare several of the same series",
    "tune": "find the settings of a method that suit a model",
    "rank": "find out which method is most faithful to a model, if that can be told",
    "report": "show explanations of the same series in one HTML file",
    "top": "look at one series: its sentence and its strongest values",
    "plot": "look at one series: a picture",
}
COMMANDS: Registry[Callable[[Any], None]] = Registry("command", "tempograd.commands", callable, "a function")
USAGE, UNREAD, SOME_FAILED, REFUSED = 2, 3, 4, 5  # exit codes
# all others are refused
EXITS = {"run.faults": SOME_FAILED, "run.other": REFUSED, "name": USAGE, "setting": USAGE, "data": UNREAD}
ABOUT = "Which values of a series, at which moments, pushed a model's prediction up or down."
PATH = """the usual path:
  see all of it  tempograd demo
  get a model    tempograd train state --out model.safetensors
  explain it     tempograd explain --model model.safetensors --data state --out E.safetensors
  test that      tempograd evaluate E.safetensors --model model.safetensors
  look at one    tempograd top E.safetensors
  look at all    tempograd report E.safetensors --model model.safetensors --out report.html

'tempograd COMMAND --help' has more examples, also for your own models and files.
"""


def _add_own(name: str, parts: Any) -> None:
    """Add one of our commands, whose arguments are loaded when they are needed."""
    import_module("tempograd.cli.parsers").add(parts, name, OWN[name])


for _name in OWN:
    COMMANDS.register(_name)(partial(_add_own, _name))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0; 2 for wrong usage, 3 for input that cannot be read, 4 where some series failed, 5 for what is refused,
    each with one clear line; 130 when interrupted, 143 when terminated.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        with _warnings_of_the_shell():
            parser = make_parser(words)
            if any(word.startswith("--config") for word in words):
                words = import_module("tempograd.cli.arguments").with_config(parser, words)
    except TempogradError as error:  # a command of another package
        return _failed(error)
    return run_command(parser, words)


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Run what a parser was made for; the command lines of other packages behave alike.

    ``run``, which a command sets as a default, is a function of the parsed arguments or, where importing it takes
    long, its place as ``"module:function"``. It may return an exit code.
    """
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(USAGE)
    args, left = parser.parse_known_args(argv)
    if left:
        words = one_line(" ".join(left))
        getattr(args, "parser", parser).error(f"unrecognized arguments: {words}; settings are --set NAME=VALUE")
    if isinstance(args.run, str):  # imported while a signal still ends the program at once, where it is one
        module, _, function = args.run.partition(":")
        args.run = getattr(import_module(module), function)
    else:
        import_module("torch")  # which such a function may need
    try:
        with stoppable(), _warnings_of_the_shell(), _printing():
            _leave_one_core()
            return args.run(args) or 0
    except TempogradError as error:
        return _failed(error)
    except KeyboardInterrupt as error:
        line, code = last_words(error)
        print(line, file=sys.stderr)
        return code


def _failed(error: TempogradError) -> int:
    print("tempograd:", error.finding.say("shell"), file=sys.stderr)
    return EXITS.get(error.code) or EXITS.get(error.default_code, REFUSED)


@contextmanager
def _warnings_of_the_shell() -> Iterator[None]:
    """Write the library's own warnings like its errors; all others are as Python has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", TempogradWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if isinstance(message, TempogradWarning):
                over = "\r" if sys.stderr.isatty() else ""  # a line that shows how far it is
                print(f"{over}tempograd: warning: {message.finding.say('shell')}", file=sys.stderr)
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        yield


@contextmanager
def _printing() -> Iterator[None]:
    """Print what can be printed; a reader that has seen enough, such as head, is no error, a full disk is one."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files can be any bytes
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try again when it ends


def _leave_one_core() -> None:
    """Use all cores but one, unless OMP_NUM_THREADS says otherwise.

    The threads of a small model wait for each other many times per step. When another program holds one
    of their cores, all wait: training became 18 times slower on two cores, and one thread was faster.
    """
    torch = sys.modules.get("torch")
    if torch is not None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) - 1)))


def make_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands that this package and others bring.

    With the ``words`` of a command line only the command that they name is loaded, and it is an error if it cannot
    be; all others have one line each, which :func:`tempograd.core.registry.about` finds in other packages.
    """
    parser, parts = start_parser("tempograd", ABOUT, PATH)
    wanted = next((word for word in words or () if not word.startswith("-")), None)
    own = words is not None and (wanted in OWN or words[:1] == ["--version"])  # which need no other package
    for name in OWN if own else COMMANDS:
        if words is None or name == wanted:
            COMMANDS[name](parts)
        else:
            line = OWN.get(name) or about(COMMANDS.offers[name])
            parts.add_parser(name, help=line.replace("%", "%%"))
    return parser


def start_parser(program: str, description: str, path: str) -> tuple[argparse.ArgumentParser, Any]:
    """Return a parser that lacks its commands, and what they are added to."""
    parser = argparse.ArgumentParser(
        prog=program, description=description, epilog=path, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"tempograd {__version__}")
    return parser, parser.add_subparsers(required=True, metavar="command", title="commands")
