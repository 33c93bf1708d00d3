"""What would be predicted with parts as usual: gates whose answers are known, and plain forwards."""

import pytest
import torch

import tempograd as tg
from tests.helpers.models import series, smooth

TIME, CHANNELS = 20, 4
NAMES = ["vibration", "temperature", "flow", "speed"]
GATES = {
    "and": lambda a, b: a * b,
    "or": lambda a, b: a + b - a * b,
    "xor": lambda a, b: a + b - 2 * a * b,
    "sum": lambda a, b: (a + b) / 2,
}


def gate(kind):
    """Return a model whose alarm is a gate of a spike of vibration and one of temperature."""

    def alarm(x):
        one, other = (torch.sigmoid(12 * (x[..., d].amax(1) - 0.5)) for d in (0, 1))
        share = GATES[kind](one, other)
        return torch.stack([1 - share, share], 1).clamp(1e-5, 1).log()

    return tg.Predictor(alarm, task="classification", classes=["healthy", "alarm"])


def in_time(x):
    """A gate in time: a spike of one channel in the first half, and another in the second."""
    one, other = (torch.sigmoid(12 * (half.amax(1) - 0.5)) for half in x[..., 0].split(TIME // 2, 1))
    return torch.stack([1 - one * other, one * other], 1).clamp(1e-5, 1).log()


def spikes(*places, count=1):
    x = 0.05 * series(count, TIME, CHANNELS, seed=1)
    for step, channel in places:
        x[:, step, channel] = 1.0
    return tg.Series(x, channels=NAMES)


USUAL = tg.Series(0.05 * series(60, TIME, CHANNELS, seed=2))
BOTH = ((5, 0), (12, 1))


@pytest.mark.parametrize(
    ("kind", "expected"), [("and", "needs both"), ("or", "each enough"), ("xor", "combination"), ("sum", None)]
)
@pytest.mark.parametrize("usual", [USUAL, "neighbours"])
def test_a_gate_of_two_channels_is_told(kind, expected, usual):
    model, x = gate(kind), spikes(*BOTH)
    found = tg.what_if(model, tg.explain(model, x, target=1, n_samples=100), usual=usual)
    remarks = [remark for remark in found.remarks() if remark.kind != "contradiction"]
    assert [remark.kind for remark in remarks] == [expected] * (expected is not None)
    assert all({part.channel for part in remark.parts} == {0, 1} for remark in remarks)
    assert all({outcome.parts[0].channel} <= {0, 1} for outcome in found.strongest() if len(outcome.parts) == 1)


def test_what_both_hold_down_is_not_called_needed():
    """The same alarm, asked about "healthy": with either spike gone that rises."""
    model, x = gate("and"), spikes(*BOTH)
    found = tg.what_if(model, tg.explain(model, x, target=0, n_samples=100), usual=USUAL)
    (remark,) = (remark for remark in found.remarks() if remark.kind == "needs both")
    assert "hold the prediction down" in remark.text
    assert "needs" not in remark.text
    assert all(outcome.change > 0.5 for outcome in found.strongest()[:2])


def test_a_gate_in_time_is_told_by_its_steps():
    model = tg.Predictor(in_time, task="classification")
    found = tg.what_if(model, tg.explain(model, spikes((4, 0), (15, 0)), target=1, n_samples=100), usual=USUAL)
    assert [(remark.kind, {part.start for part in remark.parts}) for remark in found.remarks()] == [
        ("needs both", {4, 15})
    ]


def test_one_cause_needs_no_other():
    model = gate("or")
    found = tg.what_if(model, tg.explain(model, spikes((5, 0)), target=1, n_samples=100), usual=USUAL)
    assert found.remarks() == []
    assert found.strongest()[0].parts == ((0, 0, TIME),)
    assert found.strongest()[0].change < -0.9


def test_a_score_that_a_channel_contradicts_comes_first():
    """Heat is needed, as a whole; more of it at a few steps pushes the alarm down."""

    def alarm(x):
        level = torch.sigmoid(12 * (x[..., 1].mean(1) - 0.3))
        logit = 8 * torch.sigmoid(12 * (x[..., 0].amax(1) - 0.5)) * level - 3 - 4 * x[:, 8:11, 1].mean(1)
        return torch.stack([torch.zeros_like(logit), logit], 1)

    x = spikes((5, 0))
    x.x[..., 1] = 1.0
    model = tg.Predictor(alarm, task="classification", classes=["healthy", "alarm"])
    exp = tg.explain(model, x, "occlusion", target=1)  # each cell alone: of heat, only what pushes down is seen
    found = tg.what_if(model, exp, usual=USUAL)
    first = found.remarks()[0]
    assert (first.kind, first.parts) == ("contradiction", ((1, 0, TIME),))
    assert found.describe().startswith(f"{first.text} ")
    assert "lowered" in first.text
    assert "falls" in first.text


def test_a_channel_that_pushes_both_ways_contradicts_none_of_its_stretches():
    x = spikes((4, 0), (15, 0))
    model = tg.Predictor(lambda z: 4 * z[:, 4:5, 0] - 3 * z[:, 15:16, 0], task="regression")
    exp = tg.explain(model, x, "occlusion")
    assert "lowered" in exp.describe()
    assert [remark.kind for remark in tg.what_if(model, exp).remarks() if remark.kind == "contradiction"] == []


def test_predictions_are_those_of_plain_forwards():
    model, x = smooth(TIME, CHANNELS).float(), series(5, TIME, CHANNELS)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(3)) < 0.8
    mask[2, :, 1] = False  # nothing of it can be as usual
    others, gaps = series(30, TIME, CHANNELS, seed=4), torch.rand(30, TIME, CHANNELS) < 0.3
    usual = tg.Series(others.masked_fill(gaps, torch.nan), mask="nan")
    clean = torch.where(mask, x, 0)
    exp = tg.explain(model, tg.Series(clean, mask=mask), n_samples=20)
    found = tg.what_if(model, exp, usual=usual, batch_size=7)
    middle = torch.stack([others[..., d][~gaps[..., d]].double().quantile(0.5) for d in range(CHANNELS)]).float()
    for i, outcomes in enumerate(found.outcomes):
        assert {part.channel for outcome in outcomes for part in outcome.parts} <= {
            d for d in range(4) if mask[i, :, d].any()
        }
        before = model(clean[i : i + 1]).softmax(-1)[0, exp.target[i]].item()
        for outcome in outcomes:
            z = clean[i].clone()
            for d, start, stop in outcome.parts:
                z[start:stop, d] = torch.where(mask[i, start:stop, d], middle[d], z[start:stop, d])
            after = model(z[None]).softmax(-1)[0, exp.target[i]].item()
            assert (outcome.prediction, outcome.change) == pytest.approx((after, after - before), abs=1e-6)


@pytest.mark.parametrize("usual", ["baseline", None])
def test_the_baseline_is_that_of_the_explanation(usual):
    model, x = smooth(TIME, CHANNELS).float(), series(2, TIME, CHANNELS)
    exp = tg.explain(model, x, baseline=0.5, n_samples=20)
    outcome = tg.what_if(model, exp, usual=usual).outcomes[1][2]
    z = x[1:].clone()
    z[..., 2] = 0.5
    assert outcome.parts == ((2, 0, TIME),)
    assert outcome.prediction == pytest.approx(model(z).softmax(-1)[0, exp.target[1]].item(), abs=1e-6)


def test_units_and_times_are_those_of_people():
    """The model reads scaled values; what is usual is said as people know it."""
    model, scaled = gate("and"), spikes(*BOTH)
    natural = tg.Series(
        20 + 10 * scaled.x, channels=NAMES, units=["mm/s", "°C", "l/s", "1/s"], times=range(100, 120)
    )
    exp = tg.explain(model, natural.scaled(lambda x: (x - 20) / 10), target=1, n_samples=100)
    background = tg.Series(20 + 10 * USUAL.x)
    found = tg.what_if(model, exp, usual=background.scaled(lambda x: (x - 20) / 10))
    low, middle, high = torch.quantile(background.x[..., 0].flatten(), torch.tensor([0.05, 0.5, 0.95])).tolist()
    assert found.usual_text(0) == f"{middle:.1f} mm/s (mostly {low:.1f} to {high:.1f})"
    assert {"vibration at 105", "temperature at 112"} <= {found.words(0, each.parts) for each in found.strongest()}
    assert tg.what_if(model, exp, usual=USUAL).usual_text(0) == ""  # in units of the model, which nobody knows


def test_several_inputs_have_what_is_usual_in_each():
    def alarm(vitals, static):
        logit = vitals[..., 0].amax(1) * 6 - 3 + static[:, 1]
        return torch.stack([torch.zeros_like(logit), logit], 1)

    model = tg.Predictor(alarm, task="classification")
    one, other = series(2, 10, 2), series(2, 3, 1)[..., 0]
    exp = tg.explain(model, tg.Series({"vitals": one, "static": other}), target=1, n_samples=20)
    usual = {"vitals": series(9, 10, 2, seed=5), "static": series(9, 3, 1, seed=6)[..., 0]}
    found = tg.what_if(model, exp, usual=tg.Series(usual))
    changed = other.clone()
    changed[:, 1] = usual["static"][:, 1].double().quantile(0.5)
    expected = alarm(one, changed).softmax(-1)[:, 1].tolist()
    outcome = [next(t for t in outcomes if t.parts[0].channel == 3) for outcomes in found.outcomes]
    assert [each.prediction for each in outcome] == pytest.approx(expected, abs=1e-6)


def test_the_table_has_all_trials():
    model = smooth(TIME, CHANNELS).float()
    exp = tg.explain(model, tg.Series(series(2, TIME, CHANNELS), ids=["A", "B"]), n_samples=20)
    found = tg.what_if(model, exp)
    rows = found.to_dataframe()
    assert rows["id"].tolist() == ["A"] * len(found.outcomes[0]) + ["B"] * len(found.outcomes[1])
    assert rows["change"].tolist() == [outcome.change for outcomes in found.outcomes for outcome in outcomes]
    assert rows["what"][0] == "channel 0"


@pytest.mark.parametrize(
    ("usual", "match"),
    [
        ("normal", "usual"),
        (series(3, TIME, 2), "must have the 4 channels of x, got 2"),
        (tg.Series(torch.full((2, TIME, CHANNELS), torch.nan), mask="nan"), "hold no value of channel 0"),
    ],
)
def test_what_nobody_can_use_is_refused(usual, match):
    model = smooth(TIME, CHANNELS).float()
    exp = tg.explain(model, series(2, TIME, CHANNELS), n_samples=20)
    with pytest.raises(tg.TempogradError, match=match):
        tg.what_if(model, exp, usual=usual)
