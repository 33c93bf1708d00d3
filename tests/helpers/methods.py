"""Settings that many tests share."""

import copy
import warnings
from dataclasses import replace

import torch
from torch import nn

from tempograd.core.series import Series
from tempograd.engine import owner
from tempograd.engine.predictor import Predictor
from tempograd.explainers import EXPLAINERS, Explainer
from tests.helpers.models import series

# few epochs or draws, where a method's defaults would make the contract tests slow
QUICK: dict[str, dict[str, object]] = {
    "augmented_occlusion": {"n_samples": 4},
    "contralsp": {"epochs": 4, "lr": 0.1},
    "dynamask": {"epochs": 8, "lr": 0.1, "areas": (0.2, 0.4), "time_weight": 0.0},
    "fit": {"n_samples": 4, "epochs": 2},
    "extremal_mask": {"epochs": 4, "lr": 0.05},
    "timex": {"epochs": 1, "fit_batch_size": 8},
    "timexpp": {"epochs": 1, "fit_batch_size": 8},
    "winit": {"window": 4, "n_samples": 2, "epochs": 1},
}
# as many as a method needs to find out something, for the tests that look at what it found
THOROUGH: dict[str, dict[str, object]] = {
    "contralsp": {"epochs": 10},
    "dynamask": {"epochs": 20},
    "extremal_mask": {"epochs": 9},
    "fit": {"n_samples": 20, "epochs": 60},
    "timex": {"epochs": 6, "learning_rate": 0.003},
}
# TimeX++ has a free network between mask and model, which may learn to keep what the mask drops: with one seed the
# cells that matter score highest and with the next one lowest
UNDECIDED = {"timexpp"}


def quick(name: str, **changes) -> Explainer:
    return EXPLAINERS[name](**(QUICK.get(name, {}) | changes))


def thorough(explainer: Explainer) -> Explainer:
    return replace(explainer, **THOROUGH.get(explainer.name, {}))


class Headed(nn.Module):
    """Any model as a module that ends in a linear layer, the identity: the same answers, and an embedding."""

    def __init__(self, inner, x: torch.Tensor) -> None:
        super().__init__()
        twin = copy.deepcopy(inner).eval() if isinstance(inner, nn.Module) else inner
        dtype = next((weight.dtype for weight in twin.parameters()), x.dtype) if twin is not inner else x.dtype
        with torch.no_grad():
            answer = twin(x.to(dtype))
        self.inner, classes = inner, answer.shape[-1] if answer.ndim > 1 else 1
        self.head = nn.Linear(classes, classes, bias=False, dtype=answer.dtype)
        nn.init.eye_(self.head.weight)

    def forward(self, x):
        answer = self.inner(x)
        return self.head(answer[:, None] if answer.ndim == 1 else answer)


def fitted(explainer: Explainer, model, x, train: int = 16) -> Explainer:
    """Fit to other series of the same kind, where the method needs it."""
    if not explainer.needs_fit:
        return explainer
    x = Series.of(x).x
    time, channels = x.shape[1:]
    model = usable(model, explainer, time)
    time = 12 if explainer.needs_prefixes else time  # any length will do, of two steps or more
    others = series(train, 64, channels, seed=99)[:, :time] + 3 * round(float(x.mean()) / 3)  # around 0 or 3
    others = others.to(x.dtype)
    if explainer.needs_module:
        with torch.random.fork_rng():
            model = Headed(model, others[:2])
    return explainer.fit(model, others)


def run(explainer: Explainer, model, x, train: int = 16, **call):
    """Explain, after a fit where the method needs one, with answers that it can use."""
    model = usable(model, explainer, Series.of(x).shape[1])
    if explainer.needs_probabilities and call.get("output") == "raw":
        call["output"] = "probability"
    return explained(fitted(explainer, model, x, train), model, x, **call)


def explained(explainer: Explainer, model, x, **call):
    """Explain with a method that is ready; what it warns of by design may come."""
    if explainer.needs_module and not explainer.needs_fit and not isinstance(model, (nn.Module, Predictor)):
        model = Function(model)
    with warnings.catch_warnings():
        if explainer.caveat:
            warnings.filterwarnings("ignore", explainer.caveat)
        return explainer(model, x, **call)


class Filled(nn.Module):
    """Answers prefixes of a series, for a model that knows one length only: what has not come yet is 0."""

    def __init__(self, model, time: int) -> None:
        super().__init__()
        self.model, self.time = model, time
        self.tempograd_task = getattr(model, "tempograd_task", None)

    def forward(self, x):
        return self.model(filled(x, self.time))


def filled(x, time: int):
    return torch.cat([x, x.new_zeros(len(x), max(0, time - x.shape[1]), x.shape[2])], 1)


def usable(model, explainer: Explainer, time: int):
    """Let a model answer prefixes, where the method asks for them and it cannot."""
    parts = () if owner(model) is None else owner(model).modules()
    knows = any(isinstance(part, (nn.RNNBase, Filled)) for part in parts)
    return Filled(model, time) if explainer.needs_prefixes and not knows else model


class Function(nn.Module):
    """A function for methods that need a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function
        self.tempograd_task = getattr(function, "tempograd_task", None)

    def forward(self, x):
        return self.function(x)


# the six settings of the paper: time, channels, segments, min_length, max_length

PAPER = {
    "mimic3": (48, 32, 50, 10, 48),
    "pam": (600, 17, 10, 10, 600),
    "boiler": (36, 20, 50, 1, 36),
    "epilepsy": (178, 1, 10, 10, 10),
    "wafer": (152, 1, 5, 10, 152),
    "freezer": (301, 1, 5, 10, 100),
}
