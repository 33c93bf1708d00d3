"""``tempograd report``: explanations as one HTML file."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import Commands, add_command, names
from tempograd.cli.inputs import FILES, FORMS, add_files, add_model, find, load, read, read_model
from tempograd.cli.outputs import add_force, claim
from tempograd.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Dataset, Series
    from tempograd.explanation import Explanation

USAGE = "E.safetensors [E.safetensors …] [--model MODEL] [--data DATASET_OR_FILE] [options]"
NOTES = FORMS + FILES + "\n"
EXAMPLES = (
    "E.safetensors --model model.safetensors --data state",
    "timing.safetensors ig.safetensors --model my_net:Net --weights weights.pt --data patients.csv --id patient",
    "E.safetensors --data scaled.npz --raw measured.npz --units mmol/L,bpm --out report.html",
)


def add_report(commands: Commands) -> None:
    about = "show explanations of the same series in one HTML file"
    parser = add_command(commands, "report", about, EXAMPLES, NOTES, USAGE)
    parser.add_argument("explanations", type=Path, nargs="+", metavar="E.safetensors")
    parser.add_argument("--data", metavar="DATASET_OR_FILE", help="adds labels and the truth")
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="(default: report.html)"
    )
    add_force(parser)
    group = parser.add_argument_group("page")
    group.add_argument("--series", type=int, nargs="+", metavar="I", help="positions of the series to show")
    group.add_argument("--raw", metavar="FILE", help="the same series in your own units, which are shown instead")
    group.add_argument("--units", type=names, metavar="A,B,…", help="the unit of each channel")
    group.add_argument("--title", help="the heading of the page")
    add_model(parser, needed=False)
    add_files(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd._utils.io import REPORT
    from tempograd.cli.summary import fitting_classes
    from tempograd.html_report import report

    claim(args, REPORT)
    explanations = load(args.explanations)
    model = None if args.model is None else read_model(args)
    found, data = (None, None) if args.data is None else find(args.data, args)
    named = args.classes or (None if found is None else found.classes)
    first = next(iter(explanations.values()))
    classes = fitting_classes(named, first.n_outputs, first.output, given=args.classes is not None)
    unknown = bool(named) and not classes and first.output == "probability"  # which class a label is
    report(
        args.out,
        model,
        explanations,
        found if found is not None and found.labelled and not unknown else None,
        series=args.series,
        raw=_measured(first, found, data, args),
        units=args.units or (None if data is None else data.units),
        classes=classes or None,
        force=args.force,
        **({} if args.title is None else {"title": args.title}),
    )
    print(f"Wrote {args.out}: open it in a browser.")


def _measured(
    explanation: "Explanation", found: "Series | None", data: "Dataset | None", args: argparse.Namespace
) -> "Tensor | None":
    """Return the explained series in the user's own units: from a file, found by their ids, or the data set's."""
    from tempograd.views.series import aligned

    if args.raw is None:
        known = found is not None and data is not None and data.centre is not None
        return data.raw(aligned(explanation, found)) if known else None  # type: ignore[union-attr, arg-type]
    series = read(args.raw, args, labels=False)
    place = {number: row for row, number in enumerate(series.ids.tolist())}
    gone = [number for number in explanation.ids.tolist() if number not in place]
    if gone:
        raise InputError(f"{args.raw} lacks the series {gone[0]} of the explanation: it must hold all of them.")
    return series.x[[place[number] for number in explanation.ids.tolist()]]
