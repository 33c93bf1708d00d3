"""How a model is called: with which inputs beside the series, in which order of axes, and what of its output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tempograd.engine.conventions import NO_GRADIENT, Called, Convention, Estimator, OfArrays, as_model, bound
from tempograd.engine.guesses import Guess
from tempograd.engine.model import Model
from tempograd.errors import ModelError
from tempograd.typing import Output, Task


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

    def __post_init__(self) -> None:
        Convention(self.model_layout, self.pick)  # which checks them

    def adapt(self, model: Model) -> Model:
        """Return the model as a function of series (batch, time, channel) alone; a plain one is itself."""
        model, convention = as_model(model), Convention(self.model_layout, self.pick)
        return model if convention == Convention() else bound(convention, model)

    @property
    def plain(self) -> dict[str, Any]:
        """Return what a file tells of it."""
        return {"pick": self.pick, "model_layout": self.model_layout}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the call that a file tells of; what it does not know is as usual."""
        return cls(**{name: plain[name] for name in ("pick", "model_layout") if name in plain})


def require_torch(model: Model) -> None:
    """Refuse, before anything runs, a model that is known to leave torch, for methods that need its gradient."""
    known = _innermost(model)
    if isinstance(known, (Estimator, OfArrays)):
        name = known.name if isinstance(known, Estimator) else "The model"
        raise ModelError(f"{name} computes with {NO_GRADIENT}.")


def _innermost(model: Model) -> Model:
    return model.model if isinstance(model, Called) else model


def told_by(
    model: Model, output: Output, task: Task | None, classes: Sequence[str] | None
) -> tuple[Output, Task | None, Sequence[str] | None]:
    """Complete what an estimator knows: its columns are explained as they are, and its classes have names."""
    known = _innermost(model)
    if not isinstance(known, Estimator):
        return output, task, classes
    if isinstance(output, Guess) or known.method == "predict_proba":
        output = "raw"
    return output, task or known.task, known.classes if classes is None else classes
