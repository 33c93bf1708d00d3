"""Every report opens from disk without a network, draws every view, and runs nothing that came with the data."""

import pytest

from tests.helpers.browser import BOTH_WIDTHS, VIEWS
from tests.helpers.reports import BUILDERS, CLASSES, HOSTILE, LINK

pytestmark = pytest.mark.browser

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CHARTS = """view => [...document.querySelectorAll(`#view-${view} .chart`)].filter(e => e.offsetParent)
    .map(e => [e.id, e.querySelector(".plots")?.offsetWidth, e.querySelector(".plots")?.offsetHeight])"""


@BOTH_WIDTHS
@pytest.mark.parametrize("name", BUILDERS)
def test_every_view_is_drawn(visit, name):
    sheet = visit(name)
    assert sheet.page.evaluate("performance.getEntriesByName('tempograd-ready').length") == 1
    for view in VIEWS:
        sheet.view(view).unfold()
        assert [other for other in VIEWS if sheet.find(f"#view-{other}").is_visible()] == [view]
        assert sheet.find(f"#tab-{view}").get_attribute("aria-selected") == "true"
        for chart, wide, high in sheet.page.evaluate(CHARTS, view):
            assert min(map(len, sheet.colours(chart))) > 2, chart
            assert wide > 200, chart
            assert high > 60, chart
        assert sheet.page.evaluate(WIDER) <= 0, f"{view} is wider than the window"


def test_names_are_shown_as_they_are(visit):
    """As text: in tables, in menus and beside the pictures."""
    sheet = visit("classifier")
    sheet.choose(40)
    shown = sheet.find("body").inner_text()
    assert sorted(sheet.plots("chart-map")[0]["rows"]) == [*range(len(HOSTILE))]
    for channel in HOSTILE:
        assert channel in shown
    assert sheet.page.eval_on_selector_all("#method option", "all => all.map(e => e.textContent)")[1] == HOSTILE[1]
    assert LINK in shown
    assert CLASSES[1] in shown
    assert sheet.text("h1") == f"Three {HOSTILE[0]}"


def test_names_never_become_markup(visit):
    """Nor when pointed at: the boxes that follow the pointer hold names too."""
    sheet = visit("classifier")
    for view in VIEWS:
        sheet.view(view).unfold()
        for chart in sheet.find(f"#view-{view} .chart:visible").all():
            name = chart.get_attribute("id")
            for panel in range(len(sheet.panels(name))):
                assert sheet.pointed(name, panel, 0.3)
        assert (
            sheet.page.evaluate("document.querySelectorAll('img, a, [onclick], [onerror], [onmouseover]').length")
            == 0
        )
