"""Types that stand in public signatures."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypedDict

from numpy.typing import NDArray
from torch import Tensor


class SupportsArray(Protocol):
    """What numpy makes an array of: arrays, data frames, tensors of other libraries."""

    def __array__(self) -> NDArray[Any]: ...


ArrayLike = (
    Tensor | SupportsArray | Sequence[float] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
)
"""Numbers of any library, or lists of them; never text."""

Model = Callable[[Tensor], Tensor]
"""What can be explained: an ``nn.Module`` or a function, from series (batch, time, channel) to outputs."""

Picker = Callable[[Tensor], Tensor]
"""Picks one score per series from the model's output."""

Target = int | ArrayLike | Picker
"""What is explained: one class for all series, one per series (or step), or a function that picks a score."""

Baseline = Literal["zero", "average"] | float | ArrayLike
"""What "absent" means, per series."""

Steps = Literal["own"] | int | ArrayLike
"""Which outputs are explained, of a model that has one output per step."""

Setting = bool | int | float | str | Sequence[float] | None
"""A hyper-parameter of a method."""

Output = Literal["probability", "raw"]
Layout = Literal["BTD", "BDT"]
Missing = Literal["error", "mask"]
Precision = Literal["full", "tf32", "bf16"]
Rank = Literal["absolute", "signed"]


class CallOptions(TypedDict, total=False):
    """The arguments of :meth:`Explainer.__call__ <tempograd.Explainer.__call__>` beside model and series."""

    target: Target | None
    baseline: Baseline | None
    mask: ArrayLike | None
    steps: Steps | None
    output: Output
    seed: int
    ids: ArrayLike | None
    channels: Sequence[str] | None
    times: Sequence[object] | None
    names: Sequence[object] | None
    layout: Layout
    missing: Missing
    draws: int
    batch_size: int | None
    precision: Precision
    gradient_check: bool


class ExplainOptions(CallOptions, total=False):
    """The arguments of :func:`tempograd.explain` beside model, series and method."""

    background: ArrayLike | None


class TimingOptions(ExplainOptions, total=False):
    """Those, and the hyper-parameters of :class:`tempograd.Timing`."""

    n_samples: int
    segments: int | None
    min_length: int | None
    max_length: int | None
    tolerance: float | None
    max_samples: int | None
    stop_when: Literal["error", "top"] | None
    control_variates: bool
    anchored: float | None
