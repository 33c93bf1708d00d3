"""Table 7: sizes from the loaders beside the published ones."""

import csv
import io

import pytest
import torch

from tempograd.core.errors import DataError, MissingExtraError
from tempograd.data import DATASETS, Dataset, Series
from tempograd.data.datasets import Loader
from tempograd_paper.tables.rendering import render
from tempograd_paper.tables.sizes import Size, sizes_table


@pytest.fixture
def stand_ins(monkeypatch):
    """Put stand-ins in the place of the real loaders; the variants that were asked for are kept."""
    asked = {}

    def put(name, read, variants):
        monkeypatch.setitem(DATASETS._entries, name, Loader(read, variants))

    def wafer(*, root=None, variant=None, fold=None):
        asked["wafer"] = (root, variant, fold)
        train, test = (
            Series(torch.zeros(5, 7, 2), torch.zeros(5).long()),
            Series(torch.zeros(3, 7, 2), torch.ones(3).long()),
        )
        return Dataset("wafer", train, test.take([0]) if variant == "published" else None, test, 4, ("a", "b"))

    def gone(*, root=None, variant=None, fold=None):
        raise DataError(f"pam is not in {root}: put it there.")

    def extra(*, root=None, variant=None, fold=None):
        raise MissingExtraError("duckdb", "data")

    put("wafer", wafer, ("default", "published"))
    put("freezer", wafer, ("default",))
    put("pam", gone, ("default",))
    put("mimic3", extra, ("default", "published"))
    monkeypatch.delitem(DATASETS._entries, "boiler", raising=False)
    monkeypatch.setattr(DATASETS, "_offers", {})
    return asked


def test_sizes_come_from_the_variant_that_the_paper_ran_on(stand_ins, tmp_path):
    (size,) = sizes_table(tmp_path, ["wafer"])
    assert size == Size("wafer", (5 + 1 + 3, 7, 2, 4), (7164, 152, 1, 2))
    assert stand_ins["wafer"] == (tmp_path, "published", None)
    (size,) = sizes_table(tmp_path, ["freezer"])
    assert size == Size("freezer", (8, 7, 2, 4), (3000, 301, 1, 2))
    assert stand_ins["wafer"] == (tmp_path, "default", None)


def test_what_is_not_here_says_why(stand_ins, tmp_path):
    assert sizes_table(tmp_path, ["pam", "mimic3", "boiler"]) == [
        Size("pam", None, (5333, 600, 17, 8), f"pam is not in {tmp_path}: put it there."),
        Size("mimic3", None, (22988, 48, 32, 2), "This needs duckdb: pip install 'tempograd[data]'."),
        Size("boiler", None, (90115, 36, 20, 2), "no loader reads it."),
    ]


def test_synthetic_sizes_are_the_published_ones():
    for size in sizes_table(None, ["switch_feature", "state"]):
        assert size.found == size.published


def test_all_data_sets_of_the_paper_and_physionet(stand_ins, monkeypatch):
    for name in ("epilepsy", "physionet2012"):
        monkeypatch.setitem(DATASETS._entries, name, DATASETS["wafer"])
    sizes = sizes_table("somewhere")
    names = "switch_feature state mimic3 pam epilepsy boiler wafer freezer physionet2012"
    assert [size.dataset for size in sizes] == names.split()
    assert sizes[-1].published is None


SIZES = [
    Size("wafer", (7163, 152, 1, 2), (7164, 152, 1, 2)),
    Size("pam", None, (5333, 600, 17, 8), "put it in {x}."),
    Size("physionet2012", (12000, 48, 37, 2), None),
]


def test_sizes_as_markdown():
    title, heading, table, notes = render(SIZES, "markdown").split("\n\n")
    assert (title, heading) == ("# Sizes of the data sets", "## Table 7")
    assert notes == "- PAM is not here: put it in {x}.\n"
    head, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
    assert " ".join(head) == "data set series published length published channels published classes published"
    assert set("".join(rule)) == {":", "-"}
    assert rows == [
        ["Wafer", "7163", "7164", "152", "152", "1", "1", "2", "2"],
        ["PAM", "–", "5333", "–", "600", "–", "17", "–", "8"],
        ["PhysioNet 2012", "12000", "–", "48", "–", "37", "–", "2", "–"],
    ]


def test_sizes_as_latex_and_csv():
    text = render(SIZES, "latex")
    assert r"\begin{tabular}{lrrrrrrrr}" in text
    assert r"Wafer & 7163 & 7164 & 152 & 152 & 1 & 1 & 2 & 2 \\" in text
    assert r"PAM is not here: put it in \{x\}." in text
    rows = list(csv.DictReader(io.StringIO(render(SIZES, "csv"))))
    assert rows[0] == {
        "dataset": "wafer",
        "series": "7163",
        "length": "152",
        "channels": "1",
        "classes": "2",
        "published_series": "7164",
        "published_length": "152",
        "published_channels": "1",
        "published_classes": "2",
        "problem": "",
    }
    assert (rows[1]["series"], rows[1]["published_series"], rows[1]["problem"]) == ("", "5333", "put it in {x}.")
