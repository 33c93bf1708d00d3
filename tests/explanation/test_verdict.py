"""The one line that says how good scores are: every number in it against a closed form, by hand."""

import math
from dataclasses import replace

import pytest
import torch

import tempograd as tg
from tempograd.errors import InputError
from tempograd.explanation import Facts
from tempograd.explanation.diagnostics import Errors, completeness_gap, error_curve, goal, needed, needs, poor
from tempograd.explanation.messages import sentence
from tests.helpers.models import linear, series, smooth

SIZE = math.sqrt(2 / math.pi)


def judged(*errors, method="timing", passes=None, unseen=(), delta=None, **parameters):
    """Return an explanation whose series have these relative errors: four scores of size 1."""
    values = torch.tensor([1.0, -1.0, 1.0, -1.0]).view(1, 2, 2).repeat(len(errors), 1, 1)
    spread = torch.tensor(errors).view(-1, 1, 1) / SIZE * torch.ones_like(values)
    for place in unseen:
        spread[place] = math.inf
    like = tg.explain(linear(2, 2), series(len(errors), 2, 2), "random")
    return replace(
        like,
        method=method,
        facts=tg.EXPLAINERS[method]().facts,
        values=values,
        standard_error=spread,
        n_evals=None if passes is None else torch.tensor(passes, dtype=torch.int32),
        delta=delta,
        parameters={"n_samples": 50, "tolerance": None, "max_samples": None} | parameters,
    )


def test_a_series_that_converged():
    assert judged(0.0183, passes=[1024]).verdict() == "converged: error about 1.8 % (1,024 samples)"
    assert judged(0.0).verdict() == "converged: error under 0.1 % (50 samples)"
    assert judged(0.104).verdict() == "converged: error about 10 % (50 samples)"


def test_a_series_that_did_not_converge_and_what_to_type():
    """50 · (0.22 / 0.1)² = 242, and with a goal of 8 % 378."""
    text = "not converged: error about 22 % with 50 samples; pass n_samples=250 for 10 %, or tolerance=0.1"
    assert judged(0.22).verdict() == text
    assert judged(0.22).verdict(0) == text
    assert needed(50, 0.22, 0.08) == 380
    assert sentence(judged(0.22), option="--set ").endswith(
        "; pass --set n_samples=250 for 10 %, or --set tolerance=0.1"
    )
    assert (
        judged(1.7)
        .verdict()
        .startswith("not converged: error over 100 % with 50 samples; pass n_samples=15000 for")
    )


def test_a_tolerance_is_the_goal_and_max_points_what_stopped_it():
    """400 · (0.08 / 0.05)² = 1024."""
    found = judged(0.08, passes=[400], tolerance=0.05, max_samples=400)
    assert found.verdict() == "not converged: error about 8 % with 400 samples; pass max_samples=1100 for 5 %"
    assert judged(0.049, passes=[64], tolerance=0.05).verdict() == "converged: error about 4.9 % (64 samples)"


def test_methods_name_their_own_settings():
    old = judged(0.2, method="rand_ig")
    old = replace(old, parameters={"n_samples": 20})
    assert old.verdict() == "not converged: error about 20 % with 20 samples; pass n_samples=80 for 10 %"
    few = replace(old, facts=tg.AugmentedOcclusion().facts, parameters={"n_samples": 10})
    assert few.verdict() == "not converged: error about 20 % with 10 samples; pass n_samples=40 for 10 %"
    assert replace(old, parameters={}).verdict() == "not converged: error about 20 %"


def test_cells_seen_less_than_twice_are_counted():
    """Two of four cells without an error of their own count with 1 + 0.02 / 0.798 each."""
    found = judged(0.02, unseen=[(0, 0, 0), (0, 1, 1)])
    miss = (2 * 0.02 + 2 * (SIZE + 0.02)) / 4
    assert float(found.relative_error) == pytest.approx(miss)
    advised = needed(50, miss, 0.1)
    assert found.verdict() == (
        f"not converged: error about {100 * miss:.0f} % with 50 samples; pass n_samples={advised} for 10 %, or "
        "tolerance=0.1; 2 cells were seen less than twice"
    )
    mask = torch.ones(1, 2, 2, dtype=torch.bool)
    mask[0, 0, 0] = False
    assert replace(found, mask=mask).verdict().endswith("; 1 cell was seen less than twice")
    never = replace(found, values=torch.zeros(1, 2, 2), standard_error=torch.full((1, 2, 2), math.inf))
    assert never.verdict() == (
        "not converged: error not known with 50 samples; pass tolerance=0.1; 4 cells were seen less than twice"
    )


def test_many_series_are_one_line():
    """The middle one is told; the advice serves 95 of 100."""
    assert judged(0.01, 0.04, 0.02).verdict() == "converged: error about 2 %, at most 4 % (50 samples)"
    assert judged(0.05, 0.04, 0.05, passes=[20, 40, 1200], tolerance=0.05).verdict() == (
        "converged: error about 5 %, at most 5 % (20 to 1,200 samples, 420 on average)"
    )
    assert judged(0.3, 0.05, 0.2).verdict() == (
        "not converged: error about 20 % with 50 samples, above 10 % in 2 of 3 series; pass tolerance=0.1, "
        "or n_samples=450 for 10 %"
    )
    assert judged(0.0, 0.05, 0.2).verdict().endswith("; pass tolerance=0.1, or n_samples=200 for 10 %")
    many = judged(*[0.2] * 95, *[0.9] * 5)
    assert "above 10 % in 100 of 100 series; pass tolerance=0.1, or n_samples=200 for 10 %" in many.verdict()


def test_a_few_hard_series_do_not_spoil_the_rest():
    found = judged(*[0.03] * 12, 0.4, *[0.03] * 27).with_names(names=[f"bed {i}" for i in range(40)])
    assert found.verdict() == (
        "converged in 39 of 40 series: error about 3 % (50 samples), but 40 % in series bed 12; pass tolerance=0.1"
    )
    assert found.verdict(12).startswith(
        "not converged: error about 40 % with 50 samples; pass n_samples=800 for 10 %"
    )
    assert found.verdict(11) == "converged: error about 3 % (50 samples)"
    passes = [64] * 39 + [400]
    stopped = judged(*[0.04] * 39, 0.08, passes=passes, tolerance=0.05, max_samples=400)  # 400 · (8 / 5)² = 1024
    assert stopped.verdict() == (
        "converged in 39 of 40 series: error about 4 % (64 to 400 samples, 72 on average), but 8 % in series 39; "
        "pass max_samples=1100 for 5 %"
    )


def test_integrated_gradients_are_judged_by_their_sum():
    """Scores that sum to 0.997 of the change miss 0.3 % of it."""
    found = tg.explain(linear(2, 2), series(2, 2, 2), "integrated_gradients", output="raw")
    total = found.values.sum((1, 2)).double()
    told = replace(found, delta=total)
    assert told.verdict() == "complete to 0.1 %: the scores sum to the change of the prediction"
    told = replace(found, delta=total / torch.tensor([0.997, 0.997]))
    assert told.verdict() == "complete to 0.3 %: the scores sum to the change of the prediction"
    short = replace(found, delta=total * torch.tensor([2.0, 1.0]))
    share = float(total[0].abs() / (2 * total[0].abs() + total[1].abs()))
    assert short.verdict() == (
        f"not complete: the scores miss {100 * share:.0f} % of the change of the prediction; pass n_steps=200"
    )
    assert (
        short.verdict(0) == "not complete: the scores miss 50 % of the change of the prediction; pass n_steps=200"
    )
    apart = replace(found, delta=total + torch.tensor([1.0, -1.0]))  # gaps of opposite sign do not cancel
    assert completeness_gap(apart) == pytest.approx(2 / float(apart.delta.abs().sum()))
    assert (poor(told), poor(short), poor(short[1:])) == (False, True, False)
    assert replace(found, delta=None).verdict() == "no sampling error"
    assert replace(found, delta=0 * total).verdict() == "no sampling error"
    assert replace(short, facts=replace(short.facts, complete=False)).verdict() == "no sampling error"


def test_other_methods_say_what_they_cannot_say():
    model, x = smooth(4, 1), series(2, 4, 1)
    assert tg.explain(model, x, "occlusion").verdict() == "no sampling error"
    found = tg.explain(model, x, "random")
    text = "no error is known: explain again with another seed to see how much the scores move"
    assert found.verdict() == text
    assert replace(found, facts=Facts()).verdict() == "no error is known"
    assert found[:0].verdict() == "nothing was explained"


def test_a_series_that_is_not_there():
    with pytest.raises(InputError, match="no series 2: the explanation holds 2"):
        judged(0.1, 0.1).verdict(2)


def test_more_points_as_advised_reach_the_goal():
    """The advice is followed once, on a steep model, and the errors told are those that are there."""
    model, x = smooth(12, 2), 6 * series(40, 12, 2, dtype=torch.float64)
    setting = {"method": "rand_ig", "p": 0.5}
    first = tg.explain(model, x, n_samples=20, **setting)
    assert first.verdict().startswith("not converged")
    points = int(first.verdict().split("n_samples=")[1].split()[0])
    again = tg.explain(model, x, n_samples=points, seed=1, **setting)
    assert int((first.relative_error <= 0.1).sum()) <= 20
    assert int((again.relative_error <= 0.1).sum()) >= 34
    truth = tg.explain(model, x, n_samples=10_000, seed=2, **setting).values
    for found in (first, again):
        real = (found.values - truth).abs().sum((1, 2)) / truth.abs().sum((1, 2))
        assert float(found.relative_error.mean()) == pytest.approx(float(real.mean()), rel=0.4)


def test_runs_that_stopped_by_their_strongest_cells_are_judged_by_them():
    """A tolerance of the top tenth is no error: the series with all the points there were is not stable."""
    by_top = {"tolerance": 0.02, "stop_when": "top", "max_samples": 400}
    assert judged(0.3, passes=[200], **by_top).verdict() == (
        "stable in its top tenth: error about 30 % (200 samples)"
    )
    assert judged(0.3, 0.2, 0.25, passes=[200, 400, 100], **by_top).verdict() == (
        "not stable in its top tenth: error about 25 % with 100 to 400 samples, 233 on average, in 1 of 3 series; "
        "pass max_samples=800"
    )
    assert judged(0.3, passes=[400], **by_top).verdict() == (
        "not stable in its top tenth: error about 30 % with 400 samples; pass max_samples=800"
    )


class Faulty(tg.Timing):
    """As variants with known faults are: nothing of what TIMING promises holds."""

    _examined = False


@pytest.mark.parametrize("method", [tg.Timing(segments=0), tg.Timing(control_variates=False), Faulty()], ids=repr)
def test_a_tolerance_is_not_advised_where_it_would_be_refused(method):
    assert replace(judged(0.22), facts=tg.Timing(segments=3).facts).verdict().endswith("or tolerance=0.1")
    assert replace(judged(0.22), facts=method.facts).verdict().endswith("; pass n_samples=250 for 10 %")


def test_what_another_method_calls_a_tolerance_is_no_goal():
    """Dynamask's is the share of the prediction that a mask may lose."""
    found = tg.explain(linear(2, 2), series(2, 2, 2), "random")
    for method, aim in ((tg.Dynamask(tolerance=0.05), 0.1), (tg.Timing(tolerance=0.05), 0.05)):
        assert goal(replace(found, facts=method.facts, parameters=method.parameters)) == aim


def test_the_curve_keeps_the_last_error_of_a_series_that_stopped():
    """Forty series with errors 1 … 40 at the first look; the first ten stop there."""
    first = torch.arange(1.0, 41.0)
    second = torch.where(first <= 10, torch.nan, first / 2)
    found = replace(
        judged(*[0.1] * 40, tolerance=0.05),
        curve_samples=torch.tensor([50, 100]),
        curve_error=torch.stack([first, second], 1),
    )
    drawn = error_curve(found)
    assert (drawn.points.tolist(), drawn.goal) == ([50, 100], 0.05)
    assert drawn.error[:, 1].tolist() == [*range(1, 11), *(n / 2 for n in range(11, 41))]
    assert (drawn.low[0], drawn.middle[0], drawn.high[0]) == (2, 20, 39)  # places 1, 19 and 38 of 0 … 39
    ordered = sorted(drawn.error[:, 1])
    assert (drawn.low[1], drawn.middle[1], drawn.high[1]) == (ordered[1], ordered[19], ordered[38])
    alone = replace(found, curve_samples=torch.tensor([50]), curve_error=first[:, None])
    assert error_curve(alone) is None
    assert error_curve(judged(0.1)) is None
    by_top = replace(found, parameters={"tolerance": 0.02, "stop_when": "top", "max_samples": 400})
    assert error_curve(by_top).goal == 0.1  # its tolerance is no error
    nothing = replace(found, curve_error=torch.full((40, 2), torch.nan))
    assert error_curve(nothing) is None


def test_points_that_nobody_can_pay_are_not_advised():
    found = Errors([1e10, 0.3], [False, False], [50, 50], "n_samples", 0, 0.1, top=False)
    assert needs(found) == [450]


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "rand_ig"])
@pytest.mark.parametrize(
    "model",
    [
        lambda z: (z / z.flatten(1).norm(dim=1)[:, None, None]).sum((1, 2))[:, None],
        lambda z: z.log().sum((1, 2))[:, None],
    ],
    ids=["divides by its norm", "takes logarithms"],
)
def test_nothing_is_claimed_where_the_model_cannot_answer_the_baseline(model, method):
    x = series(5, 6, 2).abs() + 0.5
    found = tg.explain(model, x, method, output="raw")
    for said in (found.verdict(), found.verdict(2)):
        assert said.startswith("not known: the model answers the baseline")
    typical = tg.explain(model, x, method, output="raw", baseline=series(1, 6, 2, seed=7).abs() + 0.5)
    assert "baseline" not in typical.verdict()
