"""Arguments of commands: values from texts and files, options made from what the library takes, what to type next.

An option has the name of its field, its type and choices, and the first words of its documentation, all read from
the source of the library's nouns and functions, so without torch.
"""

import argparse
import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tempograd.core.errors import OPTIONS, DataError, UnknownNameError, brief, one_line, short_path

Commands = Any  # argparse gives the type of its sub-parsers no public name


def add_command(commands: Commands, name: str, about: str, examples: Sequence[str], notes: str = "") -> Any:
    """Add a command whose help ends with examples."""
    shown = "\n".join(f"  {commands._prog_prefix} {name} {example}".rstrip() for example in examples)
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"{notes}Examples:\n{shown}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)  # which knows what was probably meant
    return parser


# Values. Where a text cannot be read, argparse names the kind, which is the name of the function.


def amount(text: str) -> int | float:
    """Read a count such as 100, or a share such as 0.1."""
    return int(text) if text.isdigit() else float(text)


def names(text: str) -> list[str]:
    """Read names separated by commas.

    Examples
    --------
    >>> names("cpd, cpp")
    ['cpd', 'cpp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    return tuple(map(int, text.split(",")))


def steps(text: str) -> str | list[int]:
    """Read ``own``, or steps such as ``3,4``."""
    return text if text == "own" else list(numbers(text))


def output_part(text: str) -> int | str:
    """Read the name of a part of an output, or its place."""
    return int(text) if text.lstrip("-").isdecimal() else text


def target(text: str) -> int | str | tuple[int, ...]:
    """Read one target: a number, a name, or an address.

    Examples
    --------
    >>> target("2"), target("died"), target("3,1"), target("left, right")
    (2, 'died', (3, 1), 'left, right')
    """
    if re.fullmatch(r"\d{1,9}(\s*,\s*\d{1,9})*", text.strip(), re.ASCII):
        place = numbers(text)
        return place if len(place) > 1 else place[0]
    return text.strip()


def targets(text: str) -> str | list[int | str | tuple[int, ...]]:
    """Read ``all``, targets such as ``0,5,11`` or ``survived,died``, or addresses such as ``3,1;4,1``.

    Examples
    --------
    >>> targets("all"), targets("0,died"), targets("3,1;4,1"), targets("3,1;")
    ('all', [0, 'died'], [(3, 1), (4, 1)], [(3, 1)])
    """
    if text.strip() == "all":
        return "all"
    return [target(one) for one in text.split(";" if ";" in text else ",") if one.strip()]


def setting_value(text: str) -> tuple[str, Any]:
    """Read ``name=value``: numbers, true, false, none, lists with commas, other JSON, else text.

    Examples
    --------
    >>> [setting_value(text) for text in ("n_samples=100", "rule=midpoint", "areas=0.1,0.2", "segments=None")]
    [('n_samples', 100), ('rule', 'midpoint'), ('areas', [0.1, 0.2]), ('segments', None)]
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"write name=value, got {brief(text)}")
    if "," in value and value[:1] not in '[{"':
        return name.strip(), [_plain(word) for word in names(value)]
    return name.strip(), _plain(value.strip())


def _plain(word: str) -> Any:
    try:
        return json.loads({"none": "null", "true": "true", "false": "false"}.get(word.lower(), word))
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, lists without end
        return word


# Options that are fields.

HOME = Path(__file__).parents[1]
NOUNS = {  # where the fields of each group stand
    "predictor": ("engine/predictor.py", "Predictor"),
    "series": ("core/series.py", "Series"),
    "source": ("data/pivot.py", "Columns"),
    "question": ("core/question.py", "Question"),
    "effort": ("core/question.py", "Effort"),
    "run": ("bulk/telling.py", "Terms"),
}
TOLD = ("bulk/driver.py", "explain_dataset")  # whose documentation has the settings of a run
PYTHON = {"predictor.model", "predictor.modules", "predictor.reset"}  # no options
DOCUMENTED = re.compile(r"^(\w[\w, ]*?)(?: : (.+))?\n((?:    .+\n?)+)", re.MULTILINE)  # fields in a docstring
RUN = ("cells", "removed", "engine", "workers", "timeout", "fragment", "max_faults")  # and limit
# of an annotation, in which the first of these words counts
TYPES: dict[str, tuple[Callable[[str], Any], str]] = {
    "Targets": (targets, "A,B,…"),
    "Target": (target, "TARGET"),
    "Steps": (steps, "T,T,…"),
    "Pick": (output_part, "NAME"),
    r"(Sequence|tuple)\[str": (names, "A,B,…"),
    r"tuple\[int": (numbers, "T,D"),
    "int": (int, "N"),
    "float": (float, "NUMBER"),
}
ABOUT = {  # what the documentation says otherwise, to those who write Python
    "source.labels": "leave labels and truth alone",
    "question.target": "a class by name or number, an output, an address such as 3,1, or mean of one",
    "question.targets": "several of them: 0,5,11, or all, or addresses such as 3,1;4,1",
    "question.background": "other series, for --baseline background and for methods that learn (default: the "
    "training series of a data set)",
    "effort.gradient_check": "do not compare the gradient with differences of the score",
}


class Field(NamedTuple):
    """What a field or an argument tells of itself."""

    kind: str
    default: Any
    about: str


@cache
def options_of(noun: str) -> dict[str, Field]:
    """Return the fields of a class, or the arguments of a function, that are options of commands.

    Examples
    --------
    >>> options_of("effort")["seed"]
    Field(kind='int', default=0, about='Of the random draws.')
    """
    node = _node(*NOUNS[noun])
    lines = [line for line in node.body if isinstance(line, ast.AnnAssign)]
    parts = [(ast.unparse(line.target), line.annotation, line.value) for line in lines]
    documented: dict[str, tuple[str, str]] = {}
    for heads, kind, words in DOCUMENTED.findall(ast.get_docstring(_node(*TOLD) if noun == "run" else node) or ""):
        documented |= dict.fromkeys(heads.split(", "), (kind, " ".join(words.split())))
    found = {}
    for name, annotation, made in parts:
        if f"{noun}.{name}" in PYTHON or name == "_" or (noun == "run" and name not in (*RUN, "limit")):
            continue
        kind, about = documented.get(name, ("", ""))
        # a call makes a field from its help, which settings of a run have elsewhere, and its default
        told = [None] * (noun == "run")
        words, default = (*told, *made.args, None)[:2] if isinstance(made, ast.Call) else (None, made)
        kind = kind if "{" in kind else ast.unparse(annotation)
        found[name] = Field(kind, _value(default), _value(words) or about)
    return found


def _node(path: str, name: str) -> Any:
    """Return the class or function of a file."""
    body = ast.parse((HOME / path).read_text(encoding="utf-8")).body
    return next(node for node in body if getattr(node, "name", None) == name)


def _value(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:  # no plain value
        return None


def flag_of(noun: str, name: str) -> str:
    """Return the option of a field.

    Examples
    --------
    >>> flag_of("predictor", "layout"), flag_of("effort", "gradient_check")
    ('--model-layout', '--no-gradient-check')
    """
    no = "no-" if options_of(noun)[name].default is True else ""
    return OPTIONS.get(f"{noun}.{name}", f"--{no}{name.replace('_', '-')}")


def add_fields(group: Any, noun: str, only: str = "", without: tuple[str, ...] = ()) -> None:
    """Add the options of a noun, or only one of them, that the command has not got yet."""
    for name, (kind, default, words) in options_of(noun).items():
        flag = flag_of(noun, name)
        if only not in ("", name) or name in without or flag in group._option_string_actions:
            continue
        about = ABOUT.get(f"{noun}.{name}", _in_few(words))
        choices = re.findall(r"""["'](\w+)["']""", kind) if kind.startswith(("{", "Literal")) else []
        if kind == "bool":
            more: dict[str, Any] = {"action": "store_const", "const": not default, "dest": name}
        elif choices:
            more = {"choices": choices}
        else:
            parse = next((entry for words, entry in TYPES.items() if re.search(rf"\b{words}", kind)), (None, None))
            more = dict(zip(("type", "metavar"), parse, strict=True))
        if default not in (None, True, ()):
            about += f" (default: {default})"
        group.add_argument(flag, help=about.replace("%", "%%"), **more)


def _in_few(about: str) -> str:
    """Return the first words of a documentation, in the words of the command line."""
    about = re.sub(r'``(\w+)="?(\w*)"?``', r"--\1 \2", re.split(r"[.;](?: |$)", about)[0])
    return about[:1].lower() + about[1:].replace("``", "")


def place_of(noun: str, name: str) -> str:
    """Return where the parsed arguments have a field."""
    return flag_of(noun, name).removeprefix("--no-").lstrip("-").replace("-", "_")


def given(args: argparse.Namespace, noun: str) -> dict[str, Any]:
    """Return the fields of a noun that somebody gave a value, by their names in Python."""
    values = {name: getattr(args, place_of(noun, name), None) for name in options_of(noun)}
    return {name: value for name, value in values.items() if value is not None}


# Options from a file, ``tempograd explain --config run.toml``, and the file of that kind that a run writes.

FILE = "run.toml"
MAYBE = ("model", "data", "background", "scale")  # paths, or names of other things
PLACES = (*MAYBE, "weights", "root", "settings_file", "out")
ONCE = ("config", "limit", "help")  # of one start


def with_config(parser: Any, words: Sequence[str]) -> list[str]:
    """Put the options of a file that ``--config`` names before the others, which therefore win."""
    early = argparse.ArgumentParser("tempograd explain", add_help=False, allow_abbrev=False)
    early.add_argument("--config", metavar="FILE")
    named, rest = early.parse_known_args(words)
    if words[:1] != ["explain"] or named.config is None:
        return list(words)
    explain = parser._subparsers._group_actions[0].choices["explain"]
    return ["explain", *_words(named.config, explain), *rest[1:]]


def _words(path: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options in a file as words."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = one_line(str(getattr(error, "strerror", None) or error), 100)
        raise DataError(f"{short_path(path)} cannot be read: {why.rstrip('.')}.") from error
    flags = {word[2:] for action in parser._actions for word in action.option_strings} - {"config", "help"}
    settings = told.pop("set") if isinstance(told.get("set"), dict) else {}
    for name, value in told.items():
        flag = name.replace("_", "-")
        if flag not in flags:
            raise UnknownNameError(f"option in {short_path(path)}", name, flags)
        if value is not False:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"--{flag}" if value is True else f"--{flag}={text}"
    for name, value in settings.items():
        yield f"--set={name}={value if value == 'none' else json.dumps(value)}"


def as_toml(args: argparse.Namespace) -> str:
    """Return the options that are not as usual, with whole paths, so that they mean the same from everywhere."""
    lines = []
    for action in args.parser._actions:
        value = getattr(args, action.dest, None)
        if not action.option_strings or action.dest in (*ONCE, "settings") or value == action.default:
            continue
        if action.dest in PLACES:
            value = _whole(value, maybe=action.dest in MAYBE)
        lines.append(f"{action.option_strings[-1][2:]} = {_toml(action.nargs == 0 or value)}")
    lines += ["", "[set]"] if args.settings else []
    lines += [f"{_toml(name)} = {_toml(value)}" for name, value in dict(args.settings).items()]
    return "\n".join([*lines, ""])


def _whole(value: Any, *, maybe: bool) -> str:
    """Return a path as a whole one; addresses, code and, where they may be meant, other names are no paths."""
    text = str(value)
    looks = not maybe or set(text) & set("/\\*?[") or Path(text).suffix or Path(text).exists()
    return os.path.abspath(text) + "/" * text.endswith("/") if looks and ":" not in text else text  # noqa: PTH100


def _toml(value: Any) -> str:
    """Write a value.

    Examples
    --------
    >>> print(*map(_toml, (True, 0.1, "a", [1, "b"], None)))
    true 0.1 "a" [1, "b"] "none"
    """
    return json.dumps("none" if value is None else value, ensure_ascii=False, default=str)


# What is printed: values as JSON, and commands as people can type them.


def print_json(value: Any) -> None:
    """Print data, dataclasses and paths among them; what is not defined or not finite is null."""
    text = json.dumps(value, default=lambda part: vars(part) if is_dataclass(part) else str(part))
    print(json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2, ensure_ascii=False))


def command(*words: str, **options: Any) -> str:
    """Return a command; what is None is left out.

    Lists are joined by commas.

    Examples
    --------
    >>> command("report", "my E.safetensors", data="a.csv", classes=["-1", "1"], root=None)
    "tempograd report 'my E.safetensors' --data a.csv --classes=-1,1"
    >>> command("explain", target=(3, 1), model_layout="BDT", trust=True)
    'tempograd explain --target 3,1 --model-layout BDT --trust'
    """
    line = ["tempograd", *(f"./{word}" if word.startswith("-") else word for word in words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):  # an option without a value
            line += [option if value else f"--no{option[1:]}"]
        elif value is not None:  # a value that begins with a dash would be taken for an option
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            line += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join(line)
