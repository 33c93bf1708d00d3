"""The work of the commands that run the cells of a table and print it; ``commands.py`` has their arguments."""

import argparse
from collections.abc import Sequence

from tempograd.cli.arguments import command
from tempograd.cli.inputs import claim, device, input_files
from tempograd.core.errors import DataError, TempogradError, UnknownNameError
from tempograd.core.io import write_atomically
from tempograd.core.validation import check_int
from tempograd.explainers import EXPLAINERS
from tempograd_paper.labels import PROGRAM
from tempograd_paper.runner import Cell, Plan, load_plan, prepare, run_cells
from tempograd_paper.runner.reading import where
from tempograd_paper.tables.archive import join_records, load_records, unfinished, write_archive
from tempograd_paper.tables.rendering import TABLE, render
from tempograd_paper.tables.sizes import Size, sizes_table
from tempograd_paper.tables.tabulation import Table, tabulate

SIZES = "table7"  # of the paper, which needs no results


def run_plan(args: argparse.Namespace) -> None:
    plan = load_plan(args.plan, protocol=args.protocol, to_run=args.methods or True)
    _check_filters(plan, args)
    cells = [cell for cell in plan.cells() if _wanted(cell, args)]
    if args.kept is not None:
        cells = unfinished(cells, load_records(args.kept, plan))
    workers = check_int(args.workers, "--workers", 1)
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


def _check_filters(plan: Plan, args: argparse.Namespace) -> None:
    """Refuse names that the plan does not have, before they silently select nothing."""
    known = {
        "dataset": (args.datasets, plan.datasets),
        "method": (args.methods, [row.method for row in plan.rows]),
        "fold": (args.folds, [str(fold) for fold in plan.folds]),
    }
    for kind, (only, there) in known.items():
        for name in only or []:
            if name not in there:
                raise UnknownNameError(f"{kind} of {plan.name}", name, set(there), short=EXPLAINERS.short)


def _wanted(cell: Cell, args: argparse.Namespace) -> bool:
    chosen = ((args.datasets, cell.dataset), (args.methods, cell.method), (args.folds, str(cell.fold)))
    return all(not only or value in only for only, value in chosen)


# table


def print_table(args: argparse.Namespace) -> None:
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


def _table(args: argparse.Namespace) -> Table | Sequence[Size]:
    if args.plan == SIZES:
        return sizes_table(args.root)
    plan = load_plan(args.plan, protocol=args.protocol, to_run=False)
    if plan.kind == "sizes":
        return sizes_table(args.root, plan.datasets)
    if args.results is None:
        args.usage("tell where the results are: --results DIR")
    records = join_records(args.results, plan)
    if args.archive is not None:
        write_archive(args.archive, plan, records, inputs=input_files(args), force=args.force)
    return tabulate(plan, records)


# answers


def write_answers(args: argparse.Namespace) -> None:
    from tempograd_paper.answers.writing import write_all  # noqa: PLC0415  # it draws, which needs an extra

    for path in write_all(args.results, args.docs):
        print(f"Wrote {path}.")
