"""How a model is called: with which inputs beside the series, in which order of axes, and what of its output."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tempograd.engine.model import Model


@dataclass(frozen=True)
class Call:
    """How a model is called.

    Attributes
    ----------
    fixed : mapping or sequence, optional
        What else it is called with.
    pick : str or int, optional
        Which part of what it returns is its output.
    model_layout : str
        Order of the axes that it takes.
    """

    fixed: Any = None
    pick: str | int | None = None
    model_layout: str = "BTD"

    def adapt(self, model: Model) -> Model:
        """Return the model as a function of series (batch, time, channel) alone; a plain one is itself."""
        return model

    def prepared(self, model: Model, x: Tensor) -> tuple[Model, Tensor]:
        """Return the model as a function of series alone, and the explained series as that function takes them.

        These may have further steps behind those of ``x``, which tell the rows apart.
        """
        return self.adapt(model), x

    def extended(self, cells: Tensor, value: float) -> Tensor:
        """Return ``cells``, one for each of the explained series', with ``value`` in the steps behind them."""
        return cells
