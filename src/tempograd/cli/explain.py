"""``tempograd explain``: what moved a model's predictions."""

import argparse
from pathlib import Path
from typing import Any

from tempograd.cli.arguments import FILES, Commands, add_command, add_device, add_source, setting, steps


def add_explain(commands: Commands) -> None:
    parser = add_command(
        commands,
        "explain",
        "attribute a model's predictions to the values of its series",
        "tempograd explain --model model.safetensors --data state --set points=100 --out E.safetensors",
        FILES,
    )
    parser.add_argument("--model", type=Path, required=True, help="file written by 'tempograd train'")
    parser.add_argument(
        "--data", required=True, metavar="DATASET_OR_FILE", help="a data set, an .npz or an .npy file"
    )
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"), help="of a data set")
    parser.add_argument(
        "--train",
        metavar="DATASET_OR_FILE",
        help="series for methods that learn from some (default: the training series, where --data is a data set)",
    )
    parser.add_argument("--method", default="timing", metavar="NAME", help="see 'tempograd list explainers'")
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a hyper-parameter of the method, as points=100 or areas=[0.1,0.2]; may be repeated",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="explain the first N series only")
    parser.add_argument("--target", type=int, help="class or output to explain (default: the predicted one)")
    parser.add_argument("--baseline", default="zero", choices=("zero", "average"), help="what absent means")
    parser.add_argument("--output", default="probability", choices=("probability", "raw"))
    parser.add_argument("--steps", type=steps, help="own, or steps such as 3,4, for one prediction per step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("explanation.safetensors"))
    add_source(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.checks import whole
    from tempograd.cli.arguments import device
    from tempograd.cli.series import read_series
    from tempograd.explainers import explain
    from tempograd.models import load_model

    model = load_model(args.model, device(args.device))
    split, channels, _ = read_series(args.data, args.split, args.root, args.variant, labels=False)
    if args.limit is not None:
        split = split.take(slice(whole(args.limit, "--limit", 1)))
    source = args.train or _training_series(args.method, args.data)
    pool = None
    if source is not None:
        pool = read_series(source, "train", args.root, args.variant, labels=False).split.x
    options: dict[str, Any] = {
        "target": args.target,
        "baseline": args.baseline,
        "output": args.output,
        "steps": args.steps,
        "seed": args.seed,
        "mask": split.mask,
        "ids": split.ids,
        "channels": channels,
    }
    explanation = explain(model, split.x, args.method, train=pool, **(options | dict(args.settings)))
    explanation.save(args.out)
    print(f"Explained {len(explanation)} series with {explanation.method}. Wrote {args.out}.")


def _training_series(method: str, data: str) -> str | None:
    """Return where a method that must learn finds its series, if nobody said."""
    from tempograd.data import DATASETS
    from tempograd.errors import InputError
    from tempograd.explainers import EXPLAINERS

    if not EXPLAINERS[method].needs_fit:
        return None
    if data not in DATASETS:
        raise InputError(f"{method} learns from training series: pass them with --train.")
    return data
