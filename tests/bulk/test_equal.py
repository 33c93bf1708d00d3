"""Files to files gives the numbers of one call, bit for bit, whatever the batches and the kind of source."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.core.estimate import LOOKED
from tempograd.explanation import diagnostics
from tempograd.explanation.record import per_series
from tempograd.models import build
from tests.bulk.conftest import explain_files, rows_of

SERIES, TIME, CHANNELS = 70, 12, 3
SETTINGS = {"n_samples": 6, "seed": 3}
PARTS = ("values", "standard_error", "ess", "target", "delta", "prediction", "n_evals")


@pytest.fixture(scope="module", params=["gru", "cnn"])
def model(request):
    return network(request.param)


def network(name):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return build(name, CHANNELS, 2, hidden=4).eval()


@pytest.fixture(scope="module")
def x():
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def ids():
    return np.random.RandomState(0).permutation(10**6)[:SERIES] - 1000


def lists(x, lengths=None):
    """Series as lists of lists of numbers, cut to their lengths."""
    lengths = [x.shape[1]] * len(x) if lengths is None else lengths
    return pa.array(
        [row[:n].tolist() for row, n in zip(x, lengths, strict=True)], pa.list_(pa.list_(pa.float32()))
    )


def by_keys(run):
    """All rows of a run by their keys, read by pyarrow alone."""
    return {row["key"]: row for row in rows_of(run)}


def assert_equal(run, whole):
    """Hold every row of a run, and what take puts together, against one call."""
    rows = by_keys(run)
    assert rows.keys() == set(whole.ids.tolist())
    for name in ("values", "standard_error", "ess"):
        found = torch.tensor([rows[key][name] for key in whole.ids.tolist()]).reshape(whole.values.shape)
        assert torch.equal(found, getattr(whole, name))
    taken = run.take([rows[key]["id"] for key in whole.ids.tolist()])
    for name in (*PARTS, "x", "baseline", "ids"):
        assert torch.equal(getattr(taken, name), getattr(whole, name)), name
    assert whole.mask is None or torch.equal(taken.mask, whole.mask)
    assert taken.verdict() == whole.verdict()
    for name, part in vars(whole.gradient_check).items():
        np.testing.assert_array_equal(getattr(taken.gradient_check, name), part)


@pytest.mark.parametrize(("batch", "count"), [(1, 12), (7, SERIES), (SERIES, SERIES)])
def test_any_batch_gives_the_numbers_of_one_call(model, x, ids, batch, count, tmp_path):
    x, ids = x[:count], ids[:count]
    for k, rows in enumerate((slice(0, 3 * count // 5), slice(3 * count // 5, None))):
        pq.write_table(
            pa.table({"id": ids[rows], "x": lists(x[rows])}), tmp_path / f"{k}.parquet", row_group_size=15
        )
    whole = tg.explain(model, tg.Series(x, ids=ids), **SETTINGS)
    run = tg.explain_dataset(model, tmp_path, tmp_path / "out", batch_size=batch, fragment=30, **SETTINGS)
    assert_equal(run, whole)
    assert run.summary()["fragments"] == (1 if count < 30 else 3)


@pytest.mark.filterwarnings("ignore:.*end before the last step:tempograd.core.errors.TempogradWarning")
def test_masks_lengths_and_text_ids(model, x, tmp_path):
    draw = np.random.RandomState(1)
    lengths = draw.randint(4, TIME + 1, SERIES)
    names = [f"bed {row}" for row in range(SERIES)]
    seen = torch.from_numpy(draw.rand(SERIES, TIME, CHANNELS) < 0.8)
    table = pa.table({"bed": names, "x": lists(x, lengths), "seen": lists(seen.float(), lengths)})
    pq.write_table(table, tmp_path / "ward.parquet")
    seen &= torch.arange(TIME)[None, :, None] < torch.from_numpy(lengths)[:, None, None]
    padded = x.where(torch.arange(TIME)[None, :, None] < torch.from_numpy(lengths)[:, None, None], 0)
    whole = tg.explain(model, tg.Series(padded, mask=seen, ids=names), **SETTINGS)
    columns = {"id": "bed", "mask": "seen", "shape": (TIME, CHANNELS)}
    run = explain_files(model, tmp_path / "ward.parquet", tmp_path / "out", batch_size=7, **columns, **SETTINGS)
    assert_equal(run, whole)
    assert run.take(["bed 3"]).names == ("bed 3",)


def flat_parquet(folder, x, ids):
    table = pa.table({"id": ids, "x": pa.array(x.flatten(1).tolist(), pa.list_(pa.float32()))})
    pq.write_table(table, folder / "flat.parquet")
    return (folder / "flat.parquet").as_uri(), {"shape": (TIME, CHANNELS)}


def long_parquet(folder, x, ids):
    order = np.argsort(np.random.RandomState(2).rand(SERIES, TIME), 1)  # rows of a series in any order
    cells = {
        f"c{d}": np.take_along_axis(x[..., d].numpy(), order, 1).ravel().astype(np.float64)
        for d in range(CHANNELS)
    }
    table = pa.table({"id": np.repeat(ids, TIME), "hour": order.ravel(), **cells})
    pq.write_table(table, folder / "long.parquet", row_group_size=100)  # which cuts series
    return folder / "long.parquet", {"channels": ["c0", "c1", "c2"], "time": "hour"}


def packed(folder, x, ids):
    np.savez(folder / "x.npz", x=x.numpy(), ids=ids)
    return folder / "x.npz", {}


def csv(folder, x, ids):
    lines = [
        f"{ids[n]},{t},{','.join(str(c) for c in x[n, t].tolist())}" for n in range(SERIES) for t in range(TIME)
    ]
    (folder / "x.csv").write_text("\n".join(["id,time,c0,c1,c2", *lines]))
    return folder / "x.csv", {}


SOURCES = [flat_parquet, long_parquet, packed, csv]


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_every_kind_of_source_gives_the_same_numbers(make, x, ids, tmp_path):
    model = network("gru")
    source, columns = make(tmp_path, x, ids)
    whole = tg.explain(model, tg.Series(x, ids=ids), **SETTINGS)
    run = explain_files(model, source, tmp_path / "out", fragment=32, batch_size=16, **columns, **SETTINGS)
    assert_equal(run, whole)


def test_rows_without_ids_are_numbered(x, tmp_path):
    model = network("gru")
    np.save(tmp_path / "x.npy", x.numpy())
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "one", fragment=32, **SETTINGS)
    assert_equal(run, tg.explain(model, x, **SETTINGS))
    (tmp_path / "many" / "b").mkdir(parents=True)
    np.save(tmp_path / "many" / "a.npy", x[:3].numpy())
    np.save(tmp_path / "many" / "b" / "a.npy", x[:3].numpy())
    run = tg.explain_dataset(model, tmp_path / "many", tmp_path / "two", **SETTINGS)
    assert sorted(row["id"] for row in rows_of(run)) == [
        *(f"a.npy:{row}" for row in range(3)),
        *(f"b/a.npy:{row}" for row in range(3)),
    ]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("integrated_gradients", {"n_steps": 4, "baseline": "average"}),
        ("timing", {"n_samples": 6, "tolerance": 0.5, "max_samples": 20, "target": 1}),
        ("occlusion", {}),
    ],
)
def test_other_methods_and_options(method, options, x, ids, tmp_path):
    model = network("cnn")
    np.savez(tmp_path / "x.npz", x=x.numpy(), ids=ids)
    whole = tg.explain(model, tg.Series(x, ids=ids), method, **options)
    run = tg.explain_dataset(model, tmp_path / "x.npz", tmp_path / "out", method=method, batch_size=9, **options)
    taken = run.take(ids)
    for name in ("values", "baseline", "target"):
        assert torch.equal(getattr(taken, name), getattr(whole, name))
    assert taken.verdict() == whole.verdict()
    assert (taken.facts, taken.parameters, taken.fingerprint) == (whole.facts, whole.parameters, whole.fingerprint)


class Cliff(torch.nn.Module):
    """A wave, and a step that hardly any draw meets: what is seen of the score converges, most of it is not."""

    def forward(self, x):
        step = 0.24 * torch.sigmoid(3400 * (x[..., 0].mean(1) - 0.19))
        score = step + 0.8 * torch.sin(0.74 * x[..., 1]).mean(1)
        return torch.stack([-score, score], 1) / 2


def test_what_a_row_says_of_its_errors_does_not_depend_on_its_company(tmp_path):
    """Series that need few samples stand beside series whose change none of many samples met."""
    x = torch.randn(40, TIME, CHANNELS, generator=torch.Generator().manual_seed(4))
    x[:20, :, 0], x[20:, :, 0] = 1.0, -1.0
    x[20:, :, 1] *= 0.01
    ids = np.arange(40)
    np.savez(tmp_path / "x.npz", x=x.numpy(), ids=ids)
    options = {"n_samples": 20, "tolerance": 0.02, "max_samples": 60, "target": 1, "output": "raw"}
    whole = tg.explain(Cliff(), tg.Series(x, ids=ids), **options)
    assert int(whole.n_evals.min()) < LOOKED <= int(whole.n_evals.max())
    expected = [diagnostics.quality_of(whole[row : row + 1]) for row in range(40)]
    assert len({bool(told.good) for told in expected}) == 2
    relative = whole.relative_error.tolist()  # of the draws alone, which can be less than what none of them met
    assert sum(float(told.error) > 1.1 * error for told, error in zip(expected, relative, strict=True)) > 1
    for batch in (1, 7):
        run = tg.explain_dataset(
            Cliff(), tmp_path / "x.npz", tmp_path / f"out{batch}", batch_size=batch, **options
        )
        rows = by_keys(run)
        assert [rows[row]["verdict"] == "good" for row in range(40)] == [bool(told.good) for told in expected]
        assert [rows[row]["relative_error"] for row in range(40)] == pytest.approx(
            [float(told.error) for told in expected], rel=1e-6
        )
        assert run.take(ids).verdict() == whole.verdict()


@dataclass(frozen=True, eq=False)
class Weighed(tg.Explanation):
    """With one more field."""

    weight: torch.Tensor | None = field(default=None, metadata=per_series())


def test_a_new_field_of_each_series_is_not_that_of_the_example(x, tmp_path):
    run = explain_files(network("cnn"), x, tmp_path / "out", method="occlusion")
    vars(run)["example"] = Weighed(**vars(run.example), weight=torch.ones(2))
    assert run.take([3, 4]).weight is None
