"""Files of series, sound and damaged: the same seed gives the same bytes."""

import gzip
import io
import random
import struct
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch
from numpy.lib import format as npy

import tempograd as tg
from tests.fuzz.trials import sentence

SERIES, STEPS = 3, 4
NAMES = ("bed 7", "bed 3", "bed 12")
LABELS = ("well", "ill", "well")
X = np.arange(SERIES * STEPS * 2, dtype=np.float64).reshape(SERIES, STEPS, 2) / 8 - 1  # exact in single precision


class SeriesFile(NamedTuple):
    """A file as bytes, the name it gets, and what :func:`tempograd.read_series` is told about it."""

    name: str
    content: bytes
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    what: str = "sound"

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_bytes(self.content)
        return path


# --- sound files -----------------------------------------------------------------------------------------------


def sound_files(folder: Path) -> list[SeriesFile]:
    """One file of every kind, all of the series ``X``; Parquet is written to ``folder`` first."""
    return [
        SeriesFile("long.csv", long_csv()),
        SeriesFile("wide.csv", wide_csv()),
        SeriesFile("packed.csv.gz", gzip.compress(long_csv(), mtime=0)),
        SeriesFile("text.ts", ts_text()),
        SeriesFile("array.npy", npy_bytes(X)),
        SeriesFile("plain.npz", npz_bytes(zipfile.ZIP_STORED)),
        SeriesFile("packed.npz", npz_bytes(zipfile.ZIP_DEFLATED)),
        *(SeriesFile(f"{packed}.parquet", parquet_bytes(folder, packed)) for packed in ("zstd", "uncompressed")),
    ]


def long_csv() -> bytes:
    rows = ["id,time,a,b,label"]
    for name, label, steps in zip(NAMES, LABELS, X, strict=True):
        rows += [f'"{name}",{t},{a!r},{b!r},{label}' for t, (a, b) in enumerate(steps.tolist())]
    return "\n".join([*rows, ""]).encode()


def wide_csv() -> bytes:
    rows = [f"id,{','.join(f't{t}' for t in range(STEPS))},label"]
    for name, label, steps in zip(NAMES, LABELS, X, strict=True):
        rows.append(f"{name},{','.join(map(repr, steps[:, 0].tolist()))},{label}")
    return "\n".join([*rows, ""]).encode()


def ts_text() -> bytes:
    lines = ["@problemName ward", "@timeStamps false", "@univariate false", "@dimensions 2"]
    lines += ["@equalLength true", f"@seriesLength {STEPS}", "@classLabel true ill well", "@data"]
    for label, steps in zip(LABELS, X, strict=True):
        lines.append(":".join([*(",".join(map(repr, column)) for column in steps.T.tolist()), label]))
    return "\n".join([*lines, ""]).encode()


def npy_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz_bytes(method: int) -> bytes:
    arrays = {"x": X, "mask": np.ones_like(X), "y": np.array(LABELS), "ids": np.array(NAMES)}
    arrays |= {"channels": np.array([b"a", b"b"]), "times": np.arange(STEPS)}
    return zip_bytes({f"{name}.npy": npy_bytes(array) for name, array in arrays.items()}, method)


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def parquet_bytes(folder: Path, packed: str) -> bytes:
    source, target = folder / "source.csv", folder / "target.parquet"
    source.write_bytes(long_csv())
    pq.write_table(
        pa_csv.read_csv(source),
        target,
        compression="none" if packed == "uncompressed" else packed,
        row_group_size=5,
    )
    return target.read_bytes()


# --- lying headers ---------------------------------------------------------------------------------------------


def lying_npy(descr: object, shape: object, *, fortran: object = False, body: bytes = b"") -> bytes:
    """An array file that says whatever it is told to say."""
    return odd_header(f"{{'descr': {descr!r}, 'fortran_order': {fortran!r}, 'shape': {shape!r}, }}", body)


def odd_header(text: str, body: bytes = b"") -> bytes:
    return npy.magic(1, 0) + struct.pack("<H", len(text)) + text.encode("latin-1") + body


SHAPES = (
    *((10**6, 10**6, 10**3), (10**30, 0, 1), (2**62, 4, 2), (2**63, 1, 1), (1,) * 70, (0, 4, 2), ()),
    *((-1, 4, 2), (3, -4, -2), (3, 4, 2.0), (3, 4, "2"), (3, 4, 1), (3, 4, 3), (True, 12, 2), [3, 4, 2], 24, None),
)
KINDS = (
    *("<f2", ">f8", "<f16", "<c16", "|O", "<M8[ns]", "<m8[s]", "|V8", "<U2", "|S8", "|b1", "<i8", "<u8", "<f3"),
    *("<U999999999", "f8,f8", "", "'", 8, [("a", "<f8")], ("<f8", (2,)), {"names": ["a"], "formats": ["<f8"]}),
)
HEADERS = (
    *("{" * 400, "(" * 9000, "1" * 9000, "'\\d'", "{'descr': '<f8'", "{1: 2L}", "b'\xff'", "__import__('os')"),
    "",
)


def lying_headers() -> Iterator[SeriesFile]:
    """Headers of arrays that promise what is not there, or what nobody can keep."""
    body = X.tobytes()
    for shape in SHAPES:
        content = lying_npy("<f8", shape, body=body)
        yield SeriesFile("lying.npy", content, what=f"shape {shape}")
        packed = zip_bytes({"x.npy": content}, zipfile.ZIP_DEFLATED)
        yield SeriesFile("lying.npz", packed, what=f"member of shape {shape}")
    for kind in KINDS:
        yield SeriesFile("kind.npy", lying_npy(kind, X.shape, body=body), what=f"type {kind}")
    for order in (True, 1, "yes", None):
        yield SeriesFile("order.npy", lying_npy("<f8", X.shape, fortran=order, body=body), what=f"order {order}")
    for text in HEADERS:
        yield SeriesFile("text.npy", odd_header(text, body), what=f"header {text[:20]}")
    for version in ((1, 1), (2, 0), (3, 0), (9, 9)):
        yield SeriesFile("version.npy", npy.magic(*version) + npy_bytes(X)[8:], what=f"version {version}")


def odd_archives() -> Iterator[SeriesFile]:
    """Zip files that are sound to nobody, or not what they seem."""
    sound = {"x.npy": npy_bytes(X)}
    plain = zip_bytes(sound)
    for offset, value, what in ((8, 99, "compression"), (6, 1, "encryption"), (4, 255, "version")):
        content = bytearray(plain)
        for start, shift in ((plain.index(b"PK\3\4"), 0), (plain.index(b"PK\1\2"), 2)):
            struct.pack_into("<H", content, start + offset + shift, value)
        yield SeriesFile("odd.npz", bytes(content), what=f"unknown {what}")
    yield SeriesFile("odd.npz", zip_bytes({"x.npz": plain}), what="an archive inside")
    yield SeriesFile("odd.npz", zip_bytes({"x.npy": plain}), what="an archive called array")
    yield SeriesFile("odd.npz", zip_bytes({}), what="nothing inside")
    yield SeriesFile("odd.npz", zip_bytes({"y.npy": npy_bytes(X)}), what="no x")
    odd = {
        "times": np.array(5),
        "channels": np.array([["a", "b"]]),
        "ids": np.array([1.5, 2, 3]),
        "y": np.array([np.nan, 0, 1]),
        "mask": np.ones((3, 4)),
        "truth": np.full(X.shape, 7),
    }
    for name, array in odd.items():
        yield SeriesFile("odd.npz", zip_bytes(sound | {f"{name}.npy": npy_bytes(array)}), what=f"odd {name}")
    for name in ("ids", "channels", "times", "y"):
        text = npy_bytes(np.array([b"\xff\xfe", b"b", b"c"]))
        yield SeriesFile("odd.npz", zip_bytes(sound | {f"{name}.npy": text}), what=f"{name} that is no UTF-8")
        text = npy_bytes(np.array(["ab", "c", "d"])).replace("a".encode("utf-32-le"), b"\xff\xff\xff\x7f")
        yield SeriesFile("odd.npz", zip_bytes(sound | {f"{name}.npy": text}), what=f"{name} beyond Unicode")


ODD_TEXT = (
    b"",
    b"\n",
    b"\r",
    b"\0" * 100,
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"id",
    b"id,time,a",
    b"id,time,a\n",
    b"id,time,a\n\n\n",
    b",,,\n1,2,3,4\n",
    b"a,a,a\n1,2,3\n",
    b"id,time,a\n1,0\n",
    b"id,time,a\n1,0,5,6\n",
    b'id,time,a\n1,0,"5\n',
    b'id,time,a\n1,0,"5\n1,1,6\n',
    b'id,time,a,label\n1,0,5,"ill\n2,0,6,well\n',
    b'"id,time,a\n1,0,5\n',
    b"id,time,a\n1,0," + b"7" * 140_000 + b"\n",
    b"id,time,a\n" + b"i" * 140_000 + b",0,1\n",
    b"id,time,a\n1,0," + b"7" * 130_000 + b"x\n",
    b"t" + b"1" * 130_000 + b",t2\n1,2\n",
    b"id,time," + b"c" * 130_000 + b"\n1,0,x\n",
    b"id,time,\x1b[31mred\n1,0,\x1b]0;title\x07\n",
    b"id,time,a\n1,0,\0\n",
    b"id,time,a\r1,0,5\r1,1,6\r",
    "id,time,a\n1,0,5\n".encode("utf-16"),
    "id,time,a\n1,0,5\n".encode("utf-16-le"),
    "id,time,a\n1,0,5\n".encode("utf-32"),
    "id,time,ä\n1,0,5\n".encode("latin-1"),
    "id,time,a\n²,0,5\n--5,0,6\n".encode(),
    "\ufeffid,time,a\n1,0,5\n".encode(),
    b"@data",
    b"@data\n",
    b"@data\n1,2\n3\n",
    b"@data\n1,2:3\n3:4:5\n",
    b"@classLabel maybe\n@data\n1,2:3\n",
    b"@dimensions 99999999999999999999999\n@data\n1,2\n",
    b"@dimensions -1\n@data\n1,2\n",
    b"@classLabel true\n@data\n" + b":" * 5000 + b"\n",
    b"@data\n" + b"," * 5000 + b"\n",
    b"@data\n" + b"8" * 200_000 + b"\n",
    b"PAR1PAR1",
    b"PAR1" + b"\xff" * 60 + b"\xff\xff\xff\x7fPAR1",
    b"PK\x05\x06" + b"\0" * 18,
    b"\x93NUMPY",
    b"\x93NUMPY\x01\x00\xff\xff{",
)
ENDINGS = ("csv", "tsv", "csv.gz", "ts", "ts.gz", "npy", "npz", "parquet")


def odd_content() -> Iterator[SeriesFile]:
    """Content that belongs to one kind of file or to none, under the endings of all."""
    for number, content in enumerate(ODD_TEXT):
        for ending in ENDINGS:
            packed = gzip.compress(content, mtime=0) if ending.endswith(".gz") and number % 2 else content
            yield SeriesFile(f"odd.{ending}", packed, what=f"odd content {content[:20]!r}")


# --- damage ----------------------------------------------------------------------------------------------------


def damaged_files(sound: list[SeriesFile], count: int, seed: int) -> Iterator[SeriesFile]:
    """``count`` damaged copies, of each file and each kind of damage in turn."""
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        file = sound[number % len(sound)]
        damage = DAMAGES[number // len(sound) % len(DAMAGES)]
        content = damage(bytearray(file.content), chance)
        yield file._replace(content=bytes(content), what=f"{damage.__name__.strip('_')} {seed} {number}")


def _one_bit(content: bytearray, chance: random.Random) -> bytearray:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def _first_bytes(content: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.randint(1, 3)):
        content[chance.randrange(min(130, len(content)))] = chance.randrange(256)
    return content


def _last_bytes(content: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.randint(1, 3)):
        content[-chance.randint(1, min(600, len(content)))] = chance.randrange(256)
    return content


def _many_bytes(content: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.randint(2, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return content


def _cut(content: bytearray, chance: random.Random) -> bytearray:
    return content[: chance.randrange(len(content))]


def _inserted(content: bytearray, chance: random.Random) -> bytearray:
    place = chance.randrange(len(content))
    content[place:place] = chance.choice((b'"', b"\0", b"\n", b",", b"\xff", b"\r", b":", chance.randbytes(9)))
    return content


def _taken_out(content: bytearray, chance: random.Random) -> bytearray:
    place = chance.randrange(len(content))
    del content[place : place + chance.randint(1, 20)]
    return content


def _swapped(content: bytearray, chance: random.Random) -> bytearray:
    one, two = chance.randrange(len(content)), chance.randrange(len(content))
    content[one], content[two] = content[two], content[one]
    return content


def _doubled(content: bytearray, chance: random.Random) -> bytearray:
    place = chance.randrange(len(content))
    content[place:place] = content[place : place + chance.randint(1, 200)]
    return content


def _wiped(content: bytearray, chance: random.Random) -> bytearray:
    place, size = chance.randrange(len(content)), chance.randint(1, 30)
    content[place : place + size] = chance.choice((b"\0", b"\xff")) * len(content[place : place + size])
    return content


DAMAGES = (
    _one_bit,
    _first_bytes,
    _last_bytes,
    _many_bytes,
    _cut,
    _inserted,
    _taken_out,
    _swapped,
    _doubled,
    _wiped,
)


# --- what must be true of whatever comes back ------------------------------------------------------------------


def read(path: Path, **options: Any) -> "tg.Series | str":
    """Read a file: series whose parts fit each other, or the one sentence that says why there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tg.TempogradWarning)
        try:
            found = tg.read_series(path, **options)
        except tg.TempogradError as error:
            return one_sentence(str(error))
    count, steps, channels = found.shape
    assert min(found.shape) > 0
    padded = found.padded()
    assert bool(padded.x.isfinite().all())
    assert padded.mask is None or (padded.mask.shape == padded.x.shape and padded.mask.dtype == torch.bool)
    assert found.y is None or found.y.shape in {(count,), (count, steps)}
    assert found.y is None or bool(found.y.isfinite().all())
    assert len(set(found.keys.tolist())) == count
    own = found.times is not None and not isinstance(found.times[0], str)
    assert not own or len(found.times) == count
    stamps = [(times, steps) for times in (found.times if own else [found.times])]
    for names, size in (
        (found.ids if isinstance(found.ids, tuple) else None, count),
        (found.channels, channels),
        (found.units, channels),
        *stamps,
    ):
        assert names is None or len(names) == size
        assert all(isinstance(name, str) and name.encode() is not None for name in names or ())
    if found.classes is not None:
        assert 0 <= int(found.y.min()) <= int(found.y.max()) < len(found.classes)
    return found


def one_sentence(message: str) -> str:
    """Return a message that people can read in a terminal, and fail for any other."""
    fault = sentence(message)
    assert not fault, fault
    return message
