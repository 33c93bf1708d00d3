"""Metrics: an explanation in, one score per series out."""

from tempograd.metrics.aggregate import Difference, PaperTable, Summary, compare, summarise, table
from tempograd.metrics.base import METRICS, Metric
from tempograd.metrics.evaluation import RemovalCurve, evaluate, removal_curve
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.metrics.localisation import Localisation

__all__ = ["METRICS", "Difference", "Faithfulness", "Localisation", "Metric", "PaperTable", "RemovalCurve"]
__all__ += ["Summary", "compare", "evaluate", "removal_curve", "summarise", "table"]
