"""A real Chromium that opens a report from disk, with the network off, and notes all that it complains about.

Playwright is imported late, so that ``make test``, which deselects these tests, collects them without it.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.reports import Case

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("AXE", ROOT / ".venv/axe/node_modules/axe-core/axe.min.js"))
WIDTHS = {"laptop": (1280, 800), "phone": (390, 844)}
BOTH_WIDTHS = pytest.mark.parametrize("width", WIDTHS, indirect=True)  # numbers do not depend on the width
VIEWS = ("series", "summary", "about")
READY = "body[data-ready=true]"  # once the first view is drawn
PLOTS = """e => (e.plots ?? []).map(plot => ({title: plot.spec.title ?? null, rows: plot.spec.rows ?? null,
    height: plot.spec.height, names: plot.spec.yAxis?.values?.length === 0 ? plot.spec.yAxis.values() : null,
    label: plot.spec.yAxis?.label ?? null, x: [plot.scales.x.min, plot.scales.x.max],
    y: [plot.scales.y.min, plot.scales.y.max], data: [...plot.data].map(part => [...part])}))"""
PANELS = """e => e.plots.map(plot => { const box = plot.over.getBoundingClientRect(),
    from = e.querySelector(".plots").getBoundingClientRect(); return {left: box.left - from.left,
    right: box.right - from.left, top: box.top - from.top, bottom: box.bottom - from.top}; })"""
COPIED = """const copied = canvas => { const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const pen = copy.getContext("2d", {willReadFrequently: true}); pen.drawImage(canvas, 0, 0); return pen; };
const all = canvas => copied(canvas).getImageData(0, 0, canvas.width, canvas.height).data;"""
IMAGES = f"""e => {{ {COPIED} return e.plots.map(plot => plot.spec.image).filter(Boolean).map(image => {{
    const data = all(image);
    return Array.from({{length: image.height}}, (_, r) => Array.from({{length: image.width}}, (_, c) => {{
        const at = 4 * (r * image.width + c);
        return data[at + 3] ? Array.from(data.slice(at, at + 3)) : [-1, -1, -1]; }})); }}); }}"""
COLOURS = f"""(e, [place, points]) => {{ {COPIED} const plot = e.plots[place], pen = copied(plot.ctx.canvas);
    const colour = (x, y) => pen.getImageData(plot.valToPos(x, "x", true), plot.valToPos(y, "y", true), 1, 1).data;
    return points.map(([x, y]) => [...colour(x, y)].slice(0, 3)); }}"""
ALL_COLOURS = f"""e => {{ {COPIED} return e.plots.map(({{ctx: {{canvas}}}}) => {{
    const data = all(canvas), found = new Set();
    for (let at = 0; at < data.length; at += 4)
        if (data[at + 3]) found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    return [...found].map(colour => `#${{colour.toString(16).padStart(6, "0")}}`); }}); }}"""
RUNNING = "window.hacked === undefined"


def chromium() -> str:
    """Return the installed Chromium; playwright's own download is never used."""
    for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise FileNotFoundError(
        "There is no Chromium on this machine: apt-get install chromium, or name one in $CHROMIUM."
    )


class Windows:
    """Windows of a browser, each with storage of its own and without a network."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._free: list[Any] = []

    def take(self, size: tuple[int, int], color_scheme: str) -> Any:
        """Return an empty window that no other test has."""
        if not self._free:
            context = self._browser.new_context(offline=True)
            context.set_default_timeout(20_000)
            self._free.append(context.new_page())
        page = self._free.pop()
        page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        page.emulate_media(media="null", color_scheme=color_scheme)
        return page

    def give_back(self, page: Any) -> None:
        """Empty a window for the next test; one that opened others is closed."""
        if len(page.context.pages) > 1:
            page.context.close()
            return
        page.goto("about:blank")
        page.mouse.move(0, 0)
        self._free.append(page)


class Sheet:
    """One open report, with the words of its contract: views, controls, tables and pictures."""

    def __init__(self, page: Any, case: Case) -> None:
        self.page, self.case = page, case
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._heard = {
            "console": self._note,
            "pageerror": lambda error: self.complaints.append(f"error: {error}"),
            "dialog": lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()),
            "request": lambda request: self.requests.append(request.url),
            "websocket": lambda socket: self.requests.append(socket.url),
            "popup": lambda other: self.complaints.append(f"popup: {other.url}"),
        }
        for event, hear in self._heard.items():
            page.on(event, hear)
        page.context.route("**/*", self._only_the_file)
        page.goto(self.url)
        page.wait_for_selector(READY, state="attached")

    @property
    def url(self) -> str:
        return self.case.path.as_uri()

    def _note(self, message: Any) -> None:
        if message.type in {"warning", "error", "assert"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _only_the_file(self, route: Any) -> None:
        if route.request.url.partition("#")[0] == self.url:
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def leave(self) -> None:
        """Hear nothing more, and leave nothing kept by the page."""
        self.page.evaluate("localStorage.clear()")
        self.page.context.unroute_all()
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)

    def left_the_page(self) -> list[str]:
        """Return every address asked for but the file itself and what is made inside the page."""
        inside = ("data:", "blob:", self.url)
        return [url for url in self.requests if not url.startswith(inside)]

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def view(self, name: str) -> "Sheet":
        self.find(f"#tab-{name}").click()
        self.find(f"#view-{name}").wait_for(state="visible")
        self.settle()
        return self

    def unfold(self) -> "Sheet":
        """Open everything that is folded away."""
        self.page.evaluate("() => { for (const fold of document.querySelectorAll('details')) fold.open = true; }")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until the pictures that a control asked for are drawn: two frames after the last task."""
        self.page.evaluate(
            "() => new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done))))"
        )

    def set(self, control: str, value: Any) -> None:
        """Give a control a value as a hand would: choose an option, type a text, move a slider."""
        found = self.find(f"#{control}")
        found.evaluate("e => { const fold = e.closest('details'); if (fold) fold.open = true; }")
        self.settle()
        kind = found.evaluate("e => e.tagName === 'SELECT' ? 'select' : e.type")
        if kind == "select":
            found.select_option(str(value))
        else:
            found.fill(str(value))
            if kind != "range":
                found.press("Enter")
        self.settle()

    def choose(self, name: Any) -> None:
        self.set("series", int(name))

    def by(self, method: str, control: str = "method") -> None:
        """Choose a method; menus hold the methods in the order in which they were given."""
        if len(self.case.explanations) > 1:  # else there is no menu
            self.set(control, list(self.case.explanations).index(method))

    def options(self, control: str) -> list[str]:
        return self.find(f"#{control}").evaluate("e => [...e.options].map(o => o.value)")

    def value(self, control: str) -> str:
        return self.find(f"#{control}").input_value()

    def text(self, selector: str) -> str:
        return " ".join(self.find(selector).inner_text().split())

    def rows(self, selector: str) -> list[dict[str, str]]:
        """Return the data attributes of every element that is found."""
        return self.page.eval_on_selector_all(selector, "all => all.map(e => ({...e.dataset}))")

    def number(self, selector: str, name: str) -> float:
        return float(self.find(selector).get_attribute(f"data-{name}"))

    def plots(self, chart: str) -> list[dict[str, Any]]:
        """Return title, rows, limits and lines of each plot of a picture; no line where a number is null."""
        found: list[dict[str, Any]] = self.find(f"#{chart}").evaluate(PLOTS)
        return found

    def panels(self, chart: str) -> list[dict[str, float]]:
        """Return the boxes of a picture in which places mean steps and values."""
        found: list[dict[str, float]] = self.find(f"#{chart}").evaluate(PANELS)
        return found

    def pixels(self, chart: str) -> list[list[list[list[int]]]]:
        """Return the colours of the maps of a picture, (row, column, RGB) each; -1 where one sees through."""
        found: list[list[list[list[int]]]] = self.find(f"#{chart}").evaluate(IMAGES)
        return found

    def colours(self, chart: str) -> list[frozenset[str]]:
        """Return all colours of each plot of a picture."""
        return [frozenset(found) for found in self.find(f"#{chart}").evaluate(ALL_COLOURS)]

    def painted(self, chart: str, plot: int, points: list[tuple[float, float]]) -> list[str]:
        """Return the colours that stand at places of a plot, given on its scales."""
        found = self.find(f"#{chart}").evaluate(COLOURS, [plot, [[float(x), float(y)] for x, y in points]])
        return ["#" + "".join(f"{part:02x}" for part in colour) for colour in found]

    def pointed(self, chart: str, panel: int, across: float, down: float = 0.5) -> list[str]:
        """Return what the picture says at a place of one of its panels, given as shares of its size."""
        # an unfolded badge lies above the pictures
        self.page.evaluate("() => { for (const fold of document.querySelectorAll('.badge')) fold.open = false; }")
        place = self.find(f"#{chart} > .plots")
        place.scroll_into_view_if_needed()
        box, inner = place.bounding_box(), self.panels(chart)[panel]
        x = inner["left"] + across * (inner["right"] - inner["left"])
        y = inner["top"] + down * (inner["bottom"] - inner["top"])
        self.page.mouse.wheel(0, box["y"] + y - 300)
        self.settle()
        box = place.bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        tip = self.find(f"#{chart} .tip")
        return [line.inner_text() for line in tip.locator("div").all()] if tip.is_visible() else []
