"""Signed, temporality-aware explanations of time-series models, with error bars and faithfulness metrics.

>>> import tempograd as tg
>>> "timing" in tg.EXPLAINERS
True
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tempograd._utils.registry import join as _join
from tempograd.version import __version__

if TYPE_CHECKING:  # names are loaded on first use, so that a command can be interrupted while torch is loaded
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
    )
    from tempograd.explainers.explain import explain
    from tempograd.explanation import Explanation
    from tempograd.html_report import report
    from tempograd.metrics import METRICS, Metric, compare, removal_curve, summarise
    from tempograd.metrics.evaluate import evaluate
    from tempograd.models import MODELS, accuracy, load_model, save_model, train

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

# Explanations draw themselves, and files of schema 1 ask for the facts of their method, by what stands above them.
_join(
    plot="tempograd.plots.series",
    show="tempograd.html_report.notebook.show",
    as_html="tempograd.html_report.notebook.as_html",
    facts="tempograd.explainers.explain.facts",
)

# Where these names live.
_HOMES = (
    "errors",
    "data",
    "engine",
    "models",
    "explainers",
    "explanation",
    "metrics",
    "html_report",
)

if not TYPE_CHECKING:  # or type checkers would believe that any name is there

    def __getattr__(name: str) -> object:
        """Load a public name, or a module of the package, the first time that somebody asks for it."""
        if name in __all__:
            for home in map(import_module, (f"tempograd.{module}" for module in _HOMES)):
                if hasattr(home, name):
                    globals()[name] = getattr(home, name)
                    return globals()[name]
        if name.startswith("_") or find_spec(f"tempograd.{name}") is None:
            raise AttributeError(f"module 'tempograd' has no attribute {name!r}")
        return import_module(f"tempograd.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
