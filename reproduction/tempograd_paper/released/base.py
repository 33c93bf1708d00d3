"""What every released method shares: faults of the released code by their keys in the protocol, in words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd.engine import Question, one_logit
from tempograd.errors import InputError, SettingError, UnknownNameError, brief
from tempograd.explainers import Explainer
from tempograd_paper.labels import REAL, SYNTHETIC

RAW_OUTPUT = {"A6": "the raw output is explained, whatever output= says"}
OWN_STEPS = {"B7": "of one output per step only each value's effect on its own step is kept"}


@dataclass(frozen=True)
class Released(Explainer):
    """A method with the faults of the released code, each of which can be switched on by its key.

    Stands before the method among the bases: ``class ReleasedTiming(Released, Timing)``. Three faults are about
    what is asked of the model and are repeated here, for every method that names them: A6, B6 and B7.

    Parameters
    ----------
    quirks : set of str
        Keys of :attr:`faults`. Without any the method is the library's.
    """

    faults: ClassVar[Mapping[str, str]] = {}
    """What the released code does differently, in words, by its key in the protocol."""

    quirks: frozenset[str] = field(default=frozenset(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.quirks, (frozenset, set, list, tuple)):
            raise SettingError(f"quirks must be a set of keys, got {brief(self.quirks)}.")
        for key in self.quirks:
            if not isinstance(key, str) or key not in self.faults:
                raise UnknownNameError(f"quirk of {type(self).__name__}", key, self.faults)
        object.__setattr__(self, "quirks", frozenset(self.quirks))
        super().__post_init__()

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the faults that made its numbers."""
        raise UnknownNameError(f"published setting of {cls.__name__}", dataset, ())

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data, the faults among them."""
        return super().parameters | {"quirks": sorted(self.quirks)}

    @property
    def _examined(self) -> bool:
        """Tell whether settings and results are examined: whoever asks for the faults knows."""
        return not self.quirks

    def _request(self, question: Question) -> Question:
        """A6: read the raw output. B6: explain the last step only. B7: keep each cell's effect on its own step."""
        if not self.quirks:
            return question
        steps = question.asked_steps
        if self.quirks & {"B6", "B7"}:
            steps = None  # where there is one output per series
            with torch.no_grad():
                answer = question.call(question.block(slice(0, 1)).x)
            if answer.ndim == 3:
                last = torch.arange(answer.shape[1]) == question.lengths.cpu()[:, None] - 1
                steps = "own" if "B7" in self.quirks else last
        return question.but(output="raw" if "A6" in self.quirks else question.output, asked_steps=steps)

    def _explained(self, question: Question, output: str) -> Tensor | None:
        """A6 reads a single logit as it is, as output 0; it is still that of class 1 of two."""
        target = question.target if isinstance(question.target, Tensor) else None
        columns = question.columns
        if target is None or columns is None or question.output == output or not one_logit(columns, output):
            return target
        if question.asked_target is not None:
            raise InputError(
                "As the released code does it (A6) the model's only output is read as it is, so no class of two "
                "can be asked for: leave target out."
            )
        return target + 1


def check_dataset(method: str, dataset: str, known: Iterable[str] = REAL + SYNTHETIC) -> None:
    """Refuse data that the paper has no run of a method on."""
    if dataset not in known:
        raise UnknownNameError(f"published setting of {method}", dataset, known)
