"""The page of answers says what the records say, and the README says no more."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tempograd_paper.answers import writing
from tempograd_paper.answers.blocks import kept_folders
from tempograd_paper.answers.lessons import (
    PUBLISHED,
    QUESTIONS,
    TUNED,
    Lessons,
    claim_against_ig,
    claim_over_all,
    learn,
    write_page,
)
from tempograd_paper.answers.writing import rank_panels
from tempograd_paper.commands import main

from .test_blocks import block, kept_means

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "reproduction/results"


@pytest.fixture(scope="module")
def lessons():
    return learn(RESULTS)


def test_the_page_is_what_the_records_give(lessons):
    assert (ROOT / "docs/learnt.md").read_text(encoding="utf-8") == write_page(lessons)


def test_the_page_fits_one_screen(lessons):
    words = len(write_page(lessons).split())
    assert words < 700


def test_the_readme_makes_no_other_claim(lessons):
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert claim_against_ig(lessons) in readme
    assert claim_over_all(lessons) in readme


def test_the_claim_about_ig_follows_from_the_scores(lessons):
    """Each number of the sentence, by scipy from the means of the two methods on their common folds."""
    text = claim_against_ig(lessons)
    for question in QUESTIONS:
        pairs = [each.means(("timing", "integrated_gradients")) for each in lessons.blocks[question]]
        gaps = np.array([own - rival for own, rival in pairs])
        sign = stats.binomtest(int((gaps > 0).sum()), len(gaps)).pvalue
        assert f"sign test p = {sign:.3f}, Wilcoxon p = {stats.wilcoxon(gaps).pvalue:.3f}" in text


def made_lessons(timing):
    """Three methods on three data sets; TIMING's mean is what is asked for, the others' 0.5 and 0.1."""
    names = ("state", "wafer", "boiler")
    rest = {"integrated_gradients": {0: [0.4, 0.6]}, "lime": {0: [0.1, 0.1]}, "rand_ig": {0: [0.2, 0.2]}}
    blocks = [
        block(name, timing={0: [mean - 0.05, mean + 0.05]}, **rest)
        for name, mean in zip(names, timing, strict=True)
    ]
    return Lessons(dict.fromkeys(QUESTIONS, blocks), {"Wafer": (1, 2)})


def test_a_page_against_timing_says_so():
    found = made_lessons([0.3, 0.25, 0.9])
    assert claim_against_ig(found).startswith(
        "TIMING is ahead of IG on one of three data sets (published, zeros; "
    )
    text = write_page(found)
    assert "| State  |           −40.0 |" in text  # of a half, on two series: not certain
    assert "Wafer 1 of 2." in text
    assert (
        "on the three data sets that have it: mean rank 3.0 against 1.7 with zeros, 3.0 against 1.7 with" in text
    )


def test_one_that_is_better_than_all_is_told_from_them():
    """The critical difference is 1.1 ranks here: first and last are told apart, neighbours are not."""
    blocks = [block(timing={0: [3.0, 3.0]}, lime={0: [2.0, 2.0]}, integrated_gradients={0: [1.0, 1.0]})] * 9
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, blocks), {}))
    assert "a mean rank of 1.0 among three methods on nine data sets (Friedman p < 0.001)" in text
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
    assert main(["answers", "--results", str(tmp_path), "--docs", str(tmp_path)]) == 1
    assert "holds no kept results: name the folder reproduction/results." in capsys.readouterr().err
    assert not (tmp_path / "learnt.md").exists()


def test_the_best_is_told_from_tuned_records():
    published = made_lessons([0.9, 0.9, 0.9]).blocks
    others = made_lessons([0.45, 0.45, 0.45]).blocks[TUNED[0]]  # IG is ahead once both are tuned
    tuned = [replace(each, protocol="tuned") for each in others]
    lessons = Lessons(published | dict.fromkeys(TUNED, tuned), {}, untuned=("FO", "IG"))
    text = claim_over_all(lessons)
    assert text.startswith("With every method tuned by the same call under the same budget, and zeros in place of")
    assert "a mean rank of 2.0 among four methods on three data sets" in text
    page = write_page(lessons)
    assert "With values of other series" in page
    assert "for each baseline; nothing to choose: FO and IG." in page
    titles = [panel.title for panel in rank_panels(lessons)]
    assert titles[1:] == [
        "Tuned protocol, zeros · 3 data sets",
        "Tuned protocol, zeros · 3 data sets, with RandIG",
    ]


def test_data_sets_with_fewer_models_are_named():
    one, two = {0: [1.0, 1.0]}, {0: [1.0, 1.0], 1: [2.0, 2.0]}
    scores = {"lime": two, "rand_ig": two}
    blocks = [
        block("wafer", timing=two, integrated_gradients=two, **scores),
        block("state", timing=one, integrated_gradients=two, **scores),
    ]
    page = write_page(Lessons(dict.fromkeys(QUESTIONS, blocks), {}))
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
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, [found] * 9), {}))
    assert "among two methods on nine data sets" in text
    assert text.endswith(
        "it can be told from all others. With FIT among the methods, which some folds lack, it "
        "cannot be told from FIT."
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
    assert "State as released 2 of 11." in write_page(lessons)


def test_winit_is_called_by_its_sampler_where_it_cannot_be_told_apart():
    blocks = [replace(block(timing={0: [2.0, 2.0]}, winit={0: [1.0, 1.0]}), protocol="fair")] * 2
    text = claim_over_all(Lessons(dict.fromkeys(QUESTIONS, blocks), {}))
    assert text.endswith("it cannot be told from WinIT (marginal).")
