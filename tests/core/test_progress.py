import io

import pytest

from tempograd.core import progress as module
from tempograd.core.progress import muted, part, progress_bar, render, say


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
    with progress_bar(10, "work", stream) as advance:
        clock[0] = 60.0
        advance(5)
    assert stream.getvalue() == ""


def test_short_work_needs_no_line_and_long_work_is_announced_and_cleared(clock):
    stream = Terminal()
    with progress_bar(4, "work", stream) as advance:
        clock[0] = 0.5
        advance()
        assert stream.getvalue() == ""
        clock[0] = 2.0
        advance(note="so far")
        line = stream.getvalue()
        assert line.startswith("\rwork [")
        assert "50 %  0:02 elapsed, 0:02 left  so far" in line
    assert stream.getvalue() == line + "\r" + " " * (len(line) - 1) + "\r"


def shown(clock) -> bool:
    stream = Terminal()
    with progress_bar(2, "work", stream) as advance:
        clock[0] += 5
        advance()
    return "50 %" in stream.getvalue()


def test_muted_work_shows_nothing_and_the_rest_goes_on(clock):
    assert shown(clock)
    with muted():
        assert not shown(clock)
        with muted():
            assert not shown(clock)
        assert not shown(clock)  # the inner block ends nothing
    assert shown(clock)


def test_an_error_in_muted_work_does_not_mute_what_follows(clock):
    with pytest.raises(ZeroDivisionError), muted():
        raise ZeroDivisionError
    assert shown(clock)


def test_a_line_that_began_before_stays(clock):
    stream = Terminal()
    with progress_bar(2, "whole", stream) as advance:
        with muted():
            assert not shown(clock)
        clock[0] += 5
        advance()
    assert "whole" in stream.getvalue()


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


def shares(stream) -> list[str]:
    return [line.split("]")[1].split(" %")[0].strip() for line in stream.getvalue().split("\r") if "]" in line]


def test_a_part_moves_the_line_of_the_whole_when_it_ends(clock, monkeypatch):
    monkeypatch.setattr(module, "PERIOD", 0.0)
    stream = Terminal()
    with progress_bar(4, "whole", stream) as advance:
        clock[0] = 2.0
        with part(advance, 2, "first"), progress_bar(2, "inner", stream) as inner:
            inner(1)
        with part(advance, 2, "second"):
            pass
    assert "inner" not in stream.getvalue()
    assert shares(stream) == ["0", "50", "50", "100"]
    assert stream.getvalue().count("first") == 2


def test_text_is_printed_above_the_line(clock, capsys, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(module.sys, "stdout", stream)
    with progress_bar(2, "work", stream) as advance:
        clock[0] = 2.0
        advance()
        line = stream.getvalue()[1:]
        say("done with one")
    blank = "\r" + " " * len(line) + "\r"
    assert stream.getvalue() == f"\r{line}{blank}done with one\n\r{line}{blank}"
    say("no line any more")
    assert stream.getvalue().endswith(f"{blank}no line any more\n")
