"""Settings that many tests share."""

import warnings

from torch import nn

from conftest import series
from tempograd.explainers import EXPLAINERS, Explainer

# few epochs or draws, where a method's defaults would make the contract tests slow
QUICK: dict[str, dict[str, object]] = {}


def quick(name: str, **changes) -> Explainer:
    return EXPLAINERS[name](**(QUICK.get(name, {}) | changes))


class Function(nn.Module):
    """A function for methods that need a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def run(explainer: Explainer, model, x, **call):
    """Explain, after a fit to other series where the method needs one; what it warns of by design may come."""
    if explainer.needs_fit:
        _, time, channels = x.transpose(1, 2).shape if call.get("layout") == "BDT" else x.shape
        explainer = explainer.fit(model, series(16, time, channels, seed=99))
    if explainer.needs_module and not isinstance(model, nn.Module):
        model = Function(model)
    with warnings.catch_warnings():
        if explainer.caveat:
            warnings.filterwarnings("ignore", explainer.caveat)
        return explainer(model, x, **call)


# the six settings of the paper: time, channels, segments, min_length, max_length

PAPER = {
    "mimic3": (48, 32, 50, 10, 48),
    "pam": (600, 17, 10, 10, 600),
    "boiler": (36, 20, 50, 1, 36),
    "epilepsy": (178, 1, 10, 10, 10),
    "wafer": (152, 1, 5, 10, 152),
    "freezer": (301, 1, 5, 10, 100),
}
