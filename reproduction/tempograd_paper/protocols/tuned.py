"""The tuned protocol: the models of the fair one, and every method tuned by the same call under the same budget.

Each baseline is a question of its own: a method is tuned, explains and loses cells against the same one, be it
zero, the average or values of training series. :func:`tempograd.tune` chooses by CPD on validation series, with
what a method declares (:meth:`~tempograd.explainers.Explainer.grid`). One that declares nothing runs as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from torch import Tensor, nn

import tempograd as tg
from tempograd.data import Dataset, Series
from tempograd.explainers import EXPLAINERS, Explainer, Timing
from tempograd.metrics import METRICS
from tempograd.tuning import Tuning, tune
from tempograd.typing import Setting
from tempograd_paper.cell import Cell, RemovalBaseline
from tempograd_paper.protocols.fair import VALIDATION
from tempograd_paper.protocols.series import evenly, tuned_on
from tempograd_paper.protocols.settings import SAMPLES, SEGMENTS, configured

BUDGET = 30.0  # explanations of all validation series, for each method and baseline
POOL = 1000  # training series at most whose values are the baseline "background"
GIVEN: dict[str, dict[str, Any]] = {"winit": {"sampler": "marginal"}}  # as in the fair protocol, never tuned
CANNOT_DRAW = "cannot compare with other series"


@dataclass(frozen=True)
class TuningSeries:
    """The series that a method may look at before it explains.

    Attributes
    ----------
    sample : Series
        Those that settings are chosen on.
    filled : int
        How many of them are training series, for want of validation series.
    train : Tensor
        What methods learn from that learn.
    pool : Tensor
        The baseline "background".
    """

    sample: Series
    filled: int
    train: Tensor
    pool: Tensor

    @classmethod
    def of(cls, data: Dataset, device: str) -> Self:
        """Choose them from the series of a fold."""
        sample, filled = tuned_on(data, VALIDATION)
        return cls(replace(sample, x=sample.x.to(device)), filled, data.train.x, background_of(data, device))


def background_of(data: Dataset, device: str) -> Tensor:
    """Return the training series whose values are the baseline "background", for all methods the same."""
    pool: Tensor = evenly(data.train, POOL).x.to(device)
    return pool


def refusal(method: str, baseline: str) -> str:
    """Return why a method has no number for a baseline; empty if it has one.

    Examples
    --------
    >>> refusal("deep_lift", "background"), refusal("deep_lift", "zero"), refusal("timing", "background")
    ('cannot compare with other series', '', '')
    """
    kind = EXPLAINERS[method]
    return CANNOT_DRAW if baseline == "background" and kind.uses_baseline and not kind.takes_background else ""


def member(settings: Mapping[str, Any]) -> str:
    """Return what a setting of TIMING's family is called: segments, single cells or nothing held.

    Examples
    --------
    >>> member({}), member({"held": 0.5, "max_length": 4}), member({"held": 0.9, "max_length": 1})
    ('default', 'segments', 'RandIG')
    >>> member({"segments": 0})
    'IG'
    """
    if not settings:
        return "default"
    if 0 in {settings.get("segments"), settings.get("held")}:
        return "IG"
    return "RandIG" if settings.get("max_length") == 1 else "segments"


def has_choice(cell: Cell, shape: tuple[int, int]) -> bool:
    """Tell whether there is something to tune: settings that a method declares, and the plan leaves open."""
    return cell.settings in {(), SEGMENTS} and bool(EXPLAINERS[cell.method].grid(shape))


class Segments(Timing):
    """TIMING that is tuned among settings which hold more than single cells.

    Examples
    --------
    >>> any(each.get("max_length", 1) == 1 for each in Segments.grid((40, 2)))
    False
    """

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return those settings."""
        return [each for each in super().grid(shape) if each.get("max_length", 1) != 1]


def explained_against(cell: Cell, baseline: str, shape: tuple[int, int]) -> str:
    """Return the baseline that an explanation depends on; "any" if it is the same for all."""
    return baseline if EXPLAINERS[cell.method].uses_baseline or has_choice(cell, shape) else "any"


def make_tuned_explainer(
    cell: Cell, model: nn.Module, series: TuningSeries, baseline: RemovalBaseline
) -> tuple[Explainer, dict[str, Any] | None]:
    """Return the explainer with the settings that suit a baseline, and how they were found, if they were."""
    given = {} if cell.settings == SEGMENTS else dict(cell.settings) or GIVEN.get(cell.method, {})
    time, channels = series.sample.x.shape[1:]
    if not has_choice(cell, (time, channels)):
        explainer = configured(cell.method, cell.dataset, cell.protocol, given.items())
        return (explainer.fit(model, series.train, seed=cell.seed) if explainer.needs_fit else explainer), None
    found = tune_method(cell, model, series, baseline, given)
    return found.explainer, {
        "settings": found.settings,
        "verdict": found.verdict(),
        "cost": found.passes / found.unit,
        "candidates": len(found.table) - 1,
        "series": found.series,
        "training_series": series.filled,
    }


def tune_method(
    cell: Cell, model: nn.Module, series: TuningSeries, baseline: RemovalBaseline, given: dict[str, Any]
) -> Tuning:
    """Make the one call that every method is tuned by; ``given`` are settings that stay."""
    samples = SAMPLES.get(cell.method, {})
    options: dict[str, Any] = dict(given) if cell.settings == SEGMENTS else given | samples
    if EXPLAINERS[cell.method].needs_fit:  # these learn from all training series, as in the fair protocol
        options["background"] = series.train
    elif baseline == "background":
        options["background"] = series.pool
    sample = series.sample
    return tune(
        model,
        tg.Series(sample.x, mask=sample.mask, ids=sample.ids),
        Segments(**samples) if cell.settings == SEGMENTS else cell.method,
        metric=replace(METRICS["cpd"](), rank=cell.rank),
        budget=BUDGET,
        baseline=baseline,
        seed=cell.seed,
        **options,
    )
