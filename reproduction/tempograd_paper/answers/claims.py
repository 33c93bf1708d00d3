"""What the records say, sentence by sentence: each is computed, and the page and the README quote them."""

from collections.abc import Iterator, Sequence

import numpy as np

from tempograd_paper.answers.blocks import OWN, RIVAL, SEGMENTED, Block, Comparison
from tempograd_paper.answers.lessons import ABLATION, AS_RELEASED, PUBLISHED, TUNED, Choice, Lessons, Met
from tempograd_paper.answers.words import BASELINES, ahead, folds, listed, number, number_of, p_value, percent
from tempograd_paper.labels import DATASET_LABELS, FAMILY, MODEL_LABELS, SEGMENTS_ONLY, method_label
from tempograd_paper.protocols.fair import VALIDATION
from tempograd_paper.protocols.tuned import BUDGET
from tempograd_paper.statistics import inseparable, sign_test

GRU = MODEL_LABELS["gru"]
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
        parts.append(f"{_share(found)} {what} of table {table}")
    return (
        f"{listed(parts)} lie within two standard errors (both together) of the paper's, under the published "
        f"protocol with {GRU}s."
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
    """Say the same for each data set, and what can be compared with what."""
    cpd = [f"{met.dataset} {met.close} of {met.every}" for met in lessons.met if met.metric == "CPD"]
    metrics = dict.fromkeys(met.metric for met in lessons.met if met.metric != "CPD")
    rest = [f"{metric} {_share([met for met in lessons.met if met.metric == metric])}" for metric in metrics]
    text = f"CPD by data set: {', '.join(cpd)}."
    if rest:
        text += f" In table 4 {listed(rest)}."
    twice = _same_twice(lessons)
    if twice:
        text += f" {listed(twice)} count twice in table 3, where zeros and averages are one question to them."
    return (
        f"{text} Wafer and Freezer are the paper's data; the splits of Epilepsy and the rows of Boiler, four "
        "fifths of which are missing, are not; Switch-Feature and State are drawn anew. MIMIC-III and PAM were "
        "not at hand."
    )


def _share(found: Sequence[Met]) -> str:
    return f"{sum(met.close for met in found)} of {sum(met.every for met in found)}"


def _same_twice(lessons: Lessons) -> list[str]:
    """Return the data sets whose scores are the same with zeros and averages, but for rounding."""
    return [
        DATASET_LABELS[zero.dataset]
        for zero, average in zip(*(lessons.blocks[question] for question in PUBLISHED), strict=True)
        if np.allclose(zero.means((OWN, RIVAL)), average.means((OWN, RIVAL)), rtol=1e-4)
    ]


# TIMING against integrated gradients


def claim_against_ig(lessons: Lessons) -> str:
    """Say on how many data sets TIMING is ahead of IG, how likely that were by chance, and what it rests on."""
    first = lessons.blocks[PUBLISHED[0]]
    text = f"With {GRU}s, published protocol, zeros, TIMING is ahead of IG on {ahead(_gaps(first))}"
    others = []
    if lessons.released:
        names = listed([DATASET_LABELS[block.dataset] + AS_RELEASED for block in lessons.released])
        others.append(f"with {names} on {ahead(_gaps(_replaced(first, lessons.released)))}")
    if lessons.reseeded:
        names = listed([DATASET_LABELS[block.dataset] for block in lessons.reseeded])
        replaced = _replaced(first, lessons.reseeded)
        others.append(f"with other initial weights of {names} on {ahead(_gaps(replaced))}")
    return "; ".join([text, *others]) + "."


def what_it_rests_on(lessons: Lessons) -> str:
    """Say what the p-values hang on, and that further columns are no further tests."""
    count = len(lessons.blocks[PUBLISHED[0]])
    less = sign_test([1.0] * (count - 1) + [-1.0])
    text = f"One data set decides: {number(count - 1)} of {number(count)} have {p_value(less)} by the sign test."
    same = _same_twice(lessons)
    reasons = [f"{listed(same)} have the same numbers with zeros and averages"] if same else []
    reasons.append("tuned TIMING is a family that contains IG")
    return f"{text} The other columns are no further tests: {', and '.join(reasons)}."


def _gaps(blocks: Sequence[Block]) -> list[float]:
    return [block.difference(OWN, RIVAL).mean for block in blocks]


def _replaced(blocks: Sequence[Block], others: Sequence[Block]) -> list[Block]:
    by_dataset = {block.dataset: block for block in others}
    return [by_dataset.get(block.dataset, block) for block in blocks]


def claim_models(lessons: Lessons) -> str:
    """Say in how many cases default TIMING is ahead of IG, by kind of model."""
    parts = [f"{sides[0]} of {sum(sides)} cases with {model}s" for model, sides in sides_of(lessons).items()]
    return (
        "On well-trained models of six data sets, against three baselines, TIMING with its default settings is "
        f"ahead of IG in {listed(parts)}."
    )


def sides_of(lessons: Lessons) -> dict[str, tuple[int, int, int]]:
    """Return by kind of model how often TIMING is ahead, behind and level."""
    found = {}
    for model, ratios in (lessons.ratios or {}).items():
        gaps = np.log(np.asarray(ratios))
        ahead_, behind = int((gaps > LEVEL).sum()), int((gaps < -LEVEL).sum())
        found[model] = (ahead_, behind, len(gaps) - ahead_ - behind)
    return found


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the mean of ratios that may be turned over."""
    return float(np.exp(np.log(np.asarray(ratios)).mean()))


def against_it(lessons: Lessons) -> str:
    """Say what this does not settle: how few models there are, and what others say."""
    text = "That is one model of each kind and data set, of fold 0"
    parts = [
        f"{pair.protocol} {pair.model} (AUROC {pair.auroc:.2f}) {pair.own:.3f} and {pair.rival:.3f}"
        for pair in lessons.pairs
    ]
    if not parts:
        return f"{text}."
    return f"{text}; table 8 on PhysioNet 2012 has, for TIMING and IG with zeros, fold 0: {', '.join(parts)}."


# tuned alike


def claim_family(lessons: Lessons) -> str:
    """Say what tuning chooses of TIMING's family."""
    kinds = [choice.member for choice in lessons.choices]
    changed = [kind for kind in kinds if kind != "default"]
    return (
        f"Tuned TIMING is a family that contains IG and RandIG: of {len(kinds)} choices {len(changed)} leave the "
        f"default, {changed.count('RandIG')} of them for RandIG, {changed.count('IG')} for IG and "
        f"{changed.count('segments')} for other segments."
    )


def claim_segments(lessons: Lessons) -> str:
    """Say how TIMING does that is tuned among segments alone, or else where tuning kept segments anyway."""
    blocks = lessons.blocks[TUNED[0]]
    if all(set(block.scores.get(SEGMENTED, ())) >= set(block.scores[OWN]) for block in blocks):
        gaps = [block.difference(SEGMENTED, RIVAL).mean for block in blocks]
        found = lessons.comparison(*TUNED[0], own=SEGMENTED)
        return (
            f"Tuned among segments alone (the row {SEGMENTS_ONLY}), zeros, it is ahead of IG on {ahead(gaps)}, "
            f"and has a mean rank of {found.rank(SEGMENTED):.1f} among {number(len(found.methods))} methods (the "
            f"family: {lessons.comparison(*TUNED[0]).rank(OWN):.1f})."
        )
    kept = _kept_segments(blocks, lessons.choices)
    gaps = _gaps([block for block, _ in kept])
    models = sum(len(found) for _, found in kept)
    every = sum(len(block.scores[OWN]) for block in blocks)
    absent = [DATASET_LABELS[each.dataset] for each in blocks if each.dataset not in {b.dataset for b, _ in kept}]
    none = f", none of {listed(absent)}" if absent else ""
    return (
        "Not all models have a row that is tuned among segments alone. For those that kept segments (zeros: "
        f"{models} of {every}{none}) TIMING is ahead of IG on {number_of(gaps)} data sets, and "
        "they are the ones that segments suit."
    )


def _kept_segments(blocks: Sequence[Block], choices: Sequence[Choice]) -> list[tuple[Block, list[int]]]:
    """Return the scores of the folds for which tuning chose segments, where there are some."""
    found = []
    for block in blocks:
        kept = [
            each.fold
            for each in choices
            if (each.dataset, each.baseline) == (block.dataset, TUNED[0][1])
            and each.member in {"default", "segments"}
        ]
        if kept:
            found.append((block.only(kept), kept))
    return found


def claim_over_all(lessons: Lessons) -> str:
    """Say what can be told about TIMING's family among all methods, tuned alike, zeros."""
    found = lessons.comparison(*TUNED[0])
    text = (
        "With every method tuned by the same call under the same budget, and zeros in place of removed values, "
        f"the {FAMILY} has a mean rank of {found.rank(OWN):.1f} among {number(len(found.methods))} methods on "
        f"{number(len(found.blocks))} data sets ({GRU}s; Friedman {p_value(found.test.p_value)}); "
        f"{_cannot(_near(found))}."
    )
    more = lessons.comparison(*TUNED[0], whole=False)
    added = [label for label, name in zip(more.labels, more.methods, strict=True) if name not in found.methods]
    if not added:
        return text
    counts = [len(block.folds(more.methods)) for block in more.blocks]
    shared = [f"{_folds_of(count)} on {number(counts.count(count))}" for count in sorted(set(counts))]
    return (
        f"{text} With {listed(added)} too there are fewer folds that all have ({listed(shared)} data sets): "
        f"{_cannot(_near(more))}."
    )


def _folds_of(count: int) -> str:
    return f"{number(count)} fold{'' if count == 1 else 's'}"


def with_others(lessons: Lessons) -> str:
    """Say the same of the baselines other than zero."""
    return " ".join(_with_baseline(lessons.comparison(*question), question[1]) for question in TUNED[1:])


def _with_baseline(found: Comparison, baseline: str) -> str:
    start = (
        f"With {BASELINES[baseline]} its rank is {found.rank(OWN):.1f} among {number(len(found.methods))} "
        f"(Friedman {p_value(found.test.p_value)})"
    )
    if found.test.p_value > 0.05:
        return f"{start}: no method differs for certain."
    return f"{start}; {_cannot(_near(found))}."


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
                    label = method_label(name, question[0])
                    found.setdefault(label, []).append(DATASET_LABELS[block.dataset] + few)
        if found:
            who = [f"{label} on {listed(where)}" for label, where in found.items()]
            parts.append(f"with {BASELINES[question[1]]} {', '.join(who)}")
    if not parts:
        return "No method is clearly ahead of it on any data set."
    return f"Clearly ahead of it, by a 95 % interval over models and series, are {'; '.join(parts)}."


def _near(found: Comparison) -> list[str]:
    """Return the methods that cannot be told from TIMING, best first."""
    groups = inseparable(found.test.ranks, found.difference)
    own = found.methods.index(found.own)
    together = {index for group in groups if own in group for index in group} - {own}
    return [found.labels[index] for index in sorted(together, key=lambda i: found.test.ranks[i])]


def _cannot(near: Sequence[str]) -> str:
    return f"it cannot be told from {listed(near)}" if near else "it can be told from all others"


# the seed, and what is removed last


def claim_seed(lessons: Lessons) -> str:
    """Say how far other initial weights move TIMING, and its lead over IG."""
    first = {block.dataset: block for block in lessons.blocks[PUBLISHED[0]]}
    parts = []
    for block in lessons.reseeded:
        common = block.folds((OWN, RIVAL))
        before, after = (each.only(common).means((OWN, RIVAL)) for each in (first[block.dataset], block))
        leads = [percent(own - rival, rival) for own, rival in (before, after)]
        few = FEW.get(len(common), "")
        parts.append(
            f"{DATASET_LABELS[block.dataset]}{few} {before[0]:.3f} → {after[0]:.3f} "
            f"(lead {leads[0]} → {leads[1]} %)"
        )
    return (
        "All folds of a published table start from the same weights. From others, TIMING's CPD with zeros, and "
        f"its lead over IG: {', '.join(parts)}. What is smaller than such steps is no finding."
    )


def claim_unimportant(lessons: Lessons) -> str:
    """Say whether mask methods leave important cells to the last, as the paper says: lower is better."""
    known = lessons.unimportant or {}
    parts, better = [], []
    for protocol in dict.fromkeys(protocol for protocol, _ in known):
        there = [name for name in (OWN, *MASKS) if (protocol, name) in known]
        common = sorted(set.intersection(*(set(known[protocol, name]) for name in there)))
        scores = {method_label(name, ""): [known[protocol, name][fold] for fold in common] for name in there}
        own = next(iter(scores.values()))
        better += [f"{name} {protocol}" for name, values in scores.items() if all(np.less(values, own))]
        shown = [f"{name} {listed([f'{value:.3f}' for value in values])}" for name, values in scores.items()]
        parts.append(f"{protocol}, {folds(common)}, {', '.join(shown)}")
    if not parts:
        return ""
    return f"{f'{listed(better)} does not' if better else 'They do'}: {'; '.join(parts)}."


def caveats(lessons: Lessons) -> Iterator[str]:
    """Say what the numbers cannot say."""
    counts = {DATASET_LABELS[each.dataset]: len(each.folds((OWN, RIVAL))) for each in lessons.blocks[TUNED[0]]}
    few = [f"{name} {number(count)}" for name, count in counts.items() if count < max(counts.values())]
    if few:
        yield (f"Models under the tuned protocol: {listed(few)}, the others {number(max(counts.values()))}.")
    yield "Most folds share their test series: errors over folds are too small."
    yield (
        "The published TIMING of State and Switch-Feature is the setting of the released sweep with the best "
        "CPD on the test series themselves."
    )
    tried = [
        f"{name} {low if low == high else f'{low} to {high}'}"
        for name, (low, high) in sorted((lessons.candidates or {}).items(), key=lambda each: -each[1][1])
    ]
    settings = f" Settings to choose from: {', '.join(tried)}." if tried else ""
    untuned = f" Nothing to choose: {listed(lessons.untuned)}." if lessons.untuned else ""
    yield (
        f"Tuned alike means at most {BUDGET:g} explanations of {VALIDATION} validation series, by CPD, for each "
        f"baseline.{settings}{untuned}"
    )
    yield (
        'WinIT draws from the values of each channel instead of its generator: it is "WinIT (marginal)". The '
        "contrast of ContraLSP is among its candidates."
    )
