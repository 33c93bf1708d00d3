"""Whatever is killed, at whatever moment: started again, all is there once, as one call gives it, nothing is torn.

One process is killed always, all kinds twenty times by ``make test-slow``. What hangs fails. Workers that hang
themselves are here too.
"""

import random
import re
import sys
import time
from pathlib import Path

import pytest

import tempograd as tg
from tests.bulk.conftest import table_of
from tests.bulk.killed import (
    FILES,
    ROWS,
    SERIES,
    Nursery,
    RayCluster,
    assert_as_one_call,
    count_of,
    is_alive,
    kill,
    numbers,
    states,
    wait_for_files,
    wait_until,
    watched,
    write_series,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
turns = pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 21))])
DEAD = re.compile(r"No fragment was finished within timeout=5 seconds\. What is done stays")
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
    """Wait until some more files are there, and then for any part of the time that the next one takes.

    A run may be further than it was asked for when somebody looks, and there are no more than all files.
    """
    wait_for_files(out, min(before + draw.randint(1, FILES // 3), FILES - 1), child)
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
                wait_for_a_moment(draw, out, child, count_of(out))
                child.kill()
            assert before.items() <= states(out).items()
            before = states(out)
            assert count_of(out) < FILES
        with nursery.started(tmp_path, "none") as child:
            child.finish()
    assert_untouched(before, out)


@turns
@pytest.mark.slow  # processes load torch; test_lost_workers.py has those that load nothing
def test_one_of_several_processes_is_killed(turn, tmp_path, nursery):
    """The run ends by itself."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), nursery.started(tmp_path, "processes") as child:
        before = wait_for_a_moment(draw, out, child)
        kill(draw.choice(numbers(child.said, "process")))
        child.finish()
    assert_untouched(before, out)


LOST = re.compile(
    r"1 file or fragment could not be read or explained; the others are done, .* The first: .*A worker "
)


def assert_one_given_up(child, out):
    """What kills its worker is named in the end, and takes nobody with it."""
    assert LOST.search(child.last_words())
    run = tg.open_run(out)
    ids = sorted(table_of(run)["id"].to_pylist())
    assert ids == [*range(ROWS), *range(2 * ROWS, SERIES)]
    assert [Path(where).name for where in run.failures()] == ["in.parquet, from row group 1"]


@pytest.mark.slow  # the same
def test_a_fragment_that_kills_its_worker_takes_no_other_with_it(tmp_path, nursery):
    write_series(tmp_path, far=True)
    with nursery.started(tmp_path, "processes-dies") as child:
        assert_one_given_up(child, tmp_path / "out")


@pytest.mark.slow  # one Ray worker after the other dies
def test_a_fragment_that_kills_its_actor_takes_no_other_with_it(tmp_path, nursery, cluster):
    write_series(tmp_path, far=True)
    with nursery.started(tmp_path, "ray-dies", **cluster.with_node()) as child:
        assert_one_given_up(child, tmp_path / "out")


@turns
@pytest.mark.slow  # starts a cluster
def test_a_ray_actor_and_then_a_ray_node_are_killed(turn, tmp_path, nursery, cluster):
    """The run ends by itself, though the node does not come back: there is room for one worker of two then."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out), nursery.started(tmp_path, "ray", **cluster.with_node()) as child:
        before = wait_for_a_moment(draw, out, child)
        kill(draw.choice(numbers(child.said, "actor")))
        before |= wait_for_a_moment(draw, out, child, len(before) // 3)
        cluster.kill_node()
        child.finish()
    assert_untouched(before, out)


@turns
@pytest.mark.slow  # starts a cluster
def test_the_driver_of_ray_is_killed(turn, tmp_path, nursery, cluster):
    """Its actors end with it; any engine goes on."""
    draw, out = random.Random(turn), tmp_path / "out"
    write_series(tmp_path)
    with watched(out):
        with nursery.started(tmp_path, "ray", **cluster.with_node()) as child:
            wait_for_a_moment(draw, out, child)
            child.kill()
            before = states(out)
        assert count_of(out) < FILES
        with nursery.started(tmp_path, "processes" if turn % 4 == 1 else "none") as child:
            child.finish()
    assert_untouched(before, out)


def assert_ended(child, out):
    """With a sentence; what is done stays, and its workers are gone, which hear no signal but the last."""
    assert DEAD.search(child.last_words())
    workers = numbers(child.said)
    assert workers
    wait_until(lambda: not any(map(is_alive, workers)), 60, "its workers are ended")
    assert 0 < count_of(out) < FILES


@pytest.mark.slow  # a minute, most of it waiting
def test_a_ray_task_that_hangs_is_ended(tmp_path, nursery, cluster):
    write_series(tmp_path, far=True)
    with nursery.started(tmp_path, "ray-hangs", **cluster.with_node()) as child:
        assert_ended(child, tmp_path / "out")


@pytest.mark.slow  # processes load torch
def test_a_process_that_hangs_is_ended(tmp_path, nursery):
    write_series(tmp_path, far=True)
    with nursery.started(tmp_path, "processes-hangs") as child:
        assert_ended(child, tmp_path / "out")
