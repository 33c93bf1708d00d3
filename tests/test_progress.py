import io

import pytest

from tempograd import progress as module
from tempograd.progress import progress, render


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_nothing_is_written_where_nobody_looks(clock):
    stream = io.StringIO()
    with progress(10, "work", stream) as advance:
        clock[0] = 60.0
        advance(5)
    assert stream.getvalue() == ""


def test_short_work_needs_no_line_and_long_work_is_announced_and_cleared(clock):
    stream = Terminal()
    with progress(4, "work", stream) as advance:
        clock[0] = 0.5
        advance()
        assert stream.getvalue() == ""
        clock[0] = 2.0
        advance(note="so far")
        line = stream.getvalue()
        assert line.startswith("\rwork [")
        assert "50 %  0:02 elapsed, 0:02 left  so far" in line
    assert stream.getvalue() == line + "\r" + " " * (len(line) - 1) + "\r"


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [
        (0, 10, 3.0, "0 %  0:03 elapsed, ? left"),
        (12, 10, 3.0, "100 %  0:03 elapsed, 0:00 left"),
        (0, 0, 0.0, "100 %  0:00 elapsed, 0:00 left"),
        (1, 2, 3725.0, "50 %  1:02:05 elapsed, 1:02:05 left"),
    ],
)
def test_beginning_end_and_hours(done, total, elapsed, text):
    assert render("x", done, total, elapsed).endswith(text)
