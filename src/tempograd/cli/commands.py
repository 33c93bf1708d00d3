"""What ``list``, ``train``, ``explain``, ``evaluate`` and ``report`` do; ``parsers.py`` has their arguments."""

import argparse
import inspect
import json
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.cli.arguments import command
from tempograd.cli.holding import release
from tempograd.cli.inputs import claim, device, load_explanations, read_data, read_model, sample_note, sampling
from tempograd.cli.parsers import KINDS
from tempograd.cli.pool import others_of, pool_of
from tempograd.cli.summary import (
    compares,
    fitting_classes,
    print_summary,
    refuse_several_targets,
    warn_of_far_zero,
    warn_of_fresh_weights,
    warn_of_other_circumstances,
    warn_of_padding,
    warn_of_several_baselines,
)
from tempograd.core.errors import SETTINGS, InputError, TempogradError, brief, quote, short_path, warn
from tempograd.core.formatting import alike, table, with_error
from tempograd.core.io import EXPLANATION, MODEL, REPORT
from tempograd.core.registry import Registry
from tempograd.core.series import is_nested
from tempograd.core.validation import check_int, lengths
from tempograd.data import DATASETS, Series, load_dataset
from tempograd.engine.predictor import Predictor
from tempograd.explainers import EXPLAINERS, explain
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.diagnostics import poor, sentence
from tempograd.html_report import report
from tempograd.metrics import METRICS, Difference, Summary, evaluate
from tempograd.models import MODELS, accuracy, save_model, train
from tempograd.targets import mean
from tempograd.tuning import load_settings
from tempograd.tuning.outcome import changed_settings
from tempograd.views.comparison import Cell, MetricScores, ScoreTable, score_table
from tempograd.views.series import aligned

# ``tempograd list``: what there is, with one line each.

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
seed makes no difference · needs gradient: of a differentiable model · needs fit: background series ·
needs module: an nn.Module · needs prefixes: predictions on the first steps of a series · needs probabilities:
no regression · shared: series explained together influence each other · complete: scores sum to the change of
the prediction
"""


def run_list(args: argparse.Namespace) -> None:
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
    registries: tuple[Registry[Any], ...] = (EXPLAINERS, METRICS, DATASETS, MODELS)
    entries = []
    registry = registries[KINDS.index(kind)]
    found = registry.working()
    for name in sorted(found) if kind == "explainers" else found:
        thing = found[name]
        entry: dict[str, Any] = {"name": name, "about": first_sentence(inspect.getdoc(thing) or "")}
        entry["package"] = registry.origin(name) or None
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
    package = f" (from {entry['package']})" if entry["package"] else ""
    if "higher_is_better" in entry:
        return (" Higher is better." if entry["higher_is_better"] else " Lower is better.") + package
    facts = [fact.replace("_", " ") for fact in FACTS if entry.get(fact)]
    return (f" [{', '.join(facts)}]" if facts else "") + package


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
    release()
    if args.json:
        about = {"out": str(args.out), "dataset": args.dataset, "model": args.model, "seed": args.seed}
        print(json.dumps(about | facts, indent=2))
    else:
        print(f"Test accuracy {reached:.4f}. Wrote {args.out}.")
        place = {"root": args.root, "variant": args.variant}
        print("Next:", command("explain", model=args.out, data=args.dataset, **place))


# ``tempograd explain``: what moved a model's predictions.

RESERVED = {  # what is no setting of a method, and where it comes from
    "model": "--model",
    "x": "--data",
    "method": "--method",
    "background": "--background",
    "mask": "--data, whose missing values are masked",
    "missing": "--missing",
    "fixed": "--fixed",
    "ids": "--id",
    "names": "--id",
    "times": "--time",
    "channels": "--channels",
    "task": "--task",
    "pick": "--pick",
    "model_layout": "--model-layout",
    "classes": "--classes",
    "units": "--units",
    "raw": "--raw",
}


def run_explain(args: argparse.Namespace) -> None:
    chosen = method_settings(args)  # a mistake there is told before anything is read
    claim(args, EXPLANATION)
    model, (series, faulty) = read_model(args), labelled(args)
    warn_of_fresh_weights(args, model)
    shown = {"units": args.units, "raw": _raw_of(series.keys, series.ids, args)}
    series = replace(series, **{name: part for name, part in shown.items() if part is not None})
    if compares(args) and chosen.get("baseline", args.baseline) in (None, "zero") and isinstance(series.x, Tensor):
        warn_of_far_zero(series)
    pool = pool_of(args, [args.method], series.channels)
    predictor, asked, options = question_of(args, model, series)
    if args.lengths == "own":
        asked = at_own_lengths(asked)
    result = explain(predictor, asked, args.method, background=pool, **(options | chosen))
    named, given = args.classes or series.classes, args.classes is not None
    first = result.at(0) if isinstance(result, Explanations) else result
    classes = fitting_classes(named, first.n_outputs, first.output, given=given)
    result = result.with_names(classes=classes or None)
    result.save(args.out, force=args.force)
    print_summary(result, model, series, args, faulty=faulty)


def question_of(
    args: argparse.Namespace, model: nn.Module, series: Series
) -> tuple[Predictor, Series, dict[str, Any]]:
    """Return the model and the series with all that was said of them, and the arguments of the question."""
    question = target_options(args, series.classes)
    told = {
        "task": args.task,
        "pick": args.pick,
        "layout": args.model_layout,
        "classes": question.pop("classes", None),
    }
    question |= {name: getattr(args, name) for name in ("baseline", "steps", "seed", "output")}
    return Predictor(model, **told), series, question


def at_own_lengths(series: Series) -> Series:
    """Return the series as a list, each without its padding."""
    if not isinstance(series.x, Tensor):
        raise InputError("Several inputs cannot be shown at lengths of their own: leave --lengths out.")
    ends = lengths(series.mask, series.x).clamp(min=1).tolist()
    if max(ends) < series.x.shape[1]:  # an explanation of fewer steps than --data has would fit no later command
        raise InputError(
            f"The series that are explained end after {max(ends)} of {series.x.shape[1]} steps, and none has all "
            "of --data: pass a larger --limit, or take steps without values out of the file."
        )
    names = ("x", "mask", "truth", "raw", *(["times"] if is_nested(series.times) else []))
    whole = {name: getattr(series, name) for name in names}
    parts: dict[str, Any] = {
        name: [one[:end] for one, end in zip(part, ends, strict=True)]
        for name, part in whole.items()
        if part is not None
    }
    return replace(series, **parts)


def target_options(args: argparse.Namespace, known_classes: Sequence[str] | None) -> dict[str, Any]:
    """Return what is explained, one target or several, and the names of the classes where one of them is told."""
    classes, several = args.classes or known_classes or None, getattr(args, "targets", None)
    words = [args.target, *(several if isinstance(several, list) else [])]
    known = {"mean": mean()} if "mean" not in (classes or ()) else {}
    target, *targets = [known.get(word, word) if isinstance(word, str) else word for word in words]
    named = any(isinstance(word, str) and word not in known for word in words)
    return {
        "target": target,
        "targets": targets if isinstance(several, list) else several,
        **({"classes": classes} if named else {}),
    }


def method_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Complete the method, and return what a file of settings and options, which come first, say of it.

    A method or a value that there is not is told before anything is read.
    """
    chosen = {name: getattr(args, name) for name in (*SETTINGS, "draws") if getattr(args, name, None) is not None}
    for name, value in args.settings:
        if name in RESERVED:
            raise InputError(f"--set {name} is no setting of a method: pass {RESERVED[name]}.")
        if name in chosen and chosen[name] != value:
            raise InputError(
                f"{name} is given twice, as {chosen[name]} and as {brief(value)}: leave one of them out."
            )
        chosen[name] = value
    found: dict[str, Any] = {}
    if getattr(args, "settings_file", None) is not None:
        explainer = load_settings(args.settings_file)
        if args.method not in (None, explainer.name):
            raise InputError(
                f"{short_path(args.settings_file)} has settings of {explainer.name}, and --method is "
                f"{quote(args.method)}: leave --method out, or tune that method."
            )
        args.method, found = explainer.name, changed_settings(explainer)
        warn_of_other_circumstances(args.settings_file, args.baseline)
    args.method = args.method or "timing"
    found |= chosen
    kind = EXPLAINERS[args.method]
    kind(**{field.name: found[field.name] for field in fields(kind) if field.name in found})
    return found


def labelled(args: argparse.Namespace) -> tuple[Series, bool]:
    """Read the series with their labels, padded, as many as are wanted, and tell whether the labels are faulty.

    They only tell how good the model is: faults in them are warnings.
    """
    try:
        series, faulty = read_data(args.data, args), False
    except TempogradError as error:
        series, faulty = read_data(args.data, args, labels=False), True  # fails again if labels are not the reason
        warn(f"The labels are left out. {error.finding.text}")
    warn_of_padding(args, series)
    series = series.padded()
    if args.limit is not None:
        series = series.take(slice(check_int(args.limit, "--limit", 1)))
    return series, faulty


# ``tempograd evaluate``: how well explanations stand up to tests.


def run_evaluate(args: argparse.Namespace) -> None:
    for metric in args.metrics:
        METRICS[metric]  # a mistake there is told before anything is read
    named = load_explanations(args.explanations, args.target, *sampling(args))
    refuse_several_targets(named)
    model, first = read_model(args), next(iter(named.values()))
    split = None if args.data is None else aligned(first, read_data(args.data, args).padded())
    x, truth = (None, None) if split is None else (split.x, split.truth)
    if args.baseline is None:
        warn_of_several_baselines(named)
    options = {"metrics": args.metrics, "baseline": args.baseline, "k": args.k, "truth": truth, "of": args.of}
    pool, drawn = others_of(args, named), [label for label, found in named.items() if found.background is not None]
    scores = {}
    for label, explanation in named.items():
        used = label in drawn or not drawn or args.baseline is not None  # else it compares with something else
        scores[label] = evaluate(model, explanation, x, background=pool if used else None, **options)
    found = score_table(scores)
    release()
    if args.json:
        about = [
            {"name": label, "file": str(path), "verdict": _verdict(explanation)}
            for path, (label, explanation) in zip(args.explanations, named.items(), strict=True)
        ]
        facts = _plain(found, scores, about, first.ids.tolist())
        facts |= {} if first.names is None else {"names": list(first.names)}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    taken = sample_note(args, first)
    print(f"{taken}\n\n" if taken else "", end="")
    print(table(score_rows(found)))
    for label, explanation in named.items():
        if poor(explanation):
            print(f"\n{label}: {_verdict(explanation)}")
    if len(found.methods) > 1:
        base, *others = found.methods
        print(f"\nPaired differences to {base} on the same series, with 95 % intervals:\n")
        rows = [[label, *(_interval(found.cells[label, metric]) for metric in found.metrics)] for label in others]
        print(table([[f"minus {base}", *(metric.upper() for metric in found.metrics)], *rows]))
        print("", *(_decision(found, label) for label in others), sep="\n")


def _verdict(explanation: Explanation) -> str:
    return sentence(explanation, dialect="shell").replace("pass --", "explain again with --")


def score_rows(found: ScoreTable) -> list[list[str]]:
    """Return a head and one row per method: mean ± standard error of every metric."""
    body = []
    for method in found.methods:
        summaries = [found.cells[method, metric].summary for metric in found.metrics]
        body.append([method, *(with_error(s.mean, s.standard_error) for s in summaries)])
    return [["method", *found.heads], *body]


def _decision(found: ScoreTable, method: str) -> str:
    """Say whether the first metric tells a method and the first one apart, and which is better."""
    base, metric = found.methods[0], found.metrics[0]
    gap = _difference(found.cells[method, metric])
    if not (gap.low > 0 or gap.high < 0):
        told = f"these series do not tell them apart by {metric.upper()}"
        return f"{base} and {method}: {told} (the interval holds 0)."
    wins = (gap.mean > 0) == found.higher_is_better[0]
    better, worse = (method, base) if wins else (base, method)
    return f"{better} is better than {worse} by {metric.upper()}."


def _difference(cell: Cell) -> Difference:
    assert cell.difference is not None  # noqa: S101  # only the first method has none
    return cell.difference


def _interval(cell: Cell) -> str:
    gap = _difference(cell)
    values = (gap.mean, gap.low, gap.high)
    signed = [f"+{text}" if value > 0 else text for text, value in zip(alike(*values), values, strict=True)]
    return f"{signed[0]} [{signed[1]}, {signed[2]}]"


def _plain(found: ScoreTable, scores: MetricScores, about: list[dict[str, Any]], ids: list[int]) -> dict[str, Any]:
    """Return everything as JSON values; what is not defined or not finite is null."""
    base, *others = found.methods
    for entry in about:
        method = entry["name"]
        entry["metrics"] = {
            metric: _finite(found.cells[method, metric].summary) | {"scores": list(map(_number, values.tolist()))}
            for metric, values in scores[method].items()
        }
    differences = []
    for method in others:
        gaps = {metric: _finite(_difference(found.cells[method, metric])) for metric in found.metrics}
        differences.append({"name": method, "minus": base, "metrics": gaps})
    return {"ids": ids, "explanations": about, "differences": differences}


def _finite(record: Summary | Difference) -> dict[str, Any]:
    return {name: _number(value) for name, value in vars(record).items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ``tempograd report``: explanations as one HTML file.


def run_report(args: argparse.Namespace) -> None:
    claim(args, REPORT)
    explanations = load_explanations(args.explanations, args.target, *sampling(args))
    model = None if args.model is None else read_model(args)
    found = None if args.data is None else read_data(args.data, args).padded()
    first = next(iter(explanations.values()))
    named = args.classes or first.classes or (None if found is None else found.classes)
    classes = fitting_classes(named, first.n_outputs, first.output, given=args.classes is not None)
    unknown = bool(named) and not classes and first.output == "probability"  # which class a label is
    report(
        args.out,
        model,
        explanations,
        found if found is not None and found.y is not None and not unknown else None,
        series=args.series,
        raw=_measured(first, found, args),
        units=args.units or first.units or (None if found is None else found.units),
        classes=classes or None,
        force=args.force,
        **({} if args.title is None else {"title": args.title}),
    )
    release()
    taken = sample_note(args, first)
    print(f"Wrote {args.out}{f' about {taken}' if taken else ''}: open it in a browser.")


def _measured(explanation: Explanation, found: Series | None, args: argparse.Namespace) -> Tensor | None:
    """Return the explained series in the user's own units: from a file, found by their ids, or the data's own."""
    if args.raw is None and found is not None and found.raw is not None:
        own: Tensor = aligned(explanation, found).raw
        return own
    return _raw_of(explanation.ids, explanation.names or explanation.ids.tolist(), args)


def _raw_of(keys: Tensor, ids: Sequence[Any] | Tensor, args: argparse.Namespace) -> Tensor | None:
    """Return the series with these keys from the file of values in the user's own units; None without one."""
    if args.raw is None:
        return None
    series = read_data(args.raw, args, labels=False).padded()
    place = {key: row for row, key in enumerate(series.keys.tolist())}
    gone = next((name for key, name in zip(keys.tolist(), ids, strict=True) if key not in place), None)
    if gone is not None:
        raise InputError(f"{args.raw} lacks the series {gone} of the explanation: it must hold all of them.")
    part = series.take([place[key] for key in keys.tolist()])
    x: Tensor = part.x
    return x if part.mask is None else x.masked_fill(~part.mask, torch.nan)
