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
    from tempograd.tuning import Ranking, Tuning, rank, tune
    from tempograd.views.as_usual import WhatIf, what_if
    from tempograd.views.baselines import BaselineComparison, compare_baselines
    from tempograd.views.groups import GroupComparison, compare_groups

__all__ = ["__version__", "adapters", "plots", "targets"]
__all__ += ["Run", "explain_dataset", "open_run"]
__all__ += ["DATASETS", "Dataset", "Series", "Source", "load_dataset", "read_series"]
__all__ += ["GradientCheck", "Predictor", "Question", "TempogradError", "TempogradWarning"]
__all__ += ["EXPLAINERS", "AugmentedOcclusion", "ContraLSP", "DeepLift", "Dynamask", "Explainer", "ExtremalMask"]
__all__ += ["Fit", "GradientShap", "IntegratedGradients", "Lime", "MaskingIG", "Occlusion", "RandIG", "Random"]
__all__ += ["TimeX", "TimeXPP", "Timing", "WinIT", "explain"]
__all__ += ["Blocks", "Explanation", "Explanations", "InputExplanation", "concat"]
__all__ += ["METRICS", "Metric", "compare", "evaluate", "removal_curve", "report", "summarise", "table"]
__all__ += ["MODELS", "accuracy", "load_model", "save_model", "train"]
__all__ += ["Ranking", "Tuning", "rank", "tune"]
__all__ += ["BaselineComparison", "GroupComparison", "compare_baselines", "compare_groups"]
__all__ += ["WhatIf", "what_if"]

# Where the public names live, in the order in which these need each other
_HOMES = ["core.errors", "core.estimate", "core.question", "data", "engine", "models", "explanation", "explainers"]
_HOMES += ["metrics", "views.baselines", "views.groups", "views.as_usual", "html_report", "tuning", "bulk"]

if not TYPE_CHECKING:  # or type checkers would believe that any name is there

    def __getattr__(name: str) -> object:
        """Load a public name, or a module of the package, the first time that somebody asks for it."""
        try:
            if not name.startswith("_"):
                return import_module(f"tempograd.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"tempograd.{name}":
                raise
        for home in _HOMES if name in __all__ else ():
            module = import_module(f"tempograd.{home}")
            if name in getattr(module, "__all__", vars(module)):
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'tempograd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
