"""What the model said about a few series in each state of their removal, as metrics want to read it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tempograd.engine import both_logits, by_class, pick
from tempograd.errors import InputError


@dataclass(frozen=True)
class Reading:
    """Raw outputs along a route; state 0 is the clean series.

    With one output per step, everything has a further axis, time, that :meth:`over_steps` averages.
    A single probability p is that of class 1 of two, and 1 - p that of class 0.
    """

    raw: Tensor  # (series, state, column) or (series, state, time, column)
    output: str
    target: Tensor | None  # (series,) or (series, time)
    steps: Tensor | None  # (series, time), which are averaged over

    @cached_property
    def predictions(self) -> Tensor:
        """The output that was explained, one per class; an output of another shape is one long vector."""
        answer = by_class(self.raw, self.output)
        return answer.flatten(2) if self.steps is None else answer

    @cached_property
    def score(self) -> Tensor:
        """The explained output, (series, state) or (series, state, time)."""
        return pick(self.predictions, self._expanded_target)

    @property
    def probability(self) -> Tensor:
        """Probability of the explained class, like ``score``."""
        return self.score

    @property
    def log_probability(self) -> Tensor:
        """Its logarithm, from the logits where there are any: a probability may be too small for a float."""
        every = self.raw.log() if self.output == "raw" else both_logits(self.raw, self.output).log_softmax(-1)
        return pick(every, self._expanded_target)

    @property
    def retained(self) -> Tensor:
        """Whether the predicted class is the explained one, like ``score``."""
        return both_logits(self.raw, self.output).argmax(-1) == self._expanded_target

    @property
    def change(self) -> Tensor:
        """L1 distance between consecutive predictions, (series, state - 1)."""
        return self.over_steps(self.predictions.diff(dim=1).abs().sum(-1))

    def over_steps(self, value: Tensor) -> Tensor:
        """Average over the explained steps, if there are several; NaN where no step is explained."""
        if self.steps is None:
            return value
        steps = self.steps[:, None]
        return torch.where(steps, value, 0).sum(-1) / steps.sum(-1)

    def require_probability(self, metric: str) -> None:
        """Refuse a raw output that is no probability."""
        if self.output != "raw":
            return
        clean = self.raw[:, 0]
        sums = (clean.sum(-1) - 1).abs() < 1e-4
        if self.raw.shape[-1] == 1 or not bool(((clean >= 0).all(-1) & sums).all()):
            raise InputError(
                f"{metric} needs probabilities, and the raw output the explanation is about is none: "
                "explain with output='probability', or a model whose rows are non-negative and sum to 1."
            )

    @property
    def _expanded_target(self) -> Tensor:
        if self.target is None:
            raise InputError("This metric follows the explained class, but a function picked the score.")
        return self.target[:, None].expand(self.raw.shape[:-1])
