"""What a run tells: a line a minute, events, a forecast of hours, bytes and money, and a limit that ends it."""

import io
import json
from contextlib import redirect_stderr, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import telling as module
from tempograd.bulk.manifest import Manifest
from tempograd.bulk.store import Store
from tempograd.bulk.telling import Log, Telling
from tempograd.bulk.worker import Worker
from tests.bulk.test_runs import Net, explain, states, write

NIGHT = 1_795_057_201.0  # 2026-11-19 03:00:01 UTC
FIELDS = {"time", "event", "run", "done", "total", "faults", "seconds", "per_second", "left"}
PRICE = 4.0


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still until it is moved."""
    clock = SimpleNamespace(now=0.0, time=lambda: NIGHT + clock.now, monotonic=lambda: clock.now)
    monkeypatch.setattr(module, "time", clock)
    return clock


def told(total=100_000, before=0, progress=None, **options):
    """Return what tells of a run, and the list of its events."""
    events = []
    terms = SimpleNamespace(progress=progress or Log(**{"kind": "text"} | options))
    return Telling(total, before, "key", events.append, terms), events


def test_a_line_at_the_start_each_minute_and_at_the_end(clock, capsys):
    telling, events = told(before=2_000)
    waits = iter([False, False, True])

    def wait(seconds):
        assert seconds == 60
        clock.now += seconds
        return next(waits)

    with telling, telling.showing():
        clock.now = 10
        telling.note("a", 8_000, 2, 10.0, 1_000)
        telling.tell(500)
        telling.beat(wait)
        telling.note("b", 90_000, 0, 120.0, 1_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "2026-11-19T03:00:01Z 2,000 of 100,000 series"
    assert lines[2:] == [
        "2026-11-19T03:01:11Z 10,500 of 100,000 series, 121 series/s, 2 without an explanation, 12:17 left",
        "2026-11-19T03:02:11Z 10,500 of 100,000 series, 65 series/s, 2 without an explanation, 22:49 left",
        "2026-11-19T03:03:11Z 100,000 of 100,000 series, 516 series/s, 2 without an explanation",
    ]
    assert lines[1].startswith("2026-11-19T03:00:11Z about ")
    assert [event["event"] for event in events] == ["begin", "fragment", "forecast", "fragment", "end"]
    assert events[1] == {
        "time": "2026-11-19T03:00:11Z",
        "event": "fragment",
        "run": "key",
        "done": 10_000,
        "total": 100_000,
        "faults": 2,
        "seconds": 10.0,
        "per_second": 800.0,
        "left": 112.5,
        "fragment": "a",
        "rows": 8_000,
        "bytes": 1_000,
        "took": 10.0,
    }


@pytest.mark.parametrize(
    ("done", "seconds", "price", "line"),
    [
        (20_000, 1_260, PRICE, "about 1:24:00 more, 2,310 MB of results, about 5.60 at 4.00 per hour"),
        (20_000, 1_260, None, "about 1:24:00 more, 2,310 MB of results"),
        (50_000, 1_500, None, "about 25:00 more, 2,310 MB of results"),
        (50_000, 20, 3_600.0, "about 0:20 more, 2,310 MB of results, about 20.00 at 3,600.00 per hour"),
    ],
)
def test_a_forecast_of_hours_bytes_and_money(done, seconds, price, line, clock, capsys):
    telling, events = told(price=price)
    with telling:
        clock.now = seconds
        telling.showing().__enter__()
        telling.note("a", done, 0, 1.0, 23_100 * done)
        telling.note("b", 1, 0, 1.0, 23_100)
    assert [each.split(" ", 1)[1] for each in capsys.readouterr().err.splitlines() if "about" in each] == [line]
    (event,) = (event for event in events if event["event"] == "forecast")
    assert event["bytes"] == 2_310_000_000
    money = None if price is None else price * seconds * (100_000 - done) / done / 3_600
    assert event["money"] == (None if money is None else pytest.approx(money))


def test_a_forecast_waits_until_it_can_be_one(clock):
    """One of six workers that is first tells a sixth of the pace, and the first seconds nothing."""
    telling, events = told()
    telling.workers = 6
    with telling, telling.showing():
        for number in range(6):
            clock.now += 6
            telling.note(str(number), 100, 0, 6.0, 10)
    assert [event["done"] for event in events if event["event"] == "forecast"] == [600]
    telling, events = told()
    with telling, telling.showing():
        for number in range(6):
            clock.now += 6
            telling.note(str(number), 100, 0, 6.0, 10)
    assert [event["done"] for event in events if event["event"] == "forecast"] == [500]  # after 30 seconds
    for total, before in ((None, 0), (100_000, 99_900)):  # nobody knows what is left, or nothing is
        telling, events = told(total, before, price=PRICE)
        with telling, telling.showing():
            clock.now += 60
            telling.note("a", 100, 0, 6.0, 10)
        assert "forecast" not in {event["event"] for event in events}


def test_how_an_end_is_told(clock, capsys):
    telling, events = told()
    with suppress(ValueError), telling:
        telling.failed("a", "the cable is loose")
        raise ValueError("the cable is cut")
    assert [event.get("reason") for event in events] == [None, "the cable is loose", "the cable is cut"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        "2026-11-19T03:00:01Z failed: a, the cable is loose",
        "2026-11-19T03:00:01Z 0 of 100,000 series, stopped",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "terminal", "shown"),
    [
        (Log(price=PRICE), False, "text"),
        (Log(price=PRICE), True, "forecast"),  # beside the bar
        (print, False, ""),
        (print, True, ""),
        (Log("text", PRICE), True, "text"),
        (Log("json", PRICE), True, "json"),
    ],
)
def test_who_is_told_what(progress, terminal, shown, clock):
    with redirect_stderr(Terminal() if terminal else io.StringIO()) as stream:
        telling, events = told(progress=progress)
        with telling, telling.showing():
            clock.now = 100
            telling.note("a", 8_000, 0, 10.0, 1_000)
    lines = stream.getvalue().replace("\r", "").splitlines()
    if shown == "json":
        assert [json.loads(line) for line in lines] == events
    else:
        assert ["about" in line for line in lines] == {
            "text": [False, True, False],
            "forecast": [True],
            "": [],
        }[shown]


def events_of(folder):
    lines = (Path(folder) / "_tempograd" / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def series(count=60):
    return torch.randn(count, 6, 2, generator=torch.Generator().manual_seed(0))


def test_the_events_of_a_run_are_in_its_folder(tmp_path):
    write(tmp_path / "in", series())
    run = explain(tmp_path)
    events = events_of(run.folder)
    assert [event["event"] for event in events] == ["begin", *["fragment"] * 3, "end"]
    assert {event["run"] for event in events} == {run.key}
    assert all(event.keys() >= FIELDS for event in events)
    entries = Manifest(Store(run.folder)).entries.values()
    sizes = {entry.fragment.where: sum(size for size, _ in entry.files.values()) for entry in entries}
    assert {event["fragment"]: event["bytes"] for event in events[1:-1]} == sizes
    assert [event["done"] for event in events] == [0, 20, 40, 60, 60]
    Path(run.files()[0]).unlink()
    explain(tmp_path)
    assert [event["done"] for event in events_of(run.folder)[5:]] == [40, 60, 60]  # the same file goes on


def test_a_run_that_is_refused_at_its_end_ends_with_the_reason(tmp_path, monkeypatch):
    write(tmp_path / "in", series())

    def failing(self, batch, known):
        raise RuntimeError("the cable is loose")

    monkeypatch.setattr(Worker, "explain_each", failing)
    with pytest.raises(tg.TempogradError, match="3 files or fragments could not be read or explained"):
        explain(tmp_path)
    begin, *failed, end = events_of(tmp_path / "out")
    assert [(event["event"], event["reason"]) for event in failed] == [
        ("failed", "RuntimeError: the cable is loose")
    ] * 3
    assert "3 files or fragments could not" in end["reason"]
    assert "reason" not in begin


def test_a_limit_ends_a_run_that_goes_on_without_it(tmp_path, capsys):
    write(tmp_path / "in", series())
    run = explain(tmp_path, limit=21)
    assert (len(run), run.summary()["left"]) == (40, 1)
    assert " about " in capsys.readouterr().err.splitlines()[-2]  # a forecast of the rest
    before = states(run)
    run = explain(tmp_path, limit=20)
    assert (len(run), run.summary()["left"]) == (60, 0)
    assert before.items() <= states(run).items()
    assert explain(tmp_path, limit=1).summary()["left"] == 0


def test_a_limit_of_several_workers_is_no_more_than_that(tmp_path):
    """What is on its way counts, where it is known how many series that are."""
    write(tmp_path / "in", series())
    assert len(explain(tmp_path, limit=20, workers=3)) == 20


def test_a_limit_below_a_fragment_is_one_fragment(tmp_path):
    write(tmp_path / "in", series())
    assert len(explain(tmp_path, limit=5)) == 20


def test_a_limit_of_files_whose_series_nobody_counted(tmp_path):
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=series(7).numpy())
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    run = tg.explain_dataset(net, f"{tmp_path}/*.npz", tmp_path / "out", limit=8, n_samples=20)
    assert len(run) == 14


@pytest.mark.parametrize("options", [{"limit": 0}, {"progress": "xml"}, {"gradient_check": False}])
def test_what_cannot_be_told(options, tmp_path):
    write(tmp_path / "in", series())
    with pytest.raises(tg.TempogradError, match=next(iter(options))):
        explain(tmp_path, Net(), **options)
    assert not (tmp_path / "out").exists()


def test_events_as_they_come(tmp_path, capsys):
    write(tmp_path / "in", series())
    run = explain(tmp_path, progress="json")
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == events_of(run.folder)
