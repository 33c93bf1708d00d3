"""Epilepsy: made-up recordings under the names of two copies of the file, and the real one."""

import csv
import gzip
import math
from collections import Counter

import numpy as np
import pytest
import torch

from tempograd.core.errors import DataError, InputError
from tempograd.data import DATASETS, load_dataset

PER_CLASS = 5
VARIANTS = ("by_recording", "random", "published")


def recordings():
    """(class, values of shape (23, 178)) of 25 recordings that all begin alike; those of class 1 swing wider."""
    rng = np.random.RandomState(3)
    result = []
    for number in range(5 * PER_CLASS):
        group = 1 + number % 5
        values = np.round(rng.standard_normal((23, 178)) * (40 if group == 1 else 12) - 1).astype(int)
        values[0, 0] = 7
        result.append((group, values))
    return result


def bonn_names(classes):
    """Chunk and recording as in a copy rebuilt from the original recordings: letter of the set, running number."""
    seen = Counter()
    for group in classes:
        seen[group] += 1
        yield [f"X{chunk}.V1.{'?SFNOZ'[group]}{seen[group]:03}" for chunk in range(23)]


def repository_names(classes):
    """As in the published file: sets 5, 4, … 1 were stacked by R, which appends numbers until a name is unused."""
    seen, taken, result = Counter(), set(), {}
    for group in (5, 4, 3, 2, 1):
        for place in (place for place, other in enumerate(classes) if other == group):
            base = f"V1.{seen[group]}" if seen[group] else "V1"
            seen[group] += 1
            name, count = base, 0
            while name in taken or (count and name in {f"V1.{number}" for number in range(1, PER_CLASS)}):
                count += 1
                name = f"{base}{count}"
            taken.add(name)
            result[place] = [f"X{chunk}.{name}" for chunk in range(1, 24)]
    return [result[place] for place in range(len(classes))]


def lines(names=bonn_names, order=0):
    """Header and rows of a file with the rows in random order."""
    made = recordings()
    rows = [
        [name, *map(str, series), str(group)]
        for (group, values), chunks in zip(made, names([group for group, _ in made]), strict=True)
        for name, series in zip(chunks, values, strict=True)
    ]
    np.random.RandomState(order).shuffle(rows)
    return [["", *(f"X{step}" for step in range(1, 179)), "y"], *rows]


def save(root, rows, name="data.csv", quote=False):
    (root / "Epilepsy").mkdir(exist_ok=True)
    with (root / "Epilepsy" / name).open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC if quote else csv.QUOTE_MINIMAL).writerows(rows)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return save(tmp_path_factory.mktemp("epilepsy"), lines())


@pytest.fixture(scope="module")
def expected():
    """Values and class of every series in the order of their numbers, sorted the plain way."""
    ordered = sorted(recordings(), key=lambda entry: (entry[0], entry[1][0].tolist()))
    return np.concatenate([values for _, values in ordered]), np.repeat([group for group, _ in ordered], 23)


def parts(data):
    return [part for part in (data.train, data.validation, data.test) if part is not None]


@pytest.mark.parametrize("fold", [None, 3])
@pytest.mark.parametrize("variant", VARIANTS)
def test_values_and_labels(made, expected, variant, fold):
    data = load_dataset("epilepsy", root=made, variant=variant, fold=fold)
    raw, groups = expected
    train = raw[data.train.ids].tolist()
    if variant == "published":
        columns = [[series[step] for series in train if series[step] > 0] for step in range(178)]
        means = [math.fsum(column) / len(column) for column in columns]
        spread = [
            math.sqrt(math.fsum((value - mean) ** 2 for value in column) / len(column))
            for column, mean in zip(columns, means, strict=True)
        ]

        def process(series):
            return [(v - m) / s if v > 0 else 0.0 for v, m, s in zip(series, means, spread, strict=True)]

        train, series = [process(series) for series in train], [process(series) for series in raw.tolist()]
    else:
        series = raw.tolist()
    flat = [value for values in train for value in values]
    mean = math.fsum(flat) / len(flat)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in flat) / (len(flat) - 1))
    x = torch.tensor((np.array(series) - mean) / (deviation + 1e-5), dtype=torch.float32)
    for part in parts(data):
        torch.testing.assert_close(part.x[..., 0], x[part.ids], rtol=1e-4, atol=1e-5)
        assert part.y.tolist() == [int(group != 1) for group in groups[part.ids]]
        assert part.mask is None
    assert (data.validation is None) == (fold is None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_order_of_the_rows_and_the_names_of_the_recordings_change_nothing(made, tmp_path, variant):
    save(tmp_path, lines(repository_names, order=1), quote=True)
    names = {row[0].partition(".")[2] for row in lines(repository_names)[1:]}
    assert {"V1", "V11", "V14", "V1.4", "V1.21"} <= names  # names without a number of their own do occur
    assert len(names) == 25
    first, second = (load_dataset("epilepsy", root=root, variant=variant, fold=1) for root in (made, tmp_path))
    for one, other in zip(parts(first), parts(second), strict=True):
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)


def test_a_recording_stays_on_one_side_unless_chunks_are_scattered(made):
    for variant in VARIANTS:
        sides = [
            set((part.ids // 23).tolist())
            for part in parts(load_dataset("epilepsy", root=made, variant=variant, fold=2))
        ]
        shared = (sides[0] & sides[1]) | (sides[0] & sides[2]) | (sides[1] & sides[2])
        assert (shared == set()) == (variant == "by_recording")


@pytest.mark.parametrize("variant", VARIANTS)
def test_folds_partition_the_series(made, expected, variant):
    _, groups = expected
    tests = []
    for fold in range(5):
        data = load_dataset("epilepsy", root=made, variant=variant, fold=fold)
        assert torch.cat([part.ids for part in parts(data)]).sort().values.tolist() == list(range(575))
        assert [len(part) for part in parts(data)] == [414, 46, 115]  # 72, 8 and 20 %
        assert np.bincount(groups[data.test.ids]).tolist() == [0, 23, 23, 23, 23, 23]
        tests += data.test.ids.tolist()
    assert sorted(tests) == list(range(575))


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_fold_the_validation_series_of_split_0_train(made, variant):
    whole, split = (load_dataset("epilepsy", root=made, variant=variant, fold=fold) for fold in (None, 0))
    ids, expected = whole.train.ids.tolist(), sorted(split.train.ids.tolist() + split.validation.ids.tolist())
    assert sorted(ids) == expected
    assert (ids == expected) == (variant != "published")  # whose training never shuffles, so its split files did
    assert torch.equal(whole.test.ids, split.test.ids)


def test_the_default_keeps_recordings_together(made):
    assert load_dataset("epilepsy", root=made).variant == "by_recording"
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4"):
        load_dataset("epilepsy", root=made, fold=-1)


def test_other_places_of_the_file(made, tmp_path):
    first = load_dataset("epilepsy", root=made)
    save(tmp_path, lines(), "Epileptic Seizure Recognition.csv")
    assert torch.equal(load_dataset("epilepsy", root=tmp_path).train.x, first.train.x)
    packed = gzip.compress((made / "Epilepsy/data.csv").read_bytes())
    (tmp_path / "Epilepsy/data.csv.gz").write_bytes(packed)
    (tmp_path / "Epilepsy/Epileptic Seizure Recognition.csv").write_text("not read")
    assert torch.equal(load_dataset("epilepsy", root=tmp_path).train.x, first.train.x)


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(
        DataError, match=r"put it at .*Epilepsy/data.csv \(.*Get it from the UCI repository, https"
    ):
        load_dataset("epilepsy", root=tmp_path)
    with pytest.raises(DataError, match=r"epilepsy is read from files, and no folder was given"):
        DATASETS["epilepsy"]()


def delta(row, column, value):
    def apply(rows):
        rows[row][column] = value

    return apply


def drop(row):
    return lambda rows: rows.pop(row)


def repeat(row):
    return lambda rows: rows.append(list(rows[row]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (delta(0, 5, "X4"), r"data.csv starts with other columns than the rows' names, X1 … X178 and y: fetch"),
        (drop(0), r"starts with other columns than the rows' names"),
        (lambda rows: rows[9].pop(), r"is damaged in line 10 \(179 cells instead of 180\): fetch it again"),
        (lambda rows: [row.pop() for row in rows[1:]], r"in line 2 \(179 cells instead of 180\)"),
        (lambda rows: rows[9].clear() or rows[9].append("X1"), r"in line 10 \(1 cells instead of 180\)"),
        (delta(4, 17, "1o"), r"in line 5 \(X17 is '1o', which is no finite number\)"),
        (delta(4, 17, "nan"), r"in line 5 \(X17 is 'nan', which is no finite number\)"),
        (delta(4, -1, ""), r"in line 5 \(y is '', which is no finite number\)"),
        (delta(4, -1, "6"), r"in line 5 \(class 6 instead of 1, 2, 3, 4 or 5\)"),
        (delta(4, -1, "1.5"), r"in line 5 \(class 1.5 instead of"),
        (
            delta(4, 0, "Y3.V1.S001"),
            r"in line 5 \(the name 'Y3.V1.S001' is not of the form X<chunk>.<recording>\)",
        ),
        (delta(4, 0, "X3"), r"in line 5 \(the name 'X3' is not of the form"),
        (delta(4, 0, "X3."), r"in line 5 \(the name 'X3.' is not of the form"),
        (repeat(7), r"in line 577 \(X\d+.V1.\w+ stands in line 8 already\)"),
        (drop(7), r"data.csv holds 22 chunks of recording V1.\w+ instead of 23: fetch it again"),
        (lambda rows: rows.__delitem__(slice(1, None)), r"data.csv holds no series"),
        (lambda rows: rows.clear(), r"data.csv holds no series"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, damage, message):
    rows = lines()
    damage(rows)
    save(tmp_path, rows)
    with pytest.raises(DataError, match=message):
        load_dataset("epilepsy", root=tmp_path)


def test_a_recording_of_two_classes_is_refused(tmp_path):
    rows = lines()
    place = {row[0]: number for number, row in enumerate(rows, start=1)}
    rows[place["X4.V1.O002"] - 1][-1] = "2"
    save(tmp_path, rows)
    message = rf"in line {place['X4.V1.O002']} \(X4.V1.O002 has class 2, but X3.V1.O002 class 4\)"
    with pytest.raises(DataError, match=message):
        load_dataset("epilepsy", root=tmp_path)


@pytest.fixture(scope="session")
def real(data_root):
    return {variant: load_dataset("epilepsy", root=data_root, variant=variant, fold=0) for variant in VARIANTS}


@pytest.fixture(scope="session")
def real_rows(data_root):
    """Recording of every row of the real file, and its values with the class in the last column."""
    with gzip.open(data_root / "Epilepsy/data.csv.gz", "rt") as file:
        rows = list(csv.reader(file))[1:]
    return [row[0].partition(".")[2] for row in rows], np.array([row[1:] for row in rows], dtype=float)


def test_the_real_file_is_split_as_it_says(real):
    for variant in VARIANTS:
        data = real[variant]
        assert [torch.bincount(part.y).tolist() for part in parts(data)] == [[1656, 6624], [184, 736], [460, 1840]]
        assert data.train.x.shape == (8280, 178, 1)
        assert torch.cat([part.ids for part in parts(data)]).sort().values.tolist() == list(range(11500))
    assert torch.equal(real["random"].test.ids, real["published"].test.ids)
    assert not set((real["by_recording"].test.ids // 23).tolist()) & set(
        (real["by_recording"].train.ids // 23).tolist()
    )
    # a recording escapes training with chance .28^23, a fresh one of 500 does so practically never
    assert len(set((real["random"].train.ids // 23).tolist())) == 500


def test_the_real_series_are_the_rows_of_the_file(real, real_rows):
    names, table = real_rows
    where = {row[:-1].astype(int).tobytes(): number for number, row in enumerate(table)}
    assert len(where) == 11500
    for variant in ("by_recording", "random"):
        data = real[variant]
        x = torch.cat([part.x for part in parts(data)])[..., 0].double()
        low, high = table[:, :-1].min(), table[:, :-1].max()
        scale = (high - low) / (x.max() - x.min()).item()
        shift = high - scale * x.max().item()
        raw = np.round(scale * x.numpy() + shift).astype(int)
        rows = np.array([where[series.tobytes()] for series in raw])
        assert len(set(rows.tolist())) == 11500
        y = torch.cat([part.y for part in parts(data)]).numpy()
        np.testing.assert_array_equal(y, table[rows, -1] != 1)
        trained = table[rows[: len(data.train)], :-1]
        assert abs(trained.mean() - shift) < 1e-2
        assert abs(trained.std(ddof=1) - scale) < 1e-2
        if variant == "by_recording":
            sides = [{names[row] for row in side} for side in np.split(rows, [8280, 9200])]
            assert [len(side) for side in sides] == [360, 40, 100]


def test_the_published_processing_erases_half_of_the_real_signal(real, real_rows):
    _, table = real_rows
    x = torch.cat([part.x for part in parts(real["published"])])
    values, counts = x.unique(return_counts=True)
    assert counts.max() == (table[:, :-1] <= 0).sum()  # one value stands for all that was erased
    assert 0.55 < counts.max() / x.numel() < 0.56
    assert len(real["by_recording"].test.x.unique()) < 4000  # nothing is lost: the raw values are integers
    assert values[counts.argmax()] != 0


def test_real_values_come_back_as_the_file_has_them(real, real_rows):
    _, table = real_rows
    where = {row[:-1].astype(int).tobytes() for row in table}
    for variant in ("by_recording", "random"):
        data = real[variant]
        found = data.raw(data.test)[..., 0].numpy()
        np.testing.assert_allclose(found, np.round(found), atol=1e-3)  # the file holds integers
        assert {series.astype(int).tobytes() for series in np.round(found)} <= where
    erased = real["published"]
    assert torch.equal(erased.raw(erased.test), erased.test.x.double())
