"""A few series run once more: whether a model's outputs repeat; and one realisation of models that draw."""

import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tempograd.core.errors import InputError, arg
from tempograd.engine.model import Model, generators, held_by, modules_of, parts_of, resolution, trusted
from tempograd.engine.predictor import forward

FEW = 8  # series that are run again
MOVED = 2  # of them that run in other batches
CHECKED = 3  # series on which a shortcut must agree with one call per series
ROUNDED = 100  # times the precision of a number: what a repeated call may change
# What another batch may change by rounding, as a share of the outputs: other sizes add up in another order, in the
# precision of the products; 8-bit layers choose their scale from all that they are shown
SINGLE, HALF, EIGHT_BITS = 1e-4, 1e-2, 5e-2
INTEGERS = (torch.int8, torch.qint8, torch.quint8)
VIEWS = {"View", "UnsafeView", "Squeeze", "Unsqueeze", "Select", "Slice", "Transpose", "Permute", "Clone", "Alias"}
VIEWS |= {"ReshapeAlias", "ToCopy", "Cat", "Stack", "Expand", "T", "Split", "Unbind", "Index"}
At = Callable[[Tensor], Model]
Varying = Literal["", "drawn", "batch"]
"""Whether outputs for the same series differ: no; each time; with its batch, or with its place there."""


class SecondLook(NamedTuple):
    """What a second pass over a few series told."""

    model: Model
    at: At  # the model as a function of some rows of the series
    x: Tensor  # the series
    raw: Tensor  # raw outputs
    gaps: list[float]  # between outputs of the same series at other places of batches of other sizes
    alone: bool  # whether the model takes single series
    sigmoid: bool  # whether the model ends with a sigmoid
    drew: bool  # whether random numbers were drawn

    def varies(self, first: Tensor | None = None, caller: str = "") -> Varying:
        """Tell whether outputs for the same series differ: the model draws or remembers, or its batch matters.

        ``first`` are outputs of the same series, and maybe more, from another pass. In doubt the model runs twice
        under the same circumstances: one that does not repeat itself draws, as does one that seeds itself. Of one
        that does, only what the rounding of another batch cannot explain counts. A model without a fault is
        trusted by the ``caller`` from then on.
        """
        raw, gaps = self.raw, [0.0, *self.gaps]
        size = float(raw.double().abs().amax()) if raw.numel() else 0.0
        if first is not None:
            count = min(len(first), len(raw))
            gaps.append(_gap(first[:count].to(raw), raw[:count]))
        precision = min(torch.finfo(raw.dtype).eps, 1e-4) if raw.is_floating_point() else 0.0
        rounding = ROUNDED * precision * size
        varies: Varying = ""
        if max(gaps) > rounding:
            with torch.no_grad(), suppress(Exception):  # no look is no harm
                asked = self.at(torch.arange(len(self.x), device=self.x.device))
                if self.drew or not _gap(forward(asked, self.x), forward(asked, self.x)) <= rounding:
                    varies = "drawn"
                elif max(gaps) > self._explained_by_rounding() * size:
                    varies = "batch"
        if caller and not (varies or self.drew or self.sigmoid):
            trusted(self.model, self.x, caller, remember=True)
        return varies

    def _explained_by_rounding(self) -> float:
        """Return the share of its outputs that a model's own arithmetic may change from batch to batch."""
        for modules, weights, buffers in map(parts_of, modules_of(self.model)):
            coarse = any(tensor.dtype in INTEGERS for tensor in (*weights, *buffers))
            if coarse or any(".quantized." in type(part).__module__ for part in modules):
                return EIGHT_BITS
        kinds = [kind for kind in (self.x.dtype, self.raw.dtype) if kind.is_floating_point]
        coarsest = max((resolution(self.x.device, kind) for kind in kinds), default=0.0)
        return SINGLE if coarsest < 1e-5 else HALF if coarsest <= 2.0**-10 else EIGHT_BITS


def look_again(model: Model, at: At, x: Tensor, baseline: Tensor | None = None) -> SecondLook | None:
    """Run series again, by ``at`` their rows: what the output is, and how the model ends.

    With a baseline of each, some run in other batches too. None if the model fails, which is no reason to fail.
    """
    z, before, rows = x.detach(), _random_state(model), torch.arange(len(x), device=x.device)
    for differentiable in (True, False):  # a model that leaves torch runs without a gradient only
        with torch.set_grad_enabled(differentiable), suppress(Exception):  # no look is no harm
            raw = forward(at(rows), z.clone().requires_grad_(differentiable).clone())
            drew = _random_state(model) != before
            gaps = [] if baseline is None else _elsewhere(at, z, raw.detach(), baseline)
            return SecondLook(model, at, z, raw.detach(), gaps, len(gaps) == 2, _is_sigmoid(raw.grad_fn), drew)
    return None


def _elsewhere(at: At, z: Tensor, raw: Tensor, baseline: Tensor) -> list[float]:
    """Run the last series in other batches, each behind one half as far from its baseline; and such one alone.

    These have the lengths and, about, the values of the series, which no model refuses, and do not hold the
    extremes of a batch, by which a model may scale it. Return the gaps, two where single series will do.
    """
    gaps, last, rows = [], z[-MOVED:], torch.arange(len(z), device=z.device)[-MOVED:]
    between = last / 2 + baseline[-MOVED:].to(z) / 2
    with suppress(Exception):  # no look is no harm
        together = forward(at(torch.cat([rows, rows])), torch.cat([between, last])).detach()
        gaps.append(_gap(together[-len(last) :], raw[-len(last) :]))
        gaps.append(_gap(forward(at(rows[-1:]), between[-1:]).detach(), together[len(last) - 1 : len(last)]))
    return gaps


def _is_sigmoid(node: Any, depth: int = 20) -> bool:
    """Tell whether all that an output was put together from are sigmoids, as far as autograd wrote it down."""
    name = type(node).__name__.split("Backward", maxsplit=1)[0]
    if depth and name in VIEWS:
        return all(_is_sigmoid(before, depth - 1) for before, _ in node.next_functions)
    return name in {"Sigmoid", "Hardsigmoid"}


def run_twice(model: Model, at: At, x: Tensor, baseline: Tensor | None = None) -> Varying:
    """Tell whether outputs differ of a few series that the model was not shown yet."""
    with torch.no_grad(), suppress(Exception):  # no look is no harm
        first = forward(at(torch.arange(len(x), device=x.device)), x.clone())
        look = look_again(model, at, x, baseline)
        return "" if look is None else look.varies(first)
    return ""


def _gap(first: Tensor, second: Tensor) -> float:
    if first.ndim > second.ndim:  # one number per step has got an axis
        first = first.squeeze(-1)
    if first.shape != second.shape:  # a forecast of random length
        return torch.inf
    gap = (first.double() - second.double()).abs()
    return float(gap.amax()) if gap.numel() else 0.0


def _random_state(model: Model) -> list[Any]:
    """Return the state of all generators that a model may use, to be compared with that of another moment."""
    parts = tree_leaves([state for *_, state in generators() + generators(held_by(model))])
    return [np.asarray(part).tobytes() if isinstance(part, Tensor | np.ndarray) else part for part in parts]


@dataclass(eq=False)
class Realisation:
    """The model with the random numbers of draw ``j``: a function of one series alone.

    All generators begin anew before every call, and every series of a batch meets the same numbers: by
    ``torch.func.vmap`` where that works and agrees with one call per series, else by such calls.
    """

    model: Model
    seed: int
    j: int = 0
    _vectorized: bool | None = None  # whether series can go through at once; None before it was tried

    def __post_init__(self) -> None:
        self._generators = [generator for generator, *_ in (*generators(), *generators(held_by(self.model)))]
        (word,) = np.random.SeedSequence([self.seed % 2**64, self.j]).generate_state(1, np.uint64)
        self._number = int(word >> np.uint64(1))

    def draw(self, j: int) -> "Realisation":
        """Return realisation ``j``, for which what the first has found out serves too."""
        return self if j == 0 else replace(self, j=j)

    def __call__(self, *series: Tensor) -> Tensor:
        """Run series, with the rows that they are of all where that matters."""
        if self._vectorized is None:
            self._vectorized = self._agrees(*(part[:CHECKED].detach() for part in series))
        return self._at_once(*series) if self._vectorized else self._one_by_one(*series)

    def at(self, rows: Tensor) -> Model:
        """Return the same as a function of series that are these ``rows`` of all."""
        return lambda z: self(z, rows)

    def _reseed(self) -> None:
        """Start all generators anew: ``torch.manual_seed`` writes a traceback for each device that nobody uses."""
        for generator in self._generators:
            if isinstance(generator, np.random.Generator):
                generator.bit_generator.state = type(generator.bit_generator)(self._number).state
            elif isinstance(generator, torch.Generator):
                generator.manual_seed(self._number)
            else:
                generator.seed(self._number % 2**32)
        random.seed(self._number)

    def _single(self, row: Tensor, *place: Tensor) -> Tensor:
        model: Any = self.model
        return forward(model.at(place[0][None]) if place else model, row[None])[0]

    def _one_by_one(self, *series: Tensor) -> Tensor:
        outputs = []
        for parts in zip(*series, strict=True):
            self._reseed()
            outputs.append(self._single(*parts))
        return torch.stack(outputs)

    def _at_once(self, *series: Tensor) -> Tensor:
        self._reseed()
        return torch.func.vmap(self._single, randomness="same")(*series)

    @torch.no_grad()
    def _agrees(self, *few: Tensor) -> bool:
        """Compare both on a few series; calls one by one must give the same again, in any order."""
        long = self._one_by_one(*few)
        most = 1e-4 * float(long.double().abs().amax())
        if not _gap(long, self._one_by_one(*(part.flip(0) for part in few)).flip(0)) <= most:
            raise InputError(
                f"{arg:question.draws} cannot repeat the random numbers of this model: they come from a generator "
                "out of reach, or the model remembers earlier calls; let it draw from torch's generator."
            )
        with warnings.catch_warnings(), suppress(Exception):  # vmap fails for many reasons
            warnings.simplefilter("error")  # vmap warns where it loops itself
            return _gap(long, self._at_once(*few)) <= most
        return False
