"""How a model is called, and what its outputs are: said once, for every call."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, get_args

from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.typing import Model, ModelLayout, Pick, Task


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model, how it is called with series, and what its outputs are.

    Parameters
    ----------
    model : nn.Module, callable or estimator
        Takes series (batch, time, channel) and returns one row of outputs per series.
    task : {"classification", "binary", "multilabel", "regression", "forecast", "per_step"}, optional
        What the outputs are. ``"binary"``: one column, the logit of class 1, whose complement is class 0.
    classes : sequence of str, optional
        Names of the outputs; that of a number may end in its unit, such as ``"length of stay [days]"``.
    pick : str or int, optional
        Which part of a dict, a tuple or an object the output is: ``"logits"``, ``1``, ``"states.0"``.
    layout : {"BTD", "BDT", "TBD", "BT"}
        Order of the axes that the model takes: batch, time, channel; ``"BT"`` for one channel without an axis.
    modules : sequence of nn.Module, optional
        The modules that a function runs, where it hides them: series are sent to their device, and they are
        frozen while they are explained.
    reset : callable, optional
        Called before every pass, for models that keep state between calls.

    Examples
    --------
    >>> import torch
    >>> conv = nn.Conv1d(3, 2, 4)
    >>> Predictor(conv, layout="BDT", task="forecast").task
    'forecast'
    """

    model: Model
    _: KW_ONLY
    task: Task | None = None
    classes: tuple[str, ...] | None = None
    pick: Pick | None = None
    layout: ModelLayout = "BTD"
    modules: tuple[nn.Module, ...] | None = None
    reset: Callable[[], object] | None = None

    if TYPE_CHECKING:  # any sequences, which become tuples

        def __init__(
            self,
            model: Model,
            *,
            task: Task | None = None,
            classes: Sequence[str] | None = None,
            pick: Pick | None = None,
            layout: ModelLayout = "BTD",
            modules: Sequence[nn.Module] | None = None,
            reset: Callable[[], object] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.model, Predictor):
            raise InputError("model is a Predictor already: pass it as it is, or make a new one from its model.")
        validation.check_model(self.model)
        if self.task is not None:
            validation.check_choice(self.task, "task", get_args(Task))
        check_call(self.pick, self.layout)
        object.__setattr__(self, "classes", validation.check_classes(self.classes, None))
        if self.modules is not None:
            modules = tuple(self.modules)
            if not modules or not all(isinstance(module, nn.Module) for module in modules):
                raise InputError(
                    f"modules must hold the modules that the function runs, got {brief(self.modules)}."
                )
            object.__setattr__(self, "modules", modules)
        if self.reset is not None and not callable(self.reset):
            raise InputError(f"reset must be a function without arguments, got {brief(self.reset)}.")

    @classmethod
    def of(cls, model: Any) -> "Predictor":
        """Return a predictor as it is, and a model as one of which nothing more is known."""
        return model if isinstance(model, Predictor) else cls(model)

    @property
    def called(self) -> Model:
        """The model as a function of series whose modules can be found."""
        if self.modules is None and self.reset is None:
            return self.model
        return WithModules(self.model, self.modules or (), self.reset)


def check_call(pick: Any, layout: Any, name: str = "layout") -> None:
    """Refuse an order of axes that there is none, and parts of an output that are no name or place."""
    validation.check_choice(layout, name, get_args(ModelLayout))
    if pick is not None and (isinstance(pick, bool) or not isinstance(pick, (str, int))):
        raise InputError(f"pick must be a name or a place in what the model returns, got {brief(pick)}.")


class WithModules(nn.Module):
    """Runs a function, and holds the modules that it runs."""

    def __init__(self, function: Any, modules: Sequence[nn.Module], reset: Callable[[], object] | None) -> None:
        super().__init__()
        held = (*modules, *([function] if isinstance(function, nn.Module) else []))
        self.held = nn.ModuleList(held)
        self.training = any(module.training for module in held)
        self._function, self._reset = (function.__call__ if isinstance(function, nn.Module) else function), reset

    def forward(self, *inputs: Tensor, **named: Any) -> Any:
        if self._reset is not None:
            self._reset()
        return self._function(*inputs, **named)
