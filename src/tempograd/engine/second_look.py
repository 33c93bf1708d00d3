"""A few series run once more: whether a model's outputs repeat; and one realisation of models that draw."""

import random
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from tempograd.core.errors import InputError
from tempograd.core.findings import arg
from tempograd.engine.cuda import NotCapturableError, plain_state
from tempograd.engine.model import (
    Model,
    SharedChanges,
    modules_of,
    owner,
    parts_of,
    reached,
    resolution,
)
from tempograd.engine.outputs import forward

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
KEPT = 32  # callers, sizes and states per module
At = Callable[[Tensor], Model]
Varying = Literal["", "drawn", "batch"]
"""Whether outputs for the same series differ: no; each time; with its batch, or with its place there."""
_Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
GENERATORS = get_args(_Generator)
NO_GENERATOR = {bool, int, float, str, dict, list, tuple, set, OrderedDict, type(None), Tensor}  # what most hold
_SHARED: tuple[_Generator, ...] = (
    np.random.mtrand._rand,
    random._inst,
)  # numpy's and Python's own, which models use

_trusted: "weakref.WeakKeyDictionary[nn.Module, list[Hashable]]" = weakref.WeakKeyDictionary()


class SecondLook(NamedTuple):
    """What a second pass over a few series told."""

    x: Tensor  # the series
    raw: Tensor  # raw outputs
    gaps: list[float]  # between outputs of the same series at other places of batches of other sizes
    alone: bool  # whether the model takes single series
    sigmoid: bool  # whether the model ends with a sigmoid
    drew: bool  # whether random numbers were drawn


def look_again(model: Model, x: Tensor, baseline: Tensor | None = None, at: At | None = None) -> SecondLook | None:
    """Run series again: what the output is, and how the model ends.

    With a baseline of each, some run in other batches too. None if the model fails, which is no reason to fail.
    ``at`` gives the model as a function of some rows of the series, where it matters which these are.
    """
    z, state, asked = x.detach(), random_state(model), _every(model, len(x), at, x.device)
    for differentiable in (True, False):  # a model that leaves torch runs without a gradient only
        try:
            with torch.set_grad_enabled(differentiable):
                raw = forward(asked, z.clone().requires_grad_(differentiable).clone())
        except Exception:  # no look is no harm
            continue
        drew = random_state(model) != state
        with torch.set_grad_enabled(differentiable):
            gaps, alone = ([], False) if baseline is None else _elsewhere(model, z, raw.detach(), baseline, at)
        return SecondLook(z, raw.detach(), gaps, alone, _sigmoid(raw), drew)
    return None


def _every(model: Model, rows: int, at: At | None, device: torch.device) -> Model:
    """Return the model as a function of the first ``rows`` series."""
    return model if at is None else at(torch.arange(rows, device=device))


def _elsewhere(model: Model, z: Tensor, raw: Tensor, baseline: Tensor, at: At | None) -> tuple[list[float], bool]:
    """Run the last series in other batches, each behind one half as far from its baseline; and such one alone.

    These have the lengths and, about, the values of the series, which no model refuses, and do not hold the
    extremes of a batch, by which a model may scale it. Return the gaps, and whether single series will do.
    """
    gaps, last = [], z[-MOVED:]
    between = last / 2 + baseline[-MOVED:].to(z) / 2
    rows = torch.arange(len(z), device=z.device)[-MOVED:]
    twice, alone = (model if at is None else at(each) for each in (torch.cat([rows, rows]), rows[-1:]))
    with suppress(Exception):  # no look is no harm
        together = forward(twice, torch.cat([between, last])).detach()
        gaps.append(_gap(together[-len(last) :], raw[-len(last) :]))
        gaps.append(_gap(forward(alone, between[-1:]).detach(), together[len(last) - 1 : len(last)]))
    return gaps, len(gaps) == 2


def trusted(model: Model, x: Tensor, caller: str) -> bool:
    """Tell whether a module was looked at for a caller and series of this size, and gave no reason for doubt.

    It is not run again as long as its attributes and the addresses of its tensors are what they were. What one
    method has seen says nothing of the batches of another.
    """
    module, key = owner(model), _key(model, x, caller)
    return module is not None and key is not None and key in _trusted.get(module, ())


def trust(model: Model, look: SecondLook, caller: str) -> None:
    """Remember a module that gives the same outputs again and ends in no sigmoid."""
    module, key = owner(model), _key(model, look.x, caller)
    if module is None or key is None or look.drew or look.sigmoid:
        return
    _trusted[module] = [*_trusted.get(module, ()), key][-KEPT:]


def _key(model: Model, x: Tensor, caller: str) -> Hashable:
    """Return what decides how a module treats series; None for what cannot be told."""
    module = owner(model)
    if module is None:
        return None
    try:
        key = plain_state(module), getattr(model, "__func__", None), x.shape, x.dtype, x.device, caller
        hash(key)
    except (NotCapturableError, TypeError):
        return None
    return key


def _sigmoid(raw: Tensor) -> bool:
    """Tell whether all that an output was put together from are sigmoids, as far as autograd wrote it down."""
    ends = set(_ends(raw.grad_fn, 20))
    return bool(ends) and ends <= {"Sigmoid", "Hardsigmoid"}


def _ends(node: Any, depth: int) -> Iterator[str]:
    name = type(node).__name__.split("Backward", maxsplit=1)[0]
    if node is None or depth == 0 or name not in VIEWS:
        yield name
        return
    for following, _ in node.next_functions:
        yield from _ends(following, depth - 1)


def outputs_differ(model: Model, look: SecondLook, first: Tensor | None = None, at: At | None = None) -> Varying:
    """Tell whether outputs for the same series differ: the model draws or remembers, or its batch matters.

    ``first`` are outputs of the same series, and maybe more, from another pass. In doubt the model runs twice
    under the same circumstances: one that does not repeat itself draws, as does one that seeds itself. Of one that
    does, only what the rounding of another batch cannot explain counts.
    """
    gaps, size = [0.0, *look.gaps], float(look.raw.double().abs().amax()) if look.raw.numel() else 0.0
    if first is not None:
        count = min(len(first), len(look.raw))
        gaps.append(_gap(first[:count].to(look.raw), look.raw[:count]))
    gap, rounding = max(gaps), ROUNDED * _precision(look.raw) * size
    if gap <= rounding:
        return ""
    try:
        with torch.no_grad():
            asked = _every(model, len(look.x), at, look.x.device)
            repeated = _gap(forward(asked, look.x), forward(asked, look.x)) <= rounding
    except Exception:  # no look is no harm
        return ""
    if look.drew or not repeated:
        return "drawn"
    return "batch" if gap > _explained_by_rounding(model, look) * size else ""


def _explained_by_rounding(model: Model, look: SecondLook) -> float:
    """Return the share of its outputs that a model's own arithmetic may change from batch to batch."""
    parts = [parts_of(module) for module in modules_of(model)]
    quantised = any(".quantized." in type(each).__module__ for part in parts for each in part.modules)
    if quantised or any(each.dtype in INTEGERS for part in parts for each in (*part.parameters, *part.buffers)):
        return EIGHT_BITS
    kinds = [kind for kind in (look.x.dtype, look.raw.dtype) if kind.is_floating_point]
    coarsest = max((resolution(look.x.device, kind) for kind in kinds), default=0.0)
    return SINGLE if coarsest < 1e-5 else HALF if coarsest <= 2.0**-10 else EIGHT_BITS


def run_twice(model: Model, x: Tensor, baseline: Tensor | None = None, at: At | None = None) -> Varying:
    """Tell the same of a few series that the model was not shown yet."""
    with torch.no_grad():
        try:
            first = forward(_every(model, len(x), at, x.device), x.clone())
        except Exception:  # no look is no harm
            return ""
        look = look_again(model, x, baseline, at)
        return "" if look is None else outputs_differ(model, look, first, at)


def _gap(first: Tensor, second: Tensor) -> float:
    if first.ndim > second.ndim:  # one number per step has got an axis
        first = first.squeeze(-1)
    if first.shape != second.shape:  # a forecast of random length
        return torch.inf
    gap = (first.double() - second.double()).abs()
    return float(gap.amax()) if gap.numel() else 0.0


def _precision(raw: Tensor) -> float:
    return min(torch.finfo(raw.dtype).eps, 1e-4) if raw.is_floating_point() else 0.0


@contextmanager
def generators_kept(model: Model) -> Iterator[None]:
    """Leave numpy's and Python's generators as they were, and those of the model; torch's are kept elsewhere."""
    changes = SharedChanges()
    for each in (*_SHARED, *generators(model)):
        changes.make(("generator", id(each)), lambda each=each: partial(_set_state, each, _state(each)))  # type: ignore[misc]
    try:
        yield
    finally:
        changes.undo()


def random_state(model: Model) -> list[bytes]:
    """Return the state of all generators that a model may use, to be compared with that of another moment."""
    every = [torch.default_generator, *_SHARED, *generators(model)]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
        every += torch.cuda.default_generators
    return [_bits(_state(each)) for each in every]


def _bits(state: Any) -> bytes:
    if isinstance(state, Tensor | np.ndarray):
        return np.asarray(state).tobytes()
    parts = list(state.values()) if isinstance(state, dict) else state
    if isinstance(parts, tuple | list) and any(isinstance(part, np.ndarray | dict) for part in parts):
        return b" ".join(map(_bits, parts))
    return repr(parts).encode()


def generators(model: Model) -> list[_Generator]:
    """Return the generators that a model holds: as attributes of its modules, or within reach of a function."""
    things = [part for module in modules_of(model) for part in parts_of(module).modules]
    inside = [value for part in things for value in vars(part).values() if type(value) not in NO_GENERATOR]
    found = [*inside, *([] if owner(model) is not None else reached(model))]
    return list({id(each): each for each in found if isinstance(each, GENERATORS)}.values())


def _state(generator: _Generator) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set_state(generator: _Generator, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _reseed(generator: _Generator, number: int) -> None:
    """Start a generator anew."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(number).state
    elif isinstance(generator, (np.random.RandomState, random.Random)):
        generator.seed(number % 2**32)
    else:
        generator.manual_seed(number)


def _seed_torch(number: int) -> None:
    """Do what ``torch.manual_seed`` does, which writes a traceback for each kind of device that nobody uses."""
    torch.default_generator.manual_seed(number)
    for device in (torch.cuda, torch.xpu):
        if device.is_initialized():
            device.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)


class Realisation:
    """The model with the random numbers of draw ``j``: a function of one series alone.

    All generators begin anew before every call, and every series of a batch meets the same numbers: by
    ``torch.func.vmap`` where that works and agrees with one call per series, else by such calls.
    """

    def __init__(self, model: Model, seed: int, j: int) -> None:
        self._model, self._own = model, generators(model)
        self._number = int(
            np.random.SeedSequence([seed % 2**64, j]).generate_state(1, np.uint64)[0] >> np.uint64(1)
        )
        self._vectorized: bool | None = None  # whether series can go through at once; None before it was tried

    def __call__(self, z: Tensor, rows: Tensor | None = None) -> Tensor:
        if self._vectorized is None:
            self._vectorized = self._agrees(z, rows)
        return self._at_once(z, rows) if self._vectorized else self._one_by_one(z, rows)

    def at(self, rows: Tensor) -> Model:
        """Return the same as a function of series that are these ``rows`` of all."""
        return lambda z: self(z, rows)

    def _reseed(self) -> None:
        _seed_torch(self._number)
        np.random.mtrand._rand.seed(self._number % 2**32)
        random.seed(self._number)
        for generator in self._own:
            _reseed(generator, self._number)

    def _single(self, row: Tensor, place: Tensor | None) -> Tensor:
        model: Any = self._model
        model = model if place is None else model.at(place[None])
        return forward(model, row[None])[0]

    def _one_by_one(self, z: Tensor, rows: Tensor | None) -> Tensor:
        outputs = []
        for number, row in enumerate(z):
            self._reseed()
            outputs.append(self._single(row, None if rows is None else rows[number]))
        return torch.stack(outputs)

    def _at_once(self, z: Tensor, rows: Tensor | None) -> Tensor:
        self._reseed()
        axes = (0, None if rows is None else 0)
        outputs: Tensor = torch.func.vmap(self._single, in_dims=axes, randomness="same")(z, rows)
        return outputs

    def _agrees(self, z: Tensor, rows: Tensor | None) -> bool:
        """Compare both on a few series; calls one by one must give the same again, in any order."""
        few, rows = z[:CHECKED].detach(), None if rows is None else rows[:CHECKED]
        with torch.no_grad():
            long = self._one_by_one(few, rows)
            again = self._one_by_one(few.flip(0), None if rows is None else rows.flip(0)).flip(0)
            size = long.double().abs().amax()
            if not bool(((long - again).double().abs() <= 1e-4 * size).all()):
                raise InputError(
                    f"{arg:question.draws} cannot repeat the random numbers of this model: they come from a "
                    "generator out of reach, or the model remembers earlier calls; let it draw from torch's "
                    "generator."
                )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # vmap warns where it loops itself
                    short = self._at_once(few, rows)
            except Exception:  # vmap knows many reasons, and single calls know none
                return False
            return short.shape == long.shape and bool(((long - short).double().abs() <= 1e-4 * size).all())


def realisation(model: Model, seed: int) -> Callable[[int], Model]:
    """Return the function that gives realisation ``j`` of a model; what one finds out serves all."""
    first = Realisation(model, seed, 0)

    def take(j: int) -> Model:
        if j == 0:
            return first
        other = Realisation(model, seed, j)
        other._vectorized = first._vectorized
        return other

    return take
