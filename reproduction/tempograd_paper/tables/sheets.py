"""Tables laid out as text: heads, numbers to the same digit, and sheets narrow enough to be read."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tempograd.core.formatting import table as aligned
from tempograd.metrics import METRICS
from tempograd_paper.cell import Measure
from tempograd_paper.tables.captions import ABSENT, INCOMPLETE, REFUSED, about_panel, error_of, panel_label
from tempograd_paper.tables.entries import TableEntry
from tempograd_paper.tables.published_numbers import amount_label
from tempograd_paper.tables.tabulation import Panel, Table

EFFICIENCY = "Fig.efficiency"  # the one table that is about time
WIDTH = 160  # characters of a terminal
SHORT = {
    "accuracy": "Acc",
    "cross_entropy": "CE",
    "sufficiency": "Suff ×100",
    "comprehensiveness": "Comp ×100",
    "prediction_difference": "PD",
    "log_odds": "LO",
    "information": "Information",
    "entropy": "Entropy",
}
BASELINES = {"zero": "zero", "average": "avg", "background": "background"}


class Text(NamedTuple):
    """A cell of a sheet; ``mark`` is ``"best"``, ``"second"`` or empty."""

    text: str
    mark: str = ""

    @property
    def emphasised(self) -> str:
        """The text as Markdown sets it."""
        sign = {"best": "**", "second": "_"}.get(self.mark, "")
        return f"{sign}{self.text}{sign}"


@dataclass(frozen=True)
class Sheet:
    """A table as text.

    Parameters
    ----------
    title : str
    lines : tuple of str
        What stands between title and table.
    head : tuple of str
    body : tuple of rows of Text
    """

    title: str
    lines: tuple[str, ...]
    head: tuple[str, ...]
    body: tuple[tuple[Text, ...], ...]

    @property
    def markdown(self) -> str:
        """The table alone, aligned."""
        return aligned([self.head, *([cell.emphasised for cell in row] for row in self.body)])


Column = tuple[Panel, int]
"""A panel and the position of a measure in the plan."""


def make_sheets(table: Table) -> list[Sheet]:
    """Lay a table out: our numbers beside the published ones, then the differences to TIMING.

    All panels stand side by side if they fit into the width of a terminal, otherwise one below the other, and the
    measures of one that is still too wide on several sheets.
    """
    shown = [panel for panel in table.panels if panel.folds] or table.panels
    everything = [(panel, index) for panel in shown for index in range(len(table.plan.measures))]
    found = _fit(everything, lambda columns: _numbers(table, columns))
    if any(entry.difference is not None for panel in table.panels for row in panel.entries for entry in row):
        found += _fit(everything, lambda columns: _differences(table, columns))
    return found


def measure_label(measure: Measure) -> str:
    """Write a measure as the head of a column: the metric, cells removed, what replaces them, and its direction.

    Examples
    --------
    >>> measure_label(Measure("cpd10", "cpd", 0.1, "average")), measure_label(Measure("aup", "aup"))
    ('CPD 10% avg ↑', 'AUP ↑')
    """
    parts = [SHORT.get(measure.metric, measure.metric.upper())]
    if measure.k is not None:
        parts += [amount_label(measure.k), BASELINES[measure.baseline]]
    return " ".join([*parts, "↑" if METRICS[measure.metric].higher_is_better else "↓"])


def fixed(value: float, places: int, *, sign: bool = False) -> str:
    """Write a number with so many decimals and a true minus.

    Examples
    --------
    >>> fixed(-0.12345, 3), fixed(0.5, 2, sign=True), fixed(-0.0001, 2)
    ('−0.123', '+0.50', '0.00')
    """
    text = f"{value:{'+' if sign else ''}.{places}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def _fit(columns: Sequence[Column], draw: Callable[[Sequence[Column]], Sheet]) -> list[Sheet]:
    sheet = draw(columns)
    panels = list({id(panel): panel for panel, _ in columns}.values())
    if sheet.markdown.index("\n") <= WIDTH or len(columns) == 1:
        return [sheet]
    if len(panels) > 1:
        parts = [[column for column in columns if column[0] is panel] for panel in panels]
    else:
        half = math.ceil(len(columns) / 2)
        parts = [list(columns[:half]), list(columns[half:])]
    return [found for part in parts for found in _fit(part, draw)]


def _numbers(table: Table, columns: Sequence[Column]) -> Sheet:
    head, body = ["method"], [[Text(row.label)] for row in table.plan.rows]
    panels = list({id(panel): panel for panel, _ in columns}.values())
    for panel, index in columns:
        entries = [row[index] for row in panel.entries]
        label = measure_label(table.plan.measures[index])
        head.append(label if len(panels) == 1 else f"{panel_label(panel)}: {label}")
        places = _places(entries)
        _append(body, (_ours(entry, places, panel.over) for entry in entries))
        if any(entry.published is not None for entry in entries):
            head.append("published")
            _append(body, (_published(entry, places) for entry in entries))
        if any(entry.deviation is not None for entry in entries):
            head.append("Δ/σ" if panel.over == "folds" else "Δ")
            _append(body, (_deviation(entry, places, panel.over) for entry in entries))
    if table.plan.table == EFFICIENCY:
        for panel in panels:
            head.append("s per series" if len(panels) == 1 else f"{panel_label(panel)}: s per series")
            _append(body, (Text(ABSENT if time is None else f"{time:.3g}") for time in panel.seconds))
    lines = [about_panel(panel) for panel in panels if (panel, 0) in columns]
    if len(panels) > 1:
        lines = [f"{panel_label(panel)}: {line}" for panel, line in zip(panels, lines, strict=True)]
    return Sheet(_title(table, panels), tuple(lines), tuple(head), tuple(tuple(row) for row in body))


def _differences(table: Table, columns: Sequence[Column]) -> Sheet:
    rows = [index for index, row in enumerate(table.plan.rows) if row != table.reference]
    head, body = ["method"], [[Text(table.plan.rows[index].label)] for index in rows]
    panels = list({id(panel): panel for panel, _ in columns}.values())
    for panel, index in columns:
        label = measure_label(table.plan.measures[index])
        head.append(label if len(panels) == 1 else f"{panel_label(panel)}: {label}")
        places = _places([row[index] for row in panel.entries])
        _append(body, (_difference(panel.entries[row][index], places) for row in rows))
    to = "TIMING" if table.reference is None else table.reference.label
    title = f"{_title(table, panels)}: paired difference, method minus {to}, with 95 % interval"
    return Sheet(title, (), tuple(head), tuple(tuple(row) for row in body))


def _title(table: Table, panels: Sequence[Panel]) -> str:
    return panel_label(panels[0]) if len(panels) == 1 else table.plan.title


def _append(body: list[list[Text]], cells: Iterable[Text]) -> None:
    for row, cell in zip(body, cells, strict=True):
        row.append(cell)


def _places(entries: Sequence[TableEntry]) -> int:
    """Return how many decimals show three digits of the largest mean; three as in the paper, six at most."""
    largest = max((abs(entry.summary.mean) for entry in entries if entry.summary is not None), default=0.0)
    return 3 if largest == 0 else min(max(2 - math.floor(math.log10(largest)), 3), 6)


def _ours(entry: TableEntry, places: int, over: str) -> Text:
    if entry.summary is None:
        return Text(REFUSED if entry.refused else ABSENT)
    text = fixed(entry.summary.mean, places)
    if math.isfinite(entry.summary.standard_error):
        text += error_of(fixed(entry.summary.standard_error, places), over)
    return Text(text + ("" if entry.complete else f" {INCOMPLETE}"), entry.mark)


def _published(entry: TableEntry, places: int) -> Text:
    if entry.published is None:
        return Text(ABSENT)
    places = min(places, 3)  # the paper prints no more
    return Text(f"{fixed(entry.published.mean, places)} ± {fixed(entry.published.standard_error, places)}")


def _deviation(entry: TableEntry, places: int, over: str) -> Text:
    if entry.deviation is None:
        return Text(ABSENT)
    if over == "series":
        return Text(fixed(entry.deviation.value, places, sign=True))
    errors = entry.deviation.in_errors
    return Text(ABSENT if errors is None else fixed(errors, 1, sign=True))


def _difference(entry: TableEntry, places: int) -> Text:
    gap = entry.difference
    if gap is None:
        return Text(ABSENT)
    low, mean, high = (fixed(value, places, sign=True) for value in (gap.low, gap.mean, gap.high))
    return Text(f"{mean} [{low}, {high}]")
