"""What the model says while the strongest cells of each series give way to the baseline."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tempograd.engine import quiet
from tempograd.explanation import Explanation
from tempograd.metrics.removal import Reading, Route, Subject, walk
from tempograd.typing import Model
from tempograd.views.series import Flags, Floats, Whole, plain


@dataclass(frozen=True)
class Removal:
    """The model's outputs after each count of removed cells, or all that a series has, averaged over its steps."""

    outputs: Floats  # (series, state, output)
    score: Floats | None  # (series, state), the explained output; None if a function picked it
    clean_steps: Tensor | None  # (series, time, output) of the clean series, where the model has such


def removal_counts(most: int) -> Whole:
    """Return the numbers of removed cells that are asked about: each of the first ten, then ever fewer.

    Examples
    --------
    >>> removal_counts(3)
    array([0, 1, 2, 3])
    >>> len(removal_counts(400)), removal_counts(400)[[9, 10, 11, -1]]
    (40, array([  9,  10,  11, 400]))
    """
    if most <= 10:
        return np.arange(most + 1)
    return np.unique(np.concatenate([np.arange(11), np.rint(np.geomspace(10, most, 30)).astype(np.int64)]))


def removal(model: Model, explanation: Explanation, x: Tensor, observed: Flags, counts: Whole) -> Removal:
    """Ask the model about every series with each number of its strongest cells at the baseline."""
    if not observed.all():
        explanation = replace(explanation, mask=torch.from_numpy(observed))
    subject = Subject.of(model, explanation, x, explanation.baseline, None)
    parts: dict[int, tuple[Tensor, Tensor | None, Tensor | None]] = {}

    def read(rows: slice, readings: list[Reading]) -> None:
        (reading,) = readings
        outputs, clean = reading.predictions, None
        if reading.steps is not None:
            clean = outputs[:, 0].cpu()
            outputs = reading.over_steps(outputs.movedim(-1, 0)).movedim(0, -1)
        score = None if reading.target is None else reading.over_steps(reading.score).cpu()
        parts[rows.start] = outputs.cpu(), score, clean

    route = Route("absolute", True, subject.observed, every=True, stops=torch.from_numpy(counts))
    with quiet(model):
        walk(subject, [route], read, "remove")
    outputs, score, clean = zip(*(parts[start] for start in sorted(parts)), strict=True)
    return Removal(
        outputs=plain(torch.cat(outputs)),
        score=None if score[0] is None else plain(torch.cat(score)),
        clean_steps=None if clean[0] is None else torch.cat(clean),
    )
