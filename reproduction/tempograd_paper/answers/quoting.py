"""Tables of the kept results, quoted by a page under a line that says where they are from."""

import re
from pathlib import Path

from tempograd.core.errors import DataError

TABLE = r"(?:\|.*\n)+"
TITLED = re.compile(rf"^## (?P<title>.+)\n|^(?P<table>{TABLE})", re.MULTILINE)
FROM = r"(?P<start><!-- from reproduction/results/(?P<file>\S+) -->\n\n)"
QUOTED = re.compile(rf"^\*\*(?P<title>[^*\n]+, [^*\n]+)\*\* \(|^{FROM}(?P<table>{TABLE})", re.MULTILINE)


def renew_quotes(page: str, results: Path) -> str:
    """Return the page with its quoted tables as they stand in the files they are from.

    A table is known by its title, of which the page has ``**title** (protocol)`` above it, and its columns.
    """
    title = ""

    def renewed(match: re.Match[str]) -> str:
        nonlocal title
        if match["title"]:
            title = match["title"]
            return match[0]
        known = _tables((results / match["file"]).read_text(encoding="utf-8"))
        table = known.get((title, _columns(match["table"])))
        if table is None:
            raise DataError(f"{match['file']} has no table of {title} with the columns that the page quotes.")
        return match["start"] + table

    return QUOTED.sub(renewed, page)


def _tables(text: str) -> dict[tuple[str, tuple[str, ...]], str]:
    found, title = {}, ""
    for match in TITLED.finditer(text):
        if match["title"]:
            title = match["title"]
        else:
            found[title, _columns(match["table"])] = match["table"]
    return found


def _columns(table: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in table.split("\n", 1)[0].split("|"))
