"""Unobserved cells and padding; what holds for every method is in tests/properties and tempograd.testing."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.explainers import GradientShap, IntegratedGradients, Timing
from tests.helpers.methods import explained, filled
from tests.helpers.models import linear, series, smooth


class First(nn.Module):
    """Looks at the first twelve steps only, so that padding means nothing to it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = smooth(12, 2)

    def forward(self, x):
        return self.inner(filled(x, 12)[:, :12])


def observed(batch: int, time: int, channels: int) -> torch.Tensor:
    mask = torch.rand(batch, time, channels, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[:, -1, 0] = True
    return mask


def test_series_of_different_lengths_are_explained_as_if_alone():
    model, x = First(), series(3, 20, 2, dtype=torch.float64)
    mask = torch.ones(3, 20, 2)
    mask[1, 15:], mask[2, 12:] = 0, 0
    together = Timing()(model, tg.Series(x, mask=mask)).values
    for i, length in ((1, 15), (2, 12)):
        alone = Timing()(model, tg.Series(x[i : i + 1, :length], ids=[i])).values
        torch.testing.assert_close(together[i : i + 1, :length], alone, rtol=1e-5, atol=1e-9)


def test_a_series_without_any_observation_scores_zero():
    mask = torch.ones(2, 12, 2)
    mask[1] = 0
    found = Timing()(smooth(12, 2), tg.Series(series(2, 12, 2), mask=mask))
    assert (found.values[1] == 0).all()
    assert (found.values[0] != 0).all()


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "occlusion", "lime"])
def test_the_model_reads_what_x_holds_in_missing_cells(method):
    """As the README says: neither 0 nor the baseline is put there."""
    x, mask, seen = torch.full((2, 4, 1), 3.0), torch.ones(2, 4, 1), []
    x[:, 1], mask[:, 1] = 7.0, 0.0

    def model(z):
        seen.append(z.detach()[:, 1].flatten())
        return z.sum((1, 2))

    tg.explain(model, tg.Series(x, mask=mask), method, output="raw", baseline=-1.0)
    assert set(torch.cat(seen).tolist()) == {7.0}


def test_averages_leave_missing_values_out():
    x, mask = series(3, 12, 2, dtype=torch.float64), observed(3, 12, 2)
    found = Timing(segments=0)(smooth(12, 2), tg.Series(x, mask=mask), baseline="average")
    expected = torch.stack([
        torch.stack([row[seen].mean() for row, seen in zip(one.T, keep.T, strict=True)])
        for one, keep in zip(x, mask, strict=True)
    ])  # fmt: skip
    torch.testing.assert_close(found.baseline[:, 0], expected)


def test_a_step_with_one_observed_channel_is_no_padding():
    mask = torch.tensor([[[1, 1], [0, 1], [0, 0]], [[0, 0], [0, 0], [0, 1]], [[0, 0], [0, 0], [0, 0]]])
    assert validation.lengths(mask.bool(), torch.zeros(3, 3, 2)).tolist() == [2, 3, 0]


def test_averages_are_taken_per_channel_and_are_zero_where_nothing_was_observed():
    x, mask = series(2, 6, 3), torch.ones(2, 6, 3)
    mask[0, :, 1] = 0
    whole = IntegratedGradients()(linear(6, 3), x, baseline="average").baseline
    torch.testing.assert_close(whole, x.mean(1, keepdim=True).expand_as(x))
    part = IntegratedGradients()(linear(6, 3), tg.Series(x, mask=mask), baseline="average").baseline
    assert (part[0, :, 1] == 0).all()


def test_a_pool_and_noise_leave_unobserved_cells_where_they_are():
    x, pool = series(5, 12, 2, dtype=torch.float64), series(9, 12, 2, seed=1, dtype=torch.float64)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.7
    seen, inner = [], smooth(12, 2)

    def model(z):
        seen.append(z.detach())
        return inner(z)

    for explainer in (
        GradientShap(noise=0.2),
        GradientShap().fit(model, pool),
        GradientShap(20, 0.2).fit(model, pool),
    ):
        explained(explainer, model, tg.Series(x, mask=mask))
    for batch in seen:
        assert ((batch[:, None] == x) | mask).flatten(2).all(2).any(1).all()


def test_given_segments_do_not_matter_to_a_series_without_any_observation():
    x, mask = series(3, 6, 1), torch.ones(3, 6, 1)
    mask[1] = 0
    found = Timing(50, None, 3, 1, 2)(linear(6, 1), tg.Series(x, mask=mask))
    assert (found.values[1] == 0).all()
    assert (found.values[0] != 0).all()


def test_a_series_of_one_step_beside_an_empty_one_keeps_its_own_segments():
    x, mask = series(2, 4, 3, dtype=torch.float64), torch.zeros(2, 4, 3)
    mask[1, 0] = 1
    together = Timing()(smooth(4, 3), tg.Series(x, mask=mask))
    alone = Timing()(smooth(4, 3), tg.Series(x[1:], mask=mask[1:], ids=[1]))
    assert torch.equal(together.n_draws[1:], alone.n_draws)
    torch.testing.assert_close(together.values[1:], alone.values)


def test_counts_of_half_precision_models_are_exact():
    found = Timing(499, segments=0)(linear(4, 3).bfloat16(), series(2, 4, 3))
    assert (found.n_draws == 499).all()


@pytest.mark.parametrize("kind", [torch.bool, torch.float64, torch.uint8])
def test_a_mask_becomes_boolean_and_lies_beside_the_series(kind):
    x, mask = series(1, 3, 2), torch.tensor([[[1, 0], [0, 0], [1, 1]]], dtype=kind)
    found = validation.check_mask(mask, x)
    assert found.dtype == torch.bool
    assert found.tolist() == [[[True, False], [False, False], [True, True]]]
    assert validation.check_mask(mask, x.to("meta")).device.type == "meta"
    assert validation.check_mask(mask.numpy(), x).tolist() == found.tolist()


def test_a_mask_with_one_wrong_number_or_another_shape_is_refused(said):
    x = series(2, 3, 2)
    mask = torch.ones_like(x)
    mask[1, 2, 0] = 0.5
    said.refused(InputError, tg.Series, x, mask=mask)
    said.refused(InputError, tg.Series, x, mask=torch.ones(1, 3, 2))
