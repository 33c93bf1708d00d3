"""Explanations for people: one HTML file."""

from tempograd.html_report.build import report

__all__ = ["report"]
