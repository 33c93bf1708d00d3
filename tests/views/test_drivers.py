"""What drove a prediction: blocks with a known answer are found, totals are sums of `values`, in true words."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError, UnknownNameError
from tempograd.views.drivers import drivers_of
from tests.helpers.explanations import made, named_ward, waves, with_gaps
from tests.helpers.models import Risk, patients, series

HOURS = [f"{t} h" for t in range(48)]


class Alarm(torch.nn.Module):
    """One logit: lactate (channel 1) at 30 to 35 h drives it up, GCS (channel 2) at 40 and 41 h down."""

    tempograd_task = "classification"

    def forward(self, x):
        return 0.5 * x[:, 30:36, 1].sum(1, keepdim=True) - 0.6 * x[:, 40:42, 2].sum(1, keepdim=True) - 1


def ill(count=3):
    """Patients whose lactate rises by and by and whose other values are small."""
    x = 0.05 * series(count, 48, 4, seed=3)
    x[:, 30:36, 1] = 1 + 0.1 * torch.arange(6)
    x[:, 40:42, 2] = 0.8
    return x


NAMES = {
    "channels": ["pulse", "lactate", "GCS", "temperature"],
    "units": ["bpm", "mmol/L", "", "°C"],
    "times": HOURS,
}


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "occlusion", "rand_ig", "lime"])
def test_the_largest_block_of_a_known_model_is_the_first_driver(method):
    found = tg.explain(Alarm(), tg.Series(ill(), **NAMES), method)
    for i in range(3):
        first = drivers_of(found, i)[0]
        assert (first.channel, first.start, first.stop) == (1, 30, 36)
        assert first.total > 0
        assert first.certain
        assert "raised by lactate 1–1.5 mmol/L at 30–35 h (" in found.describe(i)


def test_a_driver_that_pushes_down_is_told_apart_from_its_channel_and_sign():
    found = tg.explain(Alarm(), tg.Series(ill(), **NAMES), "timing")
    second = drivers_of(found, 0)[1]
    assert (second.channel, second.start, second.stop) == (2, 40, 42)
    assert second.total < 0
    assert ", lowered by GCS 0.8 at 40–41 h (" in found.describe(0)


def test_beside_a_probability_effects_are_shares_of_all_that_pushed():
    """Scores may add up to more than the prediction moved, as these do; shares never to more than all."""
    model = tg.Predictor(lambda z: z[:, 0], task="binary")
    found = tg.explain(model, torch.ones(1, 5, 1), "integrated_gradients", target=1)
    values = torch.tensor([0.6, 0.0, -0.9, 0.0, 1.5]).view(1, 5, 1)
    found = replace(found, values=values, standard_error=0.1 * values.abs(), ess=torch.full_like(values, 99.0))
    told = "raised by channel 0 = 1 at step 4 (50 ± 5 % of the push) and channel 0 = 1 at step 0 (20 ± 2 %)"
    assert told in found.describe(0)
    assert "lowered by channel 0 = 1 at step 2 (30 ± 3 %)" in found.describe(0)
    plain = replace(found, output="raw")
    assert "(+1.5 ± 0.2)" in plain.describe(0)  # of a number, in its unit
    size = replace(found, signed=False, standard_error=None, ess=None)
    assert "what matters is channel 0 = 1 at step 4 (71 % of all importance)" in size.describe(0)


def by_hand(found, i, driver):
    """Add up what lies in a driver, cell by cell, in plain Python."""
    total = error = 0.0
    for t in range(driver.start, driver.stop):
        if found.mask is None or bool(found.mask[i, t, driver.channel]):
            cell = float(found.values[i, t, driver.channel])
            total += cell if found.signed else max(cell, 0.0)
            error += float(found.standard_error[i, t, driver.channel])
    return total, error


@pytest.mark.parametrize("made_of", [waves, lambda: with_gaps(waves()), lambda: waves(signed=False)])
def test_totals_and_errors_are_those_of_a_loop_over_cells(made_of):
    found = made_of()
    for i in range(len(found)):
        for driver in drivers_of(found, i, 50):
            assert (driver.total, driver.error) == pytest.approx(by_hand(found, i, driver))


def test_drivers_do_not_overlap_and_the_strongest_come_first():
    found = drivers_of(waves(), 0, 50)
    cells = [(t, each.channel) for each in found for t in range(each.start, each.stop)]
    assert len(cells) == len(set(cells))
    sizes = [abs(each.total) for each in found]
    assert sizes == sorted(sizes, reverse=True)


def test_the_strongest_of_many_are_those_of_all():
    """A long driver loses a tenth when it is cut: the first must be the same however many are asked for."""
    values = np.zeros((1, 12, 2))
    values[0, 1:11, 0], values[0, 5, 1] = 1.0, 9.5  # 10, of which 9 are left, against 9.5
    found = made(values)
    assert [each.channel for each in drivers_of(found, 0, 5)] == [1, 0]
    assert [each.channel for each in drivers_of(found, 0, 1)] == [1]


def spans(values, **parts):
    return [(each.start, each.stop) for each in drivers_of(made(np.reshape(values, (1, -1, 1)), **parts), 0, 50)]


def test_the_rule_step_by_step():
    assert spans([0, 4, 0.1, 5, 0]) == [(1, 4)]  # one weak value lies inside
    assert spans([0, 4, 0.1, 0.2, 5]) == [(4, 5), (1, 2)]  # two weak ones end it
    assert spans([3, -2, 4]) == [(2, 3), (0, 1), (1, 2)]  # the other sign ends it
    assert spans([3, -0.2, 4]) == [(0, 3)]  # unless it is weak
    assert spans([1] * 3 + [10] * 5) == [(3, 8)]  # a weak beginning is cut: 50 of 53 are enough
    assert spans([0, 0, 0]) == []


def test_values_that_were_not_observed_are_passed_over():
    mask = torch.tensor([1, 0, 0, 0, 1, 1]).bool().view(1, -1, 1)
    assert spans([5, 0, 0, 0, 5, -5], mask=mask) == [(0, 5), (5, 6)]


def test_a_slow_push_of_many_small_values_counts_more_than_one_peak():
    values = np.zeros((1, 100, 2))
    values[0, 20:80, 0], values[0, 50, 1] = 0.01, 0.1
    first = drivers_of(made(values), 0)[0]
    assert (first.channel, first.start) == (0, 20)
    assert first.total == pytest.approx(0.01 * (first.stop - 20))
    assert 0.9 * 0.6 <= first.total + 1e-6 <= 0.6


def test_long_series_may_pause_longer():
    values = np.zeros(500)
    values[[100, 115, 130]] = 1.0
    assert spans(values) == [(100, 131)]
    assert len(spans(values[90:140])) == 3


def certain(total, error, ess, cells=1):
    part = torch.full((1, cells, 1), 1.0)
    (found,) = drivers_of(made(total / cells * part, standard_error=error / cells * part, ess=ess * part), 0)
    return found.certain


def test_certain_is_what_students_t_says_of_the_rarest_cell():
    assert certain(2.1, 1.0, 51)
    assert not certain(1.9, 1.0, 51)
    assert certain(2.9, 1.0, 5)
    assert not certain(2.7, 1.0, 5)
    assert certain(2.1, 1.0, 51, cells=7)
    assert not certain(9.0, float("inf"), 51)
    assert not certain(9.0, 1.0, 1)


def test_uncertain_drivers_come_last_and_are_called_so():
    values = torch.tensor([[[3.0, 0.0, 2.0]]])
    error = torch.tensor([[[2.0, 0.0, 0.1]]])
    found = made(values, standard_error=error, ess=torch.full_like(values, 50.0), channels=("a", "b", "c"))
    assert found.describe(0) == "Output 0, raised by c 0 at step 0 (+2 ± 0.1); not certain: a 0 at step 0 (+3 ± 2)"
    alone = replace(found, standard_error=torch.full_like(values, 9.0))
    assert alone.describe(0) == "Output 0; no driver is certain, the largest: a 0 at step 0 (+3 ± 9)"


@pytest.mark.exact_draws
def test_prediction_label_units_and_stamps(said):
    model, series = named_ward()
    found = tg.explain(model, series, "integrated_gradients")
    for i in range(3):
        said(replace(found, y=torch.tensor([0, 1, 0])).describe(i))


def test_one_logit_speaks_of_two_classes():
    found = tg.explain(tg.Predictor(Risk(), classes=["survived", "died"]), patients(), "integrated_gradients")
    logit = 3 * 1.0 - 2 * 0.25
    percent = round(100 / (1 + np.exp(-logit)))
    said = replace(found, y=torch.tensor([0, 1])).describe(0)
    assert said.startswith(
        f"{percent} % probability of “died” (true: “survived”), raised by channel 0 = 1 at step 2"
    )
    other = tg.explain(
        tg.Predictor(Risk(), classes=["survived", "died"]), patients(), "integrated_gradients", target=0
    )
    assert other.describe(0).startswith(f"{100 - percent} % probability of “survived”, lowered by")


def test_regression_forecast_and_labels_of_several():
    def double(z):
        return 2 * z[:, :, 0]

    x, y = series(2, 3, 2), torch.ones(2, 3)
    found = tg.explain(tg.Predictor(double, task="forecast"), x, "integrated_gradients", target=1)
    value = float(2 * x[0, 1, 0])
    said = replace(found, y=y).describe(0)
    assert said.startswith(f"Step 1 of the forecast is {value:.3g} (true: 1), ".replace("-", "−"))
    assert drivers_of(found, 0)[0].total == pytest.approx(value, rel=1e-4)
    one = tg.explain(tg.Predictor(lambda z: double(z)[:, :1], task="regression"), x, "integrated_gradients")
    assert one.describe(1).startswith(f"The model's output is {float(2 * x[1, 0, 0]):.3g}, ".replace("-", "−"))
    assert replace(one, prediction=None).describe(1).startswith("The model's output, ")
    many = tg.explain(
        tg.Predictor(double, classes=["x", "y", "z"], task="multilabel"), x, "integrated_gradients", target=2
    )
    assert "% probability of “z” (true: present), " in replace(many, y=y).describe(0)


def test_outputs_of_steps_are_told_by_their_mean_and_effects_as_sums():
    def slope(z):  # class 1 of each step gains with the step's own value
        return torch.stack([torch.zeros_like(z[..., 0]), z[..., 0]], -1)

    x = series(2, 4, 1)
    up = 1 / (1 + np.exp(-x[0, :, 0].double().numpy()))

    def told(times=None, **asked):
        model, given = tg.Predictor(slope, task="per_step"), tg.Series(x, times=times)
        return tg.explain(model, given, "integrated_gradients", baseline="zero", **asked).describe(0)

    assert told(target=1).startswith(f"{100 * up.mean():.0f} % mean probability of class 1 over all 4 steps, ")
    assert told(target=1).endswith("; effects are summed over the 4 steps")
    sure = np.maximum(up, 1 - up)
    assert told().startswith(f"{100 * sure.mean():.0f} % mean probability of each step's class over all 4 steps, ")
    some = told(target=0, steps=[1, 3])
    mean = 1 - up[[1, 3]].mean()
    assert some.startswith(f"{100 * mean:.0f} % mean probability of class 0 over 2 of 4 steps, ")
    one = told(target=1, steps=[2])
    assert one.startswith(f"{100 * up[2]:.0f} % probability of class 1 at step 2, ")
    assert "summed" not in one
    named = told(target=1, steps=[2], times=list("abcd"))
    assert named.startswith(f"{100 * up[2]:.0f} % probability of class 1 at c, ")
    assert told(target=1, steps="own").endswith("; each value counts at its own step")
    raw = f"{float(x[0].mean()):.3g}".replace("-", "−")
    assert told(target=1, output="raw").startswith(f"Mean output 1 over all 4 steps is {raw}, ")


def test_without_a_sign_an_error_or_the_series():
    values = torch.tensor([[[3.0, -9.0, 2.0]]])
    assert made(values, signed=False).describe(0) == (
        "Output 0; what matters is channel 0 = 0 at step 0 (3) and channel 2 = 0 at step 0 (2)"
    )
    assert made(values, x=None).describe(0) == (
        "Output 0, lowered by channel 1 at step 0 (−9), raised by channel 0 at step 0 (+3) and "
        "channel 2 at step 0 (+2)"
    )
    assert made(0 * values).describe(0) == "Output 0; no value has a score other than 0"
    nothing = torch.zeros(1, 1, 3, dtype=torch.bool)
    assert made(0 * values, mask=nothing).describe(0) == "Output 0; nothing of the series was observed"
    assert made(values, method="random").describe(0) == (
        "Output 0; the scores are random, a control that says nothing about the model"
    )


def test_several_inputs_name_static_values_without_a_time():
    def net(vitals, static):
        return vitals.sum((1, 2), keepdim=True)[:, 0] * 0.1 + static[:, :1] * 5

    inputs = {"vitals": series(2, 4, 2).abs(), "static": torch.tensor([[2.0, 1.0], [3.0, 1.0]])}
    found = tg.explain(tg.Predictor(net, task="regression"), inputs, "integrated_gradients")
    first = drivers_of(found, 0)[0]
    assert first.total == pytest.approx(10, rel=1e-4)
    assert "step" not in first.words
    assert "static" in first.words


def test_wrong_questions(said):
    said.refused(InputError, waves().describe, 7)
    said.refused(UnknownNameError, waves().describe, "bed 1")
    said.refused(InputError, drivers_of, waves(), 0, 0)
