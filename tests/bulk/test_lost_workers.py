"""A worker that dies costs its own fragment a try, and no other one anything; who dies three times is given up."""

import sys

import pytest

import tempograd as tg
from tempograd.bulk import engines
from tempograd.bulk.sources import Fragment
from tests.bulk import dying

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
ALWAYS = 99


@pytest.fixture
def through(tmp_path, monkeypatch):
    """Run fragments by processes that load no model, and return those that were done and those that were not."""
    for name, other in (("_enter", dying.enter), ("_run", dying.run), ("Outcome", dying.Done)):
        monkeypatch.setattr(engines, name, other)
    for name in ("__spec__", "__file__"):  # of pytest, which every process would load
        monkeypatch.setattr(sys.modules["__main__"], name, None, raising=False)

    def run(workers, deaths):
        fragments = [
            Fragment(f"f{place:02}", "array", str(tmp_path), "", number, place)
            for place, number in enumerate(deaths)
        ]
        found = list(engines.through(engines.Processes(str(tmp_path), workers, None, None), fragments))
        done = [attempt.fragment.name for attempt in found if attempt.outcome is not None]
        lost = {attempt.fragment.name: attempt.error for attempt in found if attempt.outcome is None}
        assert sorted([*done, *lost]) == [fragment.name for fragment in fragments]
        assert not list(tmp_path.glob("*.running"))
        return lost

    return run


def tries(folder, name):
    """Return, for each try of a fragment, how many others ran then."""
    return list(map(int, (folder / f"{name}.tries").read_text().split()))


@pytest.mark.parametrize(
    ("workers", "count", "place"), [(2, 20, 0), (4, 20, 7), (8, 20, 0), (10, 60, 0), (20, 60, 7)]
)
def test_one_that_kills_its_worker_is_given_up_alone(workers, count, place, tmp_path, through):
    lost = through(workers, [ALWAYS if each == place else 0 for each in range(count)])
    assert list(lost) == [f"f{place:02}"]
    assert "A worker was killed" in lost[f"f{place:02}"]
    assert len(tries(tmp_path, f"f{place:02}")) == engines.TRIES
    assert tries(tmp_path, f"f{place:02}")[-1] == 0  # alone
    for each in range(count):
        assert each == place or len(tries(tmp_path, f"f{each:02}")) == 1


@pytest.mark.parametrize("workers", [2, 20])
def test_one_that_dies_once_costs_nothing(workers, tmp_path, through):
    assert through(workers, [1, *[0] * 39]) == {}
    assert len(tries(tmp_path, "f00")) == 2


def test_several_of_them_are_all_named(through):
    assert sorted(through(4, [0, ALWAYS, 0, ALWAYS, 2, 1, ALWAYS, *[0] * 13])) == ["f01", "f03", "f06"]


def test_all_workers_may_die_at_once(through):
    """As when a machine is short of memory for a moment."""
    assert through(20, [1] * 20 + [0] * 10) == {}


def test_where_nobody_lives_the_run_stops(tmp_path, through):
    with pytest.raises(tg.TempogradError, match="20 workers died in a row"):
        through(4, [ALWAYS] * 30)
    assert not list(tmp_path.glob("*.running"))


class Never(engines.Hands):
    """Workers of which every third dies before it has a fragment, as actors may while they start."""

    def __init__(self, folder):
        self.folder, self.capacity, self.waits = str(folder), 2, 0

    def submit(self, fragment):
        return fragment.name

    def wait(self, waiting, seconds):
        self.waits += 1
        if self.waits % 3:
            return [(None, engines.WorkerLostError("A worker died while it started."))]
        return [(waiting[0], dying.Done(waiting[0]))]

    def close(self):
        pass


@pytest.mark.usefixtures("through")
def test_a_death_before_the_work_is_no_try(tmp_path):
    fragments = [Fragment(f"f{place}", "array", str(tmp_path), "") for place in range(9)]
    found = list(engines.through(Never(tmp_path), fragments))
    assert [attempt.fragment.name for attempt in found] == [fragment.name for fragment in fragments]
    assert all(attempt.outcome is not None for attempt in found)
