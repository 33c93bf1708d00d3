"""What is evaluated: a model, the series it was explained on, and what takes the place of removed cells."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from tempograd import checks
from tempograd.engine import Model, class_count, place
from tempograd.errors import InputError, ModelError
from tempograd.explanation import Explanation
from tempograd.shown import explained_class


@dataclass(frozen=True)
class Subject:
    """Everything a removal needs to know, checked and completed."""

    model: Model
    explanation: Explanation
    x: Tensor
    mask: Tensor | None
    substitute: Tensor  # like x
    observed: Tensor  # (series,), cells that can be removed
    device: torch.device
    dtype: torch.dtype
    chunk: int | None

    @classmethod
    def of(cls, model: Model, explanation: Explanation, x: Any, substitute: Any, chunk: int | None) -> Self:
        """Check and complete the arguments of a call."""
        x = given_series(explanation, x)
        if x is None:
            raise InputError("The explanation was saved without its series: pass them as x=, in the same order.")
        if chunk is not None:
            checks.whole(chunk, "chunk", 1)
        mask = None if explanation.mask is None else explanation.mask.to(x.device)
        cells = x[0].numel()
        device, dtype = place(model, x)
        return cls(
            model=model,
            explanation=explanation,
            x=x,
            mask=mask,
            substitute=checks.fill(substitute, x, mask, "substitute"),
            observed=torch.full((len(x),), cells) if mask is None else mask.flatten(1).sum(1).cpu(),
            device=device,
            dtype=dtype,
            chunk=chunk,
        )

    def cells_observed(self, rows: slice) -> Tensor:
        """Which cells can be removed, (series, time · channel)."""
        if self.mask is None:
            return torch.ones((), dtype=torch.bool, device=self.device).expand(self.x[rows].flatten(1).shape)
        return self.mask[rows].to(self.device).flatten(1)

    def steps(self, rows: slice, answer: Tensor) -> Tensor | None:
        """Which steps are averaged over, (series, time); None for one output per series."""
        time, steps = self.x.shape[1], self.explanation.steps
        per_step = answer.ndim == 3 and answer.shape[1] == time
        if not per_step and (steps is not None or (answer.ndim > 2 and self.explanation.target is not None)):
            wanted = f"(batch, {time}, classes)" if steps is not None else "(batch, classes)"
            raise ModelError(
                f"The model returned shape {tuple(answer.shape)}, but the explanation is of a model that returns "
                f"{wanted}: evaluate with the model that was explained."
            )
        if not per_step:
            return None
        if isinstance(steps, Tensor):
            return steps[rows].to(self.device)
        length = checks.lengths(None if self.mask is None else self.mask[rows], self.x[rows])
        return (torch.arange(time) < length[:, None]).to(self.device)

    def target(self, rows: slice, answer: Tensor, steps: Tensor | None) -> Tensor | None:
        """Return the explained class, (series,) or (series, time); None if a function picked the score."""
        explained = explained_class(self.explanation, answer.shape[-1])
        if explained is None:
            return None
        target, classes = explained[rows].to(self.device), class_count(answer.shape[-1], self.explanation.output)
        if target.ndim == 2 and steps is None:
            raise ModelError(
                f"The explanation has one target per step, but the model returned shape {tuple(answer.shape)}: "
                "evaluate with the model that was explained."
            )
        if bool(((target < 0) | (target >= classes)).any()):
            raise ModelError(
                f"The explained class {int(target.max())} is out of range, the model has {classes} outputs: "
                "evaluate with the model that was explained."
            )
        return target if steps is None or target.ndim == 2 else target[:, None].expand(steps.shape)


def given_series(explanation: Explanation, x: Any) -> Tensor | None:
    """Return the explained series: those given, else those kept with the explanation, else None."""
    shape = tuple(explanation.values.shape)
    if not bool(explanation.values.isfinite().all()):
        raise InputError("The explanation holds NaN or infinity, and such cells have no rank.")
    if x is None:
        x = explanation.x
    if x is None:
        return None
    tensor = checks.series(x, gaps=explanation.mask is not None)
    if tensor.shape != shape:
        raise InputError(f"x must be the explained series, {shape}, got {tuple(tensor.shape)}.")
    return tensor if explanation.mask is None else _filled(tensor, explanation.mask, explanation.baseline)


def _filled(x: Tensor, mask: Tensor, baseline: Tensor) -> Tensor:
    """Put the baseline where NaN stands for a value that was not observed, as the explanation did."""
    gaps = x.isnan()
    if not bool(gaps.any()):
        return x
    if bool((gaps & mask.to(x.device)).any()):
        raise InputError("x holds NaN in cells that were explained: pass the series that were.")
    return torch.where(gaps, baseline.to(x), x)
