"""``python -m tempograd_paper``: run the cells of a table, print it beside the published numbers, list the plans.

Where the package is installed, ``tempograd bench`` and ``tempograd table`` are the first two.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli import make_parser as make
from tempograd.cli import run_command
from tempograd.cli.arguments import (
    Commands,
    add_command,
    add_device,
    add_force,
    add_json,
    claim,
    command,
    device,
    inputs,
    names,
)
from tempograd_paper.labels import PROGRAM

if TYPE_CHECKING:
    from tempograd_paper.runner import Cell, Plan
    from tempograd_paper.tables.sizes import Size
    from tempograd_paper.tables.tabulate import Table

PATH = f"""the usual path:
  see the plans  {PROGRAM} list
  run one        {PROGRAM} run smoke --out runs/smoke
  print it       {PROGRAM} table smoke --results runs/smoke
"""
PLAN = f"see '{PROGRAM} list', or a TOML file"
RUNS = (
    "smoke --out runs/smoke",
    "table4 --out runs/table4 --protocol fair --workers 2",
    "table3 --out runs/table3 --datasets wafer --methods timing,random --folds 0",
)
RUN_NOTES = """A run can be stopped at any moment: the same command goes on where it was. On a CPU every cell
uses one core, so give it as many workers as there are cores.

"""
SIZES = "table7"
FORMATS = ("markdown", "latex", "csv", "json")
TABLES = (
    "table4 --results runs/table4 --protocol fair",
    "table3 --results RESULTS --format latex --out table3.tex",
    "table3 --results RESULTS --json",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as that of tempograd does."""
    return run_command(make_parser(), argv)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    about = "The tables of the TIMING paper: run them, and print our numbers beside the paper's."
    return make((add_run, add_table, add_list), PROGRAM, about, PATH)


# run


def add_bench(commands: Commands) -> None:  # as a command of tempograd, where "run" would say nothing
    add_run(commands, "bench")


def add_run(commands: Commands, name: str = "run") -> None:
    about = "run the cells of a table: data sets × models × folds × methods"
    parser = add_command(commands, name, about, RUNS, RUN_NOTES)
    parser.add_argument("plan", metavar="PLAN", help=PLAN)
    parser.add_argument("--out", type=Path, required=True, help="folder for data, models and records")
    parser.add_argument("--protocol", choices=("fair", "published"), help="(default: the plan's)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="cells at the same time (default: 1)")
    parser.add_argument("--root", type=Path, help="folder with the data sets' files (default: $TEMPOGRAD_DATA)")
    only = parser.add_argument_group("only a part of the plan")
    for kind, example in (("datasets", "wafer,freezer"), ("methods", "timing,random"), ("folds", "0,1")):
        only.add_argument(f"--{kind}", type=names, help=f"such as {example}")
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd._utils.validation import whole
    from tempograd.errors import DataError, TempogradError
    from tempograd_paper.runner import load_plan, prepare, run_cells
    from tempograd_paper.runner.reading import where

    plan = load_plan(args.plan, protocol=args.protocol)
    _check_filters(plan, args)
    cells = [cell for cell in plan.cells() if _wanted(cell, args)]
    workers = whole(args.workers, "--workers", 1)
    for number, dataset in enumerate(plan.datasets):
        try:
            prepare([cell for cell in cells if cell.dataset == dataset], args.out, args.root)
        except DataError as error:
            raise DataError(f"{where(args.plan, 'datasets', number)}: {error}") from None
    outcome = run_cells(cells, args.out, root=args.root, device=device(args.device), workers=workers)
    count = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
    print(f"{count}: {outcome.there} there before, {outcome.done} done, {len(outcome.failed)} failed.")
    for cell, reason in outcome.failed.items():
        print(f"  {cell}: {reason}")
    if outcome.failed:
        raise TempogradError(f"Some cells failed; their tracebacks are in {args.out / 'failures'}.")
    table = command("table", args.plan, results=args.out, protocol=plan.protocol)
    print("Next:", PROGRAM + table.removeprefix("tempograd"))


def _check_filters(plan: "Plan", args: argparse.Namespace) -> None:
    """Refuse names that the plan does not have, before they silently select nothing."""
    from tempograd.errors import UnknownNameError

    known = {
        "dataset": (args.datasets, plan.datasets),
        "method": (args.methods, [row.method for row in plan.rows]),
        "fold": (args.folds, [str(fold) for fold in plan.folds]),
    }
    for kind, (only, there) in known.items():
        for name in only or []:
            if name not in there:
                raise UnknownNameError(f"{kind} of {plan.name}", name, set(there))


def _wanted(cell: "Cell", args: argparse.Namespace) -> bool:
    chosen = ((args.datasets, cell.dataset), (args.methods, cell.method), (args.folds, str(cell.fold)))
    return all(not only or value in only for only, value in chosen)


# table


def add_table(commands: Commands) -> None:
    parser = add_command(commands, "table", "print our numbers beside the published ones", TABLES)
    parser.add_argument("plan", metavar="PLAN", help=f"{PLAN}; table7: data set sizes")
    parser.add_argument("--results", type=Path, metavar="DIR", help="what a run left, or an archive of it")
    parser.add_argument("--format", default="markdown", choices=FORMATS, help="(default: markdown)")
    add_json(parser, "the same as --format json")
    parser.add_argument("--protocol", choices=("published", "fair"), help="in place of the plan's")
    parser.add_argument("--root", type=Path, help="for table7: folder with the data sets' files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        "--archive", type=Path, metavar="DIR", help="also write the results in the small form for a repository"
    )
    add_force(parser)
    parser.set_defaults(run=print_table, usage=parser.error)


def print_table(args: argparse.Namespace) -> None:
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


# list


def add_list(commands: Commands) -> None:
    parser = add_command(commands, "list", "show the plans of the package, with one line each", ("", "--json"))
    add_json(parser)
    parser.set_defaults(run=list_plans)


def list_plans(args: argparse.Namespace) -> None:
    from tempograd_paper.runner.reading import load_plan, packaged_plans

    plans = [load_plan(name, to_run=False) for name in packaged_plans()]
    about = {plan.name: plan.title.rstrip(".") + "." for plan in plans}
    if args.json:
        found = [
            {"name": plan.name, "about": about[plan.name], "datasets": plan.datasets, "cells": len(plan.cells())}
            for plan in plans
        ]
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    width = max(map(len, about)) + 2
    for name, line in about.items():
        print(f"{name:<{width}}{line}")
