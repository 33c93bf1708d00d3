"""Explanations for people: one HTML file."""

from tempograd.pages.build import report

__all__ = ["report"]
