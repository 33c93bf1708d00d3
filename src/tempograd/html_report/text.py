"""The parts of the page that speak about all series: key, scores and provenance."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from tempograd.core.formatting import counted
from tempograd.explanation import Explanation
from tempograd.html_report.content import MEANING
from tempograd.metrics import PaperTable
from tempograd.views.labels import explained, settings, size
from tempograd.views.reader import assumed

BASELINES = {
    "zero": "zero",
    "average": "average of each channel over time",
    "background": "values of other series, drawn for each sample; removed values become their mean",
    "own": "given with the explanation",
}


def lead(explanations: Mapping[str, Explanation], shown: int) -> str:
    """Say what the page holds."""
    first = next(iter(explanations.values()))
    count = len(first)
    methods = ", ".join(label.replace("_", " ") for label in explanations)
    part = "" if shown == count else f"{shown:,} of "
    return escape(
        f"{part}{counted(count, 'series', 'series')} of {size(first, ' and ')}, explained with {methods}."
    )


def legend(first: Explanation, page: Mapping[str, Any]) -> str:
    """Explain colours and marks, but only those that occur on the page, of which this is the header."""
    keys, maps = {}, page["maps"]
    if any(drawn["signed"] for drawn in maps):
        zero = "the baseline" if bool(first.baseline.any()) else "zero, as the model reads it,"
        zero = zero if first.background is None else "values of other series"
        unit = "probability" if first.output == "probability" else "output"
        summed = page["steps"] and not isinstance(first.steps, str)
        keys["signed"] = (
            "<b>Orange bars up</b>: the value pushed the explained prediction up. <b>Blue bars down</b>: it "
            f"pushed it down. Both are compared with {zero} in its place. A score is a change of the explained "
            f"{unit}{', added up over the explained steps' if summed else ''}."
        )
    if not all(drawn["signed"] for drawn in maps):
        keys["size"] = "<b>Purple</b>: a method that gives size without direction."
    if any(drawn["half"] for drawn in maps):
        keys["pale"] = (
            "<b>Thin lines</b> on bars: the 95 % interval of the method&rsquo;s own random draws. "
            "<b>Pale</b>: it includes 0, so the sign is not certain. More draws make it narrower; where the "
            "model is steep it is too narrow. <b>±</b> behind a sum of scores: one standard error at most, "
            "those of its values added up."
        )
    if min(page["observedCount"]) < first.values[0].numel():
        keys["missing"] = "<b>Hatched</b>: not observed, so neither explained nor removed."
    if page["truth"]:
        keys["truth"] = "<b>Black marks</b>: the values that truly decided the label."
    if maps[0]["removal"]:
        instead = "the baseline" if first.background is None else "the mean of the other series"
        keys["gone"] = f"<b>Crosses</b>: values that the slider has replaced by {instead}."
    what = escape(explained(first))
    mark = '<li><span class="key {}" aria-hidden="true"></span><span>{}</span></li>'
    items = "".join(mark.format(kind, said) for kind, said in keys.items())
    return f'<p>Explained: {what}.</p><ul class="keys">{items}</ul>'


def trust(table: PaperTable | None) -> str:
    """Say what the dots of the methods mean."""
    if table is None or len(table.methods) < 2:
        return ""
    first, count = escape(table.methods[0].replace("_", " ")), _counted(table)
    text = f"A dot is the mean over {counted(count, 'series', 'series')}; ↑ higher, ↓ lower is better."
    if count > 1:
        text += (
            f" Its line is the 95 % interval of the difference to {first}, series by series: where it crosses the "
            f"dashed line of {first}, the two cannot be told apart."
        )
    known = [f"<li><b>{name.upper()}</b>: {MEANING[name]}.</li>" for name in table.metrics if name in MEANING]
    return f'<p class="small">{text}</p>' + (f'<ul class="limits small">{"".join(known)}</ul>' if known else "")


def score_section(table: PaperTable | None) -> str:
    """Return the table of scores, as :func:`tempograd.table` prints it."""
    if table is None:
        return '<p class="small">No model was given, so nothing could be removed and nothing scored.</p>'
    return (
        f"<h3>Scores of the methods, means over {counted(_counted(table), 'series', 'series')}</h3>"
        '<div class="wide" tabindex="0" role="region" aria-label="Scores">'
        f'<pre id="scores">{escape(repr(table))}</pre></div>'
    )


def _counted(table: PaperTable) -> int:
    return max(cell.count for cell in table.cells.values())


def provenance(explanations: Mapping[str, Explanation]) -> str:
    """Return how each explanation was made."""
    parts = "".join(
        f"<section><h3>{escape(label.replace('_', ' '))}</h3><dl>{facts(found)}</dl></section>"
        for label, found in explanations.items()
    )
    return (
        f'<div class="provenance">{parts}</div>'
        '<p class="small">The same data, model, parameters and seed give the same numbers again.</p>'
    )


def facts(found: Explanation) -> str:
    """Return what an explanation was made with, as terms of a list."""
    used = [
        f"{name} = {'automatic' if value is None else json.dumps(value, default=str)}"
        for name, value in settings(found).items()
    ]
    steps = "added up over steps" if found.steps is not None else "one per series"
    if isinstance(found.steps, str):
        steps = "each step for itself"
    terms = {
        "method": found.method,
        "parameters": ", ".join(used) or "none",
        "seed": str(found.seed),
        "verdict": found.verdict(),
        "assumed": assumed([found]) or "nothing",
        "explained": f"{found.output} output, {steps}",
        "baseline": BASELINES[found.baseline_kind],
        "model": found.fingerprint or "not known",
        "made with": f"tempograd {found.version}",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in terms.items())
