"""Arguments that several commands share, and the values they are made of; nothing that takes long to import."""

import argparse
import json
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tempograd.core.errors import brief

Commands = Any  # argparse gives the type of its sub-parsers no public name
Container = Any  # nor its groups of arguments


def add_command(
    commands: Commands, name: str, about: str, examples: Sequence[str], notes: str = "", usage: str | None = None
) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples; ``usage`` stands for a list of options too long to read.

    :func:`show_only` keeps that help short.
    """
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


class _HelpAll(argparse.Action):
    """Print the help with all options."""

    def __call__(self, parser: Any, *_given: Any, **_named: Any) -> None:
        parser.everything = True
        parser.print_help()
        parser.exit()


def show_only(parser: argparse.ArgumentParser, shown: Collection[str], notes: str = "", more: str = "") -> None:
    """Let the help have some of the options only, and ``--help-all`` all of them, ``more`` words and ``notes``."""
    parser.add_argument(
        "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help=f"all options{more}"
    )
    with_help: Any = parser  # our parsers have these two
    with_help.rare = frozenset(action.dest for action in parser._actions) - {"help", "help_all", *shown}
    with_help.notes = notes


def add_json(parser: Container, what: str = "print JSON, for programs") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def add_source(parser: Container) -> None:
    """Add what finds the files of a data set."""
    parser.add_argument("--root", type=Path, help="folder with the data sets' files (default: $TEMPOGRAD_DATA)")
    parser.add_argument("--variant", help="which version of a data set, for those that have several")


def add_device(parser: Container) -> None:
    parser.add_argument("--device", help="for instance cpu or cuda:0 (default: a GPU if there is one)")


def add_out(parser: Container, default: str) -> None:
    """Add the file to write, and the leave to overwrite files of others."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="FILE", help=f"(default: {default})")
    add_force(parser)


def add_force(parser: Container) -> None:
    parser.add_argument("--force", action="store_true", help="overwrite files that tempograd did not write")


# Models and series, which several commands read.

FORMS = """Models are
  model.safetensors  by 'tempograd train' or tempograd.save_model
  module:callable    your own code: an nn.Module, or what returns one when called without arguments; it is
                     imported from the current folder and run, --weights FILE loads its state_dict
  model.pt2          by torch.export.save, best exported with a dynamic batch dimension; needs --trust
  model.pt           TorchScript, by torch.jit.save; needs --trust
The last two can run code as soon as they are opened: pass --trust for files of people you trust.

"""


def add_model(parser: argparse.ArgumentParser, *, needed: bool = True) -> Any:
    """Add the model, its weights, whether it may run code, and where it computes."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", required=needed, metavar="MODEL", help="a file, or module:callable")
    group.add_argument("--weights", type=Path, metavar="FILE", help=".safetensors or .pt, for module:callable")
    group.add_argument("--trust", action="store_true", help="open a .pt2 or TorchScript file (can run code)")
    add_device(group)
    return group


FILES = """Files of series end in
  .csv .tsv .parquet  tables: one row per series and step (long), per series, step and channel (melted), or per
                      series (wide); empty cells are missing values; columns with obvious names need no option
  .ts                 the text format of the UEA and UCR archives
  .npy                the series x alone
  .npz                arrays by name, of which only x is needed:
    x         the series (series, time, channel), floating point, a number in every cell or --missing mask
    mask      like x: 1 where a value was observed, 0 where it is missing
    y         labels (series,) or (series, time): classes (integers or text) or real values
    truth     like x: 1 where a value truly decided the label
    ids       distinct integers or names, one per series
    channels  one name per channel
    times     one name per time step, or (series, time) where series have time stamps of their own
    units     one unit per channel
    raw       like x: the values before they were scaled for the model, which people are shown
"""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add where data sets lie and what the columns of a table are."""
    group = parser.add_argument_group("data sets")
    group.add_argument("--split", default="test", choices=("train", "validation", "test"), help="(default: test)")
    add_source(group)
    group = parser.add_argument_group("tables (.csv, .tsv, .parquet)")
    group.add_argument("--format", choices=("long", "melted", "wide"), help="(default: what the columns say)")
    group.add_argument("--id", metavar="COLUMN", help="the series' names")
    group.add_argument("--time", metavar="COLUMN", help="the time: numbers or ISO dates")
    group.add_argument("--label", metavar="COLUMN", help="the label, which is no channel")
    group.add_argument("--variable", metavar="COLUMN", help="of a melted table: the channels' names")
    group.add_argument("--value", metavar="COLUMN", help="of a melted table: the values")
    group.add_argument(
        "--channels",
        type=parse_names,
        metavar="A,B,…",
        help="which columns in which order, by name; where files name none, their names",
    )
    group.add_argument(
        "--classes", type=parse_names, metavar="A,B,…", help="names of class 0, 1, … (default: labels, sorted)"
    )
    group.add_argument(
        "--align",
        choices=("time", "order"),
        help="where series have gaps: one step per distinct time, or per row of a series",
    )
    group = parser.add_argument_group("arrays (.npy, .npz)")
    group.add_argument(
        "--missing",
        choices=("error", "mask"),
        help="NaN is a mistake, or a missing value as an empty cell of a table is, masked and 0 (default: error)",
    )
    group.add_argument(
        "--inputs", type=parse_names, metavar="A,B,…", help="the arrays that the model takes, if not x, by keyword"
    )
    group.add_argument(
        "--fixed", type=parse_names, metavar="A,B,…", help="arrays that go along with the series, never explained"
    )


NOTES = FORMS + FILES  # of commands that read models and series
MORE = ", and the kinds of models and files"
MODELS = {"model", "weights", "trust"}
TABLES = {"id", "time", "label", "classes", "channels"}


def add_run(group: Any) -> None:
    """Add what is for runs alone: where parts of series are found, what is kept, and who computes."""
    group.add_argument(
        "--x",
        type=parse_columns,
        metavar="COLUMN",
        help="the series, one per row, as lists; or A,B,…, columns where rows are one step each (default: x)",
    )
    group.add_argument("--mask", metavar="COLUMN", help="what was observed, like x; or an .npy file beside arrays")
    group.add_argument(
        "--shape", type=parse_shape, metavar="T,D", help="steps and channels, of flat or unequal lists"
    )
    group.add_argument("--keep", type=parse_names, metavar="A,B,…", help="columns that go along to the results")
    group.add_argument(
        "--cells",
        choices=("all", "top", "none"),
        help="keep all scores, the 20 strongest, or sums alone (default: all)",
    )
    group.add_argument("--engine", choices=("ray",), help="a Ray cluster (default: this machine)")
    group.add_argument(
        "--workers", type=parse_whole_number, metavar="N", help="how many (default: 1; with ray all GPUs or cores)"
    )
    group.add_argument(
        "--batch", type=parse_whole_number, metavar="N", help="series per call (default: found automatically)"
    )
    group.add_argument(
        "--fragment",
        type=parse_whole_number,
        metavar="N",
        help="about N series per file (default: 8192)",
    )
    group.add_argument(
        "--max-faults",
        type=parse_real_number,
        metavar="SHARE",
        help="stop when more of the series cannot be explained (default: 0.01)",
    )


# Values.


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


def parse_whole_number(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"write a whole number such as 100, got {brief(text)}") from None


def parse_real_number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"write a number such as 0.1, got {brief(text)}") from None


def parse_amount(text: str) -> int | float:
    """Read a count (``100``) or a share (``0.1``)."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"write a count such as 100 or a share such as 0.1, got {brief(text)}"
        ) from None


def parse_steps(text: str) -> str | list[int]:
    """Read ``own`` or steps such as ``3,4``."""
    if text == "own":
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"write own, or steps such as 3,4, got {brief(text)}") from None


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
    return [_address(part) if ";" in text else _one_target(part) for part in parts]


def _one_target(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _address(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"write addresses such as 3,1;4,1, got {brief(text)}") from None


def parse_one_target(text: str) -> int | str | tuple[int, ...]:
    """Read one target: a number, a name, or an address such as ``3,1``.

    Examples
    --------
    >>> parse_one_target("2"), parse_one_target("died"), parse_one_target("3,1")
    (2, 'died', (3, 1))
    """
    parts = text.split(",")
    whole = len(parts) > 1 and all(isinstance(_one_target(part.strip()), int) for part in parts)
    return _address(text) if whole else _one_target(text.strip())


def parse_pick(text: str) -> str | int:
    """Read the name of a part, or its place.

    Examples
    --------
    >>> parse_pick("logits"), parse_pick("1")
    ('logits', 1)
    """
    return int(text) if text.lstrip("-").isdecimal() else text


def command(*words: str, **options: Any) -> str:
    """Return a command as people can type it; what is None or False is left out.

    Lists are joined by commas, and a mapping repeats its option, as ``--set`` is.

    Examples
    --------
    >>> command("report", "my E.safetensors", data="a.csv", classes=["-1", "1"], root=None)
    "tempograd report 'my E.safetensors' --data a.csv --classes=-1,1"
    >>> command("explain", target=(3, 1), model_layout="BDT", set={"batch_size": 4, "p": 0.5})
    'tempograd explain --target 3,1 --model-layout BDT --set batch_size=4 --set p=0.5'
    """
    line = ["tempograd", *(f"./{word}" if word.startswith("-") else word for word in words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):  # an option without a value
            line += [option] if value else []
        elif isinstance(value, dict):
            line += [word for key, each in value.items() for word in (option, f"{key}={_written(each)}")]
        elif value is not None:  # a value that begins with a dash would be taken for an option
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            line += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join(line)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def parse_columns(text: str) -> str | list[str]:
    """Read a column, or several with commas; one of several that is alone ends in a comma.

    Examples
    --------
    >>> parse_columns("x"), parse_columns("pulse,sodium"), parse_columns("pulse,")
    ('x', ['pulse', 'sodium'], ['pulse'])
    """
    return parse_names(text) if "," in text else text


def parse_shape(text: str) -> tuple[int, int]:
    """Read steps and channels.

    Examples
    --------
    >>> parse_shape("48,32")
    (48, 32)
    """
    parts = text.split(",")
    try:
        steps, channels = map(int, parts)
    except ValueError:
        raise argparse.ArgumentTypeError(f"write steps and channels, as 48,32, got {brief(text)}") from None
    return steps, channels


def parse_names(text: str) -> list[str]:
    """Read names separated by commas.

    Examples
    --------
    >>> parse_names("cpd, cpp")
    ['cpd', 'cpp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]
