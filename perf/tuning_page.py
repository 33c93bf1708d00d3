"""Write the tables of ``docs/tuning.md`` from ``perf/results/``: ``make bench-pages``.

    python perf/tuning_page.py [--records runs/tuning]

With the folder of records that ``tuning_study.py`` wrote, ``tuning_h200.json`` is made from it first.
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from speed_page import RESULTS, ROOT, Figures, written
from tempograd.core.formatting import table
from tuning_study import BASELINES, METHODS, RIVALS, ratios

PAGE = ROOT / "docs/tuning.md"
LABELS = {
    "automatic": "automatic",
    "tuned": "tuned",
    "integrated_gradients": "IG",
    "gradient_shap": "GradSHAP",
    "rand_ig": "RandIG",
    "occlusion": "FO",
    "lime": "LIME",
    "augmented_occlusion": "AFO",
}
DATASETS = {"physionet2012": "PhysioNet 2012"}
MODELS = {"gru": "GRU", "cnn": "CNN", "transformer": "Transformer"}
CLOSE = ("automatic", "integrated_gradients", "gradient_shap", "rand_ig", "occlusion")
SHOWN = 8  # settings in the table of those that do best untuned


def packed(folder: Path) -> dict[str, Any]:
    """Return what the page shows of the records of models above chance."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    kept = ("cpd", "standard_error", "series", "settings", "verdict", "cost")
    return {
        "cases": [
            record
            | {
                "methods": {
                    name: {key: found[key] for key in kept if key in found}
                    for name, found in record["methods"].items()
                }
            }
            for record in records
            if set(METHODS) <= set(record["methods"]) and not record["model"]["at_chance"]
        ]
    }


def geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def with_error(numbers: Sequence[float]) -> str:
    """Return the geometric mean of ratios and its standard error over cases."""
    spread = statistics.stdev(map(math.log, numbers)) / math.sqrt(len(numbers))
    mean = geometric_mean(numbers)
    return f"{mean:.3f} ± {mean * spread:.3f}"


def label(case: str) -> str:
    dataset, model, _ = case.split(":")
    return f"{DATASETS.get(dataset, dataset.capitalize())}, {MODELS[model]}"


def of_baseline(run: Figures, baseline: str) -> list[Figures]:
    return [record for record in run["cases"] if record["case"].endswith(f":{baseline}")]


def figure(number: float) -> str:
    return f"{number:.3g}" if number < 1 else f"{number:.2f}"


def chosen(record: Figures) -> str:
    """Return the setting that won, in the words of the verdict."""
    said = str(record["methods"]["tuned"]["verdict"])
    return "default" if said.startswith("The default") else said.partition(": CPD")[0]


def every_case(run: Figures, baseline: str) -> str:
    """One row a case, the best of all methods in bold."""
    rows = [["", *LABELS.values(), "error", "over best rival", "over automatic", "chosen"]]
    for record in of_baseline(run, baseline):
        cpd = {name: record["methods"][name]["cpd"] for name in METHODS}
        most = max(cpd.values())
        shown = [f"**{figure(cpd[name])}**" if cpd[name] == most else figure(cpd[name]) for name in LABELS]
        _, over_best, over_automatic = ratios(record)
        tuned = record["methods"]["tuned"]
        error = f"{100 * tuned['standard_error'] / tuned['cpd']:.0f} %"
        told = [error, f"{over_best:.3f}", f"{over_automatic:.3f}", chosen(record)]
        rows.append([label(record["case"]), *shown, *told])
    return table(rows)


def means(run: Figures) -> str:
    """Geometric means over cases of the tuned family's CPD over that of each other method."""
    rows = [["", "cases", "best rival", "least", "automatic", *(LABELS[name] for name in RIVALS)]]
    for baseline in BASELINES:
        records = of_baseline(run, baseline)
        found = [ratios(record) for record in records]
        best = [ratio for _, ratio, _ in found]
        by_rival = [
            with_error([each["methods"]["tuned"]["cpd"] / each["methods"][name]["cpd"] for each in records])
            for name in RIVALS
        ]
        own = [with_error(best), f"{min(best):.3f}", with_error([ratio for _, _, ratio in found]), *by_rival]
        rows.append([baseline, str(len(records)), *own])
    return table(rows)


def distinct(run: Figures) -> list[Figures]:
    """Return the cases without those that are another one's, since the average of their series is zero."""
    found = {(each["case"].rpartition(":")[0], each["methods"]["tuned"]["cpd"]): each for each in run["cases"]}
    return list(found.values())


def family(run: Figures) -> str:
    """Say how often the tuned setting is no TIMING."""
    cases = distinct(run)
    starts = [chosen(each) for each in cases]
    single, nothing = (sum(word in start for start in starts) for word in ("single cells", "nothing held"))
    return (
        f"In {single + nothing} of {len(cases)} cases (without those whose average is zero) the setting that "
        f"tuning chooses is RandIG ({single}: single cells are held) or IG ({nothing}: nothing is held)."
    )


def spread(run: Figures) -> str:
    """Compare how far apart settings of the family and methods are: the largest CPD over the smallest."""
    settings: dict[str, dict[str, float]] = json.loads((RESULTS / "tuning_settings_h200.json").read_text())[
        "ratios"
    ]
    segments = {name: found for name, found in settings.items() if "single" not in name and "nothing" not in name}
    cases = {each["case"].replace(":", "-"): each["methods"] for each in run["cases"]}
    known = [case for case in settings["automatic"] if case in cases]
    family, held = (
        {case: _range(found[case] for found in kind.values() if case in found) for case in known}
        for kind in (settings, segments)
    )
    every, close = (
        {case: _range(cases[case][name]["cpd"] for name in names) for case in known}
        for names in ([name for name in METHODS if name != "tuned"], CLOSE)
    )
    wider = [
        sum(own[case] > other[case] for case in known)
        for own, other in ((family, every), (family, close), (held, close))
    ]
    gains = [each["tuned"]["cpd"] / each["automatic"]["cpd"] for each in cases.values()]
    swaps = [each["automatic"]["cpd"] / each["integrated_gradients"]["cpd"] for each in cases.values()]
    more = sum(abs(math.log(gain)) > abs(math.log(swap)) for gain, swap in zip(gains, swaps, strict=True))
    middles = [f"{statistics.median(found.values()):.2f}" for found in (family, held, every, close)]
    return (
        f"The largest CPD over the smallest, the median over {len(known)} cases: {middles[0]} over settings of "
        f"the family ({middles[1]} over those with segments; on validation series), {middles[2]} over all methods "
        f"as they come, {middles[3]} over the five that are closest (TIMING, IG, GradSHAP, RandIG and FO; on test "
        "series). "
        f"Settings lie further apart than all methods in {wider[0]} of {len(known)} cases, and than the five in "
        f"{wider[1]} (those with segments in {wider[2]}). Tuning moves CPD by "
        f"{100 * (statistics.median(gains) - 1):+.1f} % in the middle, and by more than IG in place of TIMING "
        f"does in {more} of {len(cases)} cases."
    )


def _range(numbers: Iterable[float]) -> float:
    found = list(numbers)
    return max(found) / min(found)


def untuned(run: Figures) -> str:
    """Show which settings do best without tuning, by their mean over all cases that have them."""
    rows = [["", "cases", "mean", "worst", "best", "better in"]]
    every: dict[str, dict[str, float]] = run["ratios"]
    most = max(map(len, every.values()))
    by_mean = sorted(every, key=lambda name: -geometric_mean(list(every[name].values())))
    for name in [name for name in by_mean if len(every[name]) > most / 2][:SHOWN]:
        found = list(every[name].values())
        better = sum(ratio > 1 for ratio in found)
        figures = [f"{number:.3f}" for number in (geometric_mean(found), min(found), max(found))]
        rows.append([name, str(len(found)), *figures, f"{better} of {len(found)}"])
    return table(rows)


def few_series(run: Figures) -> str:
    """Show what choosing on 40 series gains, beside 150."""
    levels = list(next(iter(run["few_series"].values())))
    rows = [["", *(f"level {level}: 40 → 150 series" for level in levels)]]
    for case, found in run["few_series"].items():
        gains = [f"{100 * found[level][0]:+.1f} → {100 * found[level][1]:+.1f} %" for level in levels]
        rows.append(
            [f"{label(case.replace('-', ':'))}, {case.split('-')[2]}", *(each.replace("-", "−") for each in gains)]
        )
    sums = [
        [sum(each[level][place] for each in run["few_series"].values()) for place in (0, 1)] for level in levels
    ]
    rows.append(["share of the gain of 150", *(f"{100 * few / many:.0f} %" for few, many in sums)])
    return table(rows)


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "means": means,
    "family": family,
    "spread": spread,
    "zero": lambda run: every_case(run, "zero"),
    "average": lambda run: every_case(run, "average"),
    "background": lambda run: every_case(run, "background"),
    "untuned": untuned,
    "few_series": few_series,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path)
    args = parser.parse_args()
    if args.records:
        (RESULTS / "tuning_h200.json").write_text(json.dumps(packed(args.records), indent=1))
    PAGE.write_text(written(PAGE.read_text(), blocks=BLOCKS))


if __name__ == "__main__":
    main()
