"""Choosing: the settings of a method that suit a model, and the method that does."""

from tempograd.tuning.racing import Trial, Tuning, tune
from tempograd.tuning.ranking import Ranked, Ranking, rank

__all__ = ["Ranked", "Ranking", "Trial", "Tuning", "rank", "tune"]
