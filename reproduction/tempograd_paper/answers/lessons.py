"""What is learnt from the kept records: numbers, which the page of answers puts into words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempograd_paper.answers.blocks import (
    COMPARED,
    OWN,
    RIVAL,
    Block,
    Comparison,
    compare_methods,
    load_blocks,
    plan_of,
    records_of,
    table_of,
)
from tempograd_paper.labels import DATASET_LABELS, MODEL_LABELS, method_label
from tempograd_paper.protocols.tuned import member
from tempograd_paper.runner import Record
from tempograd_paper.statistics import mean_ranks
from tempograd_paper.tables.entries import fold_value

ABLATION = "rand_ig"
PUBLISHED = (("published", "zero"), ("published", "average"))
TUNED = (("tuned", "zero"), ("tuned", "average"), ("tuned", "background"))
QUESTIONS = PUBLISHED + TUNED
SEEDED = ("table3-seed", "table4-seed")  # published, from other initial weights
RELEASED, AS_RELEASED = "table4-released", " as released"
CLOSE = 2.0  # standard errors
STUDY = "perf/results/tuning_h200.json"  # default TIMING and IG on three kinds of models, beside the records
STAND_IN, OTHER_MODELS, LEAST_FIRST = "table2-physionet2012", "table8-physionet2012", "cpp-physionet2012"


class Met(NamedTuple):
    """How many published numbers of a table lie within two standard errors of ours, and how many there are."""

    table: str
    dataset: str
    metric: str
    close: int
    every: int


class Choice(NamedTuple):
    """What tuning chose of TIMING's family for one model and baseline, and by how many series."""

    member: str
    series: int


class Pair(NamedTuple):
    """TIMING and IG on models that are no GRUs, and how good these are: means over folds."""

    protocol: str
    model: str
    folds: int
    own: float
    rival: float
    auroc: float


@dataclass(frozen=True)
class Lessons:
    """What the page is written from.

    Attributes
    ----------
    blocks : mapping
        The scores of each protocol and baseline, one block for each data set.
    met : sequence of Met
    reseeded : sequence of Block
        The published scores, zeros, from other initial weights.
    released : sequence of Block
        The same on the series that the paper ran on, where they are not those of ``blocks``.
    untuned : tuple of str
        Methods that had nothing to choose under the tuned protocol.
    choices : sequence of Choice
    candidates : mapping
        Of each method that was tuned, by its label, the fewest and the most settings that were tried.
    ratios : mapping
        Of each kind of model, by its label, the CPD of default TIMING over that of IG, one for each case.
    pairs : sequence of Pair
    order : pair of float and int, optional
        The rank correlation with the paper's table 2, and of how many methods.
    unimportant : mapping
        CPP of the largest share, by protocol, method and fold; and the share.
    """

    blocks: dict[tuple[str, str], list[Block]]
    met: Sequence[Met] = ()
    reseeded: Sequence[Block] = ()
    released: Sequence[Block] = ()
    untuned: tuple[str, ...] = ()
    choices: Sequence[Choice] = ()
    candidates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ratios: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    pairs: Sequence[Pair] = ()
    order: tuple[float, int] | None = None
    unimportant: Mapping[tuple[str, str], Mapping[int, float]] = field(default_factory=dict)

    def comparison(
        self, protocol: str, baseline: str, *, ablation: bool = False, whole: bool = True, own: str = OWN
    ) -> Comparison:
        """Compare all methods that every data set has; with the ablation, on the data sets that have it."""
        blocks = self.blocks[protocol, baseline]
        kept = [block for block in blocks if not ablation or ABLATION in block.scores]
        return compare_methods(kept, whole=whole, own=own)


def learn(results: Path) -> Lessons:
    """Read the kept results, and the study of three kinds of models that lies beside them."""
    tuned = [results / f"{name}-tuned" for name in COMPARED["tuned"]]
    records = [record for folder in tuned for record in records_of(folder).values()]
    untuned = [name for folder in tuned for name in table_of(folder).untuned]
    return Lessons(
        blocks={question: load_blocks(results, *question, COMPARED[question[0]]) for question in QUESTIONS},
        met=[met for name in (*COMPARED["published"][:2], RELEASED) for met in _met_of(results, name)],
        reseeded=load_blocks(results, "published", "zero", SEEDED),
        released=load_blocks(results, "published", "zero", [RELEASED]),
        untuned=tuple(dict.fromkeys(untuned)),
        choices=list(_choices(records)),
        candidates=_candidates(records),
        ratios=_ratios(results.parents[1] / STUDY),
        pairs=[pair for protocol in COMPARED for pair in _pairs(results / f"{OTHER_MODELS}-{protocol}")],
        order=_order(results / f"{STAND_IN}-published"),
        unimportant=_unimportant(results),
    )


def _met_of(results: Path, name: str) -> Iterator[Met]:
    folder = results / f"{name}-published"
    plan, suffix = plan_of(folder), AS_RELEASED if name == RELEASED else ""
    for panel in (each for each in table_of(folder).panels if not each.left_out):
        gaps: dict[str, list[float]] = {}
        for row in panel.entries:
            for measure, entry in zip(plan.measures, row, strict=True):
                if entry.deviation is not None and entry.deviation.in_errors is not None:
                    gaps.setdefault(measure.metric, []).append(abs(entry.deviation.in_errors))
        for metric, found in gaps.items():
            label = DATASET_LABELS[panel.dataset] + suffix
            yield Met(str(plan.table), label, metric.upper(), sum(gap <= CLOSE for gap in found), len(found))


def _choices(records: Sequence[Record]) -> Iterator[Choice]:
    for record in records:
        if record.cell.method == OWN and not record.cell.settings:
            for chosen in record.facts["chosen"].values():
                yield Choice(member(chosen["settings"]), chosen["series"])


def _candidates(records: Sequence[Record]) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = {}
    for record in records:
        cell = record.cell
        counts = [each["candidates"] for each in record.facts["chosen"].values() if each is not None]
        if counts and not cell.settings:
            found.setdefault(method_label(cell.method, cell.protocol), []).extend(counts)
    return {name: (min(counts), max(counts)) for name, counts in found.items()}


def _ratios(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Return default TIMING over IG by kind of model; where average is zero, it is one case and not two."""
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []
    found: dict[str, dict[tuple[str, float, float], float]] = {}
    for case in cases:
        dataset, model, _ = case["case"].split(":")
        own, rival = (case["methods"][name]["cpd"] for name in ("automatic", RIVAL))
        found.setdefault(MODEL_LABELS[model], {})[dataset, own, rival] = own / rival
    order = [label for label in MODEL_LABELS.values() if label in found]
    return {label: [(case[0], ratio) for case, ratio in found[label].items()] for label in order}


def _pairs(folder: Path) -> Iterator[Pair]:
    records, measure = records_of(folder), plan_of(folder).measures[0].name
    found: dict[str, list[tuple[float, float, float]]] = {}
    for record in records.values():
        if record.cell.method == OWN:
            both = record, records[replace(record.cell, method=RIVAL).key]
            own, rival = (fold_value(each.scores[measure]) for each in both)
            found.setdefault(record.cell.model, []).append((own, rival, record.facts["model"]["auroc"]))
    for model, folds in found.items():
        yield Pair(plan_of(folder).protocol, MODEL_LABELS[model], len(folds), *map(float, np.mean(folds, axis=0)))


def _order(folder: Path) -> tuple[float, int] | None:
    """Return Spearman's correlation of the first measure with the published means beside it."""
    (panel,) = table_of(folder).panels
    entries = [row[0] for row in panel.entries]
    both = [(each.summary.mean, each.published.mean) for each in entries if each.summary and each.published]
    if len(both) < 3:
        return None
    ranks = [mean_ranks([column, column]) for column in zip(*both, strict=True)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1]), len(both)


def _unimportant(results: Path) -> dict[tuple[str, str], dict[int, float]]:
    """Return the CPP of the largest share that was removed, by protocol and method, one for each fold."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for folder in (results / f"{LEAST_FIRST}-{protocol}" for protocol in COMPARED):
        last = max(plan_of(folder).measures, key=lambda each: each.k or 0)
        for record in records_of(folder).values():
            key = record.cell.protocol, record.cell.method
            found.setdefault(key, {})[record.cell.fold] = fold_value(record.scores[last.name])
    return found
