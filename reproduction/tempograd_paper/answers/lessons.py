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
from tempograd_paper.labels import DATASET_LABELS, METHOD_LABELS
from tempograd_paper.protocols.fair import GRIDS, VALIDATION
from tempograd_paper.protocols.tuned import BUDGET
from tempograd_paper.statistics import inseparable, sign_test, signed_rank_test
from tempograd_paper.tables.archive import load_records
from tempograd_paper.tables.tabulation import tabulate

ABLATION = "rand_ig"
QUESTIONS = (("published", "zero"), ("published", "average"), ("fair", "zero"), ("fair", "average"))
TUNED = (("tuned", "zero"), ("tuned", "average"), ("tuned", "background"))
ALIKE = "every method tuned by the same call under the same budget"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CLOSE = 2.0  # standard errors
OWN_CANDIDATES = 3  # of TIMING under the fair protocol, whose segments depend on the length of a series


@dataclass(frozen=True)
class Lessons:
    """What the page is written from.

    Attributes
    ----------
    blocks : mapping
        The scores of each protocol and baseline, one block for each data set.
    met : mapping
        Of each data set of the paper, how many published CPDs lie within two standard errors of ours, and how many
        there are.
    untuned : tuple of str
        Methods that had nothing to choose under the tuned protocol.
    """

    blocks: dict[tuple[str, str], list[Block]]
    met: dict[str, tuple[int, int]]
    untuned: tuple[str, ...] = ()

    @property
    def judged(self) -> str:
        """The protocol that tells who is best: the tuned one where it was run on several data sets."""
        return "tuned" if len(self.blocks.get(TUNED[0], ())) > 1 else "fair"

    def comparison(self, protocol: str, baseline: str, *, ablation: bool = False) -> Comparison:
        """Compare all methods that every data set has; with the ablation, on the data sets that have it."""
        blocks = self.blocks[protocol, baseline]
        return compare_methods([block for block in blocks if not ablation or ABLATION in block.scores])


def learn(results: Path) -> Lessons:
    """Read the kept results."""
    blocks = {question: load_blocks(results, *question) for question in (*QUESTIONS, *TUNED)}
    met: dict[str, tuple[int, int]] = {}
    for name in ("table3-1000-published", "table4-published"):
        plan = plan_of(results / name)
        found = tabulate(plan, load_records(results / name, plan))
        for panel in found.panels:
            if panel.left_out:
                continue
            gaps = [
                abs(entry.deviation.in_errors)
                for row in panel.entries
                for measure, entry in zip(plan.measures, row, strict=True)
                if measure.metric == "cpd"
                and entry.deviation is not None
                and entry.deviation.in_errors is not None
            ]
            met[panel.dataset] = sum(gap <= CLOSE for gap in gaps), len(gaps)
    return Lessons(blocks, met, _untuned(results))


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
    best = lessons.comparison(lessons.judged, "zero")
    parts = [
        "# What we learnt",
        "<!-- written by `python -m tempograd_paper answers` (make tables): change that, not this page -->",
        "Every number here is computed from the records in "
        "[`reproduction/results/`](../reproduction/results/README.md) "
        "when the page is written; [results.md](results.md) has the tables. CPD, GRU models; 10 % of the cells "
        "are "
        "removed, of PhysioNet 2012 fifty.",
        f"**Are the published numbers met?** {_met(lessons.met)}",
        f"**Is TIMING more faithful than IG?** {claim_against_ig(lessons)} In % of IG's CPD; bold where a 95 % "
        "interval "
        "over models and series (over series where one model was run) excludes 0:",
        _differences(lessons),
        f"**Is it the best?** {claim_over_all(lessons)} {_with_others(lessons)} {_with_ablation(lessons)} "
        f"Critical difference of {_number(len(best.methods))} methods on {_number(len(best.blocks))} data sets: "
        f"{best.difference:.2f} ranks.",
        "![Mean ranks of the methods, and which cannot be told apart](pictures/ranks.png)",
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
        p_values = f"sign test p = {sign_test(gaps):.3f}, Wilcoxon p = {signed_rank_test(gaps):.3f}"
        parts.append((ahead, len(gaps), p_values, f"{protocol}, {_words(baseline)}"))
    groups: dict[tuple[int, int, str], list[str]] = {}
    for ahead, count, p_values, where in parts:
        groups.setdefault((ahead, count, p_values), []).append(where)
    sentences = [
        f"ahead on {_number(ahead)} of {_number(count)} data sets ({'; '.join(where)}: {p_values})"
        for (ahead, count, p_values), where in groups.items()
    ]
    return f"TIMING is {', and '.join(sentences)}."


def claim_over_all(lessons: Lessons) -> str:
    """Say what can be told about TIMING among all methods, tuned alike if that was run, zeros."""
    found = lessons.comparison(lessons.judged, "zero")
    rank = found.test.ranks[found.methods.index(OWN)]
    near, under = (
        _near(found),
        "Under the fair protocol, with" if lessons.judged == "fair" else f"With {ALIKE}, and",
    )
    return (
        f"{under} zeros in place of removed values, TIMING has a mean rank of {rank:.1f} "
        "among "
        f"{_number(len(found.methods))} methods on {_number(len(found.blocks))} data sets (Friedman "
        f"p = {found.test.p_value:.3f}); {_cannot(near)}."
    )


def _with_others(lessons: Lessons) -> str:
    """Say the same of the baselines other than zero."""
    protocol = lessons.judged
    asked = ["average"] + (["background"] if len(lessons.blocks.get((protocol, "background"), ())) > 1 else [])
    return " ".join(_with_baseline(lessons.comparison(protocol, name), name) for name in asked)


def _with_baseline(found: Comparison, baseline: str) -> str:
    start = f"With {_words(baseline)}"
    if found.test.p_value > 0.05:
        return f"{start} no method differs for certain (Friedman p = {found.test.p_value:.2f})."
    return f"{start} (Friedman p = {found.test.p_value:.3f}) {_cannot(_near(found))}."


def _with_ablation(lessons: Lessons) -> str:
    found = lessons.comparison(lessons.judged, "zero", ablation=True)
    ranks = dict(zip(found.methods, found.test.ranks, strict=True))
    better = "ahead of" if ranks[ABLATION] < ranks[OWN] else "behind"
    return (
        f"On the {_number(len(found.blocks))} data sets that have RandIG, the paper's own ablation, its mean "
        "rank is "
        f"{ranks[ABLATION]:.1f}, {better} TIMING's {ranks[OWN]:.1f}."
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
    parts = [f"{DATASET_LABELS[name]} {close} of {count}" for name, (close, count) in met.items()]
    return (
        "Published protocol, CPDs within two standard errors (both together) of the paper's: "
        f"{', '.join(parts)}. Wafer "
        "and Freezer are the paper's data; the splits of Epilepsy and the rows of Boiler, four fifths of which "
        "are "
        "missing, are not; Switch-Feature and State are drawn anew. MIMIC-III and PAM were not at hand."
    )


def _differences(lessons: Lessons) -> str:
    head = ["", *(f"{protocol}, {_words(baseline)}" for protocol, baseline in QUESTIONS)]
    columns = [[_difference(block) for block in lessons.blocks[question]] for question in QUESTIONS]
    names = [DATASET_LABELS[block.dataset] for block in lessons.blocks[QUESTIONS[0]]]
    return aligned([head, *([name, *row] for name, row in zip(names, zip(*columns, strict=True), strict=True))])


def _difference(block: Block) -> str:
    gap, rival = block.difference(OWN, RIVAL), block.means([RIVAL])[0]
    text = f"{100 * gap.mean / abs(rival):+.1f}".replace("-", "−")
    return f"**{text}**" if gap.excludes_zero else text


def _caveats(lessons: Lessons) -> Iterator[str]:
    single = [
        DATASET_LABELS[block.dataset]
        for block in lessons.blocks[lessons.judged, "zero"]
        if len(block.folds((OWN, RIVAL))) == 1
    ]
    if single:
        yield (
            f"One model each, under the {lessons.judged} protocol: {_list(single)}. Another model may come out "
            "otherwise."
        )
    yield (
        "All folds start from the same initial weights, and most share their test series: errors over folds are "
        "too "
        "small. Other initial weights moved CPD on Switch-Feature by about six of them "
        "(`perf/results/published_cells.json`)."
    )
    yield (
        "The published TIMING of State and Switch-Feature is the setting of the released sweep with the best "
        "CPD on the "
        "test series themselves; the other published settings were most likely chosen so, too."
    )
    if lessons.judged == "tuned":
        untuned = f"; nothing to choose: {_list(lessons.untuned)}" if lessons.untuned else ""
        yield (
            f"{ALIKE.capitalize()} means {BUDGET:g} explanations of {VALIDATION} validation series, by CPD, for "
            f"each baseline{untuned}. Some methods declare more settings than others. In the fair columns above "
            f"TIMING chose among {NUMBERS[OWN_CANDIDATES]} candidates, IG among none."
        )
        yield (
            'WinIT draws from the values of each channel instead of its generator: it is "WinIT (marginal)". The '
            "contrast of ContraLSP is among its candidates."
        )
        return
    yield (
        f"Not all were tuned alike, on 100 validation series by CPD with zeros: {_tuned()}. Part of a lead may be "
        "that."
    )
    yield (
        'The fair WinIT draws from the values of each channel instead of its generator: it is "WinIT (marginal)". '
        "ContraLSP runs without its contrast, as released."
    )


def _tuned() -> str:
    """Say how many candidates each method had; methods without a grid had one, TIMING has its own three."""
    sizes = {name: len(grid) for name, grid in GRIDS.items()} | {OWN: OWN_CANDIDATES}
    several = {size for size in sizes.values() if size > 1}
    parts = [
        f"{NUMBERS[size]} candidates for "
        f"{_list([METHOD_LABELS[name] for name, own in sizes.items() if own == size])}"
        for size in sorted(several, reverse=True)
    ]
    return f"{', '.join(parts)}, one for all others"


def _words(baseline: str) -> str:
    return {"zero": "zeros", "average": "averages", "background": "values of other series"}[baseline]


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _list(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
