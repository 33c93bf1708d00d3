"""The one line that says how good scores are: every number in it against a closed form, by hand."""

import math
import re
from dataclasses import replace

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.explanation import Facts
from tempograd.explanation.diagnostics import completeness_gap, goal, needed, needs, poor, quality_of
from tempograd.views.drivers import reader_verdict
from tests.helpers.explanations import made
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
        facts=(tg.Timing(50) if method == "timing" else tg.EXPLAINERS[method]()).facts,
        values=values,
        standard_error=spread,
        n_evals=None if passes is None else torch.tensor(passes, dtype=torch.int32),
        delta=delta,
        parameters={"n_samples": 50, "tolerance": None, "max_samples": None} | parameters,
    )


def tells(verdict, start, *parts):
    """Ask a verdict for its status, with which it begins, and for its numbers."""
    assert verdict.startswith(start)
    assert [part for part in parts if part not in verdict] == []


def test_a_series_that_converged():
    tells(judged(0.0183, passes=[1024]).verdict(), "converged", " 1.8 %", " 1,024 ")
    tells(judged(0.0).verdict(), "converged", " 0.1 %", " 50 ")
    tells(judged(0.104).verdict(), "converged", " 10 %")


def test_a_series_that_did_not_converge_and_what_to_type():
    """50 · (0.22 / 0.1)² = 242, and with a goal of 8 % 378."""
    text = judged(0.22).verdict()
    tells(text, "not converged", " 22 %", "tolerance=0.1")
    assert "n_samples=250" in text
    assert judged(0.22).verdict(0) == text
    assert needed(50, 0.22, 0.08) == 380
    far = judged(1.7).verdict()  # 50 · (1.7 / 0.1)² = 14450
    tells(far, "not converged", "over 100 %", "tolerance=0.1")
    assert "n_samples" not in far  # where a tolerance gives up, more than 3,200 are not advised


def test_a_tolerance_is_the_goal_and_max_samples_what_stopped_it():
    """400 · (0.08 / 0.05)² = 1024."""
    found = judged(0.08, passes=[400], tolerance=0.05, max_samples=400)
    tells(found.verdict(), "not converged", " 8 %", " 400 ")
    assert "max_samples=1100" in found.verdict()
    tells(judged(0.049, passes=[64], tolerance=0.05).verdict(), "converged", " 4.9 %", " 64 ")


def test_methods_name_their_own_settings():
    """20 · (0.2 / 0.1)² = 80, and 10 · 4 = 40."""
    old = judged(0.2, method="rand_ig")
    old = replace(old, parameters={"n_samples": 20})
    tells(old.verdict(), "not converged", " 20 %", " 20 ")
    assert "n_samples=80" in old.verdict()
    few = replace(old, facts=tg.AugmentedOcclusion().facts, parameters={"n_samples": 10})
    tells(few.verdict(), "not converged", " 20 %", " 10 ")
    assert "n_samples=40" in few.verdict()
    assert "pass" not in replace(old, parameters={}).verdict()


def test_cells_seen_less_than_twice_are_counted():
    """Two of four cells without an error of their own count with 1 + 0.02 / 0.798 each."""
    found = judged(0.02, unseen=[(0, 0, 0), (0, 1, 1)])
    miss = (2 * 0.02 + 2 * (SIZE + 0.02)) / 4
    assert float(found.relative_error) == pytest.approx(miss)
    tells(found.verdict(), "not converged", " 2 cells")
    assert f"error about {100 * miss:.0f} % " in found.verdict()
    assert f"n_samples={needed(50, miss, 0.1)}" in found.verdict()
    mask = torch.ones(1, 2, 2, dtype=torch.bool)
    mask[0, 0, 0] = False
    tells(replace(found, mask=mask).verdict(), "not converged", " 29 %", "n_samples=410", " 1 cell ")
    never = replace(found, values=torch.zeros(1, 2, 2), standard_error=torch.full((1, 2, 2), math.inf))
    tells(never.verdict(), "not converged", "not known", " 4 cells")


def test_scores_with_cells_of_unknown_error_are_not_converged():
    """However small the error is that the others have: 3 cells of 400 are next to nothing in their sum."""
    values = torch.ones(40, 100, 4)
    error = torch.full_like(values, 0.01)
    parts = {"facts": tg.RandIG().facts, "parameters": {"n_samples": 5}, "method": "rand_ig"}
    known = made(values, standard_error=error, **parts)
    assert known.verdict().startswith("converged")
    assert reader_verdict(known).badge == "converged"
    error[:, 7, :3] = math.inf
    found = made(values, standard_error=error, **parts)
    assert float(found.relative_error.max()) < 0.1
    for part, unseen in ((found, 120), (found[:1], 3)):
        tells(part.verdict(), "not converged", "n_samples=20", f" {unseen} cells")
        tells(reader_verdict(part).text, "not converged", f" {unseen} cells")
        assert poor(part)
        assert reader_verdict(part).badge == "rough"
    error[1:] = 0.01
    few = made(values, standard_error=error, **parts)
    tells(few.verdict(), "converged", " 39 of 40 ", " 0.8 %", " 3 cells")
    tells(reader_verdict(few).text, "converged", " 39 of 40 ", " 0.8 %", " 3 cells")
    assert (poor(few), poor(few[:1]), poor(few[1:])) == (False, True, False)


def test_a_cell_that_was_seen_once_is_never_called_converged():
    """Half of the cells move with each of five samples of RandIG; whatever they are, no error of some is known."""
    rare = 0
    for seed in range(30):
        weight = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
        x = torch.randn(1, 8, 3, generator=torch.Generator().manual_seed(100 + seed))
        found = tg.explain(
            lambda z, w=weight: (z * w).sum((1, 2)), x, "rand_ig", n_samples=5, output="raw", seed=seed
        )
        rare += bool(found.standard_error.isinf().any())
        assert not found.standard_error.isinf().any() or not found.verdict().startswith("converged")
    assert rare > 20  # 24 cells, each seen less than twice with probability 6/32


def test_many_series_are_one_line():
    """The middle one is told; the advice, 50 · (0.3 / 0.1)² = 450 or 50 · 4 = 200, serves 95 of 100."""
    tells(judged(0.01, 0.04, 0.02).verdict(), "converged", " 2 %", " 4 %")
    spread = judged(0.05, 0.04, 0.05, passes=[20, 40, 1200], tolerance=0.05)
    tells(spread.verdict(), "converged", " 5 %", " 20 to 1,200 ")
    many = judged(*[0.2] * 95, *[0.9] * 5)
    for found, advised in ((judged(0.3, 0.05, 0.2), 450), (judged(0.0, 0.05, 0.2), 200), (many, 200)):
        tells(found.verdict(), "not converged", f"n_samples={advised}")


def test_a_few_hard_series_do_not_spoil_the_rest():
    found = replace(judged(*[0.03] * 12, 0.4, *[0.03] * 27), names=tuple(f"bed {i}" for i in range(40)))
    tells(found.verdict(), "converged", " 39 of 40 ", " 3 %", " 40 %", "bed 12")
    tells(found.verdict(12), "not converged", " 40 %")
    assert "n_samples=800" in found.verdict(12)  # 50 · (0.4 / 0.1)²
    tells(found.verdict(11), "converged", " 3 %")
    passes = [64] * 39 + [400]
    stopped = judged(*[0.04] * 39, 0.08, passes=passes, tolerance=0.05, max_samples=400)  # 400 · (8 / 5)² = 1024
    tells(stopped.verdict(), "converged", " 39 of 40 ", " 4 %", " 64 to 400 ", " 8 %", "series 39")
    assert "max_samples=1100" in stopped.verdict()


def test_integrated_gradients_are_judged_by_their_sum():
    """Scores that sum to 0.997 of the change miss 0.3 % of it."""
    found = tg.explain(linear(2, 2), series(2, 2, 2), "integrated_gradients", output="raw")
    total = found.values.sum((1, 2)).double()
    assert replace(found, delta=total).verdict().startswith("complete to ")
    told = replace(found, delta=total / torch.tensor([0.997, 0.997]))
    assert "complete to 0.3 %" in told.verdict()
    short = replace(found, delta=total * torch.tensor([2.0, 1.0]))
    share = float(total[0].abs() / (2 * total[0].abs() + total[1].abs()))
    assert f"miss {100 * share:.0f} % of the change" in short.verdict()
    tells(short.verdict(0), "not complete", "n_steps=200")
    assert "miss 50 % of the change" in short.verdict(0)
    apart = replace(found, delta=total + torch.tensor([1.0, -1.0]))  # gaps of opposite sign do not cancel
    assert completeness_gap(apart) == pytest.approx(2 / float(apart.delta.abs().sum()))
    assert (poor(told), poor(short), poor(short[1:])) == (False, True, False)
    assert replace(found, delta=None).verdict() == "no sampling error"
    assert replace(found, delta=0 * total).verdict() == "no sampling error"
    assert replace(short, facts=replace(short.facts, complete=False)).verdict() == "no sampling error"


def test_other_methods_say_what_they_cannot_say():
    model, x = smooth(4, 1), series(2, 4, 1)
    found = tg.explain(model, x, "random")
    assert tg.explain(model, x, "occlusion").verdict() == "no sampling error"
    tells(found.verdict(), "no error is known", "another seed")
    assert replace(found, facts=Facts()).verdict() == found.verdict()
    tells(found[:0].verdict(), "nothing")


def test_a_series_that_is_not_there():
    with pytest.raises(InputError):
        judged(0.1, 0.1).verdict(2)


def test_more_samples_as_advised_reach_the_goal():
    """The advice is followed once, on a steep model, and the errors told are those that are there."""
    model, x = smooth(12, 2), 6 * series(24, 12, 2, dtype=torch.float64)
    setting = {"method": "rand_ig", "p": 0.5}
    first = tg.explain(model, x, n_samples=20, **setting)
    assert first.verdict().startswith("not converged")
    points = int(re.search(r"n_samples=(\d+)", first.verdict())[1])
    again = tg.explain(model, x, n_samples=points, seed=1, **setting)
    assert int((first.relative_error <= 0.1).sum()) <= 12
    assert int((again.relative_error <= 0.1).sum()) >= 20
    truth = tg.explain(model, x, n_samples=4_000, seed=2, **setting).values
    for found in (first, again):
        real = (found.values - truth).abs().sum((1, 2)) / truth.abs().sum((1, 2))
        assert float(found.relative_error.mean()) == pytest.approx(float(real.mean()), rel=0.4)


def test_runs_that_stopped_by_their_strongest_cells_are_judged_by_them():
    """A tolerance of the top tenth is no error: the series with all the points there were is not stable."""
    by_top = {"tolerance": 0.02, "stop_when": "top", "max_samples": 400}
    tells(judged(0.3, passes=[200], **by_top).verdict(), "stable", " 30 %", " 200 ")
    some = judged(0.3, 0.2, 0.25, passes=[200, 400, 100], **by_top)
    tells(some.verdict(), "not stable", " 1 of 3 ", " 100 to 400 ", "max_samples=800")
    tells(judged(0.3, passes=[400], **by_top).verdict(), "not stable", "max_samples=800")


class Faulty(tg.Timing):
    """As variants with known faults are: nothing of what TIMING promises holds."""

    _examined = False


@pytest.mark.parametrize(
    "method", [tg.Timing(50, segments=0), tg.Timing(50, control_variates=False), Faulty(50)], ids=repr
)
def test_a_tolerance_is_not_advised_where_it_would_be_refused(method):
    assert replace(judged(0.22), facts=tg.Timing(50, segments=3).facts).verdict().endswith("or tolerance=0.1")
    assert replace(judged(0.22), facts=method.facts).verdict().endswith("; pass n_samples=250")


def test_what_another_method_calls_a_tolerance_is_no_goal():
    """Dynamask's is the share of the prediction that a mask may lose."""
    found = tg.explain(linear(2, 2), series(2, 2, 2), "random")
    for method, aim in ((tg.Dynamask(tolerance=0.05), 0.1), (tg.Timing(tolerance=0.05), 0.05)):
        assert goal(replace(found, facts=method.facts, parameters=method.parameters)) == aim


def test_samples_that_nobody_can_pay_are_not_advised():
    assert needs(quality_of(judged(1e10, 0.3))) == [450]


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
    for text in (found.verdict(), found.verdict(2)):
        assert text.startswith("not known: the model answers the baseline")
    typical = tg.explain(model, x, method, output="raw", baseline=series(1, 6, 2, seed=7).abs() + 0.5)
    assert "baseline" not in typical.verdict()
