"""Settings that many tests share."""

import torch
from torch import nn

from conftest import series
from tempograd.engine import owner
from tempograd.explainers import EXPLAINERS, Explainer

# few epochs or draws, where a method's defaults would make the contract tests slow
QUICK: dict[str, dict[str, object]] = {
    "fit": {"samples": 4, "epochs": 20},
    "winit": {"window": 4, "samples": 2, "epochs": 1},
}


def quick(name: str, **changes) -> Explainer:
    return EXPLAINERS[name](**(QUICK.get(name, {}) | changes))


class Filled(nn.Module):
    """Answers prefixes of a series, for a model that knows one length only: what has not come yet is 0."""

    def __init__(self, model, time: int) -> None:
        super().__init__()
        self.model, self.time = model, time

    def forward(self, x):
        return self.model(filled(x, self.time))


def filled(x, time: int):
    return torch.cat([x, x.new_zeros(len(x), max(0, time - x.shape[1]), x.shape[2])], 1)


def run(explainer: Explainer, model, x, train=None, **call):
    """Explain, after a fit to other series where the method needs one, with outputs that it can use."""
    _, time, channels = x.transpose(1, 2).shape if call.get("layout") == "BDT" else x.shape
    if explainer.needs_prefixes and not answers_prefixes(model):
        model = Filled(model, time)
    if explainer.needs_probabilities:
        call.pop("output", None)
    if explainer.needs_fit:
        steps = max(2, time) if explainer.needs_prefixes else time
        explainer = explainer.fit(model, series(16, steps, channels, seed=99) if train is None else train)
    return explainer(model, x, **call)


def answers_prefixes(model) -> bool:
    parts = () if owner(model) is None else owner(model).modules()
    return any(isinstance(part, (nn.RNNBase, Filled)) for part in parts)


# the six settings of the paper: time, channels, segments, min_length, max_length

PAPER = {
    "mimic3": (48, 32, 50, 10, 48),
    "pam": (600, 17, 10, 10, 600),
    "boiler": (36, 20, 50, 1, 36),
    "epilepsy": (178, 1, 10, 10, 10),
    "wafer": (152, 1, 5, 10, 152),
    "freezer": (301, 1, 5, 10, 100),
}
