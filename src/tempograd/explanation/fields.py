"""What each field of an explanation is, said once beside it: slices, joins, files and checks derive from that.

The ``metadata`` of every field are one of these: :func:`per_cell`, :func:`per_series`, :data:`ALIKE` or
:data:`PLAIN`. ``join`` says how the values of parts become one where that is not plain; ``absent`` returns what a
part that has None is joined with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, get_args

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief
from tempograd.core.estimate import GradientCheck
from tempograd.core.question import Question
from tempograd.core.series import Series, has_rows, is_nested
from tempograd.engine import Call

Metadata = dict[str, Any]
NUMBERS: dict[str, Callable[[Tensor], bool]] = {  # that tensors hold
    "floats": lambda part: part.is_floating_point(),
    "bool": lambda part: part.dtype == torch.bool,
    "integers": lambda part: not (part.is_floating_point() or part.is_complex() or part.dtype == torch.bool),
    "numbers": lambda part: True,
}


def per_cell(holds: str = "floats", **more: Any) -> Metadata:
    """Declare a tensor like the scores. It ``holds`` finite floats, bool, integers or any numbers."""
    return {"per": "cell", "shapes": ("series time channel",), "holds": holds, "finite": True} | more


def per_series(holds: str = "numbers", *shapes: str, **more: Any) -> Metadata:
    """Declare what has one entry for each series; ``shapes`` name the axes, by default that of the series alone.

    ``finite=False``: it may be NaN or infinite.
    """
    return {"per": "series", "shapes": shapes or ("series",), "holds": holds, "finite": True} | more


def taken(record: Any, rows: Tensor) -> dict[str, Any]:
    """Return the fields that have an entry for each series, with those at some places."""
    content: dict[str, Any] = {}
    for each in fields(record):
        name, value = each.name, getattr(record, each.name)
        if each.metadata["per"] not in {"cell", "series"}:
            continue
        if isinstance(value, Call):
            content[name] = value.take(rows)
        elif isinstance(value, Question) and not all(map(_same_for_all, vars(value).values())):
            content[name] = value.take(rows, Series(record.apart(record.values)))
        elif isinstance(value, Tensor | GradientCheck):
            content[name] = value[rows]
        elif isinstance(value, tuple) and (name != "times" or is_nested(value)):
            content[name] = tuple(value[place] for place in rows.tolist()) or None
    return content


def _same_for_all(value: Any) -> bool:
    """Tell whether an argument is the same for all series: a number, a name, an address, a function."""
    if isinstance(value, tuple):
        return all(map(_same_for_all, value))
    return isinstance(value, str | int | float | None) or (callable(value) and not isinstance(value, Tensor))


# Parts that become one


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """Return every field of parts that follow each other."""
    content: dict[str, Any] = {}
    for each in fields(parts[0]):
        declared, values = each.metadata, [getattr(part, each.name) for part in parts]
        absent = declared.get("absent")
        if "join" in declared:
            content[each.name] = declared["join"](values, parts)
        elif declared["per"] in {"alike", "call"} or all(value is None for value in values):
            content[each.name] = values[0]
        else:
            pairs = zip(values, parts, strict=True)
            values = [absent(part) if value is None and absent else value for value, part in pairs]
            content[each.name] = None if any(value is None for value in values) else one_of(values)
    return content


def one_of(values: Sequence[Any]) -> Any:
    """Put values of several parts, all of a kind, behind each other; a text is that of all series."""
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        raise InputError(f"Some parts have {brief(first)}, others not: join explanations that were made alike.")
    if isinstance(first, str):
        return first
    if isinstance(first, tuple | list):
        return type(first)(chain(*values))
    if isinstance(first, GradientCheck):
        return GradientCheck(*map(torch.cat, zip(*(vars(value).values() for value in values), strict=True)))
    return torch.cat(list(values))


def _padded(values: Sequence[Any], _: Sequence[Any]) -> Any:
    """Return how errors went down; parts that were looked at less often have NaN from there on."""
    if None in values:
        return None
    widest, pad = max(value.shape[1] for value in values), torch.nn.functional.pad
    return torch.cat([pad(value, (0, widest - value.shape[1]), value=torch.nan) for value in values])


def _joined_times(values: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return the time stamps of all series alike, or those of each."""
    if all(times == values[0] for times in values) and not is_nested(values[0]):
        return values[0]
    return tuple(part.times_of(i) for part in parts for i in range(len(part)))


def _joined_calls(calls: Sequence[Call], _: Sequence[Any]) -> Call:
    """Return how the model is called with the series of all parts."""
    first, fixed = calls[0], [call.fixed for call in calls if call.fixed is not None]
    manners = [(call.packing, call.pick, call.model_layout, call.lengths is None) for call in calls]
    tables = [call.companions for call in calls]
    companions = [{name: has_rows(part) or (part,) for name, part in table.items()} for table in tables]
    alike = all(manner == manners[0] for manner in manners) and all(rest == companions[0] for rest in companions)
    if not alike or len(fixed) not in (0, len(calls)):
        raise InputError("The parts called the model in other ways, or with other fixed inputs: join those alike.")
    if fixed:
        joined = {
            name: one_of([table[name] for table in tables]) if has_rows(part) else part
            for name, part in tables[0].items()
        }
        first = replace(first, fixed=joined if isinstance(fixed[0], Mapping) else tuple(joined.values()))
    lengths = None if first.lengths is None else one_of([call.lengths for call in calls])
    return replace(first, lengths=lengths, gaps=None)


def _joined_questions(questions: Sequence[Question], parts: Sequence[Any]) -> Question:
    """Return the first question; where others ask for something else, what was explained of each series."""
    changed = {}
    for name in vars(questions[0]):
        first, *others = (getattr(question, name) for question in questions)
        same = all(other is first or (_same_for_all((first, other)) and other == first) for other in others)
        explained = [getattr(part, name, None) for part in parts]
        if not same and not hasattr(parts[0], name):
            raise InputError(f"The parts were asked with different {name}: join those that were asked alike.")
        if not same and all(isinstance(part, Tensor) for part in explained):
            changed[name] = one_of(explained)
            if name == "baseline":
                changed[name] = parts[0].call.unpacked(changed[name])
    return replace(questions[0], **changed)


PLAIN: Metadata = {"per": "call"}  # of a call: parts that are joined may differ, and the first one's is taken
ALIKE: Metadata = {"per": "alike"}  # parts that differ in it cannot be joined
PER_CHANNEL = ALIKE | {"shapes": ("channel",)}
COUNT = ALIKE | {"least": 1}
MASK = per_cell("bool", absent=lambda part: torch.ones_like(part.values, dtype=torch.bool))
RAW = per_cell(finite=False, of_series=True, absent=lambda part: part.x)
NAMES = per_series("names", absent=lambda part: tuple(map(str, part.ids.tolist())))
LABELS = per_series("numbers", "series …", finite=False, of_series=True)
TIMES = per_series("names", "time", "series time", join=_joined_times)
LOOKS = PLAIN | {"shapes": ("looks",), "holds": "numbers", "finite": True}
LOOKS["join"] = lambda values, _: None if None in values else max(values, key=len)
LOOKED_AT = per_series("floats", "series looks", finite=False, join=_padded)
FINDINGS = PLAIN | {"join": lambda values, _: tuple(dict.fromkeys(chain(*values)))}  # each once
CALL = {"per": "series", "join": _joined_calls}
QUESTION = {"per": "series", "join": _joined_questions}


# Whether the fields fit each other


def check_fields(record: Any, sizes: Mapping[str, int]) -> None:
    """Refuse tensors and names that are not of the kind and size that is declared, and numbers that are none."""
    for each in fields(record):
        name, declared, value = each.name, each.metadata, getattr(record, each.name)
        optional = type(None) in get_args(each.type)
        if "shapes" not in declared or (value is None and optional) or (name == "steps" and value == "own"):
            continue
        wanted = [tuple(sizes.get(axis, ...) for axis in shape.split()) for shape in declared["shapes"]]
        holds = NUMBERS.get(declared.get("holds", ""))
        shapes = _shapes(value) if isinstance(value, Tensor) or holds is None else [brief(value)]
        open_ended = [axes[:-1] for axes in wanted if axes[-1] is ...]
        if not all(shape in wanted or shape[:1] in open_ended for shape in shapes):
            expected = " or ".join(map(str, wanted)).replace("Ellipsis", "…")
            raise InputError(f"{name} must have shape {expected}, got {' and '.join(map(str, shapes))}.")
        if holds is None:
            continue
        if not holds(value):
            raise InputError(f"{name} must hold {declared['holds']}, got {value.dtype}.")
        finite = declared["finite"]
        good = value >= 0 if finite == "or infinite" else value.isfinite()
        if finite == "observed" and record.mask is not None:  # a model may read NaN where nothing was
            good |= ~record.mask
        if finite and not bool(good.all()):
            raise InputError(f"{name} must hold finite numbers.")


def _shapes(value: Any) -> list[Any]:
    """Return the shape of a tensor or of names; names of each series may be of several."""
    if isinstance(value, Tensor):
        return [tuple(value.shape)]
    return sorted({(len(value), len(row)) for row in value}) if is_nested(value) else [(len(value),)]
