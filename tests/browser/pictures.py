"""Pictures of a report, for the documentation: ``python -m tests.browser.pictures REPORT FOLDER``."""

import argparse
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.helpers.browser import READY, VIEWS, WIDTHS, chromium

COLOURS = 256  # a palette keeps each file below 200 kB
LARGEST = 200_000
FIRST = 1060  # pixels of height: the pictures of one series, and what removal does


def save(picture: bytes, path: Path) -> None:
    from PIL import Image

    image = Image.open(BytesIO(picture)).convert("RGB")
    image = image.quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}: show less of the page.")


def take(browser: Any, report: Path, folder: Path, name: str) -> None:
    """Photograph every view at one width, from top to bottom."""
    wide, high = WIDTHS[name]
    page = browser.new_page(viewport={"width": wide, "height": high}, offline=True)
    page.goto(report.resolve().as_uri())
    page.wait_for_selector(READY, state="attached")
    if name == "laptop":  # what people see first, for the front page
        page.set_viewport_size({"width": wide, "height": FIRST})
        save(page.screenshot(), folder / "report_first_view.png")
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        page.wait_for_timeout(500)
        save(page.screenshot(full_page=True), folder / f"report_{view}_{name}.png")
    page.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        for name in WIDTHS:
            take(browser, args.report, args.folder, name)
        browser.close()


if __name__ == "__main__":
    main()
