"""The forms in which people have series, as one batch: arrays as they are, lists padded, data frames read.

Several inputs, and what goes along with the rows of one, become one input too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tempograd._utils import validation
from tempograd._utils.stamps import is_nested
from tempograd.data import read_series
from tempograd.data.readers.frame import is_frame
from tempograd.engine import Call, FixedInputs, Model, is_several, pack_inputs
from tempograd.engine.inputs import argument_names
from tempograd.errors import InputError, brief, listed, quote, warn


class SeriesBatch(NamedTuple):
    """The series of a call and what belongs to them; see :meth:`Explainer.__call__` for each part."""

    x: Any
    mask: Any
    raw: Any
    ids: Any
    channels: Any
    times: Any
    names: Any
    layout: Any
    lengths: tuple[int, ...] | None = None  # where series are shown to the model at lengths of their own


def as_batch(given: SeriesBatch) -> SeriesBatch:
    """Return what was given with the series as an array, and say how a list or a data frame was taken."""
    if isinstance(given.x, list):
        return _from_list(given)
    return _from_frame(given) if is_frame(given.x) else given


# As the model is called with them


class GivenSeries(NamedTuple):
    """The series of a call and what belongs to them, as one input, and how the model is called with it."""

    call: Call
    x: Any
    baseline: Any
    mask: Any
    raw: Any
    layout: str
    missing: str

    @classmethod
    def of(
        cls,
        call: Call,
        model: Model,
        batch: SeriesBatch,
        baseline: Any,
        missing: str,
        fixed: Any,
    ) -> "GivenSeries":
        """Lay several inputs out as one; a single one stays as it is, unless something goes with its rows."""
        x, mask, raw, layout = batch.x, batch.mask, batch.raw, batch.layout
        if call.lengths is not None and fixed is not None:
            raise InputError(
                "Series of unequal length cannot be combined with fixed=: pass them padded, with mask=, and what "
                "the model needs to know of their lengths as fixed=."
            )
        if not is_several(x) and not call.has_companions and fixed is None:
            return cls(call, validation.as_tensor(x, "x"), baseline, mask, raw, layout, missing)
        names = argument_names(model, len(x)) if isinstance(x, tuple) else ()
        inputs = x if is_several(x) else {"x": x}
        of_each = (each if is_several(x) or each is None else {"x": each} for each in (baseline, mask, raw))
        absent, observed, shown = of_each
        packed = pack_inputs(
            inputs, baseline=absent, mask=observed, raw=shown, layout=layout, missing=missing, names=names
        )
        companions = None if fixed is None else FixedInputs.of(fixed, len(packed.x))
        if companions is not None:
            companions = companions.beside(packed.packing, turned=layout == "BDT", named=isinstance(x, Mapping))
        call = replace(call, packing=packed.packing if is_several(x) else None, fixed=companions)
        seen = packed.mask
        if seen is None and companions is not None:
            seen = torch.ones_like(packed.x, dtype=torch.bool)
        return cls(
            call,
            call.with_rows(packed.x),
            call.extended(packed.baseline),
            None if seen is None else call.extended(seen),
            packed.raw,
            "BTD",
            "error",
        )


# A list of series


def _from_list(given: SeriesBatch) -> SeriesBatch:
    """Stack series, padded at their end with 0 where they are shorter than others."""
    validation.check_choice(given.layout, "layout", ("BTD", "BDT"))
    _refuse_other_columns(given.x)
    series = _each(given.x, "x", given.layout)
    if not series:
        raise InputError("x is an empty list: pass at least one series.")
    lengths = tuple(map(len, series))
    whole = given._replace(x=_padded(series, 0), layout="BTD")
    whole = whole._replace(mask=_beside(given, "mask", series, 0), raw=_beside(given, "raw", series, torch.nan))
    return whole if len(set(lengths)) == 1 else _of_unequal(whole, lengths)


def _beside(given: SeriesBatch, name: str, series: list[Tensor], empty: float) -> Any:
    """Return a part that is like x in the shape that x gets."""
    part = getattr(given, name)
    if isinstance(part, list):
        return _padded(_like(_each(part, name, given.layout), series, name), empty)
    if part is not None and len({len(one) for one in series}) > 1:
        raise InputError(f"{name} must be a list with an array for each series, as x is, got {brief(part)}.")
    if part is not None and given.layout == "BDT":
        part = validation.as_tensor(part, name)
        return part.transpose(1, 2) if part.ndim == 3 else part
    return part


def _of_unequal(whole: SeriesBatch, lengths: tuple[int, ...]) -> SeriesBatch:
    """Mask the padding, leave its steps without a name, and say what was done."""
    longest = max(lengths)
    inside = (torch.arange(longest) < torch.tensor(lengths)[:, None]).to(whole.x.device)
    mask = inside[..., None].expand(whole.x.shape)
    times = whole.times
    if is_nested(times) and len(times) == len(lengths):
        times = [[*row, *[None] * (longest - len(row))] if len(row) < longest else row for row in times]
    warn(
        f"The series have {len(set(lengths))} different lengths, {min(lengths)} to {longest} steps: the model is "
        "called with each length by itself, and steps after the end of a series are masked. If it was trained on "
        "padded series, pass them padded, with mask=."
    )
    return whole._replace(mask=mask if whole.mask is None else whole.mask, times=times, lengths=lengths)


def _each(parts: list[Any], name: str, layout: str) -> list[Tensor]:
    """Return arrays (time, channel), one for each series."""
    found = [validation.check_numbers(part, f"{name}[{place}]") for place, part in enumerate(parts)]
    for place, part in enumerate(found):
        if part.ndim != 2:
            raise InputError(
                f"{name} is a list, so that {name}[{place}] must be one series, (time, channel), got "
                f"{tuple(part.shape)}: write {name}[{place}][:, None] for a single channel."
            )
    found = [part.T if layout == "BDT" else part for part in found]
    widths = [part.shape[1] for part in found]
    wrong = next((place for place, width in enumerate(widths) if width != widths[0]), None)
    if wrong is not None:
        raise InputError(f"{name}[{wrong}] has {widths[wrong]} channels, {name}[0] has {widths[0]}.")
    empty = next((place for place, part in enumerate(found) if part.numel() == 0), None)
    if empty is not None:
        raise InputError(f"{name}[{empty}] is empty, its shape is {tuple(found[empty].shape)}: leave it out.")
    return found


def _like(parts: list[Tensor], series: list[Tensor], name: str) -> list[Tensor]:
    """Refuse what does not belong to the series one by one."""
    if len(parts) != len(series):
        raise InputError(f"{name} must be a list with an array for each of the {len(series)} series.")
    for place, (part, one) in enumerate(zip(parts, series, strict=True)):
        if part.shape != one.shape:
            raise InputError(
                f"{name}[{place}] must have the shape of x[{place}], {tuple(one.shape)}, got {tuple(part.shape)}."
            )
    return parts


def _padded(parts: list[Tensor], value: float) -> Tensor:
    kind = parts[0].dtype
    for part in parts:
        kind = torch.promote_types(kind, part.dtype)
    return pad_sequence([part.to(parts[0].device, kind) for part in parts], batch_first=True, padding_value=value)


def _refuse_other_columns(parts: list[Any]) -> None:
    """Refuse data frames whose columns are not in the same order, which arrays would not tell."""
    named = {place: list(map(str, part.columns)) for place, part in enumerate(parts) if is_frame(part)}
    first = next(iter(named.values()), [])
    for place, columns in named.items():
        if columns != first:
            raise InputError(f"x[{place}] has the columns {listed(columns, 60)}, others have {listed(first, 60)}.")


# A data frame


def _from_frame(given: SeriesBatch) -> SeriesBatch:
    """Read a table of series, and say which columns were taken for what."""
    for name in ("mask", "ids", "channels", "times", "names"):
        if getattr(given, name) is not None:
            raise InputError(
                f"x is a data frame, which tells {name} itself: leave {name}= out, or read it with "
                "tempograd.read_series(frame, …) and pass what you change of series.x and series.options."
            )
    if not all(isinstance(name, str) for name in (*given.x.columns, *_index_names(given.x))):
        raise InputError(
            "x is a data frame whose columns have no names that tell what they are: pass an array (batch, time, "
            "channel), or name the columns with the series, the time and the channels."
        )
    series = read_series(given.x, labels=False)
    told = ", ".join(map(quote, (series.channels or ())[:4])) + ("" if len(series.channels or ()) <= 4 else ", …")
    ends = set(validation.lengths(series.mask, series.x).tolist())
    short = "; shorter series end in 0, which the model reads and which is masked" if len(ends) > 1 else ""
    warn(
        f"The data frame was read as {len(series)} series of {series.x.shape[1]} steps with the channels "
        f"{told or 'of its columns'}{short}: tempograd.read_series(frame, id=…, time=…, channels=…) reads it "
        "otherwise."
    )
    taken = {name: getattr(series, name) for name in ("mask", "ids", "channels", "times", "names")}
    return given._replace(x=series.x, layout="BTD", **taken)


def _index_names(frame: Any) -> list[Any]:
    names = getattr(getattr(frame, "index", None), "names", ())
    return [name for name in names if name is not None]


def batch_shape(x: Any) -> tuple[int, ...]:
    """Return the shape of a batch, of a list that of its first series behind the number of series."""
    if isinstance(x, list) and x:
        return len(x), *validation.check_numbers(x[0], "x[0]").shape
    return tuple(np.shape(x)) if is_frame(x) else tuple(validation.as_tensor(x, "x").shape)
