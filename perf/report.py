"""Size of a large report, and how long a browser takes until its first picture is drawn.

``python perf/report.py`` makes a report of 500 series of 48 steps and 32 channels with two methods and
opens it in an installed Chromium, from disk and without a network. The page sets a mark when its first view is
drawn; the time from the start of the navigation to that mark is taken five times, each in a fresh context.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.helpers.browser import READY, chromium
from tests.helpers.reports import large

MARK = "performance.getEntriesByName('tempograd-ready')[0].startTime / 1000"


def first_views(path: Path, repeats: int) -> list[float]:
    """Seconds from the start of the navigation to the first picture, once per fresh context."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        for _ in range(repeats):
            context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector(READY, state="attached")
            found.append(float(page.evaluate(MARK)))
            context.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="keep the figures in this JSON file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        path = large(Path(folder) / "report.html").path
        made, size = time.perf_counter() - start, path.stat().st_size / 1e6
        times = first_views(path, args.repeats)
    figures = {
        "series × steps × channels × methods": "500 × 48 × 32 × 2",
        "megabytes": round(size, 2),
        "seconds to the first picture, median": round(statistics.median(times), 2),
        "seconds to the first picture, all": [round(value, 2) for value in times],
        "seconds to explain, score and write": round(made, 1),
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    if args.out is not None:
        args.out.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
