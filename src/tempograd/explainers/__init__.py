"""Explainers: a model and its series in, one signed score per value out."""

from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.by_name import Random, explain
from tempograd.explainers.deep_lift import DeepLift
from tempograd.explainers.lime import Lime
from tempograd.explainers.masks import ContraLSP, Dynamask, ExtremalMask
from tempograd.explainers.occlusion import AugmentedOcclusion, Occlusion
from tempograd.explainers.path import GradientShap, IntegratedGradients, MaskingIG, RandIG
from tempograd.explainers.prefix import Fit, WinIT
from tempograd.explainers.timex import TimeX, TimeXPP
from tempograd.explainers.timing import Timing

__all__ = ["EXPLAINERS", "AugmentedOcclusion", "ContraLSP", "DeepLift", "Dynamask", "Explainer", "ExtremalMask"]
__all__ += ["Fit", "GradientShap", "IntegratedGradients", "Lime", "MaskingIG", "Occlusion", "RandIG", "Random"]
__all__ += ["TimeX", "TimeXPP", "Timing", "WinIT", "explain"]
