"""What has to be said about a table and its panels."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from tempograd.metrics import Summary
from tempograd_paper.labels import DATASET_LABELS, FAMILY, MODEL_LABELS, PROGRAM, SEGMENTS_ONLY, SYNTHETIC
from tempograd_paper.protocols.fair import VALIDATION
from tempograd_paper.protocols.settings import SEGMENTS
from tempograd_paper.protocols.tuned import BUDGET
from tempograd_paper.tables.entries import TableEntry, stands_in
from tempograd_paper.tables.published_numbers import substitution_is_stated
from tempograd_paper.tables.tabulation import Panel, Table

ABSENT, INCOMPLETE, REFUSED = "–", "†", "‡"


def panel_label(panel: Panel) -> str:
    """Name data set and model, and the folds that do not count."""
    label = f"{DATASET_LABELS.get(panel.dataset, panel.dataset)}, {MODEL_LABELS.get(panel.model, panel.model)}"
    return label + (f", without {_folds(fold for fold, _ in panel.left_out)}" if panel.left_out else "")


def about_panel(panel: Panel) -> str:
    """Say what the numbers of a panel are over, and how good the explained models are."""
    if not panel.folds:
        return "Nothing was run here."
    low, high = panel.series
    series = f"{low}" if low == high else f"{low} to {high}"
    if panel.over == "folds":
        over = f"Mean ± standard error over {len(panel.folds)} folds, each the mean over its {series} test series"
    else:
        over = f"Mean (standard error) over the {series} test series of {_folds(panel.folds)}"
    sentences = [f"{over}.", *_about_models(panel)]
    if panel.left_out:
        reasons = "; ".join(f"fold {fold}, {reason}" for fold, reason in panel.left_out)
        sentences.append(f"Left out: {reasons}.")
    if not panel.ranked:
        sentences.append("Not ranked, because a model that has learnt nothing has nothing to explain.")
    return " ".join(sentences)


def error_of(text: str, over: str) -> str:
    """Set a standard error behind its mean: ± is over folds everywhere, brackets over the series of one fold.

    Examples
    --------
    >>> "0.50" + error_of("0.02", "folds"), "0.50" + error_of("0.02", "series")
    ('0.50 ± 0.02', '0.50 (0.02)')
    """
    return f" ± {text}" if over == "folds" else f" ({text})"


def notes(table: Table, second: str) -> list[str]:
    """Say what a reader must know; ``second`` tells how the second best is set."""
    plan, entries = table.plan, list(_entries(table))
    overs = [panel.over for panel in table.panels if panel.folds]
    found = ["A head names the metric, the cells removed (a count or a share) and what takes their place."]
    if overs:
        found.append("An error after ± is over folds, one in brackets over the test series of one fold.")
    if any(entry.mark for entry in entries):
        found.append(f"Best in bold, second best {second}, by the arrow's direction; random is not ranked.")
    found += _about_deviations(table, overs)
    if any(entry.difference is not None for entry in entries):
        crossed = plan.protocol == "tuned" and "folds" in overs
        over = "models and series together, or series" if crossed else " or ".join(sorted(set(overs)))
        found.append(f"Intervals are Student's t over paired {over}{' of one fold' if crossed else ''}.")
    found += _about_published(table)
    if plan.series is not None:
        found.append(f"{plan.series} test series, evenly spaced, are explained.")
    if any(entry.summary is not None and not entry.complete for entry in entries):
        found.append(f"{INCOMPLETE} Fewer folds than other rows have: not ranked.")
    found += _about_tuning(table)
    idle = [panel_label(panel) for panel in table.panels if not panel.folds]
    if idle and len(idle) < len(table.panels):
        found.append(f"Nothing was run of {'; '.join(idle)}.")
    if table.missing:
        verb = "is" if table.missing == 1 else "are"
        found.append(
            f"{table.missing} of {table.total} cells {verb} not there ({ABSENT}): run "
            f"{PROGRAM} run {shlex.quote(plan.name)} --protocol {plan.protocol} --out RESULTS"
        )
    return found


def _about_deviations(table: Table, overs: Sequence[str]) -> Iterator[str]:
    if all(entry.deviation is None for entry in _entries(table)):
        return
    if "folds" in overs:
        yield (
            "Δ/σ: ours minus published, in units of both standard errors together. The folds start from the same "
            "initial weights and most share their test series, so it measures a distance and tests nothing."
        )
    if "series" in overs:
        yield "Δ: ours minus published; one fold has no error between folds to measure it by."


def _about_tuning(table: Table) -> Iterator[str]:
    """Say how methods came to their settings, which of them had nothing to choose, and who cannot answer."""
    if table.plan.protocol != "tuned":
        return
    yield (
        f"Every method is tuned by the same call under the same budget ({BUDGET:g} explanations of {VALIDATION} "
        "validation series, by CPD), explained and removed against the same baseline; aup and aur are of the "
        "explanation against zero."
    )
    labels = [row.label for row in table.plan.rows]
    if FAMILY in labels:
        yield (
            f"{FAMILY}: what is tried are segments, single cells, which is RandIG, and nothing held, which is "
            f"IG{f'; {SEGMENTS_ONLY}: segments alone' if SEGMENTS_ONLY in labels else ''}."
        )
    fixed = [row.label for row in table.plan.rows if row.settings not in {(), SEGMENTS}]
    if fixed:
        yield f"Not tuned, since the plan sets them: {', '.join(fixed)}."
    if table.untuned:
        yield f"Nothing to choose: {', '.join(table.untuned)}."
    reasons: dict[str, list[str]] = {}
    for panel in table.panels:
        for row, entries in zip(table.plan.rows, panel.entries, strict=True):
            for why in {entry.refused for entry in entries if entry.refused}:
                reasons.setdefault(why, []).append(row.label)
    for why, labels in reasons.items():
        yield f"{REFUSED} {', '.join(dict.fromkeys(labels))}: {why}."


def _about_models(panel: Panel) -> Iterator[str]:
    quality = panel.quality
    parts = []
    if quality.accuracy is not None:
        parts.append(f"test accuracy {_with_error(quality.accuracy, panel.over)}")
    if quality.majority is not None:
        parts.append(f"largest class {quality.majority.mean:.3f}")
    if quality.auroc is not None:
        parts.append(f"AUROC {_with_error(quality.auroc, panel.over)}")
    if parts:
        yield f"Models: {', '.join(parts)}."
    if quality.at_chance:
        yield f"At chance level: {_folds(quality.at_chance)}."


def _about_published(table: Table) -> Iterator[str]:
    plan = table.plan
    chosen = [DATASET_LABELS[name] for name in plan.datasets if name in SYNTHETIC]
    if plan.protocol == "published" and chosen and any(row.method == "timing" for row in plan.rows):
        yield (
            f"The paper does not say how TIMING is set on {' and '.join(chosen)}: of the released settings ours "
            "has "
            "the highest CPD on the test series themselves."
        )
    if plan.table is None or not any(entry.published is not None for entry in _entries(table)):
        return
    metrics = {measure.metric for measure in plan.measures}
    absent = [DATASET_LABELS.get(dataset, dataset) for dataset in plan.datasets if stands_in(plan, dataset)]
    if absent:
        yield (
            f"The paper has no {' and no '.join(absent)}: the published numbers beside it are those of "
            f"{plan.stands_for}, for orientation only."
        )
    if plan.protocol != "published" and "cpd" in metrics:
        yield (
            "CPD is summed over the classes here, as the paper defines it; the published numbers are means over "
            "them: multiply those by the number of classes (two, in PAM eight) to compare."
        )
    if "cpd" in metrics and not substitution_is_stated(plan.table):
        yield (
            f"Table {plan.table} of the paper does not say what takes the place of removed cells: its CPD stands "
            "beside zero."
        )


def _entries(table: Table) -> Iterator[TableEntry]:
    for panel in table.panels:
        for row in panel.entries:
            yield from row


def _with_error(summary: Summary, over: str) -> str:
    error = error_of(f"{summary.standard_error:.3f}", over) if summary.standard_error < float("inf") else ""
    return f"{summary.mean:.3f}{error}"


def _folds(folds: Iterable[int]) -> str:
    """Write folds as a list.

    Examples
    --------
    >>> _folds([3]), _folds([1, 2, 4])
    ('fold 3', 'folds 1, 2 and 4')
    """
    *most, last = [str(fold) for fold in folds]
    return f"folds {', '.join(most)} and {last}" if most else f"fold {last}"
