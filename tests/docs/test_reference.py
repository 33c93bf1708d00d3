"""The pages of the reference name everything there is."""

import re

import pytest
import registries

import tempograd as tg
from tempograd.cli import make_parser

KINDS = {"explainers": tg.EXPLAINERS, "metrics": tg.METRICS, "datasets": tg.DATASETS, "models": tg.MODELS}


@pytest.fixture(scope="module")
def pages():
    return registries.pages()


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_one_row_per_name_and_a_page_for_each(kind, pages):
    linked = re.findall(rf"^   \* - :doc:`(\w+) <{kind}/\1>`$", pages[f"{kind}.rst"], re.MULTILINE)
    assert sorted(linked) == sorted(KINDS[kind])
    assert {f"{kind}/{name}.rst" for name in KINDS[kind]} <= set(pages)
    in_the_tree = re.findall(rf"^   {kind}/(\w+)$", pages[f"{kind}.rst"], re.MULTILINE)
    assert in_the_tree == linked


def test_marks_are_the_facts_of_the_class(pages):
    """TIMING: a sign, about one class, gradients; no training series, random draws, scores that do not sum up."""
    row = re.search(r"`timing <explainers/timing>`\n((?:     -.*\n)+)", pages["explainers.rst"])[1]
    cells = [line.strip()[1:].strip() for line in row.splitlines()]
    assert cells[1:] == ["✓", "✓", "✓", "", "", ""]


def test_a_metric_says_which_way_is_good(pages):
    for name, better in (("cpd", "higher"), ("cpp", "lower"), ("entropy", "lower")):
        row = re.search(rf"`{name} <metrics/{name}>`\n     - .*\n     - (\w+)\n", pages["metrics.rst"])
        assert row[1] == better


def test_pages_of_classes_use_the_name_that_users_import(pages):
    assert ".. autoclass:: tempograd.Timing\n" in pages["explainers/timing.rst"]
    assert ".. autoclass:: tempograd.models.GRUClassifier\n" in pages["models/gru.rst"]
    assert ".. autofunction:: tempograd.data.load_state\n" in pages["datasets/state.rst"]


def test_every_picture_has_a_page_with_its_record_and_its_drawing(pages):
    drawn = {name.removeprefix("draw_") for name in tg.plots.__all__ if name.startswith("draw_")}
    assert drawn == set(re.findall(r":doc:`(\w+) <plots/", pages["plots.rst"]))
    assert "tempograd.plots.series_record\n" in pages["plots/series.rst"]
    assert "tempograd.plots.draw_series\n" in pages["plots/series.rst"]


def test_the_page_of_commands_holds_the_help_of_each(pages, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(registries.COLUMNS))
    helped = re.findall(r"^(tempograd \w+)\n-+\n", pages["commands.rst"], re.MULTILINE)
    usage = make_parser().format_help()
    named = re.findall(r"^    ([a-z]+)\b", usage.split("commands:")[1].split("\n\n")[0], re.MULTILINE)
    assert helped == [f"tempograd {name}" for name in named]
    assert "--method NAME" in pages["commands.rst"]
