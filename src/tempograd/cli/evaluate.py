"""``tempograd evaluate``: how well an explanation stands up to tests."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempograd.cli.arguments import FILES, Commands, add_command, add_device, add_source, amount, names

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Split
    from tempograd.explanation import Explanation


def add_evaluate(commands: Commands) -> None:
    parser = add_command(
        commands,
        "evaluate",
        "score an explanation",
        "tempograd evaluate E.safetensors --model model.safetensors --metrics cpd,cpp,auroc --data state",
        FILES,
    )
    parser.add_argument("explanation", type=Path, metavar="E.safetensors")
    parser.add_argument("--model", type=Path, required=True, help="the model that was explained")
    parser.add_argument("--metrics", type=names, default=["cpd", "cpp"], help="see 'tempograd list metrics'")
    parser.add_argument("--data", metavar="DATASET_OR_FILE", help="where series and truth are, if not in E")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"), help="of a data set")
    parser.add_argument(
        "--k", type=amount, default=0.1, help="cells to remove: a count, or a share (default: 0.1)"
    )
    parser.add_argument("--substitute", default="zero", choices=("zero", "average"), help="what replaces them")
    parser.add_argument("--json", action="store_true", help="for programs: one score per series too")
    add_source(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.cli.arguments import device
    from tempograd.cli.scores import score_rows
    from tempograd.explanation import Explanation
    from tempograd.markdown import table
    from tempograd.metrics import evaluate
    from tempograd.models import load_model

    explanation, model = Explanation.load(args.explanation), load_model(args.model, device(args.device))
    split = _matching_split(explanation, args)
    scores = evaluate(
        model,
        explanation,
        None if split is None else split.x,
        metrics=args.metrics,
        substitute=args.substitute,
        k=args.k,
        truth=None if split is None else split.truth,
    )
    if args.json:
        print(json.dumps(_plain(scores, explanation.ids.tolist()), indent=2))
    else:
        print(table(score_rows({explanation.method: scores})))


def _matching_split(explanation: "Explanation", args: argparse.Namespace) -> "Split | None":
    """Return the explained series from ``--data``, if it was given."""
    from tempograd.cli.series import read_series
    from tempograd.pages.selection import aligned

    if args.data is None:
        return None
    return aligned(explanation, read_series(args.data, args.split, args.root, args.variant).split)


def _plain(scores: "dict[str, Tensor]", ids: list[int]) -> dict[str, Any]:
    """Return scores as JSON values; what is not defined or not finite is null."""
    from tempograd.metrics import summarise

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    found: dict[str, Any] = {"ids": ids, "metrics": {}}
    for name, values in scores.items():
        summary = summarise(values)
        found["metrics"][name] = {
            "mean": number(summary.mean),
            "standard_error": number(summary.standard_error),
            "count": summary.count,
            "scores": [number(value) for value in values.tolist()],
        }
    return found
