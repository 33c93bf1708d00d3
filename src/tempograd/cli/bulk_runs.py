"""What ``explain`` does with any number of series, and what ``runs`` tells of that."""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tempograd.bulk import Progress, Run, explain_dataset, open_run, repeats
from tempograd.bulk.folder import RunFolder, kept_reason
from tempograd.bulk.sources import MAGIC, REMOTE
from tempograd.cli.arguments import command
from tempograd.cli.colour import coloured
from tempograd.cli.commands import method_settings, run_explain, target_options
from tempograd.cli.holding import release
from tempograd.cli.inputs import is_dataset, is_folder, read_data, read_model
from tempograd.cli.pool import pool_of
from tempograd.cli.summary import warn_of_fresh_weights
from tempograd.core.errors import LONGEST, InputError, listed, one_line
from tempograd.core.formatting import percent
from tempograd.core.progress import clock
from tempograd.data import DATASETS
from tempograd.engine.predictor import Predictor
from tempograd.models.files import exists

OWN = (
    "x",
    "mask",
    "shape",
    "keep",
    "cells",
    "engine",
    "workers",
    "batch",
    "fragment",
    "max_faults",
)  # of runs alone
OTHERS = {  # what runs do not take, and what to do instead
    "limit": "name fewer files with --data",
    "targets": "explain one --target for each run",
    "raw": "pass it to 'tempograd report'",
    "force": "a run never overwrites anything",
    "lengths": "shorter series are padded there",
    "inputs": "models of several inputs are explained file by file",
    "fixed": "models of several inputs are explained file by file",
    **dict.fromkeys(("format", "variable", "value"), "series are one per row, or rows of one step each"),
}
WHOLE = 2 * LONGEST  # letters of a reason, which other libraries may give at any length
REASONS, NAMED = 5, 3  # why series have no explanation, and how many of them are named
STAYS = "what is done stays: the same command goes on from there."


def names_run(args: argparse.Namespace) -> bool:
    """Tell whether many series go from files to a folder."""
    return _names_many(args.data) or _names_folder(args.out)


def _names_many(data: str) -> bool:
    pattern = MAGIC.search(data) and not exists(Path(data))
    return data not in DATASETS and bool(REMOTE.match(data) or is_folder(Path(data)) or pattern)


def _names_folder(out: str) -> bool:
    """Tell whether a name is that of a folder which can be a run."""
    there = is_folder(Path(out)) and (RunFolder(out).is_run or not any(Path(out).iterdir()))
    return out.endswith(("/", os.sep)) or there


def refuse_run_options(args: argparse.Namespace) -> None:
    """Refuse what is for runs alone where one file is explained into another."""
    given = [name for name in OWN if getattr(args, name) is not None]
    if given:
        raise InputError(f"{_option(given[0])} is for results in a folder: pass --out FOLDER/.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# ``tempograd explain``: one file into another, or many into a folder.


def run_explain_any(args: argparse.Namespace) -> None:
    if names_run(args):
        explain_many(args)
        return
    refuse_run_options(args)
    args.out = Path(args.out)
    run_explain(args)


def explain_many(args: argparse.Namespace) -> None:
    """Explain the series of many files into a folder, or go on with that."""
    chosen = method_settings(args)
    for name, instead in OTHERS.items():
        if getattr(args, name) not in (None, False):
            raise InputError(f"{_option(name)} is not for results in a folder: {instead}.")
    if Path(args.out).suffix and not (_names_folder(args.out) or is_folder(Path(args.out))):
        raise InputError("--data names many files, whose results go to a folder: pass --out FOLDER/.")
    source: Any = read_data(args.data, args) if is_dataset(args.data) else args.data
    model: Any = read_model(args)
    warn_of_fresh_weights(args, model)
    series = None if source is args.data else source
    classes = args.classes or getattr(series, "classes", None)
    predictor = Predictor(model, task=args.task, pick=args.pick, layout=args.model_layout, classes=classes)
    options = _options(args, series) | chosen
    if args.json:
        options["progress"] = _print_progress
    if args.engine is not None or (args.workers or 1) > 1:  # each makes the model by its name
        options |= {"factory": args.model, "trust": args.trust, "device": args.device}
    before = set(open_run(args.out).files) if RunFolder(args.out).is_run else set()
    try:
        run = explain_dataset(predictor, source, args.out, **options)
    except KeyboardInterrupt as stop:
        raise type(stop)(STAYS) from None
    _print_run(run, before, args)


def _options(args: argparse.Namespace, series: Any) -> dict[str, Any]:
    """Return what was asked for, as arguments of :func:`tempograd.explain_dataset`; the rest has its defaults."""
    names = ("method", "baseline", "seed", "steps", "output", "missing", *OWN)
    options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    options["background"] = pool_of(args, [args.method])
    for name in ("channels", "units"):
        options[name] = getattr(args, name) or getattr(series, name, None)
    told = target_options(args, getattr(series, "classes", None))
    options |= {name: part for name, part in told.items() if name == "target"}
    if args.id is not None:
        options["id"] = None if args.id == "none" else args.id
    for name in ("label", "align"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    if args.time is not None:
        options["time"] = args.time
        if isinstance(args.x, str):  # rows have a time where they are steps
            options["x"] = [args.x]
    return options


def _following(folder: str | Path, facts: dict[str, Any], args: argparse.Namespace | None = None) -> str:
    """Return the next command: a report needs the scores of all cells."""
    if facts["cells"] != "all":
        return command("runs", str(folder))
    return command(
        "report", str(folder), **{name: getattr(args, name, None) for name in ("model", "weights", "trust")}
    )


def _print_progress(progress: Progress) -> None:
    """Print how far a run is, one line for each fragment, beside the summary that goes to standard output."""
    print(json.dumps(progress._asdict()), file=sys.stderr, flush=True)


def _print_run(run: Run, before: set[Path], args: argparse.Namespace) -> None:
    facts = _facts(run)
    following = _following(args.out, facts, args)
    release()
    if args.json:
        print(json.dumps(facts | {"next": following}, indent=2, ensure_ascii=False))
        return
    time, channel = run.example.values.shape[1:]
    explained = facts["series"] - facts["faults"]
    print(f"Explained {explained:,} series ({time} × {channel}) with {run.method}.")
    for line in (*_missing_lines(facts), *_fault_lines(facts), facts["verdict"]):
        print(f"  {line}")
    old = len(before & set(run.files))
    earlier = f", {'all' if old == facts['fragments'] else f'{old:,}'} of them from before" if old else ""
    print(f"{run.folder / 'data'} has {facts['fragments']:,} {_files(facts['fragments'])} of results{earlier}.")
    print("Next:", coloured(following, "command", sys.stdout))


# ``tempograd runs``: how far a run is.


def run_runs(args: argparse.Namespace) -> None:
    run = open_run(args.folder)
    facts = _facts(run) | {"repeated": _repeated(run)}
    release()
    if args.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    time, channel = run.example.values.shape[1:]
    print(coloured(f"{args.folder}: {run.method}, series of {time} × {channel}", "bold", sys.stdout))
    for line in (*_progress_lines(facts), *_missing_lines(facts), *_fault_lines(facts), facts["verdict"]):
        print(f"  {line}")
    if facts["repeated"]:
        print(f"  not sound: {facts['repeated']}")
    if facts["left"] != 0:
        other = " With other options it needs another --out folder." if facts["failures"] else ""
        print(f"It goes on when its 'tempograd explain' command is typed again.{other}")
    elif facts["cells"] == "all" and not facts["repeated"]:
        print("Next:", coloured(_following(args.folder, facts), "command", sys.stdout))


def _repeated(run: Run) -> str | None:
    """Say which id two files share, or which have ids of two kinds; of a long run that was told when it ended."""
    if len(run) <= repeats.AT_ONCE and (kinds := repeats.two_kinds(run.files)) is not None:
        return kinds.rstrip(".")
    key = repeats.repeated_key(run.files, len(run)) if len(run) <= repeats.AT_ONCE else None
    return None if key is None else repeats.told(run.files, key)


def _facts(run: Run) -> dict[str, Any]:
    """Return all that is told of a run, as JSON values."""
    summary = run.summary()
    seconds, count = summary["seconds"], summary["series_left"]
    rate = summary["series"] / seconds if seconds else None
    return {
        **summary,
        "fault_reasons": _reasons(run) if summary["faults"] else [],
        "failures": {name: kept_reason(text) for name, text in run.failures().items()},
        "series_per_worker_second": rate,
        "worker_seconds_left": None if count is None or not rate else count / rate,
        "verdict": run.verdict(),
    }


def _reasons(run: Run) -> list[dict[str, Any]]:
    """Return why series have no explanation, the most frequent reason first."""
    grouped: defaultdict[str, list[int | str]] = defaultdict(list)
    for name, reason in run.faults().items():
        grouped[reason].append(name)
    found = sorted(grouped.items(), key=lambda each: -len(each[1]))
    return [{"reason": reason, "series": len(ids), "ids": ids[:NAMED]} for reason, ids in found]


def _progress_lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"done: {facts['series']:,} series in {facts['fragments']:,} {_files(facts['fragments'])}"
    if facts["left"] is None:
        yield "left: not known yet"
    else:
        count = facts["series_left"]
        series = "" if count is None else f"{count:,} series in "
        yield f"left: {series}{facts['left']:,} {_files(facts['left'])}" if facts["left"] else "left: nothing"
    rate, left = facts["series_per_worker_second"], facts["worker_seconds_left"]
    if rate is not None:
        rest = f", so {clock(left)} of one worker are left" if left else ""
        yield f"rate: {rate:,.{0 if rate >= 10 else 2}f} series per second and worker{rest}"
    if facts["stale"]:
        yield f"put aside: {facts['stale']:,} {_files(facts['stale'])} of input that has changed since"


def _missing_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say how many cells have no value, and what the model reads there; the ends of shorter series are no gaps."""
    if facts["missing"]:
        read = ", which the model reads as 0" if facts["missing_read_as_zero"] else ""
        yield f"missing: {percent(facts['missing'])} of the cells{read}"


def _fault_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say what could not be explained, and why."""
    if facts["faults"]:
        yield f"without an explanation: {facts['faults']:,} of {facts['series']:,} series"
    for each in facts["fault_reasons"][:REASONS]:
        more = ", …" if each["series"] > len(each["ids"]) else ""
        yield f"  {each['series']:,} × {each['reason'].rstrip('.')} ({listed(each['ids'])}{more})"
    if len(facts["fault_reasons"]) > REASONS:
        yield f"  and {len(facts['fault_reasons']) - REASONS:,} other reasons"
    for name, text in list(facts["failures"].items())[:REASONS]:
        yield f"failed three times: {name}, {one_line(text, WHOLE)}"
    if len(facts["failures"]) > REASONS:
        yield f"and {len(facts['failures']) - REASONS:,} more failed"


def _files(count: int) -> str:
    return "file" if count == 1 else "files"
