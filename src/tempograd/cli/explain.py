"""``tempograd explain``: what moved a model's predictions."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempograd.cli.arguments import Commands, add_command, add_json, setting, steps
from tempograd.cli.inputs import FILES, FORMS, add_files, add_model, read, read_model
from tempograd.cli.outputs import add_force, claim
from tempograd.errors import InputError, TempogradError, warn

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Series


RESERVED = {  # what is no setting of a method, and where it comes from
    "model": "--model",
    "x": "--data",
    "method": "--method",
    "train": "--train",
    "mask": "--data, whose missing values are masked",
    "missing": "--missing",
    "ids": "--id",
    "names": "--id",
    "times": "--time",
    "channels": "--channels",
}
USAGE = "--model MODEL --data DATASET_OR_FILE [options]"
NOTES = FORMS + FILES + "\n"
EXAMPLES = (
    "--model model.safetensors --data state --limit 50 --out E.safetensors",
    "--model my_net:Net --weights weights.pt --data patients.csv --id patient --time hour",
    "--model model.pt2 --trust --data test.parquet --method gradient_shap --train train.parquet --set points=100",
)


def add_explain(commands: Commands) -> None:
    about = "attribute a model's predictions to the values of its series"
    parser = add_command(commands, "explain", about, EXAMPLES, NOTES, USAGE)
    parser.add_argument(
        "--data", required=True, metavar="DATASET_OR_FILE", help="a data set, or a file of series (see below)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="explain the first N series only")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("explanation.safetensors"),
        metavar="FILE",
        help="(default: explanation.safetensors)",
    )
    add_force(parser)
    add_json(parser, "print the summary as JSON, for programs")
    add_model(parser)
    _add_method(parser.add_argument_group("method"))
    add_files(parser)
    parser.set_defaults(run=run)


def _add_method(group: Any) -> None:
    group.add_argument(
        "--method", default="timing", metavar="NAME", help="see 'tempograd list explainers' (default: timing)"
    )
    group.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a hyper-parameter of the method, as points=100 or areas=0.1,0.2; may be repeated",
    )
    group.add_argument(
        "--train",
        metavar="DATASET_OR_FILE",
        help="series for methods that learn from some (default: the training series, where --data is a data set)",
    )
    group.add_argument(
        "--target",
        type=int,
        help="class or output to explain (default: the predicted one; class 1 of a model with one logit)",
    )
    group.add_argument(
        "--baseline",
        default="zero",
        choices=("zero", "average"),
        help="what scores compare with: 0, for standardised data, or each channel's mean over time, for data in "
        "natural units (default: zero)",
    )
    group.add_argument(
        "--output",
        choices=("probability", "raw"),
        help="raw: the model's output as it is, for regression or probabilities (default: probability)",
    )
    group.add_argument("--steps", type=steps, help="own, or steps such as 3,4, for one prediction per step")
    group.add_argument("--seed", type=int, default=0, help="(default: 0)")


def run(args: argparse.Namespace) -> None:
    from tempograd._utils.io import EXPLANATION
    from tempograd._utils.validation import whole
    from tempograd.cli.summary import compares, show, warn_of_far_zero, warn_of_fresh_weights
    from tempograd.explainers import explain

    _settings(args)  # a mistake there is told before anything is read
    claim(args, EXPLANATION)
    model, (series, faulty) = read_model(args), _labelled(args)
    if args.limit is not None:
        series = series.take(slice(whole(args.limit, "--limit", 1)))
    options: dict[str, Any] = {
        "target": args.target,
        "baseline": args.baseline,
        "steps": args.steps,
        "seed": args.seed,
        **series.options,
    }
    options |= {} if args.output is None else {"output": args.output}
    options |= _settings(args)
    warn_of_fresh_weights(args, model)
    if compares(args) and options["baseline"] in (None, "zero"):
        warn_of_far_zero(series)
    explanation = explain(model, series.x, args.method, train=_pool(args), **options)
    explanation.save(args.out, force=args.force)
    show(explanation, model, series, args, faulty=faulty)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return what ``--set`` says, unless another option must say it."""
    for name, _ in args.settings:
        if name in RESERVED:
            raise InputError(f"--set {name}= is no setting of a method: pass {RESERVED[name]}.")
    return dict(args.settings)


def _labelled(args: argparse.Namespace) -> "tuple[Series, bool]":
    """Read the series with their labels, and tell whether these are faulty.

    They only tell how good the model is: faults in them are warnings.
    """
    try:
        return read(args.data, args), False
    except TempogradError as error:
        series = read(args.data, args, labels=False)  # fails again if the labels are not the reason
        warn(f"The labels are left out. {error}")
        return series, True


def _pool(args: argparse.Namespace) -> "Tensor | None":
    """Return the series that a method learns from: those given, or those of the data set if it must learn."""
    from tempograd.data import DATASETS
    from tempograd.explainers import EXPLAINERS

    source = args.train
    if source is None and not EXPLAINERS[args.method].needs_fit:
        return None
    if source is None and args.data not in DATASETS:
        raise InputError(f"{args.method} learns from training series: pass them with --train.")
    return read(source or args.data, args, "train", labels=False).x
