"""Explanations of several batches put together into one."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.core.estimate import GradientCheck
from tempograd.core.findings import arg
from tempograd.core.formatting import counted
from tempograd.engine import Call, FixedInputs
from tempograd.explanation.core import CELLS, ROWS, Explanation, require
from tempograd.explanation.same import same_output
from tempograd.typing import ArrayLike, Times

JOINED = {*CELLS, *ROWS, "curve_samples", "names", "times", "gradient_check", "call", "siblings"}
FIRST = {"version", "picker"}  # are those of the first part; every other field must be alike in all of them


def concat(parts: Iterable[Explanation], *, ids: ArrayLike | None = None) -> Explanation:
    """Join explanations of several batches of series, explained alike, into one.

    Parameters
    ----------
    parts : iterable of Explanation
        Of the same model, method, settings and target; the series of each part follow those of the one before.
    ids : distinct integers, optional
        Numbers of all series together, where the parts have the same ones: by default each part keeps its own.

    Returns
    -------
    Explanation
        As if all series had been explained in one call, where the parts had the ids that they have here: the
        draws of a random method depend on them.

    Examples
    --------
    >>> from tempograd import IntegratedGradients, Series
    >>> total, explainer = lambda x: x.sum((1, 2)), IntegratedGradients(n_steps=1)
    >>> halves = [explainer(total, Series(torch.ones(2, 3, 1), ids=[a, a + 1]), output="raw") for a in (0, 2)]
    >>> concat(halves).ids
    tensor([0, 1, 2, 3])
    """
    given = [require(part, several=True) for part in parts]
    if not given:
        raise InputError("There is nothing to join: pass at least one explanation.")
    first = given[0]
    for number, part in enumerate(given):
        _require_alike(first, part, number)
    whole: dict[str, Any] = {name: _joined_cells(name, given) for name in (*CELLS, *ROWS)}
    whole["ids"] = _joined_ids(given, ids)
    whole |= _joined_curves(given)
    whole["names"] = _joined_names(given)
    whole["times"] = _joined_times(given)
    whole["gradient_check"] = _joined_checks(given)
    whole["call"] = _joined_calls([part.call for part in given])
    siblings = zip(*(part.siblings for part in given), strict=True)
    whole["siblings"] = tuple(concat(each, ids=whole["ids"]) for each in siblings)
    return replace(first, **whole)


def _require_alike(first: Explanation, part: Explanation, number: int) -> None:
    """Refuse a part that was explained in another way than the first."""
    for name in (each.name for each in fields(first) if each.name not in JOINED | FIRST):
        mine, other = getattr(first, name), getattr(part, name)
        if mine != other:
            raise InputError(
                f"Part {number} differs from part 0 in {_difference(name, other, mine)}: join explanations that "
                "were made alike."
            )
    if not same_output(first, part):
        raise InputError(f"Part {number} explains another output than part 0: join explanations of the same one.")
    shapes = tuple(first.values.shape[1:]), tuple(part.values.shape[1:])
    if shapes[0] != shapes[1]:
        raise InputError(
            f"Part {number} is of series of {counted(shapes[1][0], 'step')} and "
            f"{counted(shapes[1][1], 'channel')}, part 0 of {shapes[0][0]} and {shapes[0][1]}: pad the "
            f"shorter ones, with {arg:series.mask}, before they are explained."
        )
    same = (first.call.packing, first.call.pick, first.call.model_layout)
    if same != (part.call.packing, part.call.pick, part.call.model_layout):
        raise InputError(f"Part {number} called the model in another way than part 0: join those made alike.")
    if isinstance(first.steps, str) != isinstance(part.steps, str) or len(first.siblings) != len(part.siblings):
        raise InputError(f"Part {number} explains other steps or targets than part 0: join those made alike.")


def _difference(name: str, other: Any, mine: Any) -> str:
    """Name what differs, of settings the first that does."""
    if isinstance(mine, dict) and isinstance(other, dict):
        first = next(key for key in {**mine, **other} if mine.get(key) != other.get(key))
        name, other, mine = first, other.get(first), mine.get(first)
    return f"{name} ({brief(other)} and {brief(mine)})"


def _joined_cells(name: str, parts: Sequence[Explanation]) -> Any:
    found = [getattr(part, name) for part in parts]
    if name == "steps" and isinstance(found[0], str):
        return found[0]
    if name == "curve_error" or (name not in {"mask", "raw"} and any(each is None for each in found)):
        return None
    if all(each is None for each in found):
        return None
    if name == "mask":
        found = [
            torch.ones_like(part.values, dtype=torch.bool) if each is None else each
            for part, each in zip(parts, found, strict=True)
        ]
    elif name == "raw":
        found = [part.x if each is None else each for part, each in zip(parts, found, strict=True)]
        if any(each is None for each in found):
            return None
    return torch.cat(found)


def _joined_ids(parts: Sequence[Explanation], ids: Any) -> Tensor:
    whole = torch.cat([part.ids for part in parts])
    if ids is not None:
        return validation.check_ids(ids, len(whole))
    ordered = whole.sort().values
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(
            f"The id {int(twice[0])} occurs in more than one part: explain each part with {arg:series.ids} of its "
            "own, or pass the ids of all series to concat."
        )
    return whole


def _joined_curves(parts: Sequence[Explanation]) -> dict[str, Tensor | None]:
    """Join how errors went down; parts that stopped sooner have NaN from there on."""
    looks = [part.curve_samples for part in parts if part.curve_samples is not None]
    if len(looks) < len(parts):
        return {"curve_samples": None, "curve_error": None}
    longest = max(looks, key=len)
    rows = []
    for part in parts:
        error = part.curve_error if part.curve_error is not None else torch.empty(len(part), 0)
        rows.append(torch.nn.functional.pad(error, (0, len(longest) - error.shape[1]), value=torch.nan))
    return {"curve_samples": longest, "curve_error": torch.cat(rows)}


def _joined_names(parts: Sequence[Explanation]) -> tuple[str, ...] | None:
    if all(part.names is None for part in parts):
        return None
    return tuple(name for part in parts for name in part.names or map(str, part.ids.tolist()))


def _joined_times(parts: Sequence[Explanation]) -> Times | None:
    """Join time stamps: those of all series alike, or those of each."""
    first = parts[0].times
    if all(part.times == first for part in parts) and (first is None or isinstance(first[0], str)):
        return first
    return tuple(part.times_of(i) for part in parts for i in range(len(part)))


def _joined_checks(parts: Sequence[Explanation]) -> GradientCheck | None:
    checks = [part.gradient_check for part in parts if part.gradient_check is not None]
    if len(checks) < len(parts):
        return None
    joined = {f.name: torch.cat([getattr(check, f.name) for check in checks]) for f in fields(GradientCheck)}
    return GradientCheck(**joined)


def _joined_calls(calls: Sequence[Call]) -> Call:
    lengths = [call.lengths for call in calls if call.lengths is not None]
    if 0 < len(lengths) < len(calls):
        raise InputError("Only some parts are of series at lengths of their own: join those made alike.")
    first = replace(calls[0], lengths=tuple(each for part in lengths for each in part) or None)
    fixed = [call.fixed for call in calls if call.fixed is not None]
    if not fixed:
        return first
    names = [set(each.rows) | set(each.constants) for each in fixed]
    if (
        len(fixed) < len(calls)
        or any(each != names[0] for each in names)
        or any(each.constants != fixed[0].constants for each in fixed)
    ):
        raise InputError("The parts called the model with other fixed inputs: join those made alike.")
    rows: dict[str, Tensor | list[Any]] = {}
    for name, value in fixed[0].rows.items():
        every = [each.rows[name] for each in fixed]
        if isinstance(value, list):
            rows[name] = [entry for each in every for entry in each]
        else:
            rows[name] = torch.cat([each for each in every if isinstance(each, Tensor)])
    return replace(first, fixed=FixedInputs(rows, fixed[0].constants, fixed[0].by_name))
