r"""Which explainer is most faithful to a model, and which of them cannot be told apart.

Every explainer explains the same series with the same seed, the same metric scores all maps, and the same values
take the place of removed cells. For each pair of the :math:`m` explainers the differences :math:`d_i` of their
scores have the interval

.. math:: \bar d \pm t_{n-1}\!\left(1 - \frac{\alpha}{2 M}\right) \frac{\mathrm{sd}(d)}{\sqrt n},
    \qquad M = \frac{m (m - 1)}{2}, \qquad \alpha = 0.05,

so that all of them hold at once in 95 of 100 cases (Bonferroni), whichever explainer turns out to be the best.
Those whose interval to the best one holds 0 cannot be told from it. Random scores run along: an explainer that is
not better than those has told nothing about the model, and they never win.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor

from tempograd.core.errors import InputError, UnknownNameError, brief, quote
from tempograd.core.formatting import alike, table, with_error
from tempograd.core.progress import part, progress_bar
from tempograd.core.question import Asked, asks, divided
from tempograd.core.series import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer, Random
from tempograd.explainers.base import nouns
from tempograd.explainers.by_name import explainer_of, keywords
from tempograd.explanation.record import as_table
from tempograd.metrics import Metric, compare, summarise
from tempograd.metrics.evaluation import as_metric
from tempograd.tuning.racing import Bench, Scored
from tempograd.typing import Inputs, Measured, Model

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95  # at which all intervals hold at once
CONTROL = "random"


@dataclass(frozen=True)
class Ranked:
    """One explainer of a ranking.

    Attributes
    ----------
    method : str
    score, standard_error : float
        Mean over the series.
    difference, low, high : float
        Its score minus that of the best, and the limits of the simultaneous 95 % interval.
    ties : bool
        Whether the best one cannot be told from it.
    better_than_random : bool
        Whether it is told from random scores, and better.
    series : int
        On how many series both scores are defined.
    passes : int
        Of the model, for maps and scores.
    """

    method: str
    score: float
    standard_error: float
    difference: float
    low: float
    high: float
    ties: bool
    better_than_random: bool
    series: int
    passes: int


@dataclass(frozen=True, repr=False)
class Ranking:
    """What :func:`tempograd.rank` found; print it to see the table.

    Attributes
    ----------
    table : list of Ranked
        The best mean first; random scores are among them.
    metric : str
    higher_is_better : bool
    series : int
        How many were given; scores may be defined for fewer of them.
    """

    table: list[Ranked]
    metric: str
    higher_is_better: bool
    series: int

    @property
    def best(self) -> tuple[str, ...]:
        """The explainers that may be the most faithful: one, several that cannot be told apart, or none.

        None where random scores are as good.
        """
        if not self.table[0].better_than_random:
            return ()
        return tuple(row.method for row in self.table if row.ties)

    def verdict(self) -> str:
        """Say in one sentence which explainer is the most faithful, or that these series cannot tell."""
        if not any(row.series for row in self.table):
            return f"Cannot tell: {self.metric.upper()} is defined for none of the series."
        by = f"by {self.metric.upper()} on {self.table[0].series} series"
        tested = [row for row in self.table if row.method != CONTROL]
        floor = [row.method for row in tested if not row.better_than_random]
        if len(floor) == len(tested):
            return f"Cannot tell: {by} {_none(floor)} better than random scores."
        tail = f"; {_none(floor)} better than random scores" if floor else ""
        best, top = self.best, tested[0]
        if not best:
            return f"Cannot tell: {by} {top.method} has the best mean but is not told from random scores{tail}."
        if len(best) > 1:
            return f"Cannot tell: {by} {_and(best)} are not told apart{tail}."
        if len(tested) == 1:
            return f"{top.method} is better than random scores {by}."
        score, second = alike(top.score, tested[1].score)
        return f"{top.method} is the most faithful {by}: {score} against {second} of {tested[1].method}{tail}."

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per explainer, with the columns of :class:`~tempograd.tuning.Ranked`."""
        return as_table([asdict(row) for row in self.table])

    def __str__(self) -> str:
        metric = self.metric.upper() + (" ↑" if self.higher_is_better else " ↓")
        rows = [["method", metric, "minus best [95 %]", "passes"]]
        for row in self.table:
            gap, low, high = alike(row.difference, row.low, row.high)
            shown = "" if row.low == row.high == 0 else f"{gap} [{low}, {high}]"
            rows.append([row.method, with_error(row.score, row.standard_error), shown, f"{row.passes:,}"])
        return f"{table(rows)}\n\n{self.verdict()}"

    def __repr__(self) -> str:
        return f"Ranking({self.verdict()})"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _none(names: Sequence[str]) -> str:
    return f"{names[0]} is not" if len(names) == 1 else f"none of {_and(names)} is"


@asks(settings=False)
def rank(
    model: Model | Predictor,
    x: Inputs | Series,
    methods: Iterable[str | Explainer] | Mapping[str, str | Explainer],
    *,
    metric: str | Metric = "cpd",
    k: int | float = 0.1,
    of: Measured | None = None,
    **question: Unpack[Asked],
) -> Ranking:
    """Find out which explainer is the most faithful to a model, as far as some series can tell.

    Parameters
    ----------
    model : nn.Module, callable, estimator or Predictor
    x : Tensor or array of shape (series, time, channel), or Series
    methods : names, explainers or functions ``(model, x, target) -> scores``, or mapping from names to these
        What is compared, each with its own settings, such as those that :func:`tempograd.tune` found. Random
        scores run along.
    metric : str or Metric
        What they are compared by. Removed cells take the values of ``baseline`` whatever a method compares with.
    k, of
        See :func:`tempograd.evaluate`; the truth comes with the series (``Series(x, truth=…)``).
    **question
        As in :func:`tempograd.explain`.

    Returns
    -------
    Ranking
        With a ``table``, the ``best`` and a ``verdict()``.

    Notes
    -----
    Differences on the same series are compared by Student's t, at a level that is divided by the number of pairs:
    all intervals hold at once in 95 of 100 cases. Whoever cannot be told from the best one shares its place.

    Examples
    --------
    >>> import torch
    >>> model = lambda x: (x * torch.arange(16.0).view(8, 2)).sum((1, 2))
    >>> ranking = rank(model, torch.rand(20, 8, 2) - 0.5, ["occlusion", "integrated_gradients"], output="raw")
    >>> ranking.verdict()
    'Cannot tell: by CPD on 20 series occlusion and integrated_gradients are not told apart.'
    """
    named = _named(methods)
    asked, effort, others = divided(question)
    for name in others:
        raise UnknownNameError("option of rank", name, keywords(rank))
    bench = Bench(*nouns(model, x), as_metric(metric), asked, effort, k, of)
    higher, found = bench.metric.higher_is_better, dict[str, Scored]()
    with progress_bar(len(named), "rank") as advance:
        for name, explainer in named.items():
            with part(advance, 1, name):
                found[name] = bench.score(bench.ready(explainer), torch.arange(bench.count), quiet=False)
    passes = {name: each.explained + each.scored for name, each in found.items()}
    table = ranked({name: each.scores for name, each in found.items()}, passes, higher_is_better=higher)
    return Ranking(table, bench.metric.name, higher, bench.count)


def ranked(scores: Mapping[str, Tensor], passes: Mapping[str, int], *, higher_is_better: bool) -> list[Ranked]:
    """Compare scores series by series, the best first; one of the names is that of random scores."""
    sign = 1 if higher_is_better else -1
    own = {name: summarise(values) for name, values in scores.items()}
    order = sorted(scores, key=lambda name: (-sign * own[name].mean, name == CONTROL))
    pairs = len(scores) * (len(scores) - 1) / 2
    level = 1 - (1 - LEVEL) / max(1.0, pairs)
    rows = []
    for name in order:
        gap = compare(scores[name], scores[order[0]], level)
        floor = compare(scores[name], scores[CONTROL], level)
        rows.append(
            Ranked(
                method=name,
                score=own[name].mean,
                standard_error=own[name].standard_error,
                difference=gap.mean,
                low=gap.low,
                high=gap.high,
                ties=not (gap.high < 0 if higher_is_better else gap.low > 0),
                better_than_random=bool(floor.low > 0 if higher_is_better else floor.high < 0),
                series=gap.count,
                passes=passes[name],
            )
        )
    return rows


def _named(methods: Any) -> dict[str, Explainer]:
    """Return explainers by name, those of the same name with a number, and random scores beside them."""
    if isinstance(methods, (str, Explainer)) or not isinstance(methods, Iterable):
        methods = [methods]
    pairs = list(methods.items()) if isinstance(methods, Mapping) else [(None, each) for each in methods]
    if not pairs:
        raise InputError(f"methods must hold names or explainers, got {brief(methods)}: write ['timing', 'lime'].")
    found: dict[str, Explainer] = {}
    for label, each in pairs:
        explainer = explainer_of(each, {})
        name = explainer.name if label is None else str(label)
        if name == CONTROL and type(explainer) is not Random:
            raise InputError(f"{quote(CONTROL)} is the name of the random scores that run along: choose another.")
        names = (name, *(f"{name} {number}" for number in range(2, len(found) + 3)))
        found[next(fresh for fresh in names if fresh not in found)] = explainer
    if set(found) == {CONTROL}:
        raise InputError("Random scores run along with what is compared: name a method beside them.")
    return found if CONTROL in found else found | {CONTROL: Random()}
