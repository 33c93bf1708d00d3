"""Tables as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tempograd._utils.io import Kind, start
from tempograd.tables.captions import notes
from tempograd.tables.long_table import FIELDS, lines, records
from tempograd.tables.sheets import Sheet, Text, sheets
from tempograd.tables.sizes import Size, size_fields, size_notes, size_sheet
from tempograd.tables.tabulate import Table

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
        return f"{table.plan.title} ({table.plan.protocol} protocol)", sheets(table), notes(table, second)
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
