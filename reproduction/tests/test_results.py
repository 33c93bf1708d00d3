"""The results in the repository: tables are what the kept scores give, and documents quote them to the letter."""

import json
import re
import statistics
from pathlib import Path

import pytest

from tempograd_paper.commands import main
from tempograd_paper.runner import load_plan
from tempograd_paper.tables.archive import read_archive

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction/results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/records.parquet"))


def plan_of(folder: Path) -> tuple[str, str]:
    """Return plan and protocol of a folder such as results/table4-fair."""
    name, protocol = folder.name.rsplit("-", 1)
    own = RESULTS / "plans" / f"{name}.toml"
    return str(own) if own.exists() else name, protocol


def test_there_are_results():
    assert len(FOLDERS) >= 6


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_table_is_what_the_scores_give(folder, capsys):
    plan, protocol = plan_of(folder)
    assert main(["table", plan, "--results", str(folder), "--protocol", protocol]) == 0
    shown = capsys.readouterr().out.replace(str(ROOT) + "/", "")
    assert shown == (folder / "table.md").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_kept_cell_belongs_to_the_plan(folder):
    plan, protocol = plan_of(folder)
    known = {cell.key for cell in load_plan(plan, protocol=protocol, to_run=False).cells()}
    kept = read_archive(folder / "records.parquet")
    assert kept
    assert set(kept) <= known


def test_results_stay_small():
    total = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    assert total < 12e6  # all tables of the paper, one score per series and measure


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_documents_quote_results_to_the_letter(page):
    """Every table below a comment "from FILE" is part of that file, line by line."""
    for name, table in re.findall(r"<!-- from (\S+) -->\n\n((?:\|.*\n)+)", page.read_text()):
        source = (ROOT / name).read_text().splitlines()
        assert [line for line in table.splitlines() if line not in source] == [], name


def test_the_page_on_predicted_deaths_has_the_measured_numbers():
    """Names and numbers of its table, in their order, from the file that the script wrote."""
    found = json.loads((ROOT / "perf/results/physionet_drivers.json").read_text())
    page = (ROOT / "docs/physionet.md").read_text()
    assert f"AUROC {found['model']['auroc']:.2f}" in page
    assert f"over {found['stays']} predicted deaths" in page
    lines = re.findall(r"\| (push|size) per (stay|measured value) \| (.*) \|", page)
    assert len(lines) == 4
    for kind, unit, rest in lines:
        name = {"push": "signed", "size": "absolute"}[kind]
        rows = found["series" if unit == "stay" else "value"]
        rows = sorted(rows, key=lambda row, name=name: -row[f"{name}_mean"])
        *first, lactate = rest.split(" | ")
        places = 3 if unit == "stay" else 4
        assert first == [f"{row['channel']} {row[f'{name}_mean']:.{places}f}" for row in rows[:3]]
        rank = [row["channel"] for row in rows].index("Lactate")
        mean, error = (rows[rank][f"{name}_{part}"] for part in ("mean", "error"))
        assert lactate == f"rank {rank + 1}: {mean:.{places}f} ± {error:.{places}f}"


def test_the_page_on_results_has_the_study_of_fit_s_generator():
    """Its table, differences between both ways to score, and losses, from the file that the script wrote."""
    found = json.loads((ROOT / "perf/results/fit_generators.json").read_text())
    page = " ".join((ROOT / "docs/results.md").read_text().split())
    rows = found["rows"]
    by_ours = [row for row in rows if row["scored_by"] == "tempograd" and row["fold"] == 0]
    for name in ("tempograd", "time_interpret"):
        mine = [row for row in by_ours if row["learnt_by"] == name]
        folds = [
            f"{row['aup']:.3f}"
            for row in rows
            if (row["seed"], row["scored_by"], row["learnt_by"]) == (42, "tempograd", name)
        ]
        assert "{}, {} and {} (".format(*folds) in page
        cells = []
        for key in ("aup", "aur", "cpd"):
            values = [row[key] for row in mine]
            cells.append(f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        low, high = (f"{bound(row['loss'] for row in mine):,.0f}" for bound in (min, max))
        assert " ".join(f"| {name} | {' | '.join(cells)} | {low} to {high} |".split()) in page
    pairs = [
        (ours, theirs)
        for ours in by_ours
        for theirs in rows
        if theirs["scored_by"] != "tempograd"
        and all(ours[key] == theirs[key] for key in ("fold", "seed", "learnt_by"))
    ]
    gaps = [f"{max(abs(a[key] - b[key]) for a, b in pairs):.4f}" for key in ("aup", "aur", "cpd")]
    assert f"in {len(pairs)} generators by at most {gaps[0]} in AUP, {gaps[1]} in AUR and {gaps[2]} in CPD" in page
    seeds = {row["seed"] for row in by_ours}
    assert f"over {len(seeds)} seeds" in page
    assert f"one Gaussian for all steps has {found['loss_of_one_gaussian']:.1f}" in page
    assert max(row["forms_apart"] for row in rows) < 1e-5  # both forms of a generator are one


def test_the_page_on_results_has_the_seeds_of_timexpp():
    """Correlations with the values and CPDs, seed by seed, from the file that the script wrote."""
    rows = json.loads((ROOT / "perf/results/timexpp_seeds.json").read_text())["rows"]
    page = " ".join((ROOT / "docs/results.md").read_text().split())
    first, *others = rows
    assert {(row["dataset"], row["fold"]) for row in rows} == {("freezer", 0)}
    assert [row["seed"] for row in rows] == [42, 0, 1, 2]
    correlations = [f"{row['correlation_with_value']:+.2f}".replace("-", "−") for row in rows]
    assert f"gives a correlation of {correlations[0]} and a CPD of {first['cpd']:.3f}" in page
    assert "seeds 0, 1 and 2 give {}, {} and {}".format(*correlations[1:]) in page
    assert "and {:.3f}, {:.3f} and {:.3f},".format(*(row["cpd"] for row in others)) in page
    low, high = min(row["cpd"] for row in rows), max(row["cpd"] for row in rows)
    assert f"takes from {low:.2f} to {high:.2f}" in page
