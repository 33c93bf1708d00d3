"""What every released method shares: the faults of the released code, in words, by keys.

``docs/faults.md`` has all keys in one table, with the methods that show them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch

from tempograd.core.errors import InputError, SettingError, UnknownNameError, brief, listed
from tempograd.core.estimate import Estimate
from tempograd.engine import Ask, one_logit
from tempograd.explainers import Explainer
from tempograd.explanation import Explanation
from tempograd_paper.labels import REAL, SYNTHETIC

RAW_OUTPUT = {"A6": "the raw output is explained, whatever output= says"}
OWN_STEPS = {"B7": "of one output per step only each value's effect on its own step is kept"}


class NoRunError(UnknownNameError):
    """A data set of the paper on which it did not run a method."""

    def __init__(self, method: str, dataset: str, known: Sequence[str]) -> None:
        text = f"The paper has no run of {method} on '{dataset}', only on {listed(known)}."
        super(UnknownNameError, self).__init__(text)


class Keys(frozenset[str]):
    """Keys of faults, which are shown in the same order in every process.

    Examples
    --------
    >>> Keys({"B8", "A6", "B7"}), Keys()
    (frozenset({'A6', 'B7', 'B8'}), frozenset())
    """

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, sorted(self)))}}})" if self else "frozenset()"


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
    """What the released code does differently, in words, by its key in ``docs/faults.md``."""

    datasets: ClassVar[Sequence[str]] = REAL + SYNTHETIC
    """The data sets that the paper has a run of the method on."""

    takes_background: ClassVar[bool] = False  # which the released code does not do

    quirks: frozenset[str] = field(default=frozenset(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.quirks, (frozenset, set, list, tuple)):
            raise SettingError(f"quirks must be a set of keys, got {brief(self.quirks)}.")
        for key in self.quirks:
            if not isinstance(key, str) or key not in self.faults:
                raise UnknownNameError(f"quirk of {type(self).__name__}", key, self.faults)
        object.__setattr__(self, "quirks", Keys(self.quirks))
        object.__setattr__(self, "_examined", not self.quirks)  # whoever asks for the faults knows
        super().__post_init__()

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the faults that made its numbers."""
        raise NotImplementedError

    @classmethod
    def _check(cls, dataset: str) -> None:
        """Refuse data that the paper has no run of the method on."""
        if dataset in cls.datasets:
            return
        if dataset in REAL + SYNTHETIC:
            raise NoRunError(cls().name, dataset, cls.datasets)
        raise UnknownNameError(f"data set that the paper ran {cls().name} on", dataset, cls.datasets)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data, the faults among them."""
        return super().parameters | {"quirks": sorted(self.quirks)}

    def question(self, ask: Ask) -> Ask:
        """A6: read the raw output. B6: explain the last step only. B7: keep each cell's effect on its own step."""
        ask = super().question(ask)
        if not self.quirks:
            return ask
        steps = ask.question.steps
        if self.quirks & {"B6", "B7"}:
            steps = None  # where there is one output per series
            with torch.no_grad():
                block = ask.block(slice(0, 1))
                answer = ask.forward(block.x, block.index)
            if answer.ndim == 3:
                last = torch.arange(answer.shape[1]) == ask.lengths.cpu()[:, None] - 1
                steps = "own" if "B7" in self.quirks else last
        return ask.replace(output="raw" if "A6" in self.quirks else ask.output, steps=steps)

    def _explanation(self, ask: Ask, estimate: Estimate, shown: dict[str, Any]) -> Explanation:
        """A6 reads a single logit as it is, as output 0; it is still that of class 1 of two."""
        explanation, resolved = super()._explanation(ask, estimate, shown), ask.resolved
        same = ask.output == explanation.output or not one_logit(resolved.columns, explanation.output)
        if explanation.target is None or same:
            return explanation
        if ask.question.target is not None:
            raise InputError(
                "As the released code does it (A6) the model's only output is read as it is, so no class of two "
                "can be asked for: leave target out."
            )
        return replace(explanation, target=explanation.target + 1)
