"""Columns that go along to the results of a run: of one type in all files."""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tempograd.core.errors import DataError, quote
from tempograd.data.files import arrow

ZONED = re.compile(r"timestamp\[(\w+), tz=(.+)\]")
DECIMAL = re.compile(r"(decimal\d+)\((\d+), (-?\d+)\)")
TEXTS = {"large_string", "string_view"}


def type_name(kind: Any) -> str:
    """Return what a type of Arrow is called here, whatever of the kinds of text and dictionaries it is."""
    name = str(kind.value_type if arrow().types.is_dictionary(kind) else kind)
    return "string" if name in TEXTS else name


def unified(types: Iterable[str]) -> str:
    """Return the type that holds the values of some types: the wider of numbers, the finer of times.

    Examples
    --------
    >>> unified(["int32", "int64"]), unified(["int64", "double"]), unified(["date32[day]", "timestamp[ms]"])
    ('int64', 'double', 'timestamp[ms]')
    """
    pa = arrow()
    first, *others = dict.fromkeys(types)
    for other in others:
        days = {"date32[day]": "timestamp[s]"} if "timestamp[" in first + other else {}
        kinds = [_type_of(days.get(name, name)) for name in (first, other)]
        try:
            schemas = [pa.schema([("", pa.null() if kind is None else kind)]) for kind in kinds]
            first = str(
                pa.unify_schemas(schemas if None not in kinds else [], promote_options="permissive")[0].type
            )
        except (pa.ArrowException, IndexError) as error:
            raise DataError(f"Columns of {first} and {other} have no type in common.") from error
    return first


def _type_of(name: str) -> Any:
    """Return the type of Arrow of a name; None for lists and other types of several parts."""
    pa = arrow()
    if parts := ZONED.fullmatch(name):
        return pa.timestamp(*parts.groups())
    if parts := DECIMAL.fullmatch(name):
        return getattr(pa, parts[1])(int(parts[2]), int(parts[3]))
    with suppress(ValueError):
        return pa.type_for_alias(name)
    return None


def as_kept(column: Any, name: str | None, where: str, called: str) -> Any:
    """Return a column as one of a type that all files of a run have; NaN is no text and no date."""
    pa = arrow()
    kind = None if name is None else _type_of(name)
    if kind is None or column.type == kind:
        return column
    try:
        if pa.types.is_floating(column.type) and not pa.types.is_floating(kind):
            column = pa.array(column.to_numpy(zero_copy_only=False), column.type, from_pandas=True)
        return column.cast(kind)
    except pa.ArrowException as error:
        raise DataError(f"{where}: column {quote(called)} holds {column.type}, and {kind} is wanted.") from error
