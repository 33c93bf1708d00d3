"""Where a model computes: a device that is there, and that holds numbers."""

import warnings
from typing import Any

import torch

from tempograd.errors import InputError


def find_device(device: Any) -> torch.device:
    """Return a device after a small sum on it, or say in one sentence why there is none.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    >>> find_device("meta")
    Traceback (most recent call last):
    ...
    tempograd.errors.InputError: The device 'meta' holds no numbers, so no model can compute there: use cpu.
    """
    if isinstance(device, bool) or not isinstance(device, (str, int, torch.device)):
        raise InputError(f"device must be a name such as 'cpu' or 'cuda:0', got {type(device).__name__}.")
    shown = repr(str(device)[:40])
    use = "use cpu, or cuda:0" if torch.cuda.is_available() else "use cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about names it once knew
            found = torch.device(device)
            if found.type != "meta":
                (torch.ones(1, device=found) + 1).item()
    except Exception as error:  # torch raises many kinds, one for each sort of device that is not there
        raise InputError(f"There is no device {shown} here: {use}.") from error
    if found.type == "meta":
        raise InputError(f"The device {shown} holds no numbers, so no model can compute there: {use}.")
    return found
