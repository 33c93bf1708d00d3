"""Damaged files of series, drawn with a seed: the right answer, one whose parts fit, or one clear sentence."""

import os

import numpy as np
import pytest
import torch

from tests.fuzz.series_files import (
    DAMAGES,
    NAMES,
    X,
    damaged_files,
    lying_headers,
    odd_archives,
    odd_content,
    read,
    sound_files,
)

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("TEMPOGRAD_FUZZ_FILES", "300"))  # of those that are drawn
CHECKED = ("packed.csv.gz", "plain.npz", "packed.npz")
"""Files with a checksum of their content, whose numbers are those that were written or none."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return sound_files(tmp_path_factory.mktemp("sound"))


def failures(files, folder):
    """What is wrong with the answers for some files, all of them, so that one look is enough."""
    found, read_files = [], 0
    for file in files:
        try:
            answer = read(file.write(folder), **file.options)
            read_files += not isinstance(answer, str)
            if file.name in CHECKED and not isinstance(answer, str):
                assert torch.equal(answer.x.double(), torch.from_numpy(X)), "other numbers in spite of a checksum"
        except Exception as error:  # whatever comes is told with the file it came from
            found.append(f"{file.name}, {file.what}: {type(error).__name__}: {str(error)[:200]}")
    return found, read_files


def test_sound_files_of_every_kind_hold_the_same_series(sound, tmp_path):
    for file in sound:
        found = read(file.write(tmp_path), **file.options)
        wide = file.name == "wide.csv"
        assert torch.equal(found.x.double(), torch.from_numpy(X[..., :1] if wide else X)), file.name
        named = not file.name.endswith((".ts", ".npy"))
        assert (found.ids if named else found.ids.tolist()) == (NAMES if named else [0, 1, 2]), file.name
        assert (found.y is None) if file.name.endswith(".npy") else found.y.tolist() == [1, 0, 1], file.name


def test_damaged_files(sound, tmp_path):
    found, read_files = failures(damaged_files(sound, COUNT, seed=0), tmp_path)
    assert not found
    assert 0 < read_files < COUNT  # the damage is neither harmless nor total
    assert len(sound) * len(DAMAGES) <= COUNT  # each kind met each kind


def test_lying_headers(tmp_path):
    found, _ = failures(lying_headers(), tmp_path)
    assert not found


def test_odd_archives(tmp_path):
    found, read_files = failures(odd_archives(), tmp_path)
    assert (found, read_files) == ([], 0)


def test_odd_content_under_every_ending(tmp_path):
    found, read_files = failures(odd_content(), tmp_path)
    assert not found
    assert read_files > 0


def test_the_same_seed_damages_alike(sound):
    first, again, other = ([file.content for file in damaged_files(sound, 40, seed)] for seed in (1, 1, 2))
    assert first == again
    assert np.mean([one == two for one, two in zip(first, other, strict=True)]) < 0.2
