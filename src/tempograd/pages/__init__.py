"""Pictures for people: one HTML file, or one SVG."""

from tempograd.pages.build import report
from tempograd.pages.figure import figure

__all__ = ["figure", "report"]
