"""What we learnt, in one screen: a page whose every number comes from the kept records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tempograd._utils.formatting import table as aligned
from tempograd_paper.answers.blocks import (
    COMPARED,
    OWN,
    RIVAL,
    Block,
    Comparison,
    compare_methods,
    kept_folders,
    load_blocks,
    plan_of,
)
from tempograd_paper.labels import DATASET_LABELS
from tempograd_paper.protocols.fair import VALIDATION
from tempograd_paper.protocols.tuned import BUDGET
from tempograd_paper.statistics import inseparable, sign_test, signed_rank_test
from tempograd_paper.tables.archive import load_records
from tempograd_paper.tables.tabulation import tabulate

ABLATION = "rand_ig"
PUBLISHED = (("published", "zero"), ("published", "average"))
TUNED = (("tuned", "zero"), ("tuned", "average"), ("tuned", "background"))
QUESTIONS = PUBLISHED + TUNED
SEEDED = ("table3-seed", "table4-seed")  # published, from other initial weights
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RELEASED, AS_RELEASED = "table4-released", " as released"
CLOSE = 2.0  # standard errors
FEW = {1: ", one fold,", 2: ", two folds,"}  # which are worth a word


@dataclass(frozen=True)
class Lessons:
    """What the page is written from.

    Attributes
    ----------
    blocks : mapping
        The scores of each protocol and baseline, one block for each data set.
    met : mapping
        Of each data set of the paper, by its label, how many published CPDs lie within two standard errors of
        ours, and how many there are.
    reseeded : sequence of Block
        The published scores, zeros, from other initial weights.
    released : sequence of Block
        The same on the series that the paper ran on, where they are not those of ``blocks``.
    untuned : tuple of str
        Methods that had nothing to choose under the tuned protocol.
    """

    blocks: dict[tuple[str, str], list[Block]]
    met: dict[str, tuple[int, int]]
    reseeded: Sequence[Block] = ()
    released: Sequence[Block] = ()
    untuned: tuple[str, ...] = ()

    def comparison(
        self, protocol: str, baseline: str, *, ablation: bool = False, whole: bool = True
    ) -> Comparison:
        """Compare all methods that every data set has; with the ablation, on the data sets that have it."""
        blocks = self.blocks[protocol, baseline]
        kept = [block for block in blocks if not ablation or ABLATION in block.scores]
        return compare_methods(kept, whole=whole)


def learn(results: Path) -> Lessons:
    """Read the kept results."""
    blocks = {question: load_blocks(results, *question, COMPARED[question[0]]) for question in QUESTIONS}
    reseeded = load_blocks(results, "published", "zero", SEEDED)
    released = load_blocks(results, "published", "zero", [RELEASED])
    met: dict[str, tuple[int, int]] = {}
    for name in (*COMPARED["published"][:2], RELEASED):
        met |= _met_of(results / f"{name}-published", AS_RELEASED if name == RELEASED else "")
    return Lessons(blocks, met, reseeded, released, _untuned(results))


def _met_of(folder: Path, suffix: str) -> dict[str, tuple[int, int]]:
    plan, met = plan_of(folder), dict[str, tuple[int, int]]()
    for panel in tabulate(plan, load_records(folder, plan)).panels:
        if panel.left_out:
            continue
        gaps = [
            abs(entry.deviation.in_errors)
            for row in panel.entries
            for measure, entry in zip(plan.measures, row, strict=True)
            if measure.metric == "cpd" and entry.deviation is not None and entry.deviation.in_errors is not None
        ]
        met[DATASET_LABELS[panel.dataset] + suffix] = sum(gap <= CLOSE for gap in gaps), len(gaps)
    return met


def _untuned(results: Path) -> tuple[str, ...]:
    """Return what had nothing to choose in any kept table of the tuned protocol, by label."""
    found: dict[str, None] = {}
    for name in COMPARED["tuned"]:
        folder = results / f"{name}-tuned"
        if folder in kept_folders(results):
            plan = plan_of(folder)
            found |= dict.fromkeys(tabulate(plan, load_records(folder, plan)).untuned)
    return tuple(found)


def write_page(lessons: Lessons) -> str:
    """Write the page."""
    parts = [
        "# What we learnt",
        "<!-- written by `python -m tempograd_paper answers` (make tables): change that, not this page -->",
        "Every number here is computed from the records in "
        "[`reproduction/results/`](../reproduction/results/README.md); [results.md](results.md) has the tables. "
        "CPD, GRU models; 10 % of the cells are removed, of PhysioNet 2012 fifty. *Published* is the paper's way "
        "with the faults of its code, *tuned* ours, every method tuned alike ([how](reproduce.md)); FO is feature "
        "occlusion, IG integrated gradients.",
        f"**Are the published numbers met?** {_met(lessons.met)}",
        f"**Is TIMING more faithful than IG?** {claim_against_ig(lessons)} In % of IG's CPD; bold where a 95 % "
        "interval over models and series excludes 0:",
        _differences(lessons),
        *(
            f"On {DATASET_LABELS[block.dataset]}{AS_RELEASED}, published, zeros: {_difference(block)}."
            for block in lessons.released
        ),
        f"**Is it the best?** {claim_over_all(lessons)} {_with_others(lessons)} {_with_ablation(lessons)} "
        "Ranked are the methods that every data set has in every fold.",
        "![Mean ranks of the methods, and which cannot be told apart](pictures/ranks.png)",
        f"**How much of it is the seed?** {_of_the_seed(lessons)}",
        "**What these numbers cannot say.**",
        "\n".join(f"* {line}" for line in _caveats(lessons)),
    ]
    return "\n\n".join(parts) + "\n"


def claim_against_ig(lessons: Lessons) -> str:
    """Say on how many data sets TIMING is ahead of IG, and how likely that were by chance."""
    parts = []
    for protocol, baseline in QUESTIONS:
        gaps = [block.difference(OWN, RIVAL).mean for block in lessons.blocks[protocol, baseline]]
        ahead = sum(gap > 0 for gap in gaps)
        p_values = f"sign test {_p(sign_test(gaps))}, Wilcoxon {_p(signed_rank_test(gaps))}"
        parts.append((ahead, len(gaps), p_values, f"{protocol}, {_words(baseline)}"))
    groups: dict[tuple[int, int, str], list[str]] = {}
    for ahead, count, p_values, where in parts:
        groups.setdefault((ahead, count, p_values), []).append(where)
    sentences = [
        f"{_number(ahead)} of {_number(count)} data sets ({'; '.join(where)}: {p_values})"
        for (ahead, count, p_values), where in groups.items()
    ]
    return f"TIMING is ahead of IG on {', and on '.join(sentences)}."


def claim_over_all(lessons: Lessons) -> str:
    """Say what can be told about TIMING among all methods, tuned alike, zeros."""
    found = lessons.comparison("tuned", "zero")
    rank = found.test.ranks[found.methods.index(OWN)]
    text = (
        "With every method tuned by the same call under the same budget, and zeros in place of removed values, "
        f"TIMING has a mean rank of {rank:.1f} among {_number(len(found.methods))} methods on "
        f"{_number(len(found.blocks))} data sets (Friedman {_p(found.test.p_value)}); {_cannot(_near(found))}."
    )
    more = lessons.comparison("tuned", "zero", whole=False)
    added = [more.labels[more.methods.index(name)] for name in more.methods if name not in found.methods]
    if not added:
        return text
    return f"{text} With {_list(added)} among the methods, which some folds lack, {_cannot(_near(more))}."


def _with_others(lessons: Lessons) -> str:
    """Say the same of the baselines other than zero."""
    return " ".join(_with_baseline(lessons.comparison(*question), question[1]) for question in TUNED[1:])


def _with_baseline(found: Comparison, baseline: str) -> str:
    rank = found.test.ranks[found.methods.index(OWN)]
    start = (
        f"With {_words(baseline)} its rank is {rank:.1f} among {_number(len(found.methods))} (Friedman "
        f"{_p(found.test.p_value)})"
    )
    if found.test.p_value > 0.05:
        return f"{start}: no method differs for certain."
    return f"{start}; {_cannot(_near(found))}."


def _with_ablation(lessons: Lessons) -> str:
    parts = []
    for protocol, baseline in TUNED:
        found = lessons.comparison(protocol, baseline, ablation=True)
        ranks = dict(zip(found.methods, found.test.ranks, strict=True))
        parts.append(f"{ranks[ABLATION]:.1f} against {ranks[OWN]:.1f} with {_words(baseline)}")
    return (
        f"RandIG, the paper's own ablation, on the {_number(len(found.blocks))} data sets that have it: mean rank "
        f"{', '.join(parts)}."
    )


def _of_the_seed(lessons: Lessons) -> str:
    """Say how far other initial weights move TIMING, and its lead over IG."""
    first = {block.dataset: block for block in lessons.blocks[PUBLISHED[0]]}
    parts = []
    for block in lessons.reseeded:
        folds = block.folds((OWN, RIVAL))
        before, after = (each.only(folds).means((OWN, RIVAL)) for each in (first[block.dataset], block))
        leads = [_percent(own - rival, rival) for own, rival in (before, after)]
        few = FEW.get(len(folds), "")
        parts.append(
            f"{DATASET_LABELS[block.dataset]}{few} {before[0]:.3f} → {after[0]:.3f} "
            f"(lead {leads[0]} → {leads[1]} %)"
        )
    return (
        "All folds of a published table start from the same weights. From others, TIMING's CPD with zeros, and "
        f"its lead over IG: {', '.join(parts)}. What is smaller than such steps is no finding."
    )


def _near(found: Comparison) -> list[str]:
    """Return the methods that cannot be told from TIMING, best first."""
    groups = inseparable(found.test.ranks, found.difference)
    own = found.methods.index(OWN)
    together = {index for group in groups if own in group for index in group} - {own}
    return [found.labels[index] for index in sorted(together, key=lambda i: found.test.ranks[i])]


def _cannot(near: Sequence[str]) -> str:
    return f"it cannot be told from {_list(near)}" if near else "it can be told from all others"


def _met(met: dict[str, tuple[int, int]]) -> str:
    parts = [f"{name} {close} of {count}" for name, (close, count) in met.items()]
    return (
        "Published protocol, CPDs within two standard errors (both together) of the paper's: "
        f"{', '.join(parts)}. Wafer "
        "and Freezer are the paper's data; the splits of Epilepsy and the rows of Boiler, four fifths of which "
        "are "
        "missing, are not; Switch-Feature and State are drawn anew. MIMIC-III and PAM were not at hand."
    )


def _differences(lessons: Lessons) -> str:
    short = {"background": "others"}  # five columns fit beside each other on the page
    head = ["", *(f"{protocol}, {short.get(baseline, baseline)}" for protocol, baseline in QUESTIONS)]
    columns = [[_difference(block) for block in lessons.blocks[question]] for question in QUESTIONS]
    names = [DATASET_LABELS[block.dataset] for block in lessons.blocks[QUESTIONS[0]]]
    return aligned([head, *([name, *row] for name, row in zip(names, zip(*columns, strict=True), strict=True))])


def _difference(block: Block) -> str:
    gap = block.difference(OWN, RIVAL)
    text = _percent(gap.mean, block.means([RIVAL])[0])
    return f"**{text}**" if gap.excludes_zero else text


def _percent(gap: float, whole: float) -> str:
    return f"{100 * gap / abs(whole):+.1f}".replace("-", "−")


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.0005 else f"p = {value:.3f}"


def _caveats(lessons: Lessons) -> Iterator[str]:
    counts = {DATASET_LABELS[each.dataset]: len(each.folds((OWN, RIVAL))) for each in lessons.blocks[TUNED[0]]}
    few = [f"{name} {_number(count)}" for name, count in counts.items() if count < max(counts.values())]
    if few:
        yield (f"Models under the tuned protocol: {_list(few)}, the others {_number(max(counts.values()))}.")
    yield "Most folds share their test series: errors over folds are too small."
    yield (
        "The published TIMING of State and Switch-Feature is the setting of the released sweep with the best "
        "CPD on the test series themselves."
    )
    untuned = f"; nothing to choose: {_list(lessons.untuned)}" if lessons.untuned else ""
    yield (
        f"Tuned alike means {BUDGET:g} explanations of {VALIDATION} validation series, by CPD, for each "
        f"baseline{untuned}. Some methods declare more settings than others."
    )
    yield (
        'WinIT draws from the values of each channel instead of its generator: it is "WinIT (marginal)". The '
        "contrast of ContraLSP is among its candidates."
    )


def _words(baseline: str) -> str:
    return {"zero": "zeros", "average": "averages", "background": "values of other series"}[baseline]


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _list(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
