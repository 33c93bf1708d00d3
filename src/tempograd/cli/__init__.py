"""Command line. Each command parses, calls the library, and prints what it returns."""

import argparse
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

from tempograd._utils.progress import last_words, stoppable
from tempograd._utils.registry import Registry
from tempograd.cli.arguments import as_typed
from tempograd.cli.commands import add_evaluate, add_explain, add_list, add_report, add_train
from tempograd.cli.demo import add_demo
from tempograd.errors import LONGEST, OutputError, TempogradError, TempogradWarning, one_line
from tempograd.version import __version__

__all__ = ["main"]

COMMANDS: Registry[Callable[[Any], None]] = Registry("command", "tempograd.commands")
for _add in (add_demo, add_list, add_train, add_explain, add_evaluate, add_report):
    COMMANDS.register(_add.__name__.removeprefix("add_"))(_add)
PATH = """the usual path:
  see all of it  tempograd demo
  get a model    tempograd train state --out model.safetensors
  explain it     tempograd explain --model model.safetensors --data state --out E.safetensors
  test that      tempograd evaluate E.safetensors --model model.safetensors
  look at it     tempograd report E.safetensors --model model.safetensors --data state --out report.html

'tempograd COMMAND --help' has more examples, also for your own models and files.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0, 1 for an error with one clear line, 130 when interrupted, 143 when terminated. Wrong usage
    ends the program with exit code 2.
    """
    with _warnings_in_one_line():
        parser = make_parser()
    return run_command(parser, argv)


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Run what a parser was made for; the command lines of other packages behave alike."""
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)
        parser.exit(2)
    args = parser.parse_args(argv)
    import torch  # noqa: F401  # while a signal still ends the program at once, where it is one

    try:
        with stoppable(), _warnings_in_one_line(), _one_core_left(), _printing(args.run.__module__):
            args.run(args)
    except TempogradError as error:
        print(f"tempograd: {as_typed(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        line, code = last_words(error)
        print(line, file=sys.stderr)
        return code
    return 0


@contextmanager
def _printing(command: str) -> Iterator[None]:
    """Print what can be printed; a reader that has seen enough, such as head, is no error, a full disk is one."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files can be any bytes
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, TempogradError) or not _was_printing(error, command):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try again when it ends
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"What was to be printed could not be written: {error.strerror}.") from error


def _was_printing(error: OSError, command: str) -> bool:
    """Tell whether an error comes from a line that prints, which only lines of these modules do."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    printing = (command, "tempograd.cli", "tempograd._utils.progress")
    return str(frame.f_globals.get("__name__")).startswith(printing)


@contextmanager
def _one_core_left() -> Iterator[None]:
    """Use all cores but one, unless OMP_NUM_THREADS says otherwise.

    The threads of a small model wait for each other many times per step. When another program holds one
    of their cores, all wait: training became 18 times slower on two cores, and one thread was faster.
    """
    import torch

    threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(threads, (os.cpu_count() or 1) - 1)))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Parser(argparse.ArgumentParser):
    """A parser that says which command was probably meant."""

    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument command: invalid choice: '([^']*)'", message)
        close = get_close_matches(wrong[1], self.commands, n=1) if wrong else []
        message = f"{message}; did you mean {close[0]}?" if close else message
        # a word of a user's can be as long as a book
        super().error(one_line(message, LONGEST - len(self.prog) - 9))

    @property
    def commands(self) -> list[str]:
        """Return the names of all commands."""
        parts = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return [name for names in parts for name in names]


def make_parser(
    commands: Sequence[Callable[[Any], None]] | None = None,
    program: str = "tempograd",
    about: str = "Which values of a series, at which moments, pushed a model's prediction up or down.",
    path: str = PATH,
) -> argparse.ArgumentParser:
    """Return the parser of some commands, by default of all that this package and others bring."""
    parser = _Parser(
        prog=program, description=about, epilog=path, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"tempograd {__version__}")
    parts = parser.add_subparsers(required=True, metavar="command", title="commands")
    for add in COMMANDS.working().values() if commands is None else commands:
        add(parts)
    return parser


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print the library's own warnings like its errors; all others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", TempogradWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, TempogradWarning):
                print(f"tempograd: warning: {as_typed(str(message))}", file=sys.stderr)
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        yield
