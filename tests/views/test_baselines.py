"""How much a map depends on its baseline: against scipy, against separate calls, and where the answer is known."""

import numpy as np
import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd import plots
from tempograd.views.baselines import _agree
from tests.helpers.models import linear, series, smooth

TIME, CHANNELS = 7, 3
POOL = series(20, TIME, CHANNELS, seed=3)


def compared(**options):
    model, x = smooth(TIME, CHANNELS).float(), series(6, TIME, CHANNELS)
    return model, x, tg.compare_baselines(model, x, background=POOL, removal_draws=3, n_samples=20, **options)


def test_agreement_is_that_of_scipy():
    mask = torch.rand(6, TIME, CHANNELS, generator=torch.Generator().manual_seed(2)) < 0.8
    _, _, found = compared(mask=mask)
    assert [(each.first, each.second) for each in found.agreement] == [
        ("zero", "average"),
        ("zero", "background"),
        ("average", "background"),
    ]
    for pair in found.agreement:
        for i, seen in enumerate(mask):
            maps = [found.explanations[name].values[i][seen].abs().numpy() for name in (pair.first, pair.second)]
            assert pair.correlation[i] == pytest.approx(stats.spearmanr(*maps).statistic, abs=1e-5)
            count = max(1, round(0.1 * len(maps[0])))
            best = [set(np.argsort(each)[-count:].tolist()) for each in maps]
            assert pair.shared[i] == pytest.approx(len(best[0] & best[1]) / count)


def test_ties_have_the_middle_of_their_places():
    one, other = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 5.0]), np.array([3.0, 0.0, 0.0, 2.0, 7.0, 7.0])
    assert _agree(one, other)[0] == pytest.approx(stats.spearmanr(one, other).statistic)


def test_every_cell_of_the_table_is_a_call_of_evaluate():
    model, x, found = compared(target=1, seed=4)
    for row in found.baselines:
        exp = tg.explain(model, x, baseline=row, background=POOL, n_samples=20, target=1, seed=4)
        for column in found.baselines:
            options = {"background": POOL, "draws": 3} if column == "background" else {}
            score = tg.evaluate(model, exp, metrics="cpd", baseline=column, **options)["cpd"]
            torch.testing.assert_close(found.scores[row, column], score)


def test_what_makes_no_difference_is_told():
    model, x = linear(TIME, CHANNELS), series(12, TIME, CHANNELS)
    same = {"zero": "zero", "nothing": 0.0}
    found = tg.compare_baselines(model, x, "occlusion", same, output="raw", target=0, of="score")
    assert found.verdict().startswith("the choice hardly matters: zero and nothing share 100 % of the top tenth")
    assert "cannot be told" in found.verdict()


def test_a_map_is_best_where_its_own_question_is_asked():
    """A linear model: removed to a level, a cell counts by its distance from that level, and by nothing else."""
    model, x = linear(TIME, CHANNELS), series(40, TIME, CHANNELS)
    levels = {"low": -3.0, "zero": 0.0}
    found = tg.compare_baselines(model, x, "occlusion", levels, output="raw", target=0, of="score")
    assert found.verdict().startswith("the choice matters: low and zero share")
    assert "removed to low or zero, the map against it is the best of these" in found.verdict()
    record = plots.baselines_record(found)
    assert record.best.tolist() == [[True, False], [False, True]]
    assert record.shared[0, 1] == record.shared[1, 0] == pytest.approx(float(found.agreement[0].shared.mean()))
    worse = tg.compare_baselines(
        model, x, "occlusion", levels, metric="cpp", k=0.6, output="raw", target=0, of="score"
    )
    assert plots.baselines_record(worse).best.tolist() == record.best.tolist()  # where lower is better


def test_the_default_has_a_background_where_there_is_one():
    model, x = linear(TIME, CHANNELS), series(3, TIME, CHANNELS)
    assert tg.compare_baselines(model, x, "occlusion").baselines == ("zero", "average")
    assert tg.compare_baselines(model, x, "occlusion", background=POOL).baselines[-1] == "background"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"baselines": "zero"}, "baselines must be several"),
        ({"baselines": ["zero"]}, "at least two, each once"),
        ({"baselines": ["zero", "zero"]}, "at least two, each once"),
        ({"baselines": ["zero", "mean"]}, "each of baselines must be"),
        ({"metric": "auroc"}, "metric must be one that removes cells"),
        ({"baselines": ["zero", "background"]}, "pass them as background="),
        ({"baseline": "zero"}, "baseline= is what this function varies"),
    ],
)
def test_bad_calls_get_one_sentence(options, sentence):
    with pytest.raises(tg.TempogradError, match=sentence):
        tg.compare_baselines(linear(TIME, CHANNELS), series(2, TIME, CHANNELS), "occlusion", **options)
