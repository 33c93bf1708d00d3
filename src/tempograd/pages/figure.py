"""One series as a standalone SVG picture."""

from html import escape

from tempograd import checks
from tempograd.data import Split
from tempograd.engine import Model
from tempograd.errors import InputError
from tempograd.pages import colours, predictions, selection
from tempograd.pages.drawing import FRAME, INK, Row, rows, ticks
from tempograd.pages.numbers import number
from tempograd.pages.records import Map, Record, record

MUTED = "#5b6875"
MARGIN, LABELS, SCALE = 12, 136, 40  # pixels left and right of the plots
GAPS = {"channel": 12, "output": 0, "method": 3, "marks": 3}  # pixels above a row
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"


def figure(
    explanations: selection.Explanations,
    index: int = 0,
    *,
    split: Split | None = None,
    model: Model | None = None,
    width: int = 900,
    title: str | None = None,
) -> str:
    """Return one series with its attribution as SVG text.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        A single one is drawn behind the lines, several as strips below them.
    index : int
        Position of the series in the explanations.
    split : Split, optional
        Adds missing cells, labels and the truth.
    model : nn.Module or callable, optional
        Adds the prediction over time of a model with one output per step.
    width : int, default=900
    title : str, optional
        By default the number of the series.
    """
    if checks.whole(width, "width", 1) < 300:
        raise InputError(f"width must be at least 300 pixels, got {width}.")
    named = selection.labelled(explanations)
    first = next(iter(named.values()))
    (index,) = selection.chosen(first, [index])
    split = selection.aligned(first, split)
    x = selection.values(named, split)
    outputs = None if model is None else predictions.outputs(model, first, x, index, split)
    return draw(record(named, x, index, split, outputs), width, title)


def draw(shown: Record, width: int, title: str | None = None) -> str:
    """Lay the rows of a series out in one picture."""
    heading = f"Series {shown.id}" if title is None else title
    body, y = [_text(heading, MARGIN, 24, 15, INK, weight=600)], 40.0
    left, plot = LABELS + SCALE, width - LABELS - SCALE - MARGIN
    for place, row in enumerate(rows(shown)):
        y += GAPS[row.kind] if place else 0
        body.append(_row(row, left, y, plot))
        y += row.height
    body.append(_axis(shown, left, y, plot))
    y += 40
    for drawn in shown.maps:
        body.append(_scale(drawn, left, y))
        y += 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y:g}" width="{width}" height="{y:g}" '
        f'role="img" font-family="{FONT}"><title>{escape(heading)}</title>'
        f'<rect width="{width}" height="{y:g}" fill="#fff"/>' + "".join(body) + "</svg>"
    )


def _row(row: Row, left: int, y: float, width: int) -> str:
    main = row.kind in {"channel", "output"}
    middle = y + row.height / 2 + 4
    parts = [row.svg(f'x="{left}" y="{y:g}" width="{width}" height="{row.height}"')]
    if row.kind != "marks":
        parts.append(
            f'<rect x="{left}" y="{y:g}" width="{width}" height="{row.height}" fill="none" stroke="{FRAME}"/>'
        )
    size, colour, indent = (12, INK, MARGIN) if main else (10, MUTED, MARGIN + 10)
    lines = _wrapped(row.label, 19 if main else 24)
    for number_, line in enumerate(lines):
        shift = (number_ - (len(lines) - 1) / 2) * 14
        parts.append(_text(line, indent, middle + shift, size, colour, weight=600 if main else 400))
    for label, height in ((row.high, y + 9), (row.low, y + row.height - 1)):
        if label:
            parts.append(_text(label, left - 5, height, 9.5, MUTED, anchor="end"))
    return "".join(parts)


def _wrapped(label: str, most: int) -> list[str]:
    """Break a label into at most two lines at a space; what does not fit is cut."""
    if len(label) <= most:
        return [label]
    cut = label.rfind(" ", 0, most + 1)
    if cut <= 0:
        return [label[: most - 1] + "…"]
    rest = label[cut + 1 :]
    return [label[:cut], rest if len(rest) <= most else rest[: most - 1] + "…"]


def _axis(shown: Record, left: int, y: float, width: int) -> str:
    steps, parts = len(shown.times), []
    for t in ticks(steps):
        x = left + width * (t + 0.5) / steps
        parts.append(f'<path d="M{x:.1f} {y + 2:g}v4" stroke="{MUTED}"/>')
        parts.append(_text(shown.times[t], x, y + 17, 10, MUTED, anchor="middle"))
    parts.append(_text("time" if shown.named_times else "time step", MARGIN + 10, y + 17, 10, MUTED))
    return "".join(parts)


def _scale(drawn: Map, left: int, y: float) -> str:
    levels = range(-colours.LEVELS if drawn.signed else 0, colours.LEVELS + 1)
    step = 160 / len(levels)
    boxes = "".join(
        f'<rect x="{left + place * step:.2f}" y="{y - 9:g}" width="{step + 0.3:.2f}" height="10" '
        f'fill="{colours.colour(level, signed=drawn.signed) if level else "#fff"}"/>'
        for place, level in enumerate(levels)
    )
    full = number(drawn.limit)
    note = f"−{full} (pushes down) to +{full} (pushes up)" if drawn.signed else f"0 to {full} (size only)"
    if drawn.low is not None:
        note += "; pale: sign not certain at 95 %"
    name = _text(drawn.label.replace("_", " "), MARGIN + 10, y, 10, MUTED)
    return name + boxes + _text(note, left + 170, y, 10, MUTED)


def _text(
    content: str, x: float, y: float, size: float, colour: str, *, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(content)}</text>'
    )
