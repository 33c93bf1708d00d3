"""Work and memory of TIMING grow with the number of steps, not with its square: counted, not timed."""

import sys
import tracemalloc
from collections.abc import Callable

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import tempograd as tg
from tempograd.sampling.segments import complete
from tests.helpers.models import linear, series


class Written(TorchDispatchMode):
    """Counts the numbers that torch writes: all results together, and the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for part in tree_leaves(result):
            if isinstance(part, Tensor):
                self.total, self.largest = self.total + part.numel(), max(self.largest, part.numel())
        return result


def most_bytes(work: Callable[[], object]) -> int:
    """What arrays, and all else that Python knows of, take at most; tensors are counted by :class:`Written`."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def calls(work: Callable[[], object]) -> int:
    """How many functions are called: work is at most so many times what the largest array takes."""
    found = 0

    def count(frame, event, arg):
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


SETTINGS = [
    (1, {}),
    (2, {}),
    (1, {"high": 9}),
    (3, {"high": 1}),
    (1, {"low": 2, "held": 0.6}),
]


@pytest.mark.parametrize(("number", "channels", "given"), [(n, *each) for n, each in enumerate(SETTINGS)])
def test_settings_of_long_series_take_as_many_operations_as_those_of_short_ones(number, channels, given):
    def work(time: int) -> Callable[[], object]:
        given_or_open = {"low": None, "high": None, "held": None} | given
        return lambda: complete(time, channels, None, longest=time, **given_or_open).p_active()

    # each has its own length, as what was found for one is kept
    short, long = calls(work(500 + number)), calls(work(20_000 + number))
    assert long < 2 * short  # the count of segments is found by halving
    assert most_bytes(work(30_000 + number)) < 10 * 8 * 30_000


CASES = [
    (1, 5, {}),
    (1, 5, {"held": 0.7}),
    (1, 5, {"segments": 9, "max_length": 300}),
    (2, 5, {"max_length": 1, "held": 0.5}),
]


@pytest.mark.parametrize(("number", "channels", "points", "setting"), [(n, *each) for n, each in enumerate(CASES)])
@pytest.mark.filterwarnings("ignore:With :tempograd.TempogradWarning")
def test_four_times_as_many_steps_are_about_four_times_the_work(number, channels, points, setting):
    def explained(time: int, written: Written) -> None:
        model, x = linear(time, channels), series(1, time, channels)
        with written:
            tg.explain(model, x, "timing", target=0, n_samples=points, **setting)

    short, long, steps = Written(), Written(), 16_000 + 4 * number
    explained(4_000 + number, short)
    taken = most_bytes(lambda: explained(steps, long))
    assert long.total < 5 * short.total  # how many masks are drawn again is a matter of luck
    cells = points * channels * steps
    assert long.largest < 8 * cells
    assert taken < 4 * 8 * cells
