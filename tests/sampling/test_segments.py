"""The mask sampler against its closed form, brute force and rejection sampling."""

from itertools import product

import numpy as np
import pytest
import torch

from tempograd.core.errors import SettingError
from tempograd.core.rng import fold_in, keys
from tempograd.sampling.segments import (
    BITS,
    Drawn,
    SegmentSampler,
    SegmentSettings,
    _missing_weights,
    complete,
    paint,
    placement_bits,
    sample_masks,
    sample_segments,
)
from tests.helpers.literal_methods import deviation
from tests.helpers.methods import PAPER


def draw(segments: SegmentSettings, points: int, anchor: int | None = None, seed: int = 0) -> torch.Tensor:
    """Masks of one series, (points, time, channel)."""
    x = torch.zeros(1, segments.time, segments.channels, dtype=torch.float64)
    sampler = SegmentSampler.table({segments.time: segments}, x, x.device, x.dtype)
    stream = fold_in(keys(seed, torch.tensor([0]), 0), points)
    anchors = None if anchor is None else torch.full((1, points), anchor)
    return sample_masks(stream, sampler, anchors)[0]


@pytest.mark.parametrize("time", [1, 4, 7])
@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 3), (2, 4)])
@pytest.mark.parametrize(("channels", "count"), [(1, 1), (3, 2)])
def test_closed_form_equals_brute_force(time, low, high, channels, count):
    low, high = min(low, time), min(high, time)
    cover = np.zeros(time)
    for length in range(low, high + 1):
        for start in range(time - length + 1):
            cover[start : start + length] += 1 / (high - low + 1) / (time - length + 1) / channels
    expected = np.zeros(time)
    for hits in product([False, True], repeat=count):
        if not any(hits):
            expected += np.prod([1 - cover for _ in hits], axis=0)
    np.testing.assert_allclose(SegmentSettings(time, channels, count, low, high).p_active(), expected, atol=1e-12)


@pytest.mark.parametrize("setting", PAPER)
def test_free_frequencies_match_the_closed_form(setting):
    segments = SegmentSettings(*PAPER[setting])
    assert deviation(draw(segments, 1000 if setting == "pam" else 6000), segments) < 4.5


def test_one_segment_is_one_unbroken_run_in_one_channel():
    held = ~draw(SegmentSettings(12, 2, 1, 2, 8), 4000)
    assert (held.any(1).sum(-1) == 1).all()
    run = held.any(-1).int()
    starts = run.diff(dim=1, prepend=torch.zeros_like(run[:, :1])).eq(1).sum(1)
    assert (starts == 1).all()
    lengths = torch.bincount(run.sum(1), minlength=13)
    assert lengths[:2].sum() == lengths[9:].sum() == 0
    assert ((lengths[2:9] / 4000 - 1 / 7).abs() < 5 * (1 / 7 * 6 / 7 / 4000) ** 0.5).all()


@pytest.mark.parametrize(("count", "channels", "points"), [(3, 2, 5), (127, 1, 7), (300, 4, 6), (300, 128, 300)])
def test_masks_leave_exactly_what_no_segment_covers(count, channels, points):
    """Counts beyond 8 bits in one cell, and masks that are summed up many channels at once."""
    setting = SegmentSettings(6, channels, count, 1, 3)
    x = torch.zeros(1, setting.time, channels)
    sampler = SegmentSampler.table({setting.time: setting}, x, x.device, x.dtype)
    stream = fold_in(keys(1, torch.tensor([0]), 0), points)
    drawn = sample_segments(placement_bits(stream, sampler), sampler, stream)
    expected = torch.ones(points, setting.time, channels, dtype=torch.bool)
    for point in range(points):
        for length, channel, start in zip(*(part[0, point].tolist() for part in drawn), strict=True):
            expected[point, start : start + length, channel] = False
    assert torch.equal(paint(drawn, sampler)[0], expected)
    one_cell = Drawn(
        *(torch.full((1, 1, 256), value) for value in (2, channels - 1, 1))
    )  # 256 on top of each other
    left = paint(one_cell, sampler)[0, 0]
    assert left[:, -1].tolist() == [True, False, False, True, True, True]
    assert left[:, :-1].all()


@pytest.mark.parametrize(
    ("segments", "cell"),
    [
        (SegmentSettings(12, 1, 2, 2, 9), 5),
        (SegmentSettings(9, 3, 6, 1, 6), 3 * 4 + 1),
        (SegmentSettings(9, 3, 6, 1, 6), 0),
        (SegmentSettings(10, 2, 3, 4, 4), 19),
    ],
)
def test_anchored_masks_follow_the_distribution_given_that_the_anchor_is_active(segments, cell):
    anchored = draw(segments, 8000, anchor=cell).flatten(1)
    assert anchored[:, cell].all()
    independent = draw(segments, 60000, seed=1).flatten(1)
    rejected = independent[independent[:, cell]]
    assert len(rejected) > 2000
    for sample in (
        lambda m: m.double(),
        lambda m: (m[:, 1:] & m[:, :-1]).double(),
        lambda m: (m.sum(1, keepdim=True) / 10).double(),
    ):
        first, second = sample(anchored), sample(rejected)
        spread = (first.var(0) / len(first) + second.var(0) / len(second)).sqrt().clamp(min=1e-9)
        assert ((first.mean(0) - second.mean(0)) / spread).abs().max() < 4.5


@pytest.mark.parametrize(("time", "low", "high"), [(1, 1, 1), (7, 1, 7), (8, 2, 5), (9, 6, 9), (23, 4, 19)])
def test_lengths_that_miss_an_anchor_are_weighted_as_starts_counted_one_by_one(time, low, high):
    bounds = [torch.tensor([[value]]) for value in (time, low, high)]
    found = _missing_weights(torch.arange(time)[:, None], bounds, high - low + 2)
    for when in range(time):
        total = 0
        for place, length in enumerate(range(low, high + 1)):
            starts = range(time - length + 1)
            missing = sum(not start <= when < start + length for start in starts)
            total += (missing << BITS) // len(starts)
            assert found[when, place] == total
        assert found[when, -1] == total  # of a length that only longer series have


def test_shorter_series_draw_as_if_they_were_alone():
    x = torch.zeros(2, 20, 3)
    long, short = SegmentSettings(20, 3, 9, 2, 6), SegmentSettings(12, 3, 5, 1, 4)
    sampler = SegmentSampler.table({12: short, 20: long}, x, x.device, x.dtype).of(torch.tensor([20, 12]))
    stream = fold_in(keys(0, torch.tensor([4, 5]), 0), 30)
    both = sample_masks(stream, sampler)
    alone = sample_masks(
        fold_in(keys(0, torch.tensor([5]), 0), 30), SegmentSampler.table({12: short}, x[:, :12], x.device, x.dtype)
    )
    assert torch.equal(both[1, :, :12], alone[0])
    assert both[1, :, 12:].all()


@pytest.mark.parametrize(
    ("time", "channels"), [(48, 32), (152, 1), (600, 17), (36, 20), (200, 3), (10, 3), (5, 1)]
)
def test_defaults_leave_about_half_of_the_cells_free(time, channels):
    segments = complete(time, channels, None, None, None, time)
    assert segments.p_active().mean() == pytest.approx(0.5, abs=0.06)
    assert segments.p_active().min() > 0.2


def test_defaults_complete_what_was_given_and_fix_nothing_where_nothing_can_be_fixed():
    assert complete(48, 32, 7, None, None, 48).count == 7
    assert complete(48, 32, None, 30, None, 48).high == 30
    assert complete(48, 32, None, None, 2, 48).low <= 2
    assert complete(1, 1, None, None, None, 1).count == 0
    assert complete(12, 3, None, 10, 20, 20) == complete(12, 3, None, 10, 12, 20)


def test_lengths_must_fit_the_batch():
    with pytest.raises(SettingError, match="max_length=49 does not fit series of 48 steps"):
        complete(48, 2, 3, 1, 49, 48)


def test_many_segments_on_one_cell_hold_it_once():
    """256 of them would be none in eight bits."""
    assert not draw(SegmentSettings(1, 1, 256, 1, 1), 10).any()


def covered(time: int, low: int, high: int) -> np.ndarray:
    """How likely each step is covered by a segment in its channel: placed at every start, one after the other."""
    cover = np.zeros(time)
    for length in range(low, high + 1):
        starts = time - length + 1
        hits = np.zeros(time)
        for start in range(starts):
            hits[start : start + length] += 1
        cover += hits / starts  # exactly 1 where every start covers a step
    return cover / (high - low + 1)


@pytest.mark.parametrize("time", [*range(1, 19), 101])
def test_the_closed_form_is_that_of_segments_placed_one_by_one(time):
    """For all bounds of their lengths; a step that is always covered is so exactly, since it is refused."""
    step = 1 if time < 20 else 13
    for low in range(1, time + 1, step):
        for high in range(low, time + 1, step):
            expected = 1 - covered(time, low, high)
            found = SegmentSettings(time, 1, 1, low, high).p_active()
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
            np.testing.assert_array_equal(found == 0, expected == 0)


@pytest.mark.parametrize("channels", [1, 2, 7])
@pytest.mark.parametrize("time", [1, 2, 5, 12, 60])
def test_the_count_is_the_one_whose_masks_are_closest_to_half_held(time, channels):
    for low in range(1, time + 1, 1 + time // 9):
        for high in range(low, time + 1, 1 + time // 9):
            cover = covered(time, low, high) / channels
            shares = [((1 - cover) ** count).mean() for count in range(400)]
            expected = 0 if cover.max() == 1 else int(np.abs(np.array(shares) - 0.5).argmin())
            assert complete(time, channels, None, low, high, time).count == expected


def test_defaults_are_a_third_and_a_tenth_of_the_length():
    assert complete(60, 4, 3, None, None, 60) == SegmentSettings(60, 4, 3, 6, 20)
    assert complete(2, 4, 3, None, None, 2) == SegmentSettings(2, 4, 3, 1, 1)
    assert complete(60, 4, 3, None, 2, 60) == SegmentSettings(60, 4, 3, 2, 2)
    assert complete(60, 4, 3, 30, None, 60) == SegmentSettings(60, 4, 3, 30, 30)
