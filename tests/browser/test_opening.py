"""Every report opens from disk without a network, draws every view, and runs nothing that came with the data."""

import pytest
from browsing import VIEWS
from reports import BUILDERS, HOSTILE, LINK

pytestmark = pytest.mark.browser

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CHARTS = """view => [...document.querySelectorAll(`#view-${view} .chart`)].filter(e => e.offsetParent)
    .map(e => [e.id, e.data?.length ?? 0, [...e.querySelectorAll("svg.main-svg, canvas")]
        .some(s => s.getBoundingClientRect().width > 100 && s.getBoundingClientRect().height > 40)])"""


@pytest.mark.parametrize("name", BUILDERS)
def test_every_view_is_drawn(visit, name):
    sheet = visit(name)
    assert sheet.page.evaluate("performance.getEntriesByName('tempograd-ready').length") == 1
    for view in VIEWS:
        sheet.view(view)
        assert [other for other in VIEWS if sheet.find(f"#view-{other}").is_visible()] == [view]
        assert sheet.find(f"#tab-{view}").get_attribute("aria-selected") == "true"
        for chart, traces, drawn in sheet.page.evaluate(CHARTS, view):
            assert traces > 0, chart
            assert drawn, chart
        assert sheet.page.evaluate(WIDER) <= 0, f"{view} is wider than the window"


def test_names_are_shown_as_they_are(visit):
    """As text: in tables, in menus and, where Plotly would read tags and entities, beside the pictures."""
    sheet = visit("classifier")
    sheet.choose(40)
    shown = sheet.find("body").inner_text()
    ticks = sheet.page.eval_on_selector_all("#chart-map .ytick text", "all => all.map(e => e.textContent)")
    for channel in HOSTILE:
        assert channel in shown
        assert channel in ticks or any(tick.endswith("…") and channel.startswith(tick[:-1]) for tick in ticks)
    assert sheet.page.eval_on_selector_all("#method option", "all => all.map(e => e.textContent)")[1] == HOSTILE[1]
    assert LINK in shown


def test_names_never_become_markup(visit):
    """Nor when pointed at: the boxes that follow the pointer hold names too."""
    sheet = visit("classifier")
    for view in VIEWS:
        sheet.view(view)
        for chart in sheet.find(f"#view-{view} .js-plotly-plot").all():
            chart.scroll_into_view_if_needed()
            box = chart.bounding_box()
            for across in (0.3, 0.6, 0.9):
                sheet.page.mouse.move(box["x"] + across * box["width"], box["y"] + 0.4 * box["height"])
                sheet.settle()
            assert (
                sheet.page.evaluate("document.querySelectorAll('img, a[href^=http], [onmouseover]').length") == 0
            )
