"""Tables as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tempograd.core.io import Kind, start
from tempograd.metrics import METRICS, Summary
from tempograd_paper.cell import Measure
from tempograd_paper.tables.captions import notes
from tempograd_paper.tables.entries import TableEntry
from tempograd_paper.tables.published_numbers import SCALES
from tempograd_paper.tables.sheets import Sheet, Text, make_sheets
from tempograd_paper.tables.sizes import Size, size_fields, size_notes, size_sheet
from tempograd_paper.tables.tabulation import Panel, Table

# A table for programs: one line per row and measure, with everything that is known of it.

FIELDS = (
    "table", "protocol", "dataset", "model", "folds", "left_out", "label", "method", "rank", "measure", "metric",
    "k", "baseline", "higher_is_better", "scale", "mean", "standard_error", "count", "over", "complete", "mark",
    "published_mean", "published_standard_error", "deviation", "deviation_in_errors",
    "difference", "difference_low", "difference_high", "difference_count",
    "seconds_per_series", "test_accuracy", "largest_class", "auroc", "auroc_standard_error", "folds_at_chance",
)  # fmt: skip


def lines(table: Table) -> Iterator[dict[str, str]]:
    """Yield one line of text per panel, row and measure; what is not known or not finite is empty."""
    for record in records(table):
        yield {name: _plain(value) for name, value in record.items()}


def records(table: Table) -> Iterator[dict[str, Any]]:
    """Yield one record per panel, row and measure; what is not known or not finite is None.

    Numbers are in the units of the paper: ``scale`` times the metric's own.
    """
    plan = table.plan
    for panel in table.panels:
        for row, entries, seconds in zip(plan.rows, panel.entries, panel.seconds, strict=True):
            for measure, entry in zip(plan.measures, entries, strict=True):
                line = {
                    "table": plan.name,
                    "protocol": plan.protocol,
                    **_about(panel),
                    "label": row.label,
                    "method": row.method,
                    "rank": row.rank,
                    **_measure(measure),
                    **_entry(entry),
                    "over": panel.over,
                    "seconds_per_series": seconds,
                }
                yield {name: None if _unknown(value) else value for name, value in line.items()}


def _about(panel: Panel) -> dict[str, Any]:
    quality = panel.quality
    return {
        "dataset": panel.dataset,
        "model": panel.model,
        "folds": panel.folds,
        "left_out": tuple(fold for fold, _ in panel.left_out),
        "test_accuracy": _mean(quality.accuracy),
        "largest_class": _mean(quality.majority),
        "auroc": _mean(quality.auroc),
        "auroc_standard_error": quality.auroc and quality.auroc.standard_error,
        "folds_at_chance": quality.at_chance,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "measure": measure.name,
        "metric": measure.metric,
        "k": measure.k,
        "baseline": None if measure.k is None else measure.baseline,
        "higher_is_better": METRICS[measure.metric].higher_is_better,
        "scale": SCALES.get(measure.metric, 1.0),
    }


def _entry(entry: TableEntry) -> dict[str, Any]:
    ours, theirs, gap, deviation = entry.summary, entry.published, entry.difference, entry.deviation
    return {
        "mean": _mean(ours),
        "standard_error": ours and ours.standard_error,
        "count": ours and ours.count,
        "complete": entry.complete,
        "mark": entry.mark,
        "published_mean": theirs and theirs.mean,
        "published_standard_error": theirs and theirs.standard_error,
        "deviation": deviation and deviation.value,
        "deviation_in_errors": deviation and deviation.in_errors,
        "difference": gap and gap.mean,
        "difference_low": gap and gap.low,
        "difference_high": gap and gap.high,
        "difference_count": gap and gap.count,
    }


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


def _unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
    "–": "--",
    "†": r"\dag{}",
}
SIZES = "Sizes of the data sets"
TITLE = re.compile(rf"(# |\\paragraph\{{).*(\((fair|published) protocol\)|{SIZES})(\.\}})?\n")


def render(table: Table | Sequence[Size], form: str) -> str:
    """Write a table, or the sizes of data sets, as ``"markdown"``, ``"latex"``, ``"csv"`` or ``"json"``."""
    return FORMATS[form](table)


def _markdown(table: Table | Sequence[Size]) -> str:
    title, parts, remarks = _parts(table, "in italics")
    blocks = [f"# {title}"]
    for sheet in parts:
        blocks.append(f"## {sheet.title}")
        blocks += sheet.lines
        blocks.append(sheet.markdown)
    if remarks:
        blocks.append("\n".join(f"- {remark}" for remark in remarks))
    return "\n\n".join(blocks) + "\n"


def _latex(table: Table | Sequence[Size]) -> str:
    title, parts, remarks = _parts(table, "underlined")
    blocks = [f"\\paragraph{{{escaped(title)}.}}"]
    for sheet in parts:
        rows = [[escaped(cell) for cell in sheet.head], *([_set(cell) for cell in row] for row in sheet.body)]
        text = [" & ".join(row) + r" \\" for row in rows]
        caption = " ".join([f"{sheet.title}.", *sheet.lines])
        blocks.append(
            "\n".join(
                [
                    r"\begin{table}[htbp]",
                    r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
                    f"\\caption{{{escaped(caption)}}}",
                    f"\\begin{{tabular}}{{l{'r' * (len(sheet.head) - 1)}}}",
                    r"\hline",
                    text[0],
                    r"\hline",
                    *text[1:],
                    r"\hline",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    blocks += [escaped(remark) for remark in remarks]
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    r"""Write text so that LaTeX prints it as it is.

    Examples
    --------
    >>> print(escaped("0.1 ± 0.02 (10%, a_b)"))
    0.1 $\pm$ 0.02 (10\%, a\_b)
    """
    parts = ["".join(LATEX.get(letter, letter) for letter in part) for part in text.split("--")]
    return "-{}-".join(parts)  # two hyphens would become a dash


def _set(cell: Text) -> str:
    command = {"best": r"\textbf", "second": r"\underline"}.get(cell.mark)
    return escaped(cell.text) if command is None else f"{command}{{{escaped(cell.text)}}}"


def _csv(table: Table | Sequence[Size]) -> str:
    """Write one line per row and measure, with all there is to know of it."""
    fields, found = (FIELDS, lines(table)) if isinstance(table, Table) else size_fields(table)
    file = io.StringIO()
    writer = csv.DictWriter(file, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return file.getvalue()


def _json(table: Table | Sequence[Size]) -> str:
    """Write what the CSV has, with numbers as numbers and null for what is not known."""
    if isinstance(table, Table):
        found = [{name: record.get(name) for name in FIELDS} for record in records(table)]
    else:
        found = [
            {name: None if value == "" else value for name, value in row.items()} for row in size_fields(table)[1]
        ]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _parts(table: Table | Sequence[Size], second: str) -> tuple[str, list[Sheet], list[str]]:
    if isinstance(table, Table):
        return f"{table.plan.title} ({table.plan.protocol} protocol)", make_sheets(table), notes(table, second)
    return SIZES, [size_sheet(table)], size_notes(table)


FORMATS: dict[str, Callable[[Table | Sequence[Size]], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}


def _wrote(path: Path) -> bool:
    """Tell whether a file is a table in one of the formats, by the way it begins."""
    text = start(path)
    fields = [FIELDS, size_fields(())[0]]
    heads = [",".join(names) + "\n" for names in fields]
    lists = [json.dumps([dict.fromkeys(names)], indent=2).partition("null")[0] for names in fields]
    second = [f'"{names[1]}": ' for names in fields]
    listed = any(text.startswith(head) and name in text for head, name in zip(lists, second, strict=True))
    return bool(TITLE.match(text)) or text.startswith(tuple(heads)) or listed or text == "[]\n"


TABLE = Kind("table", _wrote)
