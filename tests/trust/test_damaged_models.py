"""Damaged files of models: what was written, or one sentence, and not a word of torch's on the way."""

import logging
import os
import random
import warnings
import zipfile
from contextlib import suppress

import pytest
import safetensors.torch
import torch
from torch import nn

import tempograd as tg
from tests.helpers.payloads import exported, swapped

SEED = 20261116
EACH = 50  # damaged files of each kind


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).eval()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Return by name: the whole file, how it is opened, and whether a checksum tells any damage to its numbers."""
    folder = tmp_path_factory.mktemp("whole")
    state = net().state_dict()
    torch.save(state, folder / "w.pt")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    safetensors.torch.save_file(state, folder / "w.safetensors")
    tg.save_model(tg.models.build("gru", 3, 2, hidden=2), folder / "m.safetensors")
    exported(folder / "m.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        torch.jit.save(torch.jit.script(net()), folder / "script.pt")
    return {
        "weights": (folder / "w.pt", weighted, True),
        "weights in the format of old": (folder / "old.pth", weighted, False),
        "weights in safetensors": (folder / "w.safetensors", weighted, False),
        "model": (folder / "m.safetensors", tg.load_model, False),
        "exported": (folder / "m.pt2", trusted, True),
        "scripted": (folder / "script.pt", trusted, True),
    }


@pytest.fixture
def logged():
    """Return what torch logs from here on, of which its own handler tells a stream that no test can read."""
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    loggers = [logging.getLogger(name) for name in ("torch", "torch.export")]
    for logger in loggers:
        logger.addHandler(handler)
    yield records
    for logger in loggers:
        logger.removeHandler(handler)


def weighted(path):
    return tg.load_model(f"{__name__}:net", weights=path)


def trusted(path):
    return tg.load_model(path, trust=True)


def damage(whole, rng):
    """Return a copy with something cut off, overwritten, left out, doubled or put behind."""
    size = len(whole)
    start = rng.randrange(size)
    stop = min(size, start + rng.choice([1, 1, 4, 64, 1024]))
    how = rng.choice(["flip", "flip", "flip", "cut", "zero", "drop", "double", "append", "swap"])
    if how == "flip":
        bad = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 16])):
            bad[rng.randrange(size)] ^= 1 << rng.randrange(8)
        return bytes(bad)
    return {
        "cut": whole[:start],
        "zero": whole[:start] + bytes(stop - start) + whole[stop:],
        "drop": whole[:start] + whole[stop:],
        "double": whole[:stop] + whole[start:],
        "append": whole + rng.randbytes(stop - start),
        "swap": whole[start:] + whole[:start],
    }[how]


NAMES = (
    "weights",
    "weights in the format of old",
    "weights in safetensors",
    "model",
    "exported",
    "scripted",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_as_it_was_or_refused_in_one_sentence(name, kinds, tmp_path, capfd, logged):
    whole, opened, summed = kinds[name]
    expected = opened(whole).state_dict()
    assert expected
    content, rng, refused = whole.read_bytes(), random.Random(f"{SEED} {name}"), 0
    path = tmp_path / whole.name
    for number in range(EACH):
        path.write_bytes(damage(content, rng))
        try:
            found = opened(path).state_dict()
        except tg.TempogradError as error:
            refused += 1
            message = str(error).replace(str(path), "FILE")
            assert "\n" not in message
            assert len(message) <= 300
        else:
            for key, value in found.items() if summed else ():
                assert torch.equal(value, expected[key]), f"{number} of {name} reads as other numbers"
    assert refused > EACH // 4
    assert logged == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["weights", "exported"])
def test_damage_behind_right_checksums_is_read_or_refused_in_one_sentence(name, kinds, tmp_path, capfd, logged):
    """A part of an archive damaged before it was packed, or left out, so that torch gets to see it."""
    whole, opened, _ = kinds[name]
    rng, refused = random.Random(f"{SEED} {name} packed"), 0
    path = tmp_path / whole.name
    for _ in range(EACH):
        _repacked(whole, path, rng)
        try:
            opened(path)
        except tg.TempogradError as error:
            refused += 1
            message = str(error).replace(str(path), "FILE")
            assert "\n" not in message
            assert len(message) <= 300
    assert refused > EACH // 4
    assert logged == []
    assert capfd.readouterr() == ("", "")


def _repacked(whole, path, rng):
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        bad = rng.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            if name != bad:
                new.writestr(name, content)
            elif rng.random() < 0.8:
                new.writestr(name, damage(content, rng))


@pytest.mark.parametrize("part", ["data.pkl", "constants.pkl", "version", ".py"])
def test_a_script_of_nonsense_is_refused_in_one_sentence(part, kinds, tmp_path, capfd):
    def delta(name, content):
        return b"\xff\xfe\x00" if name.endswith(part) else content

    path = swapped(kinds["scripted"][0], tmp_path / "bad.pt", delta)
    with pytest.raises(tg.TempogradError, match=r"cannot be read by torch .*: it is damaged"):
        trusted(path)
    assert capfd.readouterr() == ("", "")


def test_flipped_numbers_of_weights_and_programs_are_seen(kinds, tmp_path):
    """Each byte of a weight, where the archive keeps a checksum, which torch does not look at."""
    for name in ("weights", "exported", "scripted"):
        whole, opened, _ = kinds[name]
        content = whole.read_bytes()
        number = net()[1].weight.detach().numpy().tobytes() if name != "exported" else _first_weight(whole)
        place = content.index(number)
        path = tmp_path / whole.name
        path.write_bytes(content[: place + 3] + bytes([content[place + 3] ^ 1]) + content[place + 4 :])
        careless = {"weights": _by_torch, "exported": torch.export.load, "scripted": _by_jit}[name]
        with suppress(zipfile.BadZipFile):  # by torch 2.6 of exported ones
            careless(path)  # torch reads other numbers without a word
        with pytest.raises(tg.TempogradError, match="is damaged: a part of it does not match its checksum"):
            opened(path)


def _first_weight(path):
    return trusted(path).state_dict()["1.weight"].numpy().tobytes()


def _by_torch(path):
    return torch.load(path, weights_only=True)


def _by_jit(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(path)


def test_weights_without_checksums_are_read(tmp_path):
    """As torch writes them after set_crc32_options(False), which is faster."""
    path, before = tmp_path / "w.pt", torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(net().state_dict(), path)
    finally:
        torch.serialization.set_crc32_options(before)
    assert torch.equal(weighted(path)[1].weight, net()[1].weight)


@pytest.mark.parametrize(
    "state",
    [
        {0: torch.zeros(2)},
        {"1.weight": torch.zeros(2, 6, device="meta"), "1.bias": torch.zeros(2)},
        {"1.weight": torch.zeros(2, 6).to_sparse(), "1.bias": torch.zeros(2)},
        {"1.weight": [1.0], "1.bias": torch.zeros(2)},
        {"state_dict": {"state_dict": 5}},
        [torch.zeros(2)],
        torch.zeros(2),
        5,
        None,
        {"1.weight" * 500: torch.zeros(2)},
        {},
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_weights_are_refused_in_one_sentence(state, tmp_path):
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(tg.TempogradError) as error:
        weighted(tmp_path / "w.pt")
    message = str(error.value).replace(str(tmp_path), "")
    assert "\n" not in message
    assert len(message) <= 300


def test_torch_logs_nothing_while_a_program_is_opened(kinds, tmp_path, logged):
    """A damaged program makes torch log a traceback of its own before it raises."""
    bad = tmp_path / "bad.pt2"
    _without_version(kinds["exported"][0], bad)
    with pytest.raises((RuntimeError, KeyError)) as error:
        torch.export.load(bad)
    if error.type is RuntimeError:  # torch 2.6 raises a KeyError without a word
        assert "Ran into the following error" in logged.pop(0).getMessage()
    logged.clear()
    with pytest.raises(tg.TempogradError, match="cannot be read by torch"):
        trusted(bad)
    assert logged == []
    logging.getLogger("torch.export").warning("afterwards")
    assert [record.getMessage() for record in logged] == ["afterwards"]


def _without_version(whole, bad):
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            if name != "version" and not name.endswith("archive_version"):  # the former by torch 2.6
                new.writestr(name, old.read(name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_files_that_are_none(tmp_path):
    """Folders, pipes and names that no file can have."""
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "folder.pt2").mkdir()
    (tmp_path / "empty.pt").write_bytes(b"")
    cases = {
        "pipe.pt": "does not exist or is no file",
        "folder.pt2": "does not exist or is no file",
        "empty.pt": "is no file of torch.jit.save",
        "x" * 300 + ".pt": "does not exist",
        "a\0b.pt2": "does not exist",
        "empty.pt/below.pt": "does not exist",
        "a\nb.pt": "does not exist",
    }
    for name, expected in cases.items():
        for opened in (trusted, weighted):
            with pytest.raises(tg.TempogradError) as error:
                opened(f"{tmp_path}/{name}")
            assert "\n" not in str(error.value)
            assert len(str(error.value)) <= 300
            if opened is trusted or "empty" not in name:
                assert expected in str(error.value)
