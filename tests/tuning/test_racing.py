"""The race of settings: what it finds where the answer is known, what noise does, and what it costs."""

import math
from itertools import pairwise, product

import pytest
import torch

import tempograd as tg
from tempograd.engine.predictor import PassesError
from tempograd.tuning import racing
from tempograd.tuning.racing import Bench, Scored, by_luck, plan
from tests.helpers.models import series
from tests.helpers.trials import Gated, Mixed, Saturated, positive_series, short_cpd, truth_of, weighted

RAW = {"output": "raw"}


def noise(count, seed=0):
    return torch.randn(count, 12, 1, generator=torch.Generator().manual_seed(seed))


# Known answers


@pytest.mark.filterwarnings("ignore:0 is far from every value")
@pytest.mark.parametrize("model", [Gated(), Saturated()], ids=["held", "free"])
def test_the_right_end_of_the_family_is_found(model):
    x, other = positive_series(24), positive_series(24, seed=1)
    found = tg.tune(model, x, n_samples=40, k=3, **RAW)
    shares = [row.setting.get("held", 0.0) for row in found.table if row.chosen]
    assert shares[0] >= 0.75 if isinstance(model, Gated) else shares[0] <= 0.25
    assert "segments" in found.settings or "held" in found.settings
    scores = [
        tg.evaluate(model, each(model, other, **RAW), metrics=["cpd", "auroc"], k=3, truth=truth_of(other))
        for each in (found.explainer, tg.Timing(n_samples=40))
    ]
    assert scores[0]["auroc"].mean() >= max(0.9, float(scores[1]["auroc"].mean()) + 0.1)
    assert tg.compare(scores[0]["cpd"], scores[1]["cpd"]).low > 0


@pytest.mark.parametrize("metric", ["cpd", "cpp", "auroc", "auprc"])
def test_a_better_setting_wins_and_a_worse_one_does_not_in_the_direction_of_the_metric(metric):
    x = noise(30)
    x = tg.Series(x, truth=(x * torch.linspace(0.2, 3.0, 12).view(12, 1)).abs() > 2)
    options = {"metric": metric, "k": 3, **RAW}
    better = tg.tune(weighted, x, Mixed(), grid=[{"quality": 0.6}, {"quality": 1.0}], **options)
    worse = tg.tune(weighted, x, Mixed(quality=1.0), grid=[{"quality": 0.0}], **options)
    higher = tg.METRICS[metric].higher_is_better
    ranked = sorted(better.table, key=lambda row: row.score, reverse=higher)
    assert better.chosen is ranked[0]
    assert better.chosen.setting
    assert (better.chosen.difference > 0) == higher
    assert worse.settings == {}
    assert better.explainer == Mixed(**better.chosen.setting)


def test_scores_are_those_of_explaining_and_evaluating_everything_at_once():
    x = noise(20)
    found = tg.tune(weighted, x, Mixed(quality=0.3), grid=[{"quality": 0.6}, {"quality": 0.9}], k=4, seed=5, **RAW)
    for row in found.table:
        quality = row.setting.get("quality", 0.3)
        exp = Mixed(quality=quality)(weighted, x, seed=5, **RAW)
        own = tg.evaluate(weighted, exp, metrics="cpd", k=4)["cpd"]
        usual = tg.evaluate(weighted, Mixed(quality=0.3)(weighted, x, seed=5, **RAW), metrics="cpd", k=4)["cpd"]
        assert row.score == pytest.approx(float(own.double().mean()), rel=1e-6)
        assert row.difference == pytest.approx(float((own - usual).double().mean()), abs=1e-6)
        error = float((own - usual).double().std()) / 20**0.5
        assert row.difference_error == pytest.approx(error, abs=1e-6)
        assert row.series == 20


# Noise


def drawn(monkeypatch, draw):
    """Let scores be random numbers of each setting and series, which is quick."""

    def score(self, explainer, rows, **_):
        generator = torch.Generator().manual_seed(1000 * self.seed + explainer.stream)
        scores = draw(torch.randn(self.count, generator=generator, dtype=torch.float64))
        self.spent += 2 * len(rows)
        return Scored(scores[rows], len(rows), len(rows), known=True, shape=(12, 1))

    monkeypatch.setattr(Bench, "score", score)


@pytest.mark.parametrize(
    ("draw", "budget"),
    [pytest.param(torch.Tensor.clone, 30, marks=pytest.mark.slow), (lambda z: -z.exp(), 200)],
    ids=["normal", "skewed"],
)
def test_noise_keeps_the_default_nearly_always(draw, budget, monkeypatch):
    drawn(monkeypatch, draw)
    grid = [{"stream": number} for number in range(1, 25)]
    kept = sum(
        not tg.tune(weighted, noise(30), Mixed(), budget=budget, grid=grid, seed=seed, **RAW).settings
        for seed in range(30)
    )
    assert kept >= 25  # 28.5 are expected, and three standard errors are 3.6


def test_how_often_noise_may_change_the_default_is_a_choice(monkeypatch):
    drawn(monkeypatch, torch.Tensor.clone)
    grid, changed = [{"stream": number} for number in range(1, 9)], {}
    for level in (0.0, 0.5, 1.0):
        found = [tg.tune(weighted, noise(30), Mixed(), grid=grid, seed=s, level=level, **RAW) for s in range(20)]
        changed[level] = sum(bool(each.settings) for each in found)
        assert all(each.chosen.difference > 0 for each in found if each.settings)
    assert changed[0.0] == 0
    assert 1 < changed[0.5] < 19  # 10 are expected, and four standard errors are 9
    ahead = [any(row.finished and row.difference > 0 for row in each.table if row.setting) for each in found]
    assert changed[1.0] == sum(ahead)
    assert 8 < sum(ahead) < 20


def test_a_level_beyond_its_limits_is_refused():
    with pytest.raises(tg.core.errors.SettingError):
        tg.tune(weighted, noise(10), Mixed(), grid=[{"stream": 1}], level=5, **RAW)


def test_what_luck_does_is_what_all_signs_do():
    """By brute force: all 2^9 signs, settings one by one, means and deviations by torch."""
    gains = torch.sin(torch.arange(27, dtype=torch.float64) * 2.3).view(3, 9) + torch.tensor([[0.1], [0.5], [0.7]])
    gains[1, 6:] = torch.nan  # went out
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=9)), dtype=torch.float64)

    def ratios(values):
        defined = [row[~row.isnan()] for row in values]
        return torch.stack([row.mean() / (row.std() / len(row) ** 0.5) for row in defined])

    largest = torch.stack([ratios(gains * sign).amax() for sign in signs])
    exact = [float((largest >= each - 1e-12).double().mean()) for each in ratios(gains)]
    assert by_luck(gains) == pytest.approx(exact, abs=0.03)  # 4,000 draws: two standard errors are 0.016 at most
    assert max(exact) > 0.3
    assert min(exact) < 0.15


def test_settings_that_make_no_difference_leave_the_default():
    found = tg.tune(weighted, noise(10), Mixed(quality=1.0), grid=[{"stream": 1}, {"stream": 2}], **RAW)
    assert found.settings == {}
    assert all(row.difference == 0 == row.difference_error for row in found.table)


def test_only_who_ran_on_all_series_can_win(monkeypatch):
    """A setting is far ahead on the series of the first round, and the budget does not pay for more of it."""

    def score(self, explainer, rows, **_):
        ahead = explainer.stream == 1
        if ahead and len(self.ran_ahead):
            raise PassesError
        if ahead:
            self.ran_ahead.append(len(rows))
        generator = torch.Generator().manual_seed(explainer.stream)
        scores = torch.randn(self.count, generator=generator, dtype=torch.float64) + 100 * ahead
        self.spent += 2 * len(rows)
        return Scored(scores[rows], len(rows), len(rows), known=True, shape=(12, 1))

    monkeypatch.setattr(Bench, "score", score)
    monkeypatch.setattr(Bench, "ran_ahead", [], raising=False)
    grid = [{"stream": number} for number in range(1, 25)]
    found = tg.tune(weighted, noise(40), Mixed(), budget=30, grid=grid, **RAW)
    (ahead,) = (row for row in found.table if row.setting == {"stream": 1})
    assert 8 <= ahead.series < 40  # enough of them to be sure that it is better there
    assert ahead.difference > 50 * ahead.difference_error
    assert not ahead.finished
    assert not ahead.chosen


# What it costs


@pytest.mark.parametrize(("method", "budget"), [("rand_ig", 6), ("lime", 12), ("augmented_occlusion", 30)])
def test_the_budget_is_never_exceeded(method, budget):
    shown = 0

    def model(x):
        nonlocal shown
        shown += len(x)
        return torch.tanh(x).sum((1, 2))[:, None]

    x = noise(24)
    options = {"background": x, "n_samples": 20, **RAW}
    found = tg.tune(model, x, method, budget=budget, **options)
    assert found.passes <= budget * found.unit
    assert found.passes == sum(row.passes for row in found.table)
    assert found.passes <= shown <= 1.2 * found.passes + 200  # beside looks at the model that are no part of it
    shown = 0
    tg.explain(model, x, method, gradient_check=False, **options)
    assert 0.99 * found.unit <= shown <= 1.2 * found.unit + 200


PLANS = [
    (25, 150, 16, 60_000),
    (25, 150, 16, 250_000),
    (3, 40, 16, 9000),
    (8, 10, 16, 30_000),
    (25, 150, 600, 225_000),
]


@pytest.mark.parametrize(("settings", "count", "scored", "left"), PLANS)
@pytest.mark.parametrize("ran", [False, True])
def test_a_plan_costs_what_it_says_and_uses_what_there_is(settings, count, scored, left, ran):
    rounds = plan(settings, count, 50 + scored, left, count if ran else 0)
    top = rounds[-1].series
    assert rounds[0].settings == settings
    assert top == count or not ran or scored > 16  # those of the default, but where scores cost too much
    done, spent = 0, 0.0 if ran else top * (50.0 + scored)
    for each in rounds:  # a slow count: every setting, every series
        spent += sum(50 + scored for _ in range(each.settings) for _ in range(each.series - done))
        done = each.series
    assert spent <= left
    if rounds[0].series < top:
        first = rounds[0]._replace(series=rounds[0].series + 1)
        assert spent + first.settings * (50 + scored) > 0.9 * left


def test_all_series_are_used_where_that_can_be_paid_for():
    assert plan(25, 150, 66, 225_000)[-1].series == 150
    assert plan(25, 150, 650, 225_000)[-1].series < 100


def test_a_plan_that_cannot_be_paid_is_none():
    assert plan(25, 100, 66, 1000) is None


def test_a_short_budget_drops_half_of_the_settings_each_round():
    rounds = plan(24, 100, 60, 46_000)
    assert [each.settings for each in rounds] == [24, 12, 6, 3]
    assert all(a.series < b.series for a, b in pairwise(rounds))


def test_scores_that_cost_more_than_maps_leave_fewer_series():
    x = noise(40)
    found = tg.tune(weighted, x, "rand_ig", n_samples=5, k=12, budget=10, **RAW)
    assert found.passes <= 10 * found.unit
    assert found.unit == 40 * 5
    assert found.series < 40
    assert found.default.series == found.series


def test_the_best_of_many_survives_a_short_budget():
    x = noise(64)
    grid = [{"quality": round(0.05 * number, 2)} for number in range(1, 20)]
    found = tg.tune(weighted, x, Mixed(), metric=short_cpd(), grid=grid, budget=60, **RAW)
    assert found.settings["quality"] >= 0.8
    dropped = [row for row in found.table if not row.finished]
    assert len(dropped) > 10
    assert all(row.series < 64 for row in dropped)
    assert found.passes <= 60 * found.unit


# Any task, and whatever has a row for each series


def classifier():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24, 3))


class PerStep(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x.cumsum(1), -x.cumsum(1)], -1)


def beside(x, *, static):
    return (x * static[:, None]).sum((1, 2))[:, None]


def fixed_too(x, scale):
    return x.sum((1, 2))[:, None] * scale[:, None]


X = series(12, 12, 2)
ROW = torch.arange(12.0)
CALLS = {
    "target": (classifier(), X, {"target": torch.arange(12) % 3}),
    "list": (classifier(), X, {"target": [0, 1, 2] * 4}),
    "mask": (classifier(), tg.Series(X, mask=torch.rand(12, 12, 2) > 0.3), {"baseline": "average"}),
    "baseline": (classifier(), X, {"baseline": ROW[:, None, None].expand(12, 12, 2) / 12}),
    "turned baseline": (
        classifier(),
        X,
        {"baseline": tg.Series(torch.linspace(-1, 1, 24).view(1, 2, 12), layout="BDT")},
    ),
    "same baseline": (classifier(), X, {"baseline": torch.full((12, 2), 0.1)}),
    "layout": (classifier(), tg.Series(X.transpose(1, 2), layout="BDT"), {}),
    "missing": (classifier(), tg.Series(X.masked_fill(X > 1.5, torch.nan), mask="nan"), {}),
    "ids": (classifier(), tg.Series(X, ids=torch.arange(12).flip(0) * 7), {}),
    "steps": (tg.Predictor(PerStep(), task="per_step"), X, {"steps": torch.rand(12, 12) > 0.5}),
    "forecast": (tg.Predictor(lambda x: x[:, -3:], task="forecast"), X, {"target": (1, 1)}),
    "several": (tg.Predictor(beside, task="regression"), {"x": X, "static": series(12, 2, 1)[..., 0]}, {}),
    "background": (classifier(), X, {"baseline": "background", "background": series(9, 12, 2)}),
    "turned": (
        classifier(),
        tg.Series(X.transpose(1, 2), layout="BDT"),
        {"baseline": "background", "background": tg.Series(series(9, 12, 2).transpose(1, 2), layout="BDT")},
    ),
    "fixed": (tg.Predictor(fixed_too, task="regression"), tg.Series(X, fixed={"scale": ROW + 1}), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_row_of_the_table_is_what_explain_and_evaluate_give(name):
    model, x, options = CALLS[name]
    found = tg.tune(model, x, "rand_ig", n_samples=8, grid=[{"p": 0.9}], k=0.2, seed=2, **options)
    for row in found.table:
        exp = tg.explain(model, x, "rand_ig", n_samples=8, seed=2, **row.setting, **options)
        removal = {"background": series(9, 12, 2), "draws": 2} if "background" in options else {}
        own = tg.evaluate(model, exp, metrics="cpd", k=0.2, **removal)["cpd"]
        assert row.score == pytest.approx(float(own.double().mean()), rel=1e-4)


def test_series_whose_score_is_not_defined_are_left_out():
    x = noise(20)
    truth = torch.zeros(20, 12, 1)
    truth[5:, 8:] = 1  # the first five have nothing to find
    found = tg.tune(weighted, tg.Series(x, truth=truth), Mixed(), metric="auroc", grid=[{"quality": 1.0}], **RAW)
    assert [row.series for row in found.table] == [15, 15]
    assert not math.isnan(found.default.score)


def test_what_was_given_stays():
    x = noise(12)
    found = tg.tune(weighted, x, "lime", width=0.25, n_samples=30, **RAW)
    assert {tuple(row.setting) for row in found.table[1:]} == {("alpha",)}
    assert found.explainer.width == 0.25
    assert found.explainer.n_samples == 30
    same = tg.tune(weighted, x, tg.Lime(width=0.25, n_samples=30), **RAW)
    assert [row.setting for row in same.table] == [row.setting for row in found.table]


def test_a_grid_may_be_any_iterable():
    found = tg.tune(weighted, noise(8), Mixed(), grid=({"quality": each} for each in (0.5, 1.0)), **RAW)
    assert sorted(row.setting["quality"] for row in found.table[1:]) == [0.5, 1.0]


def test_an_explainer_that_learns_comes_ready():
    x = noise(10)
    found = tg.tune(weighted, x, "augmented_occlusion", background=noise(9, 1), n_samples=3, k=2, **RAW)
    assert found.explainer.rows is not None
    assert found.explainer(weighted, x[:2], **RAW).values.shape == (2, 12, 1)


def test_a_tolerance_is_kept_for_the_winner_and_plays_no_part_in_the_race():
    found = tg.tune(weighted, noise(8), tolerance=0.2, n_samples=10, grid=[{"segments": 3}], **RAW)
    assert found.explainer.tolerance == 0.2
    assert found.unit == 8 * 10


REFUSED = {
    "no settings": (("integrated_gradients",), {}),
    "nothing left": (("rand_ig",), {"p": 0.3}),
    "none that goes with these": (("timing",), {"held": 0.5, "min_length": 2, "max_length": 3}),
    "the default alone": (("rand_ig",), {"grid": [{"n_samples": 50}]}),
    "one series": (("rand_ig",), {"x": noise(1)}),
    "pooled": (("rand_ig",), {"metric": tg.METRICS["auroc"](pooled=True)}),
    "no truth": (("rand_ig",), {"metric": "auroc"}),
    "no metric": (("rand_ig",), {"metric": 3}),
    "targets": (("rand_ig",), {"targets": [0, 1]}),
    "short budget": (("rand_ig",), {"budget": 1}),
    "no number": (("rand_ig",), {"budget": "much"}),
    "nothing to spend": (("rand_ig",), {"budget": -1}),
    "no list": (("rand_ig",), {"grid": {"p": 0.5}}),
    "empty": (("rand_ig",), {"grid": []}),
    "an empty setting": (("rand_ig",), {"grid": [{}, {"p": 0.5}]}),
    "unknown setting": (("rand_ig",), {"grid": [{"q": 0.5}]}),
    "wrong setting": (("rand_ig",), {"grid": [{"p": 3}]}),
    "unknown option": (("rand_ig",), {"quirks": 1}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tuned_is_refused(name):
    (method,), options = REFUSED[name]
    options = dict(options)
    x = options.pop("x", noise(6))
    with pytest.raises(tg.TempogradError) as caught:
        tg.tune(weighted, x, method, **options, **RAW)
    assert "\n" not in str(caught.value)


def test_where_scores_cost_more_than_they_seemed_fewer_series_race(monkeypatch):
    """Two series are looked at first; all together may be dearer, and then the budget pays for some of them."""
    score, told = racing._Race._scored, []

    def dearer(*arguments, **options):
        told.append(score(*arguments, **options))
        return told[-1]._replace(scored=told[-1].scored * (60 if len(told) == 2 else 1))

    monkeypatch.setattr(racing._Race, "_scored", dearer)
    found = tg.tune(weighted, noise(60), n_samples=20, budget=12, **RAW)
    assert len(told) > 2
    assert found.series < 60
    assert found.passes <= 12 * found.unit
    assert max(row.series for row in found.table) == found.series
