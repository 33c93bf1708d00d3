"""Whatever is killed, at whatever moment: started again, all is there once, as one call gives it, nothing is torn.

One turn of each kind is run always, twenty more by ``make test-slow``. What hangs fails.
"""

import random
import sys
import time

import pytest

from tests.bulk.killed import (
    FILES,
    Nursery,
    RayCluster,
    assert_as_one_call,
    kill,
    numbers,
    states,
    wait_for_files,
    watched,
    write_series,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
turns = pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 21))])
GAP = 0.2  # seconds, about what a fragment takes


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    made = RayCluster()
    yield made
    made.close()


def wait_for_a_moment(draw, out, child, before=0):
    """Wait until some more files are there, and then for any part of the time that the next one takes."""
    wait_for_files(out, before + draw.randint(1, FILES // 3), child)
    time.sleep(draw.uniform(0, GAP))
    return states(out)


def assert_untouched(before, out):
    assert before.items() <= states(out).items()
    assert_as_one_call(out)


@turns
def test_the_process_is_killed(turn, tmp_path, nursery):
    """Twice."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    before = {}
    with watched(out):
        for _ in range(2):
            with nursery.started(tmp_path, "none") as child:
                wait_for_a_moment(draw, out, child, len(before))
                child.kill()
            assert before.items() <= states(out).items()
            before = states(out)
            assert len(before) < FILES
        with nursery.started(tmp_path, "none") as child:
            child.finish()
    assert_untouched(before, out)


@turns
def test_one_of_several_processes_is_killed(turn, tmp_path, nursery):
    """The run ends by itself."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), nursery.started(tmp_path, "processes") as child:
        before = wait_for_a_moment(draw, out, child)
        kill(draw.choice(numbers(child.said, "process")))
        child.finish()
    assert_untouched(before, out)


@turns
def test_a_ray_actor_and_then_a_ray_node_are_killed(turn, tmp_path, nursery, cluster):
    """The run ends by itself, though the node does not come back: there is room for one worker of two then."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), nursery.started(tmp_path, "ray", **cluster.with_node()) as child:
        before = wait_for_a_moment(draw, out, child)
        kill(draw.choice(numbers(child.said, "actor")))
        before |= wait_for_a_moment(draw, out, child, len(before))
        cluster.kill_node()
        child.finish()
    assert_untouched(before, out)


@turns
def test_the_driver_of_ray_is_killed(turn, tmp_path, nursery, cluster):
    """Its actors end with it; any engine goes on."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out):
        with nursery.started(tmp_path, "ray", **cluster.with_node()) as child:
            wait_for_a_moment(draw, out, child)
            child.kill()
            before = states(out)
        assert len(states(out)) < FILES
        with nursery.started(tmp_path, "none" if turn % 4 else "processes") as child:
            child.finish()
    assert_untouched(before, out)
