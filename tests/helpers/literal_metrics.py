"""Metrics as their definitions read: one series, one cell, one step at a time; and what tests share."""

import math

import torch
from torch import nn

from tempograd.core.question import Question
from tempograd.explanation import Explanation


class Net(nn.Module):
    """A small recurrent classifier, with one output per series or per step."""

    def __init__(self, channels=2, classes=3, per_step=False, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.gru = nn.GRU(channels, 5, batch_first=True)
            self.head = nn.Linear(5, classes)
        self.per_step = per_step
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(3)
            self.head.bias.zero_()

    def forward(self, x):
        hidden = self.gru(x)[0]
        return self.head(hidden if self.per_step else hidden[:, -1])


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_hand(values, x, target=None, mask=None, steps=None, output="probability", ids=None, picker=None, **more):
    return Explanation(
        values=values,
        output=output,
        baseline=torch.zeros_like(x),
        x=x,
        ids=torch.arange(len(x)) if ids is None else torch.as_tensor(ids),
        seed=0,
        method="hand",
        parameters={},
        fingerprint="",
        question=Question(target=picker),
        target=target,
        mask=mask,
        steps=steps,
        **more,
    )


def outputs(model, z, output):
    """What the model says about one series, as a list of steps, each a list of class outputs."""
    with torch.no_grad():
        answer = model(z[None])[0]
    rows = answer.tolist() if answer.ndim == 2 else [answer.tolist()]
    if output == "raw":
        return rows
    if len(rows[0]) == 1:
        rows = [[0.0, row[0]] for row in rows]  # a single logit is that of class 1 of two
    powers = [[math.exp(value) for value in row] for row in rows]
    return [[power / sum(row) for power in row] for row in powers]


def without(x, cells, baseline):
    z = x.clone()
    for t, d in cells:
        z[t, d] = baseline[t, d]
    return z


def important_first(values, mask, rank):
    """Observed cells, best first; the maps of these tests have no ties."""
    time, depth = values.shape
    cells = [(t, d) for t in range(time) for d in range(depth) if mask[t, d]]
    return sorted(cells, key=lambda c: -(abs(values[c]) if rank == "absolute" else values[c]).item())


def steps_mean(per_step, steps):
    chosen = [value for value, use in zip(per_step, steps, strict=True) if use]
    return sum(chosen) / len(chosen) if chosen else math.nan


def cumulative(model, x, order, baseline, count, output, steps):
    total = 0.0
    for k in range(count):
        before = outputs(model, without(x, order[:k], baseline), output)
        after = outputs(model, without(x, order[: k + 1], baseline), output)
        per_step = [sum(abs(a - b) for a, b in zip(p, q, strict=True)) for p, q in zip(before, after, strict=True)]
        total += steps_mean(per_step, steps)
    return total


def faithfulness(model, x, values, mask, target, baseline, count, *, output, steps, rank):
    """All metrics that remove cells, for one series; ``target`` and ``steps`` are lists over the steps."""
    order = important_first(values, mask, rank)
    count = min(count, len(order))
    clean = outputs(model, x, output)
    last = outputs(model, without(x, order[:count], baseline), output)
    kept = outputs(model, without(x, order[count:], baseline), output)

    def mean(function):
        return steps_mean([function(s, c) for s, c in enumerate(target)], steps)

    def same_class(s, c):
        return float(max(range(len(last[s])), key=lambda i: last[s][i]) == c)

    return {
        "cpd": cumulative(model, x, order, baseline, count, output, steps),
        "cpp": cumulative(model, x, order[::-1], baseline, count, output, steps),
        "prediction_difference": mean(lambda s, c: abs(clean[s][c] - last[s][c])),
        "accuracy": mean(same_class),
        "accuracy_half": mean(lambda s, c: float(last[s][c] >= 0.5)),
        "cross_entropy": mean(lambda s, c: -math.log(last[s][c])),
        "log_odds": mean(lambda s, c: math.log(last[s][c]) - math.log(clean[s][c])),
        "comprehensiveness": mean(lambda s, c: clean[s][c] - last[s][c]),
        "sufficiency": mean(lambda s, c: clean[s][c] - kept[s][c]),
    }
