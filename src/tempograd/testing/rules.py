"""What rules are made of: errors that name them, small models and series, and what must be left as found."""

import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from tempograd.core.errors import TempogradError, TempogradWarning, UnknownNameError, one_line
from tempograd.explainers import Explainer
from tempograd.metrics import Metric

TIME, CHANNELS, CLASSES = 9, 3, 3
Rule = Callable[[Any], None]


class ContractError(TempogradError, AssertionError):
    """A rule of the contract is broken.

    Attributes
    ----------
    rule : str
        Its name, a key of ``EXPLAINER_RULES`` or ``METRIC_RULES``.
    """

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


def try_rules(thing: Explainer | Metric, known: dict[str, Rule], names: Iterable[str] | None) -> None:
    """Try rules on an explainer or a metric; the first that is broken is an error."""
    for name in known if names is None else names:
        if name not in known:
            raise UnknownNameError("rule", name, known)
        says = (known[name].__doc__ or "").removeprefix("Require ").removeprefix("that ").rstrip(".")
        start = f"{one_line(thing.name)} breaks the rule '{name}' ({says}):"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TempogradWarning)  # what a method warns of by design may come
            try:
                known[name](thing)
            except BrokenError as error:
                raise ContractError(f"{start} {error}.", name) from None
            except Exception as error:
                reason = one_line(str(error), 200)
                raise ContractError(f"{start} it fails with {type(error).__name__}: {reason}", name) from error


class BrokenError(Exception):
    """What is wrong, as the end of a sentence."""


def rules_of(module: Mapping[str, Any]) -> dict[str, Rule]:
    """Return rules by name: the functions of a module whose documentation says what they require."""
    checks = {name: thing for name, thing in module.items() if (thing.__doc__ or "").startswith("Require ")}
    return {name.removeprefix("_"): check for name, check in checks.items()}


def demand(holds: bool | Tensor, otherwise: str) -> None:
    """Say what is wrong, as the end of a sentence, unless something holds."""
    if not bool(holds):
        raise BrokenError(otherwise)


def same_numbers(found: Tensor, expected: Tensor, where: str, rtol: float = 2e-4, atol: float = 2e-7) -> None:
    """Refuse numbers that differ by more than the rounding of another batch."""
    demand(
        found.shape == expected.shape, f"{where} they have shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    )
    close = torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    gap, size = (found - expected).abs().nan_to_num(), expected.abs().nan_to_num(posinf=0.0)
    demand(close.all(), f"{where} they differ by up to {float(gap.max()):.3g}, of up to {float(size.max()):.3g}")


# Models and series. The models are modules that end in a linear layer, take series of any length and are smooth,
# so that every method can explain them.


def small_series(batch: int, time: int = TIME, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    """Return series of standard normal numbers, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, channels, generator=generator, dtype=torch.float64)


class Smooth(nn.Module):
    """Reads the first ``time`` steps of the first ``used`` channels."""

    tempograd_task = "classification"

    def __init__(self, time: int = TIME, used: int = CHANNELS, classes: int = CLASSES, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(time * used, 24), nn.Tanh()).double()
            self.head = nn.Linear(24, classes).double()
        self.time, self.used = time, used

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, : self.time, : self.used]
        missing = x.new_zeros(len(x), self.time - x.shape[1], self.used)
        return cast("Tensor", self.head(self.body(torch.cat([x, missing], 1))))


class PerStep(Smooth):
    """Reads, at each step, those up to it."""

    tempograd_task = "per_step"

    def forward(self, x: Tensor) -> Tensor:
        until = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).tril()
        return super().forward((x[:, None] * until[..., None]).flatten(0, 1)).view(*x.shape[:2], -1)


class Weighted(Smooth):
    """The logit is a weighted sum of the cells plus a constant: what each does is known."""

    tempograd_task = "binary"

    def __init__(self, weights: Tensor, constant: float = 0.0) -> None:
        super().__init__(weights.numel() // CHANNELS, classes=1)
        self.body = nn.Sequential(nn.Flatten())
        self.head = nn.Linear(weights.numel(), 1).double()
        with torch.no_grad():
            self.head.weight.copy_(weights.flatten()[None])
            self.head.bias.fill_(constant)


class Recurrent(nn.Module):
    """Has dropout between its layers and batch normalisation, much that can be disturbed, and fails if told to."""

    def __init__(self, fails_after: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.gru = nn.GRU(CHANNELS, 8, num_layers=2, dropout=0.4, batch_first=True)
            self.norm, self.head = nn.BatchNorm1d(8), nn.Linear(8, CLASSES)
        self.head.bias.requires_grad_(False)
        self.calls, self.fails_after = 0, fails_after
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.fails_after is not None and self.calls > self.fails_after:
            raise ArithmeticError("the model fails, as the rule wants it to")
        return cast("Tensor", self.head(self.norm(self.gru(x)[0][:, -1])))


def left_as_found(model: Recurrent, x: Tensor, work: Callable[[nn.Module], object]) -> None:
    """Let something run a model, to its end or not, and compare all that it may have touched."""
    before, fails = _state(model, x), model.fails_after is not None
    try:
        work(model)
        demand(model.fails_after != 0 or not model.calls, "an error of the model is swallowed")
    except ArithmeticError:
        pass
    after = _state(model, x)
    changed = [name for name in before if before[name] != after[name]]
    demand(not changed, f"{', '.join(changed)} changed{' after the model failed' if fails else ''}")


def _state(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Return, by its name, all of a model, of its series and of generators that a method may disturb."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    parts, weights = list(model.modules()), list(model.parameters())
    return {name: value.tolist() for name, value in model.state_dict().items()} | {
        "training mode": [part.training for part in parts],
        "dropout": [getattr(part, "dropout", None) for part in parts],
        "requires_grad": [weight.requires_grad for weight in (*weights, x)],
        "gradients of weights": [weight.grad is None for weight in weights],
        "hooks": [len(getattr(part, kind)) for part in parts for kind in kinds],
        "x": x.tolist(),
        "torch's generator": torch.get_rng_state().tolist(),
        "numpy's generator": str(np.random.mtrand._rand.get_state()),
        "Python's generator": random.getstate(),
        "whether gradients are on": torch.is_grad_enabled(),
    }
