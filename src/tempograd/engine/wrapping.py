"""A module together with the way to call it, for functions that hide the module they use."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from tempograd.errors import InputError


class Wrapped(nn.Module):
    """Calls a module in a way of one's own; made by :func:`wrap`."""

    def __init__(self, net: nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.training = net.training
        self.net = net
        self.call = call
        self._with_net = _takes_two(call)

    def forward(self, z: Tensor) -> Tensor:
        """Return what the call answers for series (batch, time, channel)."""
        return self.call(self.net, z) if self._with_net else self.call(z)


def wrap(net: nn.Module, call: Callable[..., Tensor]) -> nn.Module:
    """Join a module and the function that calls it into one model that can be explained like any module.

    Functions around modules are explained as they are: tempograd finds the module in most of them, and freezes
    what runs in all of them. ``wrap`` is for those whose module cannot be found, so that series would not be sent
    to its device or in its precision, and for methods that need a module.

    Parameters
    ----------
    net : nn.Module
        The module that holds the weights.
    call : function
        ``call(z)`` or ``call(net, z)``: returns the output for series ``z`` of shape (batch, time, channel).

    Returns
    -------
    nn.Module
        Its ``net`` is the module itself, not a copy.

    Examples
    --------
    >>> import torch
    >>> conv = nn.Conv1d(3, 2, 5)  # channels first
    >>> model = wrap(conv, lambda net, z: net(z.transpose(1, 2)).mean(2))
    >>> model(torch.zeros(4, 20, 3)).shape
    torch.Size([4, 2])
    """
    if not isinstance(net, nn.Module):
        raise InputError(f"net must be an nn.Module, got {type(net).__name__}: pass the module that call uses.")
    if not callable(call):
        raise InputError(f"call must be a function of series, got {type(call).__name__}.")
    return Wrapped(net, call)


def _takes_two(call: Callable[..., Any]) -> bool:
    """Tell whether a function takes the module before the series: it must be given two positions."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # a built-in
        return False
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in placed if p.default is p.empty]) == 2
