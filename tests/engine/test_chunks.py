import pytest
import torch

from conftest import linear, series
from tempograd.engine import Chunks
from tempograd.errors import ModelError
from tempograd.explainers import IntegratedGradients, Timing


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


def test_gives_up_with_advice_when_one_sequence_is_too_much():
    forward, _ = limited(linear(6, 2), 0, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(ModelError, match="smaller model"):
        IntegratedGradients()(forward, series(2, 6, 2))


def test_other_errors_are_not_taken_for_memory():
    forward, _ = limited(linear(6, 2), 0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        IntegratedGradients()(forward, series(2, 6, 2))


def test_covers_every_series_once_without_a_small_last_block():
    chunks = Chunks(torch.device("cuda"), cells=1)
    rows: list[slice] = []
    chunks.run(1978, 50, lambda part, _: rows.append(part), "test")
    assert [i for part in rows for i in range(part.start, part.stop)] == list(range(1978))
    sizes = [part.stop - part.start for part in rows]
    assert sizes == [655, 655, 655 + 13]


def test_long_series_come_in_small_chunks():
    assert Chunks(torch.device("cuda"), cells=2**20).size == 64
