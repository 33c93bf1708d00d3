"""The address keeps what is shown; pictures and tables leave the page as files; the theme follows the screen."""

import csv
import io

import pytest
from PIL import Image

from tempograd.views import palette

pytestmark = pytest.mark.browser


def again(sheet):
    sheet.page.reload()
    sheet.page.wait_for_selector("body[data-ready=true]", state="attached")
    sheet.settle()
    return sheet


def test_a_reload_shows_the_same(visit):
    sheet = visit("ward_round")
    assert "#" not in sheet.page.url  # nobody has chosen anything yet
    sheet.choose(512)
    sheet.by("integrated_gradients")
    sheet.set("time-from", 33)
    sheet.set("time-to", 46)
    sheet.set("find-channel", "gauge 5")
    sheet.view("summary")
    sheet.set("group-a", "outcome:FP")
    sheet.set("group-b", "outcome:TP")
    said = sheet.text("#summary-sentence")
    again(sheet)
    assert sheet.find("#view-summary").is_visible()
    assert (sheet.value("group-a"), sheet.value("group-b")) == ("outcome:FP", "outcome:TP")
    assert sheet.text("#summary-sentence") == said
    sheet.view("series")
    assert int(sheet.value("series")) == 512
    assert sheet.value("method") == "1"
    sheet.unfold()
    assert (sheet.value("time-from"), sheet.value("time-to")) == ("33", "46")
    assert sheet.value("find-channel") == "gauge 5"
    assert "33:00" in sheet.pointed("chart-channels", 0, 0.01)[0]


@pytest.mark.parametrize("address", ["#series=21", "#series-21"])
def test_a_link_leads_to_a_series(visit, address):
    sheet = visit("binary")
    sheet.page.goto(sheet.url + address)
    again(sheet)
    assert sheet.value("series") == "21"
    assert "21" in sheet.text("#headline")


@pytest.mark.parametrize(
    "address", ["#series=9999&method=nobody&from=x&to=-3&view=secret&a=b&b=a&ids=1.2", "#%", "#&=&"]
)
def test_a_link_to_nothing_shows_the_first(visit, address):
    sheet = visit("binary")
    first = sheet.value("series")
    sheet.page.goto(sheet.url + address)
    again(sheet)
    assert sheet.value("series") == first
    assert sheet.find("#view-series").is_visible()


def test_a_group_chosen_by_hand_is_kept(visit):
    sheet = visit("binary").view("summary")
    sheet.set("group-a", "hand")
    assert sheet.text("#summary-count") == "no series is chosen"
    sheet.set("hand", "21, 7, 99, 30")
    assert sheet.text("#hand-answer") == "There is no series 99 in this report."
    assert sheet.text("#summary-count") == "3 series"
    said = sheet.text("#summary-sentence")
    again(sheet)
    assert sheet.value("hand") == "21, 7, 30"
    assert sheet.text("#summary-sentence") == said


def saved(sheet, button):
    sheet.find(button).evaluate("e => { e.closest('details').open = true; }")
    with sheet.page.expect_download() as found:
        sheet.find(button).click()
    return found.value.suggested_filename, found.value.path().read_bytes()


def test_pictures_are_saved(visit):
    sheet = visit("ward_round")
    sheet.choose(503)
    box = sheet.find("#chart-channels > .plots").bounding_box()
    name, content = saved(sheet, "[data-save=chart-channels]")
    assert name == "503-channels.png"
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert image.size == pytest.approx((2 * box["width"], 2 * box["height"]), abs=2)
    up = tuple(int(palette.UP[place : place + 2], 16) for place in (1, 3, 5))
    assert up in {colour for _, colour in image.getcolors(10**6)}
    sheet.view("summary")
    name, content = saved(sheet, "[data-save=chart-blocks]")
    assert name == "all-series-blocks.png"
    assert content.startswith(b"\x89PNG")


def test_tables_are_saved(visit):
    sheet = visit("classifier")
    sheet.choose(42)
    case = sheet.case
    row, timing = case.row(42), case.explanations["timing"]
    name, content = saved(sheet, "#save-series")
    assert name == "42-scores.csv"
    lines = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert len(lines) == int(case.observed(row).sum())
    places = {channel: d for d, channel in enumerate(timing.channels)}
    low, high = timing.interval(0.95)
    fine = 1e-6 * float(timing.values[row].abs().max())
    for line in lines:
        cell = row, int(line["step"]), places[line["channel"]]
        assert float(line["value"]) == pytest.approx(float(case.shown()[cell]), rel=1e-6)
        assert float(line["timing"]) == pytest.approx(float(timing.values[cell]), abs=fine)
        assert float(line["timing low"]) == pytest.approx(float(low[cell]), abs=2 * fine)
        assert float(line["timing high"]) == pytest.approx(float(high[cell]), abs=2 * fine)


def paper(sheet):
    return sheet.page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_screen_until_the_button_says_otherwise(visit, scheme):
    sheet = visit("binary", color_scheme=scheme)
    other = "light" if scheme == "dark" else "dark"
    colours = {"light": palette.LIGHT, "dark": palette.DARK}

    def check(theme):
        rgb = ", ".join(str(int(colours[theme]["paper"][place : place + 2], 16)) for place in (1, 3, 5))
        assert paper(sheet) == f"rgb({rgb})"
        fills = frozenset().union(*sheet.colours("chart-channels"))
        assert colours[theme]["up"] in fills
        assert colours["light" if theme == "dark" else "dark"]["up"] not in fills
        assert sheet.find("#theme").get_attribute("aria-pressed") == str(theme == "dark").lower()

    check(scheme)
    sheet.find("#theme").click()
    check(other)
    again(sheet)
    check(other)
    sheet.find("#theme").click()
    check(scheme)


def test_paper_is_light(visit):
    sheet = visit("binary", color_scheme="dark")
    sheet.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    sheet.settle()
    fills = frozenset().union(*sheet.colours("chart-channels"))
    sheet.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert palette.UP in fills
    assert palette.DARK["up"] not in fills
    assert paper(sheet) != "rgb(255, 255, 255)"


def test_both_themes_have_the_same_colours():
    assert set(palette.DARK) == set(palette.LIGHT)


def test_a_page_of_many_channels_has_five_pages_of_paper(visit):
    sheet = visit("ward_round")
    pages = sheet.page.pdf(format="A4").count(b"/Type /Page\n")
    assert 2 <= pages <= 5
