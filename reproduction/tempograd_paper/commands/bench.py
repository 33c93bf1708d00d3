"""``python -m tempograd_paper run``, or ``tempograd bench``: run the cells of a table."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import Commands, add_command, add_device, command, names

if TYPE_CHECKING:
    from tempograd_paper.runner import Cell, Plan

EXAMPLES = (
    "smoke --out runs/smoke",
    "table4 --out runs/table4 --protocol fair --workers 2",
    "table3 --out runs/table3 --datasets wafer --methods timing,random --folds 0",
)
NOTES = """A run can be stopped at any moment: the same command goes on where it was. On a CPU every cell uses one
core, so give it as many workers as there are cores.

"""


def add_bench(commands: Commands) -> None:  # as a command of tempograd, where "run" would say nothing
    add_run(commands, "bench")


def add_run(commands: Commands, name: str = "run") -> None:
    parser = add_command(
        commands,
        name,
        "run the cells of a table: data sets × models × folds × methods",
        EXAMPLES,
        NOTES,
    )
    parser.add_argument("plan", metavar="PLAN", help="see 'python -m tempograd_paper list', or a TOML file")
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
    from tempograd.cli.arguments import device
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
    print("Next:", command("table", args.plan, results=args.out, protocol=plan.protocol))


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
