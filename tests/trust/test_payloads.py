"""No file runs code unless it is trusted: each kind holds a payload that does run when it is opened carelessly."""

import contextlib
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from pyarrow import parquet
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tempograd.explanation.files import checksum
from tempograd_paper.datasets.prepared import load_prepared
from tempograd_paper.datasets.restricted_pickle import read_npy
from tempograd_paper.runner import load_plan
from tempograd_paper.runner.record import Record
from tempograd_paper.tables.archive import load_records
from tests.helpers.payloads import (
    SAMPLE_INPUTS,
    Touches,
    evaluating,
    exported,
    expression,
    pickled,
    saved_by_torch,
    scripted,
    scripted_load,
    swapped,
)

SIZES = {"ids": 3, "times": 4, "channels": 3, "units": 3, "classes": 2}
FREE = ("method", "fingerprint", "version", "target_text", "names", "times", "channels", "units", "classes")
ENDINGS = (".pt", ".pth", ".pt2", ".torchscript", ".jit", ".ckpt", ".pkl", ".pickle", ".safetensors", ".bin", "")


@pytest.fixture
def marker(tmp_path):
    folder = tmp_path / "markers"
    folder.mkdir()
    return folder / "it-ran"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("program") / "m.pt2")


def runs(marker, opened):
    """Open a file carelessly and see its payload run, so that the tests below mean something."""
    with contextlib.suppress(Exception):  # what comes after the payload does not matter
        opened()
    assert marker.exists(), "the payload is none"
    marker.unlink()


def refused(opened, *marks):
    """Return the one sentence that a file is refused with."""
    with pytest.raises(tg.TempogradError) as error:
        opened()
    message = str(error.value)
    assert "\n" not in message
    assert len(message) <= 300 + 120, message  # 120 of which are the path
    for mark in marks:
        assert mark in message
    return message


def test_an_exported_program_runs_only_if_trusted(marker, program, tmp_path, capsys):
    evil = evaluating(marker, program, tmp_path / "evil.pt2")
    runs(marker, lambda: torch.export.load(evil))
    message = refused(lambda: tg.load_model(evil))
    assert message.endswith(
        "evil.pt2 is a program of torch.export.save, which can run code as soon as it is opened, so it was not "
        "loaded: pass trust=True if you trust whoever made it."
    )
    assert not marker.exists()
    for command in (["explain", "--data", "state"], ["evaluate", "e.safetensors"], ["report", "e.safetensors"]):
        _stored(tmp_path)
        argv = [*command, "--model", str(evil)]
        argv = [str(tmp_path / word) if word == "e.safetensors" else word for word in argv]
        assert main(argv) == 3
        assert "so it was not loaded: pass --trust if you trust whoever made it." in capsys.readouterr().err
    assert not marker.exists()


def test_a_refusal_after_trust_does_not_claim_that_nothing_ran(marker, program, tmp_path):
    """The payload of a trusted file runs, and what is said then must be true."""
    evil = evaluating(marker, program, tmp_path / "evil.pt2")
    message = refused(lambda: tg.load_model(evil, trust=True), "cannot be read by torch")
    assert marker.exists()
    assert "without running" not in message
    assert "not run" not in message


def test_a_torchscript_program_runs_only_if_trusted(marker, tmp_path):
    evil = scripted(marker, tmp_path / "evil.pt")
    runs(marker, lambda: scripted_load(evil))
    runs(marker.with_name(f"{marker.name}-called"), lambda: scripted_load(evil)(torch.ones(1, 2, 3)))
    marker.unlink()
    for ending in (".pt", ".pth", ".PT", ".jit", ".torchscript"):
        path = evil.rename(evil.with_suffix(ending)) if evil.suffix != ending else evil
        evil = path
        refused(lambda: tg.load_model(path), "of torch.jit.save, which can run code", "pass trust=True")  # noqa: B023
        refused(lambda: tg.load_model("torch.nn:Flatten", weights=path), "holds no weights that can be read")  # noqa: B023
    assert not marker.exists()
    tg.load_model(evil, trust=True)
    assert marker.exists()


def test_trusted_programs_still_unpickle_nothing(marker, program, tmp_path):
    bomb = saved_by_torch(marker, tmp_path / "bomb.pt").read_bytes()
    evil = swapped(program, tmp_path / "evil.pt2", lambda name, old: bomb if name.endswith(SAMPLE_INPUTS) else old)
    runs(marker, lambda: torch.export.load(evil))
    refused(lambda: tg.load_model(evil, trust=True), "or holds more than tensors")
    assert not marker.exists()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("write", [pickled, saved_by_torch])
def test_pickled_models_are_refused_with_and_without_trust(write, ending, marker, tmp_path):
    path = write(marker, tmp_path / f"model{ending}")
    content = io.BytesIO(path.read_bytes())
    careless = _unpickled if write is pickled else _loaded_by_torch
    runs(marker, lambda: careless(content))
    for trust in (False, True):
        refused(lambda: tg.load_model(path, trust=trust))  # noqa: B023
        refused(lambda: tg.load_model("torch.nn:Flatten", weights=path, trust=trust))  # noqa: B023
    refused(lambda: tg.Explanation.load(path))
    refused(lambda: Record.load(path))
    refused(lambda: load_prepared(path))
    (tmp_path / "plan.toml").write_bytes(content.getvalue())
    refused(lambda: load_plan(tmp_path / "plan.toml"))
    assert not marker.exists()


def test_weights_among_pickled_objects_are_refused(marker, tmp_path):
    path = saved_by_torch(marker, tmp_path / "checkpoint.pt", nested=True)
    runs(marker, lambda: torch.load(path, weights_only=False))
    refused(lambda: tg.load_model("torch.nn:Flatten", weights=path), "holds no weights that can be read without")
    assert not marker.exists()


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_series_with_objects_are_refused(ending, marker, tmp_path):
    path = tmp_path / f"x{ending}"
    objects = np.array([Touches(marker)], dtype=object)
    if ending == ".npy":
        np.save(path, objects, allow_pickle=True)
    else:
        np.savez(path, x=objects)
    runs(marker, lambda: np.asarray(_arrays(path)))
    refused(lambda: tg.read_series(path))
    assert not marker.exists()


def _arrays(path):
    found = np.load(path, allow_pickle=True)
    return found if isinstance(found, np.ndarray) else found["x"]


def test_a_header_of_python_is_refused(marker, tmp_path):
    path = tmp_path / "x.npy"
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, {expression(marker)})}}\n"
    runs(marker, lambda: _evaluated(header))
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8))
    refused(lambda: tg.read_series(path))
    refused(lambda: read_npy(path))
    assert not marker.exists()


def test_pickles_of_data_sets_run_nothing(marker, tmp_path):
    """All ways in which a pickle can have a function called, and all ways to change the stand-ins."""
    by_name = f"cposix\nmkdir\n(V{marker}\ntR.".encode()
    _unpickled(io.BytesIO(by_name))
    marker.rmdir()
    name, text = b"cposix\nmkdir\n", f"V{marker}\n".encode()
    stand_in, kind = b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\ndtype\n"
    payloads = [
        by_name,
        b"\x80\x04Vposix\nVmkdir\n\x93(" + text + b"tR.",
        b"(" + text + b"iposix\nmkdir\n.",
        b"(" + name + text + b"o.",
        b"\x80\x04" + name + b"(" + text + b"t}\x92.",
        b"\x80\x04Vnumpy\nVdtype.__class__\n\x93.",
        b"\x82\x01.",
        text + b"Q.",
        stand_in + b"N}V__call__\n" + kind + b"s\x86b.",
        stand_in + b"N}V__class__\n" + kind + b"s\x86b.",
        kind + b"}V__init__\n" + stand_in + b"sb.",
        kind + b"N}V__setstate__\n" + stand_in + b"s\x86b.",
    ]
    for payload in payloads:
        path = tmp_path / "file.npy"
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + payload)
        refused(lambda: read_npy(path))  # noqa: B023
        assert not marker.exists()


def test_text_that_is_python_stays_text(marker, tmp_path):
    """Tables, plans, archives and headers, with Python in every place that holds text."""
    evil = expression(marker)
    runs(marker, lambda: _evaluated(evil))
    files = {
        "header.csv": f'id,time,"{evil}"\n1,0,2.5\n1,1,3.5\n',
        "value.csv": f'id,time,a\n1,0,"{evil}"\n1,1,3.5\n',
        "label.csv": f'id,time,label,a\n"{evil}","{evil}","{evil}",1\n',
        "head.ts": f'@problemName "{evil}"\n@classLabel true {evil}\n@data\n1,2:{evil}\n',
        "value.ts": f"@problemName a\n@classLabel false\n@data\n1,{evil}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        _opened(lambda: tg.read_series(tmp_path / name))  # noqa: B023
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 2, 1)), y=[evil], ids=[evil], channels=[evil], times=[evil, "b"])
    series = tg.read_series(tmp_path / "x.npz")
    assert series.channels == (evil,)
    lines = [f'{key} = ["{evil}"]' for key in ("datasets", "models", "explainers", "metrics")]
    (tmp_path / "plan.toml").write_text("\n".join([f'title = "{evil}"', *lines]))
    _opened(lambda: load_plan(tmp_path / "plan.toml"))
    about = json.dumps({"key": evil, "cell": {"dataset": evil}, "steps": evil, "pooled": evil, "facts": evil})
    rows = pa.table({"tempograd_record": [about], "id": [0]})
    parquet.write_table(rows, tmp_path / "records.parquet")
    _opened(lambda: load_records(tmp_path, load_plan("smoke")))
    assert not marker.exists()


def test_headers_that_are_python_stay_text(marker, tmp_path):
    evil, zeros = expression(marker), {"values": torch.zeros(1, 2, 1), "ids": torch.zeros(1).long()}
    runs(marker, lambda: _evaluated(evil))
    config = {"name": evil, "channels": 1, "classes": 2, "per_step": False, "options": {evil: evil}}
    for header in (
        {"format": "tempograd-model-1", "config": json.dumps(config), "facts": "{}"},
        {"format": "tempograd-model-1", "config": evil, "facts": evil},
        {"tempograd": evil, "shapes": evil},
        {"tempograd": json.dumps({"cell": {"dataset": evil}, "facts": evil}), "shapes": "{}"},
    ):
        safetensors.torch.save_file(zeros, tmp_path / "f.safetensors", header)
        for opened in (tg.load_model, Record.load, load_prepared):
            refused(lambda: opened(tmp_path / "f.safetensors"))  # noqa: B023
    whole = tg.explain(nn.Flatten(), tg.Series(torch.ones(2, 2, 1), ids=[evil, "b"], channels=[evil]), "random")
    assert tg.Explanation.load(whole.save(tmp_path / "e.safetensors")).channels == (evil,)
    assert not marker.exists()


def test_names_that_are_sql_stay_names(tmp_path, monkeypatch):
    """A column and a file called like a statement are read as what they are called."""
    monkeypatch.chdir(tmp_path)
    marker = Path("it-ran")
    column = "a\" FROM t; COPY (SELECT 1) TO 'it-ran'; SELECT \"a"
    quoted = '"' + column.replace('"', '""') + '"'
    name = "a'); COPY (SELECT 1) TO 'it-ran'; --.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS id, 2.5 AS {quoted}) TO 'a' (FORMAT parquet)")
        Path(name).write_bytes(Path("a").read_bytes())
        runs(marker, lambda: connection.execute(f"FROM read_parquet('{name}')"))
        connection.execute("CREATE TABLE t AS SELECT 2.5 AS a")
        runs(marker, lambda: connection.execute(f'SELECT "{column}" FROM t'))
    series = tg.read_series(name, id="id", format="wide")
    assert series.x.flatten().tolist() == [2.5]
    assert not marker.exists()


def test_a_file_beside_the_data_is_no_library(tmp_path, marker, monkeypatch):
    """A model from a file is explained without the current folder among those of Python's libraries."""
    _stored(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 3)))
    (tmp_path / "beside_the_data.py").write_text(f"{expression(marker)}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    runs(marker, lambda: importlib.import_module("beside_the_data"))
    sys.modules.pop("beside_the_data")
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path[1:] if folder])
    importlib.invalidate_caches()
    assert main(["explain", "--model", "m.safetensors", "--data", "x.npy", "--method", "random"]) == 0
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("beside_the_data")
    assert not marker.exists()


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.layer(x.flatten(1))
"""
# what is loaded late or by other processes: by methods, by readers, when a worker starts
LIBRARIES = (
    "captum",
    "duckdb",
    "pandas",
    "pyarrow",
    "matplotlib",
    "safetensors",
    "torch",
    "numpy",
    "triton",
    "ray",
)
LIBRARIES = tuple(
    name for name in LIBRARIES if find_spec(name)
)  # one that is not installed is looked for there too
STANDARD = ("multiprocessing", "pickle", "socket", "selectors", "random", "concurrent", "csv", "zipfile")
DEEP_LIFT = ["--data", "x.npy", "--method", "deep_lift", "--baseline", "zero"]
READER_AND_WORKERS = ["--data", "x.parquet", "--x", "x", "--shape", "3,2", "--workers", "2", "--out", "out/"]
START = {
    "tempograd": ["-c", "import sys; from tempograd.__main__ import run_from_shell; sys.exit(run_from_shell())"],
    "python -m tempograd": ["-m", "tempograd"],
}


@pytest.fixture
def beside(tmp_path):
    """A folder with data and a model, and beside them files that are called like libraries."""
    (tmp_path / "net.py").write_text(NET)
    np.save(tmp_path / "x.npy", np.random.RandomState(0).randn(4, 3, 2).astype(np.float32))
    rows = np.load(tmp_path / "x.npy").reshape(4, -1).tolist()
    pq.write_table(pa.table({"id": range(4), "x": rows}), tmp_path / "x.parquet")
    for name in (*LIBRARIES, *STANDARD):
        marker = tmp_path / f"{name}.ran"
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise ImportError('{name}')\n")
    return tmp_path


def shell(folder, start, *words):
    """Run a command in a folder as a shell does: the script is not there, and the folder not on Python's path."""
    safe = ["-P"] if start == "tempograd" else []
    paths = os.pathsep.join(path for path in sys.path if path and Path(path) != folder)
    env = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *safe, *START[start], *words],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow  # processes load torch
def test_files_beside_a_named_model_are_no_libraries(beside):
    """The model is found there, and nothing else."""
    done = shell(beside, "tempograd", "explain", "--model", "net:Net", *READER_AND_WORKERS)
    assert sorted(path.stem for path in beside.glob("*.ran")) == []
    assert done.returncode == 0, done.stderr


@pytest.mark.slow  # another process with captum
def test_neither_are_they_where_python_is_told_to_run_the_package(beside):
    """Which puts the current folder first: what Python needs to start is loaded from there, and nothing later."""
    for name in STANDARD:
        (beside / f"{name}.py").unlink()
    done = shell(beside, "python -m tempograd", "explain", "--model", "net:Net", *DEEP_LIFT)
    assert sorted(path.stem for path in beside.glob("*.ran")) == []
    assert done.returncode == 0, done.stderr


@pytest.mark.slow  # starts a cluster
def test_files_beside_the_data_are_no_libraries_of_ray_either(beside):
    pytest.importorskip("ray")
    words = ["--data", "x.npy", "--engine", "ray", "--workers", "1", "--out", "out/"]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray") as place:
        patch.setenv("RAY_ADDRESS", "local")
        patch.setenv("RAY_TMPDIR", place)
        done = shell(beside, "tempograd", "explain", "--model", "net:Net", *words)
    assert sorted(path.stem for path in beside.glob("*.ran")) == []
    assert done.returncode == 0, done.stderr


def _unpickled(file):
    return pickle.load(file)  # noqa: S301  # the payload, to see it run


def _loaded_by_torch(file):
    return torch.load(file, weights_only=False)


def _evaluated(text):
    return eval(text)  # noqa: S307  # the payload, to see it run


def _opened(opened):
    """Open a file that may be read or refused, but never more."""
    try:
        opened()
    except tg.TempogradError:
        return


def _stored(folder):
    model = tg.models.build("gru", 3, 2, hidden=2)
    tg.save_model(model, folder / "m.safetensors")
    x = torch.zeros(2, 4, 3)
    tg.explain(model, x, "random").save(folder / "e.safetensors")


STEERING = "\x1b[31mred\x1b]0;title\x07 \x00\r\x9b1m\u202e\n"


def steers(text):
    """Return the letters that do more than stand there; lines of a table may end."""
    return {letter for letter in text if not letter.isprintable() and letter != "\n"}


def poisoned(plain):
    """Put what steers a terminal behind a text, or behind each of a list."""
    return [text + STEERING for text in plain] if isinstance(plain, list) else plain + STEERING


def test_no_text_of_anybody_steers_a_terminal(tmp_path, capsys):
    """Names, times and units of whoever explains, and every text in the header of a file that was forged."""
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), torch.randn(3, 4, 3)
    texts = {name: [f"{name} {i}{STEERING}" for i in range(size)] for name, size in SIZES.items()}
    predictor = tg.Predictor(model, classes=texts.pop("classes"))
    found = tg.explain(predictor, tg.Series(x, **texts), n_samples=20)
    assert found.describe(texts["ids"][2]) == found.describe(2)  # as it was given
    path = found.save(tmp_path / "e.safetensors")
    with safetensors.safe_open(path, "pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    plain = json.loads(header["tempograd"])
    bad = {name: poisoned(part) for name, part in plain.items() if name in FREE}
    bad["facts"] = plain["facts"] | {"unit": poisoned("n_samples")}
    bad["parameters"] = {poisoned(name): value for name, value in plain["parameters"].items()}
    header["tempograd"] = json.dumps(plain | bad)
    header.pop("checksum")
    forged = tmp_path / "forged.safetensors"
    safetensors.torch.save_file(tensors, forged, header | {"checksum": checksum(tensors, header)})
    for file in (path, forged):
        read = tg.Explanation.load(file)
        for each in (found, read):
            said = [str(each), each.describe(0), each.describe(1), each.verdict(), each.verdict(0)]
            said += [repr(each.top(3)), repr(each.blocks()), *each.labels, each.fingerprint, *each.times_of(0)]
            said += [each.describe(name) for name in each.names]
            assert [text for text in said if steers(text)] == []
        with pytest.warns(tg.TempogradWarning) as warned:
            tg.evaluate(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), read)
        assert not any(steers(str(each.message)) for each in warned)
        for words in (["top"], ["top", "--json"], ["top", "--series", read.label(2)]):
            assert main([words[0], str(file), *words[1:]]) == 0
            captured = capsys.readouterr()
            assert steers(captured.out + captured.err) == set(), words


def test_no_text_of_a_table_steers_a_terminal(tmp_path, capsys, monkeypatch):
    """Neither names of series nor of channels, nor in what is proposed to be typed next."""
    whose = {who: f"{who}\x1b[31m\x07\x9b1m" for who in "ab"}
    rows = [f"{whose[who]},{step},{step + 1}" for who in "ab" for step in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["id,time,pulse\x1b[31m", *rows]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    options = ["--method", "occlusion", "--output", "raw", "--target", "1", "--out", "e.safetensors"]
    assert main(["explain", "--model", "torch.nn:Flatten", "--data", "t.csv", *options]) == 0
    assert main(["top", "e.safetensors"]) == 0
    captured = capsys.readouterr()
    assert "Next: tempograd report e.safetensors " in captured.out
    assert steers(captured.out + captured.err) == set()
