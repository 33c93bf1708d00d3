"""Heat maps: shades and limits by hand, for one method and for several."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.views.prediction import shaded
from tempograd.views.series import color_limit
from tests.helpers.explanations import gaps, made, waves
from tests.helpers.pictures import texts, view


def test_inputs_are_shaded_from_the_lowest_to_the_highest_of_their_channel():
    x = torch.tensor([[[9.0, 5.0], [2.0, 5.0], [1.0, 5.0], [3.0, 5.0]]])
    mask = torch.tensor([[[0, 1], [1, 1], [1, 1], [1, 1]]]).bool()
    case = view(made(np.zeros((1, 4, 2)), x=x, mask=mask))
    shades = shaded(case.x, case.observed)
    assert shades.T.tolist() == [[0.5, 0.5, 0, 1], [0.5] * 4]  # 9 is missing, 2 is half-way; channel 1 is constant


def test_values_that_were_not_observed_do_not_shade_others():
    x, mask = torch.tensor([[1.0], [3.0], [-7.0], [9.0]]), torch.tensor([[1], [1], [0], [0]]).bool()
    assert shaded(x.numpy(), mask.numpy()).tolist() == [[0], [1], [0.5], [0.5]]


def limits(record):
    return [color_limit(found.values, record.observed) for found in record.scores]


def test_the_full_colour_is_for_the_largest_but_two_of_a_hundred():
    values = np.arange(100.0).reshape(1, 100, 1)
    mask = torch.ones(1, 100, 1, dtype=torch.bool)
    assert limits(view(made(values), 0)) == [98]  # 98 of 0 … 99 are below it
    mask[0, 50:] = False
    assert limits(view(made(-values, mask=mask), 0)) == [49]
    assert limits(view(made(values, mask=torch.zeros_like(mask)), 0)) == [0]


def test_colours_are_centred_at_0_and_cells_that_push_down_have_a_dash():
    picture = plots.compare(made([[[2.0], [0.0], [-2.0], [-2.0], [-0.1]]]), 0)
    attribution = picture.axes[1]
    image = attribution.images[0]
    assert (image.norm.vmin, image.norm.vmax) == (-1, 1)
    np.testing.assert_allclose(image.get_array()[0], [1, 0, -1, -1, -0.05], rtol=1e-6)
    dashes = [segment.tolist() for lines in attribution.collections for segment in lines.get_segments()]
    assert dashes == [[[1.75, 0], [3.25, 0]]]  # one dash for the run


def test_missing_cells_of_a_heat_map_are_left_to_the_hatching():
    explanation = waves(series=1)
    known = made(explanation.values, x=explanation.x, mask=gaps(explanation.x))
    picture = plots.compare(known, 0, channels=[0, 1, 2])
    for axes in picture.axes[:2]:
        np.testing.assert_array_equal(
            np.ma.getmaskarray(axes.images[0].get_array()).T, ~gaps(explanation.x)[0].numpy()
        )
        assert axes.patch.get_hatch()


def test_methods_have_scales_of_their_own():
    signed = made([[[1.0, -4.0], [0.0, 0.0]]], method="timing")
    size = made([[[-1.0, 0.2], [0.1, 0.0]]], method="fit", signed=False)
    record = view([signed, size, signed])
    assert [found.method for found in record.scores] == ["timing", "fit", "timing 2"]
    assert limits(record) == [4, pytest.approx(0.2), 4]
    assert record.scores[1].values.tolist() == [[0, pytest.approx(0.2)], [pytest.approx(0.1), 0]]
    picture = plots.compare([signed, size, signed])
    scales = [(axes.images[0].norm.vmin, axes.images[0].norm.vmax) for axes in picture.axes if axes.images]
    assert scales == [(0, 1), (-1, 1), (0, 1), (-1, 1)]  # the input, then the methods
    assert "fit (no direction)" in texts(picture)


def test_methods_take_the_series_from_whichever_explanation_kept_it():
    x = torch.tensor([[[3.0], [5.0]]])
    record = view({"a": made([[[1.0], [2.0]]], x=None), "b": made([[[1.0], [2.0]]], x=x)})
    assert record.x.tolist() == [[3], [5]]
    assert [found.method for found in record.scores] == ["a", "b"]


def test_explanations_of_other_series_are_refused():
    other = made([[[1.0]]], ids=torch.tensor([99]))
    with pytest.raises(tg.TempogradError, match=r"'timing 2' is of other series .*than 'timing'"):
        plots.compare([made([[[1.0]]]), other])
    with pytest.raises(tg.TempogradError, match="nothing to show"):
        plots.compare([])
