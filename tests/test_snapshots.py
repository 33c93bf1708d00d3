"""Sentences that are kept: what is said must be there, what is there must be said, and only --renew writes."""

import pytest

from tests.helpers.snapshots import NAME, read

TALK = """
    import pytest

    @pytest.mark.parametrize("case", ["a b", "c"])
    def test_talk(said, case):
        said(f"first\\n\\n  of {case}  ")
        said("second in /folder", FOLDER="/folder")

    def test_other(said):
        said("No metric is called 'x'. Did you mean 'y'? Known names: p, q.")

    def test_silent():
        pass
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """A folder with three tests that talk, and a function that runs them and returns how each ended."""
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(test_talk=TALK.replace("/folder", str(pytester.path)))

    def run(*options):
        done = pytester.runpytest("-p", "tests.helpers.snapshots", "-p", "no:hypothesispytest", *options)
        return done.parseoutcomes()

    return run


def test_what_is_not_kept_fails_and_is_not_written(suite, pytester):
    assert suite() == {"failed": 3, "passed": 1}
    assert not (pytester.path / NAME).exists()


def test_only_renewing_writes_and_then_all_is_well(suite, pytester):
    assert suite("--renew") == {"passed": 3, "deselected": 1}
    assert (pytester.path / NAME).read_text().partition("\n\n")[2] == (
        "test_talk.py::test_other\n"
        "    No metric is called 'x'. Did you mean 'y'? Known names: …\n"
        "\n"
        "test_talk.py::test_talk\n"
        "  [a b]\n    first\n\n      of a b\n  --\n    second in FOLDER\n"
        "  [c]\n    first\n\n      of c\n  --\n    second in FOLDER\n"
    )
    assert suite() == {"passed": 5}
    before = (pytester.path / NAME).read_text()
    assert suite("--renew") == {"passed": 3, "deselected": 2}
    assert (pytester.path / NAME).read_text() == before


@pytest.fixture
def kept(suite, pytester):
    suite("--renew")
    return pytester.path / NAME


def changed(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_another_text_fails(suite, kept):
    changed(kept, "of c", "of d")
    assert suite() == {"failed": 1, "passed": 4}


def test_what_nobody_says_any_more_fails(suite, kept):
    kept.write_text(kept.read_text() + "  --\n    third\n")
    assert suite() == {"failed": 1, "passed": 4}


def test_what_is_said_once_more_fails(suite, kept):
    changed(kept, "\n  --\n    second in FOLDER\n  [c]", "\n  [c]")
    assert suite() == {"failed": 1, "passed": 4}


@pytest.mark.parametrize("stale", ["test_talk.py::test_gone", "test_gone.py::test_talk"])
def test_sentences_of_tests_that_are_gone_fail_until_they_are_renewed(suite, kept, stale):
    kept.write_text(kept.read_text() + f"\n{stale}\n    old\n")
    assert suite() == {"failed": 1, "passed": 4}
    assert suite("test_talk.py::test_other") == {"passed": 1}  # one test knows nothing of the others
    suite("--renew")
    assert stale not in read(kept)
    assert suite() == {"passed": 5}


def test_renewing_one_test_leaves_the_others(suite, kept):
    before = read(kept)
    changed(kept, "of c", "of d")
    changed(kept, "Did you mean", "Do you mean")
    suite("--renew", "test_talk.py::test_other")
    assert read(kept)["test_talk.py::test_talk[c]"][0] == "first\n\n  of d"
    assert read(kept)["test_talk.py::test_other"] == before["test_talk.py::test_other"]


def test_a_test_that_fails_keeps_its_sentence_when_the_others_are_renewed(suite, kept, pytester):
    source = pytester.path / "test_talk.py"
    changed(source, "'x'. Did you", "'z'. Did you")
    source.write_text(source.read_text().replace("def test_silent", "    assert 0\n\ndef test_silent"))
    assert suite("--renew") == {"failed": 1, "passed": 2, "deselected": 2}
    assert "called 'x'" in read(kept)["test_talk.py::test_other"][0]


def test_a_test_that_falls_silent_loses_its_sentences(suite, kept, pytester):
    changed(pytester.path / "test_talk.py", 'said("No metric', 'str("No metric')
    assert suite() == {"failed": 1, "passed": 4}
    suite("--renew")
    assert "test_talk.py::test_other" not in read(kept)
    assert suite() == {"passed": 5}


def test_several_processes_do_not_renew(suite, pytester):
    done = pytester.runpytest("-p", "tests.helpers.snapshots", "-p", "xdist", "-n", "2", "--renew")
    done.stderr.fnmatch_lines("*run it in one process*")
