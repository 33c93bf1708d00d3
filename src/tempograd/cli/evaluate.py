"""``tempograd evaluate``: how well explanations stand up to tests."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempograd._utils.formatting import alike, table, with_error
from tempograd.cli.arguments import Commands, add_command, add_json, amount, names
from tempograd.cli.inputs import FILES, FORMS, add_files, add_model, load, read, read_model

if TYPE_CHECKING:
    from tempograd.metrics import Difference, Summary
    from tempograd.views.comparison import Cell, MetricScores, ScoreTable

USAGE = "E.safetensors [E.safetensors …] --model MODEL [options]"
NOTES = FORMS + FILES + "\n"
EXAMPLES = (
    "E.safetensors --model model.safetensors",
    "timing.safetensors ig.safetensors --model model.safetensors --metrics cpd,cpp,accuracy",
    "E.safetensors --model model.safetensors --metrics auroc,auprc --data state --json",
)


def add_evaluate(commands: Commands) -> None:
    about = "score explanations, and compare several of the same series"
    parser = add_command(commands, "evaluate", about, EXAMPLES, NOTES, USAGE)
    parser.add_argument("explanations", type=Path, nargs="+", metavar="E.safetensors")
    parser.add_argument("--data", metavar="DATASET_OR_FILE", help="where series and truth are, if not in E")
    add_json(parser, "print JSON, for programs: one score per series too")
    group = parser.add_argument_group("metrics")
    group.add_argument(
        "--metrics", type=names, default=["cpd", "cpp"], help="see 'tempograd list metrics' (default: cpd,cpp)"
    )
    group.add_argument("--k", type=amount, default=0.1, help="cells to remove: a count, or a share (default: 0.1)")
    group.add_argument(
        "--substitute", default="zero", choices=("zero", "average"), help="what replaces them (default: zero)"
    )
    add_model(parser)
    add_files(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.cli.summary import warn_of_another_zero
    from tempograd.explanation.diagnostics import poor
    from tempograd.explanation.messages import sentence
    from tempograd.metrics import evaluate
    from tempograd.views.comparison import score_table
    from tempograd.views.series import aligned

    named = load(args.explanations)
    model, first = read_model(args), next(iter(named.values()))
    split = None if args.data is None else aligned(first, read(args.data, args))
    x, truth = (None, None) if split is None else (split.x, split.truth)
    if args.substitute == "zero":
        warn_of_another_zero(named, x)
    options = {"metrics": args.metrics, "substitute": args.substitute, "k": args.k, "truth": truth}
    scores = {label: evaluate(model, explanation, x, **options) for label, explanation in named.items()}
    found = score_table(scores)
    if args.json:
        about = [
            {"name": label, "file": str(path), "verdict": sentence(explanation, option="explain --set ")}
            for path, (label, explanation) in zip(args.explanations, named.items(), strict=True)
        ]
        print(json.dumps(_plain(found, scores, about, first.ids.tolist()), indent=2, ensure_ascii=False))
        return
    print(table(score_rows(found)))
    for label, explanation in named.items():
        if poor(explanation):
            print(f"\n{label} is {sentence(explanation, option='explain --set ')}")
    if len(found.methods) > 1:
        base, *others = found.methods
        print(f"\nPaired differences to {base} on the same series, with 95 % intervals:\n")
        rows = [[label, *(_interval(found.cells[label, metric]) for metric in found.metrics)] for label in others]
        print(table([[f"minus {base}", *(metric.upper() for metric in found.metrics)], *rows]))
        print("", *(_decision(found, label) for label in others), sep="\n")


def score_rows(found: "ScoreTable") -> list[list[str]]:
    """Return a head and one row per method: mean ± standard error of every metric."""
    body = []
    for method in found.methods:
        summaries = [found.cells[method, metric].summary for metric in found.metrics]
        body.append([method, *(with_error(s.mean, s.standard_error) for s in summaries)])
    return [["method", *found.heads], *body]


def _decision(found: "ScoreTable", method: str) -> str:
    """Say whether the first metric tells a method and the first one apart, and which is better."""
    base, metric = found.methods[0], found.metrics[0]
    gap = _difference(found.cells[method, metric])
    if not (gap.low > 0 or gap.high < 0):
        return (
            f"{base} and {method}: these series do not tell them apart by {metric.upper()} (the interval holds 0)."
        )
    wins = (gap.mean > 0) == found.higher_is_better[0]
    better, worse = (method, base) if wins else (base, method)
    return f"{better} is better than {worse} by {metric.upper()}."


def _difference(cell: "Cell") -> "Difference":
    assert cell.difference is not None  # noqa: S101  # only the first method has none
    return cell.difference


def _interval(cell: "Cell") -> str:
    gap = _difference(cell)
    values = (gap.mean, gap.low, gap.high)
    signed = [f"+{text}" if value > 0 else text for text, value in zip(alike(*values), values, strict=True)]
    return f"{signed[0]} [{signed[1]}, {signed[2]}]"


def _plain(
    found: "ScoreTable", scores: "MetricScores", about: list[dict[str, Any]], ids: list[int]
) -> dict[str, Any]:
    """Return everything as JSON values; what is not defined or not finite is null."""
    base, *others = found.methods
    for entry in about:
        method = entry["name"]
        entry["metrics"] = {
            metric: _finite(found.cells[method, metric].summary) | {"scores": list(map(_number, values.tolist()))}
            for metric, values in scores[method].items()
        }
    differences = [
        {
            "name": method,
            "minus": base,
            "metrics": {metric: _finite(_difference(found.cells[method, metric])) for metric in found.metrics},
        }
        for method in others
    ]
    return {"ids": ids, "explanations": about, "differences": differences}


def _finite(record: "Summary | Difference") -> dict[str, Any]:
    return {name: _number(value) for name, value in vars(record).items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
