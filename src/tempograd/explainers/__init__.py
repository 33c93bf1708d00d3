"""Explainers: a model and its series in, one signed score per value out."""

from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.deep_lift import DeepLift
from tempograd.explainers.explain import explain
from tempograd.explainers.gradient_shap import GradientShap
from tempograd.explainers.integrated_gradients import IntegratedGradients
from tempograd.explainers.lime import Lime
from tempograd.explainers.masking_ig import MaskingIG
from tempograd.explainers.rand_ig import RandIG
from tempograd.explainers.random_scores import Random
from tempograd.explainers.timing import Timing

__all__ = [
    "EXPLAINERS",
    "DeepLift",
    "Explainer",
    "GradientShap",
    "IntegratedGradients",
    "Lime",
    "MaskingIG",
    "RandIG",
    "Random",
    "Timing",
    "explain",
]
