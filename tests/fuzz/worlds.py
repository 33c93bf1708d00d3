"""Tiny models whose answers and whose right scores are known without the library, in plain numpy."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import Recurrent

TIME, CHANNELS, CLASSES = 4, 2, 3
WEIGHTS = (
    np.array(  # (class, time, channel); no two alike, none 0, exact in every kind of float
        [
            [[(7 * c + 5 * t + 3 * d) % 11 - 4.75 for d in range(CHANNELS)] for t in range(TIME)]
            for c in range(CLASSES)
        ]
    )
    / 8
)
Floats = np.ndarray


class Flat(nn.Module):
    """A linear classifier of the whole series."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.flatten, self.linear = nn.Flatten(), nn.Linear(TIME * CHANNELS, classes)
        self.drop = nn.Dropout(0.5)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(WEIGHTS[:classes].reshape(classes, -1)))
            self.linear.bias.copy_(torch.tensor([0.5, -0.25, 0.125][:classes]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.linear(self.flatten(x)))


class Cumulative(nn.Module):
    """A linear classifier at every step, of all values up to it; of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(CHANNELS, CLASSES, bias=False)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(WEIGHTS[:, 0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).cumsum(1)


@dataclass(frozen=True)
class World:
    """A model and the same in numpy: raw answers (series, output), or (series, time, output)."""

    name: str
    model: Any
    answer: Callable[[Floats], Floats]
    columns: int = CLASSES
    per_step: bool = False
    linear: bool = True

    @property
    def module(self) -> bool:
        return isinstance(self.model, nn.Module)

    def predictor(self, *, output: object = None, steps: object = None) -> Any:
        """Return the model, with its task where neither output nor steps say what it returns."""
        if self.per_step:
            return self.model if steps is not None else tg.Predictor(self.model, task="per_step")
        return self.model if self.columns > 1 or output is not None else tg.Predictor(self.model, task="binary")

    def outputs(self, x: Floats, output: str) -> Floats:
        """Return one output per class, as numpy computes it."""
        raw = self.answer(np.asarray(x, np.float64))
        if output == "raw":
            return raw
        if raw.shape[-1] == 1:
            raw = np.concatenate([np.zeros_like(raw), raw], -1)
        powers = np.exp(raw - raw.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def predicted(self, x: Floats, output: str) -> Floats:
        """Return the class that is explained where nobody names one."""
        raw = self.answer(np.asarray(x, np.float64))
        if self.columns == 1 and output == "probability":
            return np.ones(raw.shape[:-1], np.int64)
        return raw.argmax(-1)

    def clear(self, x: Floats) -> bool:
        """Tell whether the largest answer leads by more than rounding."""
        raw = np.sort(self.answer(np.asarray(x, np.float64)), -1)
        return self.columns == 1 or bool((raw[..., -1] - raw[..., -2] > 1e-3).all())

    def scores(self, x: Floats, target: Floats, steps: Floats | None, output: str) -> Floats:
        """Return the explained score of each series: the target's output, summed over the chosen steps."""
        picked = np.take_along_axis(self.outputs(x, output), target[..., None], -1)[..., 0]
        return picked if steps is None else (picked * steps).sum(-1)


def _flat(classes: int) -> Callable[[Floats], Floats]:
    bias = np.array([0.5, -0.25, 0.125][:classes])
    return lambda x: np.einsum("ntd,ctd->nc", x, WEIGHTS[:classes]) + bias


def _cumulative(x: Floats) -> Floats:
    return np.einsum("ntd,cd->ntc", x, WEIGHTS[:, 0]).cumsum(1)


def _function(x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ntd,ctd->nc", x, torch.from_numpy(WEIGHTS).to(x)) + torch.tensor([0.5, -0.25, 0.125]).to(
        x
    )


def _asked(model: nn.Module) -> Callable[[Floats], Floats]:
    """Ask a model itself, in double precision, where numpy would need a second one."""
    import copy

    twin = copy.deepcopy(model).double().eval()

    def answer(x: Floats) -> Floats:
        with torch.no_grad():
            return twin(torch.from_numpy(np.ascontiguousarray(x, np.float64))).numpy()

    return answer


def _worlds() -> list[World]:
    recurrent = Recurrent(CHANNELS, CLASSES)
    every_step = Recurrent(CHANNELS, CLASSES, per_step=True).eval()
    return [
        World("flat", Flat().eval(), _flat(CLASSES)),
        World("flat in training mode", Flat().train(), _flat(CLASSES)),
        World("double", Flat().double().eval(), _flat(CLASSES)),
        World("one column", Flat(1).eval(), _flat(1), columns=1),
        World("function", _function, _flat(CLASSES)),
        World("function of one axis", lambda x: _function(x)[:, 0], _flat(1), columns=1),
        World("cumulative", Cumulative().eval(), _cumulative, per_step=True),
        World("recurrent", recurrent, _asked(recurrent), linear=False),
        World("recurrent at every step", every_step, _asked(every_step), per_step=True, linear=False),
    ]


WORLDS = _worlds()


def some_world(rng: random.Random) -> World:
    return rng.choice(WORLDS)


def linear_map(world: World, x: Floats, baseline: Floats, target: Floats, steps: Any) -> Floats:
    """Return w·(x − x') of a linear world's raw output; ``steps`` is None, (series, time) or "own"."""
    if not world.per_step:
        return WEIGHTS[target] * (x - baseline)
    weights = WEIGHTS[target, 0]  # (series, time, channel): of the output at each step
    if not isinstance(steps, str):
        # a value moves its own step and all later ones
        weights = (weights * steps[..., None])[:, ::-1].cumsum(1)[:, ::-1]
    return weights * (x - baseline)


def occluded(world: World, x: Floats, baseline: Floats, target: Floats, steps: Any, output: str) -> Floats:
    """Return the fall of the score when one cell at a time takes its baseline value: a plain loop."""
    falls = np.zeros(x.shape)
    for t in range(x.shape[1]):
        chosen = steps
        if isinstance(steps, str):
            chosen = np.zeros(x.shape[:2])
            chosen[:, t] = 1
        clean = world.scores(x, target, chosen, output)
        for d in range(x.shape[2]):
            z = x.copy()
            z[:, t, d] = baseline[:, t, d]
            falls[:, t, d] = clean - world.scores(z, target, chosen, output)
    return falls
