"""The watchman himself: a page that asks for something, complains or runs what it should not is noticed."""

import pytest

from tests.helpers.browser import RUNNING, WIDTHS, Sheet
from tests.helpers.reports import Case

pytestmark = pytest.mark.browser

START = "<body><script>document.body.dataset.ready = 'true'</script>"
STATE = """() => [localStorage.length, "left" in window, scrollY, matchMedia("print").matches,
    matchMedia("(prefers-color-scheme: dark)").matches, innerWidth]"""


@pytest.fixture
def watched(windows, tmp_path):
    sheets = []

    def watch(markup: str) -> Sheet:
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html>{START}{markup}", encoding="utf-8")
        sheets.append(Sheet(windows.take(WIDTHS["laptop"], "light"), Case(path, None, {})))
        sheets[-1].page.wait_for_timeout(200)
        return sheets[-1]

    yield watch
    for sheet in sheets:
        sheet.leave()
        windows.give_back(sheet.page)


def test_a_quiet_page_passes(watched):
    sheet = watched("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw=' alt=''><a href='#there'>there</a>")
    sheet.find("a").click()
    assert (sheet.complaints, sheet.left_the_page(), sheet.page.evaluate(RUNNING)) == ([], [], True)


@pytest.mark.parametrize(
    "markup",
    [
        "<img src='https://example.org/a.png'>",
        "<img src='other.png'>",
        "<script src='http://localhost:9/plotly.js'></script>",
        "<style>body { background: url(https://example.org/b.png) }</style>",
        "<script>fetch('https://example.org/').catch(() => 0)</script>",
        "<script>navigator.sendBeacon('https://example.org/')</script>",
    ],
)
def test_what_leaves_the_page_is_noticed(watched, markup):
    assert watched(markup).left_the_page()


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<script>console.error('oh')</script>", "error: oh"),
        ("<script>console.warn('oh')</script>", "warning: oh"),
        ("<script>throw new Error('oh')</script>", "error: oh"),
        ("<script>Promise.reject(new Error('oh'))</script>", "error: oh"),
        ("<script>alert('oh')</script>", "dialog: oh"),
        (
            "<meta http-equiv=Content-Security-Policy content=\"style-src 'none'\"><style>p { top: 0 }</style>",
            "Content Security Policy",
        ),
    ],
)
def test_complaints_are_noticed(watched, markup, text):
    assert any(text in complaint for complaint in watched(markup).complaints)


def test_a_name_that_runs_is_noticed(watched):
    assert not watched("<img src=x onerror='window.hacked=1'>").page.evaluate(RUNNING)


def test_a_window_goes_to_the_next_test_as_new(windows, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html>{START}<p style='height: 3000px'>tall", encoding="utf-8")
    first = Sheet(windows.take(WIDTHS["laptop"], "dark"), Case(path, None, {}))
    first.page.evaluate("localStorage.setItem('kept', 'this'); window.left = 1; scrollTo(0, 500)")
    first.page.emulate_media(media="print")
    first.page.set_viewport_size({"width": 700, "height": 700})
    first.leave()
    windows.give_back(first.page)
    second = Sheet(windows.take(WIDTHS["phone"], "light"), Case(path, None, {}))
    assert second.page is first.page
    found = second.page.evaluate(STATE)
    second.page.evaluate("console.error('oh')")
    second.leave()
    windows.give_back(second.page)
    assert found == [0, False, 0, False, False, 390]
    assert (first.complaints, second.complaints) == ([], ["error: oh"])


def test_a_window_that_opened_another_is_closed(windows):
    page = windows.take(WIDTHS["laptop"], "light")
    page.evaluate("open('about:blank') && 0")
    windows.give_back(page)
    assert page.is_closed()


def test_a_missing_chromium_says_what_to_install(monkeypatch):
    from tests.helpers.browser import chromium

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(FileNotFoundError, match="apt-get install chromium"):
        chromium()
