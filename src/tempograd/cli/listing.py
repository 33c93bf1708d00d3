"""``tempograd list``: what there is, with one line each."""

import argparse
import inspect
import json
import re
import textwrap
from typing import Any

from tempograd.cli.arguments import Commands, add_command, add_json

KINDS = ("explainers", "metrics", "datasets", "models")
EXAMPLES = ("", "explainers", "metrics --json")
FACTS = (
    "signed",
    "targeted",
    "deterministic",
    "needs_gradient",
    "needs_fit",
    "needs_module",
    "needs_prefixes",
    "needs_probabilities",
    "shared",
    "complete",
)

LEGEND = """
signed: the sign tells the direction · targeted: about one class or output, not the whole · deterministic: the
seed makes no difference · needs gradient: of a differentiable model · needs fit: training series, train= ·
needs module: an nn.Module · needs prefixes: predictions on the first steps of a series · needs probabilities:
no regression · shared: series explained together influence each other · complete: scores sum to the change of
the prediction
"""


def add_list(commands: Commands) -> None:
    parser = add_command(commands, "list", "show what there is, with one line each", EXAMPLES)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="what to list (default: everything)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    kinds = KINDS if args.kind is None else (args.kind,)
    found = {kind: describe(kind) for kind in kinds}
    if args.json:
        print(json.dumps(found if args.kind is None else found[args.kind], indent=2, ensure_ascii=False))
        return
    for kind, entries in found.items():
        if args.kind is None:
            print(f"{'' if kind == KINDS[0] else chr(10)}{kind.upper()}")
        _print(kind, entries)


def _print(kind: str, entries: list[dict[str, Any]]) -> None:
    width = max(len(entry["name"]) for entry in entries) + 2
    for entry in entries:
        about = entry["about"] + _extra(entry)
        print(textwrap.fill(about, 110, initial_indent=entry["name"].ljust(width), subsequent_indent=" " * width))
    print(LEGEND if kind == "explainers" else "", end="")


def describe(kind: str) -> list[dict[str, Any]]:
    """Return one entry per name of a registry."""
    from tempograd._utils.registry import Registry
    from tempograd.data import DATASETS
    from tempograd.explainers import EXPLAINERS
    from tempograd.metrics import METRICS
    from tempograd.models import MODELS

    registries: dict[str, Registry[Any]] = {
        "explainers": EXPLAINERS,
        "metrics": METRICS,
        "datasets": DATASETS,
        "models": MODELS,
    }
    entries = []
    found = registries[kind].working()
    for name in sorted(found) if kind == "explainers" else found:
        thing = found[name]
        entry: dict[str, Any] = {"name": name, "about": first_sentence(inspect.getdoc(thing) or "")}
        if kind == "explainers":
            entry |= {fact: getattr(thing, fact) for fact in FACTS}
        if kind == "metrics":
            entry["higher_is_better"] = thing.higher_is_better
        entries.append(entry)
    return entries


def first_sentence(documentation: str) -> str:
    r"""Return the first paragraph as one line, without its formulas, which a terminal cannot show.

    Examples
    --------
    >>> first_sentence("Change of the output, :math:`|F|`,\nat the end.\n\nMore.")
    'Change of the output, at the end.'
    """
    line = " ".join(documentation.split("\n\n", maxsplit=1)[0].split())
    return re.sub(r",? :math:`[^`]*`", "", line)


def _extra(entry: dict[str, Any]) -> str:
    if "higher_is_better" in entry:
        return " Higher is better." if entry["higher_is_better"] else " Lower is better."
    facts = [fact.replace("_", " ") for fact in FACTS if entry.get(fact)]
    return f" [{', '.join(facts)}]" if facts else ""
