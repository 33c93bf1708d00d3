"""For everybody: keyboard alone, paper, and what axe-core finds."""

import pytest

from tests.helpers.browser import AXE, BOTH_WIDTHS, VIEWS

pytestmark = pytest.mark.browser

CASES = ("classifier", "binary", "per_step", "regression", "single", "empty", "many_classes", "bare", "stopping")
CONTROLS = "button, select, input, summary, a[href], [role=tab][tabindex='0']"
REACHABLE = f"""view => [...document.querySelectorAll(`{CONTROLS}`)]
    .filter(e => e.offsetParent && !e.disabled && e.tabIndex >= 0 && (e.type !== "radio" || e.checked))
    .map((e, i) => e.dataset.reached = e.id || e.textContent.trim().slice(0, 40) || String(i))"""
FOCUSED = """() => { const e = document.activeElement, s = getComputedStyle(e);
    return [e.dataset.reached ?? e.tagName, (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0)
        || s.boxShadow !== "none"]; }"""


DARK = ("classifier", "per_step", "ward_round")
SEEN_BY_AXE = [
    *((name, "light", "laptop") for name in CASES),
    *((name, "dark", "laptop") for name in DARK),
    ("classifier", "light", "phone"),
    ("ward_round", "dark", "phone"),
]


@pytest.mark.parametrize(("name", "scheme", "width"), SEEN_BY_AXE, indirect=["width"])
def test_axe_finds_nothing_serious(visit, name, scheme):
    if not AXE.is_file():
        raise FileNotFoundError(f"{AXE} does not exist: make test-browser fetches axe-core.")
    sheet = visit(name, color_scheme=scheme)
    sheet.page.evaluate(AXE.read_text(encoding="utf-8"))
    serious = {}
    for view in VIEWS:
        sheet.view(view).unfold()
        for found in sheet.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]:
            if found["impact"] in {"serious", "critical"}:
                serious[view, found["id"]] = [node["html"][:200] for node in found["nodes"]]
    assert serious == {}


@BOTH_WIDTHS
@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_every_control_and_shows_where_it_is(visit, view):
    sheet = visit("classifier").view(view).unfold()
    sheet.page.evaluate("document.activeElement.blur()")
    wanted = set(sheet.page.evaluate(REACHABLE, view))
    reached, hidden = set(), set()
    for _ in range(len(wanted) + 25):
        sheet.page.keyboard.press("Tab")
        name, visible = sheet.page.evaluate(FOCUSED)
        reached.add(name)
        if not visible and name not in {"BODY", "HTML"}:
            hidden.add(name)
    assert wanted - reached == set()
    assert hidden == set()


def test_arrows_move_between_the_tabs(visit):
    sheet = visit("classifier")
    sheet.find("#tab-series").focus()
    for expected in ("summary", "about", "series"):
        sheet.page.keyboard.press("ArrowRight")
        assert sheet.find(f"#view-{expected}").is_visible()
        assert sheet.page.evaluate("document.activeElement.id") == f"tab-{expected}"
    sheet.page.keyboard.press("ArrowLeft")
    assert sheet.find("#view-about").is_visible()


def test_every_control_of_a_series_works_from_the_keyboard(visit):
    sheet = visit("binary")
    before = sheet.value("series")
    sheet.find("#next").press("Enter")
    sheet.settle()
    assert sheet.value("series") != before
    sheet.find("#previous").press("Space")
    sheet.settle()
    assert sheet.value("series") == before
    text = sheet.text("#removal-text")
    sheet.find("#removal").press("ArrowRight")
    sheet.settle()
    assert sheet.text("#removal-text") != text
    values = sheet.rows("#readout tr[data-value]")
    sheet.find("#cursor").press("End")
    sheet.settle()
    assert sheet.rows("#readout tr[data-value]") != values
    top = sheet.rows("#top tr[data-time]")
    sheet.find("#method").press("ArrowDown")
    sheet.settle()
    assert sheet.rows("#top tr[data-time]") != top


def test_zoom_by_keyboard(visit):
    """All pictures of the series show the same steps."""
    sheet = visit("classifier").unfold()
    sheet.set("time-from", 5)
    sheet.set("time-to", 9)
    for chart in ("chart-channels", "chart-map", "chart-methods"):
        for panel in range(len(sheet.panels(chart))):
            assert "step 5" in sheet.pointed(chart, panel, 0.01)[0]
            assert "step 9" in sheet.pointed(chart, panel, 0.99)[0]
    sheet.find("#reset-zoom").press("Enter")
    assert (sheet.value("time-from"), sheet.value("time-to")) == ("0", "19")
    assert "step 19" in sheet.pointed("chart-channels", 0, 0.99)[0]


@BOTH_WIDTHS
def test_a_drag_zooms_and_a_click_reads_off(visit):
    sheet = visit("classifier")
    sheet.pointed("chart-channels", 0, 5.5 / 20)
    sheet.page.mouse.down()
    sheet.pointed("chart-channels", 0, 9.5 / 20)
    sheet.page.mouse.up()
    sheet.settle()
    assert (sheet.value("time-from"), sheet.value("time-to")) == ("5", "9")
    sheet.pointed("chart-map", 1, 2.5 / 5)
    sheet.page.mouse.down()
    sheet.page.mouse.up()
    assert sheet.value("cursor") == "7"


SEEN = """() => addEventListener("beforeprint", () => {
    window.printed = [...document.querySelectorAll("[id]")].filter(e => e.checkVisibility()).map(e => e.id);
    window.widths = [...document.querySelectorAll(".chart > .plots")].map(e => e.offsetWidth); })"""
CONTROLS_OF_A_SERIES = ("series", "previous", "next", "find", "removal", "cursor", "method", "reset-zoom")
PAPER = 688  # pixels between the margins of A4
ESSENTIAL = {"chart-channels", "chart-map", "chart-methods", "chart-removal", "top", "probabilities", "scores"} | {
    "summary-table",
    "view-about",
}


def test_paper_has_what_matters_and_no_controls(visit):
    sheet = visit("classifier")
    before = sheet.find("#chart-map > .plots").bounding_box()["width"]
    sheet.page.evaluate(SEEN)
    sheet.page.emulate_media(media="print")
    for control in CONTROLS_OF_A_SERIES:
        assert not sheet.find(f"#{control}").is_visible(), control
    sheet.page.emulate_media(media="screen")
    assert len(sheet.page.pdf(format="A4")) > 20_000
    assert ESSENTIAL - set(sheet.page.evaluate("window.printed")) == set()
    assert 500 < max(sheet.page.evaluate("window.widths")) <= PAPER
    sheet.settle()
    assert not sheet.find("#view-about").is_visible()
    assert sheet.find("#chart-map > .plots").bounding_box()["width"] == before
