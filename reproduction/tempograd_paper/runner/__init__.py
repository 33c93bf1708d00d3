"""Tables of many cells: plans, runs that survive a kill, and our numbers beside the published ones."""

from tempograd_paper.cell import Cell, Measure
from tempograd_paper.runner.plan import Plan, Row
from tempograd_paper.runner.reading import load_plan, packaged_plans
from tempograd_paper.runner.record import Record
from tempograd_paper.runner.running import Outcome, prepare, run_cells

__all__ = [
    "Cell",
    "Measure",
    "Outcome",
    "Plan",
    "Record",
    "Row",
    "load_plan",
    "packaged_plans",
    "prepare",
    "run_cells",
]
