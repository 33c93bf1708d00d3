"""What each field of an explanation is, said once beside it: slices, joins, files and checks derive from that.

The ``metadata`` of every field are one of these: :func:`per_cell`, :func:`per_series`, :data:`ALIKE` or
:data:`PLAIN`. A new field needs nothing else, unless it holds something that is neither plain data nor a tensor:
then ``codec`` says how a file holds it, and ``take`` and ``join`` how some series of it are taken and parts become
one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief
from tempograd.core.estimate import GradientCheck
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.core.stamps import is_nested
from tempograd.engine import Call

Metadata = dict[str, Any]


class Codec(NamedTuple):
    """How a file holds what is neither plain data nor a tensor: as plain data, and tensors with names."""

    write: Callable[[Any, Any], tuple[Any, dict[str, Tensor]]]  # of a value and the whole explanation
    read: Callable[[Any, dict[str, Tensor], Mapping[str, Any]], Any]  # with the fields that were read before


def per_cell(holds: str = "floats", **more: Any) -> Metadata:
    """Declare a tensor like the scores. It ``holds`` finite floats, bool, integers or any numbers."""
    return {"per": "cell", "shapes": ("series time channel",), "holds": holds, "finite": True} | more


def per_series(holds: str = "numbers", *shapes: str, **more: Any) -> Metadata:
    """Declare what has one entry for each series; ``shapes`` name the axes, by default that of the series alone.

    ``finite=False``: it may be NaN or infinite. ``absent`` returns what a part that has None is joined with.
    """
    return {"per": "series", "shapes": shapes or ("series",), "holds": holds, "finite": True} | more


PLAIN: Metadata = {"per": "call"}  # of a call: parts that are joined may differ, and the first one's is taken
ALIKE: Metadata = {"per": "alike"}  # parts that differ in it cannot be joined


def of_kind(record: Any, *kinds: str) -> Iterator[Any]:
    """Yield the fields that are declared as one of these kinds; every field must be declared."""
    for each in fields(record):
        if each.metadata.get("per") not in {"cell", "series", "alike", "call"}:
            raise TypeError(f"{each.name} does not say what it is: see tempograd.explanation.fields.")
        if each.metadata["per"] in kinds:
            yield each


# Some of the series


def taken(record: Any, chosen: slice | Tensor, count: int) -> dict[str, Any]:
    """Return the fields that have an entry for each series, with those that were chosen."""
    places = torch.arange(count)[chosen]
    content = {}
    for each in of_kind(record, "cell", "series"):
        value = getattr(record, each.name)
        if "take" in each.metadata:
            content[each.name] = each.metadata["take"](record, places)
        elif isinstance(value, Tensor | GradientCheck):
            content[each.name] = value[chosen]
        elif isinstance(value, tuple):
            content[each.name] = tuple(value[place] for place in places.tolist())
    return content


def taken_times(record: Any, places: Tensor) -> Any:
    """Return the time stamps of some series; those of all series alike stay."""
    times = record.times
    return tuple(times[place] for place in places.tolist()) or None if is_nested(times) else times


# Parts that become one


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """Return every field of parts that follow each other."""
    return {each.name: _joined(each, parts) for each in of_kind(parts[0], "cell", "series", "alike", "call")}


def _joined(each: Any, parts: Sequence[Any]) -> Any:
    values, told = [getattr(part, each.name) for part in parts], each.metadata
    if "join" in told:
        return told["join"](values, parts)
    if told["per"] in {"alike", "call"} or all(value is None for value in values):
        return values[0]
    if "absent" in told:
        values = [
            told["absent"](part) if value is None else value for value, part in zip(values, parts, strict=True)
        ]
    if any(value is None for value in values):
        return None
    if len({type(value) for value in values}) > 1:
        raise InputError(
            f"Some parts have other {each.name} than the first: join explanations that were made alike."
        )
    return one_of(values)


def one_of(values: Sequence[Any]) -> Any:
    """Put values of several parts, all of a kind, behind each other; a text is that of all series."""
    first = values[0]
    if isinstance(first, str):
        return first
    if isinstance(first, tuple | list):
        return type(first)(chain(*values))
    if isinstance(first, GradientCheck):
        return GradientCheck(*(torch.cat([getattr(value, f.name) for value in values]) for f in fields(first)))
    return torch.cat(list(values))


def longest(values: Sequence[Any], _: Sequence[Any]) -> Any:
    """Return the longest of the parts' tensors; None if one has none."""
    return None if any(value is None for value in values) else max(values, key=len)


def padded(values: Sequence[Any], _: Sequence[Any]) -> Any:
    """Return how errors went down; parts that were looked at less often have NaN from there on."""
    if any(value is None for value in values):
        return None
    widest, pad = max(value.shape[1] for value in values), torch.nn.functional.pad
    return torch.cat([pad(value, (0, widest - value.shape[1]), value=torch.nan) for value in values])


def every_once(values: Sequence[tuple[Any, ...]], _: Sequence[Any]) -> tuple[Any, ...]:
    """Return what any of the parts holds, each thing once, in the order of the parts."""
    found: list[Any] = []
    for value in chain(*values):
        if value not in found:
            found.append(value)
    return tuple(found)


def joined_times(values: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return the time stamps of all series alike, or those of each."""
    if all(times == values[0] for times in values) and not is_nested(values[0]):
        return values[0]
    return tuple(part.times_of(i) for part in parts for i in range(len(part)))


def joined_calls(calls: Sequence[Call], _: Sequence[Any]) -> Call:
    """Return how the model is called with the series of all parts."""
    first, fixed = calls[0], [call.fixed for call in calls if call.fixed is not None]
    manners = [(call.packing, call.pick, call.model_layout, call.lengths is None) for call in calls]
    companions = [(each.by_name, each.rows.keys(), each.constants) for each in fixed]
    if any(each != manners[0] for each in manners) or len(fixed) not in (0, len(calls)):
        raise InputError("Some parts called the model in another way than the first: join those made alike.")
    if any(each != companions[0] for each in companions):
        raise InputError("The parts called the model with other fixed inputs: join those made alike.")
    if fixed:
        rows = {name: one_of([each.rows[name] for each in fixed]) for name in fixed[0].rows}
        first = replace(first, fixed=replace(fixed[0], rows=rows, _placed={}))
    lengths = None if first.lengths is None else one_of([call.lengths for call in calls])
    return replace(first, lengths=lengths, gaps=None)


# The question: what was asked may be of each series too


def _same(value: Any) -> bool:
    """Tell whether an argument is the same for all series: a number, a name, an address, a function."""
    if isinstance(value, tuple):
        return all(map(_same, value))
    return isinstance(value, str | int | float | None) or (callable(value) and not isinstance(value, Tensor))


def taken_question(record: Any, places: Tensor) -> Question:
    """Return the question about some series; most are the same for all of them."""
    question: Question = record.question
    if all(map(_same, vars(question).values())):
        return question
    return question.take(places, Series(record.apart(record.values)))


def joined_questions(questions: Sequence[Question], parts: Sequence[Any]) -> Question:
    """Return the first question; where others ask for something else, what was explained of each series."""
    changed = {}
    for name in ("target", "steps", "baseline"):
        asked, explained = ([getattr(each, name) for each in records] for records in (questions, parts))
        alike = all(each is asked[0] or (_same(each) and _same(asked[0]) and each == asked[0]) for each in asked)
        if not alike and all(isinstance(each, Tensor) for each in explained):
            changed[name] = one_of(explained)
    return replace(questions[0], **changed)


# Whether the fields fit each other


NUMBERS: dict[str, Callable[[Tensor], bool]] = {  # that tensors hold
    "floats": lambda part: part.is_floating_point(),
    "bool": lambda part: part.dtype == torch.bool,
    "integers": lambda part: not (part.is_floating_point() or part.is_complex() or part.dtype == torch.bool),
    "numbers": lambda part: True,
}


def check_shapes(record: Any, sizes: Mapping[str, int]) -> None:
    """Refuse tensors and names that are not of the kind and size that is declared, axis by axis."""
    for each in of_kind(record, "cell", "series", "alike", "call"):
        value, holds = getattr(record, each.name), NUMBERS.get(each.metadata.get("holds", ""))
        optional = type(None) in get_args(each.type)
        if "shapes" not in each.metadata or (value is None and optional) or (isinstance(value, str) and holds):
            continue
        wanted = [tuple(sizes.get(axis, ...) for axis in shape.split()) for shape in each.metadata["shapes"]]
        sized = isinstance(value, Tensor) or holds is None
        for shape in _shapes(value) if sized else [()]:
            if not any(_fits(shape, axes) for axes in wanted):
                told = " or ".join(map(str, wanted)).replace("Ellipsis", "…")
                raise InputError(f"{each.name} must have shape {told}, got {shape if sized else brief(value)}.")
        if holds is not None and not holds(value):
            raise InputError(f"{each.name} must hold {each.metadata['holds']}, got {value.dtype}.")


def _shapes(value: Any) -> set[tuple[int, ...]]:
    """Return the shape of a tensor or of names; names of each series may be of several."""
    if isinstance(value, Tensor):
        return {tuple(value.shape)}
    return {(len(value), len(row)) for row in value} if is_nested(value) else {(len(value),)}


def _fits(shape: tuple[int, ...], axes: tuple[Any, ...]) -> bool:
    if axes[-1:] == (...,):
        return shape[: len(axes) - 1] == axes[:-1]
    return shape == axes


def check_finite(record: Any) -> None:
    """Refuse numbers that are not as ``finite`` declares."""
    for each in of_kind(record, "cell", "series", "call"):
        value, finite = getattr(record, each.name), each.metadata.get("finite", False)
        if not isinstance(value, Tensor) or not finite:
            continue
        good = value >= 0 if finite == "or infinite" else value.isfinite()
        if finite == "observed" and record.mask is not None:  # a model may read NaN where nothing was
            good |= ~record.mask
        if not bool(good.all()):
            raise InputError(f"{each.name} must hold finite numbers.")
