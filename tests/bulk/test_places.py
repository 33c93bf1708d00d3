"""Runs whose folder is at an address: an object store that is served here, and stores in memory."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk.store import TABLES, Store
from tempograd.bulk.worker import Worker

fsspec = pytest.importorskip("fsspec")
TIME, CHANNELS, FILES, EACH = 5, 2, 3, 8
SETTINGS = {"n_samples": 6, "seed": 3, "fragment": EACH}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.Linear(TIME * CHANNELS, 2)

    def forward(self, x):
        return self.layer(x.tanh().flatten(1))


def write(folder, number, seed=None):
    x = np.random.default_rng(number if seed is None else seed).normal(size=(EACH, TIME, CHANNELS))
    table = pa.table({"id": [f"{number}-{row}" for row in range(EACH)], "x": x.astype(np.float32).tolist()})
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(table, folder / "in" / f"{number}.parquet")
    return torch.from_numpy(x.astype(np.float32))


@pytest.fixture
def x(tmp_path):
    return torch.cat([write(tmp_path, number) for number in range(FILES)])


IDS = [f"{number}-{row}" for number in range(FILES) for row in range(EACH)]


@pytest.fixture(scope="module")
def server():
    """A server that speaks the protocol of S3."""
    pytest.importorskip("flask")
    pytest.importorskip("s3fs")
    made = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    made.start()
    host, port = made.get_host_and_port()
    yield f"http://{host}:{port}".replace("0.0.0.0", "127.0.0.1")
    made.stop()


@pytest.fixture
def bucket(server, monkeypatch, request):
    """The name of an empty bucket."""
    known = {"KEY_ID": "k", "ACCESS_KEY": "s"}
    for name, value in {
        "AWS_ACCESS_KEY_ID": known["KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": known["ACCESS_KEY"],
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    name = "b" + "".join(letter for letter in request.node.name.lower() if letter.isalnum())[-40:]
    fsspec.filesystem("s3").mkdir(name)
    return name


def explain(folder, out, model=None, **options):
    return tg.explain_dataset(model or Net(), folder / "in", out, **SETTINGS | options)


def rows(run):
    """Return all rows of the tables, read by fsspec and pyarrow alone."""
    found = {}
    for table in TABLES:
        found[table] = []
        for address in run.files(table):
            with fsspec.open(address) as file:
                found[table] += pq.ParquetFile(file).read().to_pylist()
        found[table] = sorted(found[table], key=lambda row: (row["id"], row.get("rank", 0)))
    return repr(found)  # NaN is not equal to itself


def assert_as_one_call(run, x):
    whole = tg.explain(Net(), tg.Series(x, ids=IDS), n_samples=6, seed=3)
    taken = run.take(IDS)
    for name in ("values", "standard_error", "ess", "x", "prediction"):
        assert torch.equal(getattr(taken, name), getattr(whole, name)), name
    assert taken.verdict() == whole.verdict()
    assert (len(run), run.summary()["left"], run.summary()["failed"]) == (len(IDS), 0, 0)


@pytest.fixture
def ran(monkeypatch):
    """The files that are explained from now on."""
    done, real = [], Worker.run

    def run(self, fragment):
        done.extend(piece.origin for piece in fragment.pieces)
        return real(self, fragment)

    monkeypatch.setattr(Worker, "run", run)
    return done


class StoppedError(Exception):
    pass


def stop_after(count):
    told = []

    def progress(state):
        told.append(state)
        if len(told) == count:
            raise StoppedError

    return progress


@pytest.fixture(params=["s3", "memory"])
def out(request):
    """An address to which nobody has written."""
    if request.param == "s3":
        return f"s3://{request.getfixturevalue('bucket')}/deep/out"
    return f"memory://{request.node.name}/out"


def test_a_run_at_an_address_is_that_of_a_folder(x, out, tmp_path):
    run = explain(tmp_path, out)
    assert all(address.startswith(f"{out}/{table}/") for table in TABLES for address in run.files(table))
    assert (run.folder, tg.open_run(out).version) == (out, run.version)
    assert_as_one_call(run, x)
    here = explain(tmp_path, tmp_path / "out")
    assert rows(run).replace(run.key, "") == rows(here).replace(here.key, "")
    assert explain(tmp_path, out).version == run.version
    with pytest.raises(tg.TempogradError, match="differs in seed"):
        explain(tmp_path, out, seed=4)


def test_a_run_at_an_address_that_is_stopped_goes_on(x, out, tmp_path, ran):
    with pytest.raises(StoppedError):
        explain(tmp_path, out, progress=stop_after(2))
    assert ran == ["0.parquet", "1.parquet"]
    assert 0 < len(tg.open_run(out)) < len(IDS)
    ran.clear()
    run = explain(tmp_path, out)
    assert set(ran) == {"2.parquet"}
    assert_as_one_call(run, x)
    store = Store(out)
    store.delete(next(name for name in store.files("cells")))
    ran.clear()
    assert_as_one_call(explain(tmp_path, out), x)
    assert len(ran) == 1


def test_results_at_an_address_give_way(x, out, tmp_path):
    first = explain(tmp_path, out)
    then = rows(first)
    new = write(tmp_path, 1, seed=11)
    run = explain(tmp_path, out)
    assert_as_one_call(run, torch.cat([x[:EACH], new, x[2 * EACH :]]))
    assert rows(tg.open_run(out, version=first.version)) == rows(first) == then != rows(run)


def test_two_writers_at_one_address(x, out, tmp_path):
    failed, models = [], [Net(), Net()]  # whose numbers are drawn one after the other

    def drive():
        try:
            explain(tmp_path, out, models.pop(), fragment=4)
        except BaseException as error:  # told below
            failed.append(error)

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert_as_one_call(tg.open_run(out), x)


def test_a_bucket_that_is_none_is_one_sentence(x, bucket, tmp_path):
    with pytest.raises(tg.TempogradError, match=r"cannot be written") as raised:
        explain(tmp_path, f"s3://{bucket}none/out")
    assert "\n" not in str(raised.value)


def test_an_address_with_its_endpoint(x, bucket, server, tmp_path, monkeypatch):
    """As pyarrow writes it, without a variable of the environment."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    run = explain(tmp_path, f"s3://{bucket}/out?endpoint_override={server}")
    assert run.files()[0].startswith(f"s3://{bucket}/out/summary/")
    assert_as_one_call(run, x)


@pytest.mark.slow  # processes load torch
def test_processes_write_to_an_address(x, bucket, tmp_path):
    assert_as_one_call(explain(tmp_path, f"s3://{bucket}/out", workers=2), x)


class Plain(fsspec.get_filesystem_class("memory")):
    """A store without exclusive writes."""

    protocol = "plain"
    store: dict = {}  # noqa: RUF012  # as its parent's
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("plain://", "memory://"))

    def pipe_file(self, path, value, mode="overwrite", **options):
        if mode == "create":
            raise NotImplementedError
        return super().pipe_file(path, value, mode=mode, **options)


def test_a_store_without_exclusive_writes_may_have_one_writer(x, tmp_path):
    fsspec.register_implementation("plain", Plain, clobber=True)
    with pytest.warns(tg.TempogradWarning, match="has no exclusive write: let one run at a time write there"):
        run = explain(tmp_path, "plain://lake/out")
    assert_as_one_call(run, x)
