"""The parts of the page that speak about all series: key, scores and provenance."""

import json
from collections.abc import Mapping
from html import escape

from tempograd.core.formatting import alike, counted, with_error
from tempograd.explanation import Explanation
from tempograd.html_report.content import MEANING, Content
from tempograd.views.comparison import Cell, ScoreTable
from tempograd.views.labels import settings, size

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


def legend(content: Content) -> str:
    """Explain colours and marks, but only those that occur."""
    first, keys = content.first, {}
    if any(drawn.signed for drawn in content.maps):
        zero = "the baseline" if bool(first.baseline.any()) else "zero, as the model reads it,"
        zero = zero if first.background is None else "values of other series"
        summed = content.steps and not isinstance(first.steps, str)
        keys["signed"] = (
            "<b>Orange bars up</b>: the value pushed the explained prediction up. <b>Blue bars down</b>: it "
            f"pushed it down. Both are compared with {zero} in its place. A score is a change of the explained "
            f"{_unit(first)}{', added up over the explained steps' if summed else ''}."
        )
    if any(not drawn.signed for drawn in content.maps):
        keys["size"] = "<b>Purple</b>: a method that gives size without direction."
    if any(drawn.half is not None for drawn in content.maps):
        keys["pale"] = (
            "<b>Thin lines</b> on bars: the 95 % interval of the method&rsquo;s own random draws. "
            "<b>Pale</b>: it includes 0, so the sign is not certain. More draws make it narrower; where the "
            "model is steep it is too narrow. <b>±</b> behind a sum of scores: one standard error at most, "
            "those of its values added up."
        )
    if not content.observed.all():
        keys["missing"] = "<b>Hatched</b>: not observed, so neither explained nor removed."
    if content.truth is not None:
        keys["truth"] = "<b>Black marks</b>: the values that truly decided the label."
    if content.removals is not None:
        instead = "the baseline" if first.background is None else "the mean of the other series"
        keys["gone"] = f"<b>Crosses</b>: values that the slider has replaced by {instead}."
    mark = '<li><span class="key {}" aria-hidden="true"></span><span>{}</span></li>'
    items = "".join(mark.format(kind, said) for kind, said in keys.items())
    return f'<p>{_question(content)}</p><ul class="keys">{items}</ul>'


def _unit(first: Explanation) -> str:
    return "probability" if first.output == "probability" else "output"


def _question(content: Content) -> str:
    first = content.first
    if first.target is None:
        if first.target_text:
            return f"What is explained is {escape(first.target_text)}."
        return "What is explained is the score that a function picked from the model&rsquo;s output."
    return _step_question(content) if content.steps is not None else _series_question(content)


def _step_question(content: Content) -> str:
    what = _followed(content) or "of the class it predicted (or that was asked for)"
    if isinstance(content.first.steps, str):
        what = f"the {_unit(content.first)} {_followed(content)} at its own step".replace("  ", " ")
        return f"The model predicts at every step. A value is scored by its effect on {what}."
    what = "its output" if _single(content) else f"the {_unit(content.first)} {what}"
    return (
        f"The model predicts at every step. What is explained is {what}, added up over the explained steps; a "
        "value can act on its own and later steps."
    )


def _series_question(content: Content) -> str:
    if _single(content):
        return "What is explained is the only output of the model, as it is."
    if content.first.task == "forecast":
        which = _only(content) or "one number of the forecast per series"
        return f"The model forecasts. What is explained is {which}, as it is."
    if content.first.task == "multilabel":
        which = _only(content) or "one label per series, by default the most probable"
        return f"A series can have several labels. What is explained is the {_unit(content.first)} of {which}."
    if content.first.output == "raw":
        return "What is explained is one output of the model per series, as it is, by default the largest."
    if _followed(content) and len(content.first) > 1:
        return f"What is explained is the probability {_followed(content)}, whatever the model predicted."
    return "What is explained is the probability of one class per series, by default the one the model predicted."


def _single(content: Content) -> bool:
    return content.first.output == "raw" and len(content.classes) == 1


def _followed(content: Content) -> str:
    """Name the class that is explained of every series and step; nothing if they differ."""
    return f"of {_only(content)}" if content.first.output == "probability" and _only(content) else ""


def _only(content: Content) -> str:
    """Name the output that is explained of every series and step; nothing if they differ."""
    kinds = set() if content.first.target is None else set(content.first.target.flatten().tolist())
    return escape(content.classes[kinds.pop()]) if len(kinds) == 1 else ""


def score_section(table: ScoreTable | None) -> str:
    """Return the table of scores with what the columns mean."""
    if table is None:
        return '<p class="small">No model was given, so nothing could be removed and nothing scored.</p>'
    head = "".join(f"<th>{escape(metric)}</th>" for metric in table.heads)
    body = "".join(
        f"<tr><th>{escape(method.replace('_', ' '))}</th>"
        + "".join(_score(method, metric, table.cells[method, metric]) for metric in table.metrics)
        + "</tr>"
        for method in table.methods
    )
    count = max(cell.summary.count for cell in table.cells.values())
    known = [f"<li><b>{m.upper()}</b>: {MEANING[m]}.</li>" for m in table.metrics if m in MEANING]
    over = "one series" if count == 1 else f"{count} series"
    first = escape(table.methods[0].replace("_", " "))
    several = len(table.methods) > 1 and count > 1
    dots = f"A dot is the mean over {over}; ↑ higher, ↓ lower is better."
    if several:
        dots += (
            f" Its line is the 95 % interval of the difference to {first}, series by series: where it crosses the "
            f"dashed line of {first}, the two cannot be told apart."
        )
    bold = (
        " Bold: best, and the 95 % interval of its difference to every other method, series by series, does not "
        "include 0, so that chance alone is an unlikely reason. Small print: this method minus "
        f"{first}, mean and 95 % interval."
    )
    mean = "One series." if count == 1 else f"Mean ± standard error over {over}."
    return (
        f'<div id="chart-scores" class="chart"></div><p class="small">{dots}</p>'
        + (f'<ul class="limits small">{"".join(known)}</ul>' if known else "")
        + '<details class="fold"><summary>Numbers</summary>'
        '<div class="wide" tabindex="0" role="region" aria-label="Scores"><table id="scores" class="scores">'
        f"<thead><tr><th>method</th>{head}</tr></thead>"
        f'<tbody>{body}</tbody></table></div><p class="small">{mean}{bold * several}</p></details>'
    )


def _score(method: str, metric: str, cell: Cell) -> str:
    summary, difference = cell.summary, cell.difference
    small = ""
    if difference is not None and difference.count > 1:
        sign = "+" if difference.mean > 0 else ""
        mean, low, high = alike(difference.mean, difference.low, difference.high)
        small = f"<small>{sign}{mean}<br>[{low}, {high}]</small>"
    return (
        f'<td{" class=best" if cell.best else ""} data-method="{escape(method)}" data-metric="{escape(metric)}" '
        f'data-mean="{summary.mean!r}" data-error="{summary.standard_error!r}">'
        f"{with_error(summary.mean, summary.standard_error)}{small}</td>"
    )


def provenance(explanations: Mapping[str, Explanation]) -> str:
    """Return how each explanation was made."""
    parts = "".join(
        f"<section><h3>{escape(label.replace('_', ' '))}</h3><dl>{_facts(found)}</dl></section>"
        for label, found in explanations.items()
    )
    return (
        f'<div class="provenance">{parts}</div>'
        '<p class="small">The same data, model, parameters and seed give the same numbers again.</p>'
    )


def _facts(found: Explanation) -> str:
    facts = {
        "method": found.method,
        "parameters": ", ".join(f"{name} = {_written(value)}" for name, value in settings(found).items())
        or "none",
        "seed": str(found.seed),
        "verdict": found.verdict(),
        "explained": f"{found.output} output, {_steps(found)}",
        "baseline": BASELINES[found.baseline_kind],
        "model": found.fingerprint or "not known",
        "made with": f"tempograd {found.version}",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in facts.items())


def _written(value: object) -> str:
    return "automatic" if value is None else json.dumps(value, default=str)


def _steps(found: Explanation) -> str:
    if found.steps is None:
        return "one per series"
    return "each step for itself" if isinstance(found.steps, str) else "added up over steps"
