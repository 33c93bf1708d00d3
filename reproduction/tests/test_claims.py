"""Sentences of other pages on what the kept records say, written by hand there and by a record here."""

from pathlib import Path
from statistics import fmean

import pytest

from tempograd_paper.answers.blocks import load_blocks, records_of
from tempograd_paper.answers.claims import sides_of
from tempograd_paper.answers.lessons import COMPARED, STUDY, Lessons, _choices, _ratios
from tempograd_paper.tables.entries import fold_value

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction/results"
MASKS = ("dynamask", "extremal_mask", "contralsp")


def scores(name, dataset, measure, method):
    """Return the mean of each fold."""
    return [
        fold_value(record.scores[measure])
        for record in records_of(RESULTS / name).values()
        if (record.cell.dataset, record.cell.method, record.cell.settings) == (dataset, method, ())
    ]


def means(name, dataset, measure, *methods):
    return [fmean(scores(name, dataset, measure, method)) for method in methods]


def physionet():
    methods = ("timing", "occlusion", "augmented_occlusion")
    found = means("table2-physionet2012-tuned", "physionet2012", "cpd50_average", *methods)
    return "Tuned against the average, five folds, they do not: TIMING {:.3f}, FO {:.3f}, AFO {:.3f}.".format(
        *found
    )


def wafer():
    found = means("table3-all-1000-tuned", "wafer", "cpd10%_zero", "timing", "rand_ig", "lime")
    return "tuned, five folds, TIMING has {:.2f}, RandIG {:.2f} and LIME {:.2f}".format(*found)


def boiler():
    found = []
    for baseline in ("average", "zero"):
        own, rival = means(
            "table3-all-1000-tuned", "boiler", f"cpd10%_{baseline}", "timing", "integrated_gradients"
        )
        found.append(own / rival)
    return "(tuned, another model) the factors are {:.1f} and {:.1f}".format(*found)


def least_first(protocol, *methods):
    name = f"cpp-physionet2012-{protocol}"
    return [value for method in methods for value in scores(name, "physionet2012", "cpp40%_zero", method)[:2]]


def published_masks():
    found = least_first("published", "extremal_mask", "timing", "integrated_gradients")
    assert found[0] < found[2]
    assert found[1] < found[3]
    return (
        "**Extrmask as published is better than TIMING at 40 %** ({:.3f} and {:.3f} in folds 0 and 1, TIMING "
        "{:.3f} and {:.3f}, IG {:.3f} and {:.3f})".format(*found)
    )


def tuned_masks():
    found = least_first("tuned", "extremal_mask", "timing")
    return "tuned it is far worse ({:.3f} and {:.3f}, TIMING {:.3f} and {:.3f})".format(*found)


CLAIMS = [("docs/results.md", said) for said in (physionet(), wafer(), boiler(), published_masks(), tuned_masks())]


@pytest.mark.parametrize(("page", "sentence"), CLAIMS)
def test_a_page_says_what_the_records_say(page, sentence):
    """If it fails, the page is stale: it should say the sentence."""
    assert sentence in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_tuned_mask_methods_are_clearly_behind_where_the_page_says_so():
    said = " ".join((ROOT / "docs/results.md").read_text(encoding="utf-8").split())
    assert "On Wafer and Switch-Feature the family is clearly ahead of the three mask methods (five folds" in said
    assert "on Epilepsy it cannot be told from FO, GradSHAP, IG and RandIG" in said
    blocks = {each.dataset: each for each in load_blocks(RESULTS, "tuned", "zero", COMPARED["tuned"])}
    for name in ("wafer", "switch_feature"):
        for mask in MASKS:
            assert blocks[name].difference("timing", mask).low > 0
            assert len(blocks[name].folds(("timing", mask))) == 5
    for rival in ("occlusion", "gradient_shap", "integrated_gradients", "rand_ig"):
        assert not blocks["epilepsy"].difference("timing", rival).excludes_zero


def test_tuning_mostly_chooses_single_cells_where_it_chooses():
    said = " ".join((ROOT / "docs/howto/tune.md").read_text(encoding="utf-8").split())
    assert "on the paper's data, where tuning changed the default, it mostly chose [single values]" in said
    records = [record for name in COMPARED["tuned"] for record in records_of(RESULTS / f"{name}-tuned").values()]
    changed = [choice.member for choice in _choices(records) if choice.member != "default"]
    assert changed.count("RandIG") > len(changed) / 2


def test_table_3_has_no_stand_in_for_mimic():
    assert "lists PhysioNet 2012, and it was not run" in " ".join((ROOT / "docs/results.md").read_text().split())
    kept = {record.cell.dataset for record in records_of(RESULTS / "table3-open-published").values()}
    assert kept == {"wafer"}


def test_the_page_on_timing_tells_kinds_of_models_apart():
    said = " ".join((ROOT / "docs/concepts/timing.md").read_text().split())
    assert "in nearly all cases with GRUs, in about half of those with CNNs and in few with Transformers" in said
    sides = sides_of(Lessons({}, ratios=_ratios(ROOT / STUDY)))
    shares = {model: found[0] / sum(found) for model, found in sides.items()}
    assert shares["GRU"] > 0.9
    assert 0.4 < shares["CNN"] < 0.6
    assert shares["Transformer"] < 0.35
