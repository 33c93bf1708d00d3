"""FIT as released, and the fault that it shares with WinIT."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.estimate import Estimate
from tempograd.engine import Ask
from tempograd.explainers import Fit
from tempograd.explainers.prefix import FitSchedule, Generator
from tempograd_paper.labels import REAL
from tempograd_paper.released.base import Released

_Recipe = Literal["validated", "plain"]


def scrambled(values: Tensor) -> Tensor:
    """B2: lay scores out as (series, channel, time) and read them as (series, time, channel).

    Examples
    --------
    >>> import torch
    >>> scrambled(torch.tensor([[[1, 4], [2, 5], [3, 6]]])).tolist()
    [[[1, 2], [3, 4], [5, 6]]]
    """
    return values.mT.reshape(values.shape)


@dataclass(frozen=True)
class Scrambled(Released):
    """A method whose scores come out in the wrong layout (B2)."""

    faults: ClassVar[Mapping[str, str]] = {"B2": "scores laid out by channel are read as if laid out by step"}

    def attribute(self, ask: Ask) -> list[Estimate]:
        found: list[Estimate] = super().attribute(ask)  # type: ignore[safe-super]  # that of the method
        return [one._replace(values=scrambled(one.values)) for one in found] if "B2" in self.quirks else found


class PlainGenerator(Generator):
    """The generator of the code that the paper ran on synthetic data: latents' mean and spread lie in (-1, 1)."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__(channels, hidden, noise=1e-5)
        self.latent.append(nn.Tanh())

    def losses(self, x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        """Learn one random step of every batch, none of the first four where the series are longer."""
        time = x.shape[1]
        yield self.surprise_at(int(torch.randint(min(4, time - 1), time, (), generator=rng)), x, rng)


@dataclass(frozen=True)
class ReleasedFit(Scrambled, Fit):
    """FIT as released.

    On real data scores are reshaped, not transposed, into steps and channels (B2). On synthetic data the generator
    is another one, learnt from the series that are explained: ``protocols/published.py`` passes those to ``fit``.

    Parameters
    ----------
    recipe : {"validated", "plain"}
        How the generator is made and learns: as in the library, or as in the code that the paper ran on synthetic
        data. There the latents' mean and spread lie in (-1, 1), the added variance is 1e-5, one random step of
        every batch is learnt, and the last weights are kept. Two things differ from it: batches come in a new
        order every epoch, and densities are computed in double precision.
    """

    recipe: _Recipe = validation.choice("validated", _Recipe)

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the fault that made its numbers.

        On real data all 301 epochs are run, the 300 of the method and one more as released, and the best weights
        are kept: those of the lowest loss on a tenth of the training series, on the fold's held-out series as
        released.
        """
        cls._check(dataset)
        if dataset in REAL:
            return cls(10, None, epochs=301, patience=None, fit_batch_size=100, quirks=frozenset(cls.faults))
        return cls(10, 6, epochs=200, patience=None, fit_batch_size=32, recipe="plain")

    def _fit_schedule(self) -> FitSchedule:
        schedule = super()._fit_schedule()
        return schedule._replace(held_out=0) if self.recipe == "plain" else schedule

    def _network(self) -> type[Generator]:
        return PlainGenerator if self.recipe == "plain" else super()._network()
