"""What every metric shares: settings, a direction, and the question of an explanation, asked again.

How that is asked is how everything runs the model that scores or shows an explanation.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, get_args

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg, warn
from tempograd.core.registry import Registry
from tempograd.core.rng import Stream
from tempograd.core.series import Series
from tempograd.engine import Ask, Call, Model, Predictor, one_logit
from tempograd.engine.ask import Background, Resolved
from tempograd.engine.inputs import is_several, pack_inputs
from tempograd.engine.outputs import OUTPUTS
from tempograd.engine.second_look import Varying
from tempograd.explanation import Explanation
from tempograd.explanation.targets import as_explained
from tempograd.typing import Measured, Picker, Rank, Setting

DRAWS = 8  # other series whose values take the place of removed cells, in turn, where nobody says how many


def unknown_score(outputs: Tensor) -> Tensor:
    """Stand for the function that picked the score of an explanation from a file, which could not keep it."""
    raise InputError("The function that picked the score is not kept in files: pass it as target=.")


@dataclass(frozen=True, eq=False, kw_only=True)
class AskAgain(Ask):
    """What an explanation asked. All that was said of model, series and target is the explanation's own."""

    explanation: Explanation
    bare: Model  # as the caller has it

    def one_by_one_if(self, mixed: bool) -> Self:
        """Run each series by itself where batches mix them, unless the caller has chosen their size."""
        return self.replace(batch_size=1) if mixed and self.batch_size is None else self

    @property
    def scored(self) -> bool:
        """Whether the explained score is known: a function may be lost with the process that knew it."""
        return self.question.target is not unknown_score

    @property
    def cells(self) -> int:
        """How many cells a series has, those between several inputs not counted."""
        packing = self.call.packing
        return self.x[0].numel() if packing is None else int(packing.occupied().sum())

    @property
    def steps(self) -> Tensor | None:
        """Which steps are averaged over, (series, time), also where a function picked; None without such."""
        if not self.resolved.per_step:
            return None
        steps = self.resolved.steps
        return steps if isinstance(steps, Tensor) else torch.arange(self.time) < self.lengths[:, None]

    def resolve(self, raw: Tensor) -> Resolved:
        """Find out how this output is the explained one, or refuse it.

        Explanations that do not know their columns are of earlier versions, which called a single probability 0:
        it is that of class 1 of two.
        """
        asked, target = self, self.question.target
        if self.explanation.columns is None and one_logit(raw.shape[-1], self.output) and not callable(target):
            asked = self.replace(target=cast("Tensor", target) + 1)
        try:
            resolved = Ask.resolve(asked, raw)
        except (InputError, ModelError) as error:
            raise self._misfit(raw) from error
        if resolved.shape != self.explanation.output_shape:
            raise self._misfit(raw)
        return resolved

    def _misfit(self, raw: Tensor) -> ModelError:
        target = self.question.target
        what = f"output {int(target.max())}" if isinstance(target, Tensor) else "a score"
        shape = ", ".join(map(str, self.explanation.output_shape or (self.explanation.columns or "classes",)))
        found = f"The model's output for one series has shape {tuple(raw.shape[1:])}"
        return ModelError(f"{found}, and {what} of ({shape}) was explained: pass the model that was explained.")


def _target(explanation: Explanation, target: Any) -> Tensor | Picker:
    """Return the explained class, or the function that picked the score: ``target`` where that one is lost."""
    known = explanation.picker if explanation.target is None else explanation.target
    if target is None:
        return unknown_score if known is None else known
    if known is not None or not callable(target):
        lost = "target= is the function that picked the score of an explanation from a file, which keeps none"
        raise InputError(f"{lost}: leave target= out, or explain another target with tempograd.explain.")
    return cast("Picker", target)


# What is evaluated: an explanation, and what its scores may need beside it


@dataclass(eq=False)
class Evaluation:
    """An explanation to be scored, and the arguments of :func:`tempograd.evaluate`: what a metric may need."""

    model: Model | Predictor
    explanation: Explanation
    baseline: Any = None
    k: int | float = 0.1
    truth: Any = None
    batch_size: int | None = None
    of: Measured | None = None
    target: Picker | None = None  # the function that picked the score, where the explanation lost it
    background: Any = None
    draws: int | None = None
    # what passes over the model show beside the scores
    clean: Tensor | None = field(default=None, init=False)  # outputs for the first series, (series, …, output)
    varies: Varying = field(default="", init=False)  # whether the model's outputs for the same series differ
    measured: Measured | None = field(default=None, init=False)  # what cumulative metrics followed

    def ask(self) -> AskAgain:
        """Return the question of the explanation, with what takes the place of removed cells."""
        explanation, drawn = self.explanation, self._removes_to_others()
        if explanation.x is None:
            raise InputError("The explanation was saved without its series: put them back by dataclasses.replace.")
        require_ranks(explanation)
        call, x = explanation.call.reading(
            validation.check_series(explanation.x, gaps=explanation.mask is not None)
        )
        bare = as_explained(self.model, explanation)
        if self.batch_size is not None:
            validation.check_int(self.batch_size, "batch_size", 1)
        question = replace(
            explanation.question,
            target=_target(explanation, self.target),
            targets=None,
            output=explanation.output if explanation.output in OUTPUTS else None,  # what the task says
            steps=explanation.steps,
            baseline=explanation.baseline.to(x) if drawn or self.baseline is None else self._filled(x, call),
            background=None,
        )
        ask = AskAgain.create(
            call.adapt(bare),
            x,
            question,
            mask=explanation.mask,
            task="classification" if explanation.task == "binary" else explanation.task,  # of one logit, or of two
            call=call,
            batch_size=self.batch_size,
            explanation=explanation,
            bare=bare,
        )
        ask = replace(ask, ids=explanation.ids.cpu().long())  # the same series may be there twice
        ask = replace(ask, background=self._pool(ask)) if drawn else ask
        return ask.one_by_one_if(explanation.mixes_series)

    def _removes_to_others(self) -> bool:
        """Tell whether removed cells take values of other series; refuse where these are missing."""
        compared = self.baseline is None and self.explanation.background is not None
        if validation.is_background(self.baseline) or compared:
            if self.background is None:
                others = "Removed cells take the values of other series, which an explanation does not keep"
                raise InputError(f"{others}: pass {arg:question.background}, or another {arg:question.baseline}.")
            return True
        return False

    def _filled(self, x: Tensor, call: Call) -> Any:
        """Return the baseline, put together where there are several inputs."""
        baseline = self.baseline.filled if isinstance(self.baseline, Series) else self.baseline
        if call.packing is not None and (is_several(baseline) or isinstance(baseline, str)):
            return pack_inputs(call.packing.unpack(x), baseline=baseline).baseline
        return baseline

    def _pool(self, ask: AskAgain) -> Background:
        """Return the other series whose values take the place of the baseline."""
        others = ask.call.pooled(Series.of(self.background).filled, "The background series")
        pool = Background.of(others, ask.x, 0, (ask.device, ask.dtype), Stream.REMOVALS)
        known = self.explanation.background
        if known not in {None, pool.fingerprint}:
            other = f"The explanation compares with other background series ({known}) than"
            warn(f"{other} those given here ({pool.fingerprint}): pass the ones that it was made with.")
        return pool

    @property
    def removals(self) -> int:
        """How many times all cells are removed: once, or to the values of as many other series in turn."""
        if self.background is None:
            return 1
        return validation.check_int(DRAWS if self.draws is None else self.draws, "draws", 1)


def require_ranks(explanation: Explanation) -> None:
    """Refuse scores that have no order."""
    if not bool(explanation.values.isfinite().all()):
        raise InputError("The explanation holds NaN or infinity, and such cells have no rank.")


# What a metric is

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
