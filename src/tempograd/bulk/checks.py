"""What a run is asked for: arguments that cannot be are refused before anything is read."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from tempograd.bulk.table import RESULTS
from tempograd.core import validation
from tempograd.core.errors import InputError, arg, brief
from tempograd.data import Source
from tempograd.engine.predictor import Predictor
from tempograd.models import load_model
from tempograd.typing import Model

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


def check_amounts(cells: Any, fragment: Any, batch_size: Any, workers: Any, max_faults: Any) -> None:
    """Refuse numbers that cannot be."""
    validation.check_choice(cells, "cells", get_args(KeptCells))
    validation.check_int(fragment, "fragment", 1)
    for name, value in (("batch_size", batch_size), ("workers", workers)):
        if value is not None:
            validation.check_int(value, name, 1)
    if not 0 <= validation.check_float(max_faults, "max_faults") <= 1:
        raise InputError(f"max_faults must be a share from 0 to 1, got {brief(max_faults)}.")


def check_source(source: Source) -> None:
    """Refuse what runs do not take, and columns that would take the place of results."""
    if source.inputs is not None or source.fixed is not None:
        raise InputError("explain_dataset explains models of one input.")
    for name in source.keep:
        if name in RESULTS and not name == (source.id or "id") == "id":
            raise InputError(
                f"{arg:source.keep} cannot name {name!r}: results have a column of that name. Rename yours in the "
                "files."
            )


def predictor_parts(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model, or its name, and what is said of it, as options of a run."""
    said = {"task": None, "classes": None, "pick": None, "layout": "BTD"}
    if isinstance(model, Predictor):
        model, said = model.called, {name: getattr(model, name) for name in said}
    return model, {"model_layout" if name == "layout" else name: value for name, value in said.items()}


def live_model(model: Any, device: Any, *, trust: bool) -> Model:
    """Return the model itself, on its device; a module that has to move is copied."""
    if isinstance(model, (str, Path)):
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return load_model(model, place, trust=trust)
    validation.check_model(model)
    if device is None:
        return model  # type: ignore[no-any-return]
    if not isinstance(model, nn.Module):
        raise InputError(f"{arg:run.device} is for modules: a function computes where it likes.")
    return copy.deepcopy(model).to(device)
