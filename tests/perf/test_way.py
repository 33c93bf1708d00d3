"""The way of one call through the library does not grow: its files, functions and frames."""

import pytest

from way import METHODS, way

MOST = (20, 170, 12)  # files, functions, frames above the deepest forward


@pytest.mark.parametrize("method", METHODS)
def test_the_way_of_one_call_does_not_grow(method):
    traced = way(method)
    counts = (traced.files, traced.functions, traced.frames)
    within = [count <= most for count, most in zip(counts, MOST, strict=True)]
    assert all(within), f"{counts} exceeds {MOST}: python perf/way.py {method} --list shows where"


def test_a_way_leads_from_the_door_to_the_model():
    """The outermost frame is the public function, and every frame is one of the functions that are counted."""
    traced = way("integrated_gradients")
    assert traced.stack[-1][1] == "explain"
    assert set(traced.stack) <= set(traced.places)
    assert traced.calls >= traced.functions > traced.files > 1
