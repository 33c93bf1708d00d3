"""``python -m tempograd_paper table``, or ``tempograd table``: our numbers beside the published ones."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import Commands, add_command, add_json
from tempograd.cli.outputs import add_force, claim, inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tempograd_paper.tables.sizes import Size
    from tempograd_paper.tables.tabulate import Table

SIZES = "table7"
FORMATS = ("markdown", "latex", "csv", "json")
EXAMPLES = (
    "table4 --results runs/table4 --protocol fair",
    "table3 --results RESULTS --format latex --out table3.tex",
    "table3 --results RESULTS --json",
)


def add_table(commands: Commands) -> None:
    parser = add_command(commands, "table", "print our numbers beside the published ones", EXAMPLES)
    parser.add_argument(
        "plan", metavar="PLAN", help="see 'python -m tempograd_paper list', or a TOML file; table7: data set sizes"
    )
    parser.add_argument("--results", type=Path, metavar="DIR", help="what bench left, or an archive of it")
    parser.add_argument("--format", default="markdown", choices=FORMATS, help="(default: markdown)")
    add_json(parser, "the same as --format json")
    parser.add_argument("--protocol", choices=("published", "fair"), help="in place of the plan's")
    parser.add_argument("--root", type=Path, help="for table7: folder with the data sets' files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        "--archive", type=Path, metavar="DIR", help="also write the results in the small form for a repository"
    )
    add_force(parser)
    parser.set_defaults(run=run, usage=parser.error)


def run(args: argparse.Namespace) -> None:
    from tempograd._utils.io import write_atomically
    from tempograd_paper.tables.rendering import TABLE, render

    if args.out is not None:
        claim(args, TABLE)
    text = render(_table(args), "json" if args.json else args.format)
    if args.out is None:
        print(text, end="")
    else:
        write_atomically(
            args.out, lambda path: path.write_text(text, encoding="utf-8"), kind=TABLE, force=args.force
        )
        print(f"Wrote {args.out}.")


def _table(args: argparse.Namespace) -> "Table | Sequence[Size]":
    from tempograd_paper.tables.archive import load_records, write_archive
    from tempograd_paper.tables.sizes import sizes_table
    from tempograd_paper.tables.tabulate import tabulate

    if args.plan == SIZES:
        return sizes_table(args.root)
    from tempograd_paper.runner.reading import load_plan

    plan = load_plan(args.plan, protocol=args.protocol, to_run=False)
    if plan.kind == "sizes":
        return sizes_table(args.root, plan.datasets)
    if args.results is None:
        args.usage("tell where the results are: --results DIR")
    records = load_records(args.results, plan)
    if args.archive is not None:
        write_archive(args.archive, plan, records, inputs=inputs(args), force=args.force)
    return tabulate(plan, records)
