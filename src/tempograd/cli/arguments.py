"""Values that options are made of, arguments that several commands share, and commands as people can type them."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from tempograd.core.errors import brief

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
    parser.set_defaults(parser=parser)  # which knows what was probably meant
    return parser


def add_json(parser: Container, what: str = "print JSON, for programs") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def add_device(parser: Container) -> None:
    parser.add_argument("--device", help="for instance cpu or cuda:0 (default: a GPU if there is one)")


def add_force(parser: Container) -> None:
    parser.add_argument("--force", action="store_true", help="overwrite files that tempograd did not write")


# Values.


def parser_of(read: Callable[[str], Any], wanted: str) -> Callable[[str], Any]:
    """Return a function that reads a value, and says what is wanted where it cannot.

    Examples
    --------
    >>> parser_of(int, "a number such as 3")("three")
    Traceback (most recent call last):
    ...
    argparse.ArgumentTypeError: write a number such as 3, got 'three'
    """

    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"write {wanted}, got {brief(text)}") from None

    return parse


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _shape(text: str) -> tuple[int, int]:
    steps, channels = _whole_numbers(text)
    return steps, channels


parse_whole_number = parser_of(int, "a whole number such as 100")
parse_real_number = parser_of(float, "a number such as 0.1")
parse_amount = parser_of(
    lambda text: int(text) if text.isdigit() else float(text), "a count such as 100 or a share such as 0.1"
)
parse_steps = parser_of(
    lambda text: text if text == "own" else list(_whole_numbers(text)), "own, or steps such as 3,4"
)
parse_shape = parser_of(_shape, "steps and channels, as 48,32")
parse_address = parser_of(_whole_numbers, "addresses such as 3,1;4,1")


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value``: numbers, true, false, none, lists with commas, other JSON, else text.

    Examples
    --------
    >>> [parse_setting(text) for text in ("n_samples=100", "rule=midpoint", "areas=0.1,0.2", "segments=None")]
    [('n_samples', 100), ('rule', 'midpoint'), ('areas', [0.1, 0.2]), ('segments', None)]
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


def parse_targets(text: str) -> str | list[int | str | tuple[int, ...]]:
    """Read ``all``, targets such as ``0,5,11`` or ``survived,died``, or addresses such as ``3,1;4,1``.

    Examples
    --------
    >>> parse_targets("all"), parse_targets("0,5,11"), parse_targets("3,1;4,1"), parse_targets("3,1;")
    ('all', [0, 5, 11], [(3, 1), (4, 1)], [(3, 1)])
    """
    if text.strip() == "all":
        return "all"
    parts = [part.strip() for part in text.split(";" if ";" in text else ",") if part.strip()]
    if not parts:
        raise argparse.ArgumentTypeError("write all, targets such as 0,5,11, or addresses such as 3,1;4,1")
    return [parse_address(part) if ";" in text else _one_target(part) for part in parts]


def _one_target(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def parse_one_target(text: str) -> int | str | tuple[int, ...]:
    """Read one target: a number, a name, or an address such as ``3,1``.

    Examples
    --------
    >>> parse_one_target("2"), parse_one_target("died"), parse_one_target("3,1")
    (2, 'died', (3, 1))
    """
    parts = [_one_target(part.strip()) for part in text.split(",")]
    whole = len(parts) > 1 and all(isinstance(part, int) for part in parts)
    return tuple(map(int, parts)) if whole else _one_target(text.strip())


def parse_pick(text: str) -> str | int:
    """Read the name of a part, or its place.

    Examples
    --------
    >>> parse_pick("logits"), parse_pick("1")
    ('logits', 1)
    """
    return int(text) if text.lstrip("-").isdecimal() else text


def parse_names(text: str) -> list[str]:
    """Read names separated by commas.

    Examples
    --------
    >>> parse_names("cpd, cpp")
    ['cpd', 'cpp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_columns(text: str) -> str | list[str]:
    """Read a column, or several with commas; one of several that is alone ends in a comma.

    Examples
    --------
    >>> parse_columns("x"), parse_columns("pulse,sodium"), parse_columns("pulse,")
    ('x', ['pulse', 'sodium'], ['pulse'])
    """
    return parse_names(text) if "," in text else text


# Commands as people can type them.


def command(*words: str, **options: Any) -> str:
    """Return a command; what is None or False is left out.

    Lists are joined by commas, and a mapping repeats its option, as ``--set`` is.

    Examples
    --------
    >>> command("report", "my E.safetensors", data="a.csv", classes=["-1", "1"], root=None)
    "tempograd report 'my E.safetensors' --data a.csv --classes=-1,1"
    >>> command("explain", target=(3, 1), model_layout="BDT", set={"areas": [0.1, 0.2], "p": 0.5})
    "tempograd explain --target 3,1 --model-layout BDT --set 'areas=[0.1, 0.2]' --set p=0.5"
    """
    line = ["tempograd", *(f"./{word}" if word.startswith("-") else word for word in words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):  # an option without a value
            line += [option] if value else []
        elif isinstance(value, dict):
            for key, part in value.items():
                line += [option, f"{key}={part if isinstance(part, str) else json.dumps(part)}"]
        elif value is not None:  # a value that begins with a dash would be taken for an option
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            line += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join(line)
