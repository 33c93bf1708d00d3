"""The judge of the fuzz suite sees what it is there to see: each fault is planted once."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tempograd.core.errors import DataError, InputError, TempogradWarning, warn
from tests.fuzz.calls import near
from tests.fuzz.trials import FAILED, REFUSED, RIGHT, Case, Outcome, judged, must

SENTENCE = "x must hold numbers, got text: pass a tensor."


def outcome(call, right=lambda found: "", **more) -> Outcome:
    return judged(lambda rng, folder: Case("planted", lambda: call(folder), right, **more), "planted", 0, 0)[0]


def refuse(message, kind=InputError):
    raise kind(message)


class RoughError(InputError):
    """An error whose message is not smoothed."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message

    def __str__(self):
        return self.message


def told(message, kind=UserWarning):
    warnings.warn(message, kind, stacklevel=1)


def test_right_answers_and_sentences_pass():
    assert outcome(lambda _: 1) == (RIGHT, "")
    assert outcome(lambda _: refuse(SENTENCE)) == (REFUSED, SENTENCE)
    assert outcome(lambda _: refuse(SENTENCE, DataError), may=must(REFUSED)) == (REFUSED, SENTENCE)
    assert outcome(lambda _: warn("The model draws, so that its scores hold noise.")) == (RIGHT, "")
    assert outcome(lambda folder: (folder / "new").write_text("a"), leaves=frozenset({"new"})) == (RIGHT, "")


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(2, 2), nn.Dropout(0.5)


def changed_weight(model):
    with torch.no_grad():
        model.linear.weight[0, 0] += 1


def frozen(model):
    model.linear.weight.requires_grad_(False)


@pytest.mark.parametrize("delta", [changed_weight, frozen, nn.Module.eval, lambda m: setattr(m.drop, "p", 0.0)])
def test_a_changed_model(delta):
    model = Plain().train()
    found = outcome(lambda _: delta(model), watched=(model,))
    assert found.kind == FAILED
    assert "changed: Plain" in found.said


@pytest.mark.parametrize("x", [torch.zeros(2, 2), np.zeros((2, 2))])
def test_changed_series(x):
    assert outcome(lambda _: x.__iadd__(1), watched=(x,)).said.startswith("changed:")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: refuse("no\nlines", RuntimeError), "RuntimeError"),
        (lambda _: refuse("one line.\nanother line.", RoughError), "several lines"),
        (lambda _: refuse("a \x1b[31mred word.", RoughError), "nobody can read"),
        (lambda _: refuse("long " * 100 + "."), "501 characters"),
        (lambda _: refuse(""), "0 characters"),
        (lambda _: refuse("x must hold numbers, got"), "without an end"),
        (lambda _: refuse(f"x must not be {np.zeros(2)!r}."), "no word"),
        (lambda _: told("foreign"), "a foreign warning: UserWarning"),
        (lambda _: told("two\nlines", TempogradWarning), "a warning of several lines"),
        (lambda _: print("hello"), "printed 'hello"),  # noqa: T201
        (lambda _: torch.manual_seed(3), "random numbers of torch"),
        (lambda _: torch.set_grad_enabled(False), "grad mode"),
        (lambda folder: (folder / "left").write_text("a"), "left behind: left"),
        (lambda folder: (folder / "left").write_text("a") and refuse(SENTENCE), "left behind: left"),
        (lambda _: Path(tempfile.mkdtemp(prefix="hidden")), "temporary files were left behind: ['hidden"),
        (lambda _: SystemExit(0).__class__ and refuse("0", SystemExit), "SystemExit"),
    ],
)
def test_planted_faults(call, fault):
    try:
        found = outcome(call)
    finally:
        torch.set_grad_enabled(True)
    assert found.kind == FAILED
    assert fault in found.said


def test_a_wrong_number():
    expected = np.array([1.0, 2.0])
    assert outcome(lambda _: np.array([1.0, 2.0]), lambda found: near(found, expected)).kind == RIGHT
    assert outcome(lambda _: np.array([1.0, 2.1]), lambda found: near(found, expected)) == (FAILED, "off by 0.1")


def test_what_must_be_refused_or_answered():
    assert outcome(lambda _: 1, may=must(REFUSED)).said == "right, which it must not be: "
    assert outcome(lambda _: refuse(SENTENCE), may=must(RIGHT)).said.startswith("refused, which it must not be")


def test_files_that_were_there():
    def planted(act):
        def generator(rng, folder):
            (folder / "data").write_text("precious")
            return Case("planted", lambda: act(folder / "data"), lambda found: "")

        return judged(generator, "planted", 0, 0)[0].said

    assert planted(lambda path: path.unlink()) == "files are gone: ['data']"
    assert planted(lambda path: path.write_text("other")) == "a file was changed: data"
