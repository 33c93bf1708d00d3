r"""TIMING for those who use captum: the same call, and accepted wherever a captum method is.

>>> import torch
>>> from captum.attr import NoiseTunnel
>>> from tempograd.captum import Timing
>>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2, bias=False))
>>> x = torch.arange(6.0).view(1, 3, 2)
>>> found = Timing(model).attribute(x, target=1)
>>> bool(torch.allclose(found, model[1].weight[1].view(3, 2) * x, atol=1e-6))
True
>>> NoiseTunnel(Timing(model)).attribute(x, target=1, stdevs=0.1).shape
torch.Size([1, 3, 2])
"""

from tempograd.captum.timing import Timing

__all__ = ["Timing"]
