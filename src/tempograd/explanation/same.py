"""Whether explanations are of the same output, of the same series, and of a predictor that says the same."""

from typing import Any

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief
from tempograd.engine import Model, Predictor
from tempograd.explanation.core import Explanation

ROUNDED = 1e-4  # of a value, or four units of the last place of either precision: no more apart is the same value


def same_output(one: Explanation, other: Explanation) -> bool:
    """Tell whether two explanations are of the same output, where a task has no predicted class to choose it."""
    chosen = {"regression", "forecast"}
    if one.task not in chosen or other.task not in chosen or one.target is None or other.target is None:
        return True
    return set(one.target.flatten().tolist()) == set(other.target.flatten().tolist())


def other_targets(one: Explanation, other: Explanation) -> list[int]:
    """Return the ids of series of which two explanations explain different outputs, as far as both tell."""
    if one.target is None or other.target is None or one.target.shape != other.target.shape:
        return []
    unlike = (one.target.cpu() != other.target.cpu()).reshape(len(one), -1).any(1)
    return one.ids.cpu()[unlike].tolist()


def same_lengths(one: Explanation, other: Explanation) -> bool:
    """Tell whether the model was shown as many steps of each series in both."""
    shown = [
        [found.values.shape[1]] * len(found) if found.call.lengths is None else [*found.call.lengths]
        for found in (one, other)
    ]
    return shown[0] == shown[1]


def other_series(explanation: Explanation, x: Tensor | None, mask: Tensor | None = None) -> list[int]:
    """Return the ids of series whose observed values in ``x`` are not those that were explained.

    Cells that are missing in either hold a baseline or NaN, which may differ. Nothing is known of an explanation
    that keeps no series.
    """
    kept = explanation.x
    if kept is None or x is None or x is kept or x.shape != kept.shape:
        return []
    x = x.to(kept.device)
    rounded = max(ROUNDED, *(4 * torch.finfo(part.dtype).eps for part in (x, kept)))
    same = torch.isclose(x.double(), kept.double(), rtol=rounded, atol=rounded * _size(kept), equal_nan=True)
    same |= x.isnan()
    for observed in (explanation.mask, mask):
        same = same if observed is None else same | ~observed.to(kept.device)
    return explanation.ids[~same.flatten(1).all(1).to(explanation.ids.device)].tolist()


def _size(x: Tensor) -> float:
    """Return a usual size of values: rounding errors of values near 0 come from those around them."""
    return float(x.double().abs().nan_to_num(0.0, 0.0, 0.0).mean()) if x.numel() else 0.0


def as_explained(model: Model | Predictor, explanation: Explanation) -> Model:
    """Return the model alone, which the explanation knows how to call; refuse a predictor that says otherwise."""
    if not isinstance(model, Predictor):
        return model
    call = explanation.call
    known: dict[str, Any] = {"task": explanation.task, "classes": explanation.classes, "pick": call.pick}
    known["layout"] = call.model_layout
    usual = {"task": None, "classes": None, "pick": None, "layout": "BTD"}
    for name, value in known.items():
        said = getattr(model, name)
        if said not in (usual[name], value) and value is not None:
            raise InputError(
                f"The predictor says {name}={brief(said)}, and the explanation was made with {brief(value)}: pass "
                "the predictor that was explained, or its model alone."
            )
    return model.called
