"""What we learnt, on one page, and the paragraphs of it that the README has."""

import re
import textwrap

from tempograd._utils.formatting import table as aligned
from tempograd_paper.answers import claims
from tempograd_paper.answers.blocks import OWN, RIVAL, Block
from tempograd_paper.answers.lessons import AS_RELEASED, QUESTIONS, Lessons
from tempograd_paper.answers.words import percent
from tempograd_paper.labels import DATASET_LABELS

WIDTH = 140  # of lines of the README
START, END = "<!-- written by make tables -->", "<!-- end -->"


def write_page(lessons: Lessons) -> str:
    """Write the page."""
    parts = [
        "# What we learnt",
        "<!-- written by `python -m tempograd_paper answers` (make tables): change that, not this page -->",
        "Every number here is computed from the records in "
        "[`reproduction/results/`](../reproduction/results/README.md); [results.md](results.md) has the tables. "
        "CPD; GRU models where nothing else is said; 10 % of the cells are removed, of PhysioNet 2012 fifty. "
        "*Published* is the paper's way with the faults of its code, *tuned* ours, every method tuned alike "
        "([how](reproduce.md)); FO is feature occlusion, IG integrated gradients.",
        f"**Are the published numbers met?** {claims.claim_met(lessons)} {claims.by_dataset(lessons)} "
        f"{claims.claim_order(lessons)}".strip(),
        f"**Is TIMING more faithful than IG?** {claims.claim_against_ig(lessons)} "
        f"{claims.what_it_rests_on(lessons)} In % of IG's CPD; bold where a 95 % interval over models and series "
        "excludes 0:",
        _differences(lessons),
        *(
            f"On {DATASET_LABELS[block.dataset]}{AS_RELEASED}, published, zeros: {_difference(block)}."
            for block in lessons.released
        ),
        *_of_other_models(lessons),
        f"**Is it segments that tuning finds?** {claims.claim_family(lessons)} {claims.claim_segments(lessons)}",
        f"**Is it the best?** {claims.claim_over_all(lessons)} {claims.with_others(lessons)} "
        f"{claims.claim_ablation(lessons)} {claims.claim_beaten(lessons)} Ranked are the methods that "
        "every data set has in every fold.",
        "![Mean ranks of the methods, and which cannot be told apart](pictures/ranks.png)",
        f"**How much of it is the seed?** {claims.claim_seed(lessons)}",
        *_removed_last(lessons),
        "**What these numbers cannot say.**",
        "\n".join(f"* {line}" for line in claims.caveats(lessons)),
    ]
    return "\n\n".join(parts) + "\n"


def _of_other_models(lessons: Lessons) -> list[str]:
    sides = claims.sides_of(lessons)
    if not sides:
        return []
    rows = [["default TIMING against IG", *(f"{model}s" for model in sides)]]
    for place, name in enumerate(("ahead", "behind", "level, to 0.05 %")):
        rows.append([name, *(str(found[place]) for found in sides.values())])
    means = [claims.geometric_mean(ratios) for ratios in (lessons.ratios or {}).values()]
    rows.append(["CPD over that of IG, geometric mean", *(f"{mean:.2f}" for mean in means)])
    return [
        f"**With other models than GRUs?** {claims.claim_models(lessons)} {claims.against_it(lessons)} "
        "[tuning.md](tuning.md) has every case.",
        aligned(rows),
    ]


def _removed_last(lessons: Lessons) -> list[str]:
    found = claims.claim_unimportant(lessons)
    if not found:
        return []
    return [
        "**Do mask methods call important cells unimportant?** So the paper says. By CPP of the least important "
        f"40 % on PhysioNet 2012, which should be low, {found}"
    ]


def _differences(lessons: Lessons) -> str:
    short = {"background": "others"}  # five columns fit beside each other on the page
    head = ["", *(f"{protocol}, {short.get(baseline, baseline)}" for protocol, baseline in QUESTIONS)]
    columns = [[_difference(block) for block in lessons.blocks[question]] for question in QUESTIONS]
    names = [DATASET_LABELS[block.dataset] for block in lessons.blocks[QUESTIONS[0]]]
    return aligned([head, *([name, *row] for name, row in zip(names, zip(*columns, strict=True), strict=True))])


def _difference(block: Block) -> str:
    gap = block.difference(OWN, RIVAL)
    text = percent(gap.mean, block.means([RIVAL])[0])
    return f"**{text}**" if gap.excludes_zero else text


def write_paragraphs(lessons: Lessons) -> str:
    """Write what the README says of the paper."""
    parts = [
        f"{claims.claim_met(lessons)} {claims.claim_order(lessons)} [Results](docs/results.md) says where the "
        "published numbers are reproduced, where not and why, fault by fault.",
        f"{claims.claim_against_ig(lessons)} {claims.claim_models(lessons)} ([every case](docs/tuning.md))",
        f"{claims.claim_over_all(lessons)} {claims.claim_ablation(lessons)} {claims.claim_family(lessons)}",
        "[What we learnt](docs/learnt.md) has more of it, and what speaks against it; all of these numbers are "
        "computed from [the kept records](reproduction/results/README.md).",
    ]
    lines = [" ".join(part.split()) for part in parts]
    return "\n\n".join(
        textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False) for line in lines
    )


def renew_block(page: str, text: str) -> str:
    """Return a page with the text between its marks, or as it is where it has none."""
    marks = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
    return marks.sub(lambda _: f"{START}\n\n{text}\n\n{END}", page)
