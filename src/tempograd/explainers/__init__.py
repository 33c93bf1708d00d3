"""Explainers: a model and its series in, one signed score per value out."""

from tempograd.explainers.augmented_occlusion import AugmentedOcclusion
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.contralsp import ContraLSP
from tempograd.explainers.deep_lift import DeepLift
from tempograd.explainers.dynamask import Dynamask
from tempograd.explainers.explain import explain
from tempograd.explainers.extremal_mask import ExtremalMask
from tempograd.explainers.fit import Fit
from tempograd.explainers.gradient_shap import GradientShap
from tempograd.explainers.integrated_gradients import IntegratedGradients
from tempograd.explainers.lime import Lime
from tempograd.explainers.masking_ig import MaskingIG
from tempograd.explainers.occlusion import Occlusion
from tempograd.explainers.rand_ig import RandIG
from tempograd.explainers.random_scores import Random
from tempograd.explainers.timex import TimeX
from tempograd.explainers.timexpp import TimeXPP
from tempograd.explainers.timing import Timing
from tempograd.explainers.winit import WinIT

__all__ = [
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
]
