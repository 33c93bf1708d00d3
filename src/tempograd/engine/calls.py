"""How a model is called: with which inputs beside the series, in which order of axes, and what of its output."""

from dataclasses import dataclass
from typing import Any

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
