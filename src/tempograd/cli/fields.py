"""Options made from what the library's nouns and functions take; read as texts, so without torch.

An option has the name of its field, its type and choices, and the first words of its documentation. :data:`ROWS`
has what the command line spells otherwise.
"""

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tempograd.cli.arguments import (
    Container,
    parse_columns,
    parse_names,
    parse_one_target,
    parse_pick,
    parse_real_number,
    parse_shape,
    parse_steps,
    parse_targets,
    parse_whole_number,
)

HOME = Path(__file__).parents[1]
NOUNS = {  # where the fields of each group stand
    "predictor": ("engine/predictor.py", "Predictor"),
    "series": ("core/series.py", "Series"),
    "source": ("data/columns.py", "Columns"),
    "question": ("core/question.py", "Question"),
    "effort": ("core/question.py", "Effort"),
    "run": ("bulk/driver.py", "explain_dataset"),
}
TYPES: tuple[tuple[str, Callable[[str], Any] | None, str | None], ...] = (
    (r"(Sequence|tuple)\[str", parse_names, "A,B,…"),
    ("int", parse_whole_number, "N"),
    ("float", parse_real_number, "SHARE"),
)


class Row(NamedTuple):
    """What an option has in place of what its field tells."""

    flag: str = ""
    parse: Callable[[str], Any] | None = None
    metavar: str | None = None
    about: str = ""


ROWS: dict[str, Row | None] = {  # None: what a command line has no value for, or an argument of another name
    "predictor.model": None,
    "predictor.modules": None,
    "predictor.reset": None,
    "predictor.pick": Row(parse=parse_pick, metavar="NAME"),
    "predictor.layout": Row("--model-layout"),
    "source.path": None,
    "source.labels": None,
    "series.units": Row(parse=parse_names, metavar="A,B,…", about="the unit of each channel"),
    "source.format": Row(about="the form of a table (default: what its columns say)"),
    "source.id": Row(metavar="COLUMN", about="the series' names; none where a run is to number them"),
    "source.time": Row(metavar="COLUMN", about="the time: numbers or ISO dates"),
    "source.label": Row(metavar="COLUMN", about="the label, which is no channel"),
    "source.variable": Row(metavar="COLUMN", about="of a melted table: the channels' names"),
    "source.value": Row(metavar="COLUMN", about="of a melted table: the values"),
    "source.inputs": Row(about="arrays of an .npz file that the model takes, if not x, by keyword"),
    "source.fixed": Row(about="arrays of an .npz file that go along with the series, never explained"),
    "question.target": Row(
        parse=parse_one_target,
        about="a class by name or number, an output, an address such as 3,1, or mean of one",
    ),
    "question.targets": Row(
        parse=parse_targets, metavar="A,B,…", about="several of them: 0,5,11, or all, or addresses such as 3,1;4,1"
    ),
    "question.steps": Row(parse=parse_steps),
    "question.background": Row(
        metavar="DATA",
        about="other series, for --baseline background and for methods that learn from some (default: the "
        "training series, where --data is a data set)",
    ),
    "effort.gradient_check": Row(about="do not compare the gradient with differences of the score"),
    "source.x": Row(parse=parse_columns, metavar="COLUMN"),
    "source.mask": Row(metavar="COLUMN"),
    "source.shape": Row(parse=parse_shape, metavar="T,D"),
    "source.scale": Row(metavar="FILE"),
}


class Field(NamedTuple):
    """What a field or an argument tells of itself."""

    name: str
    kind: str
    default: Any
    about: str


@cache
def fields_of(noun: str) -> dict[str, Field]:
    """Return the fields of a class, or the arguments of a function.

    Examples
    --------
    >>> fields_of("effort")["seed"]
    Field(name='seed', kind='int', default=0, about='Of the random draws.')
    """
    path, name = NOUNS[noun]
    body = ast.parse((HOME / path).read_text(encoding="utf-8")).body
    node = next(node for node in body if getattr(node, "name", None) == name)
    parts = _of_class(node) if isinstance(node, ast.ClassDef) else _of_function(node)
    documented = _documented(ast.get_docstring(node) or "")  # type: ignore[arg-type]  # it has a name
    found = {}
    for name, annotation, default, about in parts:
        kind, told = documented.get(name, ("", ""))
        found[name] = Field(name, kind if "{" in kind else ast.unparse(annotation), default, about or told)
    return found


FieldPart = tuple[str, ast.expr, Any, str]


def _of_class(node: ast.ClassDef) -> Iterator[FieldPart]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id != "_":
            value, about = line.value, ""
            if isinstance(value, ast.Call):  # what makes a field from its help and its default
                about, value = _value(value.args[0]) or "", value.args[1] if value.args[1:] else None
            yield line.target.id, line.annotation, _value(value), about


def _of_function(node: Any) -> Iterator[FieldPart]:
    positional = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
    for argument, default in (*positional, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)):
        yield argument.arg, argument.annotation, _value(default), ""


def _value(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:  # no plain value
        return None


def _documented(text: str) -> dict[str, tuple[str, str]]:
    """Return the type and the words of each parameter of a docstring."""
    found: dict[str, tuple[str, str]] = {}
    for names, kind, words in re.findall(r"^(\w[\w, ]*?)(?: : (.+))?\n((?:    .+\n?)+)", text, re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), (kind, " ".join(words.split())))
    return found


def options_of(noun: str) -> dict[str, tuple[Field, Row]]:
    """Return the fields that are options of commands."""
    rows = {name: (field, ROWS.get(f"{noun}.{name}", Row())) for name, field in fields_of(noun).items()}
    return {name: (field, row) for name, (field, row) in rows.items() if row is not None}


def flag_of(noun: str, name: str) -> str:
    """Return the option of a field.

    Examples
    --------
    >>> flag_of("predictor", "layout"), flag_of("effort", "gradient_check")
    ('--model-layout', '--no-gradient-check')
    """
    field, row = options_of(noun)[name]
    return row.flag or f"--{'no-' if field.default is True else ''}{name.replace('_', '-')}"


def add_fields(group: Container, noun: str, *names: str, without: tuple[str, ...] = ()) -> None:
    """Add the options of a noun, or of some of its fields, that the command has not got yet."""
    for name, (field, row) in options_of(noun).items():
        flag = flag_of(noun, name)
        if (names and name not in names) or name in without or flag in group._option_string_actions:
            continue
        about = row.about or _in_few(field.about)
        choices = re.findall(r'"(\w+)"', field.kind.partition("{")[2].partition("}")[0])
        if field.kind == "bool":
            kind: dict[str, Any] = {"action": "store_false" if field.default is True else "store_true"}
            kind |= {"default": None, "dest": name}
        elif choices and row.parse is None:
            kind = {"choices": choices}
        else:
            of_type = next((row for row in TYPES if re.search(rf"\b{row[0]}", field.kind)), ("", None, None))
            kind = {"type": row.parse or of_type[1], "metavar": row.metavar or of_type[2]}
        if field.default is not True and field.default not in (None, ()):
            about += f" (default: {field.default})"
        group.add_argument(flag, help=about.replace("%", "%%"), **kind)


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
