r"""What would be predicted if a part of a series were as usual: a channel, a driver, or two of them together.

For some parts :math:`P` of a series the model reads :math:`z_P`, in which the observed cells of :math:`P` hold
their usual values and all others their own; :math:`c_P = F(z_P) - F(x)` is the change. Two parts that change the
prediction in one direction are

- *both needed* if each alone undoes most of what both undo, :math:`c_a + c_b \ge \tfrac32 c_{ab}` (an AND),
- *each enough* if one alone undoes little of it, :math:`c_a + c_b \le \tfrac12 c_{ab}` (an OR),
- *a combination* if both together change little, :math:`|c_{ab}| \le \tfrac12 \min(|c_a|, |c_b|)` (an XOR).

These are facts about the model's outputs, of passes without a gradient, and draw nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.core.formatting import alike, counted, short_number, table
from tempograd.core.series import Series
from tempograd.engine import Predictor, frozen, slices
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.record import as_table
from tempograd.metrics.base import AskAgain, Evaluation
from tempograd.typing import Inputs, Model, Picker
from tempograd.views.drivers import Driver, named_drivers
from tempograd.views.labels import channel_names, name, short_times, when_text
from tempograd.views.prediction import percent_text, said_of, with_unit_of
from tempograd.views.series import observed_cells, position

if TYPE_CHECKING:
    import pandas as pd

CHANNELS, DRIVERS = 4, 3  # the strongest that are tried two by two
SAID = 3  # outcomes that a sentence names
POINT, SMALL = 0.01, 0.1  # of a probability, and of the largest change: less is no change
RANGE = (0.05, 0.5, 0.95)  # quantiles of usual values
KINDS = ("baseline", "neighbours")
FILLED = {"median": "as usual", "neighbours": "like its neighbours", "baseline": "at its baseline"}
Portions = tuple["Portion", ...]
Filling = Callable[[int, "Portion"], Tensor]  # usual values for a part of a series


class Portion(NamedTuple):
    """Steps of a channel; ``stop`` is none of them any more."""

    channel: int
    start: int
    stop: int


@dataclass(frozen=True)
class Outcome:
    """The prediction for a series with parts of it as usual.

    Attributes
    ----------
    parts : tuple of Portion
        A channel or a driver, or two of them.
    prediction : float
        The explained output then.
    change : float
        How far that is from the prediction for the series as it is.
    """

    parts: tuple[Portion, ...]
    prediction: float
    change: float


class Remark(NamedTuple):
    """What outcomes say together, or against a score."""

    kind: Literal["needs both", "each enough", "combination", "contradiction"]
    parts: tuple[Portion, ...]
    text: str


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Predictions for series with parts of them as usual.

    Attributes
    ----------
    explanation : Explanation
        Of the predictions.
    usual : {"median", "neighbours", "baseline"}
        What took the place of the values.
    quantiles : array of shape (3, channel), optional
        Of the medians: the lower end of what is usual (5 %), the middle and the upper end (95 %), as people know
        them.
    outcomes : tuple of tuple of Outcome
        For each series those of its channels, of the drivers that its sentence names, and of pairs of both.
    """

    explanation: Explanation
    usual: str
    quantiles: Any
    outcomes: tuple[tuple[Outcome, ...], ...]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        rows = [
            [self.words(0, outcome.parts), self.said(0, outcome.prediction), self._points(0, outcome.change)]
            for outcome in self.strongest(0)
        ]
        first = "" if len(self) == 1 else f" of {counted(len(self), 'series', 'series')}, the first"
        return f"WhatIf{first}: {self.describe(0)}\n{table([['as usual', 'prediction', 'change'], *rows])}"

    def strongest(self, i: int | str = 0) -> list[Outcome]:
        """Return the outcomes that change the prediction of a series, the largest change first.

        Two parts are left out where one of them changes as much.
        """
        outcomes = self.outcomes[position(self.explanation, i)]
        size, least = {outcome.parts: abs(outcome.change) for outcome in outcomes}, self._least(i)
        alone = {parts: max(size[(part,)] for part in parts) for parts in size if len(parts) > 1}
        found = [each for each in outcomes if size[each.parts] >= alone.get(each.parts, 0.0) + least]
        return sorted(found, key=lambda outcome: -size[outcome.parts])

    def remarks(self, i: int | str = 0) -> list[Remark]:
        """Return what the outcomes of a series say together, and where one speaks against the sign of a driver."""
        row, least = position(self.explanation, i), self._least(i)
        change = {outcome.parts: outcome.change for outcome in self.outcomes[row]}
        found, told = list[Remark](), set[tuple[int, ...]]()
        for parts, both in change.items():
            channels = tuple(sorted(part.channel for part in parts))
            if len(parts) == 2 and channels not in told:
                one, other = (change[(part,)] for part in parts)
                if (kind := _kind(one, other, both, least)) is not None:
                    told.add(channels)
                    found.append(Remark(kind, parts, self._remark(row, kind, parts, both > 0)))
        whole, drivers = self.explanation.values.shape[1], named_drivers(self.explanation, row)
        pushed = {(driver.channel, driver.total > 0) for driver in drivers}
        for driver in drivers:
            alone = (driver.channel, driver.total < 0) not in pushed  # else another stretch explains the channel
            places = [(driver.start, driver.stop), *[(0, whole)] * alone]
            for part in (Portion(driver.channel, *place) for place in places):
                moved = change.get((part,), 0.0)
                if (
                    driver.certain
                    and moved * driver.total >= 0
                    and abs(moved) >= least
                    and self.explanation.signed
                ):
                    found.insert(0, Remark("contradiction", (part,), self._against(row, driver, part, moved)))
                    break
        return found

    def describe(self, i: int | str = 0) -> str:
        """Say what would change the prediction of a series, first what its scores could make readers get wrong."""
        row = position(self.explanation, i)
        said, told = said_of(self.explanation, row).text, dict[int, str]()
        for outcome in self.strongest(row):
            if len(outcome.parts) == 1 and len(told) < SAID:  # of a channel, what changes most
                (part,) = outcome.parts
                what = f"{self._part(row, part)} {self._as_usual(part)}"
                told.setdefault(part.channel, f"{self.said(row, outcome.prediction)} with {what}")
        rest = f"it would be {', '.join(told.values())}" if told else "no single part as usual would change it"
        return " ".join([*(remark.text for remark in self.remarks(row)), f"{said[:1].upper()}{said[1:]}; {rest}."])

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per outcome: ``id``, ``what`` was as usual, ``prediction`` and ``change``."""
        outcomes = [(i, outcome) for i, outcomes in enumerate(self.outcomes) for outcome in outcomes]
        labels = self.explanation.labels
        return as_table(
            {
                "id": [labels[i] for i, _ in outcomes],
                "what": [self.words(i, outcome.parts) for i, outcome in outcomes],
                "prediction": [outcome.prediction for _, outcome in outcomes],
                "change": [outcome.change for _, outcome in outcomes],
            }
        )

    def words(self, i: int, parts: Sequence[Portion]) -> str:
        """Call parts of a series by channels and times."""
        return " and ".join(self._part(i, part) for part in parts)

    def usual_text(self, channel: int) -> str:
        """Say what is usual in a channel: the middle and the range; nothing where that is not known."""
        if self.quantiles is None or np.isnan(self.quantiles[1, channel]):
            return ""
        low, middle, high = alike(*self.quantiles[:, channel].tolist())
        unit = "" if self.explanation.units is None else name(self.explanation.units[channel])
        return f"{f'{middle} {unit}'.rstrip()} (mostly {low} to {high})"

    def _part(self, i: int, part: Portion) -> str:
        called = name(channel_names(self.explanation)[part.channel])
        if part.stop - part.start == self.explanation.values.shape[1]:
            return called
        times, numbered = short_times(self.explanation.times_of(i)), self.explanation.times is None
        return f"{called} {when_text(times[part.start : part.stop], numbered=numbered)}".strip()

    def _least(self, i: int | str) -> float:
        """Return the smallest change of a series' prediction that counts as one."""
        outcomes = self.outcomes[position(self.explanation, i)]
        largest = max((abs(outcome.change) for outcome in outcomes), default=0.0)
        probable = POINT if self.explanation.output == "probability" else torch.finfo(torch.float32).tiny
        return max(SMALL * largest, probable)

    def said(self, i: int, prediction: float) -> str:
        """Write a prediction: a probability in percent, a number with its unit."""
        said = said_of(self.explanation, i)
        return percent_text(prediction) if said.probable else with_unit_of(prediction, said.unit)

    def _points(self, i: int, change: float) -> str:
        """Write a change: of a probability in points."""
        said = said_of(self.explanation, i)
        number = short_number(float(f"{100 * change:.1f}")) if said.probable else short_number(change)
        return f"{'+' * (change > 0)}{number} {'points' if said.probable else said.unit}".rstrip()

    def _as_usual(self, part: Portion) -> str:
        known = self.usual_text(part.channel)
        return f"at its usual {known}" if known and self.usual == "median" else FILLED[self.usual]

    def _remark(self, i: int, kind: str, parts: Sequence[Portion], rises: bool) -> str:
        """Say what two parts do together; with both as usual the prediction ``rises`` or falls."""
        both, filled = " and ".join(self._part(i, part) for part in parts), FILLED[self.usual]
        if kind == "needs both" and rises:
            return f"Only {both} together hold the prediction down: with either {filled}, most of that is gone."
        if kind == "needs both":
            return f"The prediction needs both {both}: with either {filled}, most of it is gone."
        if kind == "each enough":
            return f"Each of {both} is enough: only with both {filled} does the prediction change."
        return f"What counts is the combination of {both}: either {filled} changes the prediction, both do not."

    def _against(self, i: int, driver: Driver, part: Portion, moved: float) -> str:
        """Say that an outcome speaks against the sign of a driver."""
        pushed, turn = "raised" if driver.total > 0 else "lowered", "rises" if moved > 0 else "falls"
        prediction = next(outcome.prediction for outcome in self.outcomes[i] if outcome.parts == (part,))
        longer = part.stop - part.start > driver.stop - driver.start
        what = f"{f'all of {self._part(i, part)}' if longer else 'that'} {self._as_usual(part)}"
        scored = f"Take care: by its scores, {driver.words} {pushed} the prediction"
        return f"{scored}, but with {what} it {turn} to {self.said(i, prediction)}."


def _kind(one: float, other: float, both: float, least: float) -> Any:
    """Tell how two parts act together, from the changes of each and of both; None if each acts for itself.

    Examples
    --------
    >>> _kind(-0.8, -0.8, -0.8, 0.01), _kind(0.0, -0.02, -0.9, 0.01), _kind(0.9, 0.9, 0.0, 0.01)
    ('needs both', 'each enough', 'combination')
    >>> _kind(-0.3, -0.4, -0.7, 0.01)  # each acts for itself
    """
    small, alike = min(abs(one), abs(other)), one * other > 0
    if alike and small >= least and abs(both) <= small / 2:
        return "combination"
    if abs(both) < least:
        return None
    share = (one + other) / both
    if share <= 0.5 and max(abs(one), abs(other)) <= abs(both) / 2:
        return "each enough"
    return "needs both" if alike and one * both > 0 and small >= least and share >= 1.5 else None


def what_if(
    model: Model | Predictor,
    explanation: Explanation,
    *,
    usual: Inputs | Series | str | None = None,
    target: Picker | None = None,
    batch_size: int | None = None,
) -> WhatIf:
    """Tell what would be predicted with each channel, and each driver, at its usual values, alone and two by two.

    It takes a pass of the model for each channel, one for each driver and few for pairs.

    Parameters
    ----------
    model : nn.Module, callable or Predictor
        The model that was explained.
    explanation : Explanation
        Of the predictions.
    usual : series like those explained, "neighbours" or "baseline", optional
        What a part is replaced by: the medians of other series, such as those of training, channel by channel; the
        values before and after it, on a straight line; or, by default, the baseline of the explanation.
    target : callable, optional
        The function that picked the explained score, where a file could not keep it.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.

    Examples
    --------
    >>> import tempograd as tg
    >>> alarm = tg.Predictor(lambda x: torch.sigmoid(9 * x.amax(1).prod(1) - 4), task="regression")  # needs both
    >>> exp = tg.explain(alarm, torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]))
    >>> what_if(alarm, exp).remarks()[0].kind
    'needs both'
    """
    explanation = require(explanation)
    ask = Evaluation(model, explanation, explanation.baseline, target=target, batch_size=batch_size).ask()
    filling, quantiles = _filling(ask, explanation, usual)
    count, time, depth = ask.x.shape
    observed = torch.from_numpy(observed_cells(explanation))
    singles, named = [], [named_drivers(explanation, row) for row in range(count)]
    for row in range(count):
        drivers = [Portion(each.channel, each.start, each.stop) for each in named[row]]
        whole = [Portion(d, 0, time) for d in range(depth) if bool(observed[row, :, d].any())]
        singles.append([(part,) for part in dict.fromkeys([*whole, *drivers])])
    with frozen(ask.bare):
        first = _scores(ask, filling, singles)
        pairs = [_pairs(*row) for row in zip(singles, first, named, strict=True)]
        second = _scores(ask, filling, pairs)
    outcomes = []
    for i in range(count):
        clean, *found = [*first[i], *second[i][1:]]
        outcomes.append(
            tuple(
                Outcome(parts, score, score - clean)
                for parts, score in zip([*singles[i], *pairs[i]], found, strict=True)
            )
        )
    kind = "median" if quantiles is not None else usual if isinstance(usual, str) else "baseline"
    return WhatIf(explanation, kind, quantiles, tuple(outcomes))


def _filling(ask: AskAgain, explanation: Explanation, usual: Any) -> tuple[Filling, Any]:
    """Return what looks up usual values and, of medians, the quantiles as people know them, (3, channel)."""
    if usual is None or isinstance(usual, str):
        if validation.check_choice(usual or "baseline", "usual", KINDS) == "baseline":
            return lambda i, part: ask.baseline[i, part.start : part.stop, part.channel], None
        seen = torch.from_numpy(observed_cells(explanation))
        return lambda i, part: _line(ask.x[i, :, part.channel], seen[i, :, part.channel], part), None
    others, packing = Series.of(usual).padded(), ask.call.packing
    pool = ask.call.pooled(others.marked, "The usual series")
    if pool.shape[2] != ask.x.shape[2]:
        raise InputError(f"The usual series must have the {ask.x.shape[2]} channels of x, got {pool.shape[2]}.")
    if packing is not None:
        pool = pool.where(packing.occupied(), torch.nan)
    known = ~pool.isnan().all(1).all(0)
    if not bool(known.all()):
        empty = channel_names(explanation)[int(known.long().argmin())]
        raise InputError(f"The usual series hold no value of {name(empty)}: pass others.")
    quantiles = _quantiles(pool)
    middle = torch.from_numpy(quantiles[1])
    shown: Any = quantiles if explanation.raw is None else None  # in other units
    if explanation.raw is not None and isinstance(others.raw, Tensor):
        shown = _quantiles(others.raw)
    known = np.full_like(quantiles, np.nan) if shown is None else shown
    return lambda i, part: middle[part.channel].expand(part.stop - part.start), known


def _quantiles(values: Tensor) -> Any:
    return np.nanquantile(values.flatten(0, 1).double().cpu().numpy(), RANGE, axis=0)


def _line(values: Tensor, seen: Tensor, part: Portion) -> Tensor:
    """Return values on a line between those before and after a part; of a whole channel its median.

    Examples
    --------
    >>> _line(torch.tensor([1.0, 9.0, 9.0, 4.0]), torch.ones(4).bool(), Portion(0, 1, 3)).tolist()
    [2.0, 3.0]
    """
    step = torch.arange(len(values))
    known = seen.cpu() & ((step < part.start) | (step >= part.stop))
    if not bool(known.any()):
        return values[seen].median().expand(part.stop - part.start)
    near, at = step[known].numpy(), step[part.start : part.stop].numpy()
    return torch.from_numpy(np.interp(at, near, values.cpu()[known].double().numpy())).to(values)


def _pairs(singles: Sequence[Portions], scores: Sequence[float], drivers: Sequence[Driver]) -> list[Portions]:
    """Return pairs of the strongest drivers, and of the channels that are strongest by outcomes and by scores."""
    clean, *found = scores
    parts = {part: abs(score - clean) for (part,), score in zip(singles, found, strict=True)}
    length = max((part.stop - part.start for part in parts), default=0)
    whole = {part.channel: part for part in parts if part.stop - part.start == length}
    moved = sorted(whole, key=lambda d: -parts[whole[d]])
    both = chain.from_iterable(zip_longest(moved, dict.fromkeys(each.channel for each in drivers)))
    strongest = list(dict.fromkeys(d for d in both if d is not None))[:CHANNELS]
    runs = [Portion(each.channel, each.start, each.stop) for each in drivers[:DRIVERS]]
    chosen = chain(combinations(runs, 2), combinations([whole[d] for d in strongest], 2))
    return list(dict.fromkeys(pair for pair in chosen if pair[0] != pair[1]))


def _scores(ask: AskAgain, filling: Filling, outcomes: Sequence[Sequence[Portions]]) -> list[list[float]]:
    """Return for each series the explained score as it is, and then with each of its outcomes."""
    found: list[list[float]] = [[] for _ in outcomes]

    def work(rows: slice, size: int) -> None:
        block = ask.with_target(ask.block(rows))
        here = outcomes[rows]
        points = 1 + max(map(len, here))
        parts = []
        for batch in slices(points, max(1, size // len(here))):
            z = block.x[:, None].repeat(1, batch.stop - batch.start, 1, 1)
            for i, own in enumerate(here):
                for place in range(max(batch.start, 1), min(batch.stop, 1 + len(own))):
                    for part in own[place - 1]:
                        steps = slice(part.start, part.stop)
                        seen, new = block.observed[i, steps, part.channel], filling(rows.start + i, part).to(z)
                        z[i, place - batch.start, steps, part.channel] = torch.where(
                            seen, new, block.x[i, steps, part.channel]
                        )
            scores = ask.scores(z, block).double()
            parts.append(scores if scores.ndim == 2 else scores.sum(-1))  # of each step
        for i, scores in enumerate(torch.cat(parts, 1).tolist()):
            found[rows.start + i] = scores[: 1 + len(here[i])]

    ask.batching.run(len(ask.x), 1 + max(map(len, outcomes), default=0), work, "what if")
    told = zip(_steps(ask.explanation), found, strict=True)
    return [[score / steps for score in scores] for steps, scores in told]


def _steps(explanation: Explanation) -> list[int]:
    """Return over how many steps the score of each series is summed, of which people are told the mean."""
    target, steps = explanation.target, explanation.steps
    if target is None or target.ndim == 1:
        return [1] * len(explanation)
    count = steps.sum(1).tolist() if isinstance(steps, Tensor) else [target.shape[1]] * len(target)
    return [max(1, each) for each in count]
