"""What ``top`` and ``plot`` do, which look at one series; ``parsers.py`` has their arguments."""

import argparse
import json
import shutil
import sys
from itertools import islice
from typing import Any, NamedTuple

from torch import Tensor, nn

from tempograd.cli.arguments import command
from tempograd.cli.colour import coloured
from tempograd.cli.holding import release
from tempograd.cli.inputs import (
    SOURCE,
    claim,
    is_folder,
    load_explanations,
    read_data,
    read_model,
    repeated,
    take_series,
)
from tempograd.cli.summary import fitting_classes
from tempograd.cli.text_picture import draw_text
from tempograd.core.errors import InputError, OutputError, UnknownNameError, short_path
from tempograd.core.formatting import alike, short_number
from tempograd.core.io import DRAWN, PICTURE
from tempograd.core.validation import check_int
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import sentence
from tempograd.views.drivers import spread_note
from tempograd.views.labels import channel_names, name
from tempograd.views.series import aligned, position, renumbered
from tempograd.views.summary import most_telling

ENDINGS = {
    ".png": "Software",
    ".svg": "Creator",
    ".pdf": "Creator",
}  # of pictures, and where notes have room
WIDE = 100  # columns that a picture of text takes at most
LOOKED_THROUGH = 200  # series of a run, for the most telling one
CHANNELS = 6  # that it shows, unless somebody says which


class Chosen(NamedTuple):
    """One series of an explanation, and what is known of it."""

    explanation: Explanation
    place: int
    model: nn.Module | None
    y: Tensor | None

    @property
    def label(self) -> str:
        """What people call it."""
        return str(self.explanation.label(self.place))

    @property
    def sentence(self) -> str:
        """What was predicted, and why."""
        return self.explanation.describe(self.place, model=self.model, y=self.y)


def choose(args: argparse.Namespace) -> Chosen:
    """Read what a command was given, and find its series."""
    if is_folder(args.explanation):
        explanation = take_series(args.explanation, args.series, LOOKED_THROUGH)
    else:
        (explanation,) = load_explanations([args.explanation], args.target).values()
    if not len(explanation):
        raise InputError(f"{short_path(args.explanation)} holds no series.")
    place = most_telling(explanation) if args.series is None else find_series(explanation, args.series)
    model = None if args.model is None else read_model(args)
    y = None
    if args.data is not None:
        found = read_data(args.data, args).padded()
        named = args.classes or explanation.classes or found.classes
        given = args.classes is not None
        classes = fitting_classes(named, explanation.n_outputs, explanation.output, given=given)
        explanation = explanation.with_names(classes=classes or None)
        unknown = bool(named) and not classes and explanation.output == "probability"  # which class a label is
        found = renumbered(found, classes or None)
        y = aligned(explanation, found).y if found.y is not None and not unknown else None
    return Chosen(explanation, place, model, y)


def find_series(explanation: Explanation, called: str) -> int:
    """Return the position of the series that people call so."""
    labels = explanation.labels
    if called in (explanation.names or ()):  # which several series may have
        return position(explanation, called)
    if called not in labels:
        raise UnknownNameError("series", called, labels)
    return labels.index(called)


# ``tempograd top``: the strongest values of a series.


def run_top(args: argparse.Namespace) -> None:
    chosen = choose(args)
    rows = strongest(chosen.explanation, chosen.place, check_int(args.k, "--k", 1))
    verdict = sentence(chosen.explanation, chosen.place, "shell").replace("pass --", "explain again with --")
    same = repeated(args, "target", "model", "weights", "trust", "device", *SOURCE, "split")
    following = command("plot", str(args.explanation), **same, series=chosen.label)
    release()
    if args.json:
        facts = {"series": chosen.label, "sentence": chosen.sentence, "strongest": rows, "verdict": verdict}
        print(json.dumps(facts | {"next": following}, indent=2, ensure_ascii=False))
        return
    print(f"{coloured(f'Series {chosen.label}:', 'bold', sys.stdout)} {chosen.sentence}")
    if spread_note(chosen.sentence):
        print(coloured(spread_note(chosen.sentence), "faint", sys.stdout))
    print("\nThe strongest single values:")
    print(_table(rows, "step" if chosen.explanation.times is None else "time", signed=chosen.explanation.signed))
    print(f"\n{verdict[:1].upper()}{verdict[1:]}.")
    print("Next:", coloured(following, "command", sys.stdout))


def strongest(explanation: Explanation, place: int, count: int) -> list[dict[str, Any]]:
    """Return the strongest observed values of a series, as plain data; those whose score is 0 are left out."""
    one = explanation[place]
    top = one.top(min(count, one.values[0].numel()))
    times, names = one.times_of(0), channel_names(one)
    limits = None if one.standard_error is None or one.ess is None else one.interval(0.95)
    rows = []
    for t, d in zip(top.time[0].tolist(), top.channel[0].tolist(), strict=True):
        if t < 0 or not one.values[0, t, d]:  # the series has fewer
            break
        unit = "" if one.units is None else one.units[d]
        row: dict[str, Any] = {"time": times[t], "channel": names[d]}
        row["value"] = None if one.shown is None else float(one.shown[0, t, d])
        row |= {"unit": unit or None, "attribution": float(one.values[0, t, d])}
        sides = (None, None) if limits is None else [float(side[0, t, d]) for side in limits]
        rows.append(row | dict(zip(("low", "high"), sides, strict=True)))
    return rows


def _table(rows: list[dict[str, Any]], when: str, *, signed: bool) -> str:
    """Write the strongest values for people, in columns."""
    if not rows:
        return "No observed value has a score other than 0."
    cells = [[when, "channel", "value", "attribution", "95 % interval"]]
    sides = ("attribution",) if rows[0]["low"] is None else ("attribution", "low", "high")
    numbers = iter(alike(*(row[side] for row in rows for side in sides)))
    for row in rows:
        value = "" if row["value"] is None else f"{short_number(row['value'])} {name(row['unit'] or '')}".strip()
        texts = [text if text[0] in "−∞" or not signed else f"+{text}" for text in islice(numbers, len(sides))]
        cells.append([name(row["time"]), name(row["channel"]), value, texts[0], " to ".join(texts[1:])])
    kept = [column for column in zip(*cells, strict=True) if any(column[1:])]
    columns = []
    for column in kept:
        width, left = max(map(len, column)), column[0] in {when, "channel"}
        columns.append([cell.ljust(width) if left else cell.rjust(width) for cell in column])
    lines = [list(line) for line in zip(*columns, strict=True)]
    lines[0] = [coloured(cell, "faint", sys.stdout) for cell in lines[0]]
    where = [column[0] for column in kept].index("attribution")
    for line, row in zip(lines[1:], rows, strict=True):
        style = "size" if not signed else "up" if row["attribution"] > 0 else "down"
        line[where] = coloured(line[where], style, sys.stdout)
    return "\n".join("  ".join(line).rstrip() for line in lines)


# ``tempograd plot``: a picture of a series, in a file or in the terminal.


def run_plot(args: argparse.Namespace) -> None:
    if args.out is not None:
        if args.out.suffix.lower() not in ENDINGS:
            raise OutputError(f"{short_path(args.out)} is no picture: its name must end in {', '.join(ENDINGS)}.")
        claim(args, PICTURE)
    chosen = choose(args)
    if chosen.explanation.shown is None:
        raise InputError(f"{short_path(args.explanation)} was saved without its series, so there is none to draw.")
    if args.out is None:
        width = min(WIDE, shutil.get_terminal_size().columns)
        picture = draw_text(chosen.explanation, chosen.place, args.shown or CHANNELS, width, sys.stdout)
        release()
        print(f"{coloured(f'Series {chosen.label}:', 'bold', sys.stdout)} {chosen.sentence}\n\n{picture}")
        return
    figure = chosen.explanation.plot(chosen.place, model=chosen.model, y=chosen.y, channels=args.shown)
    note = {ENDINGS[args.out.suffix.lower()]: DRAWN.decode()}
    figure.savefig(args.out, metadata=note, dpi=160, format=args.out.suffix[1:].lower())
    release()
    print(f"{chosen.sentence}\nWrote {args.out}.")
