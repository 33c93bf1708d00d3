"""Optimisers that do not load torch's compiler: that takes seconds, and nothing is compiled here."""

from inspect import unwrap
from typing import Any

import torch


def _uncompiled(kind: type[torch.optim.Optimizer]) -> Any:
    """Return an optimiser of torch, step for step, without what is wrapped around its methods for the compiler."""
    methods = {name: unwrap(getattr(kind, name)) for name in ("step", "zero_grad", "add_param_group")}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})


Adam, AdamW = _uncompiled(torch.optim.Adam), _uncompiled(torch.optim.AdamW)
