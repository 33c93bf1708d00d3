"""Explanations that were written to files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempograd.explanation import Explanation


def load(paths: Sequence[Path]) -> "dict[str, Explanation]":
    """Read explanations of the same series, named by their methods, or by their files where methods repeat."""
    from tempograd.explanation import Explanation
    from tempograd.shown import labelled

    found = [Explanation.load(path) for path in paths]
    methods = [explanation.method for explanation in found]
    stems = [path.stem for path in paths]
    labels = [method if methods.count(method) == 1 else stem for method, stem in zip(methods, stems, strict=True)]
    if len(set(labels)) < len(labels):  # files of one name in several folders, or one file twice
        return labelled(found)
    return labelled(dict(zip(labels, found, strict=True)))
