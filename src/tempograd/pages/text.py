"""The parts of the page that speak about all series: key, scores and provenance."""

import json
from collections.abc import Mapping
from html import escape

from tempograd.explanation import Explanation
from tempograd.pages import colours
from tempograd.pages.case import colour_bar
from tempograd.pages.drawing import INK, MISSING
from tempograd.pages.numbers import alike, with_error
from tempograd.pages.records import THE_OUTPUT, Map, Outputs, Record, StepOutputs
from tempograd.pages.scores import Cell, ScoreTable

MEANING = {
    "cpd": "sum of all changes of the prediction while the strongest values (k = 10 % of those observed, unless "
    "another k was asked for) are removed one after the other",
    "cpp": "the same while as many of the weakest values are removed",
    "auroc": "how well the scores separate the values that truly decided the label from the others",
    "auprc": "how many of the highest scores are values that truly decided the label",
    "aup": "share of true values among those called important, over all thresholds",
    "aur": "share of the true values that are called important, over all thresholds",
}
LIMITS = """<details><summary>What the pictures cannot tell</summary><ul>
<li>They explain the model, not the world. A value may move the prediction without causing anything, and a model
that is wrong is explained just as calmly as one that is right.</li>
<li>Every effect is relative to a baseline, the value that stands for &ldquo;absent&rdquo;. Another baseline gives
another picture.</li>
<li>Intervals are about the random draws of a method, not the choice of the method, nor of the model. Where the
model is steep, few of the draws carry the effect, and intervals are too narrow.</li>
<li>Two strong values may act only together. The picture gives each its share and cannot show the bond.</li>
</ul></details>"""


def lead(explanations: Mapping[str, Explanation], shown: int) -> str:
    """Say what the page holds."""
    first = next(iter(explanations.values()))
    count, time, depth = first.values.shape
    methods = ", ".join(label.replace("_", " ") for label in explanations)
    part = "" if shown == count else f"{shown} of "
    return escape(
        f"{part}{_plural(count, 'series', 'series')} of {_plural(time, 'step', 'steps')} and "
        f"{_plural(depth, 'channel', 'channels')}, explained with {methods}."
    )


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def legend(explanations: Mapping[str, Explanation], records: list[Record]) -> str:
    """Explain colours and marks, but only those that occur."""
    first = next(iter(explanations.values()))
    maps = [drawn for record in records for drawn in record.maps]
    lines = [
        (
            colour_bar(),
            "<b>Orange</b> values pushed the explained prediction up, <b>blue</b> values pushed it down, compared "
            f"with {_baseline(first)} in their place. White: no effect. Colours are full at the size written "
            "under each picture; 2 % of the values are beyond it.",
        )
    ]
    if any(not drawn.signed for drawn in maps):
        lines.append((colour_bar(signed=False), "<b>Purple</b>: a method that gives size without direction."))
    if any(_has_interval(drawn) for drawn in maps):
        lines.append(
            (
                _pale(),
                "<b>Pale</b>: the sign is not certain, the 95 % interval of the method&rsquo;s own random draws "
                "includes 0. More draws make it narrower.",
            )
        )
    if any(not channel.observed.all() for record in records for channel in record.channels):
        lines.append((_box(f'stroke="{MISSING}"'), "<b>Grey</b>: not observed, so neither explained nor removed."))
    if any(channel.truth is not None for record in records for channel in record.channels):
        lines.append(
            (_box(f'stroke="{INK}"', 0.3), "<b>Black marks</b>: the values that truly decided the label.")
        )
    keys = "".join(f"<li>{svg}<span>{text}</span></li>" for svg, text in lines)
    return f'<p>{_question(first, records)}</p><ul class="keys">{keys}</ul>{LIMITS}'


def _question(first: Explanation, records: list[Record]) -> str:
    unit = "probability" if first.output == "probability" else "output"
    if first.target is None:
        return "What is explained is the score that a function picked from the model&rsquo;s output."
    single = _single(first, records[0].outputs)
    if any(isinstance(record.outputs, StepOutputs) for record in records):
        if isinstance(first.steps, str):
            return (
                f"The model predicts at every step. A value is scored by its effect on the {unit} of its own step."
            )
        what = "its output" if single else f"the {unit} of the class it predicted (or that was asked for)"
        return (
            f"The model predicts at every step. What is explained is {what}, added up over the explained steps; a "
            "value can act on its own and later steps."
        )
    if single:
        return "What is explained is the only output of the model, as it is."
    if first.output == "raw":
        return "What is explained is one output of the model per series, as it is, by default the largest."
    return "What is explained is the probability of one class per series, by default the one the model predicted."


def _single(first: Explanation, outputs: Outputs | StepOutputs | None) -> bool:
    """Tell whether the model has one output that is no probability, as in a regression."""
    if first.output == "probability" or outputs is None:
        return False
    return outputs.name == THE_OUTPUT if isinstance(outputs, StepOutputs) else len(outputs.values) == 1


def _baseline(first: Explanation) -> str:
    if bool((first.baseline == 0).all()):
        return "zero"
    return "the baseline"


def _has_interval(drawn: Map) -> bool:
    return drawn.low is not None


def _pale() -> str:
    boxes = "".join(
        f'<path d="M{place} .5h1" stroke="{colours.colour(level)}" stroke-opacity="{opacity}"/>'
        for place, (level, opacity) in enumerate(((-6, 1), (-6, colours.FAINT), (6, colours.FAINT), (6, 1)))
    )
    return (
        '<svg viewBox="0 0 4 1" preserveAspectRatio="none" aria-hidden="true" shape-rendering="crispEdges">'
        f"{boxes}</svg>"
    )


def _box(style: str, height: float = 1) -> str:
    return (
        '<svg viewBox="0 0 4 1" preserveAspectRatio="none" aria-hidden="true" shape-rendering="crispEdges">'
        f'<path d="M1 {1 - height / 2}h2" {style} stroke-width="{height}"/></svg>'
    )


def score_section(table: ScoreTable) -> str:
    """Return the table of scores with what the columns mean."""
    arrows = {True: " ↑", False: " ↓", None: ""}
    head = "".join(
        f"<th>{escape(metric.upper())}{arrows[higher]}</th>"
        for metric, higher in zip(table.metrics, table.higher_is_better, strict=True)
    )
    body = "".join(
        f"<tr><th>{escape(method.replace('_', ' '))}</th>"
        + "".join(_score(method, metric, table.cells[method, metric]) for metric in table.metrics)
        + "</tr>"
        for method in table.methods
    )
    count = max(cell.summary.count for cell in table.cells.values())
    notes = "; ".join(f"<b>{m.upper()}</b>: {MEANING[m]}" for m in table.metrics if m in MEANING)
    over = "One series" if count == 1 else f"Mean ± standard error over {count} series"
    versus = ""
    if len(table.methods) > 1:
        versus = (
            " Bold: best, and the 95 % interval of its difference to every other method, series by series, does "
            "not include 0, so that chance alone is an unlikely reason. Small print: this method minus "
            f"{escape(table.methods[0].replace('_', ' '))}, mean and 95 % interval."
        )
    return (
        f'<div class="wide"><table class="scores"><thead><tr><th>method</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        f'<p class="small">{over}; ↑ higher, ↓ lower is better.{versus}</p>'
        + (f'<p class="small">{notes}.</p>' if notes else "")
    )


def _score(method: str, metric: str, cell: Cell) -> str:
    summary, difference = cell.summary, cell.difference
    small = ""
    if difference is not None:
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
    lines = "".join(
        f"<tr><th>{escape(label.replace('_', ' '))}</th>"
        f"<td><code>{escape(json.dumps(e.parameters, default=str))}</code></td>"
        f"<td>seed {e.seed}, baseline {_baseline(e).removeprefix('the ')}, {escape(e.output)}</td>"
        f"<td><code>{escape(e.fingerprint)}</code></td><td>tempograd {escape(e.version)}</td></tr>"
        for label, e in explanations.items()
    )
    return (
        '<div class="wide provenance"><table><thead><tr><th>method</th><th>parameters</th><th>call</th>'
        f"<th>model</th><th>version</th></tr></thead><tbody>{lines}</tbody></table></div>"
        '<p class="small">The same data, model, parameters and seed give the same numbers again.</p>'
    )
