"""What the released code asks instead of the user's question, by the keys of the published protocol."""

from collections.abc import Callable

import torch
from torch import Tensor

from tempograd.engine import LAST_STEP, WHERE_PER_STEP, Question
from tempograd.explainers._path import Attribution

REAL = ("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer")
SYNTHETIC = ("switch_feature", "state")


def as_published(question: Question, quirks: frozenset[str]) -> Question:
    """A6: read the raw output. B6: explain the last step only. B7: keep each cell's effect on its own step."""
    steps = question.asked_steps
    for key, wrong in (("B6", LAST_STEP), ("B7", WHERE_PER_STEP)):
        steps = wrong if key in quirks else steps
    return question.but(output="raw" if "A6" in quirks else question.output, asked_steps=steps)


def summed_over_prefixes(question: Question, attribute: Callable[[Question], Attribution]) -> Attribution:
    """1.4: explain the last prediction of every prefix and add up the magnitudes.

    The target is the class predicted at the end of each prefix. A sum of magnitudes has no useful error.
    """
    question.read_all()
    total = torch.zeros(question.x.shape, device=question.x.device)
    for end in range(1, question.x.shape[1] + 1):
        part = Question.ask(
            question.model,
            question.x[:, :end],
            baseline=question.baseline[:, :end],
            mask=None if question.mask is None else question.mask[:, :end],
            steps=None if question.steps is None else end - 1,
            output=question.output,
            seed=question.seed + (end << 32),  # each prefix has its own masks
            ids=question.ids,
            chunk=question.chunk,
        )
        values: Tensor = attribute(part).values
        total[:, :end] += values.abs()
    return Attribution(total)
