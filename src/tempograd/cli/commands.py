"""What ``list``, ``train``, ``evaluate``, ``report``, ``top`` and ``plot`` do."""

import argparse
import inspect
from dataclasses import replace
from typing import Any

import torch

from tempograd.cli.arguments import print_json
from tempograd.cli.inputs import asked, claim, device, load_explanations, read_predictor, sample_note
from tempograd.cli.parsers import KINDS
from tempograd.core.errors import InputError, OutputError, short_path, warn
from tempograd.core.formatting import alike, first_sentence, short_number, table
from tempograd.core.io import DRAWN, MODEL, PICTURE, REPORT, write_atomically
from tempograd.core.registry import Registry
from tempograd.core.validation import check_int
from tempograd.data import DATASETS, load_dataset
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import poor, sentence
from tempograd.explanation.targets import other_targets
from tempograd.html_report import report
from tempograd.metrics import METRICS, evaluate
from tempograd.metrics import table as metric_table
from tempograd.models import MODELS, accuracy, save_model, train
from tempograd.views import labels
from tempograd.views.drivers import most_telling
from tempograd.views.series import position, scores

ENDINGS = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}  # of pictures, and where notes have room

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
    explanations, predictor = load_explanations(args), read_predictor(args)
    first = next(iter(explanations.values()))
    _check_alike(explanations, baselines=args.baseline is None)
    options = {"of": args.of, "background": asked(args, channels=first.channels).get("background")}
    scores = {
        label: evaluate(predictor, explanation, args.metrics, args.baseline, args.k, **options)
        for label, explanation in explanations.items()
    }
    results = metric_table(scores)
    verdicts = {label: verdict(one) for label, one in explanations.items()}
    if args.json:
        entries = []
        for (label, parts), path in zip(scores.items(), args.explanations, strict=True):
            cells = {name: vars(results.cells[label, name]) | {"scores": parts[name].tolist()} for name in parts}
            entries.append({"name": label, "file": path, "verdict": verdicts[label], "metrics": cells})
        print_json({"ids": first.ids.tolist(), "names": first.names, "explanations": entries})
        return
    taken = sample_note(args, first)
    print(f"{taken}\n\n" if taken else "", results, sep="")
    for label, explanation in explanations.items():
        if poor(explanation):
            print(f"\n{label}: {verdicts[label]}")


def verdict(explanation: Explanation, i: int | None = None) -> str:
    """Say how good the scores are, and what to type to make them better."""
    return sentence(explanation, i, dialect="shell").replace("pass --", "explain again with --")


def _check_alike(others: dict[str, Explanation], *, baselines: bool) -> None:
    """Refuse to compare explanations of different outputs; warn where they have different baselines."""
    first = next(iter(others.values()))
    for label, other in others.items():
        if unlike := other_targets(first, other):
            start = f"{label} explains other outputs than {next(iter(others))}"
            raise InputError(f"{start} in {len(unlike)} series: pass one --target.")
    if baselines and not all(torch.equal(first.baseline, other.baseline) for other in others.values()):
        kinds = ", ".join(f"{label}: {other.baseline_kind}" for label, other in others.items())
        warn(
            f"Removed values become what each explanation compares with, and these differ ({kinds}), so their "
            "scores are not about the same removals: pass --baseline zero or --baseline average."
        )


# ``tempograd report``: explanations as one HTML file.


def run_report(args: argparse.Namespace) -> None:
    claim(args, REPORT)
    explanations = load_explanations(args)
    given = {name: vars(args)[name] for name in ("classes", "units")}
    labels: Any = {name: tuple(part) for name, part in given.items() if part is not None}
    named = {name: replace(found, **labels) for name, found in explanations.items()}
    for found in named.values():
        found.verify()
    predictor: Any = None if args.model is None else read_predictor(args)
    report(args.out, predictor, named, series=args.series, live=args.live, force=args.force)
    taken = sample_note(args, next(iter(explanations.values())))
    print(f"Wrote {args.out}{f' about {taken}' if taken else ''}: open it in a browser.")


# ``tempograd top`` and ``tempograd plot``: one series.


def choose(args: argparse.Namespace) -> tuple[Explanation, int, str]:
    """Read what a command was given; return it with the place of its series, and what is said of that."""
    explanation = next(iter(load_explanations(args).values()))
    place = most_telling(explanation) if args.series is None else position(explanation, args.series)
    return explanation, place, explanation.describe(place)


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
    times, names, units = one.times_of(0), labels.channel_names(one), one.units
    value = None if one.shown is None else one.shown[0]
    parts = {"value": value, "attribution": one.values[0], "low": found.low, "high": found.high}
    return [
        {"time": times[t], "channel": names[d], "unit": (units and units[d]) or None}
        | {name: None if part is None else float(part[t, d]) for name, part in parts.items()}
        for t, d in zip(top.time[0].tolist(), top.channel[0].tolist(), strict=True)
        if t >= 0 and one.values[0, t, d]  # the series may have fewer
    ]


def _table(rows: list[dict[str, Any]], *, signed: bool) -> str:
    """Write the strongest values for people, in columns."""
    if not rows:
        return "No observed value has a score other than 0."
    sides = [side for side in ("attribution", "low", "high") if rows[0][side] is not None]
    numbers = alike(*(row[side] for row in rows for side in sides))
    lines = [["time", "channel", "value", "attribution", *(["95 % interval"] if len(sides) > 1 else [])]]
    for number, row in enumerate(rows):
        unit = labels.name(row["unit"] or "")
        value = "" if row["value"] is None else f"{short_number(row['value'])} {unit}".strip()
        texts = [text if text[0] in "−∞" or not signed else f"+{text}" for text in numbers[number * len(sides) :]]
        interval = [" to ".join(texts[1:3])] if len(sides) > 1 else []
        lines.append([labels.name(row["time"]), labels.name(row["channel"]), value, texts[0], *interval])
    return table(lines)


def run_plot(args: argparse.Namespace) -> None:
    if args.out.suffix.lower() not in ENDINGS:
        raise OutputError(f"{short_path(args.out)} is no picture: its name must end in {', '.join(ENDINGS)}.")
    claim(args, PICTURE)
    explanation, place, sentence = choose(args)
    figure = explanation.plot(place, channels=args.shown)
    note = {ENDINGS[args.out.suffix.lower()]: DRAWN.decode()}
    look: dict[str, Any] = {"metadata": note, "dpi": 160, "format": args.out.suffix[1:].lower()}
    write_atomically(args.out, lambda temporary: figure.savefig(temporary, **look))
    print(f"Series {explanation.label(place)}: {sentence}\nWrote {args.out}.")
