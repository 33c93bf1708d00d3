"""What ``tune`` and ``rank`` do; ``parsers.py`` has their arguments."""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tempograd.cli.arguments import command
from tempograd.cli.commands import labelled, method_settings, question_of
from tempograd.cli.holding import release
from tempograd.cli.inputs import QUESTION, SOURCE, claim, read_model, repeated
from tempograd.cli.pool import pool_of
from tempograd.cli.summary import warn_of_fresh_weights, warn_of_other_circumstances
from tempograd.core.errors import InputError, quote
from tempograd.core.io import SETTINGS
from tempograd.data import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import EXPLAINERS, Explainer
from tempograd.metrics import METRICS
from tempograd.tuning import load_settings, rank, tune


def run_tune(args: argparse.Namespace) -> None:
    chosen = method_settings(args)
    claim(args, SETTINGS)
    model, series, options = _read(args, [args.method])
    found = tune(model, series, args.method, budget=args.budget, **(options | chosen))
    found.save(args.out, force=args.force)
    own = {field.name for field in fields(found.explainer)}  # which the file of settings holds
    rest = {name: value for name, value in args.settings if name not in own}
    same = repeated(args, "model", "weights", "trust", "device", *SOURCE, *QUESTION)
    following = command("explain", **same, set=rest, settings=args.out)
    release()
    if args.json:
        plain = {f.name: getattr(found, f.name) for f in fields(found) if f.name not in {"explainer", "table"}}
        plain |= {"table": [asdict(row) for row in found.table], "verdict": found.verdict()}
        print(json.dumps(plain | {"out": str(args.out), "next": following}, indent=2, ensure_ascii=False))
        return
    print(found)
    times = found.passes / found.unit
    print(f"\n{found.passes:,} passes of the model, {times:.1f} times those of explaining the series once.")
    print(f"Wrote {args.out}.\nNext: {following}")


def run_rank(args: argparse.Namespace) -> None:
    methods = _named(args.methods)
    for path in filter(_is_file, args.methods):
        warn_of_other_circumstances(path, args.baseline, args.k)
    model, series, options = _read(args, [each.name for each in methods.values()])
    found = rank(model, series, methods, **options)
    release()
    if args.json:
        print(json.dumps(asdict(found) | {"best": found.best, "verdict": found.verdict()}, indent=2))
        return
    print(found)


def _read(args: argparse.Namespace, methods: list[str]) -> tuple[Predictor, Series, dict[str, Any]]:
    """Read model and series, and return them with the arguments of the call."""
    metric = METRICS[args.metric]()  # a mistake there is told before anything is read
    model, (series, _) = read_model(args), labelled(args)
    warn_of_fresh_weights(args, model)
    if metric.needs_truth and series.truth is None:
        raise InputError(
            f"{metric.name} compares with the truly salient cells, which --data does not have: give it an array "
            "'truth' in an .npz, or take another --metric."
        )
    predictor, series, options = question_of(args, model, series)
    options |= {"metric": metric, "k": args.k, "of": args.of}
    return predictor, series, options | {"background": pool_of(args, methods, series.channels)}


def _named(words: Sequence[str]) -> dict[str, Explainer]:
    """Return what is ranked by name, files by theirs; by their whole path where two would be called the same."""
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice:
        raise InputError(f"--methods has {quote(twice[0])} twice: name each once.")
    short = {word: Path(word).stem if _is_file(word) else word for word in words}
    taken = Counter(short.values())
    return {word if taken[name] > 1 else name: _method(word) for word, name in short.items()}


def _is_file(word: str) -> bool:
    return word not in EXPLAINERS and word.endswith(".json")


def _method(word: str) -> Explainer:
    return load_settings(word) if _is_file(word) else EXPLAINERS[word]()
