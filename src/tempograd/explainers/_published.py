"""What the released code asks instead of the user's question, for methods that are not in tempograd_paper yet."""

import torch
from torch import Tensor

from tempograd.engine import Question, one_logit
from tempograd.errors import InputError

REAL = ("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer")
SYNTHETIC = ("switch_feature", "state")


def as_published(question: Question, quirks: frozenset[str]) -> Question:
    """A6: read the raw output. B6: explain the last step only. B7: keep each cell's effect on its own step."""
    steps = question.asked_steps
    if quirks & {"B6", "B7"}:
        steps = None
        with torch.no_grad():
            answer = question.call(question.block(slice(0, 1)).x)
        if answer.ndim == 3:
            last = torch.arange(answer.shape[1]) == question.lengths.cpu()[:, None] - 1
            steps = "own" if "B7" in quirks else last
    return question.but(output="raw" if "A6" in quirks else question.output, asked_steps=steps)


def explained_as_published(target: Tensor | None, question: Question, output: str) -> Tensor | None:
    """A6 reads a single logit as it is, as output 0; it is still that of class 1 of two."""
    columns = question.columns
    if target is None or columns is None or question.output == output or not one_logit(columns, output):
        return target
    if question.asked_target is not None:
        raise InputError(
            "As the released code does it (A6) the model's only output is read as it is, so no class of two "
            "can be asked for: leave target out."
        )
    return target + 1
