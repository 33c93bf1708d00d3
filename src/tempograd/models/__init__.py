"""Classifiers to explain: the three of the paper, their training, and their files."""

from tempograd.models.base import MODELS, Classifier, build
from tempograd.models.checkpoint import load_classifier, save_model
from tempograd.models.convolutional import CNNClassifier
from tempograd.models.evaluation import accuracy
from tempograd.models.own import load_model
from tempograd.models.recipes import RECIPES, Recipe
from tempograd.models.recurrent import GRUClassifier
from tempograd.models.training import train
from tempograd.models.transformer import TransformerClassifier

__all__ = [
    "MODELS",
    "RECIPES",
    "CNNClassifier",
    "Classifier",
    "GRUClassifier",
    "Recipe",
    "TransformerClassifier",
    "accuracy",
    "build",
    "load_classifier",
    "load_model",
    "save_model",
    "train",
]
