"""A browser for each process, reports that it builds once, and pages that are watched while they are open."""

from typing import Any

import pytest

from tests.helpers.browser import RUNNING, WIDTHS, Sheet, chromium
from tests.helpers.reports import BUILDERS, Case


@pytest.fixture(scope="session")
def chrome():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
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


@pytest.fixture
def visit(chrome, reports, width):
    """Return a function that opens a case. In the end nothing may have left the page or been complained of."""
    contexts, sheets = [], []

    def visiting(name: str, **options: Any) -> Sheet:
        wide, high = WIDTHS[width]
        context = chrome.new_context(viewport={"width": wide, "height": high}, offline=True, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        sheet = Sheet(context.new_page(), reports(name))
        sheets.append(sheet)
        return sheet

    yield visiting
    complaints = [sheet.complaints for sheet in sheets if sheet.complaints]
    left = [sheet.left_the_page() for sheet in sheets if sheet.left_the_page()]
    ran = [sheet.case.path.stem for sheet in sheets if not sheet.page.evaluate(RUNNING)]
    for context in contexts:
        context.close()
    assert complaints == []
    assert left == []
    assert ran == []
