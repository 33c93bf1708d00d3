"""What ``explain``, ``runs``, ``tune`` and ``rank`` do; ``parsers.py`` has their arguments."""

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tempograd.bulk import Log, Run, explain_dataset, open_run
from tempograd.bulk.store import RunFolder, kept_reason
from tempograd.bulk.telling import beside
from tempograd.cli import SOME_FAILED, inputs
from tempograd.cli.arguments import FILE, RUN, as_toml, command, given, options_of, place_of, print_json
from tempograd.core import io
from tempograd.core.errors import InputError, held, listed, one_line, short_path
from tempograd.core.formatting import counted, percent
from tempograd.data import DATASETS, Source
from tempograd.data.files import OWN, REMOTE, is_many
from tempograd.explainers import EXPLAINERS, Explainer, explain
from tempograd.explainers.by_name import explainer_of
from tempograd.explanation import Explanations
from tempograd.explanation.core import label_accuracy
from tempograd.explanation.diagnostics import assumed, sentence
from tempograd.metrics import METRICS
from tempograd.tuning import rank, tune
from tempograd.tuning.racing import changed_settings
from tempograd.views.as_usual import what_if
from tempograd.views.drivers import CONTROL, describe_series, most_telling
from tempograd.views.labels import explained, size

# ``tempograd explain``: what moved a model's predictions.

NOUNS = ("predictor", "question", "effort")
ASKED = [place_of(noun, name) for noun in NOUNS for name in options_of(noun) if name != "seed"]
STAYS = "what is done stays: the same command goes on from there."
REASONS, NAMED = 5, 3  # why series have no explanation, and how many of them are named


def run_explain(args: argparse.Namespace) -> int:
    """Explain one file into another, or many into a folder."""
    settings = method_settings(args)  # a mistake there is told before anything is read
    if (args.data not in DATASETS and is_many(args.data)) or _names_folder(args.out):
        return _explain_many(args, settings)
    _refuse(args, (*RUN, "partition", "log", "price"), "is for results in a folder: pass --out FOLDER/")
    args.out = Path(args.out)
    inputs.claim(args, io.EXPLANATION)
    predictor, series, question = inputs.read(args, [args.method])
    result = explain(predictor, series, args.method, **(question | settings))
    result.save(args.out, force=args.force)
    _print_summary(result, args, predictor, question.get("background"))
    return 0


def _refuse(args: argparse.Namespace, names: Iterable[str], why: str) -> None:
    for name in names:
        if getattr(args, name) not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def method_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Complete the method, and return its settings: as they were typed last, else of a file of settings."""
    chosen = dict(args.settings)
    path = getattr(args, "settings_file", None)
    if path is not None:
        explainer = Explainer.load(path)
        if args.method not in (None, explainer.name):
            raise InputError(f"{short_path(path)} has settings of {explainer.name}: leave --method out.")
        args.method, chosen = explainer.name, changed_settings(explainer) | chosen
    args.method = args.method or "timing"
    explainer_of(args.method, chosen, method_settings)  # which has no other options
    return chosen


def _print_summary(result: Any, args: argparse.Namespace, predictor: Any, usual: Any) -> None:
    """Print what was explained, what mattered and how sure that is, for people or as JSON."""
    several = result if isinstance(result, Explanations) else None
    first = result if several is None else several.at(0)
    error = first.relative_error
    facts: dict[str, Any] = {
        "out": args.out,
        "method": first.method,
        "baseline": first.baseline_kind,
        "series": len(first),
        "what": explained(first, by=True),
        "verdict": sentence(first, dialect="shell"),
        "assumed": assumed([first]),
        "accuracy": label_accuracy(first),
        "relative_error": None if error is None else float(error.median()),
        "classes": first.classes,
        "most_telling": None,
    }
    target = None
    if several is not None:
        facts |= {"targets": list(several), "verdict": several.verdict()}
        target = next(iter(several))
    facts["next"] = _next_report(args, target=target)
    if first.method != CONTROL:  # whose scores mean nothing
        place = most_telling(first)
        facts["most_telling"] = {"series": first.label(place), "sentence": describe_series(first, place)}
        facts["most_telling"]["what_if"] = what_if(predictor, first[place : place + 1], usual=usual).describe()
    if args.json:
        print_json(facts)
        return
    lines = [] if several is None else [f"targets: {several.listed}; below, the first of them"]
    if facts["most_telling"] is not None:
        lines.append("most telling, series {series}: {sentence}".format(**facts["most_telling"]))
        lines.append("what if: {what_if}".format(**facts["most_telling"]))
    if facts["accuracy"] is not None:
        numbers = ", ".join(f"{number} = {name}" for number, name in enumerate(first.classes or ()))
        right = f"right on {percent(facts['accuracy'])} of the labels"
        lines.append(f"{right} (class {numbers})" if numbers else right)
    lines += [facts["verdict"], f"explained: {facts['what']}"]
    lines += [f"assumed: {facts['assumed']}"] if facts["assumed"] else []
    against = f", baseline: {facts['baseline']}" if EXPLAINERS[args.method].uses_baseline else ""
    print(f"Explained {facts['series']} series ({size(first)}) with {facts['method']}{against}.")
    print(*(f"  {line}" for line in lines), sep="\n")
    print(f"Wrote {args.out}.\nNext: {facts['next']}")


def _next_report(args: argparse.Namespace, **more: Any) -> str:
    trust = args.trust or None
    return command("report", str(args.out), model=args.model, weights=args.weights, trust=trust, **more)


# Many files, into a folder.


def _names_folder(out: str) -> bool:
    """Tell whether a name is that of a folder which can be a run."""
    if out.endswith(("/", os.sep)) or REMOTE.match(out):
        return True
    return inputs.is_folder(out) and (RunFolder(out).is_run or not any(Path(out).iterdir()))


def _explain_many(args: argparse.Namespace, settings: dict[str, Any]) -> int:
    """Explain the series of many files into a folder, or go on with that."""
    _refuse(args, ("lengths", "targets", "force"), "is not for results in a folder")
    if Path(args.out).suffix and not (_names_folder(args.out) or inputs.is_folder(args.out)):
        raise InputError("--data names many files, whose results go to a folder: pass --out FOLDER/.")
    options = given(args, "run") | inputs.asked(args, [args.method]) | {"method": args.method}
    predictor, source = inputs.read_predictor(args), Source(args.data, **given(args, "source"))
    options |= {"progress": Log(args.log or ("json" if args.json else None), args.price), "device": args.device}
    try:
        with held(beside, {FILE: as_toml(args)}):
            run = explain_dataset(predictor, source, args.out, **(options | settings))
    except KeyboardInterrupt as stop:
        raise type(stop)(STAYS) from None
    facts = _facts(run)
    following = command("runs", args.out)
    if facts["cells"] == "all":  # which a report needs
        following = _next_report(args)
    if facts["left"]:
        following = command("explain", config=f"{run.folder.rstrip('/')}/{OWN}/{FILE}")
    if args.json:
        print_json(facts | {"next": following})
    else:
        print(f"Explained {facts['series'] - facts['faults']:,} series with {run.method}.")
        print(*(f"  {line}" for line in _run_lines(facts)), sep="\n")
        print(f"{run.folder} has the tables summary, drivers and cells (version {run.version}).")
        print(f"Next: {following}")
    return SOME_FAILED if facts["faults"] else 0


# ``tempograd runs``: how far a run is.


def run_runs(args: argparse.Namespace) -> None:
    run = open_run(args.folder)
    facts = _facts(run)
    if args.json:
        print_json(facts)
        return
    print(f"{args.folder}: {run.method}", *(f"  {line}" for line in _run_lines(facts)), sep="\n")
    if facts["left"] != 0:
        print("It goes on when its 'tempograd explain' command is typed again.")


def _facts(run: Run) -> dict[str, Any]:
    """Return all that is known of a run."""
    summary = run.summary()
    faulty: dict[str, list[int | str]] = {}
    for name, reason in run.faults().items() if summary["faults"] else ():
        faulty.setdefault(reason, []).append(name)
    reasons = [{"reason": reason, "series": len(ids), "ids": ids[:NAMED]} for reason, ids in faulty.items()]
    return {
        **summary,
        "fault_reasons": sorted(reasons, key=lambda entry: -entry["series"]),
        "failures": {name: kept_reason(text) for name, text in run.failures().items()},
        "verdict": run.verdict(),
    }


def _run_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say how far a run is, what is wrong with its series, and how good the scores are."""
    yield f"done: {counted(facts['series'], 'series', 'series')}; left: {counted(facts['left'], 'file')}"
    if facts["missing"]:
        read = ", which the model reads as 0" if facts["missing_read_as_zero"] else ""
        yield f"missing: {percent(facts['missing'])} of the cells{read}"
    if facts["faults"]:
        yield f"without an explanation: {facts['faults']:,} of {facts['series']:,} series"
    for entry in facts["fault_reasons"][:REASONS]:
        yield f"  {entry['series']:,} × {entry['reason'].rstrip('.')} ({listed(entry['ids'])})"
    for name, text in list(facts["failures"].items())[:REASONS]:
        yield f"failed: {name}, {one_line(text, 600)}"
    yield facts["verdict"]


# ``tempograd tune`` and ``tempograd rank``: settings and methods that suit a model.


def run_tune(args: argparse.Namespace) -> None:
    settings = method_settings(args)
    inputs.claim(args, io.EXPLAINER)
    METRICS[args.metric]  # a mistake there is told before anything is read
    predictor, series, question = inputs.read(args, [args.method])
    options = question | {"metric": args.metric, "k": args.k, "of": args.of} | settings
    outcome = tune(predictor, series, args.method, budget=args.budget, **options)
    outcome.explainer.save(args.out, force=args.force)
    following = command("explain", **inputs.repeated(args, "device", *ASKED), settings=args.out)
    if args.json:
        facts = {name: value for name, value in vars(outcome).items() if name != "explainer"}
        print_json(facts | {"verdict": outcome.verdict(), "out": args.out, "next": following})
        return
    times = outcome.passes / outcome.unit
    print(f"{outcome}\n\n{outcome.passes:,} passes of the model, {times:.1f} times those of explaining once.")
    print(f"Wrote {args.out}.\nNext: {following}")


def run_rank(args: argparse.Namespace) -> None:
    methods: dict[str, Explainer] = {}
    for word in args.methods:
        file = word.endswith(".safetensors")
        label = Path(word).stem if file else word
        methods[word if label in methods else label] = Explainer.load(word) if file else EXPLAINERS[word]()
    METRICS[args.metric]  # a mistake there is told before anything is read
    predictor, series, question = inputs.read(args, [method.name for method in methods.values()])
    ranking = rank(predictor, series, methods, **(question | {"metric": args.metric, "k": args.k, "of": args.of}))
    if args.json:
        print_json(vars(ranking) | {"best": ranking.best, "verdict": ranking.verdict()})
    else:
        print(ranking)
