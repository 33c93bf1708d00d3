"""Tables of many cells: plans, runs that survive a kill, and our numbers beside the published ones."""

from tempograd.benchmark.cell import Cell, Measure
from tempograd.benchmark.plan import Plan, Row
from tempograd.benchmark.reading import load_plan, packaged_plans
from tempograd.benchmark.record import Record
from tempograd.benchmark.runner import Outcome, prepare, run_cells

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
