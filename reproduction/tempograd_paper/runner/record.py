"""What running a cell leaves behind: one file, written whole or not at all."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from tempograd.core.errors import DataError, short_path
from tempograd.core.io import load, made, write_atomically
from tempograd_paper.cell import Cell, cell_from

UNREADABLE = (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What reading JSON of any content and depth, and taking it apart, may raise."""


@dataclass(frozen=True, eq=False)
class Record:
    """The scores of a cell and where they come from.

    Parameters
    ----------
    cell : Cell
    ids : LongTensor of shape (N,)
        The explained series.
    scores : dict of str to Tensor
        By the names of the cell's measures: float32 (N,), or (1,) for a metric pooled over the series.
    facts : dict
        Plain JSON: ``model`` (accuracy, majority, auroc, auroc_error, at_chance, …), ``parameters`` of the
        explainer as it ran, ``chosen`` (the settings picked on validation series, None where nothing was to be
        picked), ``versions``, ``device``, and ``seconds`` (train, explain, evaluate), the one part that two runs
        do not share.
    """

    cell: Cell
    ids: Tensor
    scores: dict[str, Tensor]
    facts: dict[str, Any]

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file whose header holds the cell and the facts as JSON."""
        # a single entry, because safetensors writes several in an order of its own
        header = {"tempograd": json.dumps({"cell": asdict(self.cell), "facts": self.facts}, sort_keys=True)}
        tensors = {"ids": self.ids} | {f"score.{name}": score for name, score in self.scores.items()}
        made(Path(path).parent)
        return write_atomically(path, lambda temporary: save_file(tensors, temporary, header))

    @classmethod
    def load(cls, path: str | Path) -> "Record":
        """Read what :meth:`save` wrote."""
        try:
            header, tensors = load(path)
            plain = json.loads(header["tempograd"])
            ids, cell = tensors.pop("ids"), cell_from(plain["cell"], Path(path).stem)
            scores = {name.removeprefix("score."): score for name, score in tensors.items()}
            return cls(cell, ids, scores, plain["facts"]).checked()
        except FileNotFoundError:
            raise DataError(f"{short_path(path)} does not exist.") from None
        except (*UNREADABLE, safetensors.SafetensorError) as error:
            raise DataError(
                f"{short_path(path)} is no record of a benchmark: remove it, and run the plan again."
            ) from error

    def checked(self) -> "Record":
        """Refuse parts that do not fit each other, which nobody wrote."""
        right = self.ids.ndim == 1 and self.ids.dtype == torch.int64
        for score in self.scores.values():
            right &= score.is_floating_point() and score.shape in {(1,), self.ids.shape}
        for part in ("model", "seconds"):
            right &= isinstance(self.facts.get(part, {}), dict)
        if not right or {measure.name for measure in self.cell.measures} != set(self.scores):
            raise ValueError("parts do not fit each other")
        return self
