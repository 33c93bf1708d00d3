"""How much a map depends on its baseline: against loops and separate calls, and where the answer is known."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.views.baselines import BaselineComparison
from tests.helpers.explanations import waves
from tests.helpers.models import linear, series, smooth

TIME, CHANNELS = 7, 3
COUNT = 2  # a tenth of the cells
POOL = series(20, TIME, CHANNELS, seed=3)


def compared(mask=None, **options):
    model, x = smooth(TIME, CHANNELS).float(), tg.Series(series(6, TIME, CHANNELS), mask=mask)
    return model, x, tg.compare_baselines(model, x, background=POOL, n_samples=20, **options)


def test_agreement_is_that_of_a_loop():
    mask = torch.rand(6, TIME, CHANNELS, generator=torch.Generator().manual_seed(2)) < 0.8
    _, _, found = compared(mask=mask)
    pairs = [("zero", "average"), ("zero", "background"), ("average", "background")]
    assert list(found.agreement)[:3] == pairs
    for names in pairs:
        pair = found.agreement[names]
        for i, seen in enumerate(mask):
            maps = [found.explanations[name].values[i][seen].abs().numpy() for name in names]
            count = max(1, round(0.1 * len(maps[0])))
            best = [set(np.argsort(each)[-count:].tolist()) for each in maps]
            assert pair[i] == pytest.approx(len(best[0] & best[1]) / count)


@pytest.mark.parametrize("method", ["occlusion", "gradient_shap"])
@pytest.mark.filterwarnings("ignore:gradient_shap has no pool")
def test_other_series_are_the_baseline_of_one_map_only(method):
    """Both methods take other series in the place of any baseline, which would make the maps one and the same."""
    model, x = smooth(TIME, CHANNELS).float(), series(6, TIME, CHANNELS)
    found = tg.compare_baselines(model, x, method, background=POOL)
    for name in ("zero", "average"):
        alone = tg.explain(model, x, method, baseline=name)
        torch.testing.assert_close(found.explanations[name].values, alone.values)
    assert found.agreement["zero", "average"].min() < 1


def test_series_that_lie_the_other_way_have_the_same_table():
    model, x, level = smooth(TIME, CHANNELS).float(), series(6, TIME, CHANNELS), POOL.mean(0)
    options = {"n_samples": 10}
    names = ("zero", "background", "level")
    plain = tg.compare_baselines(
        model,
        x,
        baselines=dict(zip(names, ("zero", "background", level), strict=True)),
        background=POOL,
        **options,
    )
    turned = tg.compare_baselines(
        model,
        tg.Series(x.transpose(1, 2), layout="BDT"),
        baselines=dict(zip(names, ("zero", "background", level), strict=True)),
        background=tg.Series(POOL.transpose(1, 2), layout="BDT"),
        **options,
    )
    for place, shared in plain.agreement.items():
        torch.testing.assert_close(turned.agreement[place], shared)


# How much samples alone change


def test_the_same_baseline_is_explained_again_with_the_next_seed():
    model, x, found = compared(seed=4)
    for name in found.explanations:
        again = found.agreement[name, name]
        maps = [
            tg.explain(model, x, baseline=name, background=POOL, n_samples=20, seed=seed).values.abs().flatten(1)
            for seed in (4, 5)
        ]
        best = [each.topk(COUNT).indices.tolist() for each in maps]
        expected = [len(set(one) & set(other)) / COUNT for one, other in zip(*best, strict=True)]
        assert again.tolist() == pytest.approx(expected)
    exact = tg.compare_baselines(model, x, "occlusion", background=POOL)
    assert list(exact.agreement)[3:] == [("background", "background")]  # whose series are drawn


def verdict(shared, itself):
    """Return what is said of ten series that share so much on average, a little more and less in turn."""
    about = torch.tensor([-0.02, 0.02] * 5)
    names = ("zero", "average")
    pairs = {names: shared, ("zero", "zero"): itself}
    agreement = {pair: about + share for pair, share in pairs.items()}
    maps = dict.fromkeys(names, waves(series=10))
    return BaselineComparison(maps, agreement).verdict()


def test_the_verdict_tells_the_choice_from_the_seed(said):
    for shared, itself in ((0.5, 0.8), (0.5, 0.5), (0.8, 0.6), (0.95, 0.6)):
        said(verdict(shared, itself))


def test_a_single_series_has_no_interval():
    model, x = smooth(TIME, CHANNELS).float(), series(1, TIME, CHANNELS)
    assert "inf" not in repr(tg.compare_baselines(model, x, "occlusion"))


def test_series_without_observed_cells_tell_nothing():
    found = tg.compare_baselines(
        smooth(TIME, CHANNELS).float(),
        tg.Series(series(3, TIME, CHANNELS), mask=torch.zeros(3, TIME, CHANNELS)),
        "occlusion",
    )
    assert found.verdict().startswith("how much the choice matters cannot be told: no series has observed cells")


def test_what_makes_no_difference_is_told():
    model, x = linear(TIME, CHANNELS), series(12, TIME, CHANNELS)
    same = {"zero": "zero", "nothing": 0.0}
    found = tg.compare_baselines(model, x, "occlusion", same, output="raw", target=0)
    assert (
        found.verdict()
        == "the choice hardly matters: zero and nothing share 100 % of the top tenth of their cells"
    )


def test_maps_of_far_baselines_differ():
    """A linear model: a cell counts by its distance from the baseline, and by nothing else."""
    model, x = linear(TIME, CHANNELS), series(40, TIME, CHANNELS)
    found = tg.compare_baselines(model, x, "occlusion", {"low": -3.0, "zero": 0.0}, output="raw", target=0)
    assert found.verdict().startswith("the choice matters: low and zero share")
    assert repr(found).count(f" {100 * float(found.agreement['low', 'zero'].mean()):.0f} %") == 2


def test_the_agreement_of_a_map_with_itself_is_what_another_seed_changes():
    model, x = smooth(TIME, CHANNELS), series(40, TIME, CHANNELS)
    options = {"output": "raw", "target": 0, "n_samples": 3, "segments": 4}
    found = tg.compare_baselines(model, x, "timing", {"zero": 0.0, "low": -3.0}, **options)
    for name in ("zero", "low"):
        other = tg.explain(model, x, baseline={"zero": 0.0, "low": -3.0}[name], seed=1, **options)
        first = found.explanations[name]
        top = [each.importance.flatten(1).topk(COUNT).indices.tolist() for each in (first, other)]
        alike = [len(set(one) & set(two)) / COUNT for one, two in zip(*top, strict=True)]
        assert float(found.agreement[name, name].mean()) == pytest.approx(sum(alike) / len(alike), abs=1e-6)
    exact = tg.compare_baselines(model, x, "occlusion", output="raw", target=0)
    assert list(exact.agreement) == [("zero", "average")]


def test_the_default_has_a_background_where_there_is_one():
    model, x = linear(TIME, CHANNELS), series(3, TIME, CHANNELS)
    assert [*tg.compare_baselines(model, x, "occlusion").explanations] == ["zero", "average"]
    assert "background" in tg.compare_baselines(model, x, "occlusion", background=POOL).explanations


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"baselines": ["zero"]}, "at least two"),
        ({"baselines": ["zero", "zero"]}, "at least two"),
        ({"baselines": ["zero", "mean"]}, "each of baselines must be"),
        ({"baselines": ["zero", "background"]}, "draws from background="),
        ({"baseline": "zero"}, "Pass baselines= instead of baseline="),
        ({"targets": [0, 1]}, "and one target="),
    ],
)
def test_bad_calls_get_one_sentence(options, sentence):
    with pytest.raises(tg.TempogradError, match=sentence):
        tg.compare_baselines(linear(TIME, CHANNELS), series(2, TIME, CHANNELS), "occlusion", **options)
