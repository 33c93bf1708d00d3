"""Pictures of choices: every row is where its numbers are, and who won can be seen."""

import pytest
import torch

import tempograd as tg
from tempograd import plots
from tests.helpers.pictures import texts
from tests.helpers.trials import Mixed, short_cpd, weighted

X = torch.randn(30, 12, 1, generator=torch.Generator().manual_seed(0))
RAW = {"output": "raw"}


def tuned(metric, **options):
    grid = [{"quality": 1.0}, {"quality": 0.5}, {"stream": 1}]
    return tg.tune(weighted, X, Mixed(), metric=metric, grid=grid, **options, **RAW)


@pytest.mark.parametrize("metric", [short_cpd(), tg.METRICS["cpp"](k=3)], ids=["high", "low"])
def test_settings_are_sorted_by_how_good_they_are(metric):
    found = tuned(metric)
    record = plots.tuning_record(found)
    assert record.names[0] == "quality 1"
    assert record.names.index("quality 0.5") == 1
    assert record.chosen.tolist() == [True, False, False, False]
    rows = {row.words: row for row in found.table}
    assert record.difference.tolist() == [rows[name].difference for name in record.names]
    assert record.score.tolist() == pytest.approx([rows[name].score for name in record.names])
    half = (record.high - record.low) / 2
    errors = [rows[name].difference_error for name in record.names]
    assert half.tolist() == pytest.approx([2.0452 * error for error in errors], rel=1e-3)  # t of 29 degrees


def test_dots_stand_at_the_differences_and_the_winner_is_bold():
    found = tuned(short_cpd())
    picture = found.plot(title="Pumps")
    axes = picture.axes[0]
    record = plots.tuning_record(found)
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == record.difference.tolist()
    labels = {label.get_text(): label.get_fontweight() for label in axes.get_yticklabels()}
    assert [name for name, weight in labels.items() if weight == "bold"] == ["quality 1"]
    assert {"Pumps", "CPD minus that of the default (right is better)"} <= set(texts(picture))


def test_what_went_out_is_open():
    grid = [{"quality": round(0.05 * number, 2)} for number in range(1, 20)]
    found = tg.tune(weighted, X, Mixed(), metric=short_cpd(), grid=grid, budget=60, **RAW)
    record = plots.tuning_record(found)
    fills = [line.get_markerfacecolor() for line in found.plot().axes[0].lines if line.get_marker() == "o"]
    assert [fill != "white" for fill in fills] == record.full.tolist()
    assert 0 < record.full.sum() < len(record.full)
    assert (record.score - record.difference).tolist() == pytest.approx([found.default.score] * len(record.full))


def test_a_ranking_shows_the_best_and_who_may_be():
    methods = {"good": Mixed(quality=1.0), "also": Mixed(quality=1.0, stream=1), "bad": Mixed()}
    found = tg.rank(weighted, X, methods, metric=short_cpd(), **RAW)
    record = plots.ranking_record(found)
    assert dict(zip(record.names, record.chosen.tolist(), strict=True)) == {
        "good": True,
        "also": True,
        "bad": False,
        "random": False,
    }
    assert record.low.tolist() == [row.low for row in found.table]
    picture = found.plot()
    assert "CPD minus that of good (right is better)" in texts(picture)
