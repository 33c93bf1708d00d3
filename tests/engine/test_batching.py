from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tempograd.core.errors import ModelError
from tempograd.engine import Batching
from tempograd.engine.batching import ROOM, suits_cpu
from tempograd.explainers import EXPLAINERS, IntegratedGradients, Timing
from tests.helpers.methods import explained, fitted, quick, usable
from tests.helpers.models import linear, series

pytestmark = pytest.mark.usefixtures("little_to_collect")


def limited(model, most: int, error: Exception):
    """A model on a device that holds at most ``most`` sequences."""
    seen = []

    def forward(x):
        if len(x) > most:
            raise error
        seen.append(len(x))
        return model(x)

    return forward, seen


@pytest.mark.parametrize("most", [1, 30])
def test_backs_off_when_memory_runs_out(most):
    model, x = linear(6, 2), series(5, 6, 2)
    forward, seen = limited(model, most, torch.OutOfMemoryError("CUDA out of memory"))
    expected = Timing(10)(model, x, output="raw")
    found = Timing(10)(forward, x, output="raw")
    torch.testing.assert_close(found.values, expected.values)
    assert max(seen) <= most
    if most > 1:
        assert max(seen) > most // 4


def test_gives_up_with_advice_when_one_sequence_is_too_much():
    forward, _ = limited(linear(6, 2), 0, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(ModelError, match="smaller model"):
        IntegratedGradients()(forward, series(2, 6, 2))


def test_other_errors_are_not_taken_for_memory():
    forward, _ = limited(linear(6, 2), 0, RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        IntegratedGradients()(forward, series(2, 6, 2))


def test_covers_every_series_once_without_a_small_last_block():
    chunks = Batching(torch.device("cuda"), cells=1, size=32768)
    rows: list[slice] = []
    chunks.run(1978, 50, lambda part, _: rows.append(part), "test")
    assert [i for part in rows for i in range(part.start, part.stop)] == list(range(1978))
    sizes = [part.stop - part.start for part in rows]
    assert sizes == [660, 659, 659]  # not 655, 655, 655, 13


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
@pytest.mark.parametrize("per_series", [1, 3, 50])
def test_blocks_are_alike_and_not_much_larger_than_asked(size, per_series):
    batching = Batching(torch.device("cpu"), 1, size)
    for count in range(1, 90):
        rows: list[slice] = []
        batching.run(count, per_series, lambda part, _, rows=rows: rows.append(part), "test")
        assert [i for part in rows for i in range(part.start, part.stop)] == list(range(count))
        sizes = [part.stop - part.start for part in rows]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= max(1, size // per_series * 1.05)
        assert len(rows) <= -(-count // max(1, size // per_series))


@pytest.mark.parametrize(("memory", "size"), [(2**40, 65536), (2**37, 65536), (2**35, 16384)])
def test_smaller_devices_begin_with_smaller_batches(monkeypatch, memory, size):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))
    assert Batching(torch.device("cuda"), cells=1).size == size


def suits(model, time=48, channels=8, precision=torch.float32):
    return suits_cpu([model], time, channels, precision)


def test_small_models_get_large_passes_on_a_cpu_and_large_ones_small_passes():
    units = (8, 32, 64, 200)
    sizes = [suits(nn.GRU(8, hidden)) for hidden in units]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 4096  # more are no faster
    assert 1600 <= sizes[1] < 2500  # 32 series of 50 points at once
    assert 256 < sizes[3] < 500
    for size, hidden in zip(sizes[1:], units[1:], strict=True):  # two matrices of three gates
        assert size * 48 * (6 * hidden + 16) * 4 == pytest.approx(80 * 2**20, rel=0.02)


def test_many_channels_get_smaller_passes_than_the_model_alone_would():
    wide = nn.GRU(128, 32)  # 48 × 128 numbers of 4 bytes a series; the points of 32 series would keep 130 MB
    for time, most in ((24, 1365), (48, 682), (200, 163)):
        assert suits(wide, time, 128) == most == 2**24 // (time * 128 * 4)
    assert suits(nn.GRU(32, 32), 48, 32) > 1600  # 32 series of 50 points at once
    assert suits(nn.GRU(128, 200), 48, 128) == ROOM // (48 * 4 * (1200 + 256))  # a large model


@pytest.mark.parametrize("hidden", [16, 64])
def test_longer_wider_and_more_precise_series_never_get_larger_passes(hidden):
    gru = nn.GRU(8, hidden)
    for sizes in (
        [suits(gru, time=time) for time in (1, 10, 48, 100, 1000, 10**5)],
        [suits(gru, channels=channels) for channels in (1, 8, 100, 1000, 10**5)],
        [suits(gru, precision=precision) for precision in (torch.float16, torch.float32, torch.float64)],
        [suits(nn.Sequential(*[nn.Linear(hidden, hidden) for _ in range(layers)])) for layers in (1, 2, 20, 2000)],
    ):
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > sizes[-1] >= 64
        assert sizes[0] <= 4096


def test_only_weights_that_are_computed_with_count_for_the_size_of_a_pass():
    gru = nn.GRU(8, 32)
    table = nn.ModuleList([gru, nn.Embedding(10**5, 8), nn.LayerNorm(500), nn.LazyLinear(700)])
    assert suits(table) == suits(gru)
    assert suits(nn.Identity()) == suits_cpu([], 48, 8, torch.float32) == 256


class Watched(nn.Module):
    """A small GRU that writes down how many series it sees at once."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.head, self.seen = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 2), []

    def forward(self, z):
        self.seen.append(len(z))
        return self.head(self.gru(z)[0][:, -1])


@pytest.mark.parametrize("method", [IntegratedGradients(150), Timing(150)])
def test_passes_with_a_gradient_are_as_large_as_suits_the_model(method):
    model, count, points = Watched(), 50, method.parameters.get("n_samples", 150)
    method(model, series(count, 48, 2), output="raw")
    size = suits(model, 48, 2)
    large = [seen for seen in model.seen if seen > size / 4]
    assert max(model.seen) <= size * 1.05 + 4 * count  # the check rides along
    assert sum(large) >= 0.9 * count * points
    assert size > 3000


@pytest.mark.parametrize("method", [IntegratedGradients(40), Timing(40)])
def test_scores_do_not_depend_on_the_size_of_passes_and_a_rerun_gives_the_same_bits(method):
    model, x = Watched().double(), series(6, 12, 2, dtype=torch.float64)
    expected = method(model, x, output="raw")
    again = method(model, x, output="raw")
    for name in ("values", "standard_error", "ess"):
        first, second = getattr(expected, name), getattr(again, name)
        assert first is second is None or torch.equal(first, second)
    for size in (7, 64):
        found = method(model, x, output="raw", batch_size=size)
        torch.testing.assert_close(found.values, expected.values, rtol=1e-6, atol=1e-9)
        if expected.standard_error is not None:
            torch.testing.assert_close(found.standard_error, expected.standard_error, rtol=1e-4, atol=1e-9)
    few = method(model, x[:1], output="raw", batch_size=1)
    torch.testing.assert_close(few.values, expected.values[:1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", [IntegratedGradients(20), Timing(20)])
def test_on_a_cpu_only_path_points_of_many_series_go_back(method, monkeypatch):
    """Clean series, baselines and what the check reads have a pass without a gradient, and say the same in it."""
    asked, x = [], series(40, 12, 2, dtype=torch.float64)

    class Asked(Watched):
        def forward(self, z):
            asked.append((len(z), z.requires_grad))
            return super().forward(z)

    model = Asked().double()
    found = method(model, x, output="raw")
    beside = 5  # clean, baseline and next to it, and both sides of the middle or two far ends of paths
    assert asked[:2] == [(40 * beside, False), (40 * 20, True)]
    assert sum(rows for rows, _ in asked[2:]) < 40  # nothing else is read of all series
    few = method(model, x[:3], output="raw")
    assert (3 * (20 + beside), True) in asked  # they ride along
    monkeypatch.setattr("tempograd.engine.gradients.APART", 10**9)
    together = method(model, x, output="raw")
    for other, rows in ((together, slice(0, 40)), (few, slice(0, 3))):
        torch.testing.assert_close(found.values[rows], other.values, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found.delta[rows], other.delta, rtol=1e-5, atol=1e-7)
        assert torch.equal(found.gradient_check.found[rows], other.gradient_check.found)


def test_long_series_come_in_small_batches():
    assert Batching(torch.device("cpu"), cells=2**20, on_cpu=4096).size == 64
    assert Batching(torch.device("cuda"), cells=2**20).size == 128  # as on a large one, where there is none


def test_series_that_stay_together_are_never_parted():
    for size in (1, 7, 50, 60, 130, 1000):
        batching, start, blocks = Batching(torch.device("cpu"), 4, size), 0, []
        batching.together = 50
        while start < 170:
            rows = batching.next_rows(start, 170, 1)
            blocks.append(rows.stop - rows.start)
            start = rows.stop
        assert sum(blocks) == 170
        assert all(count % 50 == 0 for count in blocks[:-1])
        assert max(blocks) <= max(50, 1.05 * size)


def test_a_smaller_gpu_gets_smaller_batches(monkeypatch):
    small = SimpleNamespace(total_memory=24 * 2**30)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: small)
    assert Batching(torch.device("cuda"), cells=2**20).size == 64
    assert Batching(torch.device("cuda"), cells=10).size == 65536 * 24 // 128


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("cuDNN error: CUBLAS_STATUS_ALLOC_FAILED"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_backs_off_from_every_kind_of_lacking_memory(error):
    model, x = linear(6, 2), series(9, 6, 2)

    def forward(z):
        if len(z) > 60:
            raise error
        return model(z)

    found = IntegratedGradients(10)(forward, x, output="raw").values
    torch.testing.assert_close(found, IntegratedGradients(10)(model, x, output="raw").values)


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [
        *((name, 4) for name in sorted(EXPLAINERS)),
        *((name, size) for name in ("occlusion", "timing") for size in (1, 120, 400)),
    ],
)
def test_passes_are_as_large_as_asked_and_not_much_larger(name, batch_size):
    """Clean series, baselines and three rows of the check ride along; the last block may be 5 % larger."""
    model, sizes = linear(6, 2), []

    def forward(z):
        sizes.append(len(z))
        return model(z)

    count = 5 if batch_size < 100 else 12  # more than one pass of each size
    x = series(count, 6, 2)
    explainer = fitted(quick(name, **({"n_samples": 50} if name == "timing" else {})), model, x)
    explained(explainer, usable(forward, explainer, 6), x, batch_size=batch_size)
    points = len(getattr(explainer, "areas", "1"))  # sequences per series
    if name in {"timing", "rand_ig", "gradient_shap", "integrated_gradients"}:
        points = explainer.parameters.get("n_samples") or explainer.n_steps
    riding = 5 if batch_size > 100 else 2
    assert max(sizes) <= 1.05 * batch_size + riding * max(1, batch_size // points)
    assert max(sizes) >= min(batch_size, count * points) / 2


def test_a_broken_model_is_given_up_after_the_first_block():
    calls = []

    def broken(z):
        calls.append(len(z))
        return z.flatten(1)[:, :2] * torch.nan

    with pytest.raises(ModelError, match="returned NaN"):
        IntegratedGradients(50)(broken, series(60, 6, 2), batch_size=50)
    assert len(calls) <= 4


@pytest.mark.parametrize("name", ["deep_lift", "dynamask", "fit", "lime", "occlusion", "timing", "timex"])
def test_backs_off_when_memory_runs_out_late(name):
    """After the draws of the next block were made for the size that no longer fits."""
    model, x, calls = linear(6, 2).double(), series(16, 6, 2, dtype=torch.float64), []

    def forward(z):
        calls.append(len(z))
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return model(z)

    explainer = fitted(quick(name), model, x)
    found = explained(
        explainer, usable(forward, explainer, 6), x, batch_size=200 if hasattr(explainer, "n_samples") else 4
    )
    assert len(calls) > 3
    expected = explained(explainer, usable(model, explainer, 6), x).values
    torch.testing.assert_close(found.values, expected, rtol=1e-4, atol=1e-7)


def test_each_block_moves_the_progress(monkeypatch):
    moved = []

    @contextmanager
    def bar(total, label):
        yield moved.append
        assert (total, label, sum(moved)) == (12, "test", 12)

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("tempograd.engine.batching.progress_bar", bar)
    Batching(torch.device("cpu"), 1, 4).run(12, 1, lambda *_: None, "test")
    assert moved == [4, 4, 4]
