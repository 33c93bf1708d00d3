"""PhysioNet 2012, from small records in every container people have, and from the whole challenge."""

import io
import math
import shutil
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from tempograd.core.errors import DataError, UnknownNameError
from tempograd.data import fold_indices, load_dataset
from tempograd_paper.datasets import physionet2012
from tempograd_paper.datasets.physionet2012 import MEASURED, RANGES, assemble, load_physionet2012, read_stays

STATICS = {"Age": 70, "Gender": 1, "Height": 180, "ICUType": 2}
OUTCOMES = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n"


def record(number, *rows, **statics):
    head = [f"00:00,{name},{value}" for name, value in {"RecordID": number, **STATICS, **statics}.items()]
    return "\n".join(["Time,Parameter,Value", *head, *rows, ""])


SETS = {
    "a": {
        102: record(102, "00:07,HR,80", "00:59,HR,90", "01:00,HR,100", "47:10,K,4", "48:00,K,5"),
        101: record(101, "05:00,HR,60", "05:01,pH,7.4", "06:00,K,1.213e+01", Height=-1, Gender=0),
    },
    "b": {
        203: record(203, "10:10,HR,70", "10:20,HR,0", "11:00,HR,0", "12:00,pH,735", "13:00,pH,7.2", Age=20),
        204: record(204, "00:00,Weight,-1"),
        205: record(205, "20:00,HR,75", "21:00,K,3.5", ICUType=4),
    },
    "c": {301: record(301, "03:03,HR,200", "03:03,,4", "04:04,pH,7"), 302: record(302, "47:59,K,6", Height=150)},
}
DIED = {101: 0, 102: 1, 203: 0, 204: 1, 205: 0, 301: 1, 302: 0}


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "PhysioNet2012"
    for letter, records in SETS.items():
        (folder / f"set-{letter}").mkdir(parents=True)
        for number, text in records.items():
            (folder / f"set-{letter}/{number}.txt").write_text(text)
        lines = [f"{number},6,1,5,-1,{DIED[number]}\n" for number in records]
        (folder / f"Outcomes-{letter}.txt").write_text(OUTCOMES + "".join(lines))
    return tmp_path


# Means of the hours by hand: (record, hour, parameter) -> value, for what lies in the ranges.
TRAIN_CELLS = {
    (101, 5, "HR"): 60,
    (101, 5, "pH"): 7.4,
    (101, 6, "K"): 12.13,
    (102, 0, "HR"): 85,
    (102, 1, "HR"): 100,
    (102, 47, "K"): 4.5,
    (203, 10, "HR"): 70,
    (203, 13, "pH"): 7.2,
    (205, 20, "HR"): 75,
    (205, 21, "K"): 3.5,
}
TEST_CELLS = {(301, 3, "HR"): 200, (301, 4, "pH"): 7.0, (302, 47, "K"): 6}


def scale(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def cells_of(split, channels):
    """The observed cells of a split; all others must be 0."""
    assert (split.x[~split.mask] == 0).all()
    return {
        (int(split.ids[n]), t, channels[d]): float(split.x[n, t, d]) for n, t, d in split.mask.nonzero().tolist()
    }


def test_hours_are_means_scaled_by_the_observed_training_cells(tree):
    data = load_dataset("physionet2012", root=tree)
    assert data.variant == "hourly"
    assert data.channels == MEASURED
    assert data.classes == 2
    assert data.validation is None
    assert data.train.ids.tolist() == [101, 102, 203, 204, 205]
    assert data.train.y.tolist() == [0, 1, 0, 1, 0]
    assert data.test.ids.tolist() == [301, 302]
    assert data.test.y.tolist() == [1, 0]
    assert data.train.x.shape == (5, 48, 37)
    for split, raw in ((data.train, TRAIN_CELLS), (data.test, TEST_CELLS)):
        expected = {}
        for (number, hour, name), value in raw.items():
            mean, std = scale([known for place, known in TRAIN_CELLS.items() if place[2] == name])
            expected[number, hour, name] = (value - mean) / (std + 1e-5)
        assert cells_of(split, data.channels) == pytest.approx(expected, rel=1e-5)


def test_static_parameters_are_repeated_and_unknown_ones_not_observed(tree):
    data = load_physionet2012(root=tree, variant="with_static")
    assert data.channels == (*MEASURED, "Age", "Gender", "Height", "ICUType")
    plain = load_physionet2012(root=tree)
    assert torch.equal(data.train.x[..., :37], plain.train.x)
    assert torch.equal(data.train.mask[..., :37], plain.train.mask)
    known = {"Age": [70, 70, 20, 70, 70], "Gender": [0, 1, 1, 1, 1], "Height": [None, *[180] * 4]}
    known["ICUType"] = [2, 2, 2, 2, 4]
    for name, column in known.items():
        mean, std = scale([value for value in column if value is not None for _ in range(48)])
        channel = data.channels.index(name)
        for n, value in enumerate(column):
            scaled = 0.0 if value is None else (value - mean) / (std + 1e-5)
            assert data.train.x[n, :, channel].tolist() == pytest.approx([scaled] * 48, rel=1e-5)
            assert data.train.mask[n, :, channel].tolist() == [value is not None] * 48
    assert data.test.x[1, 7, -2].item() == pytest.approx(
        -30 / 1e-5, rel=1e-5
    )  # all known training heights are 180


def test_the_published_fault_takes_the_never_measured_for_zero(tree):
    data = load_physionet2012(root=tree, variant="published")
    assert data.channels == MEASURED
    for split, raw in ((data.train, TRAIN_CELLS), (data.test, TEST_CELLS)):
        expected = {}
        for name in MEASURED:
            known = [value for place, value in TRAIN_CELLS.items() if place[2] == name]
            measured_in = {place[0] for place in TRAIN_CELLS if place[2] == name}
            mean, std = scale(known + [0] * 48 * (5 - len(measured_in)))
            for number in split.ids.tolist():
                here = {place: value for place, value in raw.items() if place[0] == number and place[2] == name}
                here = here or {(number, hour, name): 0 for hour in range(48)}
                expected |= {place: (value - mean) / (std + 1e-5) for place, value in here.items()}
        assert cells_of(split, data.channels) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_folds_cut_the_training_stays_by_the_published_rule(tree):
    data = load_physionet2012(root=tree, fold=3)
    train, validation = fold_indices(5, 3)
    whole = load_physionet2012(root=tree)
    assert torch.equal(data.train.x, whole.train.x[train])
    assert data.validation.ids.tolist() == whole.train.ids[validation].tolist()
    assert torch.equal(data.test.x, whole.test.x)


def pack(folder, ending):
    """Put a set into an archive, with things beside the records that must not be read."""
    files = {f"{folder.name}/README.txt": b"hello", f"{folder.name}/._101.txt": b"junk", "9.txt/notes": b"junk"}
    files |= {f"{folder.name}/{path.name}": path.read_bytes() for path in sorted(folder.iterdir(), reverse=True)}
    target = folder.with_name(folder.name + ending)
    if ending == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{folder.name}/", b"")
            for name, text in files.items():
                archive.writestr(name, text)
    else:
        with tarfile.open(target, {".tar": "w", ".tar.xz": "w:xz"}.get(ending, "w:gz")) as archive:
            link = tarfile.TarInfo(f"{folder.name}/999.txt")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
            for name, text in files.items():
                member = tarfile.TarInfo(f"../../{name}")  # a path that nobody may follow
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
    shutil.rmtree(folder)
    return target


@pytest.mark.parametrize("ending", [".tar.xz", ".tar.gz", ".tgz", ".tar", ".zip"])
def test_archives_give_what_the_folder_gives_and_write_nothing(tree, ending):
    plain = load_physionet2012(root=tree)
    for letter in "abc":
        pack(tree / f"PhysioNet2012/set-{letter}", ending)
    before = sorted(tree.parent.rglob("*"))
    data = load_physionet2012(root=tree)
    assert sorted(tree.parent.rglob("*")) == before
    for name in ("x", "y", "mask", "ids"):
        assert torch.equal(getattr(data.train, name), getattr(plain.train, name))
        assert torch.equal(getattr(data.test, name), getattr(plain.test, name))


def test_line_ends_of_windows_and_a_missing_last_one_make_no_difference(tree):
    plain = load_physionet2012(root=tree)
    for path in (tree / "PhysioNet2012").rglob("*.txt"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n").rstrip())
    assert torch.equal(load_physionet2012(root=tree).train.x, plain.train.x)


@pytest.mark.parametrize("ending", [".tar.xz", ".tar.gz", ".tar", ".zip"])
@pytest.mark.parametrize("keep", [0.99, 0.9, 0.5, 0.02])
def test_a_truncated_archive_is_refused(tree, ending, keep):
    path = pack(tree / "PhysioNet2012/set-a", ending)
    whole = path.read_bytes()
    end = whole.rstrip(b"\0") if ending == ".tar" else whole  # what follows is filling
    path.write_bytes(end[: int(keep * len(end))])
    with pytest.raises(
        DataError, match=r"set-a\S* (is damaged and cannot be|holds no record)|set-a.tar: fetch both"
    ):
        load_physionet2012(root=tree)


@pytest.mark.parametrize("ending", [".tar.xz", ".tar.gz", ".tar", ".zip"])
def test_what_is_no_archive_is_refused(tree, ending):
    path = pack(tree / "PhysioNet2012/set-a", ending)
    path.write_bytes(b"this is no archive" * 100)
    with pytest.raises(
        DataError, match=rf"set-a{ending} is damaged and cannot be unpacked \(.*\): fetch it again"
    ):
        load_physionet2012(root=tree)


def test_a_changed_byte_in_an_archive_is_noticed(tree):
    shutil.rmtree(tree / "PhysioNet2012/set-a")
    with zipfile.ZipFile(tree / "PhysioNet2012/set-a.zip", "w") as archive:
        archive.writestr("101.txt", SETS["a"][101])
    text = bytearray((tree / "PhysioNet2012/set-a.zip").read_bytes())
    text[60] ^= 1
    (tree / "PhysioNet2012/set-a.zip").write_bytes(text)
    with pytest.raises(DataError, match=r"set-a.zip is damaged and cannot be unpacked \(Bad CRC"):
        load_physionet2012(root=tree)


def test_a_python_without_xz_says_what_to_do(tree, monkeypatch):
    pack(tree / "PhysioNet2012/set-a", ".tar.xz")
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(DataError, match=r"This Python cannot unpack xz: unpack .*set-a.tar.xz to .*set-a.tar\.$"):
        load_physionet2012(root=tree)


def test_a_record_that_is_too_large_or_there_twice_is_refused(tree, monkeypatch):
    with zipfile.ZipFile(tree / "PhysioNet2012/set-a.zip", "w") as archive:
        archive.writestr("x/101.txt", SETS["a"][101])
        archive.writestr("y/101.txt", SETS["a"][101])
    shutil.rmtree(tree / "PhysioNet2012/set-a")
    with pytest.raises(DataError, match=r"Record 101 is twice in .*set-a.zip"):
        load_physionet2012(root=tree)
    monkeypatch.setattr(physionet2012, "LARGEST", 100)
    with pytest.raises(DataError, match=rf"x/101.txt in .*set-a.zip has {len(SETS['a'][101])} bytes, too many"):
        load_physionet2012(root=tree)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("00:07,HR", "HH:MM,Parameter,Value"),
        ("00:07,HR,80,1", "HH:MM,Parameter,Value"),
        ("", "HH:MM,Parameter,Value"),
        ("00:07,Hr,80", "a parameter of the challenge"),
        ("00:07,HRs,80", "a parameter of the challenge"),
        ("00:07,Zinc,80", "a parameter of the challenge"),
        ("00:07,NIDiasABPandmore,80", "a parameter of the challenge"),
        ("00:07,Cholesterols,80", "a parameter of the challenge"),
        ("00:07,HR,", "a number after it"),
        ("00:07,HR,8o", "a number after it"),
        ("00:07,HR,nan", "a number after it"),
        ("00:07,HR,8_0", "a number after it"),
        ("00:07,HR, 80", "a number after it"),
        ("00:07,HR,8e", "a number after it"),
        ("00:07,HR,1-1", "a number after it"),
        ("00:07,HR,1e999", "a number after it"),
        ("00:07,HR,8" + 30 * "0", "a number after it"),
        ("0:07,HR,80", "a time from 00:00 to 48:00"),
        ("000:07,HR,80", "a time from 00:00 to 48:00"),
        ("00:071,HR,80", "a time from 00:00 to 48:00"),
        ("00-07,HR,80", "a time from 00:00 to 48:00"),
        ("00:60,HR,80", "a time from 00:00 to 48:00"),
        ("48:01,HR,80", "a time from 00:00 to 48:00"),
        ("48:10,HR,80", "a time from 00:00 to 48:00"),
        ("49:00,HR,80", "a time from 00:00 to 48:00"),
        ("0x:07,HR,80", "a time from 00:00 to 48:00"),
        ("/0:07,HR,80", "a time from 00:00 to 48:00"),
        ("00: 7,HR,80", "a time from 00:00 to 48:00"),
        ("00:0:,HR,80", "a time from 00:00 to 48:00"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tree, row, expected):
    path = tree / "PhysioNet2012/set-b/204.txt"
    path.write_text(record(204, "00:00,Weight,-1", row, "00:09,HR,81"))
    with pytest.raises(DataError, match=rf"Line 8 of 204.txt in .*set-b is '{row[:60]}', expected {expected}"):
        load_physionet2012(root=tree)


def test_the_first_of_several_bad_rows_is_shown_in_its_archive(tree):
    folder = tree / "PhysioNet2012/set-c"
    for number in (301, 302):
        (folder / f"{number}.txt").write_text(record(number, "00:01,K,4", "00:02,K,x"))
    pack(folder, ".zip")
    with pytest.raises(DataError, match=r"Line 8 of 301.txt in .*set-c.zip is '00:02,K,x'"):
        load_physionet2012(root=tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"Line 1 of 101.txt in .*set-a is '', expected Time,Parameter,Value"),
        ("Time;Parameter;Value\n00:00;HR;8", r"Line 1 of 101.txt in .* is 'Time;Parameter;Value', expected"),
        ("Time,Parameter,Value\n00:00,HR,8", r"101.txt in .*set-a has 0 rows RecordID, expected one"),
        (record(101, "00:00,RecordID,101"), r"101.txt in .*set-a has 2 rows RecordID, expected one"),
        (record(102), r"101.txt in .*set-a says that it is record 102"),
        ("Time,Parameter,Value\n\xff", r"Line 2 of 101.txt in .*set-a is"),
    ],
)
def test_a_damaged_record_is_refused(tree, text, message):
    (tree / "PhysioNet2012/set-a/101.txt").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=message):
        load_physionet2012(root=tree)


def test_records_without_a_single_row_are_refused(tree):
    for path in (tree / "PhysioNet2012/set-a").iterdir():
        path.write_text("Time,Parameter,Value\n")
    with pytest.raises(DataError, match=r"101.txt in .*set-a has 0 rows RecordID"):
        load_physionet2012(root=tree)


def test_records_and_outcomes_must_be_of_the_same_stays(tree):
    outcomes = tree / "PhysioNet2012/Outcomes-b.txt"
    text = outcomes.read_text()
    outcomes.write_text(text.replace("204,", "206,"))
    with pytest.raises(
        DataError, match=r"1 records, the first of them 204, are in .*set-b and have no line in .*-b.t"
    ):
        load_physionet2012(root=tree)
    outcomes.write_text(text + "206,6,1,5,-1,0\n207,6,1,5,-1,0\n")
    with pytest.raises(
        DataError, match=r"2 records, the first of them 206, have a line in .*-b.txt and are not in"
    ):
        load_physionet2012(root=tree)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("RecordID", "Record", r"Line 1 of .*Outcomes-a.txt is 'Record,SAPS"),
        ("102,6,1,5,-1,1", "102,6,1,5,-1", r"Line 2 of .*Outcomes-a.txt is '102,6,1,5,-1', expected six numbers"),
        ("101,6,1,5,-1,0", "101,6,1,5,-1,2", r"Line 3 of .*Outcomes-a.txt is '101,6,1,5,-1,2', expected six"),
        ("101,", "1o1,", r"Line 3 of .*Outcomes-a.txt is '1o1,"),
        ("101,", "²,", r"Line 3 of .*Outcomes-a.txt is '²,"),
        ("101,", "102,", r"Line 3 of .*Outcomes-a.txt is a second one for record 102"),
    ],
)
def test_a_bad_outcome_is_named_with_its_line(tree, old, new, message):
    path = tree / "PhysioNet2012/Outcomes-a.txt"
    path.write_text(path.read_text().replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_physionet2012(root=tree)


def test_missing_files_say_where_to_get_them_and_where_to_put_them(tree):
    with pytest.raises(DataError, match=r"no folder was given.*Computing in Cardiology Challenge 2012"):
        load_physionet2012()
    (tree / "PhysioNet2012/Outcomes-c.txt").unlink()
    with pytest.raises(DataError, match=r"put it at .*Outcomes-c.txt\. Get it from PhysioNet \(Computing in Card"):
        load_physionet2012(root=tree)
    shutil.rmtree(tree / "PhysioNet2012/set-b")
    with pytest.raises(
        DataError, match=r"Set b of .* is not in .*: put it at .*set-b \(.*set-b.tar.xz, .*set-b.zip"
    ):
        load_physionet2012(root=tree)
    (tree / "PhysioNet2012/set-b").mkdir()
    with pytest.raises(DataError, match=r"set-b holds no record: files called <number>.txt"):
        load_physionet2012(root=tree)


def test_a_parameter_unknown_to_the_training_sets_cannot_be_scaled(tree):
    (tree / "PhysioNet2012/set-c/302.txt").write_text(record(302, "00:00,Lactate,2"))
    with pytest.raises(DataError, match="Lactate of PhysioNet 2012 is in the test set, but fewer than two cells"):
        load_physionet2012(root=tree)
    assert load_physionet2012(root=tree, variant="published").test.x.isfinite().all()


@pytest.mark.parametrize("variant", ["hourly", "with_static", "published"])
def test_raw_values_are_the_means_of_the_hours(tree, variant):
    data = load_physionet2012(root=tree, variant=variant)
    for split, cells in ((data.train, TRAIN_CELLS), (data.test, TEST_CELLS)):
        raw = data.raw(split)
        for (number, hour, name), value in cells.items():
            row, channel = split.ids.tolist().index(number), data.channels.index(name)
            assert raw[row, hour, channel].item() == pytest.approx(value, rel=1e-6)
        assert torch.equal(raw.isnan(), ~split.mask)
    if variant == "with_static":
        assert data.units[-4:] == ("years", "", "cm", "")
        assert data.raw(data.train)[0, 3, -4:].nan_to_num(-1).tolist() == pytest.approx([70, 0, -1, 2], abs=1e-6)
    if variant == "published":  # what was never measured counts as 0
        assert data.raw(data.test)[0, :, data.channels.index("Lactate")].abs().max() < 1e-6


def test_unknown_variants_are_refused(tree):
    with pytest.raises(UnknownNameError, match="variant of physionet2012 is called 'daily'"):
        load_physionet2012(root=tree, variant="daily")


@pytest.fixture(scope="session")
def challenge(data_root):
    """The stays of both splits, all values with their parameters as they were read, and the default data set."""
    read, rows = physionet2012.read_records, []

    def remember(path, names):
        records = read(path, names)
        rows.append((records.parameter, records.value))
        return records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physionet2012, "read_records", remember)
        stays = read_stays(data_root, "ab"), read_stays(data_root, "c")
    return stays, [np.concatenate(column) for column in zip(*rows, strict=True)], assemble(*stays, "hourly")


def test_the_whole_challenge_has_the_known_counts(challenge):
    data = challenge[2]
    assert data.train.x.shape == (8000, 48, 37)
    assert data.test.x.shape == (4000, 48, 37)
    assert (int(data.train.y[:4000].sum()), int(data.train.y[4000:].sum()), int(data.test.y.sum())) == (
        554,
        568,
        585,
    )
    assert (data.train.ids.diff() > 0).all()
    assert (int(data.train.ids[0]), int(data.train.ids[-1]), int(data.test.ids[0])) == (132539, 152864, 152871)
    missing = 1 - data.train.mask.double().mean()
    assert 0.79 < missing < 0.81
    values = data.train.x.double()
    for channel, name in enumerate(data.channels):
        observed = values[..., channel][data.train.mask[..., channel]]
        assert abs(observed.mean()) < 1e-5
        assert observed.std().item() == pytest.approx(0 if name == "MechVent" else 1, abs=1e-3)
    empty = [int((~split.mask.any(2).any(1)).sum()) for split in (data.train, data.test)]
    assert empty == [9, 1]


def slow_cells(text):
    """Hourly means of one record, row by row."""
    found = {}
    for row in text.splitlines()[1:]:
        time, name, value = row.split(",")
        if name in MEASURED and RANGES[name][0] <= float(value) <= RANGES[name][1]:
            found.setdefault((min(int(time[:2]), 47), name), []).append(float(value))
    return {place: math.fsum(values) / len(values) for place, values in found.items()}


def test_real_values_come_back_as_the_records_have_them(challenge, data_root):
    data = challenge[2]
    with tarfile.open(data_root / "PhysioNet2012/set-b.tar.xz") as archive:
        for number, member in enumerate(archive):
            if member.isfile() and number % 8 == 0:
                cells = slow_cells(archive.extractfile(member).read().decode())
                raw = data.raw(data.train.take(data.train.ids == int(member.name[-10:-4])))[0].numpy()
                found = {(h, data.channels[c]): raw[h, c] for h, c in np.argwhere(~np.isnan(raw))}
                assert found == pytest.approx(cells, rel=1e-5, abs=1e-5)
            if number == 400:
                break


def test_units_fit_what_is_usual_in_intensive_care(challenge):
    """Medians that would be far off in any other unit that hospitals use."""
    data = challenge[2]
    median = dict(zip(data.channels, data.raw(data.test).flatten(0, 1).nanmedian(0).values.tolist(), strict=True))
    units = dict(zip(data.channels, data.units, strict=True))
    usual = {  # unit, low, high
        "Albumin": ("g/dL", 2, 5),
        "ALP": ("IU/L", 30, 150),
        "Bilirubin": ("mg/dL", 0.2, 3),
        "BUN": ("mg/dL", 7, 40),
        "Cholesterol": ("mg/dL", 100, 240),
        "Creatinine": ("mg/dL", 0.5, 2),
        "Glucose": ("mg/dL", 80, 180),
        "HCO3": ("mmol/L", 20, 30),
        "HCT": ("%", 25, 45),
        "HR": ("beats/min", 60, 110),
        "K": ("mEq/L", 3.5, 5),
        "Lactate": ("mmol/L", 0.5, 4),
        "MAP": ("mmHg", 60, 100),
        "Mg": ("mg/dL", 1.6, 2.6),
        "Na": ("mEq/L", 132, 146),
        "PaO2": ("mmHg", 70, 180),
        "Platelets": ("cells/nL", 100, 400),
        "RespRate": ("breaths/min", 12, 25),
        "SaO2": ("%", 90, 100),
        "Temp": ("°C", 36, 38),
        "WBC": ("cells/nL", 4, 15),
        "Weight": ("kg", 50, 100),
        "FiO2": ("", 0.21, 1),
        "MechVent": ("", 0.999, 1.001),
        "pH": ("", 7.3, 7.5),
    }
    for name, (unit, low, high) in usual.items():
        assert units[name] == unit
        assert low < median[name] < high, (name, median[name])


def test_real_records_agree_with_a_slow_reading(challenge, data_root):
    train, _ = challenge[0]
    with tarfile.open(data_root / "PhysioNet2012/set-b.tar.xz") as archive:
        for number, member in enumerate(archive):
            if member.isfile() and number % 8 == 0:
                text = archive.extractfile(member).read().decode()
                stay = int(np.flatnonzero(train.ids == int(member.name[-10:-4]))[0])
                measured = np.isin(list(RANGES), MEASURED)
                cells = {
                    (hour, MEASURED[channel]): train.x[stay, :, measured].T[hour, channel]
                    for hour, channel in np.argwhere(train.observed[stay][:, measured])
                }
                assert cells == pytest.approx(slow_cells(text))
            if number == 400:
                break


def test_values_outside_the_ranges_are_as_many_as_documented(challenge):
    """Counted once by a loop over all lines of the 12,000 files."""
    parameter, value = challenge[1]
    outside = {}
    for code, (name, (low, high)) in enumerate(RANGES.items()):
        here = value[parameter == code]
        outside[name] = int(((here < low) | (here > high)).sum())
    assert outside["Weight"] == 1001 + 277 + 48 + 3 + 24 + 1  # -1, 0, 0.6, 3.4, 5 and 6
    assert outside["NIDiasABP"] == 167 + 307  # -1 and 0
    assert (outside["SysABP"], outside["HR"], outside["Gender"]) == (1891, 45, 12)
    static = [code for code, name in enumerate(RANGES) if name not in MEASURED]
    assert sum(outside[name] for name in MEASURED) == 6955
    assert len(value) - np.isin(parameter, static).sum() == 5_223_415


def test_the_other_variants_of_the_whole_challenge(challenge):
    hourly = challenge[2]
    static, published = (assemble(*challenge[0], variant) for variant in ("with_static", "published"))
    for data in (static, published):
        for split in (data.train, data.test):
            assert split.x.isfinite().all()
            assert split.x.abs().max() < 200
    added = sum(int(data.mask.sum()) for data in (static.train, static.test))
    added -= sum(int(data.mask.sum()) for data in (hourly.train, hourly.test))
    assert added == 48 * (4 * 12_000 - 12 - 5726 - 28)  # no gender, no height, 17 below 100 cm and 11 above 250 cm
    never = ~hourly.test.mask.any(dim=1, keepdim=True)
    assert torch.equal(published.test.mask, hourly.test.mask | never)
    zeros = published.test.x[published.test.mask & ~hourly.test.mask]
    assert len(zeros.unique()) == len(MEASURED)  # one value for each parameter
