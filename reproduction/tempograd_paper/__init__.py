"""The paper's reproduction: data sets, protocols, tables and figures, and what the released code does."""

from tempograd_paper.released import released, released_metric, train_as_released

__all__ = ["released", "released_metric", "train_as_released"]
