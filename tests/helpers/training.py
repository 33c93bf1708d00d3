"""Training by hand."""

import torch

from tempograd.data import Dataset, Series

SMALL = {"hidden": 6, "dropout": 0.0}


def toy(series=66, time=5, per_step=False, validation=None, seed=0):
    """Two channels; the class says whether their running sum (their sum) is positive."""
    x = torch.randn(series, time, 2, generator=torch.Generator().manual_seed(seed))
    y = (x.sum(-1).cumsum(-1) > 0).long()
    split = Series(x, y if per_step else y[:, -1])
    return Dataset("toy", split, validation, split, classes=2, channels=("a", "b"))


def weights(model):
    return torch.cat([tensor.flatten().double() for tensor in model.state_dict().values()])


def adam_by_hand(model, losses, rate=1e-4, decay=1e-3):
    """Adam with an L2 penalty, from its recursion, one step per function of the model in ``losses``."""
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for step, loss in enumerate(losses, start=1):
        gradients = torch.autograd.grad(loss(model), parameters)
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                slope = g + decay * p
                m.mul_(0.9).add_(0.1 * slope)
                v.mul_(0.999).add_(0.001 * slope**2)
                p.sub_(rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8))
    return model


def negative_log_likelihood(logits, y):
    return -(logits - torch.logsumexp(logits, -1, keepdim=True))[torch.arange(len(y)), y].mean()
