"""One series as rows of SVG. The x unit is a time step, the y unit a pixel; rows stretch to any width."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tempograd.pages import colours
from tempograd.pages.numbers import number
from tempograd.pages.records import Channel, Curve, Flags, Map, Record, StepOutputs

INK = "#1c2733"
MISSING = "#e3e7eb"
FRAME = "#c9d0d8"
PADDING = 5.0  # pixels above and below a line
SLIM = 8  # from this many channels on rows are lower
CURVES = ("#b03a05", "#0c5291", "#542788", "#1b7a5a", "#6b7280", "#946c00")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 4")


@dataclass(frozen=True)
class Row:
    """One strip of the picture: ``body`` is drawn in a box of ``steps`` by ``height`` units."""

    kind: str  # "channel", "method", "marks" or "output"
    label: str
    body: str
    steps: int
    height: int
    low: str = ""
    high: str = ""

    def svg(self, attributes: str) -> str:
        """Return the row as an SVG element that stretches to the box it is given."""
        return (
            f'<svg {attributes} viewBox="0 0 {self.steps} {self.height}" preserveAspectRatio="none">'
            f"{self.body}</svg>"
        )


def rows(record: Record) -> list[Row]:
    """Draw a series: what the model says where it does so per step, then every channel with its scores."""
    drawn: list[Row] = []
    if isinstance(record.outputs, StepOutputs):
        drawn += output_rows(record.outputs)
    height = 64 if len(record.channels) < SLIM else 36
    for index, channel in enumerate(record.channels):
        behind = colour_band(record.maps[0], index, channel, height) if len(record.maps) == 1 else ""
        drawn.append(channel_row(channel, behind, height))
        if channel.truth is not None:
            drawn.append(marks_row("truth", channel.truth))
        if len(record.maps) > 1:
            drawn += [method_row(drawn_map, index, channel) for drawn_map in record.maps]
    return drawn


def output_rows(outputs: StepOutputs) -> list[Row]:
    """Draw the prediction over time, with the true label and the explained steps beneath it."""
    seen = np.ones(len(outputs.values), dtype=np.bool_)
    low, high = (0.0, 1.0) if outputs.probability else _range(outputs.values, seen)
    height = 48
    half = f'<path d="M0 {height / 2:g}h{len(seen)}" {_thin(FRAME, "3 3")}/>' if outputs.probability else ""
    body = half + line(outputs.values, seen, low, high, height)
    drawn = [Row("output", outputs.name, body, len(seen), height, number(low), number(high))]
    if outputs.labels is not None:
        drawn.append(marks_row("true label", outputs.labels))
    if not outputs.explained.all():
        drawn.append(marks_row("explained steps", outputs.explained))
    return drawn


def channel_row(channel: Channel, behind: str, height: int) -> Row:
    """Draw the values of a channel as a line; gaps are grey."""
    low, high = _range(channel.x, channel.observed)
    body = behind + _missing(channel.observed, height)
    if channel.baseline is not None and low < channel.baseline < high:
        level = _y(channel.baseline, low, high, height)
        body += f'<path d="M0 {level:g}h{len(channel.x)}" {_thin("#8b95a1", "2 4")}/>'
    body += line(channel.x, channel.observed, low, high, height)
    if not channel.observed.any():
        texts = ("not observed", "")
    elif low == high:
        texts = ("", number(high))  # a constant needs no scale
    else:
        texts = (number(low), number(high))
    return Row("channel", channel.name, body, len(channel.x), height, *texts)


def method_row(drawn: Map, index: int, channel: Channel, height: int = 13) -> Row:
    """Draw one method's scores of a channel as a strip."""
    body = colour_band(drawn, index, channel, height) + _missing(channel.observed, height)
    return Row("method", drawn.label.replace("_", " "), body, len(channel.x), height)


def marks_row(label: str, marks: Flags, height: int = 5) -> Row:
    """Draw a thin strip that is dark where ``marks`` holds."""
    body = _strokes(marks.astype(np.int64), {1: f'stroke="{INK}"'}, height)
    return Row("marks", label, body, len(marks), height)


def colour_band(drawn: Map, index: int, channel: Channel, height: int) -> str:
    """Fill cells by their score; those whose sign is not certain are pale."""
    steps = colours.levels(drawn.values[:, index], drawn.limit) * channel.observed
    faint = drawn.uncertain[:, index]
    styles = {
        int(level): f'stroke="{colours.colour(int(level), signed=drawn.signed)}"'
        for level in np.unique(steps)
        if level
    }
    pale = f' stroke-opacity="{colours.FAINT}"'
    return _strokes(np.where(faint, 0, steps), styles, height) + _strokes(
        np.where(faint, steps, 0), {level: style + pale for level, style in styles.items()}, height
    )


def line(values: NDArray[np.float32], seen: Flags, low: float, high: float, height: int) -> str:
    """Draw a line through the middle of each step, interrupted where nothing was seen."""
    lines, dots = [], []
    for start, length, kind in runs(seen.astype(np.int64)):
        points = [
            f"{t + 0.5:g} {_y(float(values[t]), low, high, height):.1f}" for t in range(start, start + length)
        ]
        if kind and length == 1:
            dots.append(f"M{points[0]}h0")  # a round cap makes a dot of a line without length
        elif kind:
            lines.append("M" + "L".join(points))
    style = f'fill="none" stroke="{INK}" vector-effect="non-scaling-stroke"'
    drawn = f'<path d="{"".join(lines)}" {style} stroke-width="1.3" stroke-linejoin="round"/>' if lines else ""
    return drawn + (
        f'<path d="{"".join(dots)}" {style} stroke-width="3.2" stroke-linecap="round"/>' if dots else ""
    )


def runs(keys: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Cut a sequence into runs of equal entries: start, length and entry of each.

    Examples
    --------
    >>> list(runs(np.array([4, 4, 0])))
    [(0, 2, 4), (2, 1, 0)]
    """
    edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
    for start, stop in pairwise(edges):
        yield start, stop - start, int(keys[start])


def curve_chart(curves: tuple[Curve, ...], low: float, high: float, width: int = 100, height: int = 150) -> str:
    """Draw removal curves; x runs from 0 to 100 % removed."""
    body = "".join(
        f'<path d="M0 {_y(level, low, high, height):.1f}h{width}" {_thin("#e4e8ec", "")}/>'
        for level in (low, (low + high) / 2, high)
    )
    for index, curve in reversed(list(enumerate(curves))):
        points = "L".join(
            f"{share * width:g} {_y(score, low, high, height):.1f}"
            for share, score in zip(curve.shares, curve.scores, strict=True)
        )
        body += f'<path d="M{points}" {curve_style(index)} vector-effect="non-scaling-stroke"/>'
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
        f"{body}</svg>"
    )


def curve_style(index: int) -> str:
    """Return colour and dashes of the ``index``-th method, so that neither alone has to tell them apart."""
    dash = DASHES[index % len(DASHES)]
    return f'fill="none" stroke="{CURVES[index % len(CURVES)]}" stroke-width="2" stroke-linejoin="round"' + (
        f' stroke-dasharray="{dash}"' if dash else ""
    )


def ticks(steps: int, most: int = 9) -> list[int]:
    """Return round steps for the axis, starting at 0.

    Examples
    --------
    >>> ticks(200)
    [0, 25, 50, 75, 100, 125, 150, 175]
    """
    spacings = (base * 10**power for power in range(9) for base in (1, 2, 2.5, 5))
    spacing = next(int(s) for s in spacings if s == int(s) and steps <= s * most)
    return list(range(0, steps, spacing))


def _strokes(keys: NDArray[np.int64], styles: dict[int, str], height: int) -> str:
    """Fill runs of equal keys: a thick stroke per run needs half the bytes of a rectangle."""
    paths: dict[int, list[str]] = {}
    for start, length, key in runs(keys):
        if key:
            paths.setdefault(key, []).append(f"M{start} {height / 2:g}h{length}")
    return "".join(
        f'<path d="{"".join(parts)}" {styles[key]} stroke-width="{height}" shape-rendering="crispEdges"/>'
        for key, parts in sorted(paths.items())
    )


def _missing(observed: Flags, height: int) -> str:
    return _strokes((~observed).astype(np.int64), {1: f'stroke="{MISSING}"'}, height)


def _thin(stroke: str, dash: str) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{stroke}" stroke-width="1"{dashes} vector-effect="non-scaling-stroke"'


def _range(values: NDArray[np.float32], seen: Flags) -> tuple[float, float]:
    """Return the lowest and highest value seen; (0, 0) if there is none."""
    if not seen.any():
        return 0.0, 0.0
    return float(values[seen].min()), float(values[seen].max())


def _y(value: float, low: float, high: float, height: int) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return height - PADDING - share * (height - 2 * PADDING)
