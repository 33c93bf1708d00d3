"""What the layers of a model receive: whether they run along time, or along what was taken for channels."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from tempograd.engine.modules import Model
from tempograd.engine.prediction import raw

WRAPPED = "lambda z: model(z.transpose(1, 2))"


class Touch(NamedTuple):
    """A layer that runs along an axis, and what came to it."""

    kind: str
    width: int  # channels that it takes
    along: int  # length of the axis it runs along
    wide: bool  # whether it looks at more than one place at once
    series: Tensor | None  # what came, (batch, width, along), if it has as many cells as the series


@contextmanager
def watching(cells: int) -> Iterator[list[Touch]]:
    """Note what comes to convolutions and recurrent layers, wherever they are; those in programs stay unseen."""
    found: list[Touch] = []

    def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        z = inputs[0] if inputs else None
        if not isinstance(z, Tensor) or z.ndim != 3:
            return
        kept = z.detach() if z.numel() == cells else None
        if isinstance(layer, nn.Conv1d):
            found.append(Touch("Conv1d", layer.in_channels, z.shape[2], layer.kernel_size[0] > 1, kept))
        elif isinstance(layer, nn.RNNBase):
            kept = None if kept is None else kept.transpose(1, 2) if layer.batch_first else kept.permute(1, 2, 0)
            found.append(
                Touch(type(layer).__name__, layer.input_size, z.shape[1 if layer.batch_first else 0], True, kept)
            )

    hook = register_module_forward_pre_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def across(found: list[Touch], z: Tensor) -> Touch | None:
    """Return the layer that runs along the channels of ``z``, (batch, time, channel), taking steps for channels.

    Where there are as many steps as channels, only what arrived unchanged tells them apart. A layer that looks at
    one place at a time mixes steps on purpose, if no other follows that looks at several.
    """
    time, channels = z.shape[1:]
    for place, touch in enumerate(found):
        if touch.series is None:
            continue
        if touch.width != time or touch.along != channels:
            return None
        if time == channels and (time == 1 or not _equal(touch.series, z)):
            return None
        wide = next((each for each in found[place:] if each.wide), None)
        return touch if wide is not None and wide.along == channels else None
    return None


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def caution(touch: Touch, z: Tensor) -> str:
    """Say that time and channel have probably changed places, and what to pass."""
    time, channels = z.shape[1:]
    return (
        f"The model's {touch.kind} takes the {time} steps of x as its channels and runs along the {channels} "
        f"channels as if they were steps: if the model takes (batch, channel, time) and x is that, pass {WRAPPED} "
        "as the model, with layout='BDT'."
    )


def advice(model: Model, z: Tensor, layout: str) -> str:
    """Say what to pass instead of series that do not fit a model, by trying them with time and channel swapped."""
    swapped = z.detach()[:2].transpose(1, 2).contiguous()
    try:
        with torch.no_grad(), watching(swapped.numel()) as found:
            raw(model, swapped)
    except Exception:  # whatever goes wrong, it takes neither
        return ""
    wrapped = f"pass {WRAPPED} as the model"
    other = "layout='BTD'" if layout == "BDT" else "layout='BDT'"
    if across(found, swapped) is not None:
        kept = ", and keep layout='BDT'" if layout == "BDT" else ""
        return f"; it takes (batch, channel, time): {wrapped}{kept}"
    if any(touch.series is not None for touch in found):
        return f"; if time and channel are swapped, pass {other}"
    return f"; it takes x with time and channel swapped: pass {other} if x is so, else {wrapped}"
