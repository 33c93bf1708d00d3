"""The end of ``tempograd explain``: what was explained, what mattered, and what to do next."""

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tempograd.cli.cautions import compares, warn_of_low_accuracy
from tempograd.cli.facts import CELLS, summary
from tempograd.cli.series import COLUMNS

if TYPE_CHECKING:
    from torch import nn

    from tempograd.data import Series
    from tempograd.explanation import Explanation

NAMED = 6  # classes whose numbers are told


def show(explanation: "Explanation", model: "nn.Module", series: "Series", args: argparse.Namespace) -> None:
    """Print the summary, for people or as JSON, and warn where the model seems to be the wrong one."""
    facts = summary(explanation, model, series)
    classes = args.classes or series.classes or ()
    command = _report_command(args)
    warn_of_low_accuracy(facts["accuracy"], facts["outputs"], facts["series"])
    if args.json:
        facts = {"out": str(args.out), **facts, "classes": list(classes) or None, "next": command}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    size = f"{facts['steps']} steps × {_count(facts['channels'], 'channel')}"
    gaps = f", {100 * facts['missing']:.0f} % missing" if facts["missing"] else ""
    against = f", baseline: {facts['baseline']}" if compares(args) else ""
    print(f"Explained {facts['series']} series ({size}{gaps}) with {facts['method']}{against}.")
    unit = "series" if explanation.target is None or explanation.target.ndim == 1 else "steps"
    for line in (*_model_lines(facts, args, classes, unit), *_score_lines(facts)):
        print(f"  {line}")
    print(f"Wrote {args.out}.")
    print(f"Next: {command}")


def _model_lines(
    facts: dict[str, Any], args: argparse.Namespace, classes: Sequence[str], unit: str
) -> Iterator[str]:
    """Say what the model predicts and how often it is right."""
    if facts["outputs"] > 1:
        kind = "predicted" if args.target is None else "explained"
        counts = [f"{_name(classes, number)} ({count} {unit})" for number, count in facts["explained"].items()]
        yield f"{kind} {'classes' if facts['output'] == 'probability' else 'outputs'}: {', '.join(counts)}"
    if facts["accuracy"] is not None:
        numbers = [f"{number} = {name}" for number, name in enumerate(classes[:NAMED])]
        numbers += ["…"] if len(classes) > NAMED else []
        order = "" if args.classes else ", in sorted order; --classes changes it"
        known = f" (class {', '.join(numbers)}{order})" if classes else ""
        yield f"right on {_percent(facts['accuracy'])} of the labels{known}"


def _score_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say which channels matter and how good the scores are."""
    if facts["channels"] > 1:
        strongest = [f"{entry['channel']} {100 * entry['share']:.0f} %" for entry in facts["strongest_channels"]]
        yield f"share of the attribution by channel: {', '.join(strongest)}"
    yield facts["verdict"]
    if facts["sign_certain"] is not None:
        which = "the ten strongest values" if facts["steps"] * facts["channels"] > CELLS else "the values"
        yield f"sign certain for {_percent(facts['sign_certain'])} of {which} of each series"
    yield f"explained: {facts['what']}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(known: Sequence[str], number: str) -> str:
    return str(known[int(number)]) if int(number) < len(known) else number


def _percent(share: float) -> str:
    """Write a share so that only all of it is 100 %, and only nothing is 0 %.

    Examples
    --------
    >>> _percent(0.834), _percent(0.998), _percent(0.001), _percent(1.0)
    ('83 %', 'over 99 %', 'under 1 %', '100 %')
    """
    if 0.99 < share < 1:
        return "over 99 %"
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _report_command(args: argparse.Namespace) -> str:
    """Return the command that shows what was explained."""
    words = ["tempograd", "report", str(args.out), "--model", str(args.model)]
    words += [] if args.weights is None else ["--weights", str(args.weights)]
    words += ["--data", args.data]
    for name in ("split", "root", "variant", *COLUMNS):
        value = getattr(args, name)
        if value is not None and (name, value) != ("split", "test"):
            words += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join(words)
