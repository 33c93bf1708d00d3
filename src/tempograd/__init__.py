"""Signed, temporality-aware explanations of time-series models, with error bars and faithfulness metrics.

>>> import tempograd as tg
>>> "timing" in tg.EXPLAINERS
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tempograd.version import __version__

if TYPE_CHECKING:  # names are loaded on first use, so that a command can be interrupted while torch is loaded
    from tempograd import adapters, plots, targets
    from tempograd.bulk import Run, explain_dataset, open_run
    from tempograd.core.errors import TempogradError, TempogradWarning
    from tempograd.core.estimate import GradientCheck
    from tempograd.core.question import Question
    from tempograd.data import DATASETS, Dataset, Series, Source, load_dataset, read_series
    from tempograd.engine import Predictor
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
    from tempograd.explanation import Blocks, Explanation, Explanations, InputExplanation, concat
    from tempograd.html_report import report
    from tempograd.metrics import METRICS, Metric, compare, evaluate, removal_curve, summarise, table
    from tempograd.models import MODELS, accuracy, load_model, save_model, train
    from tempograd.tuning import Ranking, Tuning, load_settings, rank, tune
    from tempograd.views.baselines import BaselineComparison, compare_baselines
    from tempograd.views.groups import GroupComparison, compare_groups

__all__ = [
    "DATASETS",
    "EXPLAINERS",
    "METRICS",
    "MODELS",
    "AugmentedOcclusion",
    "BaselineComparison",
    "Blocks",
    "ContraLSP",
    "Dataset",
    "DeepLift",
    "Dynamask",
    "Explainer",
    "Explanation",
    "Explanations",
    "ExtremalMask",
    "Fit",
    "GradientCheck",
    "GradientShap",
    "GroupComparison",
    "InputExplanation",
    "IntegratedGradients",
    "Lime",
    "MaskingIG",
    "Metric",
    "Occlusion",
    "Predictor",
    "Question",
    "RandIG",
    "Random",
    "Ranking",
    "Run",
    "Series",
    "Source",
    "TempogradError",
    "TempogradWarning",
    "TimeX",
    "TimeXPP",
    "Timing",
    "Tuning",
    "WinIT",
    "__version__",
    "accuracy",
    "adapters",
    "compare",
    "compare_baselines",
    "compare_groups",
    "concat",
    "evaluate",
    "explain",
    "explain_dataset",
    "load_dataset",
    "load_model",
    "load_settings",
    "open_run",
    "plots",
    "rank",
    "read_series",
    "removal_curve",
    "report",
    "save_model",
    "summarise",
    "table",
    "targets",
    "train",
    "tune",
]

# Where each public name lives; what type checkers read above says the same.
_HOMES = {
    name: f"tempograd.{home}"
    for home, names in {
        "bulk": ("Run", "explain_dataset", "open_run"),
        "core.question": ("Question",),
        "data": ("DATASETS", "Dataset", "Series", "Source", "load_dataset", "read_series"),
        "core.errors": ("TempogradError", "TempogradWarning"),
        "core.estimate": ("GradientCheck",),
        "engine": ("Predictor",),
        "explainers": (
            "EXPLAINERS",
            "AugmentedOcclusion",
            "ContraLSP",
            "DeepLift",
            "Dynamask",
            "Explainer",
            "ExtremalMask",
            "Fit",
            "GradientShap",
            "IntegratedGradients",
            "Lime",
            "MaskingIG",
            "Occlusion",
            "RandIG",
            "Random",
            "TimeX",
            "TimeXPP",
            "Timing",
            "WinIT",
            "explain",
        ),
        "explanation": ("Blocks", "Explanation", "Explanations", "InputExplanation", "concat"),
        "html_report": ("report",),
        "metrics": ("METRICS", "Metric", "compare", "evaluate", "removal_curve", "summarise", "table"),
        "models": ("MODELS", "accuracy", "load_model", "save_model", "train"),
        "tuning": ("Ranking", "Tuning", "load_settings", "rank", "tune"),
        "views.baselines": ("BaselineComparison", "compare_baselines"),
        "views.groups": ("GroupComparison", "compare_groups"),
    }.items()
    for name in names
}

if not TYPE_CHECKING:  # or type checkers would believe that any name is there

    def __getattr__(name: str) -> object:
        """Load a public name, or a module of the package, the first time that somebody asks for it."""
        if name in _HOMES:
            globals()[name] = getattr(import_module(_HOMES[name]), name)
            return globals()[name]
        try:
            if not name.startswith("_"):
                return import_module(f"tempograd.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"tempograd.{name}":
                raise
        raise AttributeError(f"module 'tempograd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
