"""What a run is asked for: arguments that cannot be are refused before anything is read."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import nn

from tempograd.bulk.sources import ArrayBatch, Columns, as_array, is_streamed
from tempograd.bulk.table import RESULTS
from tempograd.core import validation
from tempograd.core.errors import InputError, arg, brief, listed
from tempograd.data import Series
from tempograd.engine.inputs import is_several
from tempograd.engine.predictor import Predictor
from tempograd.models import load_model
from tempograd.typing import Align, Model

KeptCells = Literal["all", "top", "none"]


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what is of single series, which belongs into the source."""
    target, baseline = options["target"], options["baseline"]
    if hasattr(target, "shape") and getattr(target, "ndim", 0) > 0:
        raise InputError(f"{arg:question.target} must be the same for all series: an output, a function, or None.")
    if getattr(baseline, "ndim", 0) == 3 and len(baseline) != 1:
        raise InputError(
            f"{arg:question.baseline} must be the same for all series: of shape (time, channel), or a name."
        )
    if isinstance(baseline, Mapping):
        raise InputError("explain_dataset explains models of one input: pass one baseline.")


def check_amounts(cells: Any, fragment: Any, batch: Any, workers: Any, max_faults: Any) -> None:
    """Refuse numbers that cannot be."""
    validation.check_choice(cells, "cells", get_args(KeptCells))
    validation.check_int(fragment, "fragment", 1)
    for name, value in (("batch", batch), ("workers", workers)):
        if value is not None:
            validation.check_int(value, name, 1)
    if not 0 <= validation.check_float(max_faults, "max_faults") <= 1:
        raise InputError(f"max_faults must be a share from 0 to 1, got {brief(max_faults)}.")


def columns_of(
    source: Any,
    x: Any,
    ids: Any,
    mask: Any,
    time_: Any,
    shape: Any,
    keep: Any,
    label: str | None = None,
    channels: Any = None,
    align: Align | None = None,
) -> tuple[Any, Columns]:
    """Return the source, with arrays of ids and masks beside arrays of series, and where its parts are found."""
    _check_keep(keep, ids)
    beside = {"ids": ids, "mask": mask}
    beside = {name: part for name, part in beside.items() if part is not None and not isinstance(part, str)}
    if beside:
        if is_streamed(source) or is_files(source) or isinstance(source, Series):
            raise InputError(
                f"{arg:source.id} and {arg:series.mask} are arrays beside an array alone: name columns or .npy "
                "files."
            )
        ids_, mask_ = beside.get("ids"), beside.get("mask")
        series = as_array(source)
        parts = (None if ids_ is None else np.asarray(ids_), series, None if mask_ is None else as_array(mask_))
        for name, part in zip(("id", "", "mask"), parts, strict=True):
            if part is not None and len(part) != len(series):
                raise InputError(f"{name}= has {len(part)} rows for {len(series)} series.")
        source = ArrayBatch(*parts)
    if isinstance(source, Series) and is_several(source.x):
        raise InputError("explain_dataset explains models of one input.")
    if label is not None and not is_files(source):
        raise InputError(
            f"{arg:source.label} names a column of CSV files, which is then no channel: arrays have none."
        )
    if align is not None:
        validation.check_choice(align, "align", get_args(Align))
        if not is_files(source):
            raise InputError(
                f"{arg:source.align} tells which steps the rows of files are: arrays have none, so leave it out."
            )
    chosen = _chosen(x, channels) if is_files(source) else None
    return source, Columns(
        x if isinstance(x, str) else tuple(x),
        ids if isinstance(ids, str) else None,
        mask if isinstance(mask, str) else None,
        time_,
        tuple(keep),
        _checked(shape),
        label,
        chosen,
        chosen is not None,
        align,
    )


def _check_keep(keep: Any, ids: Any) -> None:
    """Refuse columns that would take the place of results, or be lost to them."""
    if isinstance(keep, str):
        raise InputError(f"keep must be a list of columns, got {keep!r}: write [{keep!r}].")
    for name in keep:
        if name in RESULTS and not name == ids == "id":
            raise InputError(
                f"{arg:source.keep} cannot name {name!r}: results have a column of that name. Rename yours in the "
                "files."
            )


def _chosen(x: Any, channels: Any) -> tuple[str, ...] | None:
    """Return the columns of tables that were chosen: those of ``x``, which ``channels`` may then rename."""
    if not isinstance(x, str):
        named = [] if channels is None or isinstance(channels, str) else list(map(str, channels))
        if named != list(x) and sorted(named) == sorted(x):
            raise InputError(
                f"{arg:source.x} and {arg:source.channels} name the same columns in another order, {listed(x)} "
                f"and {listed(named)}: {arg:source.x} chooses columns and {arg:source.channels} renames them. "
                "Pass one of the two, in the order of the model."
            )
        return tuple(x)
    if x != "x":
        return (x,)
    return None if channels is None or isinstance(channels, str) else tuple(map(str, channels))


def _checked(shape: Any) -> tuple[int, int] | None:
    if shape is None:
        return None
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise InputError(f"shape must be (time, channel), got {brief(shape)}.")
    return validation.check_int(shape[0], "shape", 1), validation.check_int(shape[1], "shape", 1)


def is_files(source: Any) -> bool:
    """Tell whether a source is files, which any process can read."""
    return isinstance(source, (str, Path)) or (
        isinstance(source, (list, tuple))
        and not isinstance(source, ArrayBatch)
        and bool(source)
        and all(isinstance(each, (str, Path)) for each in source)
    )


def predictor_parts(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model, or its name, and what is said of it, as options of a run."""
    said = {"task": None, "classes": None, "pick": None, "layout": "BTD"}
    if isinstance(model, Predictor):
        model, said = model.called, {name: getattr(model, name) for name in said}
    return model, {"model_layout" if name == "layout" else name: value for name, value in said.items()}


def live_model(model: Any, device: Any, weights: Any, *, trust: bool) -> Model:
    """Return the model itself, on its device; a module that has to move is copied."""
    if isinstance(model, (str, Path)):
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return load_model(model, place, weights=weights, trust=trust)
    if weights is not None:
        raise InputError(f"{arg:source.weights} are for a model given as 'module:callable'.")
    validation.check_model(model)
    if device is None:
        return model  # type: ignore[no-any-return]
    if not isinstance(model, nn.Module):
        raise InputError(f"{arg:run.device} is for modules: a function computes where it likes.")
    return copy.deepcopy(model).to(device)
