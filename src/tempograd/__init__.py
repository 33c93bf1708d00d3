"""Signed, temporality-aware explanations of time-series models, with error bars and faithfulness metrics.

>>> import tempograd as tg
>>> "timing" in tg.EXPLAINERS
True
"""

from tempograd import plots
from tempograd.data import DATASETS, Dataset, Series, Split, load_dataset, read_series
from tempograd.engine import GradientCheck, wrap
from tempograd.errors import TempogradError, TempogradWarning
from tempograd.explainers import (
    EXPLAINERS,
    AugmentedOcclusion,
    ContraLSP,
    DeepLift,
    Dynamask,
    Explainer,
    ExtremalMask,
    Fit,
    GradientShap,
    IntegratedGradients,
    Lime,
    MaskingIG,
    Occlusion,
    RandIG,
    Random,
    TimeX,
    TimeXPP,
    Timing,
    WinIT,
    explain,
)
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Metric, compare, evaluate, removal_curve, summarise
from tempograd.models import MODELS, accuracy, load_model, save_model, train
from tempograd.pages import report
from tempograd.version import __version__

__all__ = [
    "DATASETS",
    "EXPLAINERS",
    "METRICS",
    "MODELS",
    "AugmentedOcclusion",
    "ContraLSP",
    "Dataset",
    "DeepLift",
    "Dynamask",
    "Explainer",
    "Explanation",
    "ExtremalMask",
    "Fit",
    "GradientCheck",
    "GradientShap",
    "IntegratedGradients",
    "Lime",
    "MaskingIG",
    "Metric",
    "Occlusion",
    "RandIG",
    "Random",
    "Series",
    "Split",
    "TempogradError",
    "TempogradWarning",
    "TimeX",
    "TimeXPP",
    "Timing",
    "WinIT",
    "__version__",
    "accuracy",
    "compare",
    "evaluate",
    "explain",
    "load_dataset",
    "load_model",
    "plots",
    "read_series",
    "removal_curve",
    "report",
    "save_model",
    "summarise",
    "train",
    "wrap",
]
