"""What the report shows of one series, as plain numbers: computed here, drawn elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.data import Split
from tempograd.explanation import Explanation
from tempograd.pages import colours

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
STRONGEST = 6
THE_OUTPUT = "the model's output"  # where there is only one, and no class


@dataclass(frozen=True)
class Channel:
    """One line: the values of a channel, which were observed, and which truly decided the label."""

    name: str
    x: Floats
    observed: Flags
    truth: Flags | None
    baseline: float | None  # None where it changes with time


@dataclass(frozen=True)
class Map:
    """What one method says about a series, (time, channel) each; limits are None without sampling error."""

    label: str
    signed: bool
    values: Floats
    low: Floats | None
    high: Floats | None
    limit: float  # gets the full colour

    @property
    def uncertain(self) -> Flags:
        """Return where the 95 % interval includes 0."""
        if self.low is None or self.high is None:
            return np.zeros(self.values.shape, dtype=np.bool_)
        return np.asarray((self.low <= 0) & (self.high >= 0))


@dataclass(frozen=True)
class Outputs:
    """What the model says about a whole series, one number per class."""

    values: Floats
    probability: bool
    target: int | None
    label: int | None
    true_value: float | None = None  # of a regression


@dataclass(frozen=True)
class StepOutputs:
    """What the model says at each step."""

    name: str
    values: Floats
    probability: bool
    labels: Flags | None  # where the label is what ``name`` says
    explained: Flags


@dataclass(frozen=True)
class Curve:
    """The explained score as the cells a method ranks highest are replaced by the baseline."""

    label: str
    shares: tuple[float, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Strong:
    """One of the strongest cells."""

    time: str
    channel: str
    x: float
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Record:
    """Everything the report shows of one series."""

    id: int
    times: tuple[str, ...]
    named_times: bool
    channels: tuple[Channel, ...]
    maps: tuple[Map, ...]
    strongest: tuple[Strong, ...]
    outputs: Outputs | StepOutputs | None = None
    curves: tuple[Curve, ...] = ()


def record(
    explanations: Mapping[str, Explanation],
    x: Tensor,
    index: int,
    split: Split | None = None,
    outputs: Outputs | StepOutputs | None = None,
    curves: tuple[Curve, ...] = (),
) -> Record:
    """Collect what is known about series ``index``; ``x`` and ``split`` are in the explanations' order."""
    first = next(iter(explanations.values()))
    time = first.values.shape[1]
    times = first.times or tuple(str(t) for t in range(time))
    channels = _channels(first, x, index, split)
    observed = np.stack([channel.observed for channel in channels], axis=-1)
    maps = tuple(_map(label, explanation, index, observed) for label, explanation in explanations.items())
    return Record(
        id=int(first.ids[index]),
        times=times,
        named_times=first.times is not None,
        channels=channels,
        maps=maps,
        strongest=_strongest(first, maps[0], times, channels, index),
        outputs=outputs,
        curves=curves,
    )


def _channels(first: Explanation, x: Tensor, index: int, split: Split | None) -> tuple[Channel, ...]:
    _, time, depth = first.values.shape
    names = first.channels or tuple(f"channel {d}" for d in range(depth))
    values, baseline = plain(x[index]), plain(first.baseline[index])
    mask = first.mask if first.mask is not None or split is None else split.mask
    observed = np.ones((time, depth), dtype=np.bool_) if mask is None else mask[index].cpu().numpy()
    truth = None if split is None or split.truth is None else split.truth[index].cpu().numpy()
    return tuple(
        Channel(
            name=names[d],
            x=values[:, d],
            observed=observed[:, d],
            truth=None if truth is None else truth[:, d],
            baseline=float(baseline[0, d]) if (baseline[:, d] == baseline[0, d]).all() else None,
        )
        for d in range(depth)
    )


def _map(label: str, explanation: Explanation, index: int, observed: Flags) -> Map:
    values = plain(explanation.values[index])
    low = high = None
    if explanation.standard_error is not None:
        low, high = (plain(side[0]) for side in explanation[index : index + 1].interval(0.95))
    # where larger is more important, a score below 0 is none
    shown = values if explanation.signed else np.maximum(values, 0)
    return Map(label, explanation.signed, shown, low, high, colours.limit(shown, observed))


def _strongest(
    first: Explanation, drawn: Map, times: tuple[str, ...], channels: tuple[Channel, ...], index: int
) -> tuple[Strong, ...]:
    one = first[index : index + 1]
    top = one.top(min(STRONGEST, one.values.numel()))
    found = []
    for t, d in zip(top.time[0].tolist(), top.channel[0].tolist(), strict=True):
        if t < 0 or drawn.values[t, d] == 0:
            continue  # fewer cells were observed, or did anything at all
        limits = (None, None) if drawn.low is None or drawn.high is None else (drawn.low[t, d], drawn.high[t, d])
        low, high = (None if side is None else float(side) for side in limits)
        channel = channels[d]
        found.append(Strong(times[t], channel.name, float(channel.x[t]), float(drawn.values[t, d]), low, high))
    return tuple(found)


def plain(tensor: Tensor) -> Floats:
    """Bring a tensor to the CPU as float32."""
    return tensor.detach().cpu().float().numpy()
