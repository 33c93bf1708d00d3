"""``tempograd evaluate``: how well explanations stand up to tests."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempograd.cli.arguments import Commands, add_command, add_json, amount, names
from tempograd.cli.model import FORMS, add_model, read_model
from tempograd.cli.series import FILES, add_files, read

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.metrics import Difference

Scores = dict[str, dict[str, "Tensor"]]
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
    from tempograd._utils.formatting import table
    from tempograd.cli.cautions import warn_of_another_zero
    from tempograd.cli.scores import difference_rows, score_rows, verdicts
    from tempograd.cli.stored import load
    from tempograd.explanation.diagnostics import poor
    from tempograd.explanation.messages import sentence
    from tempograd.html_report.selection import aligned
    from tempograd.metrics import compare, evaluate

    named = load(args.explanations)
    model, first = read_model(args), next(iter(named.values()))
    split = None if args.data is None else aligned(first, read(args.data, args))
    if args.substitute == "zero":
        warn_of_another_zero(named, None if split is None else split.x)
    scores: Scores = {
        label: evaluate(
            model,
            explanation,
            None if split is None else split.x,
            metrics=args.metrics,
            substitute=args.substitute,
            k=args.k,
            truth=None if split is None else split.truth,
        )
        for label, explanation in named.items()
    }
    base, *others = scores
    gaps = {
        label: {metric: compare(scores[label][metric], scores[base][metric]) for metric in scores[base]}
        for label in others
    }
    if args.json:
        about = [
            {"file": str(path), "verdict": sentence(found, option="explain --set ")}
            for path, found in zip(args.explanations, named.values(), strict=True)
        ]
        print(json.dumps(_plain(scores, gaps, about, first.ids.tolist()), indent=2, ensure_ascii=False))
        return
    print(table(score_rows(scores)))
    for label, explanation in named.items():
        if poor(explanation):
            print(f"\n{label} is {sentence(explanation, option='explain --set ')}")
    if gaps:
        print(f"\nPaired differences to {base} on the same series, with 95 % intervals:\n")
        print(table(difference_rows(gaps, base)))
        print("", *verdicts(gaps, base), sep="\n")


def _plain(
    scores: Scores, gaps: "dict[str, dict[str, Difference]]", about: list[dict[str, str]], ids: list[int]
) -> dict[str, Any]:
    """Return everything as JSON values; what is not defined or not finite is null."""
    from tempograd.metrics import summarise

    entries = []
    for facts, (label, found) in zip(about, scores.items(), strict=True):
        metrics = {}
        for name, values in found.items():
            summary = summarise(values)
            metrics[name] = {
                "mean": _finite(summary.mean),
                "standard_error": _finite(summary.standard_error),
                "count": summary.count,
                "scores": [_finite(value) for value in values.tolist()],
            }
        entries.append({"name": label, **facts, "metrics": metrics})
    base = next(iter(scores))
    differences = [
        {"name": label, "minus": base, "metrics": {name: _gap(gap) for name, gap in found.items()}}
        for label, found in gaps.items()
    ]
    return {"ids": ids, "explanations": entries, "differences": differences}


def _gap(gap: "Difference") -> dict[str, Any]:
    return {
        "mean": _finite(gap.mean),
        "standard_error": _finite(gap.standard_error),
        "low": _finite(gap.low),
        "high": _finite(gap.high),
        "count": gap.count,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
