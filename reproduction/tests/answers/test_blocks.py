"""Kept scores as blocks: what is compared with what, on numbers that a reader can add up."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy import stats

from reproduction.tests.helpers.results import CPD
from tempograd_paper.answers.blocks import COMPARED, Block, compare_methods, load_blocks, plan_of

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "reproduction/results"
NAN = float("nan")


def kept_means(folder, measure):
    """Return mean scores by data set, method and fold, as another reader finds them."""
    query = f"""
        SELECT tempograd_record, avg("{measure}") FROM '{folder / "records.parquet"}' GROUP BY tempograd_record
    """
    found = {}
    for text, mean in duckdb.sql(query).fetchall():
        about = json.loads(text)
        if about["cell"]["settings"]:
            continue  # another row of the same method
        place = tuple(about["cell"][name] for name in ("dataset", "method", "fold"))
        found[place] = mean * about["steps"][measure] if mean is not None else NAN
    return found


def block(dataset="state", **methods):
    scores = {name: {fold: np.array(values) for fold, values in folds.items()} for name, folds in methods.items()}
    return Block(dataset, CPD, scores)


def test_only_common_folds_are_compared():
    found = block(timing={0: [1.0, 3.0], 1: [5.0, 7.0]}, lime={0: [1.0, 2.0], 1: [3.0, NAN], 2: [9.0, 9.0]})
    assert found.folds(("timing", "lime")) == (0, 1)
    assert found.means(("timing", "lime")) == [4.0, 2.25]  # undefined scores are left out
    assert found.means(("lime",)) == [pytest.approx((1.5 + 3 + 9) / 3)]


def test_scores_of_some_folds_only():
    found = block(timing={0: [1.0], 1: [5.0], 2: [9.0]}, lime={1: [2.0]}).only((1, 2))
    assert found.means(("timing",)) == [7.0]
    assert found.means(("timing", "lime")) == [5.0, 2.0]


def test_differences_are_paired_by_series_and_over_models_and_series():
    one = block(timing={0: [1.0, 3.0, 5.0], 1: [5.0, 11.0, NAN]}, lime={0: [0.0] * 3, 1: [0.0] * 3})
    gap = one.difference("timing", "lime")  # of the first two series, see test_mean_squares_by_hand
    assert (gap.mean, gap.models, gap.series) == (5.0, 2, 2)
    assert gap.freedom == pytest.approx(48**2 / (36**2 + 16**2 + 4**2))
    own = Block("boiler", CPD, one.scores).difference("timing", "lime")  # its folds have test series of their own
    assert own.freedom == 1


def test_methods_that_a_data_set_lacks_and_random_do_not_compete():
    first = block(timing={0: [3.0]}, lime={0: [2.0]}, fit={0: [9.0]}, random={0: [1.0]})
    second = block("wafer", timing={0: [1.0]}, lime={0: [2.0]}, random={0: [0.5]})
    found = compare_methods([first, second])
    assert found.methods == ("timing", "lime")
    assert found.means.tolist() == [[3.0, 2.0], [1.0, 2.0]]
    assert found.test.ranks == (1.5, 1.5)


def test_methods_that_some_fold_lacks_compete_only_where_asked_for():
    first = block(timing={0: [3.0], 1: [5.0]}, lime={0: [2.0], 1: [2.0]}, fit={1: [9.0]})
    assert compare_methods([first, first]).methods == ("timing", "lime")
    assert compare_methods([first, first]).means.tolist() == [[4.0, 2.0]] * 2
    partly = compare_methods([first, first], whole=False)  # of the fold that all have
    assert partly.methods == ("timing", "lime", "fit")
    assert partly.means.tolist() == [[5.0, 2.0, 9.0]] * 2


@pytest.mark.parametrize("baseline", ["zero", "average"])
@pytest.mark.parametrize("protocol", ["published", "tuned"])
def test_the_kept_blocks_are_the_kept_means(protocol, baseline):
    """Another way to the same ranks: the means that another reader finds in the files, and scipy."""
    found = compare_methods(load_blocks(RESULTS, protocol, baseline, COMPARED[protocol]))
    assert len(found.blocks) == 7
    means = {}
    for name in COMPARED[protocol]:
        folder = RESULTS / f"{name}-{protocol}"
        wanted = (each for each in plan_of(folder).measures if (each.metric, each.baseline) == ("cpd", baseline))
        for (dataset, method, fold), mean in kept_means(folder, next(wanted).name).items():
            means.setdefault((dataset, method), {})[fold] = mean
    expected = []
    for each in found.blocks:
        folds = set.intersection(*(set(means[each.dataset, name]) for name in found.methods))
        row = [np.mean([means[each.dataset, name][fold] for fold in folds]) for name in found.methods]
        expected.append(row)
    np.testing.assert_allclose(found.means, expected, rtol=1e-6)
    assert found.test.p_value == pytest.approx(stats.friedmanchisquare(*np.transpose(expected)).pvalue, rel=1e-6)
    assert "timing" in found.methods
    assert "integrated_gradients" in found.methods
