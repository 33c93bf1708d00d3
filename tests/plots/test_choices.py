"""Pictures of choices: every row is where its numbers are, and who won can be seen."""

import pytest
import torch

import tempograd as tg
from tests.helpers.pictures import texts
from tests.helpers.trials import Mixed, short_cpd, weighted

X = torch.randn(30, 12, 1, generator=torch.Generator().manual_seed(0))
RAW = {"output": "raw"}


def tuned(metric, **options):
    grid = [{"quality": 1.0}, {"quality": 0.5}, {"stream": 1}]
    return tg.tune(weighted, X, Mixed(), metric=metric, grid=grid, **options, **RAW)


def rows_of(axes):
    """Return name, weight of letters, place and fill of each row, from the top."""
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    names = [(label.get_text(), label.get_fontweight()) for label in axes.get_yticklabels()]
    places = [(float(dot.get_xdata()[0]), dot.get_markerfacecolor() != "white") for dot in dots]
    return [(*name, *place) for name, place in zip(names, places, strict=True)]


@pytest.mark.parametrize("metric", [short_cpd(), tg.METRICS["cpp"](k=3)], ids=["high", "low"])
def test_settings_are_sorted_by_how_good_they_are(metric):
    found = tuned(metric)
    picture = found.plot(title="Pumps")
    settings = {row.words: row for row in found.table}
    shown = rows_of(picture.axes[0])
    assert [name for name, *_ in shown][:2] == ["quality=1.0", "quality=0.5"]
    assert [name for name, weight, *_ in shown if weight == "bold"] == ["quality=1.0"]
    for name, _, place, full in shown:
        assert place == settings[name].difference
        assert full == settings[name].finished
    lines = [segment[:, 0] for part in picture.axes[0].collections for segment in part.get_segments()]
    halves = sorted((high - low) / 2 for low, high in lines if high > low)
    errors = sorted(row.difference_error for row in found.table if row.difference_error > 0)
    assert halves == pytest.approx([2.0452 * error for error in errors], rel=1e-3)  # t of 29 degrees
    assert "Pumps" in texts(picture)


def test_what_went_out_is_open():
    grid = [{"quality": round(0.05 * number, 2)} for number in range(1, 20)]
    found = tg.tune(weighted, X, Mixed(), metric=short_cpd(), grid=grid, budget=60, **RAW)
    filled = {name: full for name, _, _, full in rows_of(found.plot().axes[0])}
    assert filled == {row.words: row.finished for row in found.table}
    assert 0 < sum(filled.values()) < len(filled)


def test_a_ranking_shows_the_best_and_who_may_be():
    methods = {"good": Mixed(quality=1.0), "also": Mixed(quality=1.0, stream=1), "bad": Mixed()}
    found = tg.rank(weighted, X, methods, metric=short_cpd(), **RAW)
    picture = found.plot()
    shown = rows_of(picture.axes[0])
    assert {name: weight == "bold" for name, weight, *_ in shown} == {
        "good": True,
        "also": True,
        "bad": False,
        "random": False,
    }
    assert [place for _, _, place, _ in shown] == [row.difference for row in found.table]
    assert "CPD minus that of good (right is better)" in texts(picture)


def test_numbers_stand_beside_the_rows_that_they_are_of():
    methods = {"good": Mixed(quality=1.0), "bad": Mixed()}
    found = tg.rank(weighted, X, methods, metric=short_cpd(), **RAW)
    left, right = found.plot().axes
    assert left.get_ylim() == right.get_ylim()
    beside = [float(label.get_text().replace("−", "-")) for label in right.get_yticklabels()]
    assert beside == pytest.approx([row.score for row in found.table], abs=0.01)
