"""``tempograd report``: explanations as one HTML file."""

import argparse
from pathlib import Path

from tempograd.cli.arguments import FILES, Commands, add_command, add_device, add_source


def add_report(commands: Commands) -> None:
    parser = add_command(
        commands,
        "report",
        "show explanations of the same series in one HTML file",
        "tempograd report E.safetensors other.safetensors --model model.safetensors --data state",
        FILES,
    )
    parser.add_argument("explanations", type=Path, nargs="+", metavar="E.safetensors")
    parser.add_argument("--model", type=Path, required=True, help="the model that was explained")
    parser.add_argument("--data", metavar="DATASET_OR_FILE", help="adds labels and the truth")
    parser.add_argument("--split", default="test", choices=("train", "validation", "test"), help="of a data set")
    parser.add_argument("--series", type=int, nargs="+", metavar="I", help="positions of the series to show")
    parser.add_argument("--out", type=Path, default=Path("report.html"))
    add_source(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.cli.arguments import device
    from tempograd.cli.series import read_series
    from tempograd.explanation import Explanation
    from tempograd.models import load_model
    from tempograd.pages import report

    model = load_model(args.model, device(args.device))
    split = None
    if args.data is not None:
        found = read_series(args.data, args.split, args.root, args.variant)
        split = found.split if found.labelled else None
    report(args.out, model, [Explanation.load(path) for path in args.explanations], split, series=args.series)
    print(f"Wrote {args.out}: open it in a browser.")
