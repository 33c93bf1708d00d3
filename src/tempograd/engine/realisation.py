"""One realisation of a model that draws: every series meets the same random numbers, in whatever company."""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.engine.holding import Hold
from tempograd.engine.modules import Model, modules_of, owner, reached
from tempograd.engine.prediction import raw
from tempograd.errors import InputError

CHECKED = 3  # series on which a shortcut must agree with the long way
Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random


@contextmanager
def generators_kept(model: Model) -> Iterator[None]:
    """Leave numpy's and Python's generators as they were, and those of the model; torch's are kept elsewhere."""
    hold = Hold()
    legacy = np.random.mtrand._rand  # numpy's global one, which models use
    hold.take("numpy's generator", lambda: partial(legacy.set_state, legacy.get_state()))
    hold.take("Python's generator", lambda: partial(random.setstate, random.getstate()))
    for each in generators(model):
        hold.take(("generator", id(each)), partial(_kept, each))
    try:
        yield
    finally:
        hold.release()


def random_state(model: Model) -> list[Any]:
    """Return the state of all generators that a model may use, to be compared with that of another moment."""
    plain: Any = np.random.mtrand._rand.get_state()
    states: list[Any] = [torch.get_rng_state().numpy().tobytes(), plain[1].tobytes(), plain[2:], random.getstate()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
        states += [
            torch.cuda.get_rng_state(device).numpy().tobytes() for device in range(torch.cuda.device_count())
        ]
    own = [_state(each) for each in generators(model)]
    return states + [state.numpy().tobytes() if isinstance(state, Tensor) else str(state) for state in own]


def generators(model: Model) -> list[Generator]:
    """Return the generators that a model holds: as attributes of its modules, or within reach of a function."""
    things = [part for module in modules_of(model) for part in module.modules()]
    inside = [value for part in things for value in vars(part).values()]
    found = [*inside, *([] if owner(model) is not None else reached(model))]
    return list({id(each): each for each in found if isinstance(each, Generator)}.values())


def _state(generator: Generator) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _kept(generator: Generator) -> Callable[[], None]:
    return partial(_put_back, generator, _state(generator))


def _put_back(generator: Generator, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _begin(generator: Generator, number: int) -> None:
    """Start a generator anew."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(number).state
    elif isinstance(generator, (np.random.RandomState, random.Random)):
        generator.seed(number % 2**32)
    else:
        generator.manual_seed(number)


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
        self._together: bool | None = None  # whether series can go through at once; None before it was tried

    def __call__(self, z: Tensor) -> Tensor:
        if self._together is None:
            self._together = self._agrees(z)
        return self._at_once(z) if self._together else self._one_by_one(z)

    def _begin(self) -> None:
        torch.manual_seed(self._number)
        np.random.mtrand._rand.seed(self._number % 2**32)
        random.seed(self._number)
        for generator in self._own:
            _begin(generator, self._number)

    def _single(self, row: Tensor) -> Tensor:
        return raw(self._model, row[None])[0]

    def _one_by_one(self, z: Tensor) -> Tensor:
        answers = []
        for row in z:
            self._begin()
            answers.append(self._single(row))
        return torch.stack(answers)

    def _at_once(self, z: Tensor) -> Tensor:
        self._begin()
        answers: Tensor = torch.func.vmap(self._single, randomness="same")(z)
        return answers

    def _agrees(self, z: Tensor) -> bool:
        """Compare both ways on a few series; the long way must give the same again, in any order."""
        few = z[:CHECKED].detach()
        with torch.no_grad():
            long = self._one_by_one(few)
            again = self._one_by_one(few.flip(0)).flip(0)
            size = long.double().abs().amax()
            if not bool(((long - again).double().abs() <= 1e-4 * size).all()):
                raise InputError(
                    "draws= cannot repeat the random numbers of this model: they come from a generator out of "
                    "reach, or the model remembers earlier calls; let it draw from torch's generator."
                )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # vmap warns where it takes the long way itself
                    short = self._at_once(few)
            except Exception:  # vmap knows many reasons, and the long way knows none
                return False
            return short.shape == long.shape and bool(((long - short).double().abs() <= 1e-4 * size).all())


def realisation(model: Model, seed: int) -> Callable[[int], Model]:
    """Return the function that gives realisation ``j`` of a model; what one finds out serves all."""
    first = Realisation(model, seed, 0)

    def take(j: int) -> Model:
        if j == 0:
            return first
        other = Realisation(model, seed, j)
        other._together = first._together
        return other

    return take
