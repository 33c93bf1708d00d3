"""Command line. Each command parses, calls the library, and prints what it returns."""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tempograd.cli.bench import add_bench
from tempograd.cli.demo import add_demo
from tempograd.cli.evaluate import add_evaluate
from tempograd.cli.explain import add_explain
from tempograd.cli.listing import add_list
from tempograd.cli.report import add_report
from tempograd.cli.table import add_table
from tempograd.cli.train import add_train
from tempograd.errors import TempogradError, TempogradWarning
from tempograd.version import __version__

__all__ = ["main"]

COMMANDS = (add_demo, add_list, add_train, add_explain, add_evaluate, add_bench, add_table, add_report)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for an error with one clear line, 130 when interrupted."""
    args = _parser().parse_args(argv)
    try:
        with _warnings_in_one_line(), _one_core_left():
            args.run(args)
            sys.stdout.flush()
    except TempogradError as error:
        print(f"tempograd: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tempograd: interrupted, nothing half-written was left behind.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tempograd",
        description="Which values of a series, at which moments, pushed a model's prediction up or down.",
        epilog="Start with: tempograd demo",
    )
    parser.add_argument("--version", action="version", version=f"tempograd {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in COMMANDS:
        add(commands)
    return parser


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print the library's own warnings like its errors; all others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", TempogradWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, TempogradWarning):
                print(f"tempograd: warning: {message}", file=sys.stderr)
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        yield
