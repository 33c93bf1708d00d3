"""What was not run, from the records that are kept."""

from pathlib import Path

from tempograd_paper.answers.blocks import kept_folders, plan_of, records_of
from tempograd_paper.answers.words import folds, listed
from tempograd_paper.labels import DATASET_LABELS, MODEL_LABELS

PROTOCOLS = ("published", "tuned")  # the tuned one takes the place of the fair one
WHOLE_WAFER = "table3-open-published"  # one data set by intention: table3-1000 has the others

Places = tuple[tuple[str, tuple[int, ...]], ...]
"""Data sets and models, and the folds that are missing there."""


def what_was_left_out(results: Path) -> str:
    """List the missing cells of every kept table of the published and the tuned protocol."""
    lines = []
    for folder in kept_folders(results):
        if folder.name.rsplit("-", 1)[1] in PROTOCOLS and folder.name != WHOLE_WAFER:
            found = _missing(folder)
            if found:
                lines.append(f"* `{folder.name}`: {'; '.join(found)}.")
    return "\n".join(lines)


def _missing(folder: Path) -> list[str]:
    """Return what is missing, rows that lack the same together."""
    plan, records = plan_of(folder), records_of(folder)
    groups: dict[Places, list[str]] = {}
    for row in plan.rows:
        places: dict[str, list[int]] = {}
        for dataset in plan.datasets:
            for model in plan.models:
                parts = [DATASET_LABELS[dataset]] * (len(plan.datasets) > 1)
                parts += [MODEL_LABELS[model]] * (len(plan.models) > 1)
                for fold in plan.folds:
                    if plan.cell(dataset, model, fold, row).key not in records:
                        places.setdefault(" ".join(parts), []).append(fold)
        if places:
            groups.setdefault(tuple((name, tuple(found)) for name, found in places.items()), []).append(row.label)
    everywhere = len(plan.datasets) * len(plan.models)
    found = []
    for missing, labels in groups.items():
        who = "all rows" if len(labels) == len(plan.rows) else listed(labels)
        found.append(f"{who} {_where(missing, len(plan.folds), everywhere)}")
    return found


def _where(places: Places, every: int, everywhere: int) -> str:
    by_folds: dict[tuple[int, ...], list[str]] = {}
    for name, missing in places:
        by_folds.setdefault(missing, []).append(name)
    parts = []
    for missing, names in by_folds.items():
        on = f"on {listed(names)}" if len(names) < everywhere else ""
        parts.append(" ".join(filter(None, [on, "" if len(missing) == every else f"in {folds(missing)}"])))
    return listed([part or "everywhere" for part in parts])
