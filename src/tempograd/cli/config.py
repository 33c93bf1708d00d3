"""Options from a file, ``tempograd explain --config run.toml``, and the file of that kind that a run writes."""

import argparse
import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tempograd.core.errors import DataError, UnknownNameError, one_line, short_path

FILE = "run.toml"
MAYBE = ("model", "data", "background", "scale")  # paths, or names of other things
PLACES = (*MAYBE, "weights", "root", "settings_file", "out")
ONCE = ("config", "limit", "help")  # of one start


def with_config(parser: Any, words: Sequence[str]) -> list[str]:
    """Put the options of a file that ``--config`` names before the others, which therefore win."""
    early = argparse.ArgumentParser(
        "tempograd explain", usage="%(prog)s --config FILE [options]", add_help=False, allow_abbrev=False
    )
    early.add_argument("--config")
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
