"""Write the tables and the picture of ``docs/sampling.md`` from ``perf/results/``: ``make bench-pages``.

    python perf/sampling_page.py [--stopping stopping.jsonl] [--coverage coverage.txt]

With what the studies wrote, ``stopping_h200.json`` and ``coverage_cpu.json`` are made from it first.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import sampling_picture
import sampling_results
from sampling_names import ASKED, DATASETS, DESIGNS, KNOWN, MODELS, SETTINGS
from sampling_picture import Figures, Row, pick
from speed_page import PICTURES, RESULTS, ROOT, written
from tempograd.core.formatting import table

PAGE = ROOT / "docs/sampling.md"
BUDGET = 0.04  # seconds a series
BOTH = "paper's / automatic"


def mean(rows: Sequence[Row], name: str) -> float:
    return math.fsum(row[name] for row in rows) / len(rows)


def share(rows: Sequence[Row], name: str, of: str) -> float:
    """Pool over models: the sum of one over the sum of the other."""
    return math.fsum(row[name] for row in rows) / math.fsum(row[of] for row in rows)


def pooled_error(rows: Sequence[Row], name: str) -> float:
    """Return the standard error of the mean over models, each with its own."""
    return math.sqrt(math.fsum(row[name + "_se"] ** 2 for row in rows)) / len(rows)


def percent(part: float, places: int = 0) -> str:
    return f"{100 * part:.{places}f} %"


def signed(difference: float, error: float) -> str:
    return f"{difference:+.3f} ± {error:.3f}".replace("-", "−")


def measured(run: Figures) -> str:
    day = date.fromisoformat(run["date"])
    return (
        f"Measured on {day.day} {day:%B %Y} on {run['hardware']}: {run['series']} series each, converged maps of "
        f"{run['converged_points']:,} points."
    )


def fifty(run: Figures) -> str:
    """Errors at 50 passes with the paper's settings, three models pooled."""
    rows = [["released → default", "error", "ratio", "top tenth found", "never free"]]
    for name, label in DATASETS.items():
        both = [pick(run, dataset=name, setting="paper", way=way) for way in ("released", "default")]
        was, now = (mean(part, "error") for part in both)
        ratio = f"{now / was:.2f} ± {pooled_error(both[1], 'error_difference') / was:.2f}"
        found = " → ".join(percent(mean(part, "overlap")) for part in both)
        unseen = " → ".join(percent(mean(part, "unseen"), 1) for part in both)
        rows.append([label, f"{was:.2f} → {now:.2f}", ratio, found, unseen])
    most = max(row["unseen"] for row in pick(run, way="default", setting="automatic"))
    automatic = [_ratio(run, name, "automatic") for name in DATASETS]
    return (
        f"{table(rows)}\n\nWith automatic settings the ratio of the errors is {min(automatic):.2f} to "
        f"{max(automatic):.2f}, and {percent(most)} of the observed values are never free."
    )


def _ratio(run: Figures, dataset: str, setting: str) -> float:
    before, now = (pick(run, dataset=dataset, setting=setting, way=way) for way in ("released", "default"))
    return mean(now, "error") / mean(before, "error")


def wafer(run: Figures) -> str:
    """Tell the ratio of the errors model by model where masks starve cells."""
    before, now = (
        {row["model"]: row["error"] for row in pick(run, dataset="wafer", setting="paper", way=way)}
        for way in ("released", "default")
    )
    each = ", ".join(f"{label} {now[name] / before[name]:.2f}" for name, label in MODELS.items())
    return f"The default reaches {_ratio(run, 'wafer', 'paper'):.2f} of the error of independent masks ({each})."


def pilot(run: Figures) -> str:
    """Tell the same of masks that a pilot placed."""
    rows = pick(run, dataset="wafer", setting="paper", passes=50)
    found = {
        name: {row["model"]: row["error"] for row in rows if (row["design"], row["estimate"]) == name}
        for name in (("released", "ratio"), ("pilot 1", "both, firm"))
    }
    before, now = found.values()
    each = ", ".join(f"{label} {now[name] / before[name]:.2f}" for name, label in MODELS.items())
    ratio = math.fsum(now.values()) / math.fsum(before.values())
    return f"A pilot of ten passes that says where to anchor the rest gives {ratio:.2f} ({each})."


def cpd(run: Figures) -> str:
    """Faithfulness at 50 passes, and in words where it gained and where it lost."""
    rows = [["", "released", "default", "difference", "converged", "difference, automatic settings"]]
    gained: dict[str, list[str]] = {"above": [], "level": [], "below": []}
    for name, label in DATASETS.items():
        differences = []
        for setting in SETTINGS:
            now = pick(run, dataset=name, setting=setting, way="default")
            difference, error = mean(now, "cpd_difference"), pooled_error(now, "cpd_difference")
            differences.append(signed(difference, error))
            kind = "level" if abs(difference) <= error else "above" if difference > 0 else "below"
            gained[kind].append(f"{label} ({SETTINGS[setting]})")
        for names in gained.values():
            if all(f"{label} ({kind})" in names for kind in SETTINGS.values()):
                names[-2:] = [f"{label} (both settings)"]
        before, now = (pick(run, dataset=name, setting="paper", way=way) for way in ("released", "default"))
        means = [f"{mean(before, 'cpd'):.3f}", f"{mean(now, 'cpd'):.3f}"]
        rows.append([label, *means, differences[0], f"{mean(now, 'converged_cpd'):.3f}", differences[1]])
    words = {
        "above": "More than one standard error above",
        "level": "within one standard error",
        "below": "**more than one below**",
    }
    said = "; ".join(f"{words[kind]}: {', '.join(names) or 'none'}" for kind, names in gained.items())
    return f"{table(rows)}\n\n{said}."


def designs(run: Figures) -> str:
    """Errors of every kind of draw: geometric means over data sets of the ratio to the released one."""
    everything = pick(run, passes=50)
    sums: dict[tuple[str, ...], float] = {}
    for row in everything:
        key = (row["setting"], row["dataset"], row["design"], row["estimate"])
        sums[key] = sums.get(key, 0.0) + row["error"]

    def ratio(design: str, estimate: str, setting: str) -> str:
        if not estimate:
            return ""
        parts = [
            sums[setting, name, design, estimate] / sums[setting, name, "released", "ratio"] for name in DATASETS
        ]
        return f"{math.exp(math.fsum(map(math.log, parts)) / len(parts)):.2f}"

    rows = [["50 passes in all", f"plain mean, {BOTH}", "with controls"]]
    for design, (label, *kinds) in DESIGNS.items():
        cells = [" / ".join(ratio(design, kind, setting) for setting in SETTINGS) for kind in kinds]
        rows.append([label, *(cell.strip(" /") for cell in cells)])
        if design == "released":
            known = " / ".join(ratio("released", "known", setting) for setting in SETTINGS)
            rows.append(["the same, divided by known probabilities", known, ""])
    return table(rows)


def intervals(run: Figures) -> str:
    """Share of the intervals that hold the truth on models with known answers."""
    rows, default = [["", *ASKED.values()]], []
    for start, label in KNOWN.items():
        names = [name for name in run["models"] if name == start or name.startswith(f"{start} (")]
        found = [[run["models"][name][way]["covered"] for name in names] for way in ASKED]
        rows.append(
            [label, *("–".join(dict.fromkeys(f"{end(part):.2f}" for end in (min, max))) for part in found)]
        )
        default += [each for way, part in zip(ASKED, found, strict=True) if way != "plain 50" for each in part]
    within = sum(0.93 <= each <= 0.97 for each in default)
    return (
        f"{table(rows)}\n\nWithout the plain mean, {within} of {len(default)} numbers lie within 93–97 %; they go "
        f"from {percent(min(default), 1)} to {percent(max(default), 1)}."
    )


def held_out(run: Figures) -> str:
    """Share of the intervals that hold the converged value on the trained models."""
    rows = [[f"50 points, {BOTH}", *MODELS.values()]]
    for name, label in DATASETS.items():
        rows.append([label, *(_pair(run, "covered", "{:.2f}".format, name, model, "default") for model in MODELS)])
    low: dict[str, float] = {}
    for row in pick(run, way="default"):
        if round(row["covered"], 2) < 0.9:
            case = f"{DATASETS[row['dataset']]} {MODELS[row['model']]}"
            low[case] = min(low.get(case, 1.0), row["covered"])
    names = ", ".join(f"{case} ({found:.2f})" for case, found in sorted(low.items(), key=lambda item: item[1]))
    ways = {"50 points": "default", "200 points": "200 points", "tolerance 0.1": "tolerance 0.1"}
    several = []
    for label, way in ways.items():
        found = [row["covered"] for row in pick(run, way=way)]
        within = sum(0.93 <= each <= 0.97 for each in found)
        several.append(f"{label}: {within} of {len(found)} cases within 93–97 %, lowest {min(found):.2f}")
    return f"{table(rows)}\n\nBelow 90 %: {names or 'none'}. {'; '.join(several)}."


def believed(run: Figures) -> str:
    """Whether stated errors hold on models that were drawn by a seed, and how often intervals do."""
    groups = ("smooth", "steep", "smooth, starved", "steep, starved")
    rows = [
        ["", "models", "true error", "interval holds", "under 5 %, says over 10 %", "over 20 %, says under 5 %"]
    ]
    for way, found in run["pooled"].items():
        for group in groups:
            row = found[group]
            rows.append(
                [
                    f"{way}: {group}",
                    f"{row['models']}",
                    percent(row["true"]),
                    f"{row['cover']:.3f}",
                    f"{row['wolf']} of {row['good']:,}",
                    f"{row['sleep']} of {row['bad']:,}",
                ]
            )
    fifty = run["pooled"]["50 samples"]
    whole, width = fifty["all"], fifty["smooth"]["width"]
    smooth, steep, starved = (percent(fifty[kind]["bias"], 1) for kind in ("smooth", "steep", "steep, starved"))
    return (
        f"{table(rows)}\n\nWith 50 samples, all models pooled, {whole['wolf']} of {whole['good']:,} runs "
        f"({percent(whole['wolf'] / whole['good'], 1)}) cry wolf and {whole['sleep']} of {whole['bad']:,} sleep. "
        f"The width of a smooth model's interval differs between seeds by a factor of {width:.1f} (90 % over 25 % "
        f"quantile, the middle cell). The mean of all seeds is off by {smooth} of the map for smooth models, "
        f"{steep} for steep and {starved} for steep and starved ones, its own noise included."
    )


def _pair(run: Figures, name: str, form: Callable[[float], str], dataset: str, model: str, way: str) -> str:
    found = [pick(run, dataset=dataset, model=model, setting=setting, way=way)[0][name] for setting in SETTINGS]
    return " / ".join(map(form, found))


def stopping(run: Figures) -> str:
    """Faithfulness and passes when the estimate stops by itself, three models pooled."""
    rows = [[BOTH, "50 points", "tolerance 0.1", "its lowest model", "passes"]]
    lowest, single, dearest = 1.0, (1.0, ""), (0.0, "")
    for name, label in DATASETS.items():
        cells: list[list[str]] = [[] for _ in rows[0][1:]]
        for setting, kind in SETTINGS.items():
            fixed, asked = (
                pick(run, dataset=name, setting=setting, way=way) for way in ("default", "tolerance 0.1")
            )
            reached = share(asked, "cpd", "converged_cpd")
            least = min(asked, key=lambda row: row["cpd"] / row["converged_cpd"])
            bottom = least["cpd"] / least["converged_cpd"]
            shares = share(fixed, "cpd", "converged_cpd"), reached, bottom
            passes = f"{mean(asked, 'passes'):,.0f}"
            for cell, text in zip(cells, (*map(percent, shares), passes), strict=True):
                cell.append(text)
            lowest = min(lowest, reached)
            single = min(single, (bottom, f"{label}, {MODELS[least['model']]}, {kind} settings"))
            most = max(asked, key=lambda row: row["passes"])
            dearest = max(dearest, (most["passes"], f"{label}, {MODELS[most['model']]}"))
        rows.append([label, *(" / ".join(cell) for cell in cells)])
    return (
        f"{table(rows)}\n\nPooled over models the lowest is {percent(lowest, 1)}, for one model "
        f"{percent(single[0], 1)} ({single[1]}). "
        f"The most passes on average are {dearest[0]:,.0f} ({dearest[1]}), {dearest[0] / 50:.0f} times the "
        "50."
    )


RULES = {  # of known_answers.json, and what the page calls them
    "50": "50 samples",
    "400": "400 samples",
    "1600": "1,600 samples",
    "error, at most 400": "10 %, at most 400",
    "error or all named drivers, at most 400": "10 %, or drivers certain, at most 400",
    "error, of 30 % with all named drivers, at most 200": "10 %, or 30 % with drivers certain, at most 200",
    "error, of 30 % with all named drivers, at most 400": "**the same, at most 400: the default**",
    "error, of 30 % with all named drivers, at most 1600": "the same, at most 1,600",
}


def answers(run: Figures) -> str:
    """Tell cost, AUPRC and share of right first drivers of each rule, networks of a kind pooled."""
    kinds = {"planted": ("order", "wave", "calm", "level", "follow"), "alarm": ("alarm",), "data": ("data",)}
    networks: dict[str, list[dict[str, Row]]] = {
        kind: [
            {row["rule"]: row for row in found["rules"]}
            for name, found in run["networks"].items()
            if name.startswith(starts)
        ]
        for kind, starts in kinds.items()
    }
    counts = [len(networks[kind]) for kind in kinds]
    titles = [f"{count} {what}" for count, what in zip(counts, ("planted", "alarm LSTMs", "of data"), strict=True)]
    rows = [["samples; AUPRC; right / wrong first driver", *titles]]
    for rule, called in RULES.items():
        cells = []
        for kind in kinds:
            here = [found[rule] for found in networks[kind]]
            right, wrong = (percent(mean(here, name)) for name in ("certain_right", "certain_wrong"))
            cells.append(f"{mean(here, 'cost'):.0f}; {mean(here, 'auprc'):.3f}; {right} / {wrong}")
        rows.append([called, *cells])
    return f"{table(rows)}\n\nLeft out: {run['left_out']}."


def budget(run: Figures) -> str:
    """Errors that the paper's time buys."""
    rows = [[f"error, {BOTH}", *MODELS.values(), "maps' noise", "ms"]]
    for name, label in DATASETS.items():
        asked = pick(run, dataset=name, way="40 ms")
        noise = [100 * row["converged_noise"] for row in asked]
        took = [1000 * row["seconds"] for row in asked]
        errors = [_pair(run, "error", lambda error: percent(error, 1), name, model, "40 ms") for model in MODELS]
        rows.append([label, *errors, f"{min(noise):.1f}–{max(noise):.1f} %", f"{min(took):.0f}–{max(took):.0f}"])
    everything = pick(run, way="40 ms")
    below, longest = sum(row["error"] < 0.02 for row in everything), max(row["seconds"] for row in everything)
    larger = math.sqrt(longest / BUDGET)
    return (
        f"{table(rows)}\n\nBelow 2 %: {below} of {len(everything)} cases. The longest run took "
        f"{1000 * longest:.0f} ms a series; in 40 ms its error would be {larger:.1f} times as large."
    )


def settings(run: Figures) -> str:
    """Tell what the automatic settings give beside the paper's."""
    rows = [["", "error at 50 points, paper's", "automatic", "converged CPD, paper's", "automatic"]]
    for name, label in DATASETS.items():
        parts = [pick(run, dataset=name, setting=setting, way="default") for setting in SETTINGS]
        errors = [f"{mean(part, 'error'):.2f}" for part in parts]
        rows.append([label, *errors, *(f"{mean(part, 'converged_cpd'):.3f}" for part in parts)])
    return table(rows)


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "measured": measured,
    "fifty": fifty,
    "wafer": wafer,
    "pilot": pilot,
    "cpd": cpd,
    "designs": designs,
    "intervals": intervals,
    "held_out": held_out,
    "believed": believed,
    "stopping": stopping,
    "answers": answers,
    "budget": budget,
    "settings": settings,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stopping", type=Path, help="lines that stopping.py wrote")
    parser.add_argument("--coverage", type=Path, help="a line for each model with a known answer")
    parser.add_argument("--date", default=f"{date.today()}", help="of these runs")
    options = parser.parse_args()
    if options.stopping:
        lines = [json.loads(line) for line in options.stopping.read_text().splitlines()]
        text = json.dumps(sampling_results.stopping(lines, options.date), separators=(",", ":"))
        (RESULTS / "stopping_h200.json").write_text(text.replace("],[", "],\n[") + "\n")
    if options.coverage:
        found = sampling_results.coverage(options.coverage.read_text().splitlines(), options.date)
        (RESULTS / "coverage_cpu.json").write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), blocks=BLOCKS))
    run = json.loads((RESULTS / "stopping_h200.json").read_text())
    sampling_picture.errors(run).savefig(PICTURES / "sampling_errors.png", dpi=110)


if __name__ == "__main__":
    main()
