"""Arguments that several commands share, and values they are made of."""

import argparse
import json
from pathlib import Path
from typing import Any

Commands = Any  # argparse gives the type of its sub-parsers no public name


FILES = """Files of series: an .npy holds x alone; an .npz holds arrays by name, of which only x is needed:
  x         the series (series, time, channel), floating point, a number in every cell
  mask      like x: 1 where a value was observed, 0 where it is missing
  y         labels (series,) or (series, time): classes (integers) or real values
  truth     like x: 1 where a value truly decided the label
  ids       distinct integers, one per series
  channels  one name per channel

"""


def add_command(
    commands: Commands, name: str, about: str, example: str, notes: str = ""
) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"{notes}Example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add what finds the files of a data set."""
    parser.add_argument("--root", type=Path, help="folder with the data sets' files (default: $TEMPOGRAD_DATA)")
    parser.add_argument("--variant", help="which version of a data set, for those that have several")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add where the model computes."""
    parser.add_argument("--device", help="for instance cpu or cuda:0 (default: a GPU if there is one)")


def device(name: str | None) -> str:
    """Return the device that was asked for, or the best there is."""
    import torch

    from tempograd.errors import InputError

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # torch raises either for a device that is not there
        raise InputError(f"There is no device {name!r} here: use cpu, or cuda:0 with a GPU.") from error
    return name


def setting(text: str) -> tuple[str, Any]:
    """Read ``name=value``; the value is JSON where it can be, else text.

    Examples
    --------
    >>> setting("points=100"), setting("rule=midpoint")
    (('points', 100), ('rule', 'midpoint'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"write name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def amount(text: str) -> int | float:
    """Read a count (``100``) or a share (``0.1``)."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"write a count such as 100 or a share such as 0.1, got {text!r}"
        ) from None


def steps(text: str) -> str | list[int]:
    """Read ``own`` or steps such as ``3,4``."""
    if text == "own":
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"write own, or steps such as 3,4, got {text!r}") from None


def names(text: str) -> list[str]:
    """Read names separated by commas.

    Examples
    --------
    >>> names("cpd, cpp")
    ['cpd', 'cpp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]
