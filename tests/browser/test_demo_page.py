"""The page of the demo in one go: every tab, no complaint, and a few numbers that are those of the file."""

import re
from pathlib import Path

import pytest

from tests.helpers.browser import ROOT, VIEWS, WIDTHS, Sheet
from tests.helpers.report_page import Page
from tests.helpers.reports import Case

pytestmark = pytest.mark.browser

DEMO = ROOT / "demo" / "report.html"  # what make demo wrote


def written(text):
    return float(text.replace("−", "-"))


def test_every_tab_of_the_demo_shows_the_numbers_of_the_file(windows, reports):
    path: Path = DEMO if DEMO.is_file() else reports("per_step").path
    content = Page(path).content
    first, depth = content["maps"][0], len(content["channels"])
    sheet = Sheet(windows.take(WIDTHS["laptop"], "light"), Case(path, None, {}))
    place = content["ids"].index(int(sheet.value("series")))
    assert sheet.text("#sentence").startswith(first["sentences"][place].split(",")[0])
    plots = [plot for plot in sheet.plots("chart-channels") if plot["title"]]
    assert [plot["title"] for plot in plots][-len(first["named"][place]) :] == [
        content["channels"][d] for d in first["named"][place]
    ]
    values = content["values"].reshape(len(content["ids"]), content["time"], depth)
    assert plots[-1]["data"][1] == pytest.approx(values[place, :, first["named"][place][-1]].tolist())
    top = sheet.rows("#top tr[data-time]")[0]
    assert float(top["value"]) == pytest.approx(
        first["values"][place * content["time"] * depth + first["order"][place * first["removed"]]]
    )
    sheet.set("removal", 5)
    assert f"{content['counts'][5]:,} of {content['observedCount'][place]:,}" in sheet.text("#removal-text")
    for view in VIEWS:
        sheet.view(view).unfold()
        for chart in sheet.find(f"#view-{view} .chart:visible").all():
            assert min(map(len, sheet.colours(chart.get_attribute("id")))) > 2, chart
        if view == "summary":
            group = content["summary"]["maps"][0][0]
            rows = {int(row["channel"]): row for row in sheet.rows("#summary-table tr[data-channel]")}
            assert {d: float(row["size"]) for d, row in rows.items()} == pytest.approx(
                dict(enumerate(group["size"].tolist()))
            )
            strongest = max(range(depth), key=lambda d: first["effects"][d]["strength"])
            assert int(sheet.value("depend-channel")) == strongest
            assert sheet.text("#depend-words") == first["effects"][strongest]["words"]
    assert re.search(r"tempograd \d", sheet.text("#view-about"))
    assert (sheet.complaints, sheet.left_the_page()) == ([], [])
    sheet.leave()
    windows.give_back(sheet.page)
