"""What every metric shares: settings as fields, a direction, and the name its scores are reported under."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from torch import Tensor

from tempograd.core import validation
from tempograd.core.registry import Registry
from tempograd.metrics.asking import Evaluation
from tempograd.typing import Rank, Setting

KINDS = "a class under Faithfulness or Localisation of tempograd.metrics, or a Metric with measure()"
METRICS: Registry[type["Metric"]] = Registry(
    "metric",
    "tempograd.metrics",
    lambda thing: (
        isinstance(thing, type) and issubclass(thing, Metric) and "measure" not in thing.__abstractmethods__
    ),
    KINDS,
)
RANKS: tuple[Rank, ...] = get_args(Rank)


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """Gives every explained series one score.

    Subclasses are frozen dataclasses: their fields are the settings, and nothing else. Most are of one of two
    kinds: :class:`~tempograd.metrics.faithfulness.Faithfulness` takes cells away and looks at the model,
    :class:`~tempograd.metrics.localisation.Localisation` compares the scores with the truly salient cells. A class
    with a :meth:`measure` of its own is another kind.

    Parameters
    ----------
    name : str, optional
        What the scores are reported under, by default the name in the registry.
    rank : {"absolute", "signed"}
        Whether the size of a signed attribution makes a cell important, or its value, most positive first.
    """

    higher_is_better: ClassVar[bool]
    """The direction of a good score."""
    runs_model: ClassVar[bool] = False
    """Whether the model is run to compute it."""

    name: str = validation.setting("", validation.check_text)
    rank: Rank = validation.choice("absolute", Rank)

    if TYPE_CHECKING:  # a class from the registry has settings of its own

        def __init__(self, *, name: str = "", rank: Rank = "absolute", **settings: Setting) -> None: ...

    def __post_init__(self) -> None:
        validation.check_settings(self)
        if not self.name:
            object.__setattr__(self, "name", METRICS.name_of(type(self)) or type(self).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}

    @property
    def whole(self) -> bool:
        """Whether all series together get one score."""
        return bool(getattr(self, "pooled", False))

    @classmethod
    @abstractmethod
    def measure(cls, metrics: Sequence[Self], evaluation: Evaluation) -> dict[str, Tensor]:
        """Return the scores of each metric, (series,), by its name; those that share this method come together."""
