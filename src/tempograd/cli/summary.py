"""The end of ``tempograd explain``: what was explained, what mattered, and what to do next."""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tempograd._utils.formatting import percent
from tempograd.cli.arguments import command
from tempograd.cli.cautions import compares, fitting_classes, warn_of_low_accuracy
from tempograd.cli.facts import CELLS, summary
from tempograd.cli.series import COLUMNS

if TYPE_CHECKING:
    from torch import nn

    from tempograd.data import Series
    from tempograd.explanation import Explanation

NAMED = 6  # classes whose numbers are told


def show(
    explanation: "Explanation", model: "nn.Module", series: "Series", args: argparse.Namespace, *, faulty: bool
) -> None:
    """Print the summary, for people or as JSON, and warn where the model seems to be the wrong one.

    Where labels are ``faulty``, a report takes the series from the explanation.
    """
    facts = summary(explanation, model, series)
    named = args.classes or series.classes
    classes = fitting_classes(named, facts["outputs"], facts["output"], given=args.classes is not None)
    if named and not classes:
        facts["accuracy"] = None  # nobody knows which class a label is
    following = _report_command(args, fits=bool(classes) or not named, faulty=faulty)
    warn_of_low_accuracy(facts["accuracy"], facts["outputs"], facts["series"])
    if args.json:
        facts = {"out": str(args.out), **facts, "classes": list(classes) or None, "next": following}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    size = f"{facts['steps']} steps × {_count(facts['channels'], 'channel')}"
    gaps = f", {percent(facts['missing'])} missing" if facts["missing"] else ""
    against = f", baseline: {facts['baseline']}" if compares(args) else ""
    print(f"Explained {facts['series']} series ({size}{gaps}) with {facts['method']}{against}.")
    unit = "series" if explanation.target is None or explanation.target.ndim == 1 else "steps"
    for line in (*_model_lines(facts, args, classes, unit), *_score_lines(facts)):
        print(f"  {line}")
    print(f"Wrote {args.out}.")
    print(f"Next: {following}")


def _model_lines(
    facts: dict[str, Any], args: argparse.Namespace, classes: Sequence[str], unit: str
) -> Iterator[str]:
    """Say what the model predicts and how often it is right."""
    if facts["outputs"] > 1:
        predicted, explained = facts["predicted"], facts["explained"]
        if predicted is not None:
            yield f"predicted classes: {_counted(classes, predicted, unit)}"
        if predicted is None:
            kind = "predicted" if args.target is None else "explained"
            yield f"{kind} outputs: {_counted(classes, explained, unit)}"
        elif args.target is not None or explained != predicted:
            yield f"explained class: {_counted(classes, explained, unit)}"
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


def _counted(classes: Sequence[str], counts: dict[str, int], unit: str) -> str:
    return ", ".join(f"{_name(classes, number)} ({count} {unit})" for number, count in counts.items())


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


def _report_command(args: argparse.Namespace, *, fits: bool, faulty: bool) -> str:
    """Return the command that shows what was explained, without what would make it fail."""
    source = () if faulty else ("data", "split", "root", "variant", *COLUMNS)
    options = {name: getattr(args, name) for name in ("model", "weights", "trust", *source)}
    if not faulty:
        options["split"] = None if args.split == "test" else args.split
        options["classes"] = args.classes if fits else None
    return command("report", str(args.out), **options)
