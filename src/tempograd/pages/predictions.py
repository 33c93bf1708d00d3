"""What the model says about the series of a report, as they are and with the strongest cells removed."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from tempograd.data import Split
from tempograd.engine import Model, pick, pieces, place, predict, quiet
from tempograd.explanation import Explanation
from tempograd.metrics._removal import rankings
from tempograd.pages.records import THE_OUTPUT, Curve, Flags, Outputs, StepOutputs, plain

SHARES = tuple(round(0.05 * step, 2) for step in range(21))
BATCH = 256


def outputs(
    model: Model, explanation: Explanation, x: Tensor, index: int, split: Split | None = None
) -> Outputs | StepOutputs | None:
    """Return the model's output for one series; None where it is neither per series nor per step."""
    answer = _answers(model, x[index : index + 1], explanation.output)[0]
    target = None if explanation.target is None else explanation.target[index].cpu()
    label = None if split is None else split.y[index].cpu()
    probability = explanation.output == "probability"
    if answer.ndim == 1:
        return Outputs(
            values=plain(answer),
            probability=probability,
            target=int(target) if target is not None and target.ndim == 0 else None,
            label=int(label) if label is not None and label.ndim == 0 and not label.is_floating_point() else None,
            true_value=float(label)
            if label is not None and label.ndim == 0 and label.is_floating_point()
            else None,
        )
    if answer.ndim != 2 or len(answer) != x.shape[1] or target is None:
        return None
    return _per_step(answer, target, label, probability, _explained(explanation, index))


def _per_step(
    answer: Tensor, target: Tensor, label: Tensor | None, probability: bool, explained: Flags
) -> StepOutputs:
    """Follow class 1 of two, the only output of one, and the explained class of more."""
    classes = answer.shape[-1]
    target = target.expand(len(answer))
    followed = target if classes > 2 else torch.full_like(target, classes - 1)
    labels = None
    if label is not None and label.ndim == 1 and not label.is_floating_point():
        labels = (label == (1 if classes == 1 else followed)).numpy()
    kind = "probability" if probability else "output"
    name = f"{kind} of the explained class" if classes > 2 else f"{kind} of class 1"
    return StepOutputs(
        name=THE_OUTPUT if classes == 1 and not probability else name,
        values=plain(answer.gather(-1, followed[:, None]).squeeze(-1)),
        probability=probability,
        labels=labels,
        explained=explained,
    )


def _explained(explanation: Explanation, index: int) -> Flags:
    if isinstance(explanation.steps, Tensor):
        return explanation.steps[index].cpu().numpy()
    return np.ones(explanation.values.shape[1], dtype=np.bool_)


def curves(model: Model, explanations: Mapping[str, Explanation], x: Tensor, index: int) -> tuple[Curve, ...]:
    """Return how the explained score of one series moves as its strongest cells give way to the baseline."""
    found = []
    for label, explanation in explanations.items():
        if explanation.target is None:
            continue  # a function picked the score, and it is not kept
        series = _removed(explanation, x[index], index)
        answer = _answers(model, series, explanation.output)
        target = explanation.target[index].cpu().expand(len(answer), *explanation.target[index].shape)
        score = pick(answer, target)
        if score.ndim == 2:
            explained = torch.from_numpy(_explained(explanation, index)).to(score)
            score = (score * explained).sum(1) / explained.sum().clamp(min=1)
        found.append(Curve(label, SHARES, tuple(plain(score).tolist())))
    return tuple(found)


def _removed(explanation: Explanation, x: Tensor, index: int) -> Tensor:
    """Return the series with 0 %, 5 %, … 100 % of its observed cells at the baseline, strongest first."""
    size = explanation.strength[index].flatten().cpu()
    if explanation.mask is None:
        observed = torch.ones_like(size, dtype=torch.bool)
    else:
        observed = explanation.mask[index].flatten().cpu()
    rank = rankings(size[None], observed[None], explanation.ids[index : index + 1])[0]
    counts = (torch.tensor(SHARES).double() * observed.sum()).round()
    gone = rank < counts[:, None]  # unobserved cells rank last
    return torch.where(gone.view(-1, *x.shape), explanation.baseline[index].cpu().to(x.dtype), x.cpu())


def _answers(model: Model, x: Tensor, output: str) -> Tensor:
    with quiet(model), torch.no_grad():
        device, dtype = place(model, x)
        parts = [predict(model, x[rows].to(device, dtype), output).cpu() for rows in pieces(len(x), BATCH)]
    return torch.cat(parts)
