"""Pictures show values before scaling with their units, class names, and the time stamps of the series shown."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.core.errors import InputError
from tempograd.views.labels import short_times, time_names
from tests.helpers.explanations import named_ward, stamp, ward
from tests.helpers.pictures import view

STEPS = tuple("012345")


@pytest.fixture(scope="module")
def found():
    return tg.explain(*named_ward(), n_samples=10)


def stamps(row):
    return tuple(stamp(row, step) for step in range(6))


def texts(figure):
    """Return what is written at the axes and above the picture."""
    figure.canvas.draw()
    labels = [axes.get_ylabel() for axes in figure.axes]
    ticks = [tick.get_text() for axes in figure.axes for tick in axes.get_xticklabels()]
    return labels, [text for text in ticks if text], " ".join(text.get_text() for text in figure.texts)


def test_one_series_is_drawn_in_its_units(found):
    record = view(found, 2)
    np.testing.assert_array_equal(record.x, found.raw[2].float().numpy())
    assert (record.units, record.times) == (("bpm", "°C"), stamps(2))
    labels, ticks, said = texts(plots.series(found, 2))
    assert [label for label in labels if "[" in label] == ["heart rate [bpm]", "temperature [°C]"]
    assert set(ticks) <= set(short_times(stamps(2)))
    assert ticks
    name = ("survived", "died")[int(found.target[2])]
    assert f"probability of “{name}”" in said


def test_the_model_reads_what_it_was_given_and_not_what_is_shown(found):
    model, x, _ = ward()
    chance = model(x).softmax(-1)[1].max().item()
    said = view(replace(found, y=torch.zeros(3, dtype=torch.int64)), 1).said
    assert said.output == pytest.approx(chance, rel=1e-5)
    assert said.text.endswith("(true: “survived”)")
    other = view(replace(found, classes=("no", "yes")), 1)
    assert other.said.text == f"{100 * chance:.0f} % probability of “{('no', 'yes')[int(found.target[1])]}”"


def test_a_picture_of_values_needs_no_series_that_the_model_reads(found, tmp_path):
    """They are known again once somebody names the values."""
    bare = tg.Explanation.load(found.save(tmp_path / "e.safetensors", series=False))
    with pytest.raises(InputError, match="saved without its series"):
        view(bare, 0)
    named = replace(bare, raw=found.raw)
    np.testing.assert_array_equal(view(named, 0).x, found.raw[0].float().numpy())
    assert view(named).observed.sum() == 11


def test_blocks_of_several_series_count_steps_and_of_one_have_its_stamps(found):
    assert time_names(found, [1]) == stamps(1)
    assert time_names(found, [0, 1]) == STEPS
    alike = replace(found, times=(tuple("abcdef"),) * 3)
    assert time_names(alike, [0, 2]) == tuple("abcdef")


def test_a_comparison_shows_values_that_any_of_the_methods_knows(found):
    model, x, options = ward()
    plain = tg.explain(model, tg.Series(x, mask=options["mask"], ids=options["names"]), "integrated_gradients")
    record = view([plain, found], 1)
    np.testing.assert_array_equal(record.x, found.raw[1].float().numpy())
    assert record.times == STEPS  # those of the first
    assert view([found, plain], 1).times == stamps(1)


def test_dates_do_not_run_into_each_other_and_keep_their_hour(found):
    """As wide as they are drawn, in the narrow maps of a comparison, in a column, and at a wide axis."""
    times = [f"2026-03-{1 + t // 24:02} {t % 24:02}:30:00" for t in range(60)]
    long = replace(tg.explain(*ward(2, 60)[:2], "random"), times=tuple(times))
    for figure in (
        plots.compare([long, long], 0),
        plots.series(long, 0),
        plots.compare(long, 0),
        plots.compare([long, long], 0, width="column"),
    ):
        figure.canvas.draw()
        shown = [[tick for tick in axes.get_xticklabels() if ":30" in tick.get_text()] for axes in figure.axes]
        assert {tick.get_text() for ticks in shown for tick in ticks} >= {"1 Mar 00:30"}
        for ticks in shown:
            boxes = [tick.get_window_extent() for tick in ticks]
            assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_long_names_leave_room_for_the_unit(found):
    long = replace(found, channels=("a" * 60, "b"), units=("mmol/L", ""))
    labels, _, _ = texts(plots.series(long, 0))
    assert labels[0] == "a" * 18 + "… [mmol/L]"
    assert labels[2] == "b"
    assert torch.equal(long.values, found.values)
