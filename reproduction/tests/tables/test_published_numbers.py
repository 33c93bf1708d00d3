"""Numbers of the paper, read off its tables."""

import csv
from importlib.resources import files

import pytest

from tempograd.data import DATASETS
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS
from tempograd.models import MODELS
from tempograd_paper.labels import DATASET_LABELS, METHOD_LABELS, MODEL_LABELS
from tempograd_paper.tables.published_numbers import (
    COLUMNS,
    SCALES,
    published,
    published_size,
    substitution_is_stated,
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("1", "MIMIC-III", "GRU", "IG (Signed)", "zero", "cpd", 50), (0.248, 0.010)),
        (("1", "MIMIC-III", "GRU", "Extrmask", "zero", "accuracy", 0.1), (0.930, 0.005)),
        (("2", "MIMIC-III", "GRU", "TIMING", "zero", "cpd", 50), (0.366, 0.021)),
        (("2", "MIMIC-III", "GRU", "TIMING", "zero", "cpd", 100), (0.505, 0.029)),
        (("2", "MIMIC-III", "GRU", "DeepLIFT", "zero", "cross_entropy", 0.2), (0.374, 0.005)),
        (("2", "MIMIC-III", "GRU", "LIME", "zero", "sufficiency", 0.2), (-1.875, 0.081)),
        (("2", "MIMIC-III", "GRU", "Extrmask", "zero", "comprehensiveness", 0.2), (23.370, 1.088)),
        (("3", "Wafer", "GRU", "TIMING", "zero", "cpd", 0.1), (0.674, 0.014)),
        (("3", "MIMIC-III", "GRU", "TIMING", "average", "cpd", 0.1), (0.250, 0.015)),
        (("4", "State", "GRU", "FIT", "zero", "cpd", 0.1), (0.057, 0.000)),
        (("4", "Switch-Feature", "GRU", "ContraLSP", "zero", "aur", None), (0.851, 0.005)),
        (("4", "Switch-Feature", "GRU", "Extrmask", "zero", "aup", None), (0.978, 0.004)),
        (("8", "MIMIC-III", "CNN", "GradSHAP", "zero", "cpd", 100), (1.237, 0.111)),
        (("8", "MIMIC-III", "Transformer", "AFO", "zero", "accuracy", 0.2), (0.975, 0.001)),
    ],
)
def test_numbers_of_the_paper(where, expected):
    assert published(*where) == expected


@pytest.mark.parametrize(
    "where",
    [
        ("4", "State", "GRU", "TIMING", "average", "cpd", 0.1),  # nobody says that this is the average's
        ("2", "MIMIC-III", "GRU", "TIMING", "zero", "cpd", 0.1),
        ("2", "MIMIC-III", "GRU", "TIMING", "zero", "cpp", 50),
        ("2", "MIMIC-III", "GRU", "random", "zero", "cpd", 50),
        ("2", "MIMIC-III", "CNN", "TIMING", "zero", "cpd", 50),
        ("2", "PAM", "GRU", "TIMING", "zero", "cpd", 50),
        ("Fig.efficiency", "MIMIC-III", "GRU", "TIMING", "zero", "cpd", 50),
    ],
)
def test_what_the_paper_does_not_say(where):
    assert published(*where) is None


def test_sizes_and_the_table_that_leaves_its_substitution_open():
    assert published_size("MIMIC-III") == (22988, 48, 32, 2)
    assert published_size("PAM") == (5333, 600, 17, 8)
    assert published_size("PhysioNet 2012") is None
    assert [table for table in "12345678" if not substitution_is_stated(table)] == ["4"]


def test_every_number_can_be_reached_by_our_names():
    """12 + 84 + 84 + 66 + 10 + 24 + 48 numbers of tables 1 to 6 and 8, and 4 × 8 sizes of table 7."""
    text = files("tempograd_paper.tables").joinpath("published.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    by_column = {column: metric for metric, column in COLUMNS.items()}
    found = 0
    for row in rows:
        if row["table"] in {"7", "Fig.efficiency"}:
            continue
        k = None if not row["k"] else float(row["k"][:-1]) / 100 if row["k"].endswith("%") else int(row["k"])
        substitution = "average" if row["substitution"] == "Avg" else "zero"
        number = published(
            row["table"], row["dataset"], row["model"], row["method"], substitution, by_column[row["metric"]], k
        )
        assert number == (float(row["mean"]), float(row["standard_error"]))
        found += 1
    assert (found, sum(row["table"] == "7" for row in rows)) == (12 + 84 + 84 + 66 + 10 + 24 + 48, 32)


def test_labels_are_those_of_the_paper_and_names_are_ours():
    text = files("tempograd_paper.tables").joinpath("published.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    known = {row["method"].split(" (")[0] for row in rows} - {""}
    assert known == set(METHOD_LABELS.values()) - {"random"}
    assert {row["dataset"] for row in rows} == set(DATASET_LABELS.values()) - {"PhysioNet 2012"}
    assert {row["model"] for row in rows} - {""} == set(MODEL_LABELS.values())
    assert set(METHOD_LABELS) == set(EXPLAINERS)
    assert set(MODEL_LABELS) == set(MODELS)
    assert set(DATASETS) - {"toy", "pump"} == set(DATASET_LABELS)  # of tests and of the demo alone
    assert set(COLUMNS) | set(SCALES) <= set(METRICS)
