"""The source files of the paper's data sets, damaged with a seed: read, or refused in one sentence."""

import gzip
import io
import random
import tarfile
import zipfile

import numpy as np
import pytest

import tempograd as tg
from tempograd_paper.datasets.pam import _archived_split
from tempograd_paper.datasets.physionet2012 import OUTCOME_HEADER, RANGES, read_outcomes, read_records
from tempograd_paper.datasets.restricted_pickle import read_npy
from tempograd_paper.datasets.text_tables import numbers, read_csv
from tempograd_paper.datasets.ucr import _read
from tests.fuzz.series_files import DAMAGES, X, npy_bytes, one_sentence, zip_bytes

pytestmark = pytest.mark.slow

RECORD = b"Time,Parameter,Value\n00:00,RecordID,132539\n00:07,GCS,15\n01:07,HR,73\n"
SERIES = b"1\t0.5\t0.25\n-1\t0.1\t0.2\n"


def tape():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("set-a/132539.txt")
        member.size = len(RECORD)
        archive.addfile(member, io.BytesIO(RECORD))
    return file.getvalue()


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([np.arange(3), np.arange(4)], dtype=object), allow_pickle=True)
    return file.getvalue()


def splits():
    parts = {
        "y": np.arange(3),
        "split1_train": np.arange(1),
        "split1_val": np.arange(1),
        "split1_test": np.arange(1),
    }
    return zip_bytes({f"{name}.npy": npy_bytes(part) for name, part in parts.items()})


def read_table(path):
    names, rows = read_csv(path)
    return numbers(rows, ",", names)


def read_stays(path):
    return read_records(path, tuple(RANGES))


def read_split(path):
    return _archived_split(path, 1, np.arange(3))


FILES = {
    "a.csv": (b"a,b\n1,2\n3,4\n", read_table),
    "a.tsv": (SERIES, _read),
    "a.txt.gz": (gzip.compress(SERIES, mtime=0), _read),
    "outcomes.txt": (f"{OUTCOME_HEADER}\n132539,6,1,5,-1,0\n".encode(), read_outcomes),
    "numbers.npy": (npy_bytes(X), read_npy),
    "objects.npy": (pickled(), read_npy),
    "stays.tar": (tape(), read_stays),
    "stays.tar.gz": (gzip.compress(tape(), mtime=0), read_stays),
    "stays.zip": (zip_bytes({"set-a/132539.txt": RECORD}, zipfile.ZIP_DEFLATED), read_stays),
    "splits.npz": (splits(), read_split),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_source_files(name, tmp_path):
    content, reader = FILES[name]
    path, refused = tmp_path / name, 0
    path.write_bytes(content)
    reader(path)
    for number in range(4 * len(DAMAGES)):
        damage, chance = DAMAGES[number % len(DAMAGES)], random.Random(f"{name}{number}")
        path.write_bytes(bytes(damage(bytearray(content), chance)))
        try:
            reader(path)
        except tg.TempogradError as error:
            one_sentence(str(error))
            refused += 1
    assert refused > 0
