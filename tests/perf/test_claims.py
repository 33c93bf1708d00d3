"""Sentences of other pages on what was measured: each is written here from its record, number by number."""

import json
import re
import statistics

import pytest

import tuning_page
from speed_page import RESULTS, ROOT
from tests.perf.test_sampling_page import KINDS, ORDER, cell, mean

GPU, CPU = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("gpu_h200", "bench_cpu"))
TUNING = json.loads((RESULTS / "tuning_h200.json").read_text())
DRAWN = json.loads((RESULTS / "held_out.json").read_text())["pooled"]["50 samples"]
EVERY = [(name, kind, setting) for name in ORDER for kind in KINDS for setting in ("paper", "automatic")]
WORDS = ("no", "one", "two", "three", "four", "five", "six")


def sampler():
    """Errors over those of the released sampler, where their own error is below a tenth of them."""
    found, default = {}, {}
    for name in ORDER:
        was, now = (mean("error", name, "paper", way) for way in ("released", "default"))
        before, after = (mean("error", name, "automatic", way) for way in ("released", "default"))
        parts = [cell("error_difference_se", name, kind, "paper", "default") for kind in KINDS]
        error = statistics.fmean(part**2 for part in parts) ** 0.5 / len(KINDS) ** 0.5 / was
        if error < now / was / 10:
            found[name], default[name] = now / was, after / before
    ratio = f"{min(found.values()):.2f}–{max(found.values()):.2f} of the error of the released sampler"
    return (
        ratio,
        f"({min(default.values()):.2f}–{max(default.values()):.2f} with the defaults)",
        f"on {WORDS[len(found)]} of six data sets, three models each",
    )


def errors(*names):
    found = [mean("error", name, setting, "default") for name in names for setting in ("paper", "automatic")]
    return f"{100 * min(found):.0f}–{100 * max(found):.0f} %"


def stopping():
    way = "tolerance 0.1"
    single = [cell("cpd", *place, way) / cell("converged_cpd", *place, way) for place in EVERY]
    pooled = [
        mean("cpd", name, setting, way) / mean("converged_cpd", name, setting, way) for name, _, setting in EVERY
    ]
    most = round(max(cell("passes", *place, way) for place in EVERY), -2)
    return (
        f"reached {int(100 * min(pooled))} % or more of the converged map's CPD on each of six data sets, three "
        f"models pooled ({100 * min(single):.0f} % in the worst single case), with 50 to {most:,.0f} passes a "
        "series"
    )


def false_alarms():
    smooth, steep = (DRAWN[kind]["wolf"] / DRAWN[kind]["good"] for kind in ("smooth", "steep"))
    assert DRAWN["all"]["sleep"] == 0
    assert DRAWN["steep"]["good"] < DRAWN["smooth"]["good"] / 10  # the few
    return (
        f"they never sleep (none of {DRAWN['all']['bad']:,} maps that are off by more than 20 % says under 5 %) "
        f"but cry wolf (over 10 % for maps within 5 %): in {100 * smooth:.1f} % of such runs of smooth models, "
        f"and in {100 * steep:.0f} % of the few of steep ones"
    )


def intervals():
    """What somebody else tried, and the weakest case, are quoted from the page, which says what they rest on."""
    page = " ".join((ROOT / "docs/sampling.md").read_text().split())
    tried = re.search(r"held in (0\.\d\d) to (0\.\d\d) of the cells\. No record", page).groups()
    weakest = int(re.search(r"LSTM's probability at 50 points: .* hold in (\d\d) % of the cells; with", page)[1])
    drawn = [DRAWN[kind]["cover"] for kind in ("smooth", "steep")]
    trained = [cell("covered", *place, "default") for place in EVERY]
    return (
        f"in {min(drawn):.2f}–{max(drawn):.2f} of the cells of made models, smooth or steep, pooled "
        f"({'–'.join(tried)} of six models that somebody else tried; {weakest / 100:.2f} of an LSTM, the "
        f"weakest), and in {min(trained):.2f}–{max(trained):.2f} of single trained ones"
    )


def speed():
    many, one = (CPU["paths"][place]["over_bare"] for place in (0, 2))  # the GRU, 32 series and one, 50 points
    timing, released, single, other = (
        found[side]["median"] for found in (many, one) for side in ("timing", "released")
    )
    alone, batches = (1 / GPU["released"][name]["ratio"] for name in ("one_series", "batches_of_30"))
    occlusion = CPU["methods"]["occlusion"]["faster"]["median"]
    return (
        f"TIMING at {GPU['bare']['gru']['ratio']:.2f} × the bare model on an H200 and {timing:.2f} × on a CPU for "
        f"many series, {GPU['single']['gru']['ratio']:.2f} × and {single:.2f} × for one; FO {occlusion:.0f} × "
        "faster than time_interpret's on a CPU",
        f"{batches:.0f} × TIMING's time on an H200 in batches of 30 without cuDNN, {alone:.1f} × for one series; "
        f"{released / timing:.1f} × on a CPU, {other / single:.1f} × for one series",
    )


def settings():
    cases, family, _, methods, close = re.findall(r"\d+\.\d\d|\d+(?= cases)", tuning_page.spread(TUNING))[:5]
    return (
        f"Over {cases} cases with three kinds of models the best setting of TIMING has {family} times the CPD of "
        "the worst",
        f"the methods that are closest to it differ by ({close}); all methods differ by {methods}",
    )


def in_short():
    """The worst case against the best rival, and RandIG where values of other series are the baseline."""
    least = min(tuning_page.ratios(record)[1] for record in TUNING["cases"])
    others = tuning_page.of_baseline(TUNING, "background")
    own = [each["methods"]["tuned"]["cpd"] / each["methods"]["rand_ig"]["cpd"] for each in others]
    behind = 100 * (1 - tuning_page.geometric_mean(own))
    return (
        f"but for RandIG where values of other series are the baseline ({behind:.1f} % behind)",
        f"single cases lose up to {100 * (1 - least):.0f} %",
    )


CLAIMS = [
    *[(page, part) for page in ("README.md", "docs/concepts/timing.md") for part in sampler()],
    ("README.md", f"of steep maps {100 * DRAWN['steep']['bias']:.0f} % at 50 samples"),
    (
        "README.md",
        f"{100 * mean('unseen', 'wafer', 'paper', 'released'):.1f} % of cells at 0 in the Wafer setting",
    ),
    (
        "README.md",
        f"an error of {errors('physionet2012', 'state')} on data with smooth models (PhysioNet 2012, State)",
    ),
    ("README.md", f"of {errors('wafer', 'freezer', 'boiler')} with steep ones (Wafer, Freezer, Boiler)"),
    ("README.md", stopping()),
    ("README.md", false_alarms()),
    ("README.md", intervals()),
    *[("README.md", part) for part in speed()],
    *[("docs/howto/tune.md", part) for part in settings()],
    *[("docs/tuning.md", part) for part in in_short()],
]


@pytest.mark.parametrize(("page", "sentence"), CLAIMS)
def test_a_page_says_what_was_measured(page, sentence):
    """If it fails, the page is stale: it should say the sentence."""
    assert sentence in " ".join((ROOT / page).read_text().split())


def test_no_count_is_written_by_hand():
    """Of methods and pictures, which grow; and no ratio whose error is as large as itself."""
    for page in ("README.md", "docs/index.md", "docs/concepts/timing.md", "docs/howto/tune.md"):
        text = (ROOT / page).read_text()
        assert not re.search(r"(?i)\b(fifteen|sixteen|seventeen|\d+) (methods that TIMING|methods on)", text)
        assert not re.search(r"(?i)static plots", text.replace("| static plots;", ""))
        assert "0.25–0.88" not in text
