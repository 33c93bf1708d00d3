"""Explain and score some of the series with some explainer, and count what that costs."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, arg, counted_warnings
from tempograd.core.question import Effort, Question
from tempograd.core.series import Series
from tempograd.engine.predictor import PassCount, Predictor, counting
from tempograd.explainers import Explainer
from tempograd.explainers.base import fitted
from tempograd.explanation import Explanation
from tempograd.metrics import Metric, evaluate
from tempograd.metrics.evaluation import measure
from tempograd.typing import Measured

FEWEST = 2  # series that tell any difference


@dataclass(frozen=True)
class Scored:
    """Scores of some series, one each, and the passes of the model that maps and scores took."""

    scores: Tensor  # (series,), float64 on the CPU
    explained: int
    scored: int
    known: bool  # whether the method itself knows how many passes it takes
    shape: tuple[int, int]  # of a series, (time, channel)


@dataclass
class Bench:
    """A model, the series that explainers are tried on, and how these are called and scored."""

    model: Predictor
    x: Series
    metric: Metric
    question: Question
    effort: Effort
    k: int | float
    of: Measured | None
    removals: int | None = None  # other series whose values take the place of removed cells, where they do
    spent: int = 0  # passes so far

    def __post_init__(self) -> None:
        """Check the arguments of a call."""
        if self.question.targets is not None:
            raise InputError(
                f"Explainers are compared by one target: pass {arg:question.target} instead of "
                f"{arg:question.targets}."
            )
        if self.metric.whole:
            raise InputError(
                f"{self.metric.name} with pooled=True is one number for all series, and settings are compared "
                "series by series: leave pooled= out."
            )
        if self.count < FEWEST:
            raise InputError("Maps are compared series by series, and a single series tells nothing: pass more.")
        if self.metric.needs_truth and self.x.truth is None:
            name = self.metric.name
            raise InputError(f"{name} compares with the truly salient cells: pass {arg:series.truth=…}.")

    @property
    def count(self) -> int:
        """The number of series."""
        return len(self.x)

    @property
    def seed(self) -> int:
        """The seed of all draws."""
        return validation.check_int(self.effort.seed, "seed")

    @property
    def baseline_kind(self) -> str:
        """What maps compare with and removed cells become: the baseline's name, or "own" for numbers."""
        baseline = self.question.baseline
        return "zero" if baseline is None else baseline if isinstance(baseline, str) else "own"

    def order(self) -> Tensor:
        """Return all series in a random order, since files are often sorted by class."""
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(self.seed % 2**63))

    def ready(self, explainer: Explainer) -> Explainer:
        """Return the explainer as it is after it learnt from the background series, if there are some."""
        return fitted(explainer, self.model, self.x, self.question, self.seed)

    def explain(self, explainer: Explainer, rows: Tensor, *, quiet: bool = True) -> Explanation:
        """Explain some of the series; ``quiet`` where another explainer has said what there is to say."""
        question, effort = self.question.take(rows, self.x), self.effort
        if not validation.is_background(question.baseline):  # other series serve to learn from alone
            question = replace(question, background=None)
        if quiet:
            effort = replace(effort, gradient_check=False)
        with counted_warnings() if quiet else nullcontext():
            return explainer(self.model, self.x.take(rows), **vars(question), **vars(effort))

    def score(
        self,
        explainer: Explainer,
        rows: Tensor,
        *,
        quiet: bool = True,
        most: float = math.inf,
        known: bool = False,
    ) -> Scored:
        """Explain and score some of the series, and add what that takes to ``spent``.

        PassesError before that is more than ``most``; with ``known`` the caller has made sure of it for the maps.
        """
        maps, removals = PassCount(math.inf if known else most), PassCount(math.inf)
        try:
            with counting(maps):
                explanation = self.explain(explainer, rows, quiet=quiet)
            if explanation.n_evals is not None:  # looks at the model that are no part of the method do not count
                maps.passes = int(explanation.n_evals.sum()) * explanation.draws
            removals.most = most - maps.passes
            with counting(removals):
                scores = self._scores(explanation, rows, quiet=quiet)
        finally:
            self.spent += maps.passes + removals.passes
        _, time, channels = explanation.values.shape
        return Scored(scores, maps.passes, removals.passes, explanation.n_evals is not None, (time, channels))

    def _scores(self, explanation: Explanation, rows: Tensor, *, quiet: bool) -> Tensor:
        baseline, background = self.question.take(rows, self.x).baseline, self.question.background
        options: dict[str, Any] = {"batch_size": self.effort.batch_size, "of": self.of}
        if validation.is_background(baseline) and background is not None:
            options |= {"background": Series.of(background).x, "draws": self.removals}
        arguments: Any = ([self.metric], "zero" if baseline is None else baseline, self.k, self.x.take(rows).truth)
        found = (measure if quiet else evaluate)(self.model.called, explanation, None, *arguments, **options)
        return found[self.metric.name].detach().double().cpu()
