"""A worker that dies costs its own fragment a try, and no other one anything; who dies three times is given up."""

import sys
from concurrent.futures import Future

import pytest

import tempograd as tg
from tempograd.bulk import engines
from tests.bulk import dying

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
ALWAYS = 99


@pytest.fixture
def through(tmp_path, monkeypatch):
    """Run fragments by processes that load no model, and return those that were done and those that were not."""
    for name, other in (("_enter", dying.enter), ("_run_here", dying.run)):
        monkeypatch.setattr(engines, name, other)
    for name in ("__spec__", "__file__"):  # of pytest, which every process would load
        monkeypatch.setattr(sys.modules["__main__"], name, None, raising=False)

    def run(workers, deaths):
        fragments = [
            dying.Fragment(f"f{place:02}", str(tmp_path), number, place) for place, number in enumerate(deaths)
        ]
        found = list(engines.run_by(engines.Processes(None, workers, None), fragments))
        done = [attempt.fragment.name for attempt in found if attempt.entry is not None]
        lost = {attempt.fragment.name: attempt.error for attempt in found if attempt.entry is None}
        assert sorted([*done, *lost]) == [fragment.name for fragment in fragments]
        assert not list(tmp_path.glob("*.running"))
        return lost

    return run


def tries(folder, name):
    """Return, for each try of a fragment, how many others ran then."""
    return list(map(int, (folder / f"{name}.tries").read_text().split()))


@pytest.mark.parametrize(("workers", "count", "place"), [(2, 20, 0), (4, 20, 7)])
def test_one_that_kills_its_worker_is_given_up_alone(workers, count, place, tmp_path, through):
    lost = through(workers, [ALWAYS if each == place else 0 for each in range(count)])
    assert list(lost) == [f"f{place:02}"]
    assert "A worker was killed" in lost[f"f{place:02}"]
    assert len(tries(tmp_path, f"f{place:02}")) == engines.TRIES
    assert tries(tmp_path, f"f{place:02}")[-1] == 0  # alone
    for each in range(count):
        assert each == place or len(tries(tmp_path, f"f{each:02}")) == 1


@pytest.mark.parametrize("workers", [2])
def test_one_that_dies_once_costs_nothing(workers, tmp_path, through):
    assert through(workers, [1, *[0] * 39]) == {}
    assert len(tries(tmp_path, "f00")) == 2


def test_several_of_them_are_all_named(through):
    assert sorted(through(4, [0, ALWAYS, 0, ALWAYS, 2, 1, ALWAYS, *[0] * 13])) == ["f01", "f03", "f06"]


def test_all_workers_may_die_at_once(through):
    """As when a machine is short of memory for a moment."""
    assert through(6, [1] * 6 + [0] * 4) == {}


@pytest.mark.slow
def test_where_nobody_lives_the_run_stops(tmp_path, through):
    with pytest.raises(tg.TempogradError, match="20 workers in a row were killed"):
        through(4, [ALWAYS] * 30)
    assert not list(tmp_path.glob("*.running"))


class Silent(engines.Pool):
    """Workers of whom nobody hears after the first fragment."""

    def __init__(self):
        self.ended, self.given = False, 0

    def submit(self, fragment):
        future, self.given = Future(), self.given + 1
        if self.given == 1:
            future.set_result(dying.Done(fragment.name))
        return future

    def close(self):
        self.ended = True


def test_workers_that_are_silent_are_ended(tmp_path):
    pool = Silent()
    found = engines.run_by(pool, [dying.Fragment(f"f{place}", str(tmp_path)) for place in range(9)], 0.1)
    assert next(found).fragment.name == "f0"
    with pytest.raises(tg.TempogradError, match=r"No fragment was finished within timeout=0\.1 seconds"):
        next(found)
    assert pool.ended
