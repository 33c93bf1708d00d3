r"""Settings of a method race on some series, and the one that is better than the default by more than noise wins.

**The race.** The default is explained and scored on all series, or as many as the budget allows, and all other
settings on some of them. The better half of them goes on to more series, and so on, until a few finalists have
run on all series. What is compared is the difference to the default on the same series with the same seed, and a
series that a setting has been scored on is not explained again.

**The rule.** Setting :math:`k` is better than the default by :math:`d_{ki}` on series :math:`i`, on average by

.. math:: t_k = \frac{\bar d_k}{\mathrm{sd}(d_k) / \sqrt{n_k}}

standard errors. Of many settings that are all as good as the default one looks better by luck. How much, the
differences themselves tell: if nothing is better, each series could as well have the other sign. With random signs
:math:`\varepsilon_i`, the same for all settings, the largest of all :math:`t_k` is as large as chance makes it,
correlations and heavy tails included, and a finalist is better by more than noise if no more than 5 % (``level``)
of 4,000 draws reach its own (the single-step procedure of Westfall and Young, 1993). Settings that went out count
as well, so that it does not matter how finalists were found. Among those that pass the best mean wins; if none
passes, the default stays.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core import errors, validation
from tempograd.core.errors import InputError, SettingError, UnknownNameError, arg, brief, counted_warnings, listed
from tempograd.core.formatting import alike, counted, short_number, table, with_error
from tempograd.core.progress import Advance, part, progress_bar
from tempograd.core.question import Effort, Question, asks, divided
from tempograd.core.series import Series
from tempograd.engine.predictor import PassCount, PassesError, Predictor, pass_count
from tempograd.explainers import EXPLAINERS, Explainer, Timing
from tempograd.explainers.base import fitted, nouns
from tempograd.explainers.by_name import explainer_of
from tempograd.explainers.timing import FIRST
from tempograd.metrics import Metric, compare, evaluate, summarise
from tempograd.metrics.evaluation import as_metric, measure
from tempograd.typing import Inputs, Measured, Model, Setting

DRAWS = 4000  # of random signs, which tell what noise can do
# Finalists, which run on all series, and the least number of series in the first round. The first that the budget
# pays for are taken.
WAYS = ((3, 8), (2, 8), (1, 8), (1, 4), (1, 2))
SLACK = 0.98  # of the budget, since series differ in what their scores cost
REMOVALS = 2  # other series whose values take the place of removed cells: more series tell more than more of these
FEWEST = 2  # series that tell any difference
UNITS = ("n_samples", "n_steps")  # settings that say how exactly, and not what, is computed


# What a race of settings found: the explainer to use, a table and a sentence


def setting_in_words(setting: Mapping[str, Any]) -> str:
    """Write settings as people type them; without any they are the default.

    Examples
    --------
    >>> setting_in_words({"held": 0.75, "min_length": 7}), setting_in_words({})
    ('held=0.75, min_length=7', 'default')
    """
    return ", ".join(f"{name}={value!r}" for name, value in setting.items()) or "default"


def changed_settings(explainer: Explainer) -> dict[str, Any]:
    """Return the settings that are not what they are by default."""
    known = (f for f in fields(explainer) if not f.metadata.get("fitted") and f.default is not MISSING)
    return {f.name: getattr(explainer, f.name) for f in known if getattr(explainer, f.name) != f.default}


@dataclass(frozen=True)
class Trial:
    """One setting in the race.

    Attributes
    ----------
    setting : dict
        What differs from the default; empty for the default itself.
    score, standard_error : float
        Mean over the series that it ran on.
    difference, difference_error : float
        Its score minus that of the default on the same series.
    series : int
        How many these are; fewer than all where it went out before the last round.
    passes : int
        Of the model, for maps and scores.
    finished : bool
        Whether it ran on all series with all samples.
    chosen : bool
        Whether it won.
    """

    setting: Mapping[str, Setting]
    score: float
    standard_error: float
    difference: float
    difference_error: float
    series: int
    passes: int
    finished: bool
    chosen: bool

    @property
    def words(self) -> str:
        """The setting as people type it."""
        return setting_in_words(self.setting)

    @property
    def gap(self) -> str:
        """The difference with its error, for people."""
        return with_error(self.difference, self.difference_error)


@dataclass(frozen=True, repr=False)
class Tuning:
    """What :func:`tempograd.tune` found; print it to see the table.

    Attributes
    ----------
    explainer : Explainer
        With the settings that won, ready to be called: it has learnt from background series, if there were any.
        ``save`` writes it to a file, which ``tempograd explain --settings`` reads too.
    method : str
    settings : dict
        What differs from what was given as the default; empty if that stays.
    table : list of Trial
        The default first, then the settings that ran on most series, the best of them first.
    metric : str
    higher_is_better : bool
    series : int
        How many the default and the finalists ran on: all, unless the budget was too short for that.
    passes : int
        Passes of the model that all took, scoring included.
    unit : int
        Passes that explaining all series once takes by default; ``passes`` is at most ``budget`` times that.
    """

    explainer: Explainer
    method: str
    settings: dict[str, Setting]
    table: list[Trial]
    metric: str
    higher_is_better: bool
    series: int
    passes: int
    unit: int

    @property
    def default(self) -> Trial:
        """The row of the default."""
        return self.table[0]

    @property
    def chosen(self) -> Trial:
        """The row of what won, which may be the default."""
        return next(trial for trial in self.table if trial.chosen)

    def verdict(self) -> str:
        """Say in one sentence what is best, and by how much."""
        won, usual, name = self.chosen, self.default, self.metric.upper()
        if won is not usual:
            score, before = alike(won.score, usual.score)
            gap = "+" * (won.difference > 0) + won.gap
            return f"{won.words}: {name} {score} against {before} by default, {gap} on {won.series} series."
        if not usual.series:
            return f"The default stays: {name} is defined for none of the series."
        others = [trial for trial in self.table if trial.finished and not trial.chosen]
        start = f"The default stays: {name} {short_number(usual.score)} on {usual.series} series"
        if not others:
            return f"{start}."
        closest = f"{others[0].words}, {'+' * (others[0].difference > 0)}{others[0].gap}"
        tried = f"none of {counted(len(self.table) - 1, 'other setting')}"
        return f"{start}, and {tried} is better by more than noise ({closest})."

    def __repr__(self) -> str:
        metric = self.metric.upper() + (" ↑" if self.higher_is_better else " ↓")
        rows = [["setting", metric, "minus default", "series", "passes"]]
        for trial in self.table:
            score, gap = with_error(trial.score, trial.standard_error), "" if trial is self.default else trial.gap
            setting = "→ " * trial.chosen + trial.words
            rows.append([setting, score, gap, str(trial.series), f"{trial.passes:,}"])
        return f"{table(rows)}\n\n{self.verdict()}"


# What explains and scores some of the series with some explainer, and counts what that costs


class Scored(NamedTuple):
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
        self.count, self.seed = len(self.x), validation.check_int(self.effort.seed, "seed")
        if self.question.targets is not None:
            instead = f"{arg:question.target} instead of {arg:question.targets}"
            raise InputError(f"Explainers are compared by one target: pass {instead}.")
        if self.metric.whole or self.count < FEWEST:
            more = "pass two series at least, and leave pooled= of the metric out"
            raise InputError(f"Maps are compared series by series: {more}.")

    def ready(self, explainer: Explainer) -> Explainer:
        """Return the explainer as it is after it learnt from the background series, if there are some."""
        return fitted(explainer, self.model, self.x, self.question, self.seed)

    def score(
        self, explainer: Explainer, rows: Tensor, *, quiet: bool, most: float = math.inf, known: bool = False
    ) -> Scored:
        """Explain and score some of the series, and add what that takes to ``spent``.

        PassesError before that is more than ``most``; with ``known`` the caller has made sure of it for the maps.
        ``quiet`` where another explainer has said what there is to say.
        """
        maps, removals = PassCount(math.inf if known else most), PassCount(math.inf)
        question, series = self.question.take(rows, self.x), self.x.take(rows)
        effort = replace(self.effort, gradient_check=False) if quiet else self.effort
        removal: dict[str, Any] = {"baseline": "zero" if question.baseline is None else question.baseline}
        if not validation.is_background(question.baseline):  # other series serve to learn from alone
            question = replace(question, background=None)
        elif question.background is not None:
            removal |= {"background": Series.of(question.background).x, "draws": self.removals}
        removal |= {"k": self.k, "batch_size": effort.batch_size, "of": self.of}
        try:
            with errors.held(pass_count, maps), counted_warnings() if quiet else nullcontext():
                explanation = explainer(self.model, series, **vars(question), **vars(effort))
            if explanation.n_evals is not None:  # looks at the model that are no part of the method do not count
                maps.passes = int(explanation.n_evals.sum()) * explanation.draws
            removals.most = most - maps.passes
            with errors.held(pass_count, removals):
                found = (measure if quiet else evaluate)(self.model.called, explanation, [self.metric], **removal)
        finally:
            self.spent += maps.passes + removals.passes
        scores = found[self.metric.name].detach().double().cpu()
        _, time, channels = explanation.values.shape
        return Scored(scores, maps.passes, removals.passes, explanation.n_evals is not None, (time, channels))


# The race, as it is asked for


@asks()
def tune(
    model: Model | Predictor,
    x: Inputs | Series,
    method: str | Explainer = "timing",
    *,
    metric: str | Metric = "cpd",
    budget: float = 30.0,
    grid: Sequence[dict[str, Setting]] | None = None,
    level: float = 0.05,
    k: int | float = 0.1,
    of: Measured | None = None,
    **options: Any,
) -> Tuning:
    r"""Find the settings of a method that suit a model, by how well its maps stand up to a test.

    Settings race on the given series: all of them on a few, the better half on more, the last few on all. The
    default stays unless another one is better by more than noise.

    Parameters
    ----------
    model : nn.Module, callable, estimator or Predictor
    x : Tensor or array of shape (series, time, channel), or Series
        Series to tune on. Metrics that remove cells need no labels, so any series will do that are like those to
        be explained: validation series are best, and a few dozen are few.
    method : str or Explainer
        What is tuned. What it is given as, and settings passed beside it, such as ``n_samples=100``, stay as they
        are.
    metric : str or Metric
        What is tuned for, by its own direction. Removed cells take the values of ``baseline``, which is what the
        maps compare with as well.
    budget : float
        What all of it may cost, scoring included, in units of explaining ``x`` once by default. What counts are
        passes of the model. It is never exceeded.
    grid : list of dict, optional
        Settings to try instead of those that the class of the method declares (:meth:`Explainer.grid`).
    level : float
        How often noise alone may change the default, between 0 and 1. With few series a small one keeps the
        default nearly always; 1 takes whatever scores best, noise or not.
    k, of
        See :func:`tempograd.evaluate`; the truth comes with the series (``Series(x, truth=…)``).
    **options
        The question as in :func:`tempograd.explain`, such as ``target`` and ``baseline``, which is never tuned;
        and settings of the method.

    Returns
    -------
    Tuning
        With the ``explainer`` to use, a ``table`` and a ``verdict()``.

    Notes
    -----
    A setting replaces the default if its mean difference to it, in standard errors, is larger than the largest of
    all settings in 95 % of cases in which none is better (``level=0.05``): what noise does is found by turning
    round the signs of differences at random [1]_. So noise alone changes the default about once in twenty times at
    most. The difference of the winner is that of a lucky one all the same, so report scores of other series than
    ``x``.

    A good score by one metric is no proof of a good map: see :doc:`/howto/tune`.

    References
    ----------
    .. [1] P. H. Westfall and S. S. Young, "Resampling-Based Multiple Testing", Wiley 1993.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24, 2))
    >>> tuning = tune(model, torch.randn(12, 8, 3), n_samples=10, budget=40)
    >>> tuning.explainer.name, len(tuning.table) > 10, tuning.passes <= 40 * 12 * 10
    ('timing', True, True)
    """
    question, effort, given = divided(options)
    default = explainer_of(method, given, tune)
    budget, level = validation.check_float(budget, "budget"), validation.check_float(level, "level")
    if not (budget > 0 and 0 <= level <= 1):
        raise SettingError(f"budget must be above 0, and level between 0 and 1: got {budget:g} and {level:g}.")
    bench = Bench(*nouns(model, x), as_metric(metric), question, effort, k, of, REMOVALS)
    race = _Race(bench, default, budget, strict=grid is not None)
    race.enter(_candidates(default, given, method, grid, race.look()))
    race.run()
    return race.outcome(default, level)


def _candidates(
    default: Explainer, given: dict[str, Any], method: Any, grid: Any, shape: tuple[int, int]
) -> list[dict[str, Setting]]:
    """Return the settings to try, each once and none of them the default; what was given stays as it is."""
    fixed = given if isinstance(method, str) else changed_settings(default)
    if grid is None:
        declared = type(default).grid(shape)
        if not declared:
            tunable = listed(sorted(name for name, kind in EXPLAINERS.items() if kind.grid(shape)), 150)
            raise InputError(f"{default.name} has no settings to tune: choose one of {tunable}{arg:tune.grid}.")
        tried = [{name: value for name, value in each.items() if name not in fixed} for each in declared]
    else:
        tried = list(grid)  # once, since it may be a generator
        if not all(isinstance(each, dict) for each in tried):
            raise InputError(f"grid must be a list of settings, got {brief(grid)}: write [{{'held': 0.75}}, …].")
    return [setting for place, setting in enumerate(tried) if setting and setting not in tried[:place]]


# What a race costs, planned before it runs


class Round(NamedTuple):
    """How many settings run, on how many series in all."""

    settings: int
    series: int


def plan(settings: int, series: int, one: float, left: float, done: int = 0) -> list[Round] | None:
    """Return rounds that cost at most ``left``, with as many series in the first as that allows; None if none do.

    ``one`` is the number of passes that a map and its score take on one series, and the default has been run on
    ``done`` series. Where scores cost much, the last round has fewer than all series.

    Examples
    --------
    >>> plan(settings=8, series=100, one=50 + 15, left=8 * 5000)
    [Round(settings=8, series=38), Round(settings=4, series=62), Round(settings=3, series=100)]
    """
    ways = [(*way, top) for way in WAYS for top in _tops(series, way[1])]
    if done:  # series that the default has run on are dropped only where nothing else can be paid for
        ways.sort(key=lambda way: way[2] < series)
    for finalists, least, top in ways:
        for first in range(top, min(least, top) - 1, -1):  # the most that can be paid for
            rounds = _rounds(settings, top, finalists, first)
            if total_cost(rounds, one) + max(top - done, 0) * one <= left:
                return rounds
    return None


def _tops(series: int, least: int) -> list[int]:
    """Return how many series the last round may have, the most first."""
    found = [series]
    while found[-1] > 4 * least:
        found.append(max(4 * least, int(0.8 * found[-1])))
    return found


def _rounds(settings: int, series: int, finalists: int, first: int) -> list[Round]:
    """Halve the settings and let the series grow in steps of the same ratio."""
    counts = [settings]
    while counts[-1] > finalists:
        counts.append(max(finalists, math.ceil(counts[-1] / 2)))
    last = len(counts) - 1
    sizes = [*(round(first * (series / first) ** (place / last)) for place in range(last)), series]
    return [Round(*each) for each in zip(counts, sizes, strict=True)]


def total_cost(rounds: Sequence[Round], one: float) -> float:
    """Return the passes that rounds take, ``one`` to explain and score a series, which is done once a setting."""
    before = [0, *(each.series for each in rounds)]
    return one * sum(each.settings * (each.series - done) for each, done in zip(rounds, before, strict=False))


# The race itself


class _Runner:
    """One setting in the race, and what it scored so far."""

    def __init__(self, setting: dict[str, Setting], explainer: Explainer, count: int) -> None:
        self.setting, self.explainer, self.passes = setting, explainer, 0
        self.out = False  # whether it left the race
        self.scores = torch.full((count,), math.nan, dtype=torch.float64)  # NaN where it did not run
        self.ran = torch.zeros(count, dtype=torch.bool)  # where it did

    @property
    def series(self) -> int:
        """How many series it ran on."""
        return int(self.ran.sum())


class _Race:
    def __init__(self, bench: Bench, default: Explainer, budget: float, *, strict: bool) -> None:
        if isinstance(default, Timing):  # whose settings would each take as many samples as they like
            count = default.n_samples or FIRST
            default = replace(default, n_samples=count, tolerance=None, max_samples=None, stop_when=None)
        self.bench, self.default, self.budget, self.strict = bench, default, budget, strict
        random = torch.Generator().manual_seed(bench.seed % 2**63)
        self.order = torch.randperm(bench.count, generator=random)  # since files are often sorted by class
        self.base, self.runners = _Runner({}, self.default, bench.count), list[_Runner]()
        self.explained = self.scored = 0.0  # passes of the default on one series
        self.known = False  # whether maps take as many passes as planned

    def look(self) -> tuple[int, int]:
        """Run the default on a few series, which tells what it costs, and return the shape of the series."""
        few = self.order[:FEWEST]
        found = self._scored(self.base, few, quiet=self.bench.count > FEWEST)
        self.known, self.explained, self.scored = found.known, found.explained / FEWEST, found.scored / FEWEST
        if self.default.shared:  # whose scores are other ones in other company
            self.base.ran[:] = False
        return found.shape

    def enter(self, settings: Sequence[dict[str, Setting]]) -> None:
        """Let settings start; those that the method does not take are an error where ``strict``."""
        known = {f.name for f in fields(self.default) if not f.metadata.get("fitted")}
        for setting in settings:
            for name in sorted(set(setting) - known):
                raise UnknownNameError(f"setting of {self.default.name}", name, known)
            try:
                explainer = replace(self.default, **setting)
            except SettingError:
                if self.strict:
                    raise
                continue
            if explainer != self.default:
                self.runners.append(_Runner(setting, explainer, self.bench.count))
        if not self.runners:
            none = f"No setting of {self.default.name} differs from the default and goes with what was given"
            raise InputError(f"{none}: give fewer settings{arg:tune.grid}.")

    def run(self) -> None:
        """Run the default on as many series as can be paid for, then the rounds."""
        rounds = self._planned()
        rest, one = self._missing(self.base, len(self.order)), self.explained + self.scored
        whole = len(rest) * one + total_cost(rounds, self._dearest)
        with progress_bar(whole, f"tune {self.default.name}") as advance:
            if len(rest):
                with part(advance, len(rest) * one, "the default"):
                    found, share = self._scored(self.base, rest, quiet=False), len(rest) / len(self.order)
                # of all series, some of which were looked at before
                self.explained = share * found.explained / len(rest) + (1 - share) * self.explained
                self.scored = share * found.scored / len(rest) + (1 - share) * self.scored
            rounds = self._planned()
            for number, each in enumerate(rounds, 1):
                racing = sorted((each for each in self.runners if not each.out), key=self._gain, reverse=True)
                for runner in racing[each.settings :]:
                    runner.out = True
                for runner in [each for each in self.runners if not each.out]:
                    note = f"round {number} of {len(rounds)}: {setting_in_words(runner.setting)}"
                    self._run(runner, each.series, advance, note)

    def _gain(self, runner: _Runner) -> float:
        """Return by how much a setting is better than the default on the same series; 0 before it ran."""
        gap = float((runner.scores - self.base.scores)[runner.ran].nanmean()) if runner.series else 0.0
        return -math.inf if math.isnan(gap) else gap if self.bench.metric.higher_is_better else -gap

    def _run(self, runner: _Runner, series: int, advance: Advance, note: str) -> None:
        """Explain and score what a round needs of a setting, if that can be paid for."""
        rows = self._missing(runner, series)
        if not len(rows):
            return
        maps = len(rows) * self.explained * _more(runner.explainer, self.default)
        scores = len(rows) * self.scored
        if maps + scores > self.most - self.bench.spent:
            runner.out = True
            return
        with part(advance, maps + scores, note):
            try:
                self._scored(runner, rows)
            except PassesError:
                runner.out = True
            except SettingError:
                if self.strict:
                    raise
                self.runners.remove(runner)

    def _missing(self, runner: _Runner, series: int) -> Tensor:
        """Return which of the first series still have to be explained, all where they must be together."""
        rows = self.order[:series]
        if self.default.shared and runner.series < series:
            return rows
        return rows[~runner.ran[rows]]

    def _scored(self, runner: _Runner, rows: Tensor, *, quiet: bool = True) -> Scored:
        runner.explainer = self.bench.ready(runner.explainer)
        before, left = self.bench.spent, self.most - self.bench.spent
        try:
            found = self.bench.score(runner.explainer, rows, quiet=quiet, most=left, known=self.known)
        finally:
            runner.passes += self.bench.spent - before
        runner.scores[rows], runner.ran[rows] = found.scores, True
        return found

    # What it costs

    @property
    def most(self) -> float:
        """Passes that all may take; no limit before it is known what the default takes."""
        return self.budget * self.explained * self.bench.count or math.inf

    def _planned(self) -> list[Round]:
        """Plan the rounds, end the race on as many series as these have, and forget what is known of others."""
        series, settings, one = len(self.order), len(self.runners), self._dearest
        left = (self.most - self.bench.spent) * SLACK
        rounds = plan(settings, series, one, left, series if self.base.series == series else 0)
        if rounds is not None:
            self.base.ran[self.order[rounds[-1].series :]] = False
            self.order = self.order[: rounds[-1].series]
            return rounds
        finalists, first = WAYS[-1]
        fewest = _rounds(settings, min(series, 4 * first), finalists, first)
        needed = total_cost(fewest, one) + (4 * first + FEWEST) * one
        enough = math.ceil(needed / SLACK / (self.bench.count * self.explained)) + 1
        raise InputError(
            f"{arg:call.budget={self.budget:g}} does not pay for {settings} settings of {self.default.name}, with "
            f"scores, on {series} series: pass {arg:call.budget={enough}}{arg:tune.grid}."
        )

    @property
    def _dearest(self) -> float:
        """Passes that a map and its score take on one series with the setting that has most samples."""
        return self.explained * max(_more(runner.explainer, self.default) for runner in self.runners) + self.scored

    # Who won

    def outcome(self, given: Explainer, level: float) -> Tuning:
        """Judge, by the rule above, and put everything together."""
        started = [runner for runner in self.runners if runner.series]
        higher = self.bench.metric.higher_is_better
        sign = 1 if higher else -1
        gains = [torch.where(each.ran, sign * (each.scores - self.base.scores), math.nan) for each in started]
        lucks = by_luck(torch.stack(gains)) if gains else []
        told = [each for each, luck in zip(started, lucks, strict=True) if self._finished(each) and luck <= level]
        better = [each for each in told if self._gain(each) > 0]
        winner = max(better, key=self._gain, default=self.base)
        order = sorted(started, key=lambda runner: (-runner.series, -self._gain(runner)))
        return Tuning(
            method=self.default.name,
            explainer=self.bench.ready(replace(given, **winner.setting)),
            settings=dict(winner.setting),
            table=[self._trial(runner, chosen=runner is winner) for runner in (self.base, *order)],
            metric=self.bench.metric.name,
            higher_is_better=higher,
            series=len(self.order),
            passes=self.bench.spent,
            unit=round(self.explained * self.bench.count),
        )

    def _finished(self, runner: _Runner) -> bool:
        return bool(runner.ran[self.order].all())

    def _trial(self, runner: _Runner, *, chosen: bool) -> Trial:
        scores = runner.scores[runner.ran]
        own, gap = summarise(scores), compare(scores, self.base.scores[runner.ran])
        means = own.mean, own.standard_error, gap.mean, gap.standard_error
        return Trial(runner.setting, *means, gap.count, runner.passes, self._finished(runner), chosen)


def by_luck(gains: Tensor) -> list[float]:
    """Return for each row how often the best of all rows looks at least as good if none of them is good.

    ``gains`` are differences, (settings, series), NaN where one is not known.

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> noise = torch.randn(5, 30, generator=generator, dtype=torch.float64)
    >>> noise[0] += 1
    >>> [luck <= 0.05 for luck in by_luck(noise)]
    [True, False, False, False, False]
    """
    known = ~gains.isnan()
    values, count = torch.where(known, gains, 0.0).double(), known.sum(1)
    signs = torch.randint(2, (DRAWS, gains.shape[1]), generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    squares = values.square().sum(1)

    def ratio(total: Tensor) -> Tensor:
        """Return means in standard errors; 0 where nothing differs, or a single series tells."""
        spread = (squares - total.square() / count).clamp(min=0) / (count - 1)
        found = total / (spread * count).sqrt()
        return torch.where((count > 1) & (squares > 0), found, 0.0)

    chance = ratio(signs @ values.mT).amax(1)
    return [(1 + int((chance >= each).sum())) / (1 + DRAWS) for each in ratio(values.sum(1))]


def _more(explainer: Explainer, default: Explainer) -> float:
    """Return how many times the samples of the default an explainer takes; 1 where one has no fixed number."""
    counts = ([getattr(each, name, None) for name in UNITS] for each in (explainer, default))
    return next((own / usual for own, usual in zip(*counts, strict=True) if own and usual), 1.0)
