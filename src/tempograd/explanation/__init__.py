"""The result of an explainer, how good it is, and its file."""

from tempograd.explanation.core import Explanation
from tempograd.explanation.record import Blocks, Facts, InputExplanation
from tempograd.explanation.targets import Explanations, concat

__all__ = ["Blocks", "Explanation", "Explanations", "Facts", "InputExplanation", "concat"]
