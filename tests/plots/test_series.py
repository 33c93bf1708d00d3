"""One series: the record to the last number, what the drawing shows of it, and series that are hard to draw."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd import plots
from tempograd.core.errors import InputError
from tempograd.views import palette
from tests.helpers.explanations import HOSTILE, gaps, made, waves
from tests.helpers.models import linear
from tests.helpers.pictures import texts, view

VALUES = [[[0.0, 2.0], [-3.0, 0.5]], [[1.0, 0.0], [0.0, -4.0]]]  # 2 series, 2 steps, 2 channels


def rows(picture):
    """Return the drawn rows as pairs of values and bars; a row of outputs is the last of the axes."""
    axes = picture.axes[: 2 * (len(picture.axes) // 2)]
    return list(zip(axes[::2], axes[1::2], strict=True))


def bars_of(axes):
    """Return the bars of a row: middle, height and colour of each."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    (found,) = [part for part in axes.collections if type(part) is PolyCollection and not part.get_hatch()]
    corners = [path.vertices for path in found.get_paths()]
    colours = [to_hex(colour) for colour in found.get_facecolor()]
    return [(each[:4, 0].mean(), each[1, 1], colour) for each, colour in zip(corners, colours, strict=True)]


def heights(axes):
    return [height for _, height, _ in bars_of(axes)]


def test_record_holds_the_series_that_was_asked_for():
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    mask = torch.tensor([[[1, 1], [1, 1]], [[1, 0], [1, 1]]]).bool()
    record = view(made(VALUES, x=x, mask=mask, channels=("a", "b"), times=("t0", "t1")), 1)
    assert (record.id, record.channels, record.times, record.left_out) == (11, ("a", "b"), ("t0", "t1"), 0)
    assert record.x.tolist() == [[5, 6], [7, 8]]
    assert record.scores[0].values.tolist() == [[1, 0], [0, -4]]
    assert record.observed.tolist() == [[True, False], [True, True]]
    assert record.scores[0].low is None
    assert not record.scores[0].uncertain.any()


def test_interval_is_students_and_cells_whose_interval_includes_0_are_uncertain():
    error, points = [[[0.5, 0.1], [1.0, torch.inf]]] * 2, [[[4.0, 10.0], [30.0, 1.0]]] * 2
    parts = {"standard_error": torch.tensor(error), "ess": torch.tensor(points)}
    (found,) = view(made(VALUES, **parts), 0).scores
    half = [[0.5 * stats.t.ppf(0.975, 3), 0.1 * stats.t.ppf(0.975, 9)], [stats.t.ppf(0.975, 29), np.inf]]
    np.testing.assert_allclose(found.low, np.array(VALUES[0]) - half, rtol=1e-3)
    np.testing.assert_allclose(found.high, np.array(VALUES[0]) + half, rtol=1e-3)
    assert found.uncertain.tolist() == [[True, False], [False, True]]


def test_channels_by_count_are_the_strongest_and_by_name_as_asked_for():
    explanation = made([[[1.0, -5.0, 2.0], [1.0, 0.0, 2.0]]], channels=("a", "b", "c"))
    by_count = view(explanation, channels=2)
    assert (by_count.channels, by_count.left_out) == (("b", "c"), 1)
    assert by_count.scores[0].values.tolist() == [[-5, 2], [0, 2]]
    assert view(explanation, channels=["c", "a"]).scores[0].values.tolist() == [[2, 1], [2, 1]]
    assert view(explanation).channels == ("a", "b", "c")
    many = made([[list(range(12))]])
    assert view(many).channels == tuple(f"channel {d}" for d in range(11, 3, -1))


def test_scores_without_direction_are_shown_from_0():
    record = view(made([[[-1.0], [2.0]]], signed=False))
    assert record.scores[0].values.tolist() == [[0], [2]]


def test_the_sentence_names_class_probability_and_label():
    model, x = linear(4, 2), torch.ones(2, 4, 2)
    explanation = tg.explain(model, x, target=2, n_samples=20)
    chance = model(x[:1]).softmax(-1)[0, 2].item()
    labelled = replace(explanation, y=torch.tensor([0, 1]))
    said = view(labelled).said
    assert said.text == f"{100 * chance:.0f} % probability of class 2 (true: class 0)"
    assert said.output == pytest.approx(chance, rel=1e-6)
    named = view(replace(labelled, classes=tuple("xyz")), 1).said.text
    assert named == f"{100 * chance:.0f} % probability of “z” (true: “y”)"
    assert view(explanation).said.text == f"{100 * chance:.0f} % probability of class 2"
    older = replace(explanation, prediction=None)
    assert view(older).said.text == "class 2"


def test_the_sentence_of_a_regression_and_of_a_single_column():
    def total(x):
        return x.sum((1, 2))[:, None]

    x = torch.full((1, 3, 1), 0.25)
    value = view(tg.explain(total, tg.Series(x, [2.5]), output="raw", n_samples=20))
    assert value.said.text == "the model's output is 0.75 (true: 2.5)"
    binary = tg.Predictor(total, task="classification")
    chance = view(tg.explain(binary, tg.Series(x, [1]), n_samples=20)).said.text
    assert chance == "68 % probability of class 1 (true: class 1)"  # sigmoid of 0.75


def test_bars_have_the_sign_the_height_and_the_colour_of_the_attribution():
    parts = {"standard_error": torch.full((2, 2, 2), 0.3), "ess": torch.full((2, 2, 2), 50.0)}
    picture = plots.series(made(VALUES, **parts), 0)
    for d, (_, bars) in enumerate(rows(picture)):
        assert heights(bars) == [VALUES[0][0][d], VALUES[0][1][d]]
    colours = [[colour for _, _, colour in bars_of(bars)] for _, bars in rows(picture)]
    up, down = palette.UP, palette.DOWN
    assert colours == [[palette.PALE[up], down], [up, palette.PALE[up]]]  # 0 and 0.5 ± 0.6 include 0


def test_scores_that_are_all_0_have_an_axis():
    bars = rows(plots.series(made([[[0.0, 0.0], [0.0, 0.0]]]), 0))[0][1]
    assert bars.get_ylim() == (-1.0, 1.0)


def test_what_is_no_explanation_is_refused():
    for wrong in ({}, [], None):
        with pytest.raises(InputError, match="An Explanation was expected"):
            plots.series(wrong)


def test_missing_cells_are_hatched_and_not_drawn_as_0():
    explanation = waves(time=10)
    picture = plots.series(made(explanation.values, x=explanation.x, mask=gaps(explanation.x)), 0)
    (first, bars), _, (last, _) = rows(picture)
    assert np.isnan(first.lines[1].get_ydata()).nonzero()[0].tolist() == [0, 5]
    (hatched,) = [spans for spans in bars.collections if spans.get_hatch()]
    assert [path.get_extents().intervalx.tolist() for path in hatched.get_paths()] == [[-0.5, 0.5], [4.5, 5.5]]
    assert "no value observed" in [text.get_text() for text in last.texts]
    assert "not observed" in texts(picture)


def test_truth_is_marked_above_its_steps():
    truth = torch.zeros(1, 6, 2)
    truth[0, 2:4, 1] = 1
    picture = plots.series(made(torch.zeros(1, 6, 2), truth=truth.bool()))
    (first, _), (second, _) = rows(picture)
    thick = [
        [line.get_xdata().tolist() for line in axes.lines if line.get_linewidth() > 2] for axes in (first, second)
    ]
    assert thick == [[], [[1.5, 3.5]]]


def test_whiskers_are_the_interval_and_unknown_ones_are_left_out():
    error = torch.tensor([[[0.5], [torch.inf], [0.0]]])
    explanation = made([[[1.0], [2.0], [3.0]]], standard_error=error, ess=torch.full((1, 3, 1), 9.0))
    ((_, bars),) = rows(plots.series(explanation))
    (whiskers,) = [part for part in bars.collections if hasattr(part, "get_segments")]
    segments = [segment[:, 1].tolist() for segment in whiskers.get_segments()]
    half = 0.5 * stats.t.ppf(0.975, 8)
    assert segments == [pytest.approx([1 - half, 1 + half], rel=1e-3), [3.0, 3.0]]


def test_of_ten_thousand_steps_the_strongest_stay_in_sight():
    values = np.zeros((1, 10_000, 1))
    values[0, 7_321], values[0, 4] = -5, 2
    ((_, bars),) = rows(plots.series(made(values)))
    drawn = {round(middle): height for middle, height, _ in bars_of(bars)}
    assert len(drawn) <= 600
    assert {place: height for place, height in drawn.items() if height} == {7_321: -5, 4: 2}


def test_of_ten_thousand_steps_long_gaps_are_hatched():
    mask = torch.ones(1, 10_000, 1, dtype=torch.bool)
    mask[0, 1_700:3_400], mask[0, 5_000] = False, False  # 17 steps are drawn as one
    ((values, _),) = rows(plots.series(made(np.zeros((1, 10_000, 1)), mask=mask)))
    (hatched,) = [spans for spans in values.collections if spans.get_hatch()]
    assert [path.get_extents().intervalx.tolist() for path in hatched.get_paths()] == [[1_699.5, 3_399.5]]


@pytest.mark.parametrize(
    "explanation",
    [
        made([[[0.3]]]),
        made(np.zeros((1, 5, 2))),
        made(np.zeros((1, 5, 1)), x=torch.full((1, 5, 1), 7.0)),
        made(np.ones((1, 5, 1)), mask=torch.zeros(1, 5, 1, dtype=torch.bool)),
        made(
            np.ones((1, 3, 1)),
            standard_error=torch.full((1, 3, 1), torch.inf),
            ess=torch.ones(1, 3, 1),
        ),
        made(np.full((1, 3, 1), 1e-9), x=torch.full((1, 3, 1), 1e9)),
    ],
    ids=["one step", "all zero", "constant", "all missing", "no error known", "tiny scores, huge values"],
)
def test_series_that_are_hard_to_draw(explanation, tmp_path):
    """Warnings are errors here; every bar is as high as its value."""
    picture = plots.series(explanation)
    picture.savefig(tmp_path / "picture.png", dpi=40)
    for d, (_, bars) in enumerate(rows(picture)):
        np.testing.assert_allclose(heights(bars), explanation.values[0, :, d], rtol=1e-6)


def test_names_are_written_as_they_are(tmp_path):
    picture = plots.series(made(np.ones((1, 4, 3)), channels=HOSTILE, method="my_$method$"), title="$a$ <i>b</i>")
    picture.savefig(tmp_path / "picture.svg")
    written = texts(picture)
    for name in ("flow $m^3$", "<b>bold</b> name", "$x$ & 50 % \\alpha", "$a$ <i>b</i>"):
        assert name in written
    from matplotlib.text import Text

    assert not any(text.get_parse_math() for text in picture.findobj(Text))


def test_wrong_arguments_are_told_in_one_sentence():
    explanation = made(VALUES)
    with pytest.raises(tg.TempogradError, match=r"i must be at most 1, got 2"):
        plots.series(explanation, 2)
    with pytest.raises(tg.TempogradError, match=r"No channel is called 'z'. Known names: channel 0, channel 1."):
        plots.series(explanation, channels=["z"])
    with pytest.raises(tg.TempogradError, match="saved without its series: explain again"):
        plots.series(made(VALUES, x=None))


def test_plot_is_the_picture_of_the_series():
    explanation = waves()
    assert explanation.plot(1, channels=2)._repr_png_() == plots.series(explanation, 1, channels=2)._repr_png_()


def test_series_are_called_by_their_names():
    x = torch.ones(2, 4, 1)
    explanation = tg.explain(
        lambda z: z.sum((1, 2))[:, None], tg.Series(x, ids=["ward 3", "$7"]), "random", output="raw"
    )
    assert [view(explanation, i).id for i in (0, 1)] == ["ward 3", "$7"]
    assert view(explanation, 1).id == "$7"
    assert view([explanation], 1).id == "$7"
    assert explanation[1:].label(0) == "$7"


def test_series_are_asked_for_by_their_names():
    explanation = waves(names=("ward 3", "$7"))
    assert explanation.plot("$7")._repr_png_() == explanation.plot(1)._repr_png_()
    assert view([explanation], "$7").id == "$7"
    assert view(explanation, 0).id == "ward 3"
    with pytest.raises(
        tg.TempogradError,
        match=r"No single series is called 'ward'. Did you mean 'ward 3'\?",
    ):
        explanation.plot("ward")
    with pytest.raises(tg.TempogradError, match=r"No single series is called '\$7'"):
        waves().plot("$7")
    assert view(waves(), "11").id == waves().label(1) == 11
