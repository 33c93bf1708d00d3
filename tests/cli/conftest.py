"""What every error of the command line is: one line, and in words of options."""

import re

import pytest

PYTHON = re.compile(r"(?<![\w-])[a-z_]+=('|[ ,.:;)]|True|None)|tempograd\.[a-z]|\btg\.")


@pytest.fixture
def said():
    """Return a check of what a command that failed wrote to standard error; warnings may come before the error."""

    def check(text):
        (line,) = (line for line in text.splitlines() if not line.startswith("tempograd: warning: "))
        assert line.startswith("tempograd: ")
        assert len(line) <= 320
        assert not PYTHON.search(line)

    return check
