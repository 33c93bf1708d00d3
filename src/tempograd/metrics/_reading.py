"""What the model said about a few series in each state of their removal, as metrics want to read it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tempograd.engine import pick
from tempograd.errors import InputError


@dataclass(frozen=True)
class Reading:
    """Raw outputs along a route; state 0 is the clean series.

    With one output per step, everything has a further axis, time, that :meth:`over_steps` averages.
    A model with one column has, as a classifier, the two classes "not" and "yes" (above one half); the
    explained class is then the one of the clean series.
    """

    raw: Tensor  # (series, state, class) or (series, state, time, class)
    output: str
    target: Tensor | None  # (series,) or (series, time)
    steps: Tensor | None  # (series, time), which are averaged over

    @cached_property
    def predictions(self) -> Tensor:
        """The output that was explained, like ``raw``; an output of another shape is one long vector."""
        if self.output == "raw":
            answer = self.raw
        else:
            answer = self.raw.sigmoid() if self._one_column else self.raw.softmax(-1)
        return answer.flatten(2) if self.steps is None else answer

    @cached_property
    def score(self) -> Tensor:
        """The explained output, (series, state) or (series, state, time)."""
        return pick(self.predictions, self._expanded_target)

    @property
    def probability(self) -> Tensor:
        """Probability of the explained class, like ``score``."""
        if self._one_column:
            return (self._sign * self.raw).sigmoid().squeeze(-1)
        return self.score

    @property
    def log_probability(self) -> Tensor:
        """Its logarithm, from the logits where there are any: a probability may be too small for a float."""
        if self._one_column:
            return logsigmoid(self._sign * self.raw).squeeze(-1)
        every = self.raw.log() if self.output == "raw" else self.raw.log_softmax(-1)
        return pick(every, self._expanded_target)

    @property
    def retained(self) -> Tensor:
        """Whether the predicted class is the explained one, like ``score``."""
        if self._one_column:
            return ((self.raw >= 0) == (self.raw[:, :1] >= 0)).squeeze(-1)
        return self.raw.argmax(-1) == self._expanded_target

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
        if self._one_column or not bool(((clean >= 0).all(-1) & sums).all()):
            raise InputError(
                f"{metric} needs probabilities, and the raw output the explanation is about is none: "
                "explain with output='probability', or a model whose rows are non-negative and sum to 1."
            )

    @property
    def _one_column(self) -> bool:
        return self.raw.shape[-1] == 1

    @property
    def _sign(self) -> Tensor:
        """1 where the clean series is a "yes", else -1."""
        return torch.where(self.raw[:, :1] >= 0, 1.0, -1.0).to(self.raw)

    @property
    def _expanded_target(self) -> Tensor:
        if self.target is None:
            raise InputError("This metric follows the explained class, but a function picked the score.")
        return self.target[:, None].expand(self.raw.shape[:-1])
