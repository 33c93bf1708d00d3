"""Small models and series that many tests share."""

import copy

import numpy as np
import torch
from torch import nn

from tempograd.models import build

TIME, CHANNELS = 20, 3


def first_seed(suits) -> int:
    """Return the first seed whose series are what a test is about, for instance of two classes."""
    return next(seed for seed in range(100) if suits(seed))


def classifier(*layers: nn.Module) -> nn.Module:
    """Make a network, and say what it is."""
    model = nn.Sequential(*layers)
    model.tempograd_task = "binary" if layers[-1].out_features == 1 else "classification"
    return model


def linear(time: int, channels: int, classes: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return classifier(nn.Flatten(), nn.Linear(time * channels, classes))


def smooth(time: int, channels: int, classes: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(time * channels, 24), nn.Tanh(), nn.Linear(24, classes))
        return classifier(nn.Flatten(), *layers).double()


class Recurrent(nn.Module):
    """A GRU with dropout between its layers and batch normalisation: much that can be disturbed."""

    def __init__(self, channels: int = 3, classes: int = 3, *, per_step: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru = nn.GRU(channels, 8, num_layers=2, dropout=0.4, batch_first=True)
            self.norm = nn.BatchNorm1d(8)
            self.head = nn.Linear(8, classes)
        self.per_step = per_step
        self.tempograd_task = "per_step" if per_step else "classification"

    def forward(self, x):
        states = self.gru(x)[0]
        if self.per_step:
            return self.head(self.norm(states.transpose(1, 2)).transpose(1, 2))
        return self.head(self.norm(states[:, -1]))


def series(batch: int, time: int, channels: int, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(batch, time, channels, generator=torch.Generator().manual_seed(seed), dtype=dtype)


class Flat(torch.nn.Module):
    """One output row per series."""

    def __init__(self, time=TIME, channels=CHANNELS, classes=3):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(time * channels, classes)
        self.tempograd_task = "binary" if classes == 1 else "classification"

    def forward(self, x):
        return 2 * self.layer(x.tanh().flatten(1))


class RunningMean(torch.nn.Module):
    """One output row per step: class 1 gains with the mean of channel 1 so far."""

    tempograd_task = "per_step"

    def forward(self, x):
        mean = x[..., 1].cumsum(1) / torch.arange(1, x.shape[1] + 1)
        return torch.stack([torch.zeros_like(mean), mean], -1)


def random_series(count, time=TIME, channels=CHANNELS):
    return torch.randn(count, time, channels, generator=torch.Generator().manual_seed(1))


class Product(torch.nn.Module):
    """Two classes; the second one's score is the product of the means of two channels."""

    def forward(self, x):
        score = x[..., 0].mean(1) * x[..., 1].mean(1)
        return torch.stack([torch.zeros_like(score), score], 1)


class RunningDifference(torch.nn.Module):
    """One output row per step: class 1 gains with the square of channel 0, loses with channel 1 a step before."""

    tempograd_task = "per_step"

    def forward(self, x):
        before = torch.cat([torch.zeros_like(x[:, :1, 1]), x[:, :-1, 1]], 1)
        score = x[..., 0].square() - before
        return torch.stack([torch.zeros_like(score), score], -1)


class Risk(nn.Module):
    """Class 1, "died": made likely by channel 0 at step 2, and unlikely by channel 1 at step 5."""

    tempograd_task = "binary"

    def forward(self, x):
        return 3 * x[:, 2, :1] - 2 * x[:, 5, 1:2]


def patients():
    """One at high risk, one at low risk."""
    x = torch.zeros(2, 8, 2)
    x[0, 2, 0], x[0, 5, 1] = 1.0, 0.25
    x[1, 2, 0], x[1, 5, 1] = 0.5, 2.0
    return x


def numpy_running(x):
    """A classifier written in numpy, for series of any length: three functions of numpy_running means."""
    array = x.detach().numpy()
    means = array.cumsum(1) / np.arange(1, array.shape[1] + 1)[None, :, None]
    total = means.sum(-1)
    return torch.from_numpy(np.stack([np.sin(total), array[..., 0] * total, array[..., -1]], -1))


def numpy_running_end(x):
    return numpy_running(x)[:, -1]


numpy_running.tempograd_task = "per_step"
numpy_running_end.tempograd_task = "classification"


def any_length(kind, channels, *, per_step):
    if kind == "numpy":
        return numpy_running if per_step else numpy_running_end
    if kind == "two layers":
        return Recurrent(channels, per_step=per_step).double().eval()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return build(kind, channels, 3, per_step=per_step, hidden=12).double().eval()


class Fragile(Recurrent):
    """Fails at its sixth call, if it is to fail."""

    def __init__(self, fails):
        super().__init__()
        self.fails, self.calls = fails, 0

    def forward(self, x):
        self.calls += 1
        if self.fails and self.calls > 5:
            raise ArithmeticError
        return super().forward(x)


def check_left_as_found(learn, fails):
    """Let something learn from a model, to its end or not, and compare all that it may have touched."""
    model, failed = Fragile(fails).train(), False
    model.head.bias.requires_grad_(False)
    state, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    try:
        learn(model)
    except ArithmeticError:
        failed = True
    assert failed == fails
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(part.training and not part._forward_hooks for part in model.modules())
    assert model.gru.dropout == 0.4
    assert [p.requires_grad for p in model.head.parameters()] == [True, False]
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(rng, torch.get_rng_state())


class AlongTheBatch(nn.Module):
    """The positional encoding of torch's tutorial, made for time first, on series whose batch comes first."""

    def __init__(self, time, channels):
        super().__init__()
        self.net = linear(time, channels)
        self.register_buffer("encoding", series(5000, 1, channels, seed=3))
        self.eval()

    def forward(self, z):
        return self.net(z + self.encoding[: z.size(0)])
