"""A prepared data set comes back as it was, and a file that is none says so."""

import json
import re
from dataclasses import fields

import pytest
import torch
from safetensors.torch import save_file

from tempograd.core.errors import DataError
from tempograd.data import Dataset, Series
from tempograd_paper.datasets.prepared import load_prepared, save_prepared

TENSORS = ("x", "y", "mask", "truth", "ids")


def split(series, seed, *, mask=True, truth=True, per_step=True):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(series, 2, 3, generator=random).transpose(1, 2)  # not contiguous, as many loaders leave it
    labels = (series, 3) if per_step else (series,)
    return Series(
        x,
        torch.randint(4, labels, generator=random),
        mask=torch.rand(x.shape, generator=random) < 0.5 if mask else None,
        truth=torch.rand(x.shape, generator=random) < 0.5 if truth else None,
        ids=torch.randperm(50, generator=random)[:series],
    )


def assert_same(found, expected):
    assert (found is None) == (expected is None)
    for name in TENSORS if expected is not None else ():
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None), name
        assert ours is None or (ours.dtype == theirs.dtype and torch.equal(ours, theirs)), name


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "toy.safetensors"


def test_every_field_comes_back(path):
    scaling = {"centre": torch.rand(3, 2).T.contiguous().T, "scale": torch.rand(2).double(), "units": ("", "µV")}
    data = Dataset("toy", split(5, 0), split(2, 1), split(3, 2), 4, ("a", "ß"), variant="paper", **scaling)
    assert save_prepared(data, path) == path
    found = load_prepared(path)
    for part in ("train", "validation", "test"):
        assert_same(getattr(found, part), getattr(data, part))
    plain = [
        field.name
        for field in fields(Dataset)
        if field.name not in {"train", "validation", "test", "centre", "scale"}
    ]
    for name in ("centre", "scale"):
        assert torch.equal(getattr(found, name), scaling[name])
        assert getattr(found, name).dtype == scaling[name].dtype
    assert {name: getattr(found, name) for name in plain} == {
        "name": "toy",
        "classes": 4,
        "channels": ("a", "ß"),
        "variant": "paper",
        "units": ("", "µV"),
    }
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_parts_that_are_none_stay_none(path):
    train = split(5, 0, mask=False, truth=False, per_step=False)
    data = Dataset("toy", train, None, split(3, 1, truth=False, per_step=False), 4, ("a", "b"))
    found = load_prepared(save_prepared(data, path))
    assert found.variant == "default"
    assert (found.centre, found.scale, found.units) == (None, None, None)
    assert found.validation is None
    assert_same(found.train, data.train)
    assert_same(found.test, data.test)


def test_parts_may_share_their_series(path):
    whole = split(6, 0)
    data = Dataset("toy", whole, whole.take(slice(2)), whole, 4, ("a", "b"))
    found = load_prepared(save_prepared(data, path))
    assert_same(found.train, whole)
    assert_same(found.test, whole)
    assert found.validation.ids.tolist() == whole.ids[:2].tolist()


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    data = Dataset("toy", split(5, 0), None, split(3, 2), 4, ("a", "b"))
    save_prepared(data, path)
    before = path.read_bytes()

    def half(tensors, target, header):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("tempograd_paper.datasets.prepared.save_file", half)
    with pytest.raises(OSError, match="disk full"):
        save_prepared(data, path)
    assert path.read_bytes() == before


def test_a_missing_file_is_named(path):
    with pytest.raises(DataError, match=rf"^{re.escape(str(path))} does not exist\.$"):
        load_prepared(path)


def plain(**changes):
    return {
        "tempograd": json.dumps({"name": "toy", "classes": 4, "channels": ["a", "b"], "variant": "v"} | changes)
    }


def test_files_from_before_units_were_kept_still_load(path):
    path.parent.mkdir()
    save_file(tensors(), path, plain())
    found = load_prepared(path)
    assert found.channels == ("a", "b")
    assert (found.centre, found.scale, found.units) == (None, None, None)
    assert torch.equal(found.raw(found.test), torch.zeros(2, 3, 2).double())


def tensors(**changes):
    x, y, ids = torch.zeros(2, 3, 2), torch.zeros(2, dtype=torch.long), torch.arange(2)
    parts = {
        f"{part}.{name}": value.clone()
        for part in ("train", "test")
        for name, value in (("x", x), ("y", y), ("ids", ids))
    }
    return {name: value for name, value in (parts | changes).items() if value is not None}


DAMAGE = {
    "no header": (tensors(), None),
    "another header": (tensors(), {"format": "tempograd-model-1"}),
    "no JSON": (tensors(), {"tempograd": "{"}),
    "a field is missing": (tensors(), {"tempograd": '{"name": "toy"}'}),
    "a field is unknown": (tensors(), plain(colour="red")),
    "channels are no list": (tensors(), plain(channels=2)),
    "too few channels": (tensors(), plain(channels=["a"])),
    "too many units": (tensors(), plain(units=["a", "b", "c"])),
    "a centre without a scale": (tensors(centre=torch.zeros(2)), plain()),
    "labels out of range": (tensors(**{"test.y": torch.tensor([0, 4])}), plain()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_another_safetensors_file_is_refused(path, kind):
    path.parent.mkdir()
    save_file(DAMAGE[kind][0], path, DAMAGE[kind][1])
    with pytest.raises(DataError, match=r"toy.safetensors is no prepared data set or is damaged: remove it and"):
        load_prepared(path)


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", "half"])
def test_a_damaged_file_is_refused(path, content):
    save_prepared(Dataset("toy", split(5, 0), None, split(3, 2), 4, ("a", "b")), path)
    path.write_bytes(path.read_bytes()[:-40] if content == "half" else content)
    with pytest.raises(DataError, match=r"toy.safetensors is no prepared data set or is damaged: remove it and"):
        load_prepared(path)


def test_a_folder_is_refused(path):
    path.mkdir(parents=True)
    with pytest.raises(DataError, match=r"toy.safetensors is no prepared data set or is damaged: remove it and"):
        load_prepared(path)
