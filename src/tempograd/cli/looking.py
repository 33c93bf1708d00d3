"""What ``top`` and ``plot`` do, which look at one series; ``parsers.py`` has their arguments."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tempograd.cli.arguments import print_json
from tempograd.cli.commands import verdict
from tempograd.cli.inputs import claim, read, with_classes
from tempograd.core.errors import InputError, OutputError, UnknownNameError, short_path
from tempograd.core.formatting import alike, short_number, table
from tempograd.core.io import DRAWN, PICTURE, write_atomically
from tempograd.core.validation import check_int
from tempograd.explanation import Explanation
from tempograd.views.groups import chosen_channels
from tempograd.views.labels import channel_names, name
from tempograd.views.reader import most_telling
from tempograd.views.series import Floats, observed_cells, position, scores, to_numpy

ENDINGS = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}  # of pictures, and where notes have room
WIDE, MARGIN = 100, 8  # columns that a picture of text takes at most, and those before a line
CHANNELS = 6  # that it shows, unless somebody says which
BARS, PLAIN = "▁▂▃▄▅▆▇█", ".:-=+*#@"  # from low to high, and for terminals that have no such letters
SMALL = 0.05  # of the largest score: below that, a step has no bar


class Chosen(NamedTuple):
    """One series of an explanation, and what is known of it."""

    explanation: Explanation
    place: int
    label: str
    sentence: str  # what was predicted, and why
    known: dict[str, Any]  # the model, and labels of all series


def choose(args: argparse.Namespace) -> Chosen:
    """Read what a command was given, and find its series."""
    found = read(args)
    if not len(found.first):
        raise InputError(f"{short_path(args.explanations[0])} holds no series.")
    classes, series = with_classes(found.first, found.series, args)
    explanation = found.first if classes is None else found.first.with_names(classes=classes)
    place = most_telling(explanation) if args.series is None else _place(explanation, args.series)
    known = {"model": found.model, "y": None if series is None else series.y}
    return Chosen(explanation, place, str(explanation.label(place)), explanation.describe(place, **known), known)


def _place(explanation: Explanation, called: str) -> int:
    if explanation.names is not None:
        return position(explanation, called)
    if called not in explanation.labels:
        raise UnknownNameError("series", called, explanation.labels)
    return explanation.labels.index(called)


# ``tempograd top``: the strongest values of a series.


def run_top(args: argparse.Namespace) -> None:
    count = check_int(args.k, "--k", 1)
    explanation, place, label, sentence, _ = choose(args)
    rows, sure = strongest(explanation, place, count), verdict(explanation, place)
    if args.json:
        print_json({"series": label, "sentence": sentence, "strongest": rows, "verdict": sure})
        return
    print(f"Series {label}: {sentence}\n\nThe strongest single values:")
    print(_table(rows, signed=explanation.signed))
    print(f"\n{sure[:1].upper()}{sure[1:]}.")


def strongest(explanation: Explanation, place: int, count: int) -> list[dict[str, Any]]:
    """Return the strongest observed values of a series, as plain data; those whose score is 0 are left out."""
    one, found = explanation[place], scores(explanation, place)
    top = one.top(min(count, one.values[0].numel()))
    times, names, rows = one.times_of(0), channel_names(one), []
    for t, d in zip(top.time[0].tolist(), top.channel[0].tolist(), strict=True):
        if t < 0 or not one.values[0, t, d]:  # the series has fewer
            break
        rows.append(
            {
                "time": times[t],
                "channel": names[d],
                "value": None if one.shown is None else float(one.shown[0, t, d]),
                "unit": (one.units[d] or None) if one.units else None,
                "attribution": float(one.values[0, t, d]),
                "low": None if found.low is None else float(found.low[t, d]),
                "high": None if found.high is None else float(found.high[t, d]),
            }
        )
    return rows


def _table(rows: list[dict[str, Any]], *, signed: bool) -> str:
    """Write the strongest values for people, in columns."""
    if not rows:
        return "No observed value has a score other than 0."
    sides = [side for side in ("attribution", "low", "high") if rows[0][side] is not None]
    numbers = alike(*(row[side] for row in rows for side in sides))
    lines = [["time", "channel", "value", "attribution", *(["95 % interval"] if len(sides) > 1 else [])]]
    for number, row in enumerate(rows):
        value = "" if row["value"] is None else f"{short_number(row['value'])} {name(row['unit'] or '')}".strip()
        texts = [text if text[0] in "−∞" or not signed else f"+{text}" for text in numbers[number * len(sides) :]]
        interval = [" to ".join(texts[1:3])] if len(sides) > 1 else []
        lines.append([name(row["time"]), name(row["channel"]), value, texts[0], *interval])
    return table(lines)


# ``tempograd plot``: a picture of a series, in a file or in the terminal.


def run_plot(args: argparse.Namespace) -> None:
    if args.out is not None:
        if args.out.suffix.lower() not in ENDINGS:
            raise OutputError(f"{short_path(args.out)} is no picture: its name must end in {', '.join(ENDINGS)}.")
        claim(args, PICTURE)
    chosen = choose(args)
    if chosen.explanation.shown is None:
        raise InputError(
            f"{short_path(args.explanations[0])} was saved without its series: there is none to draw."
        )
    if args.out is None:
        width = min(WIDE, shutil.get_terminal_size().columns)
        picture = draw_text(chosen.explanation, chosen.place, args.shown or CHANNELS, width)
        print(f"Series {chosen.label}: {chosen.sentence}\n\n{picture}")
        return
    figure = chosen.explanation.plot(chosen.place, channels=args.shown, **chosen.known)
    note = {ENDINGS[args.out.suffix.lower()]: DRAWN.decode()}
    look: dict[str, Any] = {"metadata": note, "dpi": 160, "format": args.out.suffix[1:].lower()}
    write_atomically(args.out, lambda temporary: figure.savefig(temporary, **look))
    print(f"Series {chosen.label}: {chosen.sentence}\nWrote {args.out}.")


def draw_text(explanation: Explanation, place: int, channels: Sequence[str] | int, width: int) -> str:
    """Return one series as lines of text: for each channel its values, and its scores that push up and down.

    Values go from the lowest to the highest of their channel, scores have one scale. Where there are more steps
    than columns, a column shows the mean of its values and the strongest of its scores.
    """
    names, found, units = channel_names(explanation), scores(explanation, place), explanation.units
    shown = to_numpy(explanation.shown[place])  # type: ignore[index]  # it was looked at before
    values = np.where(observed_cells(explanation)[place], shown, np.nan)
    groups = np.array_split(np.arange(len(values)), min(len(values), max(8, width - MARGIN)))
    bars = BARS if (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf") else PLAIN
    most, lines = float(np.abs(found.values).max(initial=0)), []
    for d in chosen_channels(channels, names, found.effect, len(names), ordered=True):
        seen = values[np.isfinite(values[:, d]), d]
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 0.0)
        lines.append(
            f"{name(names[d])} {' to '.join(dict.fromkeys(alike(low, high)))} {units[d] if units else ''}"
        )
        means = np.array(
            [np.nanmean(part) if np.isfinite(part).any() else np.nan for part in _cut(values[:, d], groups)]
        )
        lines.append(f"{'value':>6}  {_bars((means - low) / ((high - low) or 1), bars, gap='·')}")
        strong = np.array([part[np.abs(part).argmax()] for part in _cut(found.values[:, d], groups)])
        for side, sign in (("up", 1), ("down", -1)) if found.signed else (("score", 1),):
            sizes = np.where(sign * strong > SMALL * most, sign * strong / (most or 1), np.nan)
            lines += [f"{side:>6}  {_bars(sizes, bars, gap=' ')}"] if np.isfinite(sizes).any() else []
    times = explanation.times_of(place)
    lines.append(f"{name(times[0])} to {name(times[-1])}; a full bar is a score of {short_number(most)}")
    return "\n".join(line.rstrip() for line in lines)


def _cut(values: Floats, groups: Sequence[Any]) -> list[Floats]:
    return [values[steps] for steps in groups]


def _bars(shares: Floats, bars: str, *, gap: str) -> str:
    """Draw shares from 0 to 1; NaN has no bar."""
    last = len(bars) - 1
    return "".join(bars[round(float(share) * last)] if np.isfinite(share) else gap for share in shares)
