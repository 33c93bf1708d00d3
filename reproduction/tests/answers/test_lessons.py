"""The page of answers says what the records say, and the README says no more."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tempograd_paper.answers import lessons as reading
from tempograd_paper.answers import writing
from tempograd_paper.answers.blocks import SEGMENTED, kept_folders, plan_of, records_of
from tempograd_paper.answers.claims import (
    claim_against_ig,
    claim_family,
    claim_models,
    claim_over_all,
    claim_segments,
    claim_unimportant,
    sides_of,
)
from tempograd_paper.answers.left_out import what_was_left_out
from tempograd_paper.answers.lessons import PUBLISHED, QUESTIONS, TUNED, Lessons, Met, learn
from tempograd_paper.answers.page import START, renew_block, write_page, write_paragraphs
from tempograd_paper.answers.writing import rank_panels, renew_pages
from tempograd_paper.commands import main
from tempograd_paper.tables.archive import write_archive

from .test_blocks import block, kept_means

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "reproduction/results"
MET = [Met("3", "Wafer", "CPD", 1, 2)]


@pytest.fixture(scope="module")
def lessons():
    return learn(RESULTS)


def test_the_page_is_what_the_records_give(lessons):
    assert (ROOT / "docs/learnt.md").read_text(encoding="utf-8") == write_page(lessons)


def test_the_page_stays_short(lessons):
    prose = [line for line in write_page(lessons).splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) < 1200


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_other_pages_say_what_the_records_say(lessons, page):
    """If it fails, these lines are stale: make tables writes them anew."""
    renewed = renew_pages(RESULTS, ROOT / "docs", lessons)[ROOT / page]
    there = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert there.count(START) == 1
    assert [line for line in renewed.splitlines() if line not in there] == []
    assert renewed.splitlines() == there


def test_a_page_without_marks_stays_as_it_is():
    marked = "a\n<!-- written by make tables -->\nold\n<!-- end -->\nb\n"
    assert renew_block(marked, "new") == "a\n<!-- written by make tables -->\n\nnew\n\n<!-- end -->\nb\n"
    assert renew_block("a\nb\n", "new") == "a\nb\n"


def test_the_claim_about_ig_follows_from_the_scores(lessons):
    """Each number of the sentence, by scipy from the means of the two methods on their common folds."""
    text = claim_against_ig(lessons)
    first = {each.dataset: each for each in lessons.blocks[PUBLISHED[0]]}
    for others in ((), lessons.released, lessons.reseeded):
        blocks = first | {each.dataset: each for each in others}
        means = (each.means(("timing", "integrated_gradients")) for each in blocks.values())
        gaps = np.array([own / rival - 1 for own, rival in means])
        sign = stats.binomtest(int((gaps > 0).sum()), len(gaps)).pvalue
        p_values = f"sign test p = {sign:.3f}, Wilcoxon p = {stats.wilcoxon(gaps).pvalue:.3f}"
        assert f"{len(gaps)} data sets ({p_values})".replace("7 data", "seven data") in text


def test_kinds_of_models_are_counted_case_by_case(lessons):
    """By hand from the study: Wafer and Freezer are left out of the averages, where they are what zeros are."""
    cases = json.loads((ROOT / reading.STUDY).read_text())["cases"]
    for short, label in (("gru", "GRU"), ("cnn", "CNN"), ("transformer", "Transformer")):
        sides = [0, 0, 0]
        for case in cases:
            dataset, model, baseline = case["case"].split(":")
            if model != short or (dataset in {"wafer", "freezer"} and baseline == "average"):
                continue
            own, rival = (case["methods"][name]["cpd"] for name in ("automatic", "integrated_gradients"))
            sides[2 if abs(own / rival - 1) < 5e-4 else 0 if own > rival else 1] += 1
        assert sides_of(lessons)[label] == tuple(sides)
        places = {4: "four", 6: "six"}[
            len({case["case"].split(":")[0] for case in cases if short in case["case"]})
        ]
        assert f"{sides[0]} of {sum(sides)} cases with {label}s ({places} data sets)" in claim_models(lessons)


def test_what_tuning_chose_is_counted(lessons):
    """By hand from the settings that records keep."""
    kinds = []
    for name in ("table3-all-1000-tuned", "table4-all-tuned", "table2-physionet2012-tuned"):
        for record in records_of(RESULTS / name).values():
            if record.cell.method == "timing" and not record.cell.settings:
                kinds += [each["settings"] for each in record.facts["chosen"].values()]
    changed = [each for each in kinds if each]
    single = sum(each.get("max_length") == 1 for each in changed)
    nothing = sum("segments" in each for each in changed)
    assert (
        f"of {len(kinds)} choices {len(changed)} leave the default, {single} of them for RandIG, {nothing} for IG "
        f"and {len(changed) - single - nothing} for other segments (Wafer and Freezer,"
    ) in claim_family(lessons)


def made_lessons(timing):
    """Three methods on three data sets; TIMING's mean is what is asked for, the others' 0.5 and 0.1."""
    names = ("state", "wafer", "boiler")
    rest = {"integrated_gradients": {0: [0.4, 0.6]}, "lime": {0: [0.1, 0.1]}, "rand_ig": {0: [0.2, 0.2]}}
    blocks = [
        block(name, timing={0: [mean - 0.05, mean + 0.05]}, **rest)
        for name, mean in zip(names, timing, strict=True)
    ]
    return Lessons(dict.fromkeys(QUESTIONS, blocks), MET)


def test_a_page_against_timing_says_so():
    found = made_lessons([0.3, 0.25, 0.9])
    assert "published protocol, zeros, TIMING is ahead of IG on one of three data sets (sign" in claim_against_ig(
        found
    )
    text = write_page(found)
    assert "| State  |           −40.0 |" in text  # of a half, on two series: not certain
    assert "1 of 2 CPDs of table 3 (Wafer) lie within two standard errors" in text
    assert "CPD by data set: Wafer 1 of 2." in text
    assert "three data sets that have it a mean rank of 3.0 against 1.7 with zeros, 3.0 against 1.7 with" in text
    assert "State, Wafer and Boiler have the same numbers with zeros and averages" in text


def test_one_that_is_better_than_all_is_told_from_them():
    """The critical difference is 1.1 ranks here: first and last are told apart, neighbours are not."""
    blocks = [block(timing={0: [3.0, 3.0]}, lime={0: [2.0, 2.0]}, integrated_gradients={0: [1.0, 1.0]})] * 9
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, blocks), MET))
    assert "a mean rank of 1.0 among three methods on nine data sets (GRUs; Friedman p < 0.001)" in text
    assert text.endswith("it cannot be told from LIME.")


@pytest.mark.parametrize("pictures", [2, pytest.param(None, marks=pytest.mark.slow)], ids=["two", "all"])
def test_the_command_writes_page_and_pictures(tmp_path, capsys, monkeypatch, lessons, pictures):
    """The page is of all results; of two of them the pictures are drawn always."""
    folders = kept_folders(RESULTS)
    monkeypatch.setattr(writing, "learn", {RESULTS: lessons}.__getitem__)
    monkeypatch.setattr(writing, "kept_folders", {RESULTS: folders[:pictures]}.__getitem__)
    assert main(["answers", "--results", str(RESULTS), "--docs", str(tmp_path)]) == 0
    assert (tmp_path / "learnt.md").read_text(encoding="utf-8") == (ROOT / "docs/learnt.md").read_text(
        encoding="utf-8"
    )
    written = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert written == {f"dots_{folder.name}.png" for folder in folders[:pictures]} | {"ranks.png"}
    assert len(re.findall("Wrote ", capsys.readouterr().out)) == len(written) + 1


def test_every_kept_table_has_a_picture():
    kept = {f"dots_{folder.name}.png" for folder in kept_folders(RESULTS)}
    assert {path.name for path in (ROOT / "docs/pictures").glob("dots_*.png")} == kept


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    assert main(["answers", "--results", str(tmp_path), "--docs", str(tmp_path)]) == 3
    assert "holds no kept results: name the folder reproduction/results." in capsys.readouterr().err
    assert not (tmp_path / "learnt.md").exists()


def without(scores, name):
    return {key: values for key, values in scores.items() if key != name}


def test_the_best_is_told_from_tuned_records():
    published = made_lessons([0.9, 0.9, 0.9]).blocks
    others = made_lessons([0.45, 0.45, 0.45]).blocks[TUNED[0]]  # IG is ahead once both are tuned
    tuned = [replace(each, protocol="tuned") for each in others]
    lessons = Lessons(published | dict.fromkeys(TUNED, tuned), MET, untuned=("FO", "IG"))
    text = claim_over_all(lessons)
    assert text.startswith("With every method tuned by the same call under the same budget, and zeros in place of")
    assert "a mean rank of 2.0 among four methods on three data sets" in text
    page = write_page(lessons)
    assert "With values of other series" in page
    assert "for each baseline. Nothing to choose: FO and IG." in page
    titles = [panel.title for panel in rank_panels(lessons)]
    assert titles[1:] == ["Tuned protocol, zeros · 3 data sets"]  # RandIG is in it
    some = [
        replace(each, scores=without(each.scores, "rand_ig")) if each.dataset == "wafer" else each
        for each in tuned
    ]
    panels = rank_panels(replace(lessons, blocks=published | dict.fromkeys(TUNED, some)))
    assert panels[-1].title == "Tuned protocol, zeros · 2 data sets, with RandIG"
    assert "TIMING family" in panels[-1].labels


def test_data_sets_with_fewer_models_are_named():
    one, two = {0: [1.0, 1.0]}, {0: [1.0, 1.0], 1: [2.0, 2.0]}
    scores = {"lime": two, "rand_ig": two}
    blocks = [
        block("wafer", timing=two, integrated_gradients=two, **scores),
        block("state", timing=one, integrated_gradients=two, **scores),
    ]
    page = write_page(Lessons(dict.fromkeys(QUESTIONS, blocks), MET))
    assert "Models under the tuned protocol: State one, the others two." in page


def test_what_other_initial_weights_move_is_of_the_same_folds():
    """By hand: of fold 1 alone, which the new run has, TIMING 0.4 against 0.2, then 0.3 against 0.4."""
    lessons = made_lessons([0.9, 0.9, 0.9])
    before = block("wafer", timing={0: [9.0, 9.0], 1: [0.3, 0.5]}, integrated_gradients={0: [1.0], 1: [0.2, 0.2]})
    after = block("wafer", timing={1: [0.3, 0.3]}, integrated_gradients={0: [5.0], 1: [0.4, 0.4]})
    lessons = replace(lessons, reseeded=[after])
    lessons.blocks[PUBLISHED[0]] = [
        before if each.dataset == "wafer" else each for each in lessons.blocks[TUNED[0]]
    ]
    assert "Wafer, one fold, 0.400 → 0.300 (lead +100.0 → −25.0 %)." in write_page(lessons)


def test_a_verdict_that_hangs_on_a_method_with_fewer_folds_is_told_with_it():
    both = {0: [3.0, 3.0], 1: [3.0, 3.0]}
    found = block(timing=both, integrated_gradients={0: [1.0] * 2, 1: [1.0] * 2}, fit={0: [2.0, 2.0]})
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, [found] * 9), MET))
    assert "among two methods on nine data sets" in text
    assert text.endswith(
        "it can be told from all others. With FIT too there are fewer folds that all have (one fold on nine data "
        "sets): it cannot be told from FIT."
    )


def test_the_released_series_are_told_beside_the_drawn_ones(lessons):
    """IG and TIMING by hand from the file; only the mean of five folds is compared."""
    kept = kept_means(RESULTS / "table4-released-published", "cpd10%_zero")
    own, rival = (
        np.mean([mean for (_, method, _), mean in kept.items() if method == name])
        for name in ("timing", "integrated_gradients")
    )
    percent = f"{100 * (own - rival) / rival:+.1f}".replace("-", "−")
    assert f"On State as released, published, zeros: **{percent}**." in write_page(lessons)
    assert "State as released 2 of 11. In table 4 AUP" in write_page(lessons)


def test_winit_is_called_by_its_sampler_where_it_cannot_be_told_apart():
    blocks = [replace(block(timing={0: [2.0, 2.0]}, winit={0: [1.0, 1.0]}), protocol="fair")] * 2
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, blocks), MET))
    assert text.endswith("it cannot be told from WinIT (marginal).")


# what segments do by themselves, and what is not there


def test_segments_alone_are_told_once_every_model_has_them():
    """TIMING tuned among segments alone is behind IG on one of three data sets, where the family is IG itself."""
    both = {0: [0.5, 0.5], 1: [0.5, 0.5]}
    blocks = [
        block(name, timing=both, integrated_gradients=both, rand_ig=both, lime=both) for name in ("state", "wafer")
    ]
    assert claim_segments(Lessons(dict.fromkeys(QUESTIONS, blocks), MET)) == ""
    alone = {"state": {0: [0.4, 0.4], 1: [0.4, 0.4]}, "wafer": {0: [0.7, 0.7], 1: [0.7, 0.7]}}
    whole = [replace(each, scores={**each.scores, SEGMENTED: as_arrays(alone[each.dataset])}) for each in blocks]
    found = Lessons(dict.fromkeys(QUESTIONS, whole), MET)
    assert claim_segments(found) == (
        "Tuned among segments alone (the row TIMING (segments)), zeros, it is ahead of IG on one of two data sets "
        "(sign test p = 1.000, Wilcoxon p = 1.000), and has a mean rank of 2.5 among four methods (the family: "
        "2.5, the best: IG 2.5); it cannot be told from IG, RandIG and LIME."
    )
    assert SEGMENTED not in found.comparison(*TUNED[0]).methods  # one TIMING is ranked at a time


def as_arrays(scores):
    return {fold: np.array(values) for fold, values in scores.items()}


def test_a_mask_method_that_is_better_than_timing_is_named():
    known = {
        ("published", "timing"): {0: 0.2, 1: 0.3, 2: 0.1},
        ("published", "extremal_mask"): {0: 0.1, 1: 0.2},
        ("published", "contralsp"): {0: 0.1, 1: 0.4},
    }
    lessons = replace(made_lessons([0.9, 0.9, 0.9]), unimportant=known)
    assert claim_unimportant(lessons) == (
        "Extrmask published does not: published, folds 0 and 1, TIMING 0.200 and 0.300, Extrmask 0.100 and 0.200, "
        "ContraLSP 0.100 and 0.400."
    )


@pytest.mark.slow
def test_cells_that_arrive_renew_what_is_said_of_them(tmp_path, lessons):
    """Without some cells pages say less, and with them what they said before: nothing is written by hand."""
    name = "table4-all-tuned"
    plan, records = plan_of(RESULTS / name), records_of(RESULTS / name)
    for folder in [*kept_folders(RESULTS), RESULTS / "plans"]:
        if folder.name != name:
            (tmp_path / folder.name).symlink_to(folder)
    fewer = {
        key: record
        for key, record in records.items()
        if record.cell.method != "gradient_shap" or record.cell.dataset == "state"
    }
    write_archive(tmp_path / name, plan, fewer)
    assert "GradSHAP on Switch-Feature;" in what_was_left_out(tmp_path)
    before, whole = (each.comparison(*TUNED[0]).methods for each in (learn(tmp_path), lessons))
    assert set(whole) - set(before) == {"gradient_shap"}
    write_archive(tmp_path / name, plan, records, force=True)
    after = learn(tmp_path)
    after = replace(after, ratios=lessons.ratios)  # of a study that lies elsewhere
    assert write_page(after) == write_page(lessons)
    assert write_paragraphs(after) == write_paragraphs(lessons)
    assert what_was_left_out(tmp_path) == what_was_left_out(RESULTS)
