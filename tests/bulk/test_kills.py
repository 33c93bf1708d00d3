"""Whatever is killed, at whatever moment: started again, all is there once, as one call gives it, and nothing is torn.

One turn of each kind is run always, twenty more by ``make test-slow``. What hangs fails.
"""

import random
import sys
import time

import pytest

from tests.bulk.killed import (
    FILES,
    assert_as_one_call,
    finished,
    is_alive,
    kill,
    kill_node,
    numbers,
    started,
    states,
    wait_for_files,
    watched,
    write_series,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
turns = pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 21))])
GAP = 0.3  # seconds, about what a fragment takes


def wait_for_a_moment(draw, out, child):
    """Wait until some files are there, and then for any part of the time that the next one takes."""
    wait_for_files(out, draw.randint(1, FILES // 2), child)
    time.sleep(draw.uniform(0, GAP))


def go_on(folder, before, engine="none"):
    """Start again, and see that finished files were left alone and that all is there."""
    with started(folder, engine) as (child, _):
        finished(child, folder)
    after = states(folder / "out")
    assert {name: after[name] for name in before} == before
    assert_as_one_call(folder / "out")


@turns
def test_the_process_is_killed(turn, tmp_path):
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out):
        with started(tmp_path, "none") as (child, _):
            wait_for_a_moment(draw, out, child)
            kill(child.pid)
            assert child.wait(30) == -9
        before = states(out)
        assert len(before) < FILES
        go_on(tmp_path, before)


@turns
def test_one_of_several_processes_is_killed(turn, tmp_path):
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), started(tmp_path, "processes") as (child, said):
        wait_for_a_moment(draw, out, child)
        before = states(out)
        kill(draw.choice(numbers(said, "process")))
        finished(child, tmp_path)
    after = states(out)
    assert {name: after[name] for name in before} == before
    assert_as_one_call(out)


@turns
def test_a_ray_actor_and_then_a_ray_node_are_killed(turn, tmp_path):
    """The node does not come back: there were two workers, and then there is room for one."""
    pytest.importorskip("ray")
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), started(tmp_path, "cluster") as (child, said):
        wait_for_files(out, draw.randint(1, FILES // 4), child)
        time.sleep(draw.uniform(0, GAP))
        before = states(out)
        first = numbers(said, "actor")
        kill(draw.choice(first))
        wait_for_files(out, len(before) + draw.randint(1, FILES // 4), child)
        time.sleep(draw.uniform(0, GAP))
        before |= states(out)
        (node,) = numbers(said, "node")
        kill_node(node)
        finished(child, tmp_path)
        assert not is_alive(node)
    after = states(out)
    assert {name: after[name] for name in before} == before
    assert_as_one_call(out)


@turns
def test_the_driver_of_ray_is_killed(turn, tmp_path):
    """Its actors end with it, and whatever engine goes on; the first turn goes on with Ray."""
    pytest.importorskip("ray")
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out):
        with started(tmp_path, "ray") as (child, said):
            wait_for_a_moment(draw, out, child)
            kill(child.pid)
            assert child.wait(30) == -9
            assert len(numbers(said, "actor")) <= 2
        before = states(out)
        assert len(before) < FILES
        go_on(tmp_path, before, draw.choice(["none", "processes"]) if turn else "ray")
