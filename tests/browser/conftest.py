"""A browser for each process, reports that it builds once, and pages that are watched while they are open."""

import pytest

from tests.helpers.browser import RUNNING, WIDTHS, Sheet, Windows, chromium
from tests.helpers.reports import BUILDERS, Case


@pytest.fixture(scope="session")
def chrome():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
        options += ["--disable-gpu", "--disable-software-rasterizer"]  # nothing is drawn in three dimensions
        browser = playwright.chromium.launch(executable_path=chromium(), args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Return a function that builds a case the first time it is asked for."""
    built: dict[str, Case] = {}
    folder = tmp_path_factory.mktemp("reports")

    def build(name: str) -> Case:
        if name not in built:
            built[name] = BUILDERS[name](folder / f"{name}.html")
        return built[name]

    return build


@pytest.fixture
def width(request):
    """Return which window a page opens in; a test of the layout asks for every one with ``BOTH_WIDTHS``."""
    return getattr(request, "param", "laptop")


@pytest.fixture(scope="session")
def windows(chrome):
    """Return empty windows, which tests take and give back: a new one costs more than all that most tests do."""
    return Windows(chrome)


@pytest.fixture
def visit(windows, reports, width):
    """Return a function that opens a case. In the end nothing may have left the page or been complained of."""
    sheets = []

    def visiting(name: str, color_scheme: str = "light") -> Sheet:
        sheets.append(Sheet(windows.take(WIDTHS[width], color_scheme), reports(name)))
        return sheets[-1]

    yield visiting
    complaints = [sheet.complaints for sheet in sheets if sheet.complaints]
    left = [sheet.left_the_page() for sheet in sheets if sheet.left_the_page()]
    ran = [sheet.case.path.stem for sheet in sheets if not sheet.page.evaluate(RUNNING)]
    for sheet in sheets:
        sheet.leave()
        windows.give_back(sheet.page)
    assert complaints == []
    assert left == []
    assert ran == []
