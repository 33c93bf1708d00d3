"""Models and series drawn by a seed, smooth and steep, of several kinds and shapes, with their converged maps.

``HELD_OUT`` was fixed before the work on the errors of TIMING began; the models that it draws are for judging
(``perf/held_out.py``) and were not looked at while constants were chosen. Those were chosen on other seeds.
The converged maps come from plain code that shares nothing with the library: masks drawn one by one from the rule
of the paper, and on the path of each mask a grid with an offset of its own.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

HELD_OUT = 20261116
PER_KIND = 12  # models, smooth and steep each: every kind with automatic segments, and once more starved
SHAPES = ((10, 2), (20, 2), (24, 1), (12, 3), (40, 3), (7, 1), (3, 2), (1, 4))  # the last are too short to starve
ACTIVE = 0.08  # share of the cells that starved settings leave active, about
ON_PATH = 16  # points of each mask of a converged map
AT_ONCE = 2**17  # sequences
CELLS_AT_ONCE = 2**24

Law = tuple[int, int, int] | None  # segments and the bounds of their length; None for the automatic ones


class Held(NamedTuple):
    """A model that answers with two or three classes or one number, a series, and how masks are drawn."""

    name: str
    kind: str  # "smooth" or "steep"
    model: nn.Module
    x: Tensor  # (1, time, channel)
    output: str
    law: Law
    starved: bool


class Gained(nn.Module):
    """A network whose raw outputs are multiplied, which makes its probabilities steep; all are alike at 0."""

    def __init__(self, body: nn.Module, gain: float) -> None:
        super().__init__()
        self.body, self.gain = body, gain

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (self.body(x) - self.body(torch.zeros_like(x[:1]))) * self.gain
        return out


class Recurrent(nn.Module):
    """The last state of a GRU."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(channels, hidden, batch_first=True), nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.gru(x)[0][:, -1])
        return out


class Convolved(nn.Module):
    """Two convolutions and a mean over time."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, width, 3, padding=1)
        self.second, self.head = nn.Conv1d(width, width, 3, padding=1), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.second(self.first(x.mT).relu()).relu().mean(2))
        return out


class Attended(nn.Module):
    """One layer of attention and a mean over time."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.embed, self.query, self.key = (nn.Linear(size, width) for size in (channels, width, width))
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x).tanh()
        share = (self.query(h) @ self.key(h).mT).softmax(-1)
        out: Tensor = self.head((share @ h).mean(1))
        return out


class Summed(nn.Module):
    """A sigmoid of a weighted sum, steep around a level between the baseline and the series."""

    def __init__(self, weights: Tensor, steepness: float, level: float) -> None:
        super().__init__()
        self.weights, self.steepness, self.level = nn.Parameter(weights), steepness, level

    def forward(self, x: Tensor) -> Tensor:
        total = self.steepness * ((x * self.weights).sum((1, 2)) - self.level)
        return torch.stack([torch.zeros_like(total), total], 1)


class Gated(nn.Module):
    """A sum that counts only while a moving average of one channel is above a level."""

    def __init__(self, weights: Tensor, steepness: float, level: float) -> None:
        super().__init__()
        self.weights, self.steepness, self.level = nn.Parameter(weights), steepness, level

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.steepness * (x[..., 0].mean(1) - self.level))
        return (gate * (x * self.weights).sum((1, 2)).tanh())[:, None]


def draw(seed: int, device: str = "cpu") -> list[Held]:
    """Draw the models of a seed: the same on every machine, since all numbers come from the CPU's generator."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for number in range(2 * PER_KIND):
        kind = ("smooth", "steep")[number % 2]
        found.append(_one(number // 2, kind, generator, device))
    return found


def _uniform(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))


def _one(number: int, kind: str, generator: torch.Generator, device: str) -> Held:
    steep, starved = kind == "steep", number >= PER_KIND // 2
    shapes = SHAPES[:5] if starved else SHAPES
    steps, channels = shapes[int(torch.randint(len(shapes), (), generator=generator))]
    x = torch.randn(1, steps, channels, generator=generator)
    x = x + 0.2 * x.sign()
    law = _starving(steps, channels, _uniform(0.4, 0.7, generator)) if starved else None
    name, model, output = _model(number % 6, x, generator, steep=steep)
    for weight in model.parameters():
        weight.requires_grad_(requires_grad=False)
    label = f"{name} {steps} × {channels}{', starved' if starved else ''}"
    return Held(label, kind, model.eval().to(device), x.to(device), output, law, starved)


def _starving(steps: int, channels: int, longest: float) -> Law:
    low, high = max(1, round(0.1 * steps)), max(2, round(longest * steps))
    covered = (low + high) / 2 / (steps * channels)
    return round(math.log(ACTIVE) / math.log(1 - covered)), low, high


def _model(which: int, x: Tensor, generator: torch.Generator, *, steep: bool) -> tuple[str, nn.Module, str]:
    steps, channels = x.shape[1:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        if which in (0, 5):
            weights = torch.randn(steps, channels) / (steps * channels) ** 0.5
            weights = 2 * weights / float((x[0] * weights).sum())  # 2 at the series, 0 at the baseline
            level = _uniform(0.5, 1.6, generator)
            steepness = _uniform(20, 40, generator) if steep else _uniform(1, 4, generator)
            if which == 0:
                return f"sigmoid {steepness:.0f}", Summed(weights, steepness, level), "probability"
            middle = float(x[0, :, 0].mean())
            gate = Gated(weights, steepness * (1 if middle > 0 else -1), 0.5 * middle)
            return f"gate {steepness:.0f}", gate, "raw"
        gain = _uniform(25, 60, generator) if steep else _uniform(1, 4, generator)
        hidden = int(torch.randint(8, 17, (), generator=generator))
        mlp = (nn.Flatten(), nn.Linear(steps * channels, hidden), nn.Tanh(), nn.Linear(hidden, 3))
        bodies: dict[int, tuple[str, nn.Module]] = {
            1: ("GRU", Recurrent(channels, hidden)),
            2: ("CNN", Convolved(channels, hidden)),
            3: ("MLP", nn.Sequential(*mlp)),
            4: ("attention", Attended(channels, hidden)),
        }
        name, body = bodies[which]
        return f"{name} gain {gain:.0f}", Gained(body, gain), "probability"


def target_of(held: Held) -> int:
    """Return the predicted class, or the only column."""
    return 0 if held.output == "raw" else int(held.model(held.x).argmax())


def score(held: Held, z: Tensor, target: int) -> Tensor:
    raw = held.model(z)
    picked: Tensor = (raw if held.output == "raw" else raw.softmax(-1))[:, target]
    return picked


def masks(shape: tuple[int, int], law: tuple[int, int, int], count: int, generator: torch.Generator) -> Tensor:
    """Draw masks by the rule of the paper, True where a cell moves, (count, time, channel)."""
    steps, channels = shape
    segments, low, high = law
    device = generator.device
    free = torch.ones(count, steps, channels, dtype=torch.bool, device=device)
    clock, row = torch.arange(steps, device=device), torch.arange(count, device=device)
    for _ in range(segments):
        length = torch.randint(low, high + 1, (count,), generator=generator, device=device)
        where = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
        start = (where * (steps - length + 1)).long()
        channel = torch.randint(channels, (count,), generator=generator, device=device)
        held = (clock >= start[:, None]) & (clock < (start + length)[:, None])
        free[row, :, channel] &= ~held
    return free


def converged(held: Held, law: tuple[int, int, int], count: int, seed: int = 0) -> tuple[Tensor, float]:
    """Return the converged map (time, channel) from ``count`` masks, and its own relative error, from halves."""
    device, target = held.x.device, target_of(held)
    held.model.train()  # in which nothing here behaves otherwise, and cuDNN differentiates a recurrent layer
    generator = torch.Generator(device).manual_seed(seed)
    steps, channels = held.x.shape[1:]
    rows = max(1, min(AT_ONCE // ON_PATH, CELLS_AT_ONCE // (steps * channels * ON_PATH), count // 8))
    total = torch.zeros(2, steps, channels, dtype=torch.float64, device=device)
    number = torch.zeros_like(total)
    for turn, start in enumerate(range(0, count, rows)):
        size = min(rows, count - start)
        free = masks((steps, channels), law, size, generator)
        offset = torch.rand(size, 1, generator=generator, device=device)
        alpha = (torch.arange(ON_PATH, device=device) + offset) / ON_PATH
        back = free[:, None] * (1 - alpha[..., None, None])
        z = (held.x - back * held.x).flatten(0, 1).requires_grad_()
        (gradient,) = torch.autograd.grad(score(held, z, target).sum(), z)
        mean = gradient.view(size, ON_PATH, steps, channels).mean(1)
        total[turn % 2] += (mean * free).sum(0, dtype=torch.float64)
        number[turn % 2] += free.sum(0)
    held.model.eval()
    halves = held.x[0] * total / number.clamp(min=1)
    whole = held.x[0] * total.sum(0) / number.sum(0).clamp(min=1)
    noise = (halves[0] - halves[1]).abs().sum() / 2 / whole.abs().sum()
    return whole, float(noise)
