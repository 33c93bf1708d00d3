"""What was not run, from the records that are kept."""

from itertools import product
from pathlib import Path

from tempograd_paper.answers.blocks import kept_folders, plan_of, records_of
from tempograd_paper.answers.words import folds, listed
from tempograd_paper.labels import DATASET_LABELS, MODEL_LABELS

PROTOCOLS = ("published", "tuned")  # the tuned one takes the place of the fair one
WHOLE_WAFER = "table3-open-published"  # one data set by intention: table3-1000 has the others


def what_was_left_out(results: Path) -> str:
    """List the missing cells of every kept table of the published and the tuned protocol."""
    lines = []
    for folder in kept_folders(results):
        if folder.name.endswith(PROTOCOLS) and folder.name != WHOLE_WAFER and (found := _missing(folder)):
            lines.append(f"* `{folder.name}`: {'; '.join(found)}.")
    return "\n".join(lines)


def _missing(folder: Path) -> list[str]:
    """Return what is missing, rows that lack the same together."""
    plan, records = plan_of(folder), records_of(folder)
    places = list(product(plan.datasets, plan.models))
    rows: dict[str, list[str]] = {}
    for row in plan.rows:
        found: dict[str, list[str]] = {}  # places by what is missing there
        for dataset, model in places:
            lost = [fold for fold in plan.folds if plan.cell(dataset, model, fold, row).key not in records]
            parts = [DATASET_LABELS[dataset]] * (len(plan.datasets) > 1)
            parts += [MODEL_LABELS[model]] * (len(plan.models) > 1)
            if lost:
                some = f"in {folds(lost)}" if len(lost) < len(plan.folds) else ""
                found.setdefault(some, []).append(" ".join(parts))
        where = []
        for some, names in found.items():
            on = f"on {listed(names)}" if len(names) < len(places) else ""
            where.append(" ".join(filter(None, [on, some])) or "everywhere")
        if where:
            rows.setdefault(listed(where), []).append(row.label)
    return [f"{'all rows' if len(who) == len(plan.rows) else listed(who)} {where}" for where, who in rows.items()]
