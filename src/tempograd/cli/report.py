"""``tempograd report``: explanations as one HTML file."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import Commands, add_command, names
from tempograd.cli.model import FORMS, add_model, read_model
from tempograd.cli.series import FILES, add_files, find, read

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
    group = parser.add_argument_group("page")
    group.add_argument("--series", type=int, nargs="+", metavar="I", help="positions of the series to show")
    group.add_argument("--raw", metavar="FILE", help="the same series in your own units, which are shown instead")
    group.add_argument("--units", type=names, metavar="A,B,…", help="the unit of each channel")
    group.add_argument("--title", help="the heading of the page")
    add_model(parser, needed=False)
    add_files(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.explanation import Explanation
    from tempograd.pages import report

    explanations = [Explanation.load(path) for path in args.explanations]
    model = None if args.model is None else read_model(args)
<<<<<<< HEAD
    found, data = (None, None) if args.data is None else find(args.data, args)
=======
    found = None if args.data is None else read(args.data, args)
    raw, units = _measured(explanations[0], args)
>>>>>>> 1f19482eb65ebf1356019fc89648718e94a1d4be
    report(
        args.out,
        model,
        explanations,
        found if found is not None and found.labelled else None,
        series=args.series,
<<<<<<< HEAD
        raw=_measured(explanations[0], found, data, args),
        units=args.units or (None if data is None else data.units),
=======
        raw=raw,
        units=args.units or units,
>>>>>>> 1f19482eb65ebf1356019fc89648718e94a1d4be
        classes=args.classes or (None if found is None else found.classes),
        **({} if args.title is None else {"title": args.title}),
    )
    print(f"Wrote {args.out}: open it in a browser.")


def _measured(
<<<<<<< HEAD
    explanation: "Explanation", found: "Series | None", data: "Dataset | None", args: argparse.Namespace
) -> "Tensor | None":
    """Return the explained series in the user's own units: from a file, found by their ids, or the data set's."""
=======
    explanation: "Explanation", args: argparse.Namespace
) -> "tuple[Tensor | None, Sequence[str] | None]":
    """Return the explained series in the user's own units: those of ``--raw``, or of a data set's source."""
    from tempograd.data import DATASETS, load_dataset

    if args.raw is not None:
        series = read(args.raw, args, labels=False)
        return _rows(series.x, series.ids, explanation, args.raw), None
    if args.data not in DATASETS:
        return None, None
    fold = 0 if args.split == "validation" else None
    data = load_dataset(args.data, root=args.root, variant=args.variant, fold=fold)
    if data.centre is None:
        return None, data.units
    split = getattr(data, args.split)
    return _rows(data.raw(split), split.ids, explanation, args.data), data.units


def _rows(values: "Tensor", ids: "Tensor", explanation: "Explanation", source: str) -> "Tensor":
    """Return the explained series, found by their ids."""
>>>>>>> 1f19482eb65ebf1356019fc89648718e94a1d4be
    from tempograd.errors import InputError
    from tempograd.pages.selection import aligned

<<<<<<< HEAD
    if args.raw is None:
        split = None if data is None or data.centre is None else aligned(explanation, found)
        return None if split is None or data is None else data.raw(split)
    series = read(args.raw, args, labels=False)
    place = {number: row for row, number in enumerate(series.ids.tolist())}
=======
    place = {number: row for row, number in enumerate(ids.tolist())}
>>>>>>> 1f19482eb65ebf1356019fc89648718e94a1d4be
    gone = [number for number in explanation.ids.tolist() if number not in place]
    if gone:
        raise InputError(f"{source} lacks the series {gone[0]} of the explanation: it must hold all of them.")
    return values[[place[number] for number in explanation.ids.tolist()]]
