"""Every key of a TOML text is found in its line."""

import tomllib
from pathlib import Path

import pytest

from tempograd_paper.runner.entry import key_lines
from tempograd_paper.runner.reading import PLANS

# the value of every key and entry that counts is the number of its line
TRICKY = '''\
first = 1  # a comment with [ and { and " and = 99

"quoted key" = 3
'literal.key' = 4
"esc\\u0061ped" = 5
text = "a # no comment, ] no bracket, \\" no end"
other = 'C:\\'
lines = """
[not.a.header]
fake = 1
quotes at the end: """""
raw = \'\'\'
[[neither]] " \'\'\'
after = 14
list = [15, 15,
  16,  # [ comment ]
  [17, "]", 17],

  { at = 19, deep = [19,
    20], more.still = 20 },
]
dotted.one = 22
dotted . "two" = 23
date = 1979-05-27 07:32:00
empty = []
none = {}

[table]
a = 29

[table.inner]
b = 32

[[many]]
c = 35
[many.sub]
d = 37
[[many.deep]]
e = 39
[[many.deep]]
e = 41
[[many]]  # again
c = 43
[[many.deep]]
e = 45
'''


def numbered(value, path=()):
    """Every (path, integer) of a document; an integer says its line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbered(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from numbered(inner, (*path, position))
    elif isinstance(value, int):
        yield path, value


def paths(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            yield from paths(inner, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.parametrize("text", [TRICKY, TRICKY.replace("\n", "\r\n")], ids=["unix", "windows"])
def test_numbers_are_found_in_the_lines_they_name(text):
    expected = dict(numbered(tomllib.loads(text)))
    assert len(expected) == 24
    found = key_lines(text)
    assert {path: found[path] for path in expected} == expected


def test_tables_are_found_where_they_first_appear():
    found = key_lines(TRICKY)
    assert found["lines",] == 8
    assert found["raw",] == 12
    assert found["list",] == 15
    assert found["list", 3] == 17
    assert found["list", 4] == 19
    assert found["list", 4, "more"] == 20
    assert found["dotted",] == 22
    assert found["table",] == 28
    assert found["table", "inner"] == 31
    assert found["many",] == found["many", 0] == 34
    assert found["many", 0, "deep", 1] == 40
    assert found["many", 1] == 42
    assert found["many", 1, "deep"] == 44


@pytest.mark.parametrize("path", [*PLANS.glob("*.toml"), Path(__file__)], ids=lambda path: path.stem)
def test_no_key_is_missed_and_none_made_up(path):
    text = TRICKY if path == Path(__file__) else path.read_text()
    assert set(key_lines(text)) == set(paths(tomllib.loads(text))) - {()}
