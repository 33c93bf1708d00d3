"""Tables of many cells: plans, runs that can be stopped at any moment, and the numbers beside the published ones."""

from tempograd.benchmark.cell import Cell, Measure
from tempograd.benchmark.plan import Plan, Row
from tempograd.benchmark.record import Record

__all__ = ["Cell", "Measure", "Plan", "Record", "Row"]
