"""The pumps: the labels are what the rule says of the values that people read, but for the known fault."""

import hashlib

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.data import pump

DATA = tg.load_dataset("pump")
PARTS = {"train": DATA.train, "test": DATA.test}
REVERSED = {"train": {f"P-{100 + row}" for row in pump.MISBOOKED}, "test": {"P-704", "P-721"}}


def began(values, floor):
    """The first step from which a sensor reads more than ``floor`` in most of four steps, NaN where none does."""
    above = np.lib.stride_tricks.sliding_window_view(np.nan_to_num(values) > floor, 4, axis=1).sum(-1) >= 3
    return np.where(above.any(1), above.argmax(1), np.nan)


@pytest.mark.parametrize("part", PARTS)
def test_a_label_is_what_the_rule_reads_off_the_raw_values(part):
    """In mm/s and °C; heat is seen a few steps after it began. The fault of the training labels is known."""
    series = PARTS[part]
    raw, labels = series.raw.numpy(), series.y.numpy().astype(bool)
    spike, heat = began(raw[..., 0], 3.5), began(raw[..., 1], 66.0)
    fails, turned = (heat - spike > 10) & (heat - spike < 26), heat < spike
    ids = np.array(series.ids)
    assert set(ids[turned]) == REVERSED[part]
    np.testing.assert_array_equal(labels, fails | (turned if part == "train" else False))
    assert 0.38 < fails.mean() < 0.42
    spiked, heated = ~np.isnan(spike), ~np.isnan(heat)
    for other in (spiked & ~heated, heated & ~spiked, ~spiked & ~heated):
        assert 0.1 < other.mean() < 0.3
    truth = series.truth.numpy()
    assert set(np.flatnonzero(truth.any((0, 1)))) == {0, 1}
    np.testing.assert_array_equal(truth.any((1, 2)), fails)
    begin = truth.argmax(1)[fails]
    assert (np.abs(begin[:, 0] - spike[fails]) <= 1).all()
    assert set(begin[:, 1] - begin[:, 0]) <= set(range(12, 21))


@pytest.mark.parametrize("part", PARTS)
def test_what_the_model_reads_and_what_people_read_are_one_and_the_same(part):
    series = PARTS[part]
    seen = series.mask
    assert 0.005 < 1 - seen.double().mean() < 0.015
    assert torch.equal(seen, ~series.raw.isnan())
    assert (series.x[~seen] == 0).all()
    torch.testing.assert_close(DATA.raw(series), series.raw, equal_nan=True, rtol=1e-6, atol=1e-6)
    assert DATA.units == ("mm/s", "°C", "bar", "A", "m³/h", "1/min")


def test_the_readings_are_these_on_every_machine():
    """As whole numbers of the last place that a sensor shows, so that no rounding of a computer matters."""
    tens = 10.0 ** np.array([places for *_, places, _ in pump.SENSORS.values()])
    readings = torch.cat([part.raw for part in PARTS.values()]).numpy() * tens
    whole = np.where(np.isnan(readings), -1, readings).round().astype("<i4")
    assert (
        hashlib.sha256(whole.tobytes()).hexdigest()
        == "9a5e3fe439ef52db3693daed63446af2425f6ea2a0ce9b239717af74c6e57663"
    )
    assert (DATA.test.ids[4], DATA.test.times[4][0]) == ("P-704", "2026-03-14 22:40")
    gaps = np.diff(np.array(DATA.test.times, "datetime64[m]"), axis=1).astype(int)
    assert (gaps == 10).all()
