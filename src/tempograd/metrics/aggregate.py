"""From one score per series to means with standard errors, paired differences, and a table as papers print it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tempograd.core import formatting, stats, validation
from tempograd.core.errors import InputError, brief
from tempograd.explanation.record import as_table
from tempograd.metrics.base import METRICS
from tempograd.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

MetricScores = Mapping[str, Mapping[str, Tensor]]  # of each method, by metric, one per series
LEVEL = 0.05  # of all tests of a metric together
ARROWS = {True: " ↑", False: " ↓", None: ""}
NOTE = "± standard error; {}: best; †: not told apart from it (paired t tests, Holm-corrected, p ≥ 0.05)"
TEXT = {"cell": "{}", "best": "{}*", "tie": "{}†"}
MARKDOWN = TEXT | {"best": "**{}**"}
LATEX = {"cell": "${}$", "best": r"$\mathbf{{{}}}$", "tie": r"${}^\dagger$"}
IN_LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"\\": r"\textbackslash ", "−": "-", "±": r"\pm"}
IN_LATEX |= {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}


@dataclass(frozen=True, repr=False)
class Summary:
    """Mean of some scores, its standard error (infinite below two scores), and how many scores counted."""

    mean: float
    standard_error: float
    count: int

    def __repr__(self) -> str:
        short = {name: f"{part:.3g}" if isinstance(part, float) else part for name, part in vars(self).items()}
        return f"{type(self).__name__}({', '.join(f'{name}={part}' for name, part in short.items())})"


@dataclass(frozen=True, repr=False)
class Difference(Summary):
    """Mean of first minus second, its standard error, how many pairs counted, and the limits of its interval."""

    low: float
    high: float

    @property
    def p_value(self) -> float:
        """Probability of a mean as far from 0 if there is no difference: the paired t test, two-sided."""
        if self.count < 2 or not self.standard_error:
            return 1.0 if self.count < 2 or not self.mean else 0.0
        return stats.t_tail(self.mean / self.standard_error, self.count - 1)


def summarise(scores: ArrayLike) -> Summary:
    r"""Mean :math:`\bar s` and standard error :math:`\sqrt{\sum (s_i - \bar s)^2 / (n (n - 1))}` of scores.

    Scores that are not defined (NaN) are left out; ``count`` tells how many are not.

    Examples
    --------
    >>> summarise(torch.tensor([1.0, 2.0, 6.0, torch.nan]))
    Summary(mean=3, standard_error=1.53, count=3)
    """
    defined = _scores(scores, "scores")
    defined = defined[~defined.isnan()]
    count = len(defined)
    error = float(defined.std()) / count**0.5 if count > 1 else torch.inf
    return Summary(float(defined.mean()), error, count)


def compare(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Difference:
    r"""Mean difference of two methods on the same series, first minus second, with an interval of Student's t.

    .. math:: \bar d \pm t_{n-1} \, \frac{\mathrm{sd}(d)}{\sqrt n}, \qquad d_i = a_i - b_i

    with the scores :math:`a` of the first method and :math:`b` of the second: a positive mean says that the first
    scores higher. Pairs of which one score is not defined (NaN) are left out.

    Examples
    --------
    >>> compare(torch.tensor([3.0, 4.0, 6.0]), torch.tensor([1.0, 3.0, 3.0]))
    Difference(mean=2, standard_error=0.577, count=3, low=-0.484, high=4.48)
    """
    level = validation.check_share(level, "level")
    one, other = _scores(first, "first"), _scores(second, "second")
    if len(one) != len(other):
        raise InputError(f"Scores are compared series by series, but there are {len(one)} and {len(other)}.")
    gain = summarise(one - other)
    freedom = torch.tensor([gain.count - 1], dtype=torch.float64)
    half = float(stats.t_quantile(level, freedom)) * gain.standard_error
    return Difference(**vars(gain), low=gain.mean - half, high=gain.mean + half)


def _scores(scores: ArrayLike, name: str) -> Tensor:
    tensor = validation.check_numbers(scores, name).cpu().double()
    if tensor.ndim > 1:
        raise InputError(f"{name} must be one number per series, got shape {tuple(tensor.shape)}.")
    return tensor.reshape(-1)


# A table of methods by metrics: the best, and corrected tests


@dataclass(frozen=True, repr=False)
class TableCell(Summary):
    """One method under one metric.

    Attributes
    ----------
    mean, standard_error : float
        Over the series; ``count`` is how many have a score.
    best : bool
        Whether no other mean is better.
    p_value : float, optional
        Of the difference to the best on the same series, after Holm; None for the best, and for a metric of which
        nobody said what is better.
    difference : Difference, optional
        This method minus the first one, series by series; None for the first.
    """

    best: bool
    p_value: float | None
    difference: Difference | None = None

    @property
    def ties(self) -> bool:
        """Whether the best cannot be told from it."""
        return self.p_value is not None and self.p_value >= LEVEL


@dataclass(frozen=True, repr=False)
class PaperTable:
    """What :func:`tempograd.table` returns; print it, or write it into a paper.

    Attributes
    ----------
    methods, metrics : tuple of str
    higher_is_better : tuple of bool, optional
        Of each metric.
    cells : mapping from (method, metric) to TableCell
    """

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    higher_is_better: tuple[bool | None, ...]
    cells: Mapping[tuple[str, str], TableCell]

    @property
    def heads(self) -> list[str]:
        """What stands above the columns: each metric with the direction that is better."""
        pairs = zip(self.metrics, self.higher_is_better, strict=True)
        return [f"{metric.upper()}{ARROWS[higher]}" for metric, higher in pairs]

    def __repr__(self) -> str:
        return f"{formatting.table(self._rows(TEXT))}\n\n{NOTE.format('*')}"

    def to_markdown(self) -> str:
        """Return the table in Markdown: the best of each metric bold, a dagger where it is not told apart."""
        return formatting.table(self._rows(MARKDOWN))

    def to_latex(self) -> str:
        """Return the same in LaTeX, for the package booktabs, with a comment that says what its signs mean."""
        head, *body = (" & ".join(row) + r" \\" for row in self._rows(LATEX))
        begin = rf"\begin{{tabular}}{{l{'c' * len(self.metrics)}}}"
        end = [r"\bottomrule", r"\end{tabular}", f"% {NOTE.format('bold')}"]
        return "\n".join([begin, r"\toprule", head, r"\midrule", *body, *end])

    def _rows(self, look: Mapping[str, str]) -> list[list[str]]:
        """Return the head and a row per method, in the language of ``look``."""
        signs = str.maketrans(IN_LATEX if look is LATEX else {})
        rows = [[name.translate(signs)] for name in ("Method", *self.methods)]
        for metric, head in zip(self.metrics, self.heads, strict=True):
            cells = [self.cells[method, metric] for method in self.methods]
            places = _places(cells)
            rows[0].append(head.translate(signs))
            for row, cell in zip(rows[1:], cells, strict=True):
                known = [number for number in (cell.mean, cell.standard_error) if math.isfinite(number)]
                text = " ± ".join(f"{number:.{places}f}".replace("-", "−") for number in known).translate(signs)
                kind = "best" if cell.best else "tie" if cell.ties else "cell"
                row.append(look[kind].format(text) if known else "–")
        return rows

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per method and metric, with the columns of :class:`TableCell`."""
        rows = [{"method": one, "metric": metric} | vars(cell) for (one, metric), cell in self.cells.items()]
        return as_table([{name: value for name, value in row.items() if name != "difference"} for row in rows])


def _places(cells: Sequence[TableCell]) -> int:
    """Return the decimals of a column: two digits of its smallest error."""
    errors = [cell.standard_error for cell in cells if 0 < cell.standard_error < math.inf]
    sizes = [abs(cell.mean) / 10 for cell in cells if cell.mean and math.isfinite(cell.mean)]
    return min(max(1 - math.floor(math.log10(min(errors or sizes or [1.0]))), 0), 9)


def table(scores: MetricScores) -> PaperTable:
    r"""Put what :func:`tempograd.evaluate` returned for several methods into a table for a paper.

    Parameters
    ----------
    scores : mapping
        Of each method, by metric, one score per series: ``{"TIMING": tg.evaluate(…), "mine": …}``.

    Returns
    -------
    PaperTable
        It prints itself; ``to_latex()``, ``to_markdown()`` and ``to_dataframe()`` write it.

    Notes
    -----
    The method with the best mean is compared with each of the :math:`m - 1` others by a paired t test on the
    series that both have scores of. Holm's correction holds the probability of any false difference of a metric
    at 5 %: with :math:`p_{(1)} \le p_{(2)} \le \dots`, the corrected :math:`p_{(i)}` is
    :math:`\max_{j \le i} \min(1, (m - j) \, p_{(j)})`.

    Examples
    --------
    >>> import torch
    >>> found = table({"a": {"cpd": torch.tensor([1.0, 2, 3])}, "b": {"cpd": torch.tensor([0.5, 1.6, 2.4])}})
    >>> print(found.to_markdown())
    | Method |           CPD ↑ |
    | :----- | --------------: |
    | a      | **2.00 ± 0.58** |
    | b      |     1.50 ± 0.55 |
    >>> round(found.cells["b", "cpd"].p_value, 4)
    0.0131
    """
    if not isinstance(scores, Mapping) or not scores or not all(isinstance(s, Mapping) for s in scores.values()):
        wanted = "a mapping of methods to what tempograd.evaluate returns of each"
        raise InputError(f"scores must be {wanted}, got {brief(scores)}.")
    metrics = tuple(next(iter(scores.values())))
    odd = next((method for method, found in scores.items() if set(found) != set(metrics)), None)
    if odd is not None:
        raise InputError(f"All methods must have the same metrics, {', '.join(metrics)}; {odd} has others.")
    directions = tuple(METRICS[metric].higher_is_better if metric in METRICS else None for metric in metrics)
    cells: dict[tuple[str, str], TableCell] = {}
    for metric, higher in zip(metrics, directions, strict=True):
        column = _column({str(method): found[metric] for method, found in scores.items()}, higher)
        cells |= {(method, metric): cell for method, cell in column.items()}
    return PaperTable(tuple(map(str, scores)), metrics, directions, cells)


def _column(scores: Mapping[str, Tensor], higher: bool | None) -> dict[str, TableCell]:
    """Return the cells of one metric."""
    summaries = {method: summarise(values) for method, values in scores.items()}
    known = [method for method, summary in summaries.items() if not math.isnan(summary.mean)]
    best, p_values = None, {}
    if higher is not None and known:
        best = (max if higher else min)(known, key=lambda method: summaries[method].mean)
        others = [method for method in known if method != best]
        p_values = dict(zip(others, holm([compare(scores[m], scores[best]).p_value for m in others]), strict=True))

    first, cells = next(iter(scores.values())), {}
    for place, (method, found) in enumerate(summaries.items()):
        gap = compare(scores[method], first) if place else None
        cells[method] = TableCell(**vars(found), best=method == best, p_value=p_values.get(method), difference=gap)
    return cells


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct several p values so that none is below a level by chance more often than that level says.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03, 0.9])
    [0.04, 0.09, 0.09, 0.9]
    """
    corrected, least, count = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        least = max(least, min(1.0, (count - rank) * p_values[place]))
        corrected[place] = least
    return corrected
