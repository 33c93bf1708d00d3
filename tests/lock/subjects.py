"""Tiny models and series to explain, on the device that is asked for."""

import numpy as np
import torch
from torch import nn

from tests.lock.faces import build

SERIES, STEPS, CHANNELS, CLASSES, HIDDEN, STATIC, HORIZON = 4, 12, 3, 3, 4, 2, 4
IDS = [5, 9, 2, 40]
LENGTHS = (12, 9, 5, 11)
DEVICE = torch.device("cpu")  # the probe puts the one here that is asked for


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def uniform(*shape, seed):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def series(count=SERIES, seed=0):
    return normal(count, STEPS, CHANNELS, seed=seed)


def sharp(model):
    """Enlarge the weights, so that the outputs of an untrained model differ."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return model.eval().to(DEVICE)


def made(kind, *arguments):
    torch.manual_seed(11)
    return sharp(kind(*arguments))


class Recurrent(nn.Module):
    """An LSTM as users write it, with one output per series or, ``per_step``, one per step."""

    def __init__(self, classes, per_step=False, channels=CHANNELS):
        super().__init__()
        self.lstm = nn.LSTM(channels, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, classes)
        self.per_step = per_step

    def forward(self, x):
        states = self.lstm(x)[0]
        return self.head(states if self.per_step else states[:, -1])


class Forecaster(Recurrent):
    """Returns (series, horizon, variable)."""

    def __init__(self):
        super().__init__(HORIZON * 2)

    def forward(self, x):
        return super().forward(x).view(-1, HORIZON, 2)


class Accompanied(nn.Module):
    """Takes static values beside the series, and a row and a number that need not be given."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(CHANNELS, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN + STATIC, CLASSES)

    def forward(self, series, static, shift=None, scale=1.0):
        last = self.lstm(series)[0][:, -1]
        outputs = self.head(torch.cat([last, static], 1) * scale).tanh()
        return outputs if shift is None else outputs + shift[:, None] * outputs**2


class Around(nn.Module):
    """Calls a model through a function."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, x):
        return self.call(self.inner, x)


def function(x):
    """Return three columns that the cells enter with products, a kink and both signs."""
    total, first = x.sum((1, 2)), x[:, 0, 0]
    return torch.stack([total.sin() + first * x[:, -1, 1], x.relu().mean((1, 2)), (x[:, :, 2] ** 2).mean(1)], 1)


class Estimator:
    """Returns probabilities for arrays, as estimators of other libraries do."""

    def predict_proba(self, x):
        scores = np.exp(np.asarray(x).mean(1))
        return scores / scores.sum(1, keepdims=True)


def gru():
    return sharp(build("gru", CHANNELS, CLASSES, seed=1, hidden=HIDDEN))


def per_step_gru():
    return sharp(build("gru", CHANNELS, CLASSES, per_step=True, seed=2, hidden=HIDDEN))


def models():
    """Return each model with its series, its training series and the arguments of the call."""
    x, train = series(), series(16, seed=1)
    holes = uniform(*x.shape, seed=2) > 0.25
    padding = (torch.arange(STEPS) < torch.tensor(LENGTHS)[:, None])[..., None].expand(x.shape).to(DEVICE)
    cnn = sharp(build("cnn", CHANNELS, CLASSES, seed=3, hidden=HIDDEN))
    transformer = sharp(build("transformer", CHANNELS, CLASSES, seed=4, positions=4, feedforward=6)).double()
    per_step = {"task": "per_step"}
    return {
        "gru": (gru(), x, train, {}),
        "lstm_holes": (made(Recurrent, CLASSES), x * holes, train, {"mask": holes}),
        "cnn_padded": (cnn, x * padding, train, {"mask": padding}),
        "transformer_double": (transformer, x.double(), train.double(), {}),
        "function": (function, x, train, {}),
        "per_step": (per_step_gru(), x, train, per_step),
        "per_step_own": (per_step_gru(), x, train, per_step | {"steps": "own"}),
        "one_logit": (made(Recurrent, 1), x, train, {"task": "binary", "target": 1}),
    }
