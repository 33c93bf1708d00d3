"""Classifiers to explain: three architectures, their training, and their files."""

from tempograd.engine.model import find_device
from tempograd.models.files import load_classifier, load_model, save_model
from tempograd.models.networks import MODELS, Classifier, build
from tempograd.models.training import Recipe, accuracy, train

__all__ = ["MODELS", "Classifier", "Recipe", "accuracy", "build", "find_device", "load_classifier", "load_model"]
__all__ += ["save_model", "train"]
