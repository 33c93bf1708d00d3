"""What ``tempograd explain`` tells about a run, as plain data."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tempograd.data import Series
    from tempograd.explanation import Explanation

STRONGEST = 5
CELLS = 10  # of each series, whose signs are what people read first
BATCH = 64


def summary(explanation: "Explanation", model: "nn.Module", series: "Series") -> dict[str, Any]:
    r"""Return what an explanation is about and how far it can be trusted.

    A channel's share is its part of the sum of all sizes of scores, :math:`\sum_{n,t} |A_{ntd}|`; scores below
    0 of methods without a sign count as 0.
    """
    from tempograd._utils.validation import filled_with
    from tempograd.explanation.diagnostics import completeness_gap
    from tempograd.explanation.messages import sentence
    from tempograd.shown import sizes

    size = sizes(explanation).sum((0, 1)).double()
    share = size / size.sum() if float(size.sum()) else size
    names = explanation.channels or tuple(f"channel {number}" for number in range(len(share)))
    order = share.argsort(descending=True, stable=True)[:STRONGEST].tolist()
    answers = _answers(model, explanation, series.x)
    if explanation.change is None:
        explanation = replace(explanation, change=change(explanation, model, answers, series.x))
    errors = explanation.relative_error
    found: dict[str, Any] = {
        "method": explanation.method,
        "baseline": filled_with(explanation.baseline, series.x, explanation.mask),
        "series": len(explanation),
        "steps": explanation.values.shape[1],
        "channels": explanation.values.shape[2],
        "missing": 0.0 if explanation.mask is None else 1 - float(explanation.mask.double().mean()),
        "outputs": answers.shape[-1],
        "predicted": None,
        "output": explanation.output,
        "what": what(explanation),
        "explained": {},
        "accuracy": accuracy(answers, explanation, series),
        "verdict": sentence(explanation, option="--set "),
        "relative_error": None if errors is None else _finite(float(errors.median())),
        "sign_certain": sign_certain(explanation),
        "completeness_gap": completeness_gap(explanation),
        "strongest_channels": [{"channel": names[place], "share": float(share[place])} for place in order],
    }
    if explanation.target is not None:
        found["explained"] = _counts(explanation.target)
        found["predicted"] = _counts(answers.argmax(-1)) if explanation.output == "probability" else None
    return found


def _counts(classes: "Tensor") -> dict[str, int]:
    """Return how often each class occurs; as text, since JSON has no other keys."""
    import torch

    numbers, counts = torch.unique(classes, return_counts=True)
    return {str(n): c for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)}


def what(explanation: "Explanation") -> str:
    """Say what was explained: what was made of the model's outputs, and how to have it otherwise."""
    outputs, one = explanation.columns, explanation.columns == 1
    if explanation.output == "raw":
        return "the model's one output as it is" if one else f"one of the model's {outputs} outputs as it is"
    if one:
        asked = explanation.target
        which = 0 if asked is not None and not bool(asked.any()) else 1
        return f"the probability of class {which} by a sigmoid of the one output (--output raw for a regression)"
    whose = (
        "a score of your own from the probabilities"
        if explanation.target is None
        else "the probability of a class"
    )
    return f"{whose} by softmax over {outputs} outputs (--output raw for a forecast)"


def accuracy(answers: "Tensor", explanation: "Explanation", series: "Series") -> float | None:
    """Return the share of labels that the model predicts; None without labels that are classes."""
    import torch

    from tempograd._utils.validation import lengths

    values = series.y.is_floating_point() or answers.shape[-1] == 1  # one raw output says no class
    if not series.labelled or values or answers.shape[:-1] != series.y.shape:
        return None
    right = answers.argmax(-1) == series.y
    if right.ndim == 2:  # steps of the padding have no label
        right = right[torch.arange(right.shape[1]) < lengths(explanation.mask, series.x)[:, None]]
    return float(right.double().mean())


def sign_certain(explanation: "Explanation") -> float | None:
    """Return the share of each series' strongest values whose 95 % interval leaves 0 out; 0 itself has no sign."""
    import torch

    if explanation.standard_error is None or explanation.effective_points is None or not explanation.signed:
        return None
    top = explanation.top(min(CELLS, explanation.values[0].numel()))
    places = (top.time * explanation.values.shape[2] + top.channel).clamp(min=0)
    low, high = (side.flatten(1).gather(1, places) for side in explanation.interval(0.95))
    certain = ((low > 0) | (high < 0))[top.values != 0]
    return float(certain.double().mean()) if torch.numel(certain) else None


def change(explanation: "Explanation", model: "nn.Module", answers: "Tensor", x: "Tensor") -> "Tensor | None":
    """Return the explained score of each series minus that of its baseline; None where no one number is it."""
    import torch
    from torch import Tensor

    from tempograd.engine import pick

    steps, target = explanation.steps, explanation.target
    if target is None or isinstance(steps, str):
        return None
    start = explanation.baseline
    if explanation.mask is not None:  # what was not observed stays as it is
        start = torch.where(explanation.mask, start, x)
    found = pick(answers, target.cpu()) - pick(_answers(model, explanation, start), target.cpu())
    return (found * steps.cpu()).sum(-1) if isinstance(steps, Tensor) else found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _answers(model: "nn.Module", explanation: "Explanation", z: "Tensor") -> "Tensor":
    """Return what the model says about series, on the CPU."""
    import torch

    from tempograd.engine import place, predict, quiet

    with quiet(model), torch.no_grad():
        where = place(model, z)
        parts = torch.split(z, BATCH)
        return torch.cat([predict(model, part.to(*where), explanation.output).cpu() for part in parts])
