"""Commands of the reproduction: run the cells of a table, print it, list the plans."""

from collections.abc import Sequence

from tempograd.cli import make_parser as make
from tempograd.cli import run_command
from tempograd_paper.commands.bench import add_run
from tempograd_paper.commands.listing import add_list
from tempograd_paper.commands.table import add_table

PROGRAM = "python -m tempograd_paper"
PATH = f"""the usual path:
  see the plans  {PROGRAM} list
  run one        {PROGRAM} run smoke --out runs/smoke
  print it       {PROGRAM} table smoke --results runs/smoke
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as that of tempograd does."""
    about = "The tables of the TIMING paper: run them, and print our numbers beside the paper's."
    return run_command(make((add_run, add_table, add_list), PROGRAM, about, PATH), argv)
