"""Marks of code: another one for every edit that may change what a model computes, the same one for all else."""

import importlib
import sys
import warnings
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.code_marks import code_mark
from tests.helpers.models import Recurrent, series

NET = '''"""A model of somebody's."""
import torch
from torch import nn
from torch.nn import functional as F

import own_layers
from own_layers import shift

GAIN, TABLE, MEAN = 1.0, {"high": [0.5, 2]}, torch.tensor([0.25, 1.0])


def squash(x):
    """Squash."""
    return F.tanh(x)


def unused(x):
    return x


class Base(nn.Module):
    OFFSET = 0.5

    @property
    def size(self):
        return 2

    @staticmethod
    def add(x):
        return x + 1


class Net(Base):
    def __init__(self, slope=0.1):
        super().__init__()
        self.act, self.slope, self.calls = nn.LeakyReLU(0.2), slope, 0

    @torch.no_grad()
    def bias(self):
        return 3.0

    def forward(self, x):
        """Answer."""
        self.calls, self.last = self.calls + 1, x
        parts = [squash(each) * GAIN * TABLE["high"][1] for each in x.unbind(2)]
        inner = lambda z: own_layers.scale(z) + shift(z)
        return self.act(inner(torch.stack(parts, 2) - MEAN)).sum((1, 2))[:, None] + self.OFFSET + self.bias()


def build():
    return nn.Sequential(nn.Flatten(), nn.ReLU())
'''
LAYERS = """FACTOR = 2.0


def shift(x):
    return deeper(x) - 0.5


def deeper(x):
    return -x


def scale(x):
    return x * FACTOR


def other(x):
    return x
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Write both files, some words of them replaced, and return what the first calls so."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose times go by seconds

    def write(name="Net", old="", new=""):
        assert not old or (NET + LAYERS).count(old) == 1
        for module, text in (("own_net", NET), ("own_layers", LAYERS)):
            (tmp_path / f"{module}.py").write_text(text.replace(old, new) if old else text)
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        return getattr(importlib.import_module("own_net"), name)()

    yield write
    for module in ("own_net", "own_layers"):
        sys.modules.pop(module, None)


EDITS = {
    "the answer": ("+ self.OFFSET +", "- self.OFFSET +"),
    "a number": ("0.5, 2]", "0.5, 2.004]"),
    "a constant of the file": ("GAIN, TABLE, MEAN = 1.0", "GAIN, TABLE, MEAN = 1.004"),
    "an array of the file": ("[0.25, 1.0]", "[0.25, 1.004]"),
    "a function of the file": ("return F.tanh(x)", "return F.tanh(1.004 * x)"),
    "a class below": ("OFFSET = 0.5", "OFFSET = 0.504"),
    "a property": ("return 2\n", "return 3\n"),
    "a static method": ("return x + 1", "return x - 1"),
    "what is decorated": ("return 3.0", "return 3.004"),
    "a default": ("slope=0.1", "slope=0.104"),
    "a layer's setting": ("nn.LeakyReLU(0.2)", "nn.LeakyReLU(0.204)"),
    "an inner function": ("+ shift(z)", "- shift(z)"),
    "a function of another file": ("deeper(x) - 0.5", "deeper(x) - 0.504"),
    "what that one calls": ("return -x", "return x"),
    "what is named with its module": ("x * FACTOR", "x / FACTOR"),
    "a constant of another file": ("FACTOR = 2.0", "FACTOR = 2.004"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_another_mark(edit, made):
    before = code_mark(made())
    assert code_mark(made(old=EDITS[edit][0], new=EDITS[edit][1])) != before


def test_layers_of_a_library_count_by_their_kinds(made):
    before = code_mark(made("build"))
    assert code_mark(made("build", "nn.ReLU()", "nn.Tanh()")) != before


SAME = {
    "nothing": ("", ""),
    "a comment": ("+ self.bias()", "+ self.bias()  # at last"),
    "an empty line": ("    def forward", "\n    # the answer\n    def forward"),
    "words on a function": ('"""Answer."""', '"""Answer in full."""'),
    "words on a file": ("A model of somebody's.", "A model."),
    "the name of a variable": (
        "inner = lambda z: own_layers.scale(z) + shift(z)",
        "inner = lambda y: own_layers.scale(y) + shift(y)",
    ),
    "what it does not use": ("def unused(x):\n    return x", "def unused(x):\n    return -x"),
    "what it does not use of another file": ("def other(x):\n    return x", "def other(x):\n    return -x"),
}


@pytest.mark.parametrize("edit", SAME)
def test_what_changes_no_answer_is_no_other_mark(edit, made):
    before = code_mark(made())
    assert code_mark(made(old=SAME[edit][0], new=SAME[edit][1])) == before


def test_a_model_that_ran_is_the_same(made):
    """It counts its calls, and keeps the last series."""
    net, before = made(), code_mark(made())
    tg.explain(net, series(3, 4, 2), "occlusion", task="regression")
    assert net.calls > 0
    assert code_mark(net) == before


def test_an_upgrade_of_a_library_is_no_edit(monkeypatch):
    net = Recurrent()
    before = code_mark(net)
    monkeypatch.setattr(nn.GRU, "forward", nn.LSTM.forward)
    monkeypatch.setattr(nn.functional, "relu", nn.functional.gelu)
    assert code_mark(net) == before


def functions(gain):
    """The same function in the ways in which people write it."""
    net, mean = nn.Linear(2, 1), torch.tensor(gain)

    class Scaled:
        def __init__(self):
            self.net, self.gain = net, gain

        def __call__(self, x):
            return self.net(x) * self.gain

        def predict(self, x):
            return x * self.gain

    class Held(Scaled):
        def __init__(self):
            self.net, self.mean = net, np.array([gain])

    def default(x, gain=gain):
        return net(x) * gain

    hooked = nn.Linear(2, 1)
    hooked.register_forward_hook(lambda _module, _given, answer: answer * gain)
    patched = nn.Linear(2, 1)
    patched.forward = lambda x: x * gain
    return {
        "a number that it closes over": lambda x: net(x) * gain,
        "an array that it closes over": lambda x: net(x) * mean,
        "a default": default,
        "partial": partial(default, gain=gain),
        "an object": Scaled(),
        "an object with an array": Held(),
        "a method": Scaled().predict,
        "wrapped": tg.wrap(net, call=lambda x: net(x) * gain),
        "of arrays": tg.adapters.from_numpy(lambda x: x * gain),
        "an estimator": tg.adapters.estimator(Scaled()),
        "a hook": hooked,
        "a method that was replaced": patched,
    }


@pytest.mark.parametrize("kind", functions(1.0))
def test_functions_and_objects_have_marks_too(kind):
    assert code_mark(functions(1.0)[kind]) == code_mark(functions(1.0)[kind])
    assert code_mark(functions(1.0)[kind]) != code_mark(functions(1.004)[kind])


def test_an_exported_program_is_its_code():
    nets = [nn.Sequential(nn.Linear(4, 2), nn.LeakyReLU(slope)) for slope in (0.1, 0.1, 0.104)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        marks = [code_mark(torch.export.export(net, (torch.zeros(3, 4),)).module()) for net in nets]
    assert marks[0] == marks[1] != marks[2]


def test_a_dead_reference_is_no_hindrance():
    class Trainer:
        pass

    net, trainer = nn.Linear(2, 1), Trainer()
    net.trainer = weakref.proxy(trainer)
    there = code_mark(net)
    del trainer
    assert code_mark(net) == there
    assert code_mark(lambda x, held=net.trainer: x)
