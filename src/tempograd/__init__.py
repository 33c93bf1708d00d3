"""Signed, temporality-aware explanations of time-series models, with error bars and faithfulness metrics.

>>> import tempograd as tg
>>> sorted(tg.EXPLAINERS)
['deep_lift', 'gradient_shap', 'integrated_gradients', 'lime', 'rand_ig', 'random', 'timing']
"""

from tempograd.data import DATASETS, Dataset, Split, load_dataset
from tempograd.errors import TempogradError, TempogradWarning
from tempograd.explainers import (
    EXPLAINERS,
    DeepLift,
    Explainer,
    GradientShap,
    IntegratedGradients,
    Lime,
    MaskingIG,
    RandIG,
    Random,
    Timing,
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
    "Dataset",
    "DeepLift",
    "Explainer",
    "Explanation",
    "GradientShap",
    "IntegratedGradients",
    "Lime",
    "MaskingIG",
    "Metric",
    "RandIG",
    "Random",
    "Split",
    "TempogradError",
    "TempogradWarning",
    "Timing",
    "__version__",
    "accuracy",
    "compare",
    "evaluate",
    "explain",
    "load_dataset",
    "load_model",
    "removal_curve",
    "report",
    "save_model",
    "summarise",
    "train",
]
