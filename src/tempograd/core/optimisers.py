"""Optimisers that do not load torch's compiler: that takes seconds, and nothing is compiled here."""

from inspect import unwrap
from typing import Any

import torch


class Adam(torch.optim.Adam):
    """``torch.optim.Adam``, step for step, without what torch wraps around its methods for its compiler."""

    step: Any = torch.no_grad()(unwrap(torch.optim.Adam.step))
    zero_grad: Any = unwrap(torch.optim.Adam.zero_grad)
    add_param_group: Any = unwrap(torch.optim.Adam.add_param_group)


class AdamW(torch.optim.AdamW):
    """The same of ``torch.optim.AdamW``."""

    step: Any = torch.no_grad()(unwrap(torch.optim.AdamW.step))
    zero_grad: Any = unwrap(torch.optim.AdamW.zero_grad)
    add_param_group: Any = unwrap(torch.optim.AdamW.add_param_group)
