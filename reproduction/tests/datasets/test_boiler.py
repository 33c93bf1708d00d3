"""Boiler: a made-up log whose true times are known, and the real one."""

import csv
import gzip
from itertools import pairwise

import numpy as np
import pytest
import torch

from tempograd.core.errors import DataError, InputError
from tempograd.data import DATASETS, load_dataset
from tempograd_paper.datasets.boiler import blow_down_share, days
from tempograd_paper.datasets.parts import standardise

VARIANTS = ("windows", "windows_random", "published")
SENSORS = [f"sensor {letter}" for letter in "abcdefghijklmnopqrst"]
HEADER = ["boiler_no", "TIME", *SENSORS, "Abnormal Blow Down"]
QUARTERS = 96  # of an hour, in a day


def clock(quarter):
    return f"{quarter % QUARTERS // 4:02}hh{quarter % 4 * 15:02}mm"


def log():
    """True quarter hour, sensors and label of every row: 30 days with gaps, two of them over midnight."""
    rng = np.random.RandomState(5)
    away = {(3, 40, 41), (7, 90, 110), (12, 10, 10 + 2 * QUARTERS - 20), (20, 93, 94), (22, 0, 3)}
    lost = {day * QUARTERS + quarter for day, first, stop in away for quarter in range(first, stop)}
    quarters = np.array([quarter for quarter in range(30, 30 * QUARTERS) if quarter not in lost])
    sensors = rng.standard_normal((len(quarters), 20)) * rng.uniform(0.5, 3, 20) + rng.uniform(-2, 5, 20)
    sensors[:, 3] = 0.1  # never moves
    sensors[:, 7] = 0.5 + 1e-8 * rng.standard_normal(len(quarters))  # less than single precision can tell
    labels = np.isin(quarters // QUARTERS, [5, 6, 7, 15, 16]) | (rng.random_sample(len(quarters)) < 0.002)
    return quarters, sensors, labels.astype(int)


def table(boiler="3", when=clock):
    rows = [
        [boiler, when(quarter), *map(repr, values.tolist()), str(label)]
        for quarter, values, label in zip(*log(), strict=True)
    ]
    return [HEADER, *rows]


def save(root, rows, name="boiler_1_test.csv"):
    (root / "Boiler").mkdir(exist_ok=True)
    with (root / "Boiler" / name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return save(tmp_path_factory.mktemp("boiler"), table())


def parts(data):
    return [part for part in (data.train, data.validation, data.test) if part is not None]


def rows_of(part):
    """Every row of the file that a part's windows hold."""
    return {row for last in part.ids.tolist() for row in range(last - 5, last + 1)}


def whole_windows(quarters):
    """Last rows of the windows whose six rows follow each other without a gap, by their true times."""
    return [row for row in range(5, len(quarters)) if quarters[row] - quarters[row - 5] == 5]


@pytest.mark.parametrize("fold", [None, 1])
@pytest.mark.parametrize("variant", ["windows", "windows_random"])
def test_windows_are_the_six_rows_up_to_theirs(made, variant, fold):
    _, sensors, labels = log()
    data = load_dataset("boiler", root=made, variant=variant, fold=fold)
    known = np.array([sensors[row] for last in data.train.ids for row in range(last - 5, last + 1)])
    mean, deviation = known.mean(0), known.std(0, ddof=1)
    deviation[3] = 1
    for part in parts(data):
        x = np.array(
            [[(sensors[row] - mean) / deviation for row in range(i - 5, i + 1)] for i in part.ids.tolist()]
        )
        np.testing.assert_allclose(part.x, x, rtol=1e-4, atol=1e-5)
        assert part.y.tolist() == labels[part.ids].tolist()
        assert part.mask is None
    assert (data.validation is None) == (fold is None)
    assert data.channels == tuple(SENSORS)


def test_no_scale_is_too_small_and_what_never_moves_is_zero(made):
    x = load_dataset("boiler", root=made).train.x
    assert abs(x[..., 7].std() - 1) < 1e-3
    assert x[..., 3].abs().max() < 1e-12
    published = load_dataset("boiler", root=made, variant="published").train.x
    assert len(published[:, 30:, 7].unique()) < 5  # single precision cannot tell the values apart


def test_standardising_by_hand():
    x = np.array([[[1.0, 0.1]], [[3.0, 0.1]], [[8.0, 0.1]]])
    train = np.array([True, True, False])  # means 2 and 0.1, of all four values 1.05
    root = 2**0.5
    expected = [[[-1 / root, 0]], [[1 / root, 0]], [[6 / root, 0]]]
    np.testing.assert_allclose(standardise(x, train, (0, 1), floor=0).x, expected, atol=1e-12)
    np.testing.assert_allclose(standardise(x, train, (0, 1), floor=0.5).x[2, 0], [6 / (root + 0.5), 0], atol=1e-12)
    squares = (1 - 1.05) ** 2 + (3 - 1.05) ** 2 + 2 * 0.95**2
    np.testing.assert_allclose(standardise(x, train, (0, 1, 2), floor=0).x, (x - 1.05) / (squares / 3) ** 0.5)


def test_no_window_bridges_a_gap(made):
    quarters, _, _ = log()
    data = load_dataset("boiler", root=made, variant="windows_random", fold=0)
    assert sorted(torch.cat([part.ids for part in parts(data)]).tolist()) == whole_windows(quarters)
    assert len(whole_windows(quarters)) < len(quarters) - 5 - 4 * 5


@pytest.mark.parametrize("fold", range(5))
def test_parts_share_no_row_and_only_what_lies_between_two_of_them_is_left_out(made, fold):
    quarters, _, _ = log()
    data = load_dataset("boiler", root=made, variant="windows", fold=fold)
    rows = [rows_of(part) for part in parts(data)]
    assert not rows[0] & rows[1]
    assert not rows[0] & rows[2]
    assert not rows[1] & rows[2]
    used = {last for part in parts(data) for last in part.ids.tolist()}
    assert used <= set(whole_windows(quarters))
    side = {quarters[row] // QUARTERS: number for number, part in enumerate(rows) for row in part}
    for last in set(whole_windows(quarters)) - used:
        midnight = next(row for row in range(last - 4, last + 1) if quarters[row] % QUARTERS == 0)
        assert side[quarters[midnight] // QUARTERS - 1] != side[quarters[midnight] // QUARTERS]
    for part in rows:  # a part holds whole days: its windows end where a day does, or before a gap
        for row in part:
            if row + 1 not in part and row + 1 < len(quarters):
                assert quarters[row + 1] - quarters[row] > 1 or quarters[row + 1] % QUARTERS == 0


def test_the_days_of_a_blow_down_are_spread_over_the_folds(made):
    _, _, labels = log()
    tests = [load_dataset("boiler", root=made, fold=fold).test for fold in range(5)]
    assert all(test.y.sum() > 60 for test in tests)  # one of the five positive days each
    together = torch.cat([test.ids for test in tests])
    assert len(together.unique()) == len(together)
    assert all(0.13 < len(test) / len(labels) < 0.24 for test in tests)


def test_days_and_what_they_show():
    minutes = np.array([600, 615, 1425, 0, 15, 15, 30, 1000, 1000])
    boilers = np.array(["1"] * 7 + ["2"] * 2)
    day = days(minutes, boilers)
    assert day.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4]
    labels = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0])
    assert blow_down_share(labels, day).tolist() == [1, 2, 0, 2, 0]


@pytest.mark.parametrize("fold", [None, 4])
def test_the_published_nest_of_windows(made, fold):
    _, sensors, labels = log()
    data = load_dataset("boiler", root=made, variant="published", fold=fold)
    sensors = sensors.astype(np.float32).astype(float)

    def nested(last):
        steps = []
        for length in range(1, 7):
            steps += [sensors[last - length + 1 + place] for place in range(length)] + [np.zeros(20)] * (
                6 - length
            )
        return steps

    series = {last: np.array(nested(last)) for last in range(5, len(sensors))}
    known = np.concatenate([series[last] for last in data.train.ids.tolist()])
    mean = known.sum(0) / len(known)
    deviation = np.sqrt(((known - mean) ** 2).sum(0) / (len(known) - 1))
    for part in parts(data):
        x = np.array([(series[last] - mean) / (deviation + 1e-5) for last in part.ids.tolist()])
        np.testing.assert_allclose(part.x, x, rtol=1e-4, atol=1e-4)
        assert part.y.tolist() == labels[part.ids].tolist()
        assert part.mask is None
    assert sorted(torch.cat([part.ids for part in parts(data)]).tolist()) == list(range(5, len(sensors)))


@pytest.mark.parametrize("variant", ["windows_random", "published"])
def test_scattered_windows_are_stratified(made, variant):
    tests = []
    for fold in range(5):
        data = load_dataset("boiler", root=made, variant=variant, fold=fold)
        total = sum(map(len, parts(data)))
        positive = sum(int(part.y.sum()) for part in parts(data))
        for part, share in zip(parts(data), (0.6, 0.2, 0.2), strict=True):
            assert abs(len(part) - share * total) < 3
            assert abs(int(part.y.sum()) - share * positive) < 3
        tests += data.test.ids.tolist()
    assert len(set(tests)) == len(tests) == total


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_fold_the_validation_windows_of_split_0_train(made, variant):
    whole, split = (load_dataset("boiler", root=made, variant=variant, fold=fold) for fold in (None, 0))
    ids, expected = whole.train.ids.tolist(), sorted(split.train.ids.tolist() + split.validation.ids.tolist())
    assert sorted(ids) == expected
    assert (ids == expected) == (variant != "published")  # whose training never shuffles, so its split files did
    assert torch.equal(whole.test.ids, split.test.ids)


@pytest.mark.parametrize(
    "when",
    [
        lambda quarter: clock(quarter).replace("hh", ":").replace("mm", ""),
        lambda quarter: "2014-03-27 " + clock(quarter).replace("hh", ":").replace("mm", ":00"),
    ],
)
def test_other_ways_to_write_the_time(made, tmp_path, when):
    save(tmp_path, table(when=when))
    assert torch.equal(load_dataset("boiler", root=tmp_path).train.x, load_dataset("boiler", root=made).train.x)


def test_windows_and_days_end_with_a_boiler(tmp_path):
    quarters, _, _ = log()
    # the second log starts a quarter of an hour after the first stops, as far as the clock can tell
    first = next(
        row for row, quarter in enumerate(quarters) if quarter % QUARTERS == (quarters[-1] + 1) % QUARTERS
    )
    both = table("3") + table("8")[1 + first :]
    save(tmp_path, both)
    data = load_dataset("boiler", root=tmp_path, variant="windows_random", fold=0)
    ids = set(torch.cat([part.ids for part in parts(data)]).tolist())
    assert len(quarters) - 1 in ids
    assert not ids & set(range(len(quarters), len(quarters) + 5))
    assert len(quarters) + 5 in ids
    published = load_dataset("boiler", root=tmp_path, variant="published", fold=0)
    assert len(quarters) in torch.cat([part.ids for part in parts(published)])


def test_the_whole_file_comes_before_its_fifth_and_either_may_be_packed(made, tmp_path):
    short = [HEADER, *table()[300:]]
    save(tmp_path, short)
    fifth = load_dataset("boiler", root=tmp_path)
    text = (made / "Boiler/boiler_1_test.csv").read_bytes()
    (tmp_path / "Boiler/full.csv.gz").write_bytes(gzip.compress(text))
    full = load_dataset("boiler", root=tmp_path)
    assert torch.equal(full.train.x, load_dataset("boiler", root=made).train.x)
    assert len(full.train) > len(fifth.train)


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(
        DataError, match=r"put it at .*Boiler/full.csv \(.*boiler_1_test.csv.*Get it from the data of"
    ):
        load_dataset("boiler", root=tmp_path)
    with pytest.raises(DataError, match=r"boiler is read from files, and no folder was given"):
        DATASETS["boiler"]()


def delta(row, column, value):
    def apply(rows):
        rows[row][column] = value

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda rows: rows.pop(0),
            r"csv starts with other columns than boiler_no, TIME, 20 sensors and a label: fetch",
        ),
        (lambda rows: rows[0].pop(), r"csv starts with other columns than boiler_no"),
        (lambda rows: rows[9].pop(), r"is damaged in line 10 \(22 cells instead of 23\): fetch it again"),
        (delta(4, 6, "high"), r"in line 5 \(sensor e is 'high', which is no finite number\)"),
        (delta(4, 6, "nan"), r"in line 5 \(sensor e is 'nan', which is no finite number\)"),
        (delta(4, -1, "2"), r"in line 5 \(label 2 instead of 0 or 1\)"),
        (delta(4, 1, "24hh00mm"), r"in line 5 \(TIME is '24hh00mm' instead of, say, 09hh45mm\)"),
        (delta(4, 1, "noon"), r"in line 5 \(TIME is 'noon' instead of"),
        (delta(4, 1, "11hh60mm"), r"in line 5 \(TIME is '11hh60mm' instead of"),
        (lambda rows: rows.__delitem__(slice(1, None)), r"csv holds no series"),
        (
            lambda rows: rows.__delitem__(slice(6, None)),
            r"csv holds 5 rows, fewer than a window of 6: fetch it again",
        ),
        (lambda rows: rows.__delitem__(slice(200, None)), r"at least 25 groups of series, got 3: fetch the whole"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, damage, message):
    rows = [list(row) for row in table()]
    damage(rows)
    save(tmp_path, rows)
    with pytest.raises(DataError, match=message):
        load_dataset("boiler", root=tmp_path)


def test_the_published_variant_needs_no_clock(made, tmp_path):
    save(tmp_path, table(when=lambda quarter: "?"))
    first, second = (load_dataset("boiler", root=root, variant="published") for root in (made, tmp_path))
    assert torch.equal(first.train.x, second.train.x)
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4"):
        load_dataset("boiler", root=made, fold=7)


@pytest.fixture(scope="session")
def real(data_root):
    return {variant: load_dataset("boiler", root=data_root, variant=variant, fold=1) for variant in VARIANTS}


def test_the_real_file_is_split_as_it_says(real):
    sizes = {variant: sum(map(len, parts(data))) for variant, data in real.items()}
    assert sizes["published"] == 18_024 - 5
    assert sizes["windows_random"] == 17_935  # 19 gaps leave 20 runs, of which 17 are long enough
    assert 0.95 * 17_935 < sizes["windows"] < 17_935
    assert sum(int(part.y.sum()) for part in parts(real["published"])) == 669
    assert real["published"].train.x.shape[1:] == (36, 20)
    assert real["windows"].train.x.shape[1:] == (6, 20)
    assert real["windows"].channels[0] == "Steam Pressure_Main Header"
    assert real["windows"].channels[-1] == "Gas consumption"


def test_the_real_parts_share_no_row_unless_windows_are_scattered(real):
    rows = [rows_of(part) for part in parts(real["windows"])]
    assert not (rows[0] & rows[1]) | (rows[0] & rows[2]) | (rows[1] & rows[2])
    assert all(part.y.sum() > 80 for part in parts(real["windows"]))
    scattered = real["windows_random"]
    train = rows_of(scattered.train)
    leaked = [any(row in train for row in range(last - 5, last + 1)) for last in scattered.test.ids.tolist()]
    assert np.mean(leaked) > 0.99


def test_the_real_windows_are_the_rows_of_the_file(real, data_root):
    with gzip.open(data_root / "Boiler/boiler_1_test.csv.gz", "rt") as file:
        rows = list(csv.reader(file))[1:]
    sensors = np.array([row[2:-1] for row in rows], dtype=float)
    data = real["windows"]
    last = data.train.ids.numpy()
    known = np.stack([sensors[last - lag] for lag in range(5, -1, -1)], axis=1)
    expected = (known - known.mean((0, 1))) / known.std((0, 1), ddof=1)
    np.testing.assert_allclose(data.train.x, expected, rtol=1e-4, atol=1e-4)
    for part in parts(data):
        assert part.y.tolist() == [int(rows[number][-1]) for number in part.ids.tolist()]
        for number in part.ids.tolist()[::97]:
            times = [rows[row][1] for row in range(number - 5, number + 1)]
            minutes = [60 * int(time[:2]) + int(time[4:6]) for time in times]
            assert {(after - before) % 1440 for before, after in pairwise(minutes)} == {15}


def test_real_values_come_back_as_the_file_has_them(real, data_root):
    with gzip.open(data_root / "Boiler/boiler_1_test.csv.gz", "rt") as file:
        sensors = np.array([row[2:-1] for row in list(csv.reader(file))[1:]], dtype=float)
    data = real["windows"]
    for part in parts(data):
        last = part.ids.numpy()
        known = np.stack([sensors[last - lag] for lag in range(5, -1, -1)], axis=1)
        wrong = np.abs(data.raw(part).numpy() - known)
        room = 1e-6 * data.scale.numpy() * (1 + np.abs(part.x.numpy()))  # what single precision leaves of x
        assert (wrong <= room + 1e-15).all()
    nested = real["published"]
    last = nested.test.ids.numpy()
    found = nested.raw(nested.test)
    np.testing.assert_allclose(found[:, 35], sensors[last], atol=1e-6)  # the last step of the last block
    np.testing.assert_allclose(found[:, 1:6], 0, atol=1e-6)  # padding
