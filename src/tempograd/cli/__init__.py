"""Command line. Each command parses, calls the library, and prints what it returns.

What parses is light: torch is loaded with the module that does the work, which ``run`` of a command names.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from tempograd.cli.colour import coloured
from tempograd.cli.holding import holding_warnings, release
from tempograd.core.errors import LONGEST, OutputError, TempogradError, closest, listed, one_line, quote, warn
from tempograd.core.progress import last_words, stoppable
from tempograd.core.registry import Registry, about, package
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
    "plot": "look at one series: a picture in a file, or in the terminal",
}
COMMANDS: Registry[Callable[[Any], None]] = Registry("command", "tempograd.commands", callable, "a function")
ABOUT = "Which values of a series, at which moments, pushed a model's prediction up or down."
PATH = """the usual path:
  see all of it  tempograd demo
  get a model    tempograd train state --out model.safetensors
  explain it     tempograd explain --model model.safetensors --data state --out E.safetensors
  test that      tempograd evaluate E.safetensors --model model.safetensors
  look at one    tempograd top E.safetensors
  look at all    tempograd report E.safetensors --model model.safetensors --data state --out report.html

'tempograd COMMAND --help' has more examples, also for your own models and files.
"""


def _own(name: str, line: str) -> Callable[[Any], None]:
    """Return what adds one of our commands, whose arguments are loaded when they are needed."""
    return lambda parts: getattr(import_module("tempograd.cli.parsers"), f"add_{name}")(parts, line)


for _name, _line in OWN.items():
    COMMANDS.register(_name)(_own(_name, _line))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0, 1 for an error with one clear line, 130 when interrupted, 143 when terminated. Wrong usage
    ends the program with exit code 2.
    """
    _open_closed()
    words = sys.argv[1:] if argv is None else argv
    try:
        with holding_warnings():
            parser = make_parser(words)
    except TempogradError as error:  # a command of another package
        return _failed(error)
    release()
    return run_command(parser, words)


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Run what a parser was made for; the command lines of other packages behave alike.

    ``run``, which a command sets as a default, is a function of the parsed arguments or, where importing it takes
    long, its place as ``"module:function"``.
    """
    _open_closed()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)
        parser.exit(2)
    args = parser.parse_args(argv)
    if isinstance(args.run, str):  # imported while a signal still ends the program at once, where it is one
        module, _, function = args.run.partition(":")
        args.run = getattr(import_module(module), function)
    else:
        import_module("torch")  # which such a function may need

    try:
        with stoppable(), holding_warnings(), _one_core_left(), _printing(args.run.__module__):
            args.run(args)
    except TempogradError as error:
        return _failed(error)
    except KeyboardInterrupt as error:
        line, code = last_words(error)
        print(line, file=sys.stderr)
        return code
    finally:
        release()
    return 0


def _open_closed() -> None:
    """Let what is printed go nowhere where a stream was closed, as under some daemons."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _failed(error: TempogradError) -> int:
    print(coloured("tempograd:", "error", sys.stderr), error.finding.say("shell"), file=sys.stderr)
    release()
    return 1


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
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    printing = (command, "tempograd.cli", "tempograd.core.progress")
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(printing)


@contextmanager
def _one_core_left() -> Iterator[None]:
    """Use all cores but one, unless OMP_NUM_THREADS says otherwise.

    The threads of a small model wait for each other many times per step. When another program holds one
    of their cores, all wait: training became 18 times slower on two cores, and one thread was faster.
    """
    torch = sys.modules.get("torch")
    if torch is None:  # this command computes nothing
        yield
        return
    threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(threads, (os.cpu_count() or 1) - 1)))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Parser(argparse.ArgumentParser):
    """A parser that says which command or option was probably meant, and whose help fits a screen.

    Options in ``rare``, by their names in the parsed arguments, and ``notes`` are in that of ``--help-all`` only.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.rare: frozenset[str] = frozenset()
        self.notes = ""
        self.everything = False

    def format_help(self) -> str:
        """Return the help, without what few people need."""
        if self.everything or not self.rare:
            return super().format_help() + (f"\n{self.notes}" if self.notes else "")
        kept = {action: action.help for action in self._actions if action.dest in self.rare}
        for action in kept:
            action.help = argparse.SUPPRESS
        try:
            return super().format_help()
        finally:
            for action, words in kept.items():
                action.help = words

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all of the words; what is left over is a mistake in the command that they name."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            parser = self.of_command(args)
            parser.error(f"unrecognized arguments: {' '.join(left)}{parser.meant(left[0])}")
        return found

    def meant(self, word: str) -> str:
        """Say which option was probably meant, or how settings are passed."""
        options = self._option_string_actions.items()  # of rare ones, a slip has the first letter right
        known = [option[2:] for option, it in options if it.dest not in self.rare or option[:3] == word[:3]]
        close = closest(word[2:].partition("=")[0], known) if word.startswith("--") else None
        if close is not None:
            return f"; did you mean --{close}?"
        return (
            "; settings of a method are passed as --set NAME=VALUE"
            if "--set" in self._option_string_actions
            else ""
        )

    def of_command(self, words: Sequence[str] | None) -> "_Parser":
        """Return the parser of the command that some words name."""
        given = sys.argv[1:] if words is None else words
        name = next((word for word in given if word in self.commands), None)
        parts = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return self if name is None else next(names[name] for names in parts if name in names)

    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument command: invalid choice: '([^']*)'", message)
        close = closest(wrong[1], self.commands) if wrong else None
        message = f"{message}; did you mean {close}?" if close is not None else message
        # a word of a user's can be as long as a book
        super().error(one_line(message, LONGEST - len(self.prog) - 9))

    @property
    def commands(self) -> list[str]:
        """Return the names of all commands."""
        parts = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return [name for names in parts for name in names]


def make_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands that this package and others bring.

    With the ``words`` of a command line only the command that they name is loaded, and it is an error if it cannot
    be; all others have one line each, which :func:`tempograd.core.registry.about` finds in other packages.
    """
    parser, parts = start_parser("tempograd", ABOUT, PATH)
    wanted = next((word for word in words or () if not word.startswith("-")), None)
    for name, line in OWN.items():
        if words is None or name == wanted:
            COMMANDS[name](parts)
        else:
            parts.add_parser(name, help=line)
    if words is None or (wanted not in OWN and words[:1] != ["--version"]):  # which need no other package
        _add_offered(parts, wanted, everything=words is None)
    return parser


def _add_offered(parts: Any, wanted: str | None, *, everything: bool) -> None:
    """Add the commands of other packages."""
    for name, points in COMMANDS.offers.items():
        try:
            if everything or name == wanted:
                _add(name, parts)
                continue
        except TempogradError as error:
            if name == wanted:
                raise
            warn(error.finding.text)
        many = f"offered by several packages: {listed(map(package, points))}"
        line = about(points[0]) if len(points) == 1 else many
        parts.add_parser(name, help=line.replace("%", "%%"))


def _add(name: str, parts: Any) -> None:
    add = COMMANDS[name]
    try:
        add(parts)
    except Exception as error:  # whatever happens in another package
        raise TempogradError(
            f"The command {quote(name)} of the package {package(COMMANDS.offers[name][0])} cannot be added: "
            f"{type(error).__name__}: {one_line(str(error), 120)}"
        ) from error


def start_parser(program: str, description: str, path: str) -> tuple[argparse.ArgumentParser, Any]:
    """Return a parser that lacks its commands, and what they are added to."""
    parser = _Parser(
        prog=program, description=description, epilog=path, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"tempograd {__version__}")
    return parser, parser.add_subparsers(required=True, metavar="command", title="commands")
