"""Scores that people ask about, as targets: the mean of a forecast, the difference of two classes, and more.

Each function returns a target for ``tempograd.explain(..., target=...)``: one number per series, made from what
the model returns after softmax or sigmoid, where one belongs there. Unlike functions of one's own they say in
words what they are, and are written into the files of explanations.

====================  =================================================================================
``mean``              the mean of a forecast, over all of it or over some steps and one variable
``total``             the same as a sum
``difference``        one output minus another: why this class and not that one
``quantile_spread``          how far two quantiles of a forecast are apart
``reconstruction``    how far the output is from the series, as an autoencoder for anomalies has it
====================  =================================================================================
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, UnknownNameError, arg, brief
from tempograd.typing import Picker

__all__ = ["TargetScore", "difference", "mean", "quantile_spread", "reconstruction", "total"]

Address = int | tuple[int, ...]
Span = tuple[int | None, int | None, int | None]  # of a slice


@dataclass(frozen=True)
class TargetScore:
    """A target that says in words what it is, and that a file can hold; the functions of this module make them."""

    name: ClassVar[str]
    """Of the function that makes it."""
    task: ClassVar[str | None] = None
    """What the outputs are, where the score is for one kind of them only."""
    takes_input: ClassVar[bool] = False
    """Whether it is called with the outputs, the series, and which of their cells were observed."""

    @property
    def text(self) -> str:
        """Say what the score is."""
        raise NotImplementedError

    def __call__(self, outputs: Tensor, *series: Tensor) -> Tensor:
        """Return one number per series, (batch,)."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """Return the score as plain data, of which :func:`from_spec` makes it again."""
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}

    def named(self, classes: Sequence[str] | None) -> Self:  # most know no names
        """Return the score with numbers in place of the names of outputs."""
        return self


@dataclass(frozen=True)
class _Mean(TargetScore):
    """Over some steps of a horizon, and all variables or one."""

    steps: tuple[int, ...] | None = None
    span: Span | None = None
    variable: int | None = None
    name: ClassVar[str] = "mean"
    task: ClassVar[str | None] = "forecast"
    reduction: ClassVar[str] = "mean"  # of torch, and in words

    @property
    def text(self) -> str:
        where = "all outputs" if self.variable is None else "the whole forecast"
        if self.span is not None:
            first, stop, step = self.span[0] or 0, self.span[1], self.span[2] or 1
            where = f"the steps from {first} on" if stop is None else f"steps {first} to {stop - 1}"
            where += "" if step == 1 else f" in strides of {step}"
        elif self.steps is not None:
            where = f"step{'s' if len(self.steps) > 1 else ''} {', '.join(map(str, self.steps))}"
        whose = "" if self.variable is None else f" of variable {self.variable}"
        return f"the {self.reduction} over {where}{whose}"

    def __call__(self, outputs: Tensor, *_: Tensor) -> Tensor:
        if outputs.ndim < 2:
            raise InputError(f"targets.{self.name} is for outputs (batch, step), got {tuple(outputs.shape)}.")
        chosen = outputs if self.variable is None else _at(outputs, 2, self.variable, "variable")
        if self.span is not None:
            chosen = chosen[:, slice(*self.span)]
        elif self.steps is not None:
            chosen = torch.stack([_at(chosen, 1, step, "step") for step in self.steps], 1)
        if chosen.numel() == 0:
            raise InputError(f"The forecast has {outputs.shape[1]} steps, and none is left for {self.text}.")
        return cast("Tensor", getattr(chosen.flatten(1), self.reduction)(1))


@dataclass(frozen=True)
class _Total(_Mean):
    name: ClassVar[str] = "total"
    reduction: ClassVar[str] = "sum"


@dataclass(frozen=True)
class _Spread(TargetScore):
    low: int
    high: int
    steps: tuple[int, ...] | None = None
    span: Span | None = None
    name: ClassVar[str] = "quantile_spread"
    task: ClassVar[str | None] = "forecast"

    @property
    def text(self) -> str:
        return f"quantile {self.high} minus quantile {self.low}, {_Mean(self.steps, self.span).text}"

    def __call__(self, outputs: Tensor, *_: Tensor) -> Tensor:
        last = max(outputs.ndim - 1, 2)
        apart = _at(outputs, last, self.high, "quantile") - _at(outputs, last, self.low, "quantile")
        return _Mean(self.steps, self.span)(apart)


@dataclass(frozen=True)
class _Difference(TargetScore):
    first: Address | str
    second: Address | str
    name: ClassVar[str] = "difference"

    @property
    def text(self) -> str:
        first, second = (part if isinstance(part, str) else f"output {part}" for part in (self.first, self.second))
        return f"{first} minus {second}"

    def named(self, classes: Sequence[str] | None) -> Self:
        return replace(self, first=_numbered(self.first, classes), second=_numbered(self.second, classes))

    def __call__(self, outputs: Tensor, *_: Tensor) -> Tensor:
        return _output(outputs, self.first) - _output(outputs, self.second)


@dataclass(frozen=True)
class _Reconstruction(TargetScore):
    channels: tuple[int, ...] | None = None
    name: ClassVar[str] = "reconstruction"
    task: ClassVar[str | None] = "forecast"
    takes_input: ClassVar[bool] = True

    @property
    def text(self) -> str:
        which = "" if self.channels is None else f" of channel{'s' if len(self.channels) > 1 else ''} "
        return f"the mean squared error of the reconstruction{which}{', '.join(map(str, self.channels or ()))}"

    def __call__(self, outputs: Tensor, *series: Tensor) -> Tensor:
        z, observed = series
        if outputs.shape != z.shape:
            shapes = f"{tuple(z.shape)}, got {tuple(outputs.shape)}"
            raise InputError(f"targets.reconstruction is for models that return the series again, {shapes}.")
        seen = observed.to(outputs.dtype)
        if self.channels is not None:
            _at(z, 2, max(self.channels), "channel")
            seen = seen * torch.tensor([float(channel in self.channels) for channel in range(z.shape[2])]).to(seen)
        return ((outputs - z).square() * seen).sum((1, 2)) / seen.sum((1, 2)).clamp(min=1)


def mean(steps: slice | Sequence[int] | int | None = None, variable: int | None = None) -> TargetScore:
    """Return the mean of a forecast (batch, step) or (batch, step, variable) as a target.

    Parameters
    ----------
    steps : slice, sequence of int or int, optional
        Steps of the horizon, counted from 0; by default all.
    variable : int, optional
        Place on the axis behind the steps; by default the mean goes over all.

    Examples
    --------
    >>> score = mean(steps=slice(0, 2))
    >>> score(torch.tensor([[1.0, 2.0, 6.0]])), score.text
    (tensor([1.5000]), 'the mean over steps 0 to 1')
    """
    return _Mean(*_steps(steps), None if variable is None else validation.check_int(variable, "variable", 0))


def total(steps: slice | Sequence[int] | int | None = None, variable: int | None = None) -> TargetScore:
    """Return the sum of a forecast as a target; the arguments are those of :func:`~tempograd.targets.mean`.

    Examples
    --------
    >>> total(steps=[0, 2])(torch.tensor([[1.0, 2.0, 6.0]]))
    tensor([7.])
    """
    return _Total(*_steps(steps), None if variable is None else validation.check_int(variable, "variable", 0))


def difference(first: Address | str, second: Address | str) -> TargetScore:
    """Return one output minus another as a target.

    Parameters
    ----------
    first, second : int, tuple of int or str
        Outputs by number, by address where the output has several axes, or by a name in ``classes=``.

    Examples
    --------
    >>> score = difference(2, 0)
    >>> score(torch.tensor([[1.0, 2.0, 6.0]])), score.text
    (tensor([5.]), 'output 2 minus output 0')
    """
    return _Difference(_address(first), _address(second))


def quantile_spread(low: int, high: int, steps: slice | Sequence[int] | int | None = None) -> TargetScore:
    """Return how far two quantiles are apart, in the mean over the steps of a forecast (batch, step, quantile).

    Parameters
    ----------
    low, high : int
        Places on the last axis.
    steps : slice, sequence of int or int, optional
        As in :func:`~tempograd.targets.mean`.

    Examples
    --------
    >>> quantile_spread(0, 2)(torch.tensor([[[1.0, 2.0, 6.0], [0.0, 1.0, 3.0]]]))
    tensor([4.])
    """
    return _Spread(validation.check_int(low, "low", 0), validation.check_int(high, "high", 0), *_steps(steps))


def reconstruction(channels: Sequence[int] | int | None = None) -> TargetScore:
    """Return the mean squared difference between output and series, over the observed cells, as a target.

    The scores tell which values make the error: both through what the model makes of them, and directly, since
    the series is what the output is compared with.

    Parameters
    ----------
    channels : sequence of int or int, optional
        Channels that are compared; by default all.

    Examples
    --------
    >>> score, z = reconstruction(), torch.tensor([[[1.0], [3.0]]])
    >>> score(torch.zeros(1, 2, 1), z, torch.ones(1, 2, 1, dtype=torch.bool))
    tensor([5.])
    """
    return _Reconstruction(_indices(channels, "channels"))


def from_spec(spec: Mapping[str, Any]) -> TargetScore:
    """Return the target that ``spec()`` of one of these wrote down; what cannot be one is refused.

    Examples
    --------
    >>> from_spec(mean(steps=[1, 2]).spec()) == mean(steps=[1, 2])
    True
    """
    makers: dict[Any, Callable[..., TargetScore]] = {
        maker.__name__: maker for maker in (mean, total, difference, quantile_spread, reconstruction)
    }
    settings = dict(spec)
    try:
        maker = makers[settings.pop("name", None)]
        if maker in (mean, total, quantile_spread):
            span, steps = settings.pop("span"), settings.pop("steps")
            settings["steps"] = steps if span is None else slice(*span)
        return maker(**settings)
    except (KeyError, TypeError, InputError) as error:
        raise DataError(f"No target of tempograd.targets is written as {brief(dict(spec))}.") from error


def in_words(picker: Picker) -> str:
    """Say what a function picks: its own words, the first line of its docstring, or its name.

    Examples
    --------
    >>> in_words(mean()), in_words(lambda output: output[:, 0])
    ('the mean over all outputs', 'a score of your own')
    """
    if isinstance(picker, TargetScore):
        return picker.text
    if not isinstance(picker, (types.FunctionType, types.MethodType)) or "<lambda>" in picker.__qualname__:
        return "a score of your own"
    lines = (picker.__doc__ or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else f"the score that {picker.__name__} picks"


def _steps(steps: Any) -> tuple[tuple[int, ...] | None, Span | None]:
    if not isinstance(steps, slice):
        return _indices(steps, "steps"), None
    ends = (steps.start, 0), (steps.stop, 1), (steps.step, 1)
    start, stop, step = (None if end is None else validation.check_int(end, "steps", least) for end, least in ends)
    return None, (start, stop, step)


def _indices(given: Any, name: str) -> tuple[int, ...] | None:
    if given is None:
        return None
    parts = [given] if isinstance(given, int) or not isinstance(given, Sequence | range) else list(given)
    if not parts or isinstance(given, str):
        raise InputError(f"{name} must hold at least one integer, got {brief(given)}.")
    return tuple(validation.check_int(part, name, 0) for part in parts)


def _address(given: Any) -> Address | str:
    if isinstance(given, str):
        return given
    if isinstance(given, (tuple, list)):  # files hold lists
        return tuple(validation.check_int(part, "an index of an output", 0) for part in given)
    return validation.check_int(given, "an output", 0)


def _numbered(address: Address | str, classes: Sequence[str] | None) -> Address:
    if not isinstance(address, str):
        return address
    if classes is None:
        raise InputError(f"{brief(address)} is a name: pass {arg:predictor.classes}, or the output's number.")
    if address not in classes:
        raise UnknownNameError("output", address, list(classes))
    return list(classes).index(address)


def _output(outputs: Tensor, address: Address | str) -> Tensor:
    """Return one output of each series, (batch,)."""
    address = _numbered(address, None)
    places = address if isinstance(address, tuple) else (address,)
    if len(places) != outputs.ndim - 1:
        shape = tuple(outputs.shape[1:])
        raise InputError(f"targets.difference needs one index per axis of {shape}, got {brief(address)}.")
    for place in places:
        outputs = _at(outputs, 1, place, "output")
    return outputs


def _at(outputs: Tensor, axis: int, place: int, what: str) -> Tensor:
    """Return what is at a place of an axis, or refuse one that is not there."""
    if axis >= outputs.ndim or place >= outputs.shape[axis]:
        raise InputError(f"There is no {what} {place}, counted from 0, in outputs of {tuple(outputs.shape)}.")
    return outputs.select(axis, place)
