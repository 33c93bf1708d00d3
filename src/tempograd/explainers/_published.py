"""What the released code asks instead of the user's question, by the keys of the published protocol."""

from collections.abc import Callable

import torch
from torch import Tensor

from tempograd.engine import LAST_STEP, WHERE_PER_STEP, Question
from tempograd.explainers.integration import Attribution

REAL = ("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer")
SYNTHETIC = ("switch_feature", "state")
REAL_FAULTS, TIMING_FAULTS = frozenset({"A3", "A4", "A5", "A7"}), frozenset({"A3", "A4", "A5", "A6", "A7", "1.4"})
TIMING: dict[str, tuple[int, int, int, frozenset[str]]] = {  # segments, min_length, max_length, quirks
    "mimic3": (50, 10, 48, REAL_FAULTS),
    "pam": (10, 10, 600, REAL_FAULTS),
    "boiler": (50, 1, 36, REAL_FAULTS),
    "epilepsy": (10, 10, 10, REAL_FAULTS),
    "wafer": (5, 10, 152, REAL_FAULTS),
    "freezer": (5, 10, 100, REAL_FAULTS),
    # The paper does not state these two: the best of the released sweep (perf/published_cells.py).
    "switch_feature": (5, 1, 100, TIMING_FAULTS),
    "state": (10, 1, 200, TIMING_FAULTS),
}


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
