"""The table for papers: means, the best, and Holm-corrected paired t tests, against scipy."""

import math

import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd.core.stats import t_tail

METHODS = ("timing", "mine_2", "lime", "random")


def scores(count=25):
    draws = torch.Generator().manual_seed(3)
    noise = torch.randn(count, generator=draws)
    means = (0.6, 0.59, 0.45, 0.1)
    return {
        method: {
            "cpd": mean + 0.2 * noise + 0.1 * torch.randn(count, generator=draws),
            "cpp": 1e-5 * (2 - mean + 0.2 * torch.randn(count, generator=draws)),
        }
        for method, mean in zip(METHODS, means, strict=True)
    }


@pytest.mark.parametrize("freedom", [1, 2, 3.5, 10, 49, 400, 10_000, 1_000_000])
@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0, 2.0, 5.0, 30.0])
def test_tails_are_those_of_scipy(size, freedom):
    assert t_tail(-size, freedom) == pytest.approx(2 * stats.t.sf(size, freedom), rel=1e-6, abs=1e-300)


def test_p_values_are_those_of_the_paired_test():
    found = scores()
    one, other = found["timing"]["cpd"], found["lime"]["cpd"]
    assert tg.compare(one, other).p_value == pytest.approx(stats.ttest_rel(one.double(), other.double()).pvalue)
    assert tg.compare(one, one).p_value == 1
    assert tg.compare(one[:1], other[:1]).p_value == 1
    assert tg.compare(one + 1, one).p_value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("metric", ["cpd", "cpp"])
def test_the_best_is_tested_against_all_others_after_holm(metric):
    found = scores()
    table = tg.table(found)
    means = {method: float(found[method][metric].double().mean()) for method in METHODS}
    best = (max if metric == "cpd" else min)(means, key=means.get)
    assert [m for m in METHODS if table.cells[m, metric].best] == [best]
    others = [m for m in METHODS if m != best]
    plain = [stats.ttest_rel(found[m][metric].double(), found[best][metric].double()).pvalue for m in others]
    ranked, least = sorted(range(3), key=lambda place: plain[place]), 0.0
    for rank, place in enumerate(ranked):
        least = max(least, min(1.0, (3 - rank) * plain[place]))
        cell = table.cells[others[place], metric]
        assert cell.p_value == pytest.approx(least, rel=1e-6)
        assert cell.ties == (least >= 0.05)
        assert cell.mean == pytest.approx(means[others[place]])
    assert table.cells[best, metric].p_value is None


@pytest.mark.exact_draws  # how many are bold
def test_a_table_is_written_for_people_and_for_papers():
    table = tg.table(scores())
    markdown, latex = table.to_markdown().splitlines(), table.to_latex().splitlines()
    assert markdown[0].split("|")[2].strip() == "CPD ↑"
    assert markdown[0].split("|")[3].strip() == "CPP ↓"
    assert sum("**" in line for line in markdown) == 2
    assert latex[0] == r"\begin{tabular}{lcc}"
    assert latex[2] == r"Method & CPD $\uparrow$ & CPP $\downarrow$ \\"
    assert len(latex) == 4 + 4 + 3
    assert latex[-1].startswith("% ± standard error; bold: best; †: ")
    assert sum(line.count(r"\mathbf") for line in latex) == 2
    assert any(line.startswith(r"mine\_2 & ") for line in latex)
    assert all(line.count("&") == 2 for line in latex[4:8])
    assert repr(table).count("*") >= 2


def test_one_method_one_series_and_scores_without_a_direction():
    alone = tg.table({"a": {"cpd": torch.tensor([2.0]), "mine": torch.tensor([1.0])}})
    assert alone.cells["a", "cpd"].best
    assert not alone.cells["a", "mine"].best
    assert math.isinf(alone.cells["a", "cpd"].standard_error)
    assert "±" not in alone.to_markdown()
    undefined = tg.table({"a": {"cpd": torch.tensor([1.0, 2.0])}, "b": {"cpd": torch.full((2,), torch.nan)}})
    assert undefined.cells["a", "cpd"].best
    assert undefined.cells["b", "cpd"].p_value is None


@pytest.mark.parametrize(
    "wrong", [{}, {"a": torch.ones(3)}, {"a": {"cpd": torch.ones(2)}, "b": {"cpp": torch.ones(2)}}]
)
def test_what_is_no_table_of_scores_is_refused(wrong):
    with pytest.raises(tg.TempogradError):
        tg.table(wrong)
