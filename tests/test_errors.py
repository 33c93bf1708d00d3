"""Whatever a message shows, it is a few words on one line."""

import pickle
import threading
import warnings

import numpy as np
import pytest
import torch

from tempograd.core.errors import (
    DataError,
    InputError,
    MissingExtraError,
    ModelError,
    OutputError,
    SettingError,
    TempogradWarning,
    UnknownNameError,
    WarningCounts,
    brief,
    counted_warnings,
    warn,
)


class Loud:
    def __repr__(self):
        return "line\n" * 100


class Mute:
    def __repr__(self):
        raise ValueError("no")


LARGE = {
    "array": np.zeros((1000, 1000)),
    "tensor": torch.zeros(100, 100),
    "single tensor": torch.tensor(3.0),
    "list of arrays": [np.zeros(100)] * 9,
    "texts": {"a" * 50: "b" * 50, "c" * 50: "d" * 50},
    "text": "word\n" * 1000,
    "module": torch.nn.Sequential(*[torch.nn.Linear(3, 3)] * 50),
    "integer": 10**5000,
    "loud": Loud(),
    "mute": Mute(),
    "list of mutes": [Mute()],
    "nested": [[[[list(range(100))] * 100] * 100]],
}


@pytest.mark.parametrize("name", LARGE)
def test_it_is_short(name):
    said = brief(LARGE[name])
    assert 3 < len(said) <= 60
    assert "\n" not in said
    assert " at 0x" not in said


def test_it_says_what_counts():
    assert brief(np.zeros((2, 3), "f4")) == "an ndarray of shape (2, 3) and float32"
    assert brief(torch.zeros(2, 3)) == "a Tensor of shape (2, 3) and float32"
    assert brief(np.float32(0.5)) == "0.5"
    assert brief(object()) == "an object of class object"
    assert brief("a\nb") == r"'a\nb'"


ERRORS = {
    "unknown": UnknownNameError("explainer", "timming", ["timing", "fit"]),
    "unknown, for short": UnknownNameError("metric", "Acc", ["accuracy", "cpd"], short={"acc": "accuracy"}),
    "extra": MissingExtraError("matplotlib", "plots"),
    **{
        kind.__name__: kind("Two\nlines.")
        for kind in (InputError, SettingError, ModelError, DataError, OutputError)
    },
}


@pytest.mark.parametrize("name", ERRORS)
def test_it_reaches_another_process_as_it_was(name):
    error = ERRORS[name]
    error.row = 7
    error.add_note("in the second file")
    found = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(found) is type(error)
    assert str(found) == str(error) != ""
    assert found.args == error.args
    assert (found.row, found.__notes__) == (7, ["in the second file"])


def test_only_who_gives_short_names_hints_at_them():
    assert "Did you mean 'accuracy'?" in str(ERRORS["unknown, for short"])
    assert "Did you mean" not in str(UnknownNameError("metric", "Acc", ["accuracy", "cpd"]))


def test_warnings_are_counted_instead_of_said():
    """Those that differ in figures are of one kind; those of others, and those afterwards, come as ever."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with counted_warnings() as counts:
            for cells in ("3", "1,204", "0.5"):
                warn(f"{cells} cells are rarely free.")
            warn("The model draws.")
            warnings.warn("of somebody else", UserWarning, stacklevel=1)
        warn("afterwards")
    assert counts == {"3 cells are rarely free.": 3, "The model draws.": 1}
    assert [str(each.message) for each in said] == ["of somebody else", "afterwards"]


def test_counts_of_several_places_are_put_together_and_said_once():
    counts = WarningCounts({"3 cells are rarely free.": 2, "The model draws.": 1})
    counts.add("8 cells are rarely free.", 1_400)
    with pytest.warns(TempogradWarning) as said:
        counts.say()
    assert [str(each.message) for each in said] == ["3 cells are rarely free. (1,402 times)", "The model draws."]


def test_an_inner_count_is_its_own_and_an_error_ends_the_outer_one():
    seen = []

    def fails():
        with counted_warnings() as outer:
            with counted_warnings() as inner:
                warn("inside")
            warn("outside")
            seen.extend([inner, outer])
            raise InputError("wrong")

    with pytest.raises(InputError):
        fails()
    assert seen == [{"inside": 1}, {"outside": 1}]
    with pytest.warns(TempogradWarning, match="afterwards"):
        warn("afterwards")


def test_warnings_of_another_thread_are_not_counted_here():
    thread = threading.Thread(target=warn, args=["there"])

    def meanwhile():
        with counted_warnings() as counts:
            thread.start()
            thread.join()
        assert counts == {}

    with pytest.warns(TempogradWarning, match="there"):
        meanwhile()
