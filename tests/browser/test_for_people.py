"""What people call things stands wherever the page names a step, a value or a class."""

import pytest

from tempograd.views.labels import short_times
from tests.helpers.explanations import stamp

pytestmark = pytest.mark.browser


def test_a_series_is_shown_in_its_units_and_at_its_times(visit):
    sheet = visit("stamped")
    found = sheet.case.first
    names = ("heart rate [bpm]", "temperature [°C]")
    for row in (2, 0):
        sheet.choose(row)
        stamps = short_times([stamp(row, step) for step in range(20)])
        top = found.top(10)
        lines = sheet.page.eval_on_selector_all(
            "#top tr[data-time]", "all => all.map(e => [...e.cells].slice(0, 3).map(c => c.innerText))"
        )
        assert [line[:2] for line in lines] == [
            [stamps[t], names[d]] for t, d in zip(top.time[row].tolist(), top.channel[row].tolist(), strict=True)
        ]
        shown = [float(line[2]) for line in lines]
        raw = [float(found.raw[row, t, d]) for t, d in zip(top.time[row], top.channel[row], strict=True)]
        assert shown == pytest.approx(raw, rel=5e-3)
        sheet.set("cursor", 7)
        assert sheet.text("#cursor-time") == f"{stamps[7]} (step 7)"
        head, value, _ = sheet.pointed("chart-channels", 0, 7.5 / 20)[:3]
        d = int(found.values[row].abs().sum(0).argmax())
        assert head == f"{found.channels[d]}, {stamps[7]}"
        assert value.endswith(" " + found.units[d])
        assert sheet.text("#facts").startswith(f"Explained: {found.classes[int(found.target[row])]} (")


def test_all_series_together_have_no_time_of_day(visit):
    sheet = visit("stamped").view("summary").unfold()
    heads = sheet.page.eval_on_selector_all(
        "#blocks-table thead th", "all => all.slice(1).map(e => e.textContent)"
    )
    assert not any("2026" in head for head in heads)
