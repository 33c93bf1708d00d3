"""Explanations and models from files, and whether they belong together."""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.errors import TempogradWarning

if TYPE_CHECKING:
    from tempograd.data import Split
    from tempograd.explanation import Explanation
    from tempograd.models import Classifier


def load_pair(model_path: Path, path: Path, device: str) -> "tuple[Classifier, Explanation]":
    """Load a model and an explanation; warn if another model was explained."""
    from tempograd.engine import fingerprint
    from tempograd.explanation import Explanation
    from tempograd.models import load_model

    explanation, model = Explanation.load(path), load_model(model_path, device)
    here = fingerprint(model)()
    if here != explanation.fingerprint:
        warnings.warn(
            f"{path} explains another model ({explanation.fingerprint}) than {model_path} ({here}).",
            TempogradWarning,
            stacklevel=2,
        )
    return model, explanation


def matching_split(explanation: "Explanation", args: argparse.Namespace) -> "Split | None":
    """Return the explained series from ``--data``, if it was given."""
    from tempograd.cli.series import read_series
    from tempograd.pages.selection import aligned

    if args.data is None:
        return None
    return aligned(explanation, read_series(args.data, args.split, args.root, args.variant).split)
