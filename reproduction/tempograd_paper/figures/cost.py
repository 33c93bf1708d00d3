"""Cost and score of every method of a run, for the picture of faithfulness against cost."""

from collections.abc import Iterable, Mapping

import numpy as np

from tempograd.core.errors import InputError
from tempograd.metrics import summarise
from tempograd.plots.choices import CostRow
from tempograd_paper.runner.record import Record


def cost_rows(records: Mapping[str, Record] | Iterable[Record], measure: str) -> list[CostRow]:
    """Return one row per method from the records of a benchmark.

    The cost is the wall time of explaining divided by the number of series; what a method learnt from training
    series before, and the search for its settings, are not counted. Where there are several records of a
    method, one per fold, the score is the mean of their means with the standard error over folds; else it is the
    mean over series with the standard error over series.

    Parameters
    ----------
    records : mapping or iterable of Record
        For instance what ``tempograd_paper.tables.load_records`` returns; of one data set and one model.
    measure : str
        Name of a measure, such as ``"cpd50_zero"``.
    """
    listed = list(records.values() if isinstance(records, Mapping) else records)
    kinds = {(record.cell.dataset, record.cell.model) for record in listed}
    if len(kinds) > 1:
        raise InputError(f"The records are of {len(kinds)} data sets or models: pass those of one of them.")
    groups: dict[str, list[Record]] = {}
    for record in listed:
        if measure not in record.scores:
            raise InputError(f"There is no measure {measure!r}: expected one of {', '.join(record.scores)}.")
        group = groups.setdefault(record.cell.method, [])
        if any(other.cell.fold == record.cell.fold for other in group):
            raise InputError(
                f"Two records are of {record.cell.method} in fold {record.cell.fold}: pass one of them."
            )
        group.append(record)
    return [_row(method, group, measure) for method, group in groups.items()]


def _row(method: str, group: list[Record], measure: str) -> CostRow:
    seconds = [record.facts["seconds"]["explain"] / len(record.ids) for record in group]
    means = [summarise(record.scores[measure]) for record in group]
    if len(group) == 1:
        return CostRow(method, seconds[0], means[0].mean, means[0].standard_error)
    values = np.array([each.mean for each in means])
    error = float(values.std(ddof=1) / len(values) ** 0.5)
    return CostRow(method, float(np.mean(seconds)), float(values.mean()), error)
