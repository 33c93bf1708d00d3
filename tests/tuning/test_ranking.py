"""Which explainer is best: by the truth, and by what equal ones and random scores do."""

import pytest
import torch

import tempograd as tg
from tempograd.tuning.ranking import ranked
from tests.helpers.trials import Mixed, short_cpd, weighted

RAW = {"output": "raw"}


def noise(count, seed=0):
    return torch.randn(count, 12, 1, generator=torch.Generator().manual_seed(seed))


def test_the_better_explainer_wins_and_random_is_last():
    methods = {"good": Mixed(quality=1.0), "fair": Mixed(quality=0.4)}
    found = tg.rank(weighted, noise(40), methods, metric=short_cpd(), **RAW)
    assert [row.method for row in found.table] == ["good", "fair", "random"]
    assert found.best == ("good",)
    assert found.verdict().startswith("good is ")
    lower = tg.rank(weighted, noise(40), methods, metric="cpp", k=3, **RAW)
    assert lower.best == ("good",)
    assert lower.table[0].score < lower.table[-1].score


def test_two_equal_explainers_are_not_told_apart():
    unsure = 0
    for seed in range(25):
        pair = {"a": Mixed(quality=0.5, stream=1), "b": Mixed(quality=0.5, stream=2)}
        found = tg.rank(weighted, noise(20, seed), pair, metric=short_cpd(), seed=seed, **RAW)
        unsure += len(found.best) != 1
    assert unsure >= 20  # 23.75 are expected, and three standard errors are 3.3


def test_random_never_wins_even_where_it_is_better():
    """A metric whose direction is turned round, in effect: the explainer finds the weakest cells."""
    scores = {"upside_down": torch.linspace(0, 1, 20), "random": torch.linspace(5, 6, 20)}
    rows = ranked(scores, dict.fromkeys(scores, 0), higher_is_better=True)
    found = tg.Ranking(rows, "cpd", True, 20)
    assert found.best == ()
    assert "upside_down" in found.verdict()


def test_where_all_are_as_good_as_random_none_is_the_best():
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        scores = {name: torch.randn(15, generator=generator).double() for name in ("a", "b", "random")}
        found = tg.Ranking(ranked(scores, dict.fromkeys(scores, 0), higher_is_better=True), "cpd", True, 15)
        if all(row.ties for row in found.table):
            assert found.best == ()
            first, second = (row.method for row in found.table if row.method != "random")
            assert first in found.verdict()
            assert second in found.verdict()


def test_what_is_not_better_than_random_is_named():
    methods = {"good": Mixed(quality=1.0), "bad": Mixed(stream=7)}
    found = tg.rank(weighted, noise(40), methods, metric=short_cpd(), **RAW)
    assert found.best == ("good",)
    assert found.verdict().partition("; ")[2].startswith("bad is ")


def test_the_same_map_twice_is_a_tie():
    found = tg.rank(weighted, noise(20), ["integrated_gradients", "integrated_gradients", "occlusion"], k=3, **RAW)
    names = {"integrated_gradients", "integrated_gradients 2", "occlusion"}
    assert set(found.best) == names
    assert all(row.low == row.high == 0 for row in found.table if row.method in names)


def test_intervals_hold_for_all_pairs_at_once():
    """By brute force: of many rankings of equal explainers, hardly one has a pair that is told apart."""
    generator = torch.Generator().manual_seed(1)
    wrong = 0
    for _ in range(100):
        scores = {name: torch.randn(25, generator=generator).double() for name in (*"abcdef", "random")}
        rows = ranked(scores, dict.fromkeys(scores, 0), higher_is_better=True)
        wrong += not all(row.ties for row in rows)
    assert wrong <= 11  # 5 % of 100, and three standard errors


def test_differences_are_those_of_compare_at_the_divided_level():
    found = tg.rank(weighted, noise(15), {"a": Mixed(quality=0.6), "b": Mixed(quality=0.3)}, k=3, **RAW)
    first, second = (
        tg.evaluate(weighted, Mixed(quality=q)(weighted, noise(15), **RAW), metrics="cpd", k=3)["cpd"]
        for q in (0.6, 0.3)
    )
    gap = tg.compare(second, first, level=1 - 0.05 / 3)
    (row,) = (row for row in found.table if row.method == "b")
    assert (row.difference, row.low, row.high) == pytest.approx((gap.mean, gap.low, gap.high), rel=1e-5)


def test_all_methods_lose_cells_to_the_same_values():
    """Occlusion fitted to other series compares with their mean; what takes the place of cells is still zero."""
    x, background = noise(20), 5 + noise(9, 1)
    found = tg.rank(weighted, x, ["occlusion", "integrated_gradients"], background=background, k=3, **RAW)
    exp = tg.explain(weighted, x, "occlusion", background=background, **RAW)
    own = tg.evaluate(weighted, exp, metrics="cpd", k=3, baseline="zero")["cpd"]
    (row,) = (row for row in found.table if row.method == "occlusion")
    assert row.score == pytest.approx(float(own.double().mean()), rel=1e-5)


def test_series_whose_score_is_not_defined_do_not_count():
    x = noise(20)
    truth = torch.zeros(20, 12, 1)
    truth[5:, 8:] = 1  # the first five have nothing to find
    found = tg.rank(weighted, tg.Series(x, truth=truth), [Mixed(quality=1.0)], metric="auroc", **RAW)
    assert [row.series for row in found.table] == [15, 15]
    none = tg.rank(weighted, tg.Series(x, truth=0 * truth), [Mixed(quality=1.0)], metric="auroc", **RAW)
    assert "AUROC" in none.verdict()
    assert none.best == ()


REFUSED = {
    "no methods": ([], {}),
    "a number": ([3], {}),
    "unknown": (["magic"], {}),
    "not random": ({"random": Mixed()}, {}),
    "settings": (["lime"], {"alpha": 0.1}),
    "unknown option": (["lime"], {"quirks": 1}),
    "only random": (["random"], {}),
    "a class": ([tg.Timing], {}),
    "nothing to learn from": (["occlusion", "fit"], {}),
    "one series": (["lime"], {"x": noise(1)}),
    "no truth": (["lime"], {"metric": "auroc"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_ranked_is_refused(name):
    methods, options = REFUSED[name]
    options = dict(options)
    x = options.pop("x", noise(6))
    with pytest.raises(tg.TempogradError) as caught:
        tg.rank(weighted, x, methods, **options, **RAW)
    assert "\n" not in str(caught.value)
