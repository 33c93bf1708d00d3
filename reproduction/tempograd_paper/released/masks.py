"""What the released Dynamask, extremal masks and ContraLSP have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tempograd.engine import Ask, apply_link, both_logits
from tempograd.explainers.masks import Groups, LearntMask, LossTerm, TensorFunction, over_steps
from tempograd_paper.released.base import Released

RAW = "the error compares raw outputs, also where the classifier has probabilities"
LAST_STEP = "of a model with one output per step, the masks explain the last step only"
HARD_LABELS = "probabilities go through softmax once more, and are compared with the most likely class"


def hard_label_error(clean: Tensor, output: str, steps: Tensor | None) -> TensorFunction:
    """0.3.6: cross-entropy of the softmax of probabilities against the most likely class of the clean answer."""
    winner = both_logits(clean[:, None], output).argmax(-1, keepdim=True)

    def apart(answer: Tensor) -> Tensor:
        answer = both_logits(answer, output)
        wanted = winner.expand(*answer.shape[:-1], 1)
        return over_steps(-apply_link(answer, output).log_softmax(-1).gather(-1, wanted)[..., 0], steps)

    return apart


@dataclass(frozen=True)
class ReleasedMask(Released, LearntMask):
    """A mask method with hard labels (0.3.6), and a dense Adam on the mean loss of a batch (0.3.5)."""

    def _distance(self, clean: Tensor, output: str, steps: Tensor | None) -> TensorFunction:
        known = hard_label_error if "0.3.6" in self.quirks else super()._distance
        return known(clean, output, steps)

    def _steps(self, ask: Ask, groups: Groups, leaves: Sequence[Tensor]) -> Groups:
        if "0.3.5" not in self.quirks:
            return groups
        return [[still(leaves), *mean_losses(group, _series(group))] for group in groups]


def still(leaves: Sequence[Tensor]) -> LossTerm:
    """Return a loss of 0, whose gradient is 0 rather than absent: the momentum of a leaf then moves it on."""
    return LossTerm(slice(0, 0), leaves, lambda _: torch.stack([0 * leaf.sum() for leaf in leaves]).sum())


def mean_losses(group: Sequence[LossTerm], count: int) -> list[LossTerm]:
    """Divide the losses of a group by a number of series."""

    def divided(problem: LossTerm) -> LossTerm:
        return problem._replace(loss=lambda epoch: 1 / count * problem.loss(epoch))

    return [divided(problem) for problem in group]


def _series(group: Sequence[LossTerm]) -> int:
    return sum(problem.rows.stop - problem.rows.start for problem in group)
