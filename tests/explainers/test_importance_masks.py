from dataclasses import replace

import pytest
import torch

from tempograd.core.rng import keys
from tempograd.sampling.segments import SegmentSampler, SegmentSettings, cover_all_cells, draw_masks

STARVED = SegmentSettings(60, 1, 5, 4, 60)


def masks(segments: SegmentSettings, observed: torch.Tensor, points: int, share: float, seed: int = 0):
    segments = replace(segments, anchored=share)
    x = torch.zeros(1, segments.time, segments.channels, dtype=torch.float64)
    table = SegmentSampler.table({segments.time: segments}, x, x.device, x.dtype)
    sampler = table.of(torch.full((len(observed),), segments.time))
    return draw_masks(keys(seed, torch.arange(len(observed)), 0), sampler, observed, points), sampler


@pytest.mark.parametrize("share_observed", [1.0, 0.3])
def test_resampling_goes_on_until_every_observed_cell_moves(share_observed):
    observed = torch.rand(100, 60, 1, generator=torch.Generator().manual_seed(0)) < share_observed
    drawn, sampler = masks(STARVED, observed, 20, 0.05)
    assert drawn.unseen
    before = drawn.anchors.clone()
    after = cover_all_cells(drawn, sampler, observed)
    assert (after.masks.any(1) | ~observed).all()
    moved = after.masks.flatten(2).gather(2, after.anchors.clamp(min=0)[..., None])[..., 0]
    assert (moved | (after.anchors < 0)).all()
    new = after.anchors[after.anchors != before]
    assert len(new) > 0
    aimed = observed.flatten(1).gather(1, after.anchors.clamp(min=0))
    assert aimed[after.anchors >= 0].all()  # on observed cells only


def test_anchors_are_spread_evenly_over_the_observed_cells_from_a_random_offset():
    segments, points = SegmentSettings(40, 2, 3, 2, 5), 50
    observed = torch.ones(30, 40, 2, dtype=torch.bool)
    observed[1:, :20] = False
    drawn, _ = masks(segments, observed, points, 0.8)
    for i in range(30):
        flat = drawn.anchors[i][drawn.anchors[i] >= 0]
        chosen = (flat % 2 * 40 + flat // 2).sort().values  # channel by channel
        cells = observed[i].T.flatten().nonzero()[:, 0]
        rank = torch.searchsorted(cells, chosen)
        assert len(chosen) == 40
        assert torch.equal(cells[rank], chosen)
        gap = rank.diff()
        assert gap.min() >= len(cells) // 40 - 1
        assert gap.max() <= -(-len(cells) // 40) + 1
    anchored = drawn.anchors >= 0
    assert (anchored[0] != anchored[1]).any()  # which points are anchored is random, not the end of the path
    assert 0.5 < anchored[:, :10].float().mean() < 0.95
    some = masks(SegmentSettings(40, 2, 3, 2, 5), torch.ones(30, 40, 2, dtype=torch.bool), points, 0.2)[0].anchors
    assert len(some[some >= 0].unique()) > 40  # ten per series at distance 8, of 80 cells


def test_every_channel_has_its_share_of_the_anchors():
    observed = torch.ones(20, 200, 3, dtype=torch.bool)  # 600 cells, 40 anchors: every 15th is of the same channel
    anchors = masks(SegmentSettings(200, 3, 10, 1, 200), observed, 50, 0.8)[0].anchors
    for row in anchors:
        assert (row[row >= 0] % 3).bincount(minlength=3).sort().values.tolist() == [13, 13, 14]


def test_some_mask_of_every_stage_comes_from_the_sampler_itself():
    """Were all anchored, cells that are never free beside the anchors would be left out with weight 0."""
    observed = torch.ones(5, 40, 2, dtype=torch.bool)
    for points, anchored in ((1, 0), (2, 1), (3, 2), (50, 40)):
        drawn, _ = masks(SegmentSettings(40, 2, 3, 2, 5), observed, points, 0.8)
        assert (drawn.anchors >= 0).sum(1).tolist() == [anchored] * 5


def test_no_anchor_where_nothing_was_observed():
    observed = torch.ones(2, 40, 2, dtype=torch.bool)
    observed[1] = False
    drawn, _ = masks(SegmentSettings(40, 2, 3, 2, 5), observed, 20, 0.8)
    assert (drawn.anchors[1] == -1).all()
    assert (drawn.weights[1] == 1).all()
