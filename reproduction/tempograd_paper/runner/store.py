"""The folder of a run: prepared data, trained models, explanations and records, each named by its key."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from tempograd.core.errors import DataError, TempogradError, short_path, warn
from tempograd.core.io import made, sweep, write_atomically
from tempograd.data import DATASETS, Dataset, load_dataset
from tempograd.explanation import Explanation
from tempograd.models import Classifier, load_classifier, save_model
from tempograd_paper.cell import Cell
from tempograd_paper.datasets.prepared import load_prepared, save_prepared
from tempograd_paper.runner.record import UNREADABLE, Record

FOLDERS = ("", "data", "models", "explanations", "records", "failures")

FACTS = ("chosen", "warnings", "seconds")
"""What is noted of an explanation beside it."""


@dataclass(frozen=True)
class Store:
    """Files below one folder; each appears whole or not at all, and its name says what it depends on."""

    folder: Path

    def data_path(self, cell: Cell) -> Path:
        """Where the prepared series lie: one file for all folds, unless a data set brings its own."""
        fold = f"-{cell.fold}" if DATASETS[cell.dataset].own_folds else ""
        return self.folder / "data" / f"{cell.dataset}-{cell.kept_variant}{fold}.safetensors"

    def model_path(self, cell: Cell) -> Path:
        return self.folder / "models" / f"{cell.model_key}.safetensors"

    def explanation_path(self, cell: Cell, baseline: str | None = None) -> Path:
        """Where an explanation lies; under the tuned protocol there is one for each ``baseline``."""
        key = cell.explanation_key if baseline is None else cell.explanation_key_against(baseline)
        return self.folder / "explanations" / f"{key}.safetensors"

    def record_path(self, cell: Cell) -> Path:
        return self.folder / "records" / f"{cell.key}.safetensors"

    def prepare(self, cell: Cell, root: Path | None) -> None:
        """Read the original files once, so that cells need nothing but arrays."""
        if self.data_path(cell).exists():
            return
        own = DATASETS[cell.dataset].own_folds
        data = load_dataset(cell.dataset, root=root, variant=cell.variant, fold=cell.fold if own else None)
        save_prepared(data, self.data_path(cell))

    def data(self, cell: Cell) -> Dataset:
        """Read the prepared series of a cell's fold."""
        data = load_prepared(self.data_path(cell))
        return data if DATASETS[cell.dataset].own_folds else data.fold(cell.fold)

    def has_model(self, cell: Cell) -> bool:
        return self.model_path(cell).exists()

    def save_model(self, cell: Cell, model: nn.Module, facts: dict[str, Any]) -> None:
        save_model(model, _ready(self.model_path(cell)), facts=facts)

    def model(self, cell: Cell, device: str) -> Classifier:
        return load_classifier(self.model_path(cell), device)

    def explanation(self, cell: Cell, baseline: str | None = None) -> tuple[Explanation, dict[str, Any]] | None:
        """Read a finished explanation, without its series, and the facts that were noted with it."""
        path = self.explanation_path(cell, baseline)
        if not path.exists():
            return None
        try:
            facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            return Explanation.load(path), {name: facts[name] for name in FACTS}
        except (TempogradError, *UNREADABLE):
            warn(f"{short_path(path)} or the .json beside it is damaged: its series are explained again.")
            return None

    def save_explanation(
        self, cell: Cell, explanation: Explanation, facts: dict[str, Any], baseline: str | None = None
    ) -> None:
        path = _ready(self.explanation_path(cell, baseline))
        # the facts come first: where the explanation is, they are
        write_atomically(path.with_suffix(".json"), lambda temporary: temporary.write_text(json.dumps(facts)))
        explanation.save(path, series=False)

    def sweep(self) -> None:
        """Remove what writers that were killed left behind."""
        for folder in FOLDERS:
            sweep(self.folder / folder)

    def has_record(self, cell: Cell) -> bool:
        """Whether there is a record of this cell that can be read; half a file is none."""
        try:
            return Record.load(self.record_path(cell)).cell == cell
        except DataError:
            return False

    def save_record(self, record: Record) -> None:
        record.save(self.record_path(record.cell))
        self._failure_path(record.cell).unlink(missing_ok=True)

    def note_failure(self, cell: Cell, text: str) -> None:
        """Keep the traceback of a cell that failed, until it succeeds."""
        path = _ready(self._failure_path(cell))
        write_atomically(path, lambda temporary: temporary.write_text(f"{cell}\n\n{text}"))

    def _failure_path(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.key}.txt"


def _ready(path: Path) -> Path:
    """Return a path whose folder is there."""
    made(path.parent)
    return path
