"""TIMING with the structure of the released code, written from the protocol, to measure against.

One batch at a time, a Python loop over segments, cuDNN off so that a GRU in evaluation mode can be
differentiated. It computes what the released code computes, faults included.
"""

import torch
from torch import Tensor, nn


def timing(model: nn.Module, x: Tensor, segments: int, low: int, high: int, points: int = 50) -> Tensor:
    """Attribute one batch (batch, time, channel)."""
    batch, time, channels = x.shape
    flag, torch.backends.cudnn.enabled = torch.backends.cudnn.enabled, False
    try:
        with torch.no_grad():
            target = model(x).argmax(-1)
        alpha = torch.arange(points, device=x.device).view(-1, 1, 1, 1) / points
        free = torch.ones(points, batch, time, channels, device=x.device)
        rows = torch.arange(points, device=x.device)[:, None], torch.arange(batch, device=x.device)[None]
        for _ in range(segments):
            length = torch.randint(low, high + 1, (points, batch), device=x.device)
            channel = torch.randint(channels, (points, batch), device=x.device)
            start = (torch.rand(points, batch, device=x.device) * (time - length)).long()
            grid = torch.arange(int(length.max()), device=x.device).view(-1, 1, 1)
            index = (start + grid) * (grid < length)  # beyond the end: step 0
            free[rows[0], rows[1], index, channel] = 0
        point = (alpha * x * free + x * (1 - free)).view(-1, time, channels).requires_grad_()
        score = model(point).softmax(-1).gather(1, target.repeat(points)[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, point)
        gradient = gradient.view_as(free) * free
        return (gradient.sum(0) * x / (free.sum(0) + torch.finfo(torch.float16).eps)).abs()
    finally:
        torch.backends.cudnn.enabled = flag


@torch.no_grad()
def cpd(model: nn.Module, x: Tensor, attribution: Tensor, steps: int) -> Tensor:
    """Cumulative prediction difference of one batch, one forward per removed cell."""
    series, order = x.flatten(1).clone(), attribution.flatten(1).topk(steps).indices
    before, total = model(x).softmax(-1), torch.zeros(len(x), device=x.device)
    for k in range(steps):
        series.scatter_(1, order[:, k : k + 1], 0.0)
        after = model(series.view_as(x)).softmax(-1)
        total += (before - after).abs().sum(-1)
        before = after
    return total
