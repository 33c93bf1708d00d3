"""The result of an explainer, how good it is, and its file."""

from tempograd.explanation.core import Explanation, Facts

__all__ = ["Explanation", "Facts"]
