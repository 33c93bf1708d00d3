"""How far the explained score of a series is from that of its baseline, for methods that do not read it."""

import torch
from torch import Tensor

from tempograd.engine.question import Question


def change(question: Question) -> Tensor | None:
    """Return the score of each series minus that of its baseline, (series,), in passes of its own.

    None for ``steps="own"``, where no one number is it.
    """
    if isinstance(question.steps, str):
        return None
    found = torch.zeros(len(question.x), device=question.x.device)

    def work(rows: slice, _: int) -> None:
        block = question.settled(question.block(rows))
        if block.clean is not None and block.clean.ndim == 1:
            first = question.scores(block.baseline[:, None], block)[:, 0]
            question.landing.put(found, rows, block.clean - first)

    question.chunks.run(len(found), 1, work, "read the change of the prediction")
    question.landing.land()
    return None if isinstance(question.steps, str) else found
