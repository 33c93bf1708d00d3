"""The list of deliberate breaks fits the tree: what it breaks is there, and so are the tests that caught it."""

from tests.breaks.apply import BREAKS, ROOT, broken, misfits


def test_every_break_can_be_applied():
    assert misfits(ROOT) == []
    assert [each["number"] for each in BREAKS] == list(range(1, 61))


def test_a_break_that_no_longer_fits_is_named(tmp_path):
    (line, *_) = misfits(tmp_path)
    assert line == f"1: its old text stands 0 times in {BREAKS[0]['file']}, not once"


def test_a_break_changes_its_file():
    for change in (each for each in BREAKS if "dropped" not in each):
        assert broken(change, ROOT) != (ROOT / change["file"]).read_text("utf-8")


def test_the_tests_that_caught_a_break_are_there():
    for change in (each for each in BREAKS if "dropped" not in each):
        assert bool(change["caught"]) == (change["old_suite"] == "caught")
        for name in change["caught"]:
            path, _, test = name.partition("::")
            assert f"def {test.rpartition('.')[2]}(" in (ROOT / path).read_text("utf-8"), name
