"""PAM, from files in the formats that people have: numbers, pickled objects, damaged and hostile ones."""

import io
import os
import pickle
import shutil

import numpy as np
import pytest
import torch

from tempograd.core.errors import DataError, InputError, UnknownNameError
from tempograd.data import load_dataset
from tempograd_paper.datasets import pam
from tempograd_paper.datasets.pam import load_pam
from tempograd_paper.datasets.restricted_pickle import read_npy

N, T, D = 20, 6, 3
PARTS = {"train": 14, "val": 2, "test": 4}


def make_arrays():
    rng = np.random.default_rng(0)
    x = rng.normal(0.5, 2.0, (N, T, D)) * np.array([1.0, 10.0, 0.1])
    x[3, 2] = 0.0  # not positive, not negative
    y = np.stack([np.full(N, 9.0), np.arange(N) % 8], axis=1)
    splits = []
    for number in range(1, 6):
        order = np.random.default_rng(number).permutation(N)
        splits.append(np.split(order, np.cumsum(list(PARTS.values()))[:-1]))
    return x, y, splits


def objects(parts):
    result = np.empty(len(parts), dtype=object)
    result[:] = parts
    return result


@pytest.fixture
def tree(tmp_path):
    """A data root, with the series as numbers and the splits pickled."""
    x, y, splits = make_arrays()
    for folder in ("processed_data", "splits"):
        (tmp_path / "PAM" / folder).mkdir(parents=True)
    np.save(tmp_path / "PAM/processed_data/PTdict_list.npy", x)
    np.save(tmp_path / "PAM/processed_data/arr_outcomes.npy", y)
    for number, parts in enumerate(splits, start=1):
        np.save(tmp_path / f"PAM/splits/PAMAP2_split_{number}.npy", objects(parts), allow_pickle=True)
    return tmp_path


def expected(x, train, published):
    """The definition, one channel at a time."""
    x = x.copy()
    for channel in range(D):
        values = x[..., channel]
        if published:
            positive = [value for value in values[train].ravel() if value > 0]
            mean = sum(positive) / len(positive)
            std = (sum((value - mean) ** 2 for value in positive) / len(positive)) ** 0.5
            values = np.where(values > 0, (values - mean) / std, 0.0)
        known = values[train].ravel()
        mean = sum(known) / len(known)
        std = (sum((value - mean) ** 2 for value in known) / (len(known) - 1)) ** 0.5
        x[..., channel] = (values - mean) / (std + 1e-5)
    return x


@pytest.mark.parametrize("variant", ["all_values", "published"])
@pytest.mark.parametrize("fold", [0, 4])
def test_a_fold_is_the_published_split_scaled_by_its_training_series(tree, variant, fold):
    x, y, splits = make_arrays()
    data = load_dataset("pam", root=tree, fold=fold, variant=variant)
    scaled = expected(x, splits[fold][0], variant == "published")
    for split, rows in zip((data.train, data.validation, data.test), splits[fold], strict=True):
        assert split.ids.tolist() == rows.tolist()  # in the published order
        assert split.y.tolist() == [int(y[row, 1]) for row in rows]
        np.testing.assert_allclose(split.x.numpy(), scaled[rows], rtol=2e-6, atol=2e-6)
        undone = x[rows] if variant == "all_values" else split.x.double()  # what was erased cannot come back
        np.testing.assert_allclose(data.raw(split), undone, rtol=1e-6, atol=1e-5)
        assert split.x.dtype == torch.float32
        assert split.mask is None
        assert split.truth is None
    assert data.variant == variant
    assert data.classes == 8
    assert data.channels == ("sensor 0", "sensor 1", "sensor 2")


def test_without_a_fold_validation_joins_training_in_file_order(tree):
    x, _, splits = make_arrays()
    data = load_pam(root=tree)
    assert data.variant == "all_values"
    assert data.validation is None
    assert data.train.ids.tolist() == sorted([*splits[0][0], *splits[0][1]])
    assert data.test.ids.tolist() == splits[0][2].tolist()
    scaled = expected(x, splits[0][0], False)
    np.testing.assert_allclose(data.train.x.numpy(), scaled[data.train.ids], rtol=2e-6, atol=2e-6)


def test_more_series_than_fit_into_a_block_make_no_difference(tree, monkeypatch):
    whole = load_pam(root=tree, variant="published")
    monkeypatch.setattr(pam, "BLOCK", 3)
    parts = load_pam(root=tree, variant="published")
    torch.testing.assert_close(parts.train.x, whole.train.x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(parts.test.x, whole.test.x, rtol=1e-6, atol=1e-6)


def test_the_published_processing_erases_what_is_not_positive(tree):
    x, _, splits = make_arrays()
    data = load_pam(root=tree, variant="published", fold=1)
    for channel in range(D):
        erased = torch.from_numpy(x[splits[1][2]][..., channel] <= 0)
        assert erased.sum() > 5
        assert len(data.test.x[..., channel][erased].unique()) == 1


def rows_as_objects(x):
    return objects(list(x))


def cells_as_objects(x):
    return x.astype(object)


def numpy_numbers_as_objects(x):
    result = np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        result[place] = x[place]  # np.float64, not float
    return result


def columns_first(x):
    return np.asfortranarray(x)


def objects_columns_first(x):
    return np.asfortranarray(x.astype(object))


def rows_columns_first(x):
    return objects([np.asfortranarray(series) for series in x])


def big_endian(x):
    return objects(list(x.astype(">f8")))


@pytest.mark.parametrize(
    "form",
    [
        rows_as_objects,
        cells_as_objects,
        numpy_numbers_as_objects,
        columns_first,
        objects_columns_first,
        rows_columns_first,
        big_endian,
    ],
)
def test_every_form_of_the_series_gives_the_same_values(tree, form):
    x, y, _ = make_arrays()
    plain = load_pam(root=tree, fold=0)
    np.save(tree / "PAM/processed_data/PTdict_list.npy", form(x), allow_pickle=True)
    np.save(tree / "PAM/processed_data/arr_outcomes.npy", y.astype(object), allow_pickle=True)
    again = load_pam(root=tree, fold=0)
    assert torch.equal(again.train.x, plain.train.x)
    assert torch.equal(again.test.x, plain.test.x)
    assert torch.equal(again.train.y, plain.train.y)


def with_pickle(path, shape, payload):
    """Write a file with the header of an object array and any pickle after it."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": shape})
    path.write_bytes(header.getvalue() + payload)
    return path


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("module", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
def test_files_of_numpy_1_and_numpy_2_are_read(tmp_path, protocol, module):
    parts = [np.arange(5), np.arange(3, dtype=np.int16), np.array([7, 8], dtype=">u4"), True, np.float32(2.5)]
    payload = pickle.dumps(objects(parts), protocol=3)
    other = np.zeros(1).__reduce__()[0].__module__.encode()
    assert b"c" + other + b"\n" in payload
    payload = payload.replace(b"c" + other + b"\n", b"c" + module + b"\n")
    if protocol == 4:
        payload = pickle.dumps(objects(parts), protocol=4)
    found = read_npy(with_pickle(tmp_path / "file.npy", (5,), payload))
    assert [np.asarray(part).tolist() for part in found] == [[0, 1, 2, 3, 4], [0, 1, 2], [7, 8], True, 2.5]


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_file_that_would_run_code_is_refused_and_runs_nothing(tree, tmp_path):
    flag = tmp_path / "it ran"
    path = tree / "PAM/splits/PAMAP2_split_1.npy"
    np.save(path, objects([np.arange(14), np.arange(2), Runs(flag)]), allow_pickle=True)
    np.load(path, allow_pickle=True)  # what the file does to those who trust it
    assert flag.exists()
    flag.rmdir()
    with pytest.raises(DataError, match=rf"_split_1\.npy asks for {os.mkdir.__module__}.mkdir, but only plain"):
        load_pam(root=tree, fold=0)
    assert not flag.exists()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"cbuiltins\neval\n(V1+1\ntR.", "asks for builtins.eval"),
        (b"cnumpy\nload\n(Vx\ntR.", "asks for numpy.load"),
        (b"cnumpy.core.multiarray\nfromfile\n.", "asks for numpy.core.multiarray.fromfile"),
        (
            b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
            "asks for numpy.core.multiarray._reconstruct.__gl",
        ),
        (b"cnumpy\ndtype\n(VV16\ntR.", "arrays of type 'V16' are not read"),
        (b"cnumpy.core.multiarray\n_reconstruct\n}Vx\nI1\nsb.", "no array that can be read .*no attribute"),
        (b"cnumpy.core.multiarray\nscalar\n}Vx\nI1\nsb.", "no array that can be read .*no attribute"),
        (b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(VO8\ntRC\x08abcdefghtR.", "no array that can be read"),
        (b"Pname\n.", "no array that can be read"),
        (b"I1\n.", "its header and its contents disagree"),
        (b"", r"no array that can be read \(Ran out of input\)"),
    ],
)
def test_hostile_pickles_are_refused(tmp_path, payload, message):
    with pytest.raises(DataError, match=message):
        read_npy(with_pickle(tmp_path / "file.npy", (3,), payload))


def test_an_array_inside_itself_is_refused(tmp_path):
    inside = objects([None, None])
    inside[0] = inside
    with pytest.raises(DataError, match="no array that can be read"):
        read_npy(with_pickle(tmp_path / "file.npy", (2,), pickle.dumps(inside, protocol=3)))


def test_a_header_that_lies_about_the_shape_is_refused(tmp_path):
    payload = pickle.dumps(objects([1, 2]), protocol=3)
    with pytest.raises(DataError, match="its header and its contents disagree"):
        read_npy(with_pickle(tmp_path / "file.npy", (3,), payload))


@pytest.mark.parametrize("name", ["processed_data/PTdict_list.npy", "splits/PAMAP2_split_1.npy"])
def test_a_truncated_file_is_refused(tree, name):
    path = tree / "PAM" / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=rf"{name} is no array that can be read .*: fetch it again"):
        load_pam(root=tree)


def test_a_file_that_is_no_array_is_refused(tree):
    (tree / "PAM/processed_data/arr_outcomes.npy").write_text("not here, sorry, ask again later")
    with pytest.raises(DataError, match=r"arr_outcomes.npy is no array that can be read \(.*magic"):
        load_pam(root=tree)


def test_a_newer_format_is_refused(tree):
    (tree / "PAM/processed_data/arr_outcomes.npy").write_bytes(b"\x93NUMPY\x03\x00" + bytes(100))
    with pytest.raises(DataError, match=r"version \(3, 0\) of the format"):
        load_pam(root=tree)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("PTdict_list", np.zeros((N, T)), r"array of shape \(20, 6\), expected \(series, time, channel\)"),
        ("PTdict_list", np.zeros((N, T, 0)), r"array of shape \(20, 6, 0\), expected"),
        ("PTdict_list", objects([{"arr": 1}] * N), "PTdict_list.npy holds objects that make no array of numbers"),
        ("PTdict_list", objects([np.zeros((T, D))] * (N - 1) + [np.zeros((T, 1))]), "make no array of numbers"),
        ("arr_outcomes", np.zeros((N - 1, 1)), r"labels of shape \(19, 1\) for 20 series"),
        ("arr_outcomes", np.array(3.0), r"labels of shape \(\) for 20 series"),
        ("arr_outcomes", np.arange(N)[:, None], r"label of row 8 of .*arr_outcomes.npy is 8, expected an integer"),
        ("arr_outcomes", np.full((N, 1), 0.5), "label of row 0 of .* is 0.5, expected an integer from 0 to 7"),
        ("arr_outcomes", objects([np.array([0, "a"], dtype=object)] * N), "make no array of numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tree, name, array, message):
    np.save(tree / f"PAM/processed_data/{name}.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        load_pam(root=tree)


def test_labels_may_be_one_column_without_a_table(tree):
    np.save(tree / "PAM/processed_data/arr_outcomes.npy", np.arange(N) % 8)
    assert load_pam(root=tree).test.y.tolist() == [row % 8 for row in make_arrays()[2][0][2]]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(tree, value):
    x, _, _ = make_arrays()
    x[11, 0, 2] = value
    np.save(tree / "PAM/processed_data/PTdict_list.npy", x)
    with pytest.raises(
        DataError, match=r"Row 11 of processed_data/PTdict_list.npy holds values that are not finite"
    ):
        load_pam(root=tree)


def test_a_channel_without_positive_training_values_has_no_published_form(tree):
    x, _, splits = make_arrays()
    x[..., 1] = -1.0
    x[splits[0][2], :, 1] = 1.0
    np.save(tree / "PAM/processed_data/PTdict_list.npy", x)
    with pytest.raises(DataError, match="Sensor 1 of PAM has no positive training value"):
        load_pam(root=tree, variant="published")
    assert load_pam(root=tree).train.x.isfinite().all()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([np.arange(14), np.arange(14, 16)], "holds 2 arrays, expected three"),
        ([np.arange(14), np.arange(14, 16), np.arange(16, 19)], "hold 19 from 0 to 18, 19 of them distinct"),
        ([np.arange(14), np.arange(13, 15), np.arange(16, 20)], "hold 20 from 0 to 19, 19 of them distinct"),
        ([np.arange(14), np.arange(14, 16), np.arange(17, 21)], "each row from 0 to 19 once"),
        ([np.arange(14), np.arange(14, 16), np.arange(16.0, 20.0)], r"holds float64 of shape \(4,\)"),
        ([np.arange(14), np.arange(14, 16), np.arange(16, 20)[:, None]], r"holds int64 of shape \(4, 1\)"),
        (["train", "val", "test"], "where the rows of a split"),
    ],
)
def test_splits_that_are_no_partition_are_refused(tree, parts, message):
    np.save(tree / "PAM/splits/PAMAP2_split_1.npy", objects(parts), allow_pickle=True)
    with pytest.raises(DataError, match=message):
        load_pam(root=tree)
    assert len(load_pam(root=tree, fold=1).test) == 4  # the other splits are as they were


def test_a_split_that_is_one_number_is_refused(tree):
    np.save(tree / "PAM/splits/PAMAP2_split_1.npy", np.array(7))
    with pytest.raises(DataError, match="holds 1 arrays, expected three"):
        load_pam(root=tree)


def write_archive(tree, y, splits):
    parts = {
        f"split{number}_{name}": rows.astype(np.int16)
        for number, split in enumerate(splits, start=1)
        for name, rows in zip(PARTS, split, strict=True)
    }
    np.savez(tree / "PAM/pam_labels_splits.npz", y=y.astype(np.int8), **parts)


def test_the_archive_of_splits_stands_in_for_the_split_files(tree):
    _, y, splits = make_arrays()
    plain = load_pam(root=tree, fold=2)
    write_archive(tree, y[:, 1], [[rows[::-1] for rows in split] for split in splits])
    assert torch.equal(load_pam(root=tree, fold=2).train.ids, plain.train.ids)  # the files come first
    shutil.rmtree(tree / "PAM/splits")
    data = load_pam(root=tree, fold=2)
    assert data.train.ids.tolist() == plain.train.ids.tolist()[::-1]
    torch.testing.assert_close(data.test.x.flip(0), plain.test.x)
    write_archive(tree, (y[:, 1] + 1) % 8, splits)
    with pytest.raises(DataError, match=r"pam_labels_splits.npz are not those in processed_data/arr_outcomes.npy"):
        load_pam(root=tree, fold=2)
    write_archive(tree, y[:5, 1], splits)
    with pytest.raises(DataError, match="its splits belong to other series"):
        load_pam(root=tree, fold=2)


def test_a_damaged_archive_of_splits_is_refused(tree):
    shutil.rmtree(tree / "PAM/splits")
    path = tree / "PAM/pam_labels_splits.npz"
    np.savez(path, y=np.zeros(3))
    with pytest.raises(DataError, match=r"pam_labels_splits.npz cannot be read \(.*split1_train"):
        load_pam(root=tree)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"pam_labels_splits.npz cannot be read .*: fetch it again"):
        load_pam(root=tree)


@pytest.mark.parametrize(
    "name", ["processed_data/PTdict_list.npy", "processed_data/arr_outcomes.npy", "splits/PAMAP2_split_1.npy"]
)
def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(tree, name):
    (tree / "PAM" / name).unlink()
    with pytest.raises(
        DataError, match=rf"PAM is not in .*: put it at .*PAM/{name}.*Get it from the data of TimeX"
    ):
        load_pam(root=tree)


def test_wrong_folds_and_variants_are_refused(tree):
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4 or None, got 5"):
        load_pam(root=tree, fold=5)
    with pytest.raises(UnknownNameError, match="variant of pam is called 'zeros'"):
        load_pam(root=tree, variant="zeros")


def test_the_published_splits_and_labels(data_root, tmp_path):
    """Known counts: 5,333 windows in eight classes, splits of 4266, 533 and 534."""
    source = data_root / "PAM/pam_labels_splits.npz"
    y = np.load(source)["y"]
    (tmp_path / "PAM/processed_data").mkdir(parents=True)
    shutil.copy(source, tmp_path / "PAM")
    np.save(tmp_path / "PAM/processed_data/arr_outcomes.npy", y[:, None])
    np.save(tmp_path / "PAM/processed_data/PTdict_list.npy", np.arange(5333.0).reshape(-1, 1, 1))
    assert np.bincount(y).tolist() == [1199, 627, 547, 644, 829, 311, 599, 577]
    for fold in range(5):
        data = load_pam(root=tmp_path, fold=fold)
        assert (len(data.train), len(data.validation), len(data.test)) == (4266, 533, 534)
        ids = torch.cat([data.train.ids, data.validation.ids, data.test.ids])
        assert ids.sort().values.tolist() == list(range(5333))
        labels = torch.cat([data.train.y, data.validation.y, data.test.y])
        assert torch.equal(labels, torch.from_numpy(y.astype(np.int64))[ids])
    whole = load_pam(root=tmp_path)
    assert (len(whole.train), len(whole.test)) == (4799, 534)
