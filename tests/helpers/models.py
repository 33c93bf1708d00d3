"""Small models whose answers are known, and explanations with gaps, truth and hostile names."""

import torch

from tempograd.data import Split
from tempograd.explainers import explain

TIME, CHANNELS = 20, 3


class Flat(torch.nn.Module):
    """One output row per series."""

    def __init__(self, time=TIME, channels=CHANNELS, classes=3):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(time * channels, classes)

    def forward(self, x):
        return 2 * self.layer(x.tanh().flatten(1))


class Running(torch.nn.Module):
    """One output row per step: class 1 gains with the mean of channel 1 so far."""

    def forward(self, x):
        mean = x[..., 1].cumsum(1) / torch.arange(1, x.shape[1] + 1)
        return torch.stack([torch.zeros_like(mean), mean], -1)


def random_series(count, time=TIME, channels=CHANNELS):
    return torch.randn(count, time, channels, generator=torch.Generator().manual_seed(1))


def masked_series():
    x = random_series(5)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 3:6, 0] = False
    mask[2, :, 1] = False
    truth = torch.zeros_like(mask)
    truth[:, 7, 2] = True
    return Split(x, torch.tensor([0, 1, 2, 0, 1]), mask=mask, truth=truth, ids=torch.arange(40, 45))


def three_explanations(model, split):
    channels = ["pulse", "<img src=x onerror=alert(1)>", "O₂ & more"]
    return [
        explain(model, split.x, method, mask=split.mask, ids=split.ids, channels=channels)
        for method in ("timing", "integrated_gradients", "random")
    ]
