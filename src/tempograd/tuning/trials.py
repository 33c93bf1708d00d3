"""Explain and score some of the series with some explainer, and count what that costs."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, arg, brief, counted_warnings
from tempograd.core.question import Effort, Question
from tempograd.core.series import Series
from tempograd.engine.predictor import PassCount, Predictor, counting
from tempograd.explainers import Explainer
from tempograd.explainers.base import fitted
from tempograd.explanation import Explanation
from tempograd.metrics import Metric, evaluate
from tempograd.metrics.evaluation import as_metric, measure


def one_metric(metric: str | Metric) -> Metric:
    """Return the metric, which must give every series a score of its own."""
    found = as_metric(metric)
    if found.whole:
        raise InputError(
            f"{found.name} with pooled=True is one number for all series, and settings are compared series by "
            "series: leave pooled= out."
        )
    return found


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
    of: Any
    spent: int = 0  # passes so far
    removals: int | None = None  # other series whose values take the place of removed cells, where they do

    @classmethod
    def of_call(
        cls,
        model: Predictor,
        x: Series,
        metric: str | Metric,
        question: Question,
        effort: Effort,
        *,
        k: int | float,
        of: Any,
    ) -> Self:
        """Check and complete the arguments of a call."""
        if question.targets is not None:
            raise InputError(
                f"Explainers are compared by one target: pass {arg:question.target} instead of "
                f"{arg:question.targets}."
            )
        chosen = one_metric(metric)
        if not len(x):
            raise InputError(f"x must hold the series that settings are tried on, got {brief(x)}.")
        if chosen.needs_truth and x.truth is None:
            raise InputError(f"{chosen.name} compares with the truly salient cells: pass {arg:series.truth=…}.")
        if question.background is not None:
            question = replace(question, background=Series.of(question.background))
        effort = replace(effort, seed=validation.check_int(effort.seed, "seed"))
        return cls(model, x, chosen, question, effort, k, of)

    @property
    def count(self) -> int:
        """The number of series."""
        return len(self.x)

    @property
    def higher_is_better(self) -> bool:
        """The direction of a good score."""
        return self.metric.higher_is_better

    @property
    def seed(self) -> int:
        """The seed of all draws."""
        return self.effort.seed

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
        explained = None
        try:
            with counting(maps):
                explanation = self.explain(explainer, rows, quiet=quiet)
            explained = explained_passes(explanation, maps.passes)
            removals.most = most - explained
            with counting(removals):
                scores = self._scores(explanation, rows, quiet=quiet)
        finally:
            self.spent += (maps.passes if explained is None else explained) + removals.passes
        _, time, channels = explanation.values.shape
        return Scored(scores, explained, removals.passes, explanation.n_evals is not None, (time, channels))

    def _scores(self, explanation: Explanation, rows: Tensor, *, quiet: bool) -> Tensor:
        baseline, background = self.question.take(rows, self.x).baseline, self.question.background
        options: dict[str, Any] = {"batch_size": self.effort.batch_size, "of": self.of}
        if validation.is_background(baseline) and background is not None:
            options |= {"background": Series.of(background).x, "draws": self.removals}
        arguments: Any = ([self.metric], "zero" if baseline is None else baseline, self.k, self.x.take(rows).truth)
        found = (measure if quiet else evaluate)(self.model.called, explanation, None, *arguments, **options)
        return found[self.metric.name].detach().double().cpu()


def explained_passes(explanation: Explanation, counted: int) -> int:
    """Return how many passes of the model an explanation took: what it knows itself, or else what was counted.

    Looks at the model that are no part of the method, such as the comparison of the gradient with differences, do
    not count where the method knows.
    """
    if explanation.n_evals is None:
        return counted
    return int(explanation.n_evals.sum()) * explanation.draws
