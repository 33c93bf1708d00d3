"""The parts of the page that speak about all series: key, scores and provenance."""

import json
from collections.abc import Mapping
from html import escape

from tempograd.core.formatting import counted
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import assumed
from tempograd.html_report.content import MEANING
from tempograd.metrics import PaperTable
from tempograd.views.labels import size

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


def score_section(table: PaperTable | None) -> str:
    """Return the table of scores, as :func:`tempograd.table` prints it."""
    if table is None:
        return '<p class="small">No model was given, so nothing could be removed and nothing scored.</p>'
    scored = max(cell.count for cell in table.cells.values())
    meanings = [f"{name.upper()}: {MEANING[name]}." for name in table.metrics if name in MEANING]
    return (
        f"<h3>Scores of the methods, means over {counted(scored, 'series', 'series')}</h3>"
        '<div class="wide" tabindex="0" role="region" aria-label="Scores">'
        f'<pre id="scores">{escape(repr(table))}</pre></div><p class="small">{escape(" ".join(meanings))}</p>'
    )


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
    known = {name: value for name, value in found.parameters.items() if value not in (None, [])}
    used = [f"{name} = {json.dumps(value, default=str)}" for name, value in known.items()]
    summed = "one per series" if found.steps is None else "added up over steps"
    steps = "each step for itself" if isinstance(found.steps, str) else summed
    terms = {
        "method": found.method,
        "parameters": ", ".join(used) or "the default ones",
        "seed": str(found.seed),
        "verdict": found.verdict(),
        "assumed": assumed([found]) or "nothing",
        "explained": f"{found.output} output, {steps}",
        "baseline": BASELINES[found.baseline_kind],
        "model": found.fingerprint or "not known",
        "made with": f"tempograd {found.version}",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in terms.items())
