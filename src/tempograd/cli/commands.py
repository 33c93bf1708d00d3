"""What ``list``, ``train``, ``evaluate`` and ``report`` do; ``parsers.py`` has their arguments."""

import argparse
import inspect
import re
from dataclasses import replace
from typing import Any

import torch

from tempograd.cli.arguments import print_json
from tempograd.cli.inputs import ReadArguments, claim, device, read, sample_note, with_classes
from tempograd.cli.parsers import KINDS
from tempograd.core.errors import InputError, warn
from tempograd.core.io import MODEL, REPORT
from tempograd.core.registry import Registry
from tempograd.data import DATASETS, load_dataset
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import poor, sentence
from tempograd.explanation.targets import other_targets
from tempograd.html_report import report
from tempograd.metrics import METRICS, evaluate
from tempograd.metrics import table as metric_table
from tempograd.models import MODELS, accuracy, save_model, train

# ``tempograd list``: what there is, with one line each.


def run_list(args: argparse.Namespace) -> None:
    entries = {kind: describe(kind) for kind in KINDS if args.kind in (None, kind)}
    if args.json:
        print_json(entries if args.kind is None else entries[args.kind])
        return
    blocks = []
    for kind, known in entries.items():
        width = max(len(entry["name"]) for entry in known) + 2
        lines = [f"{entry['name']:{width}}{entry['about']}{_extra(entry)}" for entry in known]
        blocks.append("\n".join([kind.upper(), *lines] if args.kind is None else lines))
    print(*blocks, sep="\n\n")


def describe(kind: str) -> list[dict[str, Any]]:
    """Return one entry per name of a registry."""
    registry: Registry[Any] = (EXPLAINERS, METRICS, DATASETS, MODELS)[KINDS.index(kind)]
    entries = []
    for name, thing in sorted(registry.working().items()):
        better = {"higher_is_better": thing.higher_is_better} if kind == "metrics" else {}
        about = first_sentence(inspect.getdoc(thing) or "")
        entries.append({"name": name, "about": about, "package": registry.origin(name) or None} | better)
    return entries


def first_sentence(documentation: str) -> str:
    r"""Return the first paragraph as one line, without its formulas, which a terminal cannot show.

    Examples
    --------
    >>> first_sentence("Change of the output, :math:`|F|`,\nat the end.\n\nMore.")
    'Change of the output, at the end.'
    """
    return re.sub(r",? :math:`[^`]*`", "", " ".join(documentation.split("\n\n", maxsplit=1)[0].split()))


def _extra(entry: dict[str, Any]) -> str:
    package = f" (from {entry['package']})" if entry["package"] else ""
    better = {True: " Higher is better.", False: " Lower is better.", None: ""}
    return better[entry.get("higher_is_better")] + package


# ``tempograd train``: a model for a data set.


def run_train(args: argparse.Namespace) -> None:
    claim(args, MODEL)
    data = load_dataset(args.dataset, root=args.root, fold=args.fold, variant=args.variant)
    changes = {} if args.epochs is None else {"epochs": args.epochs}
    model = train(args.model, data, seed=args.seed, device=device(args.device), **changes)
    reached = accuracy(model, data.test)
    facts = {"fold": args.fold, "test_accuracy": reached}
    if data.validation is not None:
        facts["validation_accuracy"] = accuracy(model, data.validation)
    save_model(model, args.out, facts=facts, force=args.force)
    if args.json:
        print_json({name: getattr(args, name) for name in ("out", "dataset", "model", "seed")} | facts)
    else:
        print(f"Test accuracy {reached:.4f}. Wrote {args.out}.")


# ``tempograd evaluate``: how well explanations stand up to tests.


def run_evaluate(args: argparse.Namespace) -> None:
    for metric in args.metrics:
        METRICS[metric]  # a mistake there is told before anything is read
    found = read(args)
    _check_alike(found, baselines=args.baseline is None)
    truth = None if found.series is None else found.series.truth
    drawn = [label for label, one in found.explanations.items() if one.background is not None]
    scores = {}
    for label, explanation in found.explanations.items():
        compares = label in drawn or not drawn or args.baseline is not None  # else with something else
        others = found.question["background"] if compares else None
        options: dict[str, Any] = {"truth": truth, "of": args.of, "background": others}
        known = explanation.x is not None or found.series is None
        asked = explanation if known else replace(explanation, x=found.series.x)
        scores[label] = evaluate(found.model, asked, args.metrics, args.baseline, args.k, **options)
    results = metric_table(scores)
    verdicts = {label: verdict(one) for label, one in found.explanations.items()}
    if args.json:
        entries = []
        for (label, parts), path in zip(scores.items(), args.explanations, strict=True):
            cells = {name: vars(results.cells[label, name]) | {"scores": parts[name].tolist()} for name in parts}
            entries.append({"name": label, "file": path, "verdict": verdicts[label], "metrics": cells})
        print_json({"ids": found.first.ids.tolist(), "names": found.first.names, "explanations": entries})
        return
    taken = sample_note(args, found.first)
    print(f"{taken}\n\n" if taken else "", results, sep="")
    for label, explanation in found.explanations.items():
        if poor(explanation):
            print(f"\n{label}: {verdicts[label]}")


def verdict(explanation: Explanation, i: int | None = None) -> str:
    """Say how good the scores are, and what to type to make them better."""
    return sentence(explanation, i, dialect="shell").replace("pass --", "explain again with --")


def _check_alike(found: ReadArguments, *, baselines: bool) -> None:
    """Refuse to compare explanations of different outputs; warn where they have different baselines."""
    first, others = found.first, found.explanations
    for label, other in others.items():
        if unlike := other_targets(first, other):
            start = f"{label} explains other outputs than {next(iter(others))}"
            raise InputError(f"{start} in {len(unlike)} series: pass one --target.")
    same = [torch.equal(first.baseline, each.baseline) for each in others.values()]
    if baselines and not (all(same) and all(first.background == each.background for each in others.values())):
        kinds = ", ".join(f"{label}: {other.baseline_kind}" for label, other in others.items())
        warn(
            f"Removed values become what each explanation compares with, and these differ ({kinds}), so their "
            "scores are not about the same removals: pass --baseline zero or --baseline average."
        )


# ``tempograd report``: explanations as one HTML file.


def run_report(args: argparse.Namespace) -> None:
    claim(args, REPORT)
    found = read(args)
    classes, series = with_classes(found.first, found.series, args)
    names: dict[str, Any] = {"classes": classes, "units": args.units or found.first.units}
    if series is not None:
        names |= {"raw": series.raw, "units": names["units"] or series.units}
    labelled = series if series is not None and series.y is not None else None
    named = {label: each.with_names(**names) for label, each in found.explanations.items()}
    report(args.out, found.model, named, labelled, series=args.series, force=args.force)
    taken = sample_note(args, found.first)
    print(f"Wrote {args.out}{f' about {taken}' if taken else ''}: open it in a browser.")
