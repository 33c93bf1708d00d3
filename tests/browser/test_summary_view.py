"""The page over all series: means over the series of a class, with their standard errors, by a plain loop."""

import math

import pytest

pytestmark = pytest.mark.browser


def mean_and_error(numbers):
    mean = sum(numbers) / len(numbers)
    if len(numbers) < 2:
        return mean, math.inf
    square = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
    return mean, math.sqrt(square / len(numbers))


@pytest.mark.parametrize("name", ["classifier", "binary", "one_column", "per_step", "bare"])
def test_means_of_each_channel(visit, name):
    sheet = visit(name).view("summary")
    case = sheet.case
    target = case.first.target
    kinds = [None, *sorted(set(target.tolist()))] if target.ndim == 1 and len(set(target.tolist())) > 1 else [None]
    sheet.unfold()
    offered = [key for key in sheet.options("group-a") if key == "all" or key.startswith("explained:")]
    assert offered == ["all" if kind is None else f"explained:{kind}" for kind in kinds]
    for place, kind in enumerate(kinds):
        sheet.set("group-a", offered[place])
        for method, explanation in case.explanations.items():
            sheet.by(method, "summary-method")
            rows = [row for row in range(len(case.ids)) if kind is None or int(target[row]) == kind]
            found = sheet.rows("#summary-table tr[data-channel]")
            assert len(found) == case.x.shape[2]
            for line in found:
                channel = int(line["channel"])
                maps = [explanation.values[row, :, channel].double() for row in rows]
                if not explanation.signed:  # below 0 is less than nothing
                    maps = [values.clamp(min=0) for values in maps]
                push, error = mean_and_error([float(values.sum()) for values in maps])
                size, _ = mean_and_error([float(values.abs().sum()) for values in maps])
                assert float(line["mean"]) == pytest.approx(push, rel=1e-5, abs=1e-7)
                assert float(line["size"]) == pytest.approx(size, rel=1e-5, abs=1e-7)
                if math.isfinite(error):
                    assert float(line["error"]) == pytest.approx(error, rel=1e-4, abs=1e-7)
                else:
                    assert not line.get("error")
            sizes = [float(line["size"]) for line in found]
            assert sizes == sorted(sizes, reverse=True)
            assert sheet.find("#summary-table thead th").count() == 2 + explanation.signed


def test_a_channel_that_matters_less_than_nothing_comes_last(visit):
    """The second method of this report gives its first channel the largest numbers, below 0."""
    sheet = visit("one_column").view("summary")
    sheet.by("fit", "summary-method")
    sheet.unfold()
    found = sheet.rows("#summary-table tr[data-channel]")
    assert [int(line["channel"]) for line in found] == [1, 0]
    assert float(found[1]["size"]) == 0
    sheet.view("series").by("fit")
    assert [int(line["channel"]) for line in sheet.rows("#readout tr[data-channel]")] == [1, 0]
