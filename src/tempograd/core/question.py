"""Which number of a model is explained, against what, and at what cost: the arguments that every call shares."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self, TypedDict, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import validation
from tempograd.core.series import Series
from tempograd.typing import InputBaselines, Inputs, Output, Precision, Steps, Target, Targets

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True, eq=False)
class Question:
    """Which number of the model's output is explained, and against what.

    Parameters
    ----------
    target : int, str, Tensor of shape (batch,) or (batch, time), tuple or callable, optional
        Class or output to explain, by default the predicted class; a function picks one score per series.
    targets : list of targets or "all", optional
        Several targets in one call.
    output : {"probability", "raw"}, optional
        Softmax (sigmoid for a single column), or the output as it is; by default what the task says.
    steps : int, list of int or "own", optional
        For one output per step: which of them are explained, by default all.
    baseline : {"zero", "average", "background"}, or Tensor or Series that broadcasts to the series, optional
        What "absent" means, by default zero.
    background : series, optional
        The values of ``baseline="background"``, and the series that methods learn from; in the question that an
        explanation keeps, their number and a hash of them.

    Examples
    --------
    >>> series = Series(torch.zeros(3, 5, 1))
    >>> Question(target=[2, 0, 1], baseline=0.5).take([0, 2], series).target
    tensor([2, 1])
    """

    target: Target | None = None
    targets: Targets | None = None
    output: Output | None = None
    steps: Steps | None = None
    baseline: InputBaselines | Series | None = None
    background: Inputs | Series | str | None = None

    def take(self, rows: Tensor | NDArray[Any] | Sequence[int] | slice, series: Series) -> Self:
        """Return the question about some of the ``series``: what has one row per series is cut."""
        index = torch.arange(len(series))[rows].reshape(-1)

        def cut(value: Any, name: str, axes: int = 1) -> Any:
            """Take rows of an array with so many axes, the first of them one entry per series."""
            if value is None or callable(value) or isinstance(value, (str, bool, int, float, tuple)):
                return value
            tensor = validation.check_numbers(value, name)
            per_series = tensor.ndim >= axes and len(tensor) == len(series)
            return tensor[index.to(tensor.device)] if per_series else value

        def cut_baseline(value: Any, x: Any) -> Any:
            value = value.x if isinstance(value, Series) else value
            if isinstance(value, Mapping):
                inputs = x if isinstance(x, Mapping) else {}
                return {name: cut_baseline(part, inputs.get(name, ())) for name, part in value.items()}
            if isinstance(value, tuple) and isinstance(x, tuple) and len(value) == len(x):
                return tuple(map(cut_baseline, value, x))
            return cut(value, "baseline", x.ndim if isinstance(x, Tensor) else 3)

        targets = self.targets
        if targets is not None and not isinstance(targets, str):
            targets = [cut(target, "targets") for target in targets]
        return replace(
            self,
            target=cut(self.target, "target"),
            targets=targets,
            steps=cut(self.steps, "steps", axes=2),
            baseline=cut_baseline(self.baseline, series.x),
        )


@dataclass(frozen=True)
class Effort:
    """How much is computed, and how exactly.

    Parameters
    ----------
    seed : int
        Of the random draws.
    draws : int
        Realisations of a stochastic model to average over.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.
    precision : {"full", "tf32", "bf16"}
        How exactly the model multiplies.
    gradient_check : bool
        Whether the gradient is compared with differences of the score.
    """

    seed: int = 0
    draws: int = 1
    batch_size: int | None = None
    precision: Precision = "full"
    gradient_check: bool = True


class Asked(TypedDict, total=False):
    """The fields of :class:`Question` and :class:`Effort` as keyword arguments."""

    target: Target | None
    targets: Targets | None
    output: Output | None
    steps: Steps | None
    baseline: InputBaselines | Series | None
    background: Inputs | Series | None
    seed: int
    draws: int
    batch_size: int | None
    precision: Precision
    gradient_check: bool


def divided(options: Mapping[str, Any]) -> tuple[Question, Effort, dict[str, Any]]:
    """Return the question, the effort, and the other options."""
    others = dict(options)
    question = Question(**{f.name: others.pop(f.name) for f in fields(Question) if f.name in others})
    effort = Effort(**{f.name: others.pop(f.name) for f in fields(Effort) if f.name in others})
    return question, effort, others


def asks(
    *more: type, without: Collection[str] = ("targets",), settings: bool = True
) -> Callable[[Function], Function]:
    """Show the fields of question, effort and ``more`` in the signature of a function that takes them as ``**``.

    Those that it refuses are left out; with ``settings`` it takes further options.
    """
    known = [f for kind in (*more, Question, Effort) for f in fields(kind) if f.name not in without]
    parameter, types = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY), Asked.__annotations__
    shown = [parameter(f.name, default=f.default, annotation=types.get(f.name, f.type)) for f in known]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, options = signature.parameters.values()
        parameters = [*named, *shown, *([options] if settings else [])]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate
