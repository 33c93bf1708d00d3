"""Whatever a message shows, it is a few words on one line."""

import pickle

import numpy as np
import pytest
import torch

from tempograd.errors import (
    DataError,
    InputError,
    MissingExtraError,
    ModelError,
    OutputError,
    SettingError,
    UnknownNameError,
    brief,
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
