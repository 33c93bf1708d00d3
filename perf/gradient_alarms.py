"""How often the check of the gradient is wrong: honest models that it accuses, dishonest ones that it believes.

Every model is small and made here. Honest ones have the gradient of what they compute, some with steep or narrow
places; dishonest ones have another. Each is explained with 50 points, eight series at a time. The constants of the
check were chosen on seeds 0 to 3, so others are the test. On one thread this takes a few minutes:

    OMP_NUM_THREADS=1 python perf/gradient_alarms.py 10  # seeds 10, 11, 12
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn

import tempograd as tg
from tempograd.core.estimate import Found

SHAPES = ((24, 3), (48, 1), (12, 6))
SERIES, SEEDS = 8, 3
METHODS, OUTPUTS = ("timing", "rand_ig", "integrated_gradients"), ("raw", "probability")
Net = Callable[[Tensor], Tensor]


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().eval()


class Scaled(nn.Module):
    """A net whose input and output are multiplied."""

    def __init__(self, net: nn.Module, gain: float = 1.0, confidence: float = 1.0) -> None:
        super().__init__()
        self.net, self.gain, self.confidence = net, gain, confidence

    def forward(self, x: Tensor) -> Tensor:
        return self.confidence * self.net(self.gain * x)


class Recurrent(nn.Module):
    """A recurrent layer, read at its last step or on average, with weights times ``gain``."""

    def __init__(self, kind: type[nn.RNNBase], channels: int, gain: float = 1.0, *, mean: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.mean = kind(channels, 16, batch_first=True), nn.Linear(16, 3), mean
        with torch.no_grad():
            for weight in self.parameters():
                weight.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        states = self.layer(x)[0]
        return self.head(states.mean(1) if self.mean else states[:, -1])


class Patches(nn.Module):
    """Patches, mixing over them and over features, and a pool: like PatchTSMixer."""

    def __init__(self, time: int, channels: int, *, largest: bool, gain: float = 1.0) -> None:
        super().__init__()
        self.embed, self.count, self.largest, self.gain = nn.Linear(4, 16), time // 4, largest, gain
        self.mix = nn.Sequential(
            nn.Linear(self.count, 2 * self.count), nn.GELU(), nn.Linear(2 * self.count, self.count)
        )
        self.features = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.embed(self.gain * x.mT.unflatten(2, (self.count, 4)))  # series, channel, patch, feature
        z = z + self.mix(z.mT).mT
        z = z + self.features(z)
        z = z.amax((1, 2)) if self.largest else z.mean((1, 2))
        return self.head(z)


class Convolution(nn.Module):
    """Two convolutions and a pool over time."""

    def __init__(self, channels: int, act: type[nn.Module], gain: float, *, largest: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, 16, 5, padding=2), act(), nn.Conv1d(16, 16, 3, padding=1), act()
        )
        self.head, self.largest, self.gain = nn.Linear(16, 3), largest, gain

    def forward(self, x: Tensor) -> Tensor:
        z = self.body(self.gain * x.mT)
        return self.head(z.amax(2) if self.largest else z.mean(2))


class Gated(nn.Module):
    """Gated linear units with layer normalisation and a softmax over steps, as in temporal fusion."""

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.enter, self.gate, self.norm = nn.Linear(channels, 16), nn.Linear(16, 32), nn.LayerNorm(16)
        self.attend, self.head, self.gain = nn.Linear(16, 1), nn.Linear(16, 3), gain

    def forward(self, x: Tensor) -> Tensor:
        z = nn.functional.elu(self.enter(x))
        z = self.norm(z + nn.functional.glu(self.gain * self.gate(z)))
        return self.head((z * torch.softmax(self.gain * self.attend(z), 1)).sum(1))


class Attention(nn.Module):
    """One encoder layer, on average over time."""

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.enter, self.layer = (
            nn.Linear(channels, 16),
            nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True),
        )
        self.head, self.gain = nn.Linear(16, 3), gain

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * self.head(self.layer(self.enter(x)).mean(1))


def dense(cells: int, act: type[nn.Module], width: int = 32) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(cells, width), act(), nn.Linear(width, width), act(), nn.Linear(width, 3)
    )


class Normalised(nn.Module):
    """Reversible instance normalisation around a net; ``detach`` cuts its statistics off."""

    def __init__(self, net: nn.Module, *, detach: bool, share: float = 1.0) -> None:
        super().__init__()
        self.net, self.detach, self.share = net, detach, share

    def forward(self, x: Tensor) -> Tensor:
        mean, size = x.mean(1, keepdim=True), (x.var(1, keepdim=True, unbiased=False) + 1e-2).sqrt()
        if self.detach:
            mean, size = mean.detach(), size.detach()
        return (
            self.net((x - self.share * mean) / size) * size.mean((1, 2))[:, None]
            + self.share * mean.mean((1, 2))[:, None]
        )


def honest(time: int, channels: int, seed: int) -> Iterator[tuple[str, Net]]:
    """Models with the gradient of what they compute."""
    cells = time * channels
    for name, make in {
        "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(cells, 3)),
        "tanh": lambda: dense(cells, nn.Tanh),
        "tanh, gain 5": lambda: Scaled(dense(cells, nn.Tanh), 5),
        "tanh, confident": lambda: Scaled(dense(cells, nn.Tanh), 1, 30),
        "tanh, gain 5, confident": lambda: Scaled(dense(cells, nn.Tanh), 5, 30),
        "relu": lambda: dense(cells, nn.ReLU),
        "relu, narrow": lambda: dense(cells, nn.ReLU, 4),
        "relu, confident": lambda: Scaled(dense(cells, nn.ReLU), 1, 30),
        "relu, gain 5, confident": lambda: Scaled(dense(cells, nn.ReLU), 5, 30),
        "gelu": lambda: dense(cells, nn.GELU),
        "gru": lambda: Recurrent(nn.GRU, channels),
        "gru, gain 3": lambda: Recurrent(nn.GRU, channels, 3),
        "lstm": lambda: Recurrent(nn.LSTM, channels),
        "lstm, gain 3": lambda: Recurrent(nn.LSTM, channels, 3),
        "lstm, gain 3, mean": lambda: Recurrent(nn.LSTM, channels, 3, mean=True),
        "lstm, gain 6, mean": lambda: Recurrent(nn.LSTM, channels, 6, mean=True),
        "lstm, gain 3, mean, confident": lambda: Scaled(Recurrent(nn.LSTM, channels, 3, mean=True), 2, 4),
        "rnn, gain 2": lambda: Recurrent(nn.RNN, channels, 2),
        "cnn": lambda: Convolution(channels, nn.ReLU, 1, largest=False),
        "cnn, max pool": lambda: Convolution(channels, nn.ReLU, 1, largest=True),
        "cnn, max pool, gain 5": lambda: Convolution(channels, nn.ReLU, 5, largest=True),
        "cnn, tanh, max pool, gain 3": lambda: Convolution(channels, nn.Tanh, 3, largest=True),
        "patches, mean": lambda: Patches(time, channels, largest=False),
        "patches, max": lambda: Patches(time, channels, largest=True),
        "patches, max, gain 4": lambda: Patches(time, channels, largest=True, gain=4),
        "patches, max, confident": lambda: Scaled(Patches(time, channels, largest=True), 2, 10),
        "gated": lambda: Gated(channels, 1),
        "gated, gain 5": lambda: Gated(channels, 5),
        "gated, gain 15": lambda: Gated(channels, 15),
        "attention": lambda: Attention(channels, 1),
        "attention, confident": lambda: Attention(channels, 20),
        "normalised": lambda: Normalised(dense(cells, nn.ReLU), detach=False),
        "normalised patches": lambda: Normalised(Patches(time, channels, largest=False), detach=False),
    }.items():
        yield name, seeded(seed, make)
    w = 0.3 * torch.rand(time, channels, generator=torch.Generator().manual_seed(seed)) + 0.1
    yield "sigmoids of 10", lambda z: (torch.sigmoid(10 * (z - 0.5)) * w).sum((1, 2))[:, None]
    yield "sigmoids of 40", lambda z: (torch.sigmoid(40 * (z - 0.5)) * w).sum((1, 2))[:, None]
    yield "sigmoid of 30", lambda z: torch.sigmoid(30 * (z.mean((1, 2)) - 0.3))[:, None]
    yield (
        "product",
        lambda z: (z[:, : time // 2].mean((1, 2)) * torch.tanh(z[:, time // 2 :]).mean((1, 2)))[:, None],
    )
    yield "largest value", lambda z: z.amax(1).sum(1)[:, None]
    yield "square", lambda z: (z.square() * w).sum((1, 2))[:, None]


def dishonest(time: int, channels: int, seed: int) -> Iterator[tuple[str, Net]]:
    """Models with the gradient of something else."""
    cells = time * channels
    w = 0.3 * torch.rand(time, channels, generator=torch.Generator().manual_seed(seed)) + 0.1

    def weighted(part: Net) -> Net:
        return lambda z: (part(z) * w).sum((1, 2))[:, None]

    def without_gradient(net: Net, share: float) -> Net:
        def call(z: Tensor) -> Tensor:
            with torch.no_grad():
                hidden = net(z)
            return share * hidden + (1 - share) * net(z)

        return call

    yield "detached, dense", seeded(seed, lambda: Normalised(dense(cells, nn.ReLU), detach=True))
    yield "detached, tanh", seeded(seed, lambda: Normalised(dense(cells, nn.Tanh), detach=True))
    patches = seeded(seed, lambda: Normalised(Patches(time, channels, largest=False), detach=True))
    yield "detached, patches", patches
    yield "detached, patches, confident", Scaled(patches, 1, 10)
    yield "detached, recurrent", seeded(seed, lambda: Normalised(Recurrent(nn.GRU, channels), detach=True))
    yield (
        "detached, a fifth of the mean",
        seeded(seed, lambda: Normalised(dense(cells, nn.GELU), detach=True, share=0.2)),
    )
    yield "rounded", weighted(lambda z: (2 * z).round() / 2 + 0 * z)
    yield "finely rounded", weighted(lambda z: (50 * z).round() / 50 + 0 * z)
    yield (
        "half rounded",
        weighted(lambda z: torch.cat([z[:, : time // 2].round(), torch.tanh(z[:, time // 2 :])], 1)),
    )
    yield "straight-through sign", weighted(lambda z: z + (torch.sign(z - 0.4) - z).detach())
    yield "straight-through rounding", weighted(lambda z: z + (z.round() - z).detach())
    yield "threshold at 0.5", weighted(lambda z: torch.cat([(z[:, ::2] > 0.5).float(), torch.tanh(z[:, 1::2])], 1))
    yield "half under no_grad", without_gradient(seeded(seed, lambda: dense(cells, nn.Tanh)), 0.5)
    yield "a tenth under no_grad", without_gradient(seeded(seed, lambda: dense(cells, nn.Tanh)), 0.1)
    yield "a tenth under no_grad, gru", without_gradient(seeded(seed, lambda: Recurrent(nn.GRU, channels)), 0.1)


def series(time: int, channels: int, seed: int) -> Tensor:
    """Draw series away from 0."""
    return 0.6 + 0.7 * torch.randn(SERIES, time, channels, generator=torch.Generator().manual_seed(100 + seed))


class Count(NamedTuple):
    """What the check found in some series, and how many calls had a verdict against the gradient."""

    series: int = 0
    wrong: int = 0
    jumps: int = 0
    calls: int = 0
    accused: int = 0

    def __add__(self, other: tuple[int, ...]) -> "Count":  # type: ignore[override]
        return Count(*(a + b for a, b in zip(self, other, strict=True)))

    def __str__(self) -> str:
        shares = f"{self.wrong} wrong and {self.jumps} jumps of {self.series} series"
        return f"{shares}, {self.accused} of {self.calls} verdicts"


def alarms(model: Net, x: Tensor, method: str, output: str, seed: int) -> Count:
    """Explain some series, and count what the check says."""
    fixed = {"n_samples": 50} if method == "timing" else {}  # by default series get more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explained = tg.explain(model, x, method, output=output, target=0, seed=seed, **fixed)
    check = explained.gradient_check
    found = (int((check.found == kind).sum()) for kind in (Found.WRONG, Found.JUMPS))
    told = explained.verdict().split(":")[0]
    return Count(len(x), *found, 1, "gradient" in told)


def main() -> None:
    """Print a line for each model, and the sums."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for kind, zoo in (("honest", honest), ("dishonest", dishonest)):
        counts: dict[str, Count] = {}
        for (time, channels), seed in product(SHAPES, range(first, first + SEEDS)):
            x = series(time, channels, seed)
            for (name, model), method, output in product(zoo(time, channels, seed), METHODS, OUTPUTS):
                found = alarms(model, x, method, output, seed)
                counts[name] = counts.get(name, Count()) + found
                counts[f"all of {method}"] = counts.get(f"all of {method}", Count()) + found
        print(kind)
        for name, count in sorted(counts.items(), key=lambda each: each[0].startswith("all of")):
            print(f"  {name:34} {count}")


if __name__ == "__main__":
    main()
