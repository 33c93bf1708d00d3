"""What a race of settings found: the explainer to use, a table and a sentence."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from tempograd.core.formatting import alike, short_number, table, with_error
from tempograd.explainers import Explainer
from tempograd.explanation.record import as_table
from tempograd.typing import Setting

if TYPE_CHECKING:
    import pandas as pd


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
            gap = with_error(won.difference, won.difference_error)
            sign = "+" if won.difference > 0 else ""
            return f"{won.words}: {name} {score} against {before} by default, {sign}{gap} on {won.series} series."
        if not usual.series:
            return f"The default stays: {name} is defined for none of the series."
        others = [trial for trial in self.table if trial.finished and not trial.chosen]
        start = f"The default stays: {name} {short_number(usual.score)} on {usual.series} series"
        if not others:
            return f"{start}."
        best = others[0]
        sign = "+" if best.difference > 0 else ""
        closest = f"{best.words}, {sign}{with_error(best.difference, best.difference_error)}"
        count = len(self.table) - 1
        tried = f"no other of {count} settings" if count > 1 else "no other setting"
        return f"{start}, and {tried} is better by more than noise ({closest})."

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per setting: the columns of :class:`~tempograd.tuning.Trial`, then its values."""
        return as_table([asdict(trial) | {"setting": trial.words, **trial.setting} for trial in self.table])

    def __str__(self) -> str:
        head = ["setting", self.metric.upper() + (" ↑" if self.higher_is_better else " ↓")]
        rows = [
            [
                ("→ " if trial.chosen else "") + trial.words,
                with_error(trial.score, trial.standard_error),
                "" if trial is self.default else with_error(trial.difference, trial.difference_error),
                str(trial.series),
                f"{trial.passes:,}",
            ]
            for trial in self.table
        ]
        return f"{table([[*head, 'minus default', 'series', 'passes'], *rows])}\n\n{self.verdict()}"

    def __repr__(self) -> str:
        return f"Tuning({self.method}, {self.verdict()})"
