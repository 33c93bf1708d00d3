"""What ``explain``, ``runs``, ``tune`` and ``rank`` do; ``parsers.py`` has their arguments."""

import argparse
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tempograd.bulk import Progress, Run, explain_dataset, open_run
from tempograd.bulk.folder import RunFolder, kept_reason
from tempograd.cli import SOME_FAILED
from tempograd.cli.arguments import command
from tempograd.cli.fields import given, options_of, place_of
from tempograd.cli.inputs import (
    ReadArguments,
    background_of,
    claim,
    is_dataset,
    is_folder,
    predictor_of,
    read,
    read_data,
    read_model,
    repeated,
    source_of,
    with_classes,
)
from tempograd.core.errors import (
    SETTINGS,
    InputError,
    UnknownNameError,
    brief,
    listed,
    one_line,
    quote,
    short_path,
    warn,
)
from tempograd.core.formatting import percent
from tempograd.core.io import EXPLANATION
from tempograd.core.io import SETTINGS as SETTINGS_FILE
from tempograd.core.progress import clock
from tempograd.data import DATASETS
from tempograd.data.files import MAGIC, REMOTE
from tempograd.explainers import EXPLAINERS, Explainer, explain
from tempograd.explanation import Explanations
from tempograd.metrics import METRICS
from tempograd.models.files import exists
from tempograd.tuning import load_settings, rank, tune
from tempograd.tuning.outcome import changed_settings, tuned_otherwise
from tempograd.views.drivers import CONTROL, describe_series, spread_note
from tempograd.views.labels import class_name, size
from tempograd.views.summary import explanation_summary, most_telling

# ``tempograd explain``: what moved a model's predictions.

ASKED = [
    place_of(noun, name)
    for noun in ("predictor", "question", "effort")
    for name in options_of(noun)
    if name != "seed"
]
RUNS = ("cells", "engine", "workers", "fragment", "max_faults")  # of runs alone
NO_RUN = ("limit", "lengths", "targets", "raw", "force")
STAYS = "what is done stays: the same command goes on from there."
REASONS, NAMED = 5, 3  # why series have no explanation, and how many of them are named


def run_explain(args: argparse.Namespace) -> int:
    """Explain one file into another, or many into a folder."""
    settings = method_settings(args)  # a mistake there is told before anything is read
    if _names_many(args.data) or _names_folder(args.out):
        return _explain_many(args, settings)
    _refuse(args, RUNS, "is for results in a folder: pass --out FOLDER/")
    args.out = Path(args.out)
    claim(args, EXPLANATION)
    found = read(args, [args.method])
    result = explain(found.predictor, found.series, args.method, **(found.question | settings))
    first = result.at(0) if isinstance(result, Explanations) else result
    classes, series = with_classes(first, found.series, args)
    result = result.with_names(classes=classes)
    result.save(args.out, force=args.force)
    _print_summary(result, found._replace(series=series), args)
    return 0


def _refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(args, name) not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def method_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Complete the method, and return what a file of settings and options, which come first, say of it."""
    chosen = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    for name, value in args.settings:
        if name in chosen and chosen[name] != value:
            raise InputError(f"{name} has two values, {chosen[name]} and {brief(value)}: leave one of them out.")
        chosen[name] = value
    found: dict[str, Any] = {}
    path = getattr(args, "settings_file", None)
    if path is not None:
        explainer = load_settings(path)
        if args.method not in (None, explainer.name):
            raise InputError(
                f"{short_path(path)} has settings of {explainer.name}, and --method is {quote(args.method)}: "
                "leave --method out, or tune that method."
            )
        args.method, found = explainer.name, changed_settings(explainer)
        _warn_of_other_circumstances(path, args.baseline)
    args.method = args.method or "timing"
    kind, found = EXPLAINERS[args.method], found | chosen
    known = [field.name for field in fields(kind) if not field.metadata.get("fitted")]
    for name in found:
        if name not in known:
            short = {"n_samples": "n_steps", "n_steps": "n_samples"}  # whichever of the two a method has
            raise UnknownNameError(f"setting of {args.method}", name, known, short=short)
    kind(**found)
    return found


def _warn_of_other_circumstances(path: Path | str, baseline: str | None, k: int | float | None = None) -> None:
    """Warn where settings from a file are used under another baseline, or k, than they were chosen under."""
    for name, before, now in tuned_otherwise(path, baseline=baseline or "zero", k=k):
        warn(
            f"The settings in {short_path(path)} were chosen with {name} {before} and are used with {now}, where "
            "others may be better: use the same, or tune again."
        )


def _print_summary(result: Any, found: ReadArguments, args: argparse.Namespace) -> None:
    """Print what was explained, what mattered and how sure that is, for people or as JSON."""
    several = result if isinstance(result, Explanations) else None
    first = result if several is None else several.at(0)
    series = found.series
    facts = {
        "out": str(args.out),
        **explanation_summary(first, found.model, series, "shell"),
        "classes": first.classes,
    }
    following = command("report", str(args.out), **repeated(args))
    if several is not None:
        facts |= {"targets": list(several), "verdict": several.verdict()}
        target = next(iter(several))
        following += (
            f" --target {','.join(map(str, target)) if isinstance(target, tuple) else shlex.quote(str(target))}"
        )
    facts["most_telling"] = None
    if first.method != CONTROL:  # whose scores mean nothing
        place = most_telling(first)
        told = describe_series(first, place, model=found.model, y=series.y)
        facts["most_telling"] = {"series": first.label(place), "sentence": told}
    if args.json:
        print(json.dumps(facts | {"next": following}, indent=2, ensure_ascii=False))
        return
    against = f", baseline: {facts['baseline']}" if EXPLAINERS[args.method].uses_baseline else ""
    print(f"Explained {facts['series']} series ({size(first)}) with {facts['method']}{against}.")
    for line in _summary_lines(facts, several):
        print(f"  {line}")
    print(f"Wrote {args.out}.\nNext: {following}")


def _summary_lines(facts: dict[str, Any], several: Explanations | None) -> Iterator[str]:
    if several is not None:
        yield f"targets: {several.listed}; below, the first of them"
    telling = facts["most_telling"]
    if telling is not None:
        yield f"most telling, series {telling['series']}: {telling['sentence']}"
        yield from filter(None, [spread_note(telling["sentence"])])
    if facts["missing"]:
        yield f"missing: {percent(facts['missing'])} of the cells, the ends of shorter series among them"
    for what in ("predicted", "explained"):
        if facts[what] and (what == "predicted" or facts["predicted"] not in (None, facts["explained"])):
            yield f"{what}: {_counted(facts[what], facts['classes'])}"
    if facts["accuracy"] is not None:
        numbers = ", ".join(f"{number} = {name}" for number, name in enumerate(facts["classes"] or ()))
        yield f"right on {percent(facts['accuracy'])} of the labels{f' (class {numbers})' if numbers else ''}"
    if facts["channels"] > 1:
        strongest = [f"{entry['channel']} {percent(entry['share'])}" for entry in facts["strongest_channels"]]
        yield f"share of the attribution by channel: {', '.join(strongest)}"
    yield facts["verdict"]
    if facts["sign_certain"] is not None:
        yield f"sign certain for {percent(facts['sign_certain'])} of the strongest values of each series"
    yield f"explained: {facts['what']}"
    if facts["assumed"]:
        yield f"assumed: {facts['assumed']}"


def _counted(counts: dict[str, int], classes: Sequence[str] | None) -> str:
    return ", ".join(f"{class_name(int(number), classes)} ({count})" for number, count in counts.items())


# Many files, into a folder.


def _names_many(data: str) -> bool:
    pattern = MAGIC.search(data) and not exists(Path(data))
    return data not in DATASETS and bool(REMOTE.match(data) or is_folder(Path(data)) or pattern)


def _names_folder(out: str) -> bool:
    """Tell whether a name is that of a folder which can be a run."""
    there = is_folder(Path(out)) and (RunFolder(out).is_run or not any(Path(out).iterdir()))
    return out.endswith(("/", os.sep)) or there


def _explain_many(args: argparse.Namespace, settings: dict[str, Any]) -> int:
    """Explain the series of many files into a folder, or go on with that."""
    _refuse(args, NO_RUN, "is not for results in a folder")
    if Path(args.out).suffix and not (_names_folder(args.out) or is_folder(Path(args.out))):
        raise InputError("--data names many files, whose results go to a folder: pass --out FOLDER/.")
    series = read_data(args.data, args) if is_dataset(args.data) else None
    question = given(args, "question") | given(args, "effort")
    pool = background_of(args, [args.method], (), None)
    predictor = predictor_of(args, read_model(args), question, series)
    named = {name: part for name, part in given(args, "run").items() if name not in {"weights", "trust", "device"}}
    options = named | question | {"method": args.method, "background": pool}
    source = source_of(args.data, args) if series is None else series
    if args.json:
        options["progress"] = _print_progress
    if args.engine is not None or (args.workers or 1) > 1:  # each makes the model by its name
        options |= {"factory": args.model, "trust": args.trust, "device": args.device}
    before = set(open_run(args.out).files) if RunFolder(args.out).is_run else set()
    try:
        run = explain_dataset(predictor, source, args.out, **(options | settings))
    except KeyboardInterrupt as stop:
        raise type(stop)(STAYS) from None
    facts = _facts(run)
    following = _following(args.out, facts, args)
    if args.json:
        print(json.dumps(facts | {"next": following}, indent=2, ensure_ascii=False))
    else:
        print(f"Explained {facts['series'] - facts['faults']:,} series with {run.method}.")
        old = len(before & set(run.files))
        print(*(f"  {line}" for line in _run_lines(facts)), sep="\n")
        print(f"{run.folder / 'data'} has {facts['fragments']:,} files of results, {old:,} of them from before.")
        print(f"Next: {following}")
    return SOME_FAILED if facts["faults"] else 0


def _following(folder: str | Path, facts: dict[str, Any], args: argparse.Namespace | None = None) -> str:
    """Return the next command: a report needs the scores of all cells."""
    if facts["cells"] != "all":
        return command("runs", str(folder))
    names = ("model", "weights", "trust")
    return command("report", str(folder), **{name: getattr(args, name, None) for name in names})


def _print_progress(progress: Progress) -> None:
    print(json.dumps(progress._asdict()), file=sys.stderr, flush=True)


# ``tempograd runs``: how far a run is.


def run_runs(args: argparse.Namespace) -> None:
    run = open_run(args.folder)
    facts = _facts(run)
    if args.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    print(f"{args.folder}: {run.method}")
    print(*(f"  {line}" for line in _run_lines(facts)), sep="\n")
    if facts["left"] != 0:
        print("It goes on when its 'tempograd explain' command is typed again.")
    elif facts["cells"] == "all":
        print(f"Next: {_following(args.folder, facts)}")


def _facts(run: Run) -> dict[str, Any]:
    """Return all that is known of a run, as JSON values."""
    summary = run.summary()
    seconds, count = summary["seconds"], summary["series_left"]
    rate = summary["series"] / seconds if seconds else None
    names: dict[str, list[int | str]] = {}
    for name, reason in run.faults().items() if summary["faults"] else ():
        names.setdefault(reason, []).append(name)
    reasons = [{"reason": reason, "series": len(ids), "ids": ids[:NAMED]} for reason, ids in names.items()]
    return {
        **summary,
        "fault_reasons": sorted(reasons, key=lambda entry: -len(names[str(entry["reason"])])),
        "failures": {name: kept_reason(text) for name, text in run.failures().items()},
        "series_per_worker_second": rate,
        "worker_seconds_left": None if count is None or not rate else count / rate,
        "verdict": run.verdict(),
    }


def _run_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say how far a run is, what is wrong with its series, and how good the scores are."""
    left = "not known yet" if facts["left"] is None else f"{facts['left']:,} files"
    yield f"done: {facts['series']:,} series in {facts['fragments']:,} files; left: {left}"
    rate, rest = facts["series_per_worker_second"], facts["worker_seconds_left"]
    if rate is not None and facts["left"] != 0:
        told = f", so {clock(rest)} of one worker are left" if rest else ""
        yield f"rate: {rate:,.{0 if rate >= 10 else 2}f} series per second and worker{told}"
    if facts["stale"]:
        yield f"stale: {facts['stale']:,} results whose input has changed since"
    if facts["missing"]:
        read = ", which the model reads as 0" if facts["missing_read_as_zero"] else ""
        yield f"missing: {percent(facts['missing'])} of the cells{read}"
    if facts["faults"]:
        yield f"without an explanation: {facts['faults']:,} of {facts['series']:,} series"
    for entry in facts["fault_reasons"][:REASONS]:
        yield f"  {entry['series']:,} × {entry['reason'].rstrip('.')} ({listed(entry['ids'])})"
    for name, text in list(facts["failures"].items())[:REASONS]:
        yield f"failed three times: {name}, {one_line(text, 600)}"
    yield facts["verdict"]


# ``tempograd tune`` and ``tempograd rank``: settings and methods that suit a model.


def run_tune(args: argparse.Namespace) -> None:
    settings = method_settings(args)
    claim(args, SETTINGS_FILE)
    found, options = _read_tried(args, [args.method])
    outcome = tune(found.predictor, found.series, args.method, budget=args.budget, **(options | settings))
    outcome.save(args.out, force=args.force)
    following = command("explain", **repeated(args, "device", *ASKED), settings=args.out)
    if args.json:
        plain = {f.name: getattr(outcome, f.name) for f in fields(outcome) if f.name not in {"explainer", "table"}}
        plain |= {"table": [asdict(row) for row in outcome.table], "verdict": outcome.verdict()}
        print(json.dumps(plain | {"out": str(args.out), "next": following}, indent=2, ensure_ascii=False))
        return
    times = outcome.passes / outcome.unit
    print(f"{outcome}\n\n{outcome.passes:,} passes of the model, {times:.1f} times those of explaining once.")
    print(f"Wrote {args.out}.\nNext: {following}")


def run_rank(args: argparse.Namespace) -> None:
    twice = [word for word, count in Counter(args.methods).items() if count > 1]
    if twice:
        raise InputError(f"--methods has {quote(twice[0])} twice.")
    files = [word for word in args.methods if word not in EXPLAINERS and word.endswith(".json")]
    stems = Counter(Path(word).stem for word in args.methods)
    methods: dict[str, Explainer] = {}
    for word in args.methods:
        if word in files:
            _warn_of_other_circumstances(word, args.baseline, args.k)
            methods[word if stems[Path(word).stem] > 1 else Path(word).stem] = load_settings(word)
        else:
            methods[word] = EXPLAINERS[word]()
    found, options = _read_tried(args, [method.name for method in methods.values()])
    ranking = rank(found.predictor, found.series, methods, **options)
    if args.json:
        print(json.dumps(asdict(ranking) | {"best": ranking.best, "verdict": ranking.verdict()}, indent=2))
        return
    print(ranking)


def _read_tried(args: argparse.Namespace, methods: list[str]) -> tuple[ReadArguments, dict[str, Any]]:
    """Read what settings or methods are tried on, and return it with the arguments of the call."""
    metric = METRICS[args.metric]()  # a mistake there is told before anything is read
    found = read(args, methods)
    return found, found.question | {"metric": metric, "k": args.k, "of": args.of}
