"""Explanations made by hand, with numbers that a reader can check, and models with known answers."""

from dataclasses import replace

import numpy as np
import torch

import tempograd as tg
from tempograd import Explanation, Timing
from tempograd.data import Series
from tempograd.explainers import explain
from tests.helpers.models import random_series

HOSTILE = ("flow $m^3$", "<b>bold</b>\nname", "$x$ & 50 % \\alpha")


def made(values, **parts) -> Explanation:
    """Make an explanation of these values; whatever is not given is the plainest possible."""
    values = torch.as_tensor(np.asarray(values), dtype=torch.float32)
    plain = {
        "target": torch.zeros(len(values), dtype=torch.int64),
        "output": "raw",
        "steps": None,
        "baseline": torch.zeros_like(values),
        "mask": None,
        "x": torch.zeros_like(values),
        "ids": torch.arange(10, 10 + len(values)),
        "seed": 0,
        "method": "timing",
        "facts": Timing().facts,
        "parameters": {},
        "fingerprint": "",
    }
    return Explanation(values, **(plain | parts))


def waves(series=2, time=30, channels=3, **parts) -> Explanation:
    """Sines of different speed, whose attribution is their square with the sign of the channel."""
    t = torch.arange(time, dtype=torch.float32)[None, :, None]
    shift = torch.arange(series)[:, None, None] * 0.7 + torch.arange(channels)[None, None, :]
    x = torch.sin(t / 4 + shift) * (1 + torch.arange(channels))
    values = x.square() * torch.tensor([1.0, -0.6, 0.2]).repeat(channels)[:channels] / 10
    error = 0.02 + 0.1 * (t % 5 == 0) * torch.ones_like(x)
    known = {"standard_error": error, "ess": torch.full_like(x, 20.0), "x": x}
    return made(values, **(known | parts))


def gaps(like: torch.Tensor) -> torch.Tensor:
    """Take every fifth hour of channel 0, and all of the last channel, for missing."""
    mask = torch.ones_like(like, dtype=torch.bool)
    mask[:, ::5, 0] = False
    mask[:, :, -1] = False
    return mask


def with_gaps(explanation: Explanation) -> Explanation:
    """Return the explanation of series with missing values, which have no attribution."""
    mask = gaps(explanation.x)
    return replace(explanation, values=explanation.values * mask, mask=mask)


def masked_series():
    x = random_series(5)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 3:6, 0] = False
    mask[2, :, 1] = False
    truth = torch.zeros_like(mask)
    truth[:, 7, 2] = True
    return Series(x, torch.tensor([0, 1, 2, 0, 1]), mask=mask, truth=truth, ids=torch.arange(40, 45))


def three_explanations(model, split):
    channels = ["pulse", "<img src=x onerror=alert(1)>", "O₂ & more"]
    return [
        explain(model, replace(split, channels=channels), method)
        for method in ("timing", "integrated_gradients", "random")
    ]


def ward(series=3, time=6):
    """Return a model of two classes, scaled series with gaps, and everything that people call their parts."""
    x = random_series(series, time, 2)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[0, 1, 0] = mask[-1, -1, 1] = False
    raw = (x.double() * torch.tensor([12.0, 0.6]) + torch.tensor([80.0, 37.0])).masked_fill(~mask, torch.nan)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2 * time, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.linspace(-1, 1, 4 * time).view(2, -1))
        model[1].bias.zero_()
    starts = np.array([f"2026-03-0{row + 1}T0{row}:15" for row in range(series)], "M8[s]")
    names = {
        "channels": ["heart rate", "temperature"],
        "units": ["bpm", "°C"],
        "classes": ["survived", "died"],
        "names": [f"bed {row}" for row in range(series)],
        "times": starts[:, None] + np.arange(time) * np.timedelta64(90, "m"),
    }
    return model, x, {"mask": mask, "raw": raw, **names}


def named_ward(*size):
    """Return the ward as a predictor and as series with all of that."""
    model, x, options = ward(*size)
    options["ids"] = options.pop("names")
    return tg.Predictor(model, classes=options.pop("classes")), tg.Series(x, **options)


def stamp(row, step):
    """Write when step ``step`` of series ``row`` of the ward was."""
    moment = np.datetime64(f"2026-03-0{row + 1}T0{row}:15") + step * np.timedelta64(90, "m")
    return str(moment).replace("T", " ")
