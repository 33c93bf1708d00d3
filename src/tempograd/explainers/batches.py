"""What a call was given, as two nouns and one input: frames are read, lists padded, several inputs laid out."""

from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from tempograd.core.errors import InputError, listed, quote, warn
from tempograd.core.findings import Finding, arg
from tempograd.core.series import Series
from tempograd.data import read_series
from tempograd.data.readers.frame import is_frame
from tempograd.engine import Call, FixedInputs, pack_inputs
from tempograd.engine.inputs import argument_names, channel_labels, time_labels, unit_labels
from tempograd.engine.predictor import Predictor
from tempograd.typing import Times


def nouns(model: Any, x: Any) -> tuple[Predictor, Series]:
    """Return the model as a predictor, and what else than series was given as series."""
    if is_frame(x):
        return Predictor.of(model), _from_frame(x)
    if isinstance(x, list):
        _refuse_other_columns(x)
    return Predictor.of(model), Series.of(x)


class OneInput(NamedTuple):
    """The series of a call as one input, and how the model is called with it."""

    call: Call
    x: Tensor
    baseline: Any
    mask: Tensor | None
    raw: Tensor | None
    channels: tuple[str, ...] | None
    times: Times | None
    units: tuple[str, ...] | None

    @property
    def labels(self) -> dict[str, Any]:
        """Return what people call channels and steps, and the units."""
        return {"channels": self.channels, "times": self.times, "units": self.units}


def as_one_input(predictor: Predictor, series: Series, baseline: Any) -> OneInput:
    """Pad series of unequal length, and lay several inputs out as one."""
    lengths = tuple(map(len, series.x)) if isinstance(series.x, list) else None
    if lengths is not None:
        series = _padded(series, lengths)
    call = Call(pick=predictor.pick, model_layout=predictor.layout, lengths=lengths)
    fixed = None if series.fixed is None else FixedInputs.of(series.fixed)
    if isinstance(series.x, Tensor):
        labels, x = (series.channels, series.times, series.units), series.x
        if series.fill is None:
            call, x = call.reading(x)
        return OneInput(replace(call, fixed=fixed), x, baseline, series.mask, series.raw, *labels)
    names = argument_names(predictor.model, len(series.x)) if isinstance(series.x, tuple) else ()
    packed = pack_inputs(
        series.x, baseline=baseline, mask=series.mask, raw=series.raw, names=names, empty=series.fill
    )
    packing = packed.packing
    call = replace(call, packing=packing, fixed=None if fixed is None else fixed.beside(packing))
    call, x = call.reading(packed.x) if series.fill is None else (call, packed.x)
    channels, units = channel_labels(series.channels, packing), unit_labels(series.units, packing)
    times = time_labels(series.times, packing, len(x))
    return OneInput(call, x, packed.baseline, packed.mask, packed.raw, channels, times, units)


def _padded(series: Series, lengths: tuple[int, ...]) -> Series:
    """Pad series, and say so; what goes beside them has one length."""
    if series.fixed is not None:
        raise InputError(
            f"Series of unequal length cannot be combined with {arg:series.fixed}: pass "
            f"{arg:series.lengths=padded}, and what the model needs to know of their lengths as "
            f"{arg:series.fixed}."
        )
    warn(
        Finding(
            "series.lengths",
            "assumption",
            {"count": len(set(lengths)), "least": min(lengths), "most": max(lengths)},
        )
    )
    return series.padded()


# Data frames


def _from_frame(frame: Any) -> Series:
    """Read a table of series, and say which columns were taken for what."""
    if not all(isinstance(name, str) for name in (*frame.columns, *_index_names(frame))):
        raise InputError(
            "x is a data frame whose columns have no names that tell what they are: pass an array (batch, time, "
            "channel), or name the columns with the series, the time and the channels."
        )
    series = read_series(frame, labels=False)
    channels = series.channels or ()
    told = ", ".join(map(quote, channels[:4])) + ("" if len(channels) <= 4 else ", …")
    warn("series.frame", count=len(series), steps=series.shape[1], channels=told or "of its columns")
    return series


def _index_names(frame: Any) -> list[Any]:
    names = getattr(getattr(frame, "index", None), "names", ())
    return [name for name in names if name is not None]


def _refuse_other_columns(parts: list[Any]) -> None:
    """Refuse data frames whose columns are not in the same order, which arrays would not tell."""
    named = {place: list(map(str, part.columns)) for place, part in enumerate(parts) if is_frame(part)}
    first = next(iter(named.values()), [])
    for place, columns in named.items():
        if columns != first:
            raise InputError(f"x[{place}] has the columns {listed(columns, 60)}, others have {listed(first, 60)}.")
