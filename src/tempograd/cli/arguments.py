"""Arguments that several commands share, values they are made of, and where a command may write."""

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempograd.errors import brief

if TYPE_CHECKING:
    from tempograd._utils.io import Kind


Commands = Any  # argparse gives the type of its sub-parsers no public name
Container = Any  # nor its groups of arguments


def add_command(
    commands: Commands, name: str, about: str, examples: Sequence[str], notes: str = "", usage: str | None = None
) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples; ``usage`` stands for a list of options too long to read."""
    program = commands._prog_prefix
    shown = "\n".join(f"  {program} {name} {example}".rstrip() for example in examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"{notes}Examples:\n{shown}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=None if usage is None else f"{program} {name} {usage}",
    )
    return parser


def add_json(parser: Container, what: str = "print JSON, for programs") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def add_source(parser: Container) -> None:
    """Add what finds the files of a data set."""
    parser.add_argument("--root", type=Path, help="folder with the data sets' files (default: $TEMPOGRAD_DATA)")
    parser.add_argument("--variant", help="which version of a data set, for those that have several")


def add_device(parser: Container) -> None:
    parser.add_argument("--device", help="for instance cpu or cuda:0 (default: a GPU if there is one)")


def device(name: str | None) -> str:
    """Return the device that was asked for, or the best there is."""
    import torch

    from tempograd.models import find_device

    best = "cuda" if torch.cuda.is_available() else "cpu"
    return str(find_device(best if name is None else name))


def setting(text: str) -> tuple[str, Any]:
    """Read ``name=value``: numbers, true, false, none, lists with commas, other JSON, else text.

    Examples
    --------
    >>> setting("n_samples=100"), setting("rule=midpoint"), setting("areas=0.1,0.2"), setting("segments=None")
    (('n_samples', 100), ('rule', 'midpoint'), ('areas', [0.1, 0.2]), ('segments', None))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"write name=value, got {brief(text)}")
    if "," in value and value[:1] not in '[{"':
        return name.strip(), [_plain(part) for part in value.split(",") if part.strip()]
    return name.strip(), _plain(value)


def _plain(text: str) -> Any:
    word = text.strip()
    try:
        return json.loads({"none": "null", "true": "true", "false": "false"}.get(word.lower(), word))
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, lists without end
        return word


def amount(text: str) -> int | float:
    """Read a count (``100``) or a share (``0.1``)."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"write a count such as 100 or a share such as 0.1, got {brief(text)}"
        ) from None


def steps(text: str) -> str | list[int]:
    """Read ``own`` or steps such as ``3,4``."""
    if text == "own":
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"write own, or steps such as 3,4, got {brief(text)}") from None


def command(*words: str, **options: Any) -> str:
    """Return a command as people can type it; lists are joined by commas, what is None or False is left out.

    Examples
    --------
    >>> command("report", "my E.safetensors", data="a.csv", classes=["-1", "1"], root=None)
    "tempograd report 'my E.safetensors' --data a.csv --classes=-1,1"
    """
    line = ["tempograd", *(f"./{word}" if word.startswith("-") else word for word in words)]
    for name, value in options.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        if isinstance(value, bool):  # an option without a value
            line += [f"--{name}"] if value else []
        elif value is not None:  # a value that begins with a dash would be taken for an option
            line += [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    return shlex.join(line)


def names(text: str) -> list[str]:
    """Read names separated by commas.

    Examples
    --------
    >>> names("cpd, cpp")
    ['cpd', 'cpp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


# What the library says in Python's words, in those of the command line.

WORDS = {
    "output='raw'": "--output raw",
    "output='probability'": "--output probability",
    "missing='mask'": "--missing mask",
    "pass layout='BDT'": "write the file as (series, time, channel)",
    "target= ": "--target ",
    "pass draws=": "pass --set draws=",
    "pass trust=True": "pass --trust",
    "pass force=True": "pass --force",
}


def as_typed(message: str) -> str:
    """Return a sentence with options instead of arguments.

    Examples
    --------
    >>> as_typed("Pass output='raw', and target= for one of them.")
    'Pass --output raw, and --target for one of them.'
    """
    for argument, option in WORDS.items():
        message = message.replace(argument, option)
    return message


# Where a command writes: known to be possible before the work starts, and never one of its inputs.

OUTPUTS = {"out", "archive"}


def add_out(parser: Container, default: str) -> None:
    """Add the file to write, and the leave to overwrite files of others."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="FILE", help=f"(default: {default})")
    add_force(parser)


def add_force(parser: Container) -> None:
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
