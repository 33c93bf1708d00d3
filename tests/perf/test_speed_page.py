"""The page on speed shows what was measured, and its pictures draw it."""

import json
import re
from itertools import product

import pytest

import speed_page
import speed_picture

RUN = json.loads((speed_page.RESULTS / "bench_cpu.json").read_text())
CELL = re.compile(r"([\d.]+) \(([\d.]+)–([\d.]+)\)")


def figures(part):
    """Return every ratio below a part of the results, in order."""
    if isinstance(part, dict) and "median" in part:
        return [tuple(part[end] for end in ("median", "least", "most"))]
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    return [figure for child in children for figure in figures(child)]


def test_the_page_is_what_the_results_give():
    page = speed_page.PAGE.read_text()
    assert speed_page.written(page) == page


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("paths", [row["over_bare"][side] for side in speed_page.SIDES for row in RUN["paths"]]),
        (
            "memory",
            [row["over_captum_best"][side] for side in ("timing", "ig", "captum") for row in RUN["memory"]],
        ),
        (
            "growth",
            [
                row.get(over, {})
                for rows in RUN["sweeps"].values()
                for row in rows
                for over in ("over_bare", "over_captum_best")
            ],
        ),
        ("metrics", RUN["metrics"]),
        ("methods", [row["faster"] for row in RUN["methods"].values()]),
    ],
)
def test_every_measured_ratio_stands_on_the_page_in_its_place(block, part):
    """Read the numbers back from the table and hold them against the file."""
    text = re.search(rf"<!-- {block} from bench_cpu -->(.*?)<!-- end -->", speed_page.PAGE.read_text(), re.DOTALL)[
        1
    ]
    shown = [tuple(map(float, found)) for found in CELL.findall(text)]
    assert len(shown) >= 3
    for row, expected in zip(shown, figures(part), strict=True):
        assert row == pytest.approx(expected, rel=0.06, abs=0.0051)


def test_the_page_says_when_where_and_with_what():
    text = speed_page.PAGE.read_text()
    for word in (RUN["machine"]["cpu"], f"{RUN['machine']['cores']} cores", *RUN["machine"]["versions"].values()):
        assert word in text
    assert speed_page.measured(RUN | {"date": "2026-02-03"}).startswith("Measured on 3 February 2026")
    assert RUN["quick"] is False


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((1.234, 1.196, 1.301), "1.23 (1.20–1.30)"),
        ((1.999, 1.5, 2.5), "2.0 (1.5–2.5)"),
        ((9.96, 9.2, 11.7), "10 (9–12)"),
        ((301.2, 229.4, 374.0), "301 (229–374)"),
    ],
)
def test_a_ratio_and_its_range_have_the_same_digits(ends, text):
    assert speed_page.times(dict(zip(("median", "least", "most"), ends, strict=True))) == text


def test_only_tables_with_results_are_written(tmp_path):
    page = "a\n<!-- measured from one -->\nold\n<!-- end -->\nb\n<!-- measured from two -->\nkept\n<!-- end -->\n"
    (tmp_path / "one.json").write_text(json.dumps(RUN))
    found = speed_page.written(page, tmp_path)
    assert "old" not in found
    assert found.startswith("a\n<!-- measured from one -->\n\nMeasured on ")
    assert found.endswith("\n\n<!-- end -->\nb\n<!-- measured from two -->\nkept\n<!-- end -->\n")


def test_ours_over_theirs_turned_round_is_theirs_over_ours():
    half = speed_page._inverse({"ratio": 0.5, "low": 0.25, "high": 0.8})
    assert half == {"median": 2, "least": 1.25, "most": 4}


def test_the_table_of_a_gpu_turns_ratios_so_that_they_read_as_written():
    pair = {"ours_s": 0.0018, "theirs_s": 0.0036, "ratio": 0.5, "low": 0.4, "high": 0.625, "fresh_id_s": 0.0025}
    captum = {"calls_of_32": pair, "best": pair, "memory_gb": {"ours": 1.25, "theirs": 4.75}}
    lines = speed_page.gpu(
        {
            "date": "2026-11-15",
            "hardware": "NVIDIA H200",
            "torch": "2.11",
            "bare": {"cnn": pair},
            "long_bare": {"gru": pair},
            "single": {"transformer": pair},
            "captum": {"ig_200": captum},
            "released": {"batches_of_30": pair, "one_series": pair},
            "cpd_100": pair,
            "mapped": {"1000_gb": 18.5, "1000_s": 1.0, "100000_gb": 18.6, "100000_s": 5.0},
        }
    ).splitlines()
    assert lines[0] == "Measured on 15 November 2026 by `perf/gpu.py`: NVIDIA H200, torch 2.11."
    cells = dict(re.findall(r"^\| (.*?) +\| +(.*?) \|$", "\n".join(lines[4:-2]), re.MULTILINE))
    ours, theirs = "0.50 (0.40–0.62)", "2.0 (1.6–2.5)"
    assert cells == {
        "TIMING / bare CNN, 4,598 series of 48 × 32": ours,
        "TIMING / bare GRU-200, 300 series of 600 × 17": ours,
        "TIMING / bare Transformer, one series, 1.8 ms, a new id 2.5 ms": ours,
        "captum's IG / our IG, 200 points, 32 series a call": theirs,
        "captum's IG / our IG, 200 points, its best batch (1.2 GB here, 4.8 GB there)": theirs,
        "released structure / TIMING, batches of 30": theirs,
        "released structure / TIMING, one series": theirs,
        "loop of batch-30 forwards / CPD, 100 values": theirs,
    }
    assert lines[-1] == "Device memory for memory-mapped series: 18.5 GB for 1,000 and 18.6 GB for 100,000."


def test_the_pictures_draw_the_measured_numbers():
    top, middle, bottom = speed_picture.ratios(RUN).axes
    dots = [
        [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() != "None"]
        for axes in (top, middle, bottom)
    ]
    sides = list(speed_picture.SIDES)
    assert dots[0] == [row["over_bare"][side]["median"] for row in RUN["paths"] for side in sides]
    assert dots[1] == [row["megabytes"][side]["median"] for row in RUN["memory"] for side in sides[:4]]
    assert dots[2] == [row["faster"]["median"] for part in ("methods", "metrics") for row in RUN[part].values()]
    for axes, rows in zip(speed_picture.growth(RUN).axes, RUN["sweeps"].values(), strict=True):
        sides = list(rows[0]["over_bare"])
        assert sides[:3] == ["timing", "ig", "captum"]
        drawn = [list(line.get_ydata()) for line in axes.lines[: len(sides)]]
        assert drawn == [[row["over_bare"][side]["median"] for row in rows] for side in sides]


def test_growth_tells_multiples_of_captum_at_its_best_their_median_over_sizes_and_the_worst_size():
    def figure(median):
        return {"median": median, "least": median - 0.1, "most": median + 0.1}

    def row(size, axis, timing, ig):
        bare = {"timing": figure(1.5), "ig": figure(1.2), "captum": figure(1.6), "captum_best": figure(1.4)}
        return {axis: size, "over_bare": bare, "over_captum_best": {"timing": figure(timing), "ig": figure(ig)}}

    sweeps = {
        "series": [row(4, "series", 1.1, 0.9), row(16, "series", 1.5, 1.0)],
        "steps": [row(24, "steps", 1.3, 1.25)],
    }
    lines = speed_page.growth({"sweeps": sweeps}).splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")][-3:] == [
        "captum's IG, best batch",
        "TIMING / captum's best",
        "IG / captum's best",
    ]
    assert [cell.strip() for cell in lines[3].strip("|").split("|")] == [
        "16 series",
        *("1.50 (1.40–1.60)", "1.20 (1.10–1.30)", "1.60 (1.50–1.70)", "1.40 (1.30–1.50)"),
        *("1.50 (1.40–1.60)", "1.00 (0.90–1.10)"),
    ]
    assert lines[-1] == (
        "As a multiple of captum's IG at its best batch, the median over all sizes: TIMING 1.30, at worst 1.50 "
        "(16 series); IG 1.00, at worst 1.25 (24 steps)."
    )


def test_long_series_take_time_and_memory_as_integrated_gradients_do():
    run = json.loads((speed_page.RESULTS / "long_series.json").read_text())
    cases = {(row["samples"], row["channels"], row["steps"]): row for row in run["time"]}
    lengths = (1_000, 3_000, 10_000, 30_000, 100_000)
    assert set(cases) == set(product((5, 50), (1, 2), lengths))
    for (*_, steps), row in cases.items():
        for name, figure in row["over_ig"].items():
            assert figure["median"] <= 6 or steps < 10_000, (name, row)
    for few, many in zip(run["memory"][::2], run["memory"][1::2], strict=True):  # of ten times as many steps
        ours, theirs = (many["megabytes"][side] / few["megabytes"][side] for side in ("timing", "ig"))
        assert ours < 1.5 * max(theirs, 10)
    text = speed_page.PAGE.read_text()
    shown = re.search(r"<!-- long from long_series -->(.*?)<!-- end -->", text, re.DOTALL)[1]
    assert shown.strip() == speed_page.long(run)
    largest = max(figure["median"] for row in run["time"] for figure in row["over_ig"].values())
    assert f"at most {largest:.1f} × integrated gradients" in shown
    assert len(CELL.findall(shown)) == 2 * len(cases)


def test_another_page_quotes_the_gpu_figures():
    run = json.loads((speed_page.RESULTS / "gpu_h200.json").read_text())
    memory = " ".join((speed_page.ROOT / "docs/howto/memory.md").read_text().split())
    few, many = run["mapped"]["1000_gb"], run["mapped"]["100000_gb"]
    assert f"it was {few:.1f} GB for 1,000 series and {many:.1f} GB for 100,000" in memory
