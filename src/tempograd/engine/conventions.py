"""Conventions of other people's models: answers in parts, estimators, functions of arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import ModelError, arg, listed
from tempograd.typing import Task

NO_GRADIENT = "numpy arrays, which have no gradient: use a method that needs none, such as occlusion or lime"


# Which part of what a model returns is its output


def picked(raw: Any, pick: str | int | None, rows: int, *, time_first: bool = False) -> Any:
    """Return the part of a model's answer that is its output, a tensor or an array; without ``pick`` the only one.

    ``time_first`` says that its rows, as many as there are series, may be its second axis.

    Examples
    --------
    >>> answer = {"loss": None, "logits": torch.zeros(4, 2), "states": (torch.ones(4, 7), torch.zeros(4, 7))}
    >>> picked(answer, None, 4).shape, picked(answer, "states.0", 4).shape
    (torch.Size([4, 2]), torch.Size([4, 7]))
    """
    held, part = _parts(raw), raw
    if pick is None and not _is_array(raw):
        outputs = [part for part in held.values() if _is_output(part, rows, time_first=time_first)]
        part = outputs[0] if len(outputs) == 1 else None
    elif pick is not None:
        keys: list[Any] = [pick]  # the name itself where there is one, else what lies between its dots
        if isinstance(pick, str) and pick not in held:
            keys = [int(word) if word.isdecimal() else word for word in pick.split(".")]
        elif isinstance(pick, int) and pick < 0 and not isinstance(raw, Mapping):
            keys = [pick + len(held)]
        for key in keys:
            attribute = getattr(part, key, None) if isinstance(key, str) and not _is_array(part) else None
            part = _parts(part).get(key, attribute)
    if not _is_array(part):
        problem = "nothing tells which part is its output" if pick is None else f"{pick!r} is no tensor of it"
        raise ModelError(
            f"The model returned {_described(raw, rows)}, and {problem}: pass {arg:predictor.pick} with the name "
            "or place of a floating-point part with a row per series, or a function that returns it."
        )
    return part


def _parts(raw: Any) -> dict[Any, Any]:
    """Return what an answer holds, by name or by place; nothing for what has no parts."""
    if isinstance(raw, Mapping):
        return dict(raw)
    if isinstance(raw, (tuple, list)):
        return dict(zip(getattr(raw, "_fields", range(len(raw))), raw, strict=True))
    if isinstance(raw, type) or _is_array(raw):
        return {}
    names = [part.name for part in fields(raw)] if is_dataclass(raw) else getattr(raw, "__dict__", ())
    return {name: getattr(raw, name) for name in names if not name.startswith("_")}


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or (
        hasattr(value, "__array__") and hasattr(value, "shape") and not isinstance(value, type)
    )


def _is_output(part: Any, rows: int, *, time_first: bool) -> bool:
    """Tell whether a part holds floating-point numbers, a row for each series."""
    if not _is_array(part) or (isinstance(part, Tensor) and part.is_nested):
        return False
    real = part.is_floating_point() if isinstance(part, Tensor) else np.asarray(part).dtype.kind == "f"
    return bool(real) and (rows in part.shape[:1] or (time_first and rows in part.shape[1:2]))


def _described(raw: Any, rows: int) -> str:
    """Name the kind of an answer and its parts, with the shapes of tensors."""
    words = [
        f"{name} {shape_in_words(part, rows)}" if _is_array(part) else f"{name} ({type(part).__name__})"
        for name, part in _parts(raw).items()
        if part is not None
    ]
    whole = f" {shape_in_words(raw, rows)}" if _is_array(raw) else ""
    return f"one {type(raw).__name__}{whole}{' that holds ' if words else ''}{listed(words)}"


def shape_in_words(part: Any, rows: int) -> str:
    """Write a shape; a first axis of as many rows as there are series is the batch, whose size is the engine's."""
    if isinstance(part, Tensor) and part.is_nested:
        return "(nested)"
    sizes = ["batch" if place == 0 and size == rows else str(size) for place, size in enumerate(part.shape)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def as_output(raw: Any, z: Tensor) -> Tensor:
    """Return what a model said of series ``z`` as a tensor beside them; arrays have no gradient."""
    if isinstance(raw, Tensor):
        return raw
    if torch.is_grad_enabled() and z.requires_grad:
        raise ModelError(f"The model returns {NO_GRADIENT}.")
    return validation.as_tensor(np.asarray(raw), "The model's output").to(z.device)


# Estimators as scikit-learn has them, and functions of numpy arrays


@dataclass(frozen=True, eq=False)
class OfArrays:
    """A function that gets numpy arrays, whatever it would make of tensors."""

    function: Callable[[Any], Any]

    def __call__(self, z: Tensor) -> Any:
        return self.function(z.detach().cpu().contiguous().numpy())


@dataclass(frozen=True, eq=False)
class Estimator:
    """An estimator with a method ``predict_proba``, ``decision_function`` or ``predict``, as a function of series.

    It gets a numpy array: one row of numbers per series if it takes as many features, else the series themselves.
    """

    estimator: Any
    method: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "__qualname__", type(self.estimator).__qualname__)  # its fingerprint

    def __call__(self, z: Tensor) -> Any:
        array, wanted = z.detach().cpu().contiguous().numpy(), getattr(self.estimator, "n_features_in_", None)
        size, name = array[0].size, type(self.estimator).__name__
        if wanted == size:
            array = array.reshape(len(array), -1)
        try:
            raw = getattr(self.estimator, self.method)(array)
        except ValueError as error:
            if wanted in (None, size):
                raise
            raise ValueError(
                f"{name} takes {wanted} features, and series of shape {array.shape[1:]} have {size}"
            ) from error
        if self.method == "predict" and np.asarray(raw).dtype.kind != "f":
            raise ModelError(
                f"{name} predicts labels, which are no scores, and has neither predict_proba nor "
                "decision_function: pass a function that returns a score for each class."
            )
        return raw

    @property
    def task(self) -> Task:
        """Return what its output is; the score of an outlier is no class."""
        classifies = self.method == "predict_proba" or hasattr(self.estimator, "classes_")
        return "classification" if classifies and self.method != "predict" else "regression"

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Return the names of its columns, if they are not 0, 1 and so on.

        The score of a decision between two classes is that of the second; columns of more may be pairs of classes.
        """
        known = getattr(self.estimator, "classes_", None)
        if not isinstance(known, np.ndarray) or known.ndim != 1 or known.dtype.kind == "b":
            return None
        if known.dtype.kind in "iuf" and np.array_equal(known, np.arange(len(known))):
            return None
        names = tuple(map(str, known.tolist()))
        if self.method == "predict_proba":
            return names
        return names[1:] if self.method == "decision_function" and len(names) == 2 else None
