"""One series as a picture of text: for each channel a line of values, and one of scores that push up or down."""

from collections.abc import Sequence
from typing import TextIO

import numpy as np

from tempograd.cli.colour import coloured
from tempograd.core.formatting import alike, short_number
from tempograd.explanation import Explanation
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import channel_names, name
from tempograd.views.series import Flags, Floats, Indices, observed_cells, scores, sizes, to_numpy

BARS, PLAIN = "▁▂▃▄▅▆▇█", ".:-=+*#@"  # from low to high, and for terminals that have no such letters
NOTHING, GAP = " ", "·"
MARGIN = 10  # columns before a line
SMALL = 0.05  # of the largest score: below that, a step has no bar


def draw_text(
    explanation: Explanation, place: int, channels: Sequence[str] | int, width: int, stream: TextIO
) -> str:
    """Return the lines of a picture of one series, at most ``width`` columns wide.

    Values are drawn from the lowest to the highest of their channel, scores on one scale for all channels. Where
    there are more steps than columns, a column shows the mean of its values and the strongest of its scores.
    """
    names, found = channel_names(explanation), scores(explanation, place)
    seen = observed_cells(explanation)[place]
    shown = explanation.shown
    values = found.values * 0 if shown is None else to_numpy(shown[place])
    effect = to_numpy(sizes(explanation)[place]).sum(0)
    chosen = chosen_channels(channels, names, effect, len(names), ordered=True)
    steps = min(len(values), max(8, width - MARGIN))
    groups = np.array_split(np.arange(len(values), dtype=np.int64), steps)
    bars = BARS if _can_show(BARS + GAP, stream) else PLAIN
    most = float(np.abs(found.values[seen]).max(initial=0))
    lines = []
    for d in chosen:
        unit = "" if explanation.units is None else name(explanation.units[d])
        lines += [
            coloured(_head(name(names[d]), unit, values[:, d][seen[:, d]]), "bold", stream),
            _row("value", _drawn(values[:, d], seen[:, d], groups, bars)),
        ]
        strongest = _strongest(found.values[:, d], groups)
        for side, style, sign in (("up", "up", 1), ("down", "down", -1)):
            if (sign * strongest > SMALL * most).any():
                kind = (side, style) if found.signed else ("score", "size")
                line = _heights(sign * strongest, most, bars)
                lines.append(_row(kind[0], coloured(line, kind[1], stream)))
        lines.append("")
    left = len(names) - len(chosen)
    times = explanation.times_of(place)
    lines.append(_row("", _axis(name(times[0]), name(times[-1]), steps)))
    scale = f"A full bar is a score of {short_number(most)}."
    rest = f" {left} more channel{'s' * (left > 1)}: --shown chooses." if left else ""
    gaps = f" {GAP if bars is BARS else '_'} is missing." if not seen[:, chosen].all() else ""
    return "\n".join([*lines, coloured(scale + gaps + rest, "faint", stream)])


def _can_show(text: str, stream: TextIO) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _head(channel: str, unit: str, values: Floats) -> str:
    if not len(values):
        return f"{channel}, never observed"
    low, high = float(values.min()), float(values.max())
    span = " to ".join(dict.fromkeys(alike(low, high)))
    return f"{channel} {span} {unit}".rstrip()


def _row(title: str, line: str) -> str:
    return f"{title:>{MARGIN - 2}}  {line}".rstrip()


def _drawn(values: Floats, seen: Flags, groups: Sequence[Indices], bars: str) -> str:
    """Draw values between the lowest and the highest of them; columns without any are gaps."""
    if not seen.any():
        return (GAP if bars is BARS else "_") * len(groups)
    low, high = float(values[seen].min()), float(values[seen].max())
    line = ""
    for steps in groups:
        here = values[steps][seen[steps]]
        share = (float(here.mean()) - low) / (high - low) if len(here) and high > low else 0.5
        line += bars[round(share * (len(bars) - 1))] if len(here) else GAP if bars is BARS else "_"
    return line


def _strongest(values: Floats, groups: Sequence[Indices]) -> Floats:
    return np.array([values[steps][np.abs(values[steps]).argmax()] for steps in groups])


def _heights(sizes_of_columns: Floats, most: float, bars: str) -> str:
    """Draw sizes from 0 to the largest; what is small has no bar."""
    shares = sizes_of_columns / most
    return "".join(bars[min(int(s * len(bars)), len(bars) - 1)] if s > SMALL else NOTHING for s in shares)


def _axis(first: str, last: str, steps: int) -> str:
    if len(first) + len(last) + 1 > steps:
        return f"{first} to {last}"
    return first + last.rjust(steps - len(first))
