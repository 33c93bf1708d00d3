"""The suite as on another machine and another day: other random numbers, other rounding, other threads.

``TEMPOGRAD_TEST_SEED=3 python -m pytest`` moves every seed by 3: those of torch's generators and of the library's
own draws. It also rounds otherwise: what a layer answers, and the gradient that goes back through it, are off by
one unit in the last place, the same for the same number. Odd seeds use two threads. Tests of exact draws, marked
``exact_draws``, are left out.
"""

import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from tempograd.core import rng

OFFSET = int(os.environ.get("TEMPOGRAD_TEST_SEED", "0"))


def change() -> None:
    """Change everything, once, before any test is imported."""
    torch.set_num_threads(1 + OFFSET % 2)
    rng._LANES = tuple(lane ^ (OFFSET * 0x9E3779B1 & 0xFFFFFFFF) for lane in rng._LANES)
    plain, default = torch.Generator, torch.default_generator

    class Generator(plain):
        def manual_seed(self, seed: int) -> torch.Generator:
            return super().manual_seed(seed + OFFSET)

    class Default:
        """Torch's own generator; no attribute of it can be set."""

        __class__ = Generator  # for isinstance

        def manual_seed(self, seed: int) -> torch.Generator:
            return default.manual_seed(seed + OFFSET)

        def __getattr__(self, name: str) -> object:
            return getattr(default, name)

    torch.Generator, torch.default_generator = Generator, Default()
    torch.manual_seed = lambda seed: default.manual_seed(seed + OFFSET)
    register_module_forward_hook(_round)


def _round(module: nn.Module, _: object, answer: object) -> object:
    if isinstance(module, torch.jit.ScriptModule) or not type(module).__module__.startswith("torch.nn"):
        return None  # layers only: a function that calls them must round as the model around them does
    if isinstance(module, (nn.Sequential, nn.TransformerEncoder, nn.TransformerEncoderLayer)):
        return None
    if isinstance(answer, tuple):
        return tuple(_rounded(part) for part in answer)
    return _rounded(answer)


def _rounded(answer: object) -> object:
    """Return a tensor that differs in its last digits, as does the gradient that goes back through it."""
    if not isinstance(answer, Tensor) or answer.dtype not in {torch.float32, torch.float64}:
        return answer
    rounded = answer + (_off(answer.detach()) - answer.detach())
    if rounded.requires_grad:
        rounded.register_hook(lambda gradient: None if gradient is None else _off(gradient))
    return rounded


def _off(value: Tensor) -> Tensor:
    """Round away from 0 or towards it; a number and its negative alike, as processors do."""
    return value * (1 + torch.finfo(value.dtype).eps * (value.abs() * 12345.6789).sin().sign())


def leave_out_exact_draws(config: pytest.Config, items: list[pytest.Item]) -> None:
    exact = [item for item in items if item.get_closest_marker("exact_draws")]
    config.hook.pytest_deselected(items=exact)
    items[:] = [item for item in items if item not in exact]
    hooked = pytest.mark.filterwarnings("ignore:Using `torch.compile.module.` when there are global hooks")
    for item in items:  # the one that rounds is such a hook
        item.add_marker(hooked)
