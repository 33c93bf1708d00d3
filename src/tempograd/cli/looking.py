"""What ``top`` and ``plot`` do, which look at one series; ``parsers.py`` has their arguments."""

import argparse
from typing import Any

from tempograd.cli.arguments import print_json
from tempograd.cli.commands import verdict
from tempograd.cli.inputs import claim, load_explanations
from tempograd.core.errors import InputError, OutputError, short_path
from tempograd.core.formatting import alike, short_number, table
from tempograd.core.io import DRAWN, PICTURE, write_atomically
from tempograd.core.validation import check_int
from tempograd.explanation import Explanation
from tempograd.views.drivers import most_telling
from tempograd.views.labels import channel_names, name
from tempograd.views.series import position, scores

ENDINGS = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}  # of pictures, and where notes have room


def choose(args: argparse.Namespace) -> tuple[Explanation, int, str]:
    """Read what a command was given; return it with the place of its series, and what is said of that."""
    explanation = next(iter(load_explanations(args).values()))
    if not len(explanation):
        raise InputError(f"{short_path(args.explanations[0])} holds no series.")
    place = most_telling(explanation) if args.series is None else position(explanation, args.series)
    return explanation, place, explanation.describe(place)


# ``tempograd top``: the strongest values of a series.


def run_top(args: argparse.Namespace) -> None:
    count = check_int(args.k, "--k", 1)
    explanation, place, sentence = choose(args)
    label = str(explanation.label(place))
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


# ``tempograd plot``: a picture of a series.


def run_plot(args: argparse.Namespace) -> None:
    if args.out.suffix.lower() not in ENDINGS:
        raise OutputError(f"{short_path(args.out)} is no picture: its name must end in {', '.join(ENDINGS)}.")
    claim(args, PICTURE)
    explanation, place, sentence = choose(args)
    if explanation.shown is None:
        raise InputError(f"{short_path(args.explanations[0])} was saved without its series.")
    figure = explanation.plot(place, channels=args.shown)
    note = {ENDINGS[args.out.suffix.lower()]: DRAWN.decode()}
    look: dict[str, Any] = {"metadata": note, "dpi": 160, "format": args.out.suffix[1:].lower()}
    write_atomically(args.out, lambda temporary: figure.savefig(temporary, **look))
    print(f"Series {explanation.label(place)}: {sentence}\nWrote {args.out}.")
