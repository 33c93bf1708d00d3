"""What every error of the command line is: one line, and in words of options."""

import re

import pytest

BEFORE = re.compile(r"tempograd: warning: |\d{4}-\d\d-\d\dT[\d:]{8}Z ")
PYTHON = re.compile(r"(?<![\w-])[a-z_]+=('|[ ,.:;)]|True|None)|tempograd\.[a-z]|\btg\.")


@pytest.fixture
def said():
    """Return a check of what a command that failed wrote to standard error.

    Warnings and the lines of a run, which have a time stamp, may come before the error.
    """

    def check(text):
        (line,) = (line for line in text.splitlines() if not BEFORE.match(line))
        assert line.startswith("tempograd: ")
        assert len(line) <= 320
        assert not PYTHON.search(line)

    return check
