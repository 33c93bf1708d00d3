"""Write the tables and the pictures of ``docs/speed.md`` from ``perf/results/``: ``make bench-pages``.

A table stands between ``<!-- NAME from FILE -->`` and ``<!-- end -->``; the rest of the page is written by hand.
A table whose file is not there stays as it is.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import speed_picture
from paths import summary
from speed_picture import METHODS, MODELS
from tempograd.core.formatting import counted, table

ROOT = Path(__file__).parents[1]
PAGE, RESULTS, PICTURES = ROOT / "docs/speed.md", ROOT / "perf/results", ROOT / "docs/pictures"
BLOCK = re.compile(r"(<!-- (\w+) from (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MAPS = {  # what was trained, and what is to be said of the maps; without a word: how alike they were
    "occlusion": ("", ""),
    "augmented_occlusion": ("", "up to the draws"),
    "lime": ("", "captum's to 1e-6 with the same draws (tests)"),
    "fit": (" without its training", "up to draws and generator"),
    "winit": ("", "up to the draws"),
    "dynamask": (", 6 areas, 20 epochs", ""),
    "extremal_mask": (", 20 epochs", ""),
    "contralsp": (", 20 epochs", "own draws"),
    "contralsp, 4 times as many series": (", 5 epochs", "own draws"),
}
SIDES = {
    "timing": "TIMING",
    "ig": "IG",
    "captum": "captum's IG",
    "captum_best": "captum's IG, best batch",
    "released": "released structure",
}
Figures = dict[str, Any]


def times(figure: Figures) -> str:
    """Write a ratio and its range to the same digit."""
    median, least, most = figure["median"], figure["least"], figure["most"]
    places = 2 if median < 1.995 else 1 if median < 9.95 else 0
    return f"{median:.{places}f} ({least:.{places}f}–{most:.{places}f})"


def measured(run: Figures) -> str:
    """Say when, where and with what."""
    day, found = date.fromisoformat(run["date"]), run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"Measured on {day.day} {day:%B %Y} by `make bench`, {run['minutes']:.0f} minutes: {found['cpu']}, "
        f"{found['cores']} cores, torch threads: {found['threads']}; {versions}."
        + (f" **{run['note']}**" if run["note"] else "")
    )


def paths(run: Figures) -> str:
    """Tell multiples of the bare model, one column for each model and size."""
    head, rows = ["", *(_column(row, run["paths"][0]) for row in run["paths"])], []
    for side, label in SIDES.items():
        rows.append([label, *(times(row["over_bare"][side]) for row in run["paths"])])
    return table([head, *rows])


def _column(row: Figures, usual: Figures) -> str:
    """Name a model, and what is not as usual."""
    unusual = [f"{row[size]} {size}" for size in ("series", "points") if row[size] != usual[size]]
    return ", ".join([MODELS[row["model"]], *unusual])


def memory(run: Figures) -> str:
    """Tell megabytes, and multiples of captum's at its best batch."""
    rows = [["", *(f"{row['points']} points" for row in run["memory"])]]
    for side in ("bare", "timing", "ig", "captum", "captum_best"):
        cells = []
        for row in run["memory"]:
            ratio = f": {times(row['over_captum_best'][side])}" if side in row["over_captum_best"] else ""
            cells.append(f"{row['megabytes'][side]['median']:,.0f} MB{ratio}")
        rows.append([SIDES.get(side, "bare model"), *cells])
    rows[-1][0] += f" ({run['memory'][0]['internal']})"
    return table(rows)


def growth(run: Figures) -> str:
    """Tell multiples of the bare model and, where it was measured, of captum at its best batch."""
    first = next(iter(run["sweeps"].values()))[0]
    sides, over = list(first["over_bare"]), list(first.get("over_captum_best", {}))
    head = ["", *(SIDES[side] for side in sides), *(f"{SIDES[side]} / captum's best" for side in over)]
    rows = []
    for axis, sizes in run["sweeps"].items():
        for row in sizes:
            cells = [times(row["over_bare"][side]) for side in sides]
            cells += [times(row["over_captum_best"][side]) for side in over]
            rows.append([f"{row[axis]} {axis}", *cells])
    return table([head, *rows]) + (f"\n\n{against_captum(run)}" if over else "")


def against_captum(run: Figures) -> str:
    """Say what a method takes of captum's time over all sizes, and where it is slowest."""
    told = [
        f"{SIDES[name]} {found['over_sizes']:.2f}, at worst {found['worst']:.2f} ({found['at']})"
        for name, found in summary(run["sweeps"]).items()
    ]
    return f"As a multiple of captum's IG at its best batch, the median over all sizes: {'; '.join(told)}."


def long(run: Figures) -> str:
    """Tell CPU time and memory of long series, and multiples of integrated gradients with as many samples."""
    steps = list(dict.fromkeys(row["steps"] for row in run["time"]))
    rows = {"": [f"{size:,} steps" for size in steps]}
    for row, name in product(run["time"], ("first", "again")):
        took = f"{1000 * row['seconds'][name]['median']:.0f} ms: {times(row['over_ig'][name])}"
        rows.setdefault(f"{_case(row)}, {name}", []).append(took)
    held = {"": [f"{size:,} steps" for size in dict.fromkeys(row["steps"] for row in run["memory"])]}
    for row in run["memory"]:
        ours, theirs = row["megabytes"]["timing"], row["megabytes"]["ig"]
        held.setdefault(_case(row), []).append(f"{ours:.0f} MB: {ours / theirs:.1f}")
    day, found = date.fromisoformat(run["date"]), run["machine"]
    largest = max(row["over_ig"][name]["median"] for row in run["time"] for name in ("first", "again"))
    said = (
        f"Measured on {day.day} {day:%B %Y} by `perf/long_series.py`: {found['cpu']}, one thread, "
        f"torch {found['versions']['torch']}. TIMING took at most {largest:.1f} × integrated gradients."
    )
    return "\n\n".join([said, *(table([[name, *cells] for name, cells in part.items()]) for part in (rows, held))])


def _case(row: Figures) -> str:
    return f"{row['samples']} samples, {counted(row['channels'], 'channel')}"


def metrics(run: Figures) -> str:
    rows = [["", "times faster than the loop"]]
    for name, figure in run["metrics"].items():
        what = name.upper() if name != "all" else f"all {figure['metrics']} metrics that remove values"
        rows.append([f"{what} ({figure['k']} values of {figure['series']} series)", times(figure["faster"])])
    return table(rows)


def methods(run: Figures) -> str:
    rows = [["", "times faster", "the same maps?"]]
    for name, figure in run["methods"].items():
        trained, note = MAPS[name]
        same = note or f"correlation {figure['correlation']:.2f}"
        rows.append([f"{METHODS[name]}{trained} ({figure['series']} series)", times(figure["faster"]), same])
    return table(rows).replace("-: |\n", "-- |\n", 1)  # words read better from the left


def gpu(run: Figures) -> str:
    """Return all of a GPU's figures, with the date and the hardware."""
    rows = [["", "ratio"]]
    for part, size in (("bare", "4,598 series of 48 × 32"), ("long_bare", "300 series of 600 × 17")):
        for name, figure in run[part].items():
            rows.append([f"TIMING / bare {MODELS[name]}, {size}", times(_ratio(figure))])
    for name, figure in run["single"].items():
        took = f"one series, {1000 * figure['ours_s']:.1f} ms, a new id {1000 * figure['fresh_id_s']:.1f} ms"
        rows.append([f"TIMING / bare {MODELS[name]}, {took}", times(_ratio(figure))])
    for name, figure in run["captum"].items():
        method, points = name.split("_")
        what = f"captum's IG / our {'IG' if method == 'ig' else 'TIMING'}, {points} points"
        rows.append([f"{what}, 32 series a call", times(_inverse(figure["calls_of_32"]))])
        ours, theirs = figure["memory_gb"]["ours"], figure["memory_gb"]["theirs"]
        held = f"{ours:.1f} GB here, {theirs:.1f} GB there"
        rows.append([f"{what}, its best batch ({held})", times(_inverse(figure["best"]))])
    rows.append(["released structure / TIMING, batches of 30", times(_inverse(run["released"]["batches_of_30"]))])
    rows.append(["released structure / TIMING, one series", times(_inverse(run["released"]["one_series"]))])
    rows.append(["loop of batch-30 forwards / CPD, 100 values", times(_inverse(run["cpd_100"]))])
    sizes = {key[:-3]: value for key, value in run["mapped"].items() if key.endswith("_gb")}
    held = " and ".join(f"{value:.1f} GB for {int(count):,}" for count, value in sizes.items())
    day = date.fromisoformat(run["date"])
    return (
        f"Measured on {day.day} {day:%B %Y} by `perf/gpu.py`: {run['hardware']}, torch {run['torch']}.\n\n"
        f"{table(rows)}\n\nDevice memory for memory-mapped series: {held}."
    )


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "measured": measured,
    "paths": paths,
    "memory": memory,
    "growth": growth,
    "long": long,
    "metrics": metrics,
    "methods": methods,
    "gpu": gpu,
}


def written(page: str, results: Path = RESULTS, blocks: Mapping[str, Callable[[Figures], str]] = BLOCKS) -> str:
    """Return the page with every table written anew whose figures are there."""

    def fill(found: re.Match[str]) -> str:
        path = results / f"{found[3]}.json"
        if not path.exists():
            return found[0]
        return f"{found[1]}\n{blocks[found[2]](json.loads(path.read_text()))}\n\n{found[4]}"

    return BLOCK.sub(fill, page)


def _ratio(figure: Figures) -> Figures:
    return {"median": figure["ratio"], "least": figure["low"], "most": figure["high"]}


def _inverse(figure: Figures) -> Figures:
    return {"median": 1 / figure["ratio"], "least": 1 / figure["high"], "most": 1 / figure["low"]}


def main() -> None:
    PAGE.write_text(written(PAGE.read_text()))
    run = json.loads((RESULTS / "bench_cpu.json").read_text())
    for name, draw in {"speed_ratios": speed_picture.ratios, "speed_growth": speed_picture.growth}.items():
        draw(run).savefig(PICTURES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
