"""Where a command writes: known to be possible before the work starts, and never one of its inputs."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import Container

if TYPE_CHECKING:
    from tempograd._utils.io import Kind

OUTPUTS = {"out", "archive"}


def add_force(parser: Container) -> None:
    """Add the leave to overwrite files of others."""
    parser.add_argument("--force", action="store_true", help="overwrite files that tempograd did not write")


def claim(args: argparse.Namespace, kind: "Kind") -> None:
    """Make sure that ``--out`` can be written, that it is no input, and nobody else's file without ``--force``."""
    from tempograd._utils.io import check_output

    check_output(args.out, kind, inputs=inputs(args), force=args.force)


def inputs(args: argparse.Namespace) -> Iterator[Path]:
    """Yield every file that an argument may mean: what a command reads is among them, whatever it is called."""
    for name, value in vars(args).items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if name not in OUTPUTS and isinstance(part, (str, Path)):
                yield Path(part)
                yield from _code(str(part))
                if Path(part).is_dir():  # of results, whose files a command may read
                    yield from Path(part).iterdir()


def _code(text: str) -> Iterator[Path]:
    """Yield the files that ``module:callable`` may be imported from."""
    module, colon, _ = text.partition(":")
    path = Path(*module.split("."))
    if colon and path.name:  # ".." has none
        yield from (path.with_name(f"{path.name}.py"), path / "__init__.py")
