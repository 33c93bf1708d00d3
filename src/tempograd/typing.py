"""Types that stand in public signatures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from numpy.typing import NDArray
from torch import Tensor


class SupportsArray(Protocol):
    """What numpy makes an array of: arrays, data frames, tensors of other libraries."""

    def __array__(self) -> NDArray[Any]: ...


Array = Tensor | SupportsArray
"""Numbers of any library, with a shape of their own: series, masks."""

ArrayLike = Array | Sequence[float] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
"""Those, or lists of numbers; never text."""


Model = Callable[..., object]
"""What can be explained: an ``nn.Module`` or a function, from series (batch, time, channel) to outputs;
``tempograd.adapters`` makes such functions of estimators."""

Picker = Callable[[Tensor], Tensor]
"""Picks one score per series from the model's output."""

Target = int | str | tuple[int, ...] | ArrayLike | Picker
"""What is explained: one class for all series, by number or name, one per series (or step), the address of an
output such as (step of the horizon, variable), or a function that picks a score."""

Targets = Literal["all"] | Sequence[Target]
"""Several of them, explained in one call."""

Inputs = Array | Sequence[ArrayLike] | Mapping[str, Array] | tuple[Array, ...]
"""What a model is called with: one batch of series, also as a list of them, several inputs by keyword, or several
by position."""

Fixed = Mapping[str, object] | Sequence[object]
"""What a model gets beside its inputs, by keyword or position: one row for each series, or the same for all."""

Pick = str | int
"""Which part of a dict, a tuple or an object with attributes is the model's output."""

Baseline = Literal["zero", "average", "background"] | float | ArrayLike
"""What "absent" means, per series; the background are other series, whose values are drawn for each sample."""

InputBaselines = Baseline | Mapping[str, Baseline]
"""The same for several inputs, where it may differ."""

Steps = Literal["own"] | int | ArrayLike
"""Which outputs are explained, of a model that has one output per step."""

Channels = int | Sequence[str | int] | Array
"""Which channels a picture shows: so many of the strongest, or these, by name or position."""

Times = tuple[str, ...] | tuple[tuple[str, ...], ...]
"""Names of the time steps, the same for all series or those of each."""

Setting = bool | int | float | str | Sequence[float] | None
"""A hyper-parameter of a method or a model."""

# The words of every choice, once: what type checkers know and what is checked at run time (``get_args``).

Output = Literal["probability", "raw"]
Layout = Literal["BTD", "BDT"]
ModelLayout = Literal["BTD", "BDT", "TBD", "BT"]
Task = Literal["classification", "binary", "multilabel", "regression", "forecast", "per_step"]
Measured = Literal["score", "output"]
Precision = Literal["full", "tf32", "bf16"]
Rank = Literal["absolute", "signed"]
QuadratureRule = Literal["gauss-legendre", "midpoint"]
StopWhen = Literal["error", "top"]
Marginal = Literal["per_time", "pooled"]
OcclusionScore = Literal["target", "all"]
LimeDistance = Literal["kept", "series"]
WinITDistance = Literal["pd", "kl", "js"]
WinITAggregation = Literal["mean", "max", "absmax"]
WinITSampler = Literal["generator", "marginal"]
MaskPerturbation = Literal["blur", "mean", "window", "reference"]
Contrast = Literal["none", "triplet"]
