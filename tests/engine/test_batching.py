from types import SimpleNamespace

import pytest
import torch

from tempograd.engine import Batching
from tempograd.errors import ModelError
from tempograd.explainers import EXPLAINERS, IntegratedGradients, Timing
from tests.helpers.methods import explained, fitted, quick, usable
from tests.helpers.models import linear, series


def limited(model, most: int, error: Exception):
    """A model on a device that holds at most ``most`` sequences."""
    seen = []

    def forward(x):
        if len(x) > most:
            raise error
        seen.append(len(x))
        return model(x)

    return forward, seen


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
@pytest.mark.parametrize("most", [1, 7, 60])
def test_backs_off_when_memory_runs_out(error, most):
    model, x = linear(6, 2), series(9, 6, 2)
    forward, seen = limited(model, most, error)
    expected = Timing(20)(model, x, output="raw")
    found = Timing(20)(forward, x, output="raw")
    torch.testing.assert_close(found.values, expected.values)
    assert max(seen) <= most
    if most > 1:
        assert max(seen) > most // 4


def test_what_did_not_fit_is_not_tried_again():
    class Limited(torch.nn.Module):
        failures = 0

        def forward(self, z):
            if len(z) > 60:
                self.failures += 1
                raise torch.OutOfMemoryError("CUDA out of memory")
            return z.flatten(1)[:, :2]

    model, x = Limited(), series(9, 6, 2)
    Timing(20)(model, x, output="raw")
    assert (before := model.failures) > 0
    Timing(20)(model, x, output="raw")
    assert model.failures == before
    Timing(20)(model, x, output="raw", batch_size=100)  # asked for
    assert model.failures > before


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
    assert sizes == [655, 655, 655 + 13]


@pytest.mark.parametrize(("memory", "size"), [(2**40, 65536), (2**37, 65536), (2**35, 16384)])
def test_smaller_devices_begin_with_smaller_batches(monkeypatch, memory, size):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))
    assert Batching(torch.device("cuda"), cells=1).size == size


def test_long_series_come_in_small_batches():
    assert Batching(torch.device("cuda"), cells=2**20).size == 64


@pytest.mark.parametrize("error", [RuntimeError("cuDNN error: CUBLAS_STATUS_ALLOC_FAILED"), MemoryError()])
def test_backs_off_from_every_kind_of_lacking_memory(error):
    model, x = linear(6, 2), series(9, 6, 2)

    def forward(z):
        if len(z) > 60:
            raise error
        return model(z)

    found = IntegratedGradients(20)(forward, x, output="raw").values
    torch.testing.assert_close(found, IntegratedGradients(20)(model, x, output="raw").values)


@pytest.mark.parametrize("name", sorted(EXPLAINERS))
@pytest.mark.parametrize("batch_size", [1, 4, 120, 400])
def test_passes_are_as_large_as_asked_and_not_much_larger(name, batch_size):
    """Clean series, baselines and three rows of the check ride along; the last block may be 5 % larger."""
    model, sizes = linear(6, 2), []

    def forward(z):
        sizes.append(len(z))
        return model(z)

    x = series(12, 6, 2)
    explainer = fitted(quick(name), model, x)
    explained(explainer, usable(forward, explainer, 6), x, batch_size=batch_size)
    points = len(getattr(explainer, "areas", "1"))  # sequences per series
    if name in {"timing", "rand_ig", "gradient_shap", "integrated_gradients"}:
        points = explainer.parameters.get("n_samples") or explainer.n_steps
    riding = 5 if batch_size > 100 else 2
    assert max(sizes) <= 1.05 * batch_size + riding * max(1, batch_size // points)
    assert max(sizes) >= min(batch_size, 12 * points) / 2


def test_a_broken_model_is_given_up_after_the_first_block():
    calls = []

    def broken(z):
        calls.append(len(z))
        return z.flatten(1)[:, :2] * torch.nan

    with pytest.raises(ModelError, match="returned NaN"):
        IntegratedGradients(50)(broken, series(60, 6, 2), batch_size=50)
    assert len(calls) <= 4


@pytest.mark.parametrize("name", sorted(EXPLAINERS))
def test_backs_off_when_memory_runs_out_late(name):
    """After the draws of the next block were made for the size that no longer fits."""
    model, x, calls = linear(6, 2).double(), series(30, 6, 2, dtype=torch.float64), []

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
