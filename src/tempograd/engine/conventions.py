"""Conventions of other people's models: orders of axes, answers in parts, estimators, functions of arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, brief
from tempograd.core.findings import arg
from tempograd.typing import ModelLayout, Task

LAYOUTS: tuple[ModelLayout, ...] = get_args(ModelLayout)
SOME = 8  # parts of an output that a sentence names
NO_GRADIENT = "numpy arrays, which have no gradient: use a method that needs none, such as occlusion or lime"


# The order of the axes


def in_model_layout(z: Tensor, layout: str) -> Tensor:
    """Return series (batch, time, channel) in the order of axes that a model takes.

    Examples
    --------
    >>> z = torch.zeros(5, 9, 1)
    >>> [tuple(in_model_layout(z, layout).shape) for layout in LAYOUTS]
    [(5, 9, 1), (5, 1, 9), (9, 5, 1), (5, 9)]
    """
    if layout == "BT":
        if z.shape[2] != 1:
            raise InputError(
                f"Predictor(layout='BT') is for series of one channel, x has {z.shape[2]}: pass 'BTD', 'BDT' or "
                "'TBD'."
            )
        return z.squeeze(2)
    if layout == "BTD":
        return z
    return z.transpose(*((1, 2) if layout == "BDT" else (0, 1))).contiguous()  # as such series lie in memory


def batch_first(raw: Tensor, rows: int, again: Callable[[], Tensor]) -> Tensor:
    """Return the output of a model that takes (time, batch, channel) with the series first.

    Where the second axis has as many places as there are series, (time, batch, …), it comes first. If both have,
    ``again`` tells which of them follows the batch: it returns the output for one series more.
    """
    if raw.ndim < 2:
        return raw
    first, second = (raw.shape[axis] == rows for axis in (0, 1))
    if first and second:
        shape = _shape_of(again)
        first, second = (len(shape) == raw.ndim and shape[axis] == rows + 1 for axis in (0, 1))
        if first == second:
            raise ModelError(
                f"The model returned shape {tuple(raw.shape)} for {rows} series, and nothing tells which axis is "
                "theirs: pass a function that returns (batch, time, class) or (batch, class)."
            )
    return raw.transpose(0, 1) if second and not first else raw


def _shape_of(again: Callable[[], Tensor]) -> tuple[int, ...]:
    try:
        with torch.no_grad():
            return tuple(again().shape)
    except (RuntimeError, ValueError, AssertionError, IndexError):  # a program of one batch size, say
        return ()


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
    if pick is None:
        return raw if _is_array(raw) else _only(raw, rows, time_first=time_first)
    if _is_array(raw):
        raise ModelError(
            f"The model returns one array, {_shape(raw, rows)}, so there is nothing to pick: leave "
            f"{arg:predictor.pick} out, and name one of its outputs as {arg:question.target}."
        )
    found = raw
    for key in _path(raw, pick):
        held = _parts(found)
        if key not in held:
            raise ModelError(f"The model's answer has no part {pick!r}: it holds {_listed(_parts(raw), rows)}.")
        found = held[key]
    if not _is_array(found):
        inside = f", which holds {_listed(_parts(found), rows)}" if _parts(found) else ""
        kind = "None" if found is None else f"of type {type(found).__name__}"
        every = _listed(_parts(raw), rows)
        raise ModelError(f"The part {pick!r} of the model's answer is {kind}{inside}: pick a tensor, of {every}.")
    return found


def _path(raw: Any, pick: str | int) -> Sequence[str | int]:
    """Return the keys that lead to a part: the name itself where there is one, else what lies between its dots."""
    if not isinstance(pick, str):
        return [pick] if pick >= 0 or isinstance(raw, Mapping) else [pick + len(_parts(raw))]
    if pick in _parts(raw):
        return [pick]
    return [int(part) if part.isdecimal() else part for part in pick.split(".")]


class _Parts(dict[str | int, Any]):
    """The parts of an answer by name, and what else its attributes give."""

    def __init__(self, held: Mapping[Any, Any], beside: Any = None) -> None:
        super().__init__(held)
        self._beside = beside

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and _is_array(getattr(self._beside, key, None)))

    def __missing__(self, key: str) -> Any:
        return getattr(self._beside, key)


def _parts(raw: Any) -> _Parts:
    """Return what an answer holds, by name or by place; nothing for what has no parts."""
    if isinstance(raw, Mapping):
        return _Parts(raw)
    if isinstance(raw, (tuple, list)):
        names = getattr(raw, "_fields", ())
        return _Parts(dict(enumerate(raw)), raw) if not names else _Parts(dict(zip(names, raw, strict=True)))
    if isinstance(raw, type) or _is_array(raw) or not (is_dataclass(raw) or hasattr(raw, "__dict__")):
        return _Parts({})
    names = [field.name for field in fields(raw)] if is_dataclass(raw) else list(vars(raw))
    return _Parts({name: getattr(raw, name) for name in names if not name.startswith("_")}, raw)


def _only(raw: Any, rows: int, *, time_first: bool) -> Any:
    """Return the only part of an answer that can be the output, or name those that can."""
    held = {name: part for name, part in _parts(raw).items() if part is not None}
    found = [name for name, part in held.items() if _is_output(part, rows, time_first=time_first)]
    kind = type(raw).__name__
    if len(found) == 1:
        return held[found[0]]
    if found:
        outputs = {name: held[name] for name in found}
        raise ModelError(
            f"The model returns one {kind} with several outputs, {_listed(outputs, rows)}: pass "
            f"{arg:predictor.pick={found[0]}} or another of them."
        )
    if not held:
        raise ModelError(
            f"The model must return a tensor, got {kind}: pass a function that returns the tensor to be explained."
        )
    raise ModelError(
        f"The model returns one {kind} that holds {_listed(held, rows)}, and no floating-point tensor with one "
        "row per series: pass a function that returns the tensor to be explained."
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or (
        hasattr(value, "__array__") and hasattr(value, "shape") and not isinstance(value, type)
    )


def _is_output(part: Any, rows: int, *, time_first: bool) -> bool:
    """Tell whether a part holds floating-point numbers, a row for each series."""
    if not _is_array(part) or (isinstance(part, Tensor) and (part.is_nested or not part.is_floating_point())):
        return False
    if not isinstance(part, Tensor) and np.asarray(part).dtype.kind != "f":
        return False
    shape = tuple(part.shape)
    return rows in shape[:1] or (time_first and rows in shape[1:2])


def _listed(held: Mapping[str | int, Any], rows: int) -> str:
    """Name the parts of an answer, with the shapes of tensors."""
    words = [_described(name, part, rows) for name, part in held.items() if part is not None]
    words = [*words[:SOME], "…"] if len(words) > SOME else words
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "nothing"


def _described(name: str | int, part: Any, rows: int) -> str:
    return f"{name} {_shape(part, rows)}" if _is_array(part) else f"{name} ({type(part).__name__})"


def _shape(part: Any, rows: int) -> str:
    """Write a shape; a first axis of as many rows as there are series is the batch, whose size is the engine's."""
    if isinstance(part, Tensor) and part.is_nested:
        return "(nested)"
    sizes = ["batch" if place == 0 and size == rows else str(size) for place, size in enumerate(part.shape)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


# Functions of numpy arrays


def to_array(z: Any) -> Any:
    """Return series as a numpy array of their own memory; what is no tensor stays as it is."""
    return z.detach().cpu().contiguous().numpy() if isinstance(z, Tensor) else z


@dataclass(frozen=True, eq=False)
class OfArrays:
    """A function that gets numpy arrays, whatever it would make of tensors."""

    function: Callable[[Any], Any]

    def __call__(self, z: Tensor) -> Any:
        return self.function(to_array(z))


def as_output(raw: Any, z: Tensor) -> Tensor:
    """Return what a model said of series ``z`` as a tensor beside them; arrays have no gradient."""
    if isinstance(raw, Tensor):
        return raw
    if torch.is_grad_enabled() and z.requires_grad:
        raise ModelError(f"The model returns {NO_GRADIENT}.")
    array = np.asarray(raw)
    if array.dtype.kind in "OUST":
        raise ModelError(
            f"The model must return numbers, got {brief(array.flat[0]) if array.size else 'text'}: pass a "
            "function that returns scores, not labels."
        )
    return validation.as_tensor(array, "the model's output").to(z.device)


# Estimators as scikit-learn has them


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
        if torch.is_grad_enabled() and z.requires_grad:
            raise ModelError(f"{self.name} computes with {NO_GRADIENT}.")
        array, wanted = to_array(z), getattr(self.estimator, "n_features_in_", None)
        size = array[0].size
        if wanted == size:
            array = array.reshape(len(array), -1)
        try:
            raw = getattr(self.estimator, self.method)(array)
        except ValueError as error:
            if wanted in (None, size):
                raise
            raise ValueError(
                f"{self.name} takes {wanted} features, and series of shape {array.shape[1:]} have {size}"
            ) from error
        if self.method == "predict" and np.asarray(raw).dtype.kind != "f":
            raise ModelError(
                f"{self.name} predicts labels, which are no scores, and has neither predict_proba nor "
                "decision_function: pass a function that returns a score for each class."
            )
        return raw

    @property
    def name(self) -> str:
        """Return what people call it."""
        return type(self.estimator).__name__

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


def as_model(model: Any, method: str | None = None) -> Callable[..., Any]:
    """Return a model itself, and an estimator as a function of series.

    Examples
    --------
    >>> class Mean:
    ...     def predict(self, x):
    ...         return x.mean((1, 2))
    >>> as_model(Mean())(torch.ones(2, 4, 3))
    array([1., 1.], dtype=float32)
    """
    if callable(model) and method is None:
        return model  # type: ignore[no-any-return]  # callable() does not narrow Any
    validation.check_model(model)
    return Estimator(model, method or next(name for name in validation.PREDICTS if hasattr(model, name)))
