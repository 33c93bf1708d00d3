"""What running a cell leaves behind: one file, written whole or not at all."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load_file, save_file
from torch import Tensor

from tempograd.benchmark.cell import Cell, cell_from
from tempograd.errors import DataError
from tempograd.files import made, write_atomically


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
            with safetensors.safe_open(path, "pt") as file:
                header = file.metadata() or {}
            tensors = load_file(path)
            plain = json.loads(header["tempograd"])
            cell, facts = cell_from(plain["cell"]), plain["facts"]
        except FileNotFoundError:
            raise DataError(f"{path} does not exist.") from None
        except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} is no record of a benchmark: remove it, and run the plan again.") from error
        ids = tensors.pop("ids")
        return cls(cell, ids, {name.removeprefix("score."): score for name, score in tensors.items()}, facts)
