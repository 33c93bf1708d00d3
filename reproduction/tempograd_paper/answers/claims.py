"""What the records say, sentence by sentence: each is computed, and the templates of the pages name them."""

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

import numpy as np

from tempograd.core.formatting import table as aligned
from tempograd_paper.answers.blocks import OWN, RIVAL, SEGMENTED, Block, Comparison
from tempograd_paper.answers.lessons import ABLATION, AS_RELEASED, PUBLISHED, QUESTIONS, TUNED, Lessons, Met
from tempograd_paper.answers.words import BASELINES, ahead, folds, listed, number, p_value, percent
from tempograd_paper.labels import FAMILY, SEGMENTS_ONLY, method_label
from tempograd_paper.protocols.fair import VALIDATION
from tempograd_paper.protocols.tuned import BUDGET
from tempograd_paper.statistics import inseparable, sign_test

LEVEL = 0.0005  # CPDs that differ by less than a twentieth of a per cent are level
FEW = {1: ", one fold,", 2: ", two folds,"}  # which are worth a word
MASKS = ("extremal_mask", "contralsp")  # of which the paper says that they leave important cells to the last


# the published numbers


def claim_met(lessons: Lessons) -> str:
    """Say how many published numbers are met, of all that can be compared."""
    parts = []
    for table in dict.fromkeys(met.table for met in lessons.met):
        found = [met for met in lessons.met if met.table == table]
        what = "CPDs" if {met.metric for met in found} == {"CPD"} else "numbers"
        where = listed(list(dict.fromkeys(met.dataset for met in found)))
        parts.append(f"{_share(found)} {what} of table {table} ({where})")
    return (
        f"{listed(parts)} lie within two standard errors (both together) of the paper's, under the published "
        "protocol with GRUs."
    )


def claim_order(lessons: Lessons) -> str:
    """Say how alike the order of methods is to the paper's on other data."""
    if lessons.order is None:
        return ""
    correlation, methods = lessons.order
    return (
        f"On PhysioNet 2012, in place of MIMIC-III, the order of {number(methods)} methods is much that of the "
        f"paper's table 2 (rank correlation of CPD {correlation:.2f})."
    )


def by_dataset(lessons: Lessons) -> str:
    """Say the same for each data set, and what counts twice."""
    cpd = [f"{met.dataset} {met.close} of {met.every}" for met in lessons.met if met.metric == "CPD"]
    metrics = dict.fromkeys(met.metric for met in lessons.met if met.metric != "CPD")
    rest = [f"{metric} {_share([met for met in lessons.met if met.metric == metric])}" for metric in metrics]
    sentences = [f"CPD by data set: {', '.join(cpd)}."]
    if rest:
        sentences.append(f"In table 4 {listed(rest)}.")
    if twice := _same_twice(lessons):
        sentences.append(f"{twice} count twice in table 3, where zeros and averages are one question to them.")
    return " ".join(sentences)


def _share(found: Sequence[Met]) -> str:
    return f"{sum(met.close for met in found)} of {sum(met.every for met in found)}"


def _same_twice(lessons: Lessons) -> str:
    """Name the data sets whose scores are the same with zeros and averages, but for rounding."""
    pairs = zip(*(lessons.blocks[question] for question in PUBLISHED), strict=True)
    means = [(zero.label, [each.means((OWN, RIVAL)) for each in (zero, average)]) for zero, average in pairs]
    return listed([label for label, (zero, average) in means if np.allclose(zero, average, rtol=1e-4)])


# TIMING against integrated gradients


def claim_against_ig(lessons: Lessons) -> str:
    """Say on how many data sets TIMING is ahead of IG, how likely that were by chance, and what it rests on."""
    first = {block.dataset: block for block in lessons.blocks[PUBLISHED[0]]}
    text = f"With GRUs, published protocol, zeros, TIMING is ahead of IG on {ahead(_gaps(first.values()))}"
    changes = (("", lessons.released, AS_RELEASED), ("other initial weights of ", lessons.reseeded, ""))
    for before, blocks, after in changes:
        if blocks:
            names = listed([block.label + after for block in blocks])
            replaced = first | {block.dataset: block for block in blocks}
            text += f"; with {before}{names} on {ahead(_gaps(replaced.values()))}"
    return f"{text}."


def what_it_rests_on(lessons: Lessons) -> str:
    """Say what the p-values hang on, and that further columns are no further tests."""
    count = len(lessons.blocks[PUBLISHED[0]])
    less = sign_test([1.0] * (count - 1) + [-1.0])
    same = _same_twice(lessons)
    reason = f"{same} have the same numbers with zeros and averages, and " if same else ""
    return (
        "Wilcoxon's test ranks differences in % of IG's CPD. "
        f"One data set decides: {number(count - 1)} of {number(count)} have {p_value(less)} by the sign test. The "
        f"other columns are no further tests: {reason}tuned TIMING is a family that contains IG."
    )


def differences(lessons: Lessons) -> str:
    """Lay out how far TIMING is ahead of IG, by data set and question."""
    short = {"background": "others"}  # five columns fit beside each other on the page
    head = ["", *(f"{protocol}, {short.get(baseline, baseline)}" for protocol, baseline in QUESTIONS)]
    rows = zip(*(lessons.blocks[question] for question in QUESTIONS), strict=True)
    return aligned([head, *([row[0].label, *map(_difference, row)] for row in rows)])


def on_released_series(lessons: Lessons) -> str:
    """Say the same of the series that the paper ran on."""
    return "\n\n".join(
        f"On {block.label}{AS_RELEASED}, published, zeros: {_difference(block)}." for block in lessons.released
    )


def _difference(block: Block) -> str:
    gap = block.difference(OWN, RIVAL)
    text = percent(gap.mean, block.means([RIVAL])[0])
    return f"**{text}**" if gap.excludes_zero else text


def _gaps(blocks: Iterable[Block], own: str = OWN) -> list[float]:
    """Return differences relative to IG's scores, which are larger on some data sets than on others."""
    return [block.difference(own, RIVAL).mean / abs(block.means([RIVAL])[0]) for block in blocks]


def claim_models(lessons: Lessons) -> str:
    """Say in how many cases default TIMING is ahead of IG, by kind of model."""
    places = {model: number(len({name for name, _ in cases})) for model, cases in lessons.ratios.items()}
    parts = [
        f"{sides[0]} of {sum(sides)} cases with {model}s ({places[model]} data sets)"
        for model, sides in sides_of(lessons).items()
    ]
    start = "On models of ours, against three baselines, TIMING with its default settings is"
    return f"{start} ahead of IG in {listed(parts)}." if parts else ""


def sides_of(lessons: Lessons) -> dict[str, tuple[int, int, int]]:
    """Return by kind of model how often TIMING is ahead, behind and level."""
    found = {}
    for model, cases in lessons.ratios.items():
        gaps = np.log([ratio for _, ratio in cases])
        first, second = int((gaps > LEVEL).sum()), int((gaps < -LEVEL).sum())
        found[model] = (first, second, len(gaps) - first - second)
    return found


def table_of_sides(lessons: Lessons) -> str:
    """Lay out how often TIMING is ahead, behind and level, and by how much."""
    names = ("default TIMING against IG", "ahead", "behind", "level, to 0.05 %")
    columns = [(f"{model}s", *map(str, sides)) for model, sides in sides_of(lessons).items()]
    means = [f"{geometric_mean(ratio for _, ratio in cases):.2f}" for cases in lessons.ratios.values()]
    rows = [*zip(names, *columns, strict=True), ("CPD over that of IG, geometric mean", *means)]
    return aligned(rows) if columns else ""


def against_it(lessons: Lessons) -> str:
    """Say what this does not settle: how few models there are, and what others say."""
    text = "That is one model of each kind and data set, of fold 0"
    parts = [
        f"{pair.protocol} {pair.model} ({number(pair.folds)} fold{'s' * (pair.folds > 1)}, AUROC "
        f"{pair.auroc:.2f}) {pair.own:.3f} and {pair.rival:.3f}"
        for pair in lessons.pairs
    ]
    more = f"; table 8 on PhysioNet 2012 has, for TIMING and IG with zeros: {', '.join(parts)}"
    return f"{text}{more if parts else ''}."


# tuned alike


def claim_family(lessons: Lessons) -> str:
    """Say what tuning chooses of TIMING's family."""
    kinds = [choice.member for choice in lessons.choices]
    changed = [kind for kind in kinds if kind != "default"]
    same = _same_twice(lessons)
    twice = f" ({same}, to which zeros and averages are one question, count twice)" if same else ""
    return (
        f"Tuned TIMING is a family that contains IG and RandIG: of {len(kinds)} choices {len(changed)} leave the "
        f"default, {changed.count('RandIG')} of them for RandIG, {changed.count('IG')} for IG and "
        f"{changed.count('segments')} for other segments{twice}."
    )


def claim_segments(lessons: Lessons) -> str:
    """Say how TIMING does that is tuned among segments alone."""
    if not all(set(each.scores.get(SEGMENTED, ())) >= set(each.scores[OWN]) for each in lessons.blocks[TUNED[0]]):
        return ""
    found = lessons.comparison(*TUNED[0], own=SEGMENTED)
    best = int(np.argmin(found.test.ranks))
    return (
        f"Tuned among segments alone (the row {SEGMENTS_ONLY}), zeros, it is ahead of IG on "
        f"{ahead(_gaps(found.blocks, SEGMENTED))}, and has a mean rank of {found.rank(SEGMENTED):.1f} among "
        f"{number(len(found.methods))} methods (the family: {lessons.comparison(*TUNED[0]).rank(OWN):.1f}, the "
        f"best: {found.labels[best]} {found.test.ranks[best]:.1f}); {_near(found)}."
    )


def claim_over_all(lessons: Lessons) -> str:
    """Say what can be told about TIMING's family among all methods, tuned alike, zeros."""
    found = lessons.comparison(*TUNED[0])
    text = (
        "With every method tuned by the same call under the same budget, and zeros in place of removed values, "
        f"the {FAMILY} has a mean rank of {found.rank(OWN):.1f} among {number(len(found.methods))} methods on "
        f"{number(len(found.blocks))} data sets (GRUs; Friedman {p_value(found.test.p_value)}); {_near(found)}."
    )
    more = lessons.comparison(*TUNED[0], whole=False)
    added = [label for label, name in zip(more.labels, more.methods, strict=True) if name not in found.methods]
    if not added:
        return text
    counts = [len(block.folds(more.methods)) for block in more.blocks]
    shared = [f"{_folds_of(count)} on {number(counts.count(count))}" for count in sorted(set(counts))]
    return (
        f"{text} With {listed(added)} too there are fewer folds that all have ({listed(shared)} data sets): "
        f"{_near(more)}."
    )


def _folds_of(count: int) -> str:
    return f"{number(count)} fold{'' if count == 1 else 's'}"


def with_others(lessons: Lessons) -> str:
    """Say the same of the baselines other than zero."""
    sentences = []
    for question in TUNED[1:]:
        found = lessons.comparison(*question)
        p = found.test.p_value
        sentences.append(
            f"With {BASELINES[question[1]]} its rank is {found.rank(OWN):.1f} among {number(len(found.methods))} "
            f"(Friedman {p_value(p)}){': no method differs for certain' if p > 0.05 else f'; {_near(found)}'}."
        )
    return " ".join(sentences)


def _near(found: Comparison) -> str:
    """Name the methods that cannot be told from TIMING, best first."""
    own = found.methods.index(found.own)
    groups = inseparable(found.test.ranks, found.difference)
    near = {index for group in groups if own in group for index in group} - {own}
    names = [found.labels[index] for index in sorted(near, key=found.test.ranks.__getitem__)]
    return f"it cannot be told from {listed(names)}" if names else "it can be told from all others"


def claim_ablation(lessons: Lessons) -> str:
    """Compare the family with the paper's own ablation, on the data sets that have it."""
    parts = []
    for question in TUNED:
        found = lessons.comparison(*question, ablation=True)
        parts.append(f"{found.rank(ABLATION):.1f} against {found.rank(OWN):.1f} with {BASELINES[question[1]]}")
    return (
        f"RandIG, the paper's own ablation without segments, has on the {number(len(found.blocks))} data sets "
        f"that have it a mean rank of {', '.join(parts)}."
    )


def claim_beaten(lessons: Lessons) -> str:
    """Name the methods that are clearly ahead of the family somewhere."""
    parts = []
    for question in TUNED:
        found: dict[str, list[str]] = {}
        for block in lessons.blocks[question]:
            for name in block.scores:
                common = block.folds((name, OWN))
                if name not in {OWN, SEGMENTED} and common and block.difference(name, OWN).low > 0:
                    few = f" ({_folds_of(len(common))})" if len(common) < len(block.scores[OWN]) else ""
                    found.setdefault(method_label(name, question[0]), []).append(block.label + few)
        if found:
            who = [f"{label} on {listed(where)}" for label, where in found.items()]
            parts.append(f"with {BASELINES[question[1]]} {', '.join(who)}")
    if not parts:
        return "No method is clearly ahead of it on any data set."
    return f"Clearly ahead of the family, by a 95 % interval over models and series, are {'; '.join(parts)}."


# the seed, what is removed last, and what tuning means


def moves_by_seed(lessons: Lessons) -> str:
    """Say how far other initial weights move TIMING, and its lead over IG."""
    first = {block.dataset: block for block in lessons.blocks[PUBLISHED[0]]}
    parts = []
    for block in lessons.reseeded:
        common = block.folds((OWN, RIVAL))
        before, after = (each.only(common).means((OWN, RIVAL)) for each in (first[block.dataset], block))
        leads = " → ".join(percent(own - rival, rival) for own, rival in (before, after))
        few = FEW.get(len(common), "")
        parts.append(f"{block.label}{few} {before[0]:.3f} → {after[0]:.3f} (lead {leads} %)")
    return ", ".join(parts)


def claim_unimportant(lessons: Lessons) -> str:
    """Say whether mask methods leave important cells to the last, as the paper says: lower is better."""
    known = lessons.unimportant
    parts, better = [], []
    for protocol in dict.fromkeys(protocol for protocol, _ in known):
        there = [name for name in (OWN, *MASKS) if (protocol, name) in known]
        common = sorted(set.intersection(*(set(known[protocol, name]) for name in there)))
        scores = {method_label(name, ""): [known[protocol, name][fold] for fold in common] for name in there}
        own = next(iter(scores.values()))
        better += [f"{name} {protocol}" for name, values in scores.items() if all(np.less(values, own))]
        shown = [f"{name} {listed([f'{value:.3f}' for value in values])}" for name, values in scores.items()]
        parts.append(f"{protocol}, {folds(common)}, {', '.join(shown)}")
    verdict = f"{listed(better)} does not" if better else "They do"
    return f"{verdict}: {'; '.join(parts)}." if parts else ""


def fewer_models(lessons: Lessons) -> str:
    """Name the data sets with fewer tuned models than others."""
    counts = {each.label: len(each.folds((OWN, RIVAL))) for each in lessons.blocks[TUNED[0]]}
    most = max(counts.values())
    few = [f"{name} {number(count)}" for name, count in counts.items() if count < most]
    return f"Models under the tuned protocol: {listed(few)}, the others {number(most)}." if few else ""


def what_was_tried(lessons: Lessons) -> str:
    """Say what "tuned alike" means for each method."""
    tried = [
        f"{name} {low if low == high else f'{low} to {high}'}"
        for name, (low, high) in sorted(lessons.candidates.items(), key=lambda each: -each[1][1])
    ]
    settings = f" Settings to choose from: {', '.join(tried)}." if tried else ""
    untuned = f" Nothing to choose: {listed(lessons.untuned)}." if lessons.untuned else ""
    few = [choice.series for choice in lessons.choices if choice.series < VALIDATION]
    fewer = (
        f" The {FAMILY}, which has many, saw fewer series in {len(few)} of {len(lessons.choices)} choices, "
        f"{min(few)} at least."
        if few
        else ""
    )
    return (
        f"Tuned alike means at most {BUDGET:g} explanations of {VALIDATION} validation series, by CPD, for each "
        f"baseline.{settings}{untuned}{fewer}"
    )
