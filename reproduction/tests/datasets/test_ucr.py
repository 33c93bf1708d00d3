"""Wafer and Freezer: every way users have the files, against numbers worked out from the rows themselves."""

import csv
import gzip
import statistics

import numpy as np
import pytest
import torch

from tempograd.core.errors import DataError, InputError, UnknownNameError
from tempograd.data import DATASETS, load_dataset

TRAIN = [
    (-1, [0.5, -1.25, 3.0, 1e-3]),
    (1, [2.0, 0.0, -4.5, 1.0]),
    (1, [-0.125, 7.5, 2.25, -2.0]),
    (-1, [1.5, 1.0, 0.5, 0.25]),
    (1, [-3.0, 2.0, -1.0, 0.75]),
]
TEST = [(1, [9.0, 8.0, 7.0, 6.0]), (-1, [0.1, 0.2, 0.3, 0.4]), (1, [-1.0, -1.0, 5.0, 1.0])]


def tabs(rows):
    return "".join("\t".join([str(label), *map(repr, values)]) + "\n" for label, values in rows)


def spaces(rows):
    return "".join("  " + "  ".join(f"{value:.7e}" for value in [label, *values]) + "\n" for label, values in rows)


def commas(rows):
    return "".join(",".join([f"{label:.1f}", *map(repr, values)]) + "\r\n" for label, values in rows)


def colons(rows):
    header = "# made up\n@problemName Wafer\n@univariate true\n\n@equalLength true\n@classLabel true -1 1\n@data\n"
    return header + "".join(",".join(map(repr, values)) + f":{label}\n" for label, values in rows)


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, newline="")


def wafer(root, ending=".tsv", form=tabs, train=TRAIN, test=TEST, folder="UCR/Wafer"):
    save(root / folder / f"Wafer_TRAIN{ending}", form(train) if callable(form) else form)
    save(root / folder / f"Wafer_TEST{ending}", form(test) if callable(form) else form)
    return root


def assert_is_the_toy(data):
    values = [value for _, series in TRAIN for value in series]
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    for part, rows in ((data.train, TRAIN), (data.test, TEST)):
        expected = [[[(value - mean) / (deviation + 1e-5)] for value in series] for _, series in rows]
        torch.testing.assert_close(part.x, torch.tensor(expected), rtol=1e-6, atol=1e-6)
        assert part.y.tolist() == [0 if label == -1 else 1 for label, _ in rows]
        assert part.mask is None
    assert data.train.ids.tolist() + data.test.ids.tolist() == list(range(8))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("folder", ["UCR/Wafer", "Wafer"])
@pytest.mark.parametrize(
    ("ending", "form"), [(".tsv", tabs), (".txt", spaces), (".txt", commas), (".txt", tabs), (".ts", colons)]
)
def test_every_kind_of_file_gives_the_same_series(tmp_path, ending, form, folder, packed):
    assert_is_the_toy(load_dataset("wafer", root=wafer(tmp_path, ending + packed, form, folder=folder)))


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    wafer(tmp_path)
    path = tmp_path / "UCR/Wafer/Wafer_TRAIN.tsv"
    path.write_text("\ufeff\n" + path.read_text().replace("\n", "\n\n \t\n"), encoding="utf-8")
    assert_is_the_toy(load_dataset("wafer", root=tmp_path))


def test_the_usual_place_and_form_come_first(tmp_path):
    wafer(tmp_path)
    for ending, folder in ((".txt", "UCR/Wafer"), (".tsv.gz", "UCR/Wafer"), (".tsv", "Wafer")):
        wafer(tmp_path, ending, "no numbers", folder=folder)
    assert_is_the_toy(load_dataset("wafer", root=tmp_path))


@pytest.mark.parametrize(
    ("name", "train", "test", "expected"),
    [
        ("wafer", [-1, 1, 1, 1, 1], [1, -1], [0, 1, 1, 1, 1, 1, 0]),
        ("wafer", [1, 2, 2, 2, 2], [2, 1], [0, 1, 1, 1, 1, 1, 0]),
        ("freezer", [1, 2, 2, 2, 2], [2, 1], [0, 1, 1, 1, 1, 1, 0]),
        ("freezer", [-1, 1, 1, 1, 1], [1, -1], [0, 1, 1, 1, 1, 1, 0]),
        ("wafer", [1, 1, 1, 1, 1], [1, -1], [1, 1, 1, 1, 1, 1, 0]),
        ("freezer", [1, 1, 1, 1, 1], [1, 2], [0, 0, 0, 0, 0, 0, 1]),
    ],
)
def test_labels_in_both_notations(tmp_path, name, train, test, expected):
    archive = {"wafer": "Wafer", "freezer": "FreezerRegularTrain"}[name]
    for part, labels in (("TRAIN", train), ("TEST", test)):
        rows = [(label, [float(place), 1.0]) for place, label in enumerate(labels)]
        save(tmp_path / f"UCR/{archive}/{archive}_{part}.tsv", tabs(rows))
    data = load_dataset(name, root=tmp_path)
    assert data.train.y.tolist() + data.test.y.tolist() == expected


def test_folds_follow_the_published_rule_and_keep_the_statistics(tmp_path):
    wafer(tmp_path)
    whole, folded = load_dataset("wafer", root=tmp_path), load_dataset("wafer", root=tmp_path, fold=0)
    assert folded.validation.ids.tolist() == [
        1
    ]  # the first that KFold(5, shuffle=True, random_state=42) deals of 5
    assert folded.train.ids.tolist() == [0, 2, 3, 4]
    assert torch.equal(folded.train.x, whole.train.x[[0, 2, 3, 4]])
    assert torch.equal(folded.test.x, whole.test.x)
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4"):
        load_dataset("wafer", root=tmp_path, fold=5)


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (
            ".tsv",
            "1\t2\t3\n-1\t2\n",
            r"Wafer_TRAIN.tsv is damaged in line 2 \(2 cells instead of 3\): fetch it again",
        ),
        (".tsv", "1\t2\t3\n\n-1\t2\t3\t4\n", r"in line 3 \(4 cells instead of 3\)"),
        (".tsv", "1\t2\t3\n-1\t2\tx3\n", r"in line 2 \(value 2 is 'x3', which is no finite number\)"),
        (".tsv", "1\t2\t3\n1\t\t3\n", r"in line 2 \(value 1 is '', which is no finite number\)"),
        (".tsv", "1\t2\t3\n1\tNaN\t3\n", r"in line 2 \(value 1 is 'NaN', which is no finite number\)"),
        (".tsv", "one\t2\t3\n", r"in line 1 \(label is 'one', which is no finite number\)"),
        (".tsv", "1\t2\t3\n-1\t2\t3\n7\t2\t3\n", r"in line 3 \(label 7 instead of -1 or 1\)"),
        (".tsv", "1\t2\t3\n2\t2\t3\n0.5\t2\t3\n", r"in line 3 \(label 0.5 instead of 1 or 2\)"),
        (".tsv", "1\t2\t3\n2\t2\t3\n-1\t2\t3\n", r"in line 3 \(label -1 instead of 1 or 2\)"),
        (".tsv", "1\t2\t1_0\n", r"Wafer_TRAIN.tsv cannot be read as numbers \(.*1_0.*\): fetch it again"),
        (".tsv", "\n \n", r"Wafer_TRAIN.tsv holds no series: fetch it again"),
        (".txt", "1 2 3\n1 2 inf\n", r"Wafer_TRAIN.txt is damaged in line 2 \(value 2 is 'inf'"),
        (".ts", "@problemName Wafer\n1,2:1\n", r"has no line @data, after which a .ts file holds its series"),
        (".ts", "@problemName Wafer\n@data\n", r"Wafer_TRAIN.ts holds no series"),
        (
            ".ts",
            "@data\n1,2:1\n\n1,2\n",
            r"in line 4 \(0 colons instead of one, between the values and the label\)",
        ),
        (".ts", "@data\n1,2:3,4:1\n", r"in line 2 \(2 colons instead of one"),
        (".ts", "@data\n1,2:1\n1,?:1\n", r"in line 3 \(value 2 is '\?', which is no finite number\)"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, ending, text, message):
    with pytest.raises(DataError, match=message):
        load_dataset("wafer", root=wafer(tmp_path, ending, text))


def test_a_fault_of_the_test_file_names_the_test_file(tmp_path):
    wafer(tmp_path, test=[*TEST, (3, [0.0] * 4)])
    with pytest.raises(DataError, match=r"Wafer_TEST.tsv is damaged in line 4 \(label 3 instead of -1 or 1\)"):
        load_dataset("wafer", root=tmp_path)
    wafer(tmp_path, test=[(1, [1.0, 2.0, 3.0])])
    with pytest.raises(
        DataError, match=r"TRAIN.tsv holds series of 4 steps, but .*TEST.tsv series of 3: fetch both"
    ):
        load_dataset("wafer", root=tmp_path)


def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(tmp_path):
    with pytest.raises(
        DataError, match=r"wafer is read from files.*holds UCR/Wafer/Wafer_TRAIN.tsv. Get it from the"
    ):
        DATASETS["wafer"]()
    with pytest.raises(DataError) as error:
        load_dataset("freezer", root=tmp_path)
    path = "UCR/FreezerRegularTrain/FreezerRegularTrain_TRAIN"
    assert str(error.value) == (
        f"freezer is not in {tmp_path}: put it at {tmp_path / path}.tsv ({path}.txt, {path}.ts would do as well). "
        f"Get it from the UCR archive, https://www.timeseriesclassification.com."
    )
    save(tmp_path / "UCR/Wafer/Wafer_TRAIN.tsv", tabs(TRAIN))
    with pytest.raises(DataError, match=r"put it at .*Wafer_TEST.tsv"):
        load_dataset("wafer", root=tmp_path)


def test_there_is_one_variant(tmp_path):
    with pytest.raises(UnknownNameError, match=r"No variant of wafer is called 'right'. Known names: published"):
        load_dataset("wafer", root=tmp_path, variant="right")


@pytest.mark.parametrize(
    ("name", "archive", "steps", "train", "test"),
    [
        ("wafer", "Wafer", 152, (97, 903), (665, 5498)),
        ("freezer", "FreezerRegularTrain", 301, (75, 75), (1424, 1425)),
    ],
)
def test_the_real_files(data_root, name, archive, steps, train, test):
    data = load_dataset(name, root=data_root)
    raw = {}
    for part in ("TRAIN", "TEST"):
        with gzip.open(data_root / f"UCR/{archive}/{archive}_{part}.tsv.gz", "rt") as file:
            raw[part] = np.array(list(csv.reader(file, delimiter="\t")), dtype=float)
    # the first row of each test file is missing in some copies, which have one series of one class less
    assert tuple(torch.bincount(data.train.y)) == train
    assert all(
        have - want in (0, 1) for have, want in zip(torch.bincount(data.test.y).tolist(), test, strict=True)
    )
    mean = sum(map(sum, raw["TRAIN"][:, 1:])) / raw["TRAIN"][:, 1:].size
    deviation = np.sqrt(((raw["TRAIN"][:, 1:] - mean) ** 2).sum() / (raw["TRAIN"][:, 1:].size - 1))
    for split, part in ((data.train, "TRAIN"), (data.test, "TEST")):
        assert split.x.shape[1:] == (steps, 1)
        np.testing.assert_allclose(
            split.x[..., 0], (raw[part][:, 1:] - mean) / (deviation + 1e-5), rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(data.raw(split)[..., 0], raw[part][:, 1:], rtol=0, atol=1e-6 * deviation)
        np.testing.assert_array_equal(split.y, raw[part][:, 0] == raw[part][:, 0].max())
    assert data.test.ids[0] == len(data.train)
