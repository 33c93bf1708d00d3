"""MIMIC-III: the published rules, checked by hand-made tables and by plain loops over the open demo."""

import csv
import gzip
import math
from datetime import datetime

import numpy as np
import pytest
import torch

from reproduction.tests.helpers import slow_mimic3
from reproduction.tests.helpers.mimic3_world import ADMITTED, ENTERED, World, after
from tempograd.core.errors import DataError, UnknownNameError
from tempograd.data import fold_indices, load_dataset
from tempograd_paper.datasets.mimic3 import CHANNELS, patients_that_test, prepare_mimic3, standardise_observed


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("TEMPOGRAD_CACHE", str(folder))
        yield folder


@pytest.fixture
def world():
    return World()


def means(world, folder):
    """Raw means by (stay, channel, hour), and the stays' columns by name."""
    stays, cells = prepare_mimic3(world.write(folder / "MIMIC3")).read()
    names = stays["icustay_id"][cells["stay"]].tolist()
    keys = zip(names, (CHANNELS[channel] for channel in cells["channel"]), cells["hour"].tolist(), strict=True)
    return dict(zip(keys, zip(cells["value"], cells["inside"], strict=True), strict=True)), stays


# ---- the cohort ----


def test_a_stay_of_48_hours_is_kept_and_a_second_less_is_not(world, tmp_path):
    for number, hours in ((1, 48), (2, 48 - 1 / 3600), (3, 47.9), (4, 200)):
        world.stay(number, hours=hours)
    assert means(world, tmp_path)[1]["icustay_id"].tolist() == [1, 4]


def test_hidden_ages_childrens_wards_and_admissions_without_charts_are_left_out(world, tmp_path):
    for number, unit in ((1, "NICU"), (2, "PICU"), (3, "CSRU"), (4, "MICU"), (5, "MICU"), (6, "MICU")):
        world.stay(number, unit=unit)
    world.patient(1004, born=datetime(1830, 7, 14))  # 109498 days before: two short of 300 years of 365
    world.patient(1005, born=datetime(1830, 7, 12))  # 109500 days before: 300 of them
    world.admission(2006, 1006, charted=0)
    stays = means(world, tmp_path)[1]
    assert stays["icustay_id"].tolist() == [3, 4]
    assert stays["age"].tolist() == [60, 299]


def test_a_stay_without_a_valid_vital_sign_is_left_out(world, tmp_path):
    for number in (1, 2, 3, 4):
        world.stay(number, charted=number == 4)
    world.chart(1, 211, 300)  # out of range
    world.lab(2, 50868, 12)
    world.chart(3, 211, 80, hours=48, seconds=1)  # too late
    assert means(world, tmp_path)[1]["icustay_id"].tolist() == [4]


def test_stays_come_by_patient_then_admission_then_time(world, tmp_path):
    later = after(ENTERED, hours=100)
    world.stay(1, patient=7, admission=70, entered=later)
    world.stay(2, patient=7, admission=70)
    world.stay(3, patient=7, admission=69)
    world.stay(4, patient=5, admission=99)
    world.admission(69, 7, admitted=after(ADMITTED, hours=1))
    stays = means(world, tmp_path)[1]
    assert stays["icustay_id"].tolist() == [4, 2, 1, 3]
    assert stays["first_icu_stay"].tolist() == [1, 1, 0, 1]
    assert stays["subject_id"].tolist() == [5, 7, 7, 7]


def test_a_first_stay_too_short_to_be_kept_still_is_the_first(world, tmp_path):
    world.stay(1, patient=7, admission=70, hours=20)
    world.stay(2, patient=7, admission=70, entered=after(ENTERED, hours=30))
    stays = means(world, tmp_path)[1]
    assert (stays["icustay_id"].tolist(), stays["first_icu_stay"].tolist()) == ([2], [0])


def test_gender_age_and_ethnicity(world, tmp_path):
    said = ["White - Russian", "BLACK/CAPE VERDEAN", "HISPANIC OR LATINO", "LATIN AMERICAN", "ASIAN - KOREAN"]
    said += ["UNABLE TO OBTAIN", "OFF-WHITE", ""]
    for number, ethnicity in enumerate(said, start=1):
        world.stay(number)
        world.admission(2000 + number, 1000 + number, ethnicity=ethnicity)
    world.patient(1001, gender="M", born=datetime(2129, 5, 2))  # 364 days
    world.patient(1002, gender="M", born=datetime(2129, 5, 1))  # 365 days
    stays = means(world, tmp_path)[1]
    assert stays["ethnicity"].tolist() == [1, 2, 3, 3, 4, 5, 5, 5]
    assert stays["gender"].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert stays["age"].tolist() == [0, 1, *6 * [60]]


def test_death_in_the_icu_and_death_in_the_hospital(world, tmp_path):
    deaths = (None, -1 / 3600, 0, 72, 72 + 1 / 3600, 300)  # hours after a stay of 72 begins
    for number, hours in enumerate(deaths, start=1):
        world.stay(number)
        if hours is not None:
            world.admission(2000 + number, 1000 + number, died=after(ENTERED, hours=hours))
    stays = means(world, tmp_path)[1]
    assert stays["icu_death"].tolist() == [0, 0, 1, 1, 0, 0]
    assert stays["hospital_death"].tolist() == [0, 1, 1, 1, 1, 1]


# ---- what is measured ----

BOUNDS = [  # channel, an item of it, just outside, just inside
    ("HeartRate", 220045, (0, 300), (0.1, 299.9)),
    ("SysBP", 6701, (0, 400), (0.1, 399.9)),
    ("DiasBP", 8555, (0, 300), (0.1, 299.9)),
    ("MeanBP", 225312, (0, 300), (0.1, 299.9)),
    ("RespRate", 224690, (0, 70), (0.1, 69.9)),
    ("SpO2", 646, (0, 100.1), (0.1, 100)),
    ("Glucose", 3744, (0, -5, "NaN", "inf"), (0.1, 99999)),
    ("Temp", 676, (10, 50), (10.1, 49.9)),
    ("Temp", 678, (70, 120), (70.1, 119.9)),
]


def test_values_on_the_bounds_of_a_range_do_not_count(world, tmp_path):
    for number, (_, item, outside, inside) in enumerate(BOUNDS):
        for stay, values in ((100 + number, outside), (200 + number, inside)):
            world.stay(stay)
            for value in values:
                world.chart(stay, item, value, hours=5)
    found = {key: value for key, value in means(world, tmp_path)[0].items() if key[2] == 5}
    assert set(found) == {(200 + number, bound[0], 5) for number, bound in enumerate(BOUNDS)}
    for number, (channel, item, _, inside) in enumerate(BOUNDS):
        expected = sum(inside) / 2 if item != 678 else (sum(inside) / 2 - 32) * 5 / 9
        assert found[200 + number, channel, 5] == pytest.approx((expected, expected))


def test_every_item_of_a_vital_sign_counts(world, tmp_path):
    items = {int(item): name for name, items, _ in slow_mimic3.VITALS for item in items.split(",")}
    for number, item in enumerate(items, start=1):
        world.stay(number, charted=False)
        world.chart(number, item, 98.6 if item in {678, 223761} else 37, seconds=number)
    found = means(world, tmp_path)[0]
    assert len(items) == 39
    assert set(found) == {(number, name, 0) for number, name in enumerate(items.values(), start=1)}
    assert [value[0] for value in found.values()] == pytest.approx(39 * [37])


def test_errors_other_stays_and_other_times_do_not_count(world, tmp_path):
    world.stay(1)
    world.stay(2, patient=1001, admission=2001, entered=after(ENTERED, hours=80))
    world.chart(1, 618, 20, hours=3, error=0)
    world.chart(1, 618, 30, hours=3, error="")
    world.chart(1, 618, 60, hours=3, error=1)
    world.chart(1, 618, 66, hours=3, number=2)  # stay 2 has not begun
    world.chart(1, 618, 67, hours=3, number="")
    world.chart(1, 646, 97, hours=-1)
    world.chart(1, 646, 98, hours=48, seconds=1)
    world.chart(1, 9999, 20, hours=3)
    found = means(world, tmp_path)[0]
    assert {key for key in found if key[0] == 1} == {(1, "HeartRate", 0), (1, "RespRate", 3)}
    assert found[1, "RespRate", 3] == (25, 25)
    assert [key for key in found if key[0] == 2] == [(2, "HeartRate", 0)]


def test_a_laboratory_value_above_its_cap_is_a_measurement_without_value(world, tmp_path):
    items = [(int(item), name, cap) for name, items, cap in slow_mimic3.LABS for item in items.split("/")]
    for number, (item, _, cap) in enumerate(items, start=1):
        world.stay(number)
        world.lab(number, item, cap, hours=1)
        world.lab(number, item, cap + 0.1, hours=2)
        world.lab(number, item, 0, hours=3)
        world.lab(number, item, -1, hours=4)
        world.lab(number, item, "", hours=5)
    found = means(world, tmp_path)[0]
    assert len(items) == 27
    for number, (_, name, cap) in enumerate(items, start=1):
        assert found.pop((number, name, 1)) == (cap, cap)
        assert np.isnan(found.pop((number, name, 2))).all()
    assert set(found) == {(number, "HeartRate", 0) for number in range(1, 28)}


def test_laboratory_values_go_to_every_stay_of_their_admission_that_they_fall_into(world, tmp_path):
    world.stay(1, patient=5, admission=50)
    world.stay(2, patient=5, admission=50, entered=after(ENTERED, hours=20))
    world.lab(1, 50813, 2.5, hours=30)
    world.lab(1, 50813, 9.0, hours=30, admission=51)  # another admission
    world.lab(1, 50813, 9.5, hours=30, admission="")  # of an outpatient
    world.lab(1, 50813, 8.5, hours=30, patient=6)
    found = means(world, tmp_path)[0]
    assert {key: value[0] for key, value in found.items() if key[1] == "LACTATE"} == {
        (1, "LACTATE", 30): 2.5,
        (2, "LACTATE", 10): 2.5,
    }


# ---- the hours ----


def test_hours_count_from_the_first_vital_sign(world, tmp_path):
    world.stay(1, charted=False)
    world.chart(1, 646, 95, seconds=1800)
    world.chart(1, 211, 70, seconds=1800 + 3599)
    world.chart(1, 211, 90, seconds=1800 + 3601)
    world.lab(1, 50813, 1.5, seconds=1799)  # before it
    world.lab(1, 50813, 2.5, hours=48, seconds=0)  # the last moment that counts
    found, stays = means(world, tmp_path)
    assert {key[1:]: value[0] for key, value in found.items()} == {
        ("SpO2", 0): 95,
        ("HeartRate", 0): 70,
        ("HeartRate", 1): 90,
        ("LACTATE", -1): 1.5,
        ("LACTATE", 47): 2.5,
    }
    assert stays["start"].tolist() == [after(ENTERED, seconds=1800)]


def test_a_value_on_the_hour_starts_an_hour_and_is_not_inside_one(world, tmp_path):
    world.stay(1)
    for value, seconds in ((10, 3599), (20, 3600), (40, 3601)):
        world.chart(1, 618, value, seconds=seconds)
    world.chart(1, 618, 60, hours=48, seconds=0)
    found = means(world, tmp_path)[0]
    assert found[1, "RespRate", 0] == (10, 10)
    assert found[1, "RespRate", 1] == (30, 40)
    assert found[1, "RespRate", 48][0] == 60
    assert found[1, "HeartRate", 0][0] == 80
    assert np.isnan([found[1, "HeartRate", 0][1], found[1, "RespRate", 48][1]]).all()


# ---- the variants ----


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Ten patients; stay 3 charts its temperature on the hour only, and only stay 1 has a lactate."""
    world = World()
    for number in range(1, 11):
        world.stay(number, entered=after(ENTERED, seconds=number))
        world.chart(number, 211, 60 + number, seconds=1)
        died = {9: after(ENTERED, hours=90), 10: after(ENTERED, hours=50)}.get(number)
        world.admission(2000 + number, 1000 + number, died=died)
    world.chart(3, 676, 37, hours=2, seconds=0)
    world.chart(3, 618, 20, hours=48, seconds=0)  # in the 48 hours of the stay, after the 48 of the series
    world.lab(1, 50813, 4, hours=7)
    world.lab(2, 50813, 99, hours=7)  # measured, above the cap
    return world.write(tmp_path_factory.mktemp("clinic") / "MIMIC3").parent


def whole(data):
    """All series of a data set by their ids."""
    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    return {
        int(number): (part.x[row], part.mask[row], int(part.y[row]), part)
        for part in parts
        for row, number in enumerate(part.ids)
    }


def test_published_splits_in_order_drops_lost_vital_signs_and_calls_the_never_measured_observed(clinic):
    data = load_dataset("mimic3", root=clinic, variant="published")
    assert data.train.ids.tolist() == [1, 2, 4, 5, 6, 7, 8]  # int(0.8 * 9), without stay 3
    assert data.test.ids.tolist() == [9, 10]
    lactate, temperature, rate = (CHANNELS.index(name) for name in ("LACTATE", "Temp", "HeartRate"))
    series = whole(data)
    # lactate: 4 once, and 48 zeros of each of the five other training stays that never measured it
    mean, count = 4 / 241, 241
    deviation = np.sqrt(((4 - mean) ** 2 + (count - 1) * mean**2) / (count - 1))
    scaled = (np.array([4, 0]) - mean) / (deviation + 1e-5)
    assert series[1][0][7, lactate] == pytest.approx(scaled[0], rel=1e-6)
    assert series[1][1][:, lactate].tolist() == [hour == 7 for hour in range(48)]
    assert not series[2][1][:, lactate].any()  # measured, though without a value
    assert not series[2][0][:, lactate].any()
    for number in (4, 10):
        assert series[number][1][:, lactate].all()
        assert series[number][0][:, lactate].numpy() == pytest.approx(scaled[1], rel=1e-6)
    assert series[1][1][:, temperature].all()
    # 80 was charted on the very start, so that the second value is alone in hour 0
    rates = np.array([61, 62, 64, 65, 66, 67, 68])
    expected = (69 - rates.mean()) / (rates.std(ddof=1) + 1e-5)
    assert series[9][0][0, rate] == pytest.approx(expected, rel=1e-6)


def test_the_default_keeps_all_stays_and_what_was_never_measured_is_unobserved(clinic):
    series = whole(load_dataset("mimic3", root=clinic))
    lactate, temperature, rate = (CHANNELS.index(name) for name in ("LACTATE", "Temp", "HeartRate"))
    assert sorted(series) == list(range(1, 11))
    assert not any(series[number][1][:, CHANNELS.index("RespRate")].any() for number in series)
    assert [number for number in series if series[number][1][:, lactate].any()] == [1]
    assert [number for number in series if series[number][1][:, temperature].any()] == [3]
    assert series[3][1][:, temperature].tolist() == [hour == 2 for hour in range(48)]
    train = [number for number in series if series[number][3] is series[min(series)][3]]
    rates = {number: (80 + 60 + number) / 2 for number in series}
    trained = np.array([rates[number] for number in train])
    for number in series:
        expected = (rates[number] - trained.mean()) / (trained.std(ddof=1) + 1e-5)
        assert series[number][0][0, rate] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert series[number][1][:, 28:].all()
        assert not series[number][0][~series[number][1]].any()


def test_the_label_is_death_in_the_icu_or_in_the_hospital(clinic):
    icu, hospital = (load_dataset("mimic3", root=clinic, variant=name) for name in ("icu_death", "hospital_death"))
    assert {number for number, entry in whole(icu).items() if entry[2]} == {10}
    assert {number for number, entry in whole(hospital).items() if entry[2]} == {9, 10}
    assert torch.equal(icu.train.ids, hospital.train.ids)
    assert load_dataset("mimic3", root=clinic).variant == "icu_death"


def test_a_channel_seen_less_than_twice_in_training_keeps_its_scale():
    x = np.array([[[5.0, 7.0]], [[9.0, 3.0]]])
    observed = np.array([[[True, False]], [[True, True]]])
    result, centre, scale = standardise_observed(x, observed, train=np.array([True, False]))
    assert result.tolist() == [[[0, 0]], [[4, 3]]]
    assert (centre.tolist(), scale.tolist()) == ([5, 0], [1, 1])


def test_a_fifth_of_the_patients_with_each_outcome_tests():
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(100), 3)
    hospital = np.repeat(np.arange(100) < 50, 3) & (np.arange(300) % 3 == 2)  # at the last of three stays
    icu = hospital & (subject < 30)
    order = rng.permutation(300)
    table = {"subject_id": subject, "icu_death": icu.astype(int), "hospital_death": hospital.astype(int)}
    test = patients_that_test({name: column[order] for name, column in table.items()})
    drawn = sorted(subject[order][test].tolist())
    assert len(drawn) == 3 * len(set(drawn))  # with all their stays
    assert [
        sum(low <= patient < high for patient in set(drawn)) for low, high in ((0, 30), (30, 50), (50, 100))
    ] == [
        6,
        4,
        10,
    ]
    assert sorted(subject[patients_that_test(table)].tolist()) == drawn  # whatever the order of the rows


def test_no_stay_in_the_cohort_is_an_error(world, tmp_path):
    world.stay(1, hours=20)
    world.write(tmp_path)
    with pytest.raises(DataError, match=f"No ICU stay in {tmp_path} fits the cohort"):
        load_dataset("mimic3", root=tmp_path)
    with pytest.raises(UnknownNameError, match="No variant of mimic3 is called 'death'"):
        load_dataset("mimic3", root=tmp_path, variant="death")


# ---- the open demo, by plain loops ----


@pytest.fixture(scope="module")
def measured(data_root):
    folder = data_root / "MIMIC3-demo"
    return slow_mimic3.measurements(folder, slow_mimic3.cohort(folder))


@pytest.fixture(scope="module", params=["published", "icu_death", "hospital_death"])
def demo(request, data_root, measured):
    data = load_dataset("mimic3", root=data_root, variant=request.param)
    return data, slow_mimic3.series_of(measured, published=request.param == "published")


def test_the_demo_agrees_with_plain_loops_cell_by_cell(demo):
    data, stays = demo
    found = whole(data)
    names = [int(stay["key"][2]) for stay in stays]
    assert sorted(found) == sorted(names)
    trains = [found[name][3] is data.train for name in names]
    assert data.train.ids.tolist() == [name for name, train in zip(names, trains, strict=True) if train]
    assert data.test.ids.tolist() == [name for name, train in zip(names, trains, strict=True) if not train]
    label = "hospital_death" if data.variant == "hospital_death" else "icu_death"
    expected = slow_mimic3.standardised(stays, trains)
    for name, stay, series in zip(names, stays, expected, strict=True):
        x, mask, y, _ = found[name]
        assert y == stay[label]
        assert mask.tolist() == [[cell is not None for cell in row] for row in stay["series"]]
        assert torch.allclose(x, torch.tensor(series), rtol=1e-5, atol=1e-5)
    assert data.channels == tuple(slow_mimic3.NAMES)
    for split in (data.train, data.test):
        raw = data.raw(split)
        for name, values in zip(split.ids.tolist(), raw, strict=True):
            told = [
                [math.nan if cell is None else cell for cell in row] for row in stays[names.index(name)]["series"]
            ]
            torch.testing.assert_close(values, torch.tensor(told).double(), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_units_are_those_of_the_laboratory_and_of_the_living(demo, data_root):
    data, _ = demo
    units = dict(zip(data.channels, data.units, strict=True))
    written = {}
    with gzip.open(data_root / "MIMIC3-demo/LABEVENTS.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            written.setdefault(row["itemid"], set()).add(row["valueuom"])
    same = {"sec": "s", "SECONDS": "s", "K/uL": "K/µL"}
    for item, (name, _) in slow_mimic3.RULE_OF_LAB.items():
        assert {same.get(unit, unit) for unit in written[item]} == {units[name]}, name
    if data.variant != "published":  # where zeros stand for what was not measured
        usual = {
            "HeartRate": (60, 110),
            "MeanBP": (60, 100),
            "RespRate": (12, 25),
            "SpO2": (90, 100),
            "Temp": (36, 38),
        }
        for name, (low, high) in usual.items():
            middle = data.raw(data.train)[..., data.channels.index(name)].nanmedian()
            assert low < middle < high, name


def test_the_counts_of_the_demo(demo, data_root):
    data, _ = demo
    assert len(slow_mimic3.table(data_root / "MIMIC3-demo", "ICUSTAYS")) == 136
    stays, _ = prepare_mimic3(data_root).read()
    assert (len(stays["stay"]), stays["icu_death"].sum(), stays["hospital_death"].sum()) == (68, 17, 25)
    kept, deaths, train = {"published": (55, 13, 44), "icu_death": (68, 17, 57), "hospital_death": (68, 25, 57)}[
        data.variant
    ]
    assert (len(data.train), len(data.test)) == (train, kept - train)
    assert int(data.train.y.sum() + data.test.y.sum()) == deaths
    subject = dict(zip(stays["icustay_id"].tolist(), stays["subject_id"].tolist(), strict=True))
    sides = [{subject[number] for number in part.ids.tolist()} for part in (data.train, data.test)]
    assert data.variant == "published" or not sides[0] & sides[1]


def test_folds_cut_the_training_stays_by_the_published_rule(data_root):
    data, cut = (load_dataset("mimic3", root=data_root, variant="published", fold=fold) for fold in (None, 3))
    train, validation = fold_indices(44, 3)
    assert data.validation is None
    assert torch.equal(cut.train.ids, data.train.ids[train])
    assert torch.equal(cut.validation.x, data.train.x[validation])
    assert torch.equal(cut.test.x, data.test.x)
