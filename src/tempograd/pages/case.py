"""The part of the page about one series. Everything that comes from data is escaped here."""

import math
from html import escape

from tempograd.pages import colours
from tempograd.pages.drawing import Row, curve_chart, curve_style, rows, ticks
from tempograd.pages.numbers import alike, number, probability
from tempograd.pages.records import THE_OUTPUT, Curve, Map, Outputs, Record, StepOutputs, Strong

UNKNOWN = '<p class="small">Not known: fewer than two draws counted for the value.</p>'
MANY = 8  # outputs listed at most, and always the explained one


def case(record: Record) -> str:
    """Return the section of one series."""
    return (
        f'<article class="case" id="series-{record.id}">\n'
        f"<header><h3>Series {record.id}</h3><p>{escape(summary(record))}</p></header>\n"
        f"{_outputs(record.outputs) if isinstance(record.outputs, Outputs) else ''}"
        f"{picture(record)}\n"
        f'<div class="readout" aria-live="polite"><p class="small">Move over the picture, or focus it and use the '
        f"arrow keys, to read the exact values of a time step.</p></div>\n"
        f'<div class="below">{_strongest(record)}{_removal(record)}</div>\n'
        "</article>"
    )


def summary(record: Record) -> str:
    """Say in a few words what the model predicted and what was true."""
    outputs = record.outputs
    if isinstance(outputs, StepOutputs):
        return _steps_summary(outputs)
    if outputs is None or outputs.target is None:
        return ""
    text = f"explained: {_class(outputs, outputs.target)} ({_written(outputs)[outputs.target]})"
    if outputs.label is not None:
        text += f", true label: class {outputs.label}"
    if outputs.true_value is not None:
        text += f", true value: {number(outputs.true_value)}"
    return text


def _steps_summary(outputs: StepOutputs) -> str:
    count, total = int(outputs.explained.sum()), len(outputs.values)
    facts = [] if count == total else [f"{count} of {total} steps explained"]
    if outputs.labels is not None and outputs.probability and outputs.name.endswith("class 1"):
        right = (outputs.values > 0.5) == outputs.labels
        facts.append(f"prediction right at {right.mean():.0%} of the steps".replace("%", " %"))
    return ", ".join(facts)


def _class(outputs: Outputs, index: int) -> str:
    if len(outputs.values) == 1:
        return THE_OUTPUT
    return f"class {index}" if outputs.probability else f"output {index}"


def _written(outputs: Outputs) -> tuple[str, ...]:
    """Write all outputs to the same digit; of a probability three are enough."""
    values = outputs.values.tolist()
    return tuple(map(probability, values)) if outputs.probability else alike(*values)


def _outputs(outputs: Outputs) -> str:
    order = sorted(range(len(outputs.values)), key=lambda index: -outputs.values[index])[:MANY]
    if outputs.target is not None and outputs.target not in order:
        order.append(outputs.target)
    lines, written = [], _written(outputs)
    for index in sorted(order):
        value, chosen = float(outputs.values[index]), index == outputs.target
        share = f'<i{" class=target" if chosen else ""} style="width:{100 * value:.1f}%"></i>'
        notes = ["explained"] * chosen + ["true label"] * (index == outputs.label)
        lines.append(
            f"<span>{escape(_class(outputs, index))}</span>"
            f'<span class="bar">{share if outputs.probability else ""}</span>'
            f'<span data-output="{outputs.values[index]}">{escape(written[index])}</span>'
            f'<span class="note">{", ".join(notes)}</span>'
        )
    hidden = len(outputs.values) - len(order)
    rest = f'<p class="small">{hidden} smaller outputs are not listed.</p>' if hidden else ""
    return f'<div class="outputs">{"".join(lines)}</div>{rest}\n'


def picture(record: Record) -> str:
    """Return the aligned rows with their time axis and the scale of every method."""
    text = f"Series {record.id}: {len(record.channels)} channels over {len(record.times)} steps with attribution"
    return (
        f'<div class="picture" tabindex="0" role="img" aria-label="{escape(text)}">\n'
        + "\n".join(_row(row) for row in rows(record))
        + f'\n{_axis(record)}<div class="cursor"></div></div>\n'
        + f'<ul class="scales">{"".join(_scale(drawn) for drawn in record.maps)}</ul>'
    )


def _row(row: Row) -> str:
    return (
        f'<div class="row {row.kind}"><div class="name">{escape(row.label)}</div>'
        f'<div class="scale"><span>{escape(row.high)}</span><span>{escape(row.low)}</span></div>'
        + row.svg(f'aria-hidden="true" style="height:{row.height}px"')
        + "</div>"
    )


def _axis(record: Record) -> str:
    steps = len(record.times)
    marks = "".join(
        f'<span style="left:{100 * (t + 0.5) / steps:.3f}%">{escape(record.times[t])}</span>' for t in ticks(steps)
    )
    name = "time" if record.named_times else "time step"
    return f'<div class="axis"><div class="name">{name}</div><div class="ticks">{marks}</div></div>'


def _scale(drawn: Map) -> str:
    label = escape(drawn.label.replace("_", " "))
    if drawn.limit == 0:
        return f"<li><b>{label}</b> no effect anywhere</li>"
    full = number(drawn.limit)
    if drawn.signed:
        return f"<li><b>{label}</b> −{full} {colour_bar()} +{full}</li>"
    return f"<li><b>{label}</b> 0 {colour_bar(signed=False)} {full} (size only)</li>"


def colour_bar(signed: bool = True) -> str:
    """Return the scale of colours as a small picture."""
    levels = range(-colours.LEVELS if signed else 0, colours.LEVELS + 1)
    boxes = "".join(
        f'<path d="M{place} .5h1" stroke="{colours.colour(level, signed=signed) if level else "#fff"}"/>'
        for place, level in enumerate(levels)
    )
    return (
        f'<svg viewBox="0 0 {len(levels)} 1" preserveAspectRatio="none" aria-hidden="true" '
        f'shape-rendering="crispEdges">{boxes}</svg>'
    )


def _strongest(record: Record) -> str:
    if not record.strongest:
        return "<div><h4>Strongest values</h4><p>No value of this series moved the prediction.</p></div>"
    label = record.maps[0].label.replace("_", " ")
    sides = [side for cell in record.strongest for side in (cell.value, cell.low, cell.high) if side is not None]
    written = dict(zip(sides, alike(*sides), strict=True))  # to the same digit in the whole table
    lines = "".join(_strong(cell, record.maps[0].signed, written) for cell in record.strongest)
    return (
        f"<div><h4>Strongest values according to {escape(label)}</h4>"
        '<div class="wide"><table><thead><tr><th>time</th><th class="text">channel</th><th>value</th>'
        f"<th>effect</th><th>95 % interval</th></tr></thead><tbody>{lines}</tbody></table></div>"
        f"{UNKNOWN if math.inf in sides else ''}</div>"
    )


def _strong(cell: Strong, signed: bool, written: dict[float, str]) -> str:
    sign = "+" if signed and cell.value > 0 else ""
    interval = "<td>—</td>"
    if cell.low is not None and cell.high is not None:
        interval = f"<td>{written[cell.low]} to {written[cell.high]}</td>"
        if math.isinf(cell.high):
            interval = "<td>not known</td>"
    return (
        f'<tr><td>{escape(cell.time)}</td><td class="text">{escape(cell.channel)}</td><td>{number(cell.x)}</td>'
        f'<td data-effect="{cell.value!r}">{sign}{written[cell.value]}</td>{interval}</tr>'
    )


def _removal(record: Record) -> str:
    if not record.curves:
        return ""
    low, high = curve_range(record.curves, _is_probability(record))
    names = "".join(
        f'<li><svg viewBox="0 0 32 10" aria-hidden="true"><path d="M0 5h32" {curve_style(index)}/></svg>'
        f"{escape(curve.label.replace('_', ' '))}</li>"
        for index, curve in enumerate(record.curves)
    )
    return (
        f"<div><h4>The prediction as the strongest values are removed</h4>"
        f'<div class="curves"><div class="scale"><span>{number(high)}</span><span>{number(low)}</span></div>'
        f"{curve_chart(record.curves, low, high)}"
        '<div class="foot"><span>0 %</span><span>share of the values removed</span><span>100 %</span></div></div>'
        f'<ul class="names">{names}</ul><p class="small">{_curve_note(record)}</p></div>'
    )


def _curve_note(record: Record) -> str:
    unit = "probability" if _is_probability(record) else "output"
    what = (
        f"Mean {unit} over the explained steps"
        if isinstance(record.outputs, StepOutputs)
        else f"The explained {unit}"
    )
    return f"{what} while values give way to the baseline. A good explanation finds what moves it early."


def curve_range(curves: tuple[Curve, ...], probability: bool) -> tuple[float, float]:
    """Return the limits of the vertical axis: 0 and 1 for probabilities, else what occurs."""
    if probability:
        return 0.0, 1.0
    scores = [score for curve in curves for score in curve.scores]
    return min(scores), max(scores)


def _is_probability(record: Record) -> bool:
    return record.outputs is not None and record.outputs.probability
