"""Marks of code: another one for edits of a model's own files, the same one for comments and for libraries."""

import gc
import importlib
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch import nn

from tempograd.engine import Predictor
from tempograd.engine.model import _plain, code_mark

NET = """
from torch import nn

import own_layers
from own_layers import shift

try:
    from .own_numbers import LIMIT
except ImportError:
    from own_numbers import LIMIT

GAIN = 1.0


class Net(nn.Module):
    def forward(self, x):
        return GAIN * own_layers.scale(x) + shift(x) * LIMIT


def function(x):
    return GAIN * shift(x) * LIMIT
"""
NUMBERS = "LIMIT = 3.0"
LAYERS = """
FACTOR = 2.0


def shift(x):
    return x - 0.5


def scale(x):
    return x * FACTOR
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Write both files, some words of them replaced, and return what the first calls so."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose times go by seconds

    def write(name="Net", old="", new=""):
        assert not old or (NET + LAYERS + NUMBERS).count(old) == 1
        for module, text in (("own_net", NET), ("own_layers", LAYERS), ("own_numbers", NUMBERS)):
            (tmp_path / f"{module}.py").write_text(text.replace(old, new) if old else text)
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        found = getattr(importlib.import_module("own_net"), name)
        return found() if isinstance(found, type) else found

    yield write
    for module in ("own_net", "own_layers", "own_numbers"):
        sys.modules.pop(module, None)


EDITS = {
    "the answer": ("scale(x) + shift(x) * LIMIT", "scale(x) - shift(x) * LIMIT"),
    "a constant": ("GAIN = 1.0", "GAIN = 1.004"),
    "a function of another file": ("return x - 0.5", "return x - 0.504"),
    "a constant of another file": ("FACTOR = 2.0", "FACTOR = 2.004"),
    "a constant of a file that is nothing else": ("LIMIT = 3.0", "LIMIT = 3.004"),
}


@pytest.mark.parametrize("name", ["Net", "function"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_another_mark(edit, name, made):
    before = code_mark(made(name))
    assert code_mark(made(name)) == before
    assert code_mark(made(name, *EDITS[edit])) != before
    assert code_mark(made(name, EDITS[edit][0], f"{EDITS[edit][0]}  # a comment")) == before


def test_the_code_of_a_library_is_nobodys_own(monkeypatch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    before = code_mark(net)
    monkeypatch.setattr(nn.Linear, "forward", nn.Bilinear.forward)
    assert code_mark(net) == before


SCRIPT = """
from torch import nn
from tempograd.engine.model import code_mark

class Net(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))[:, None]

gain = 2
print(code_mark(Net()), code_mark(lambda x: gain * x))
"""


@pytest.mark.slow  # a process
def test_of_a_script_the_model_alone_counts(tmp_path):
    """Who changes a batch size there, after a crash, goes on with the same model."""

    others = "batch = 8\n" + SCRIPT
    edited = SCRIPT.replace("x.sum((1, 2))", "1.004 * x.sum((1, 2))").replace("gain * x)", "gain + x)")
    for name, text in (("before", SCRIPT), ("others", others), ("edited", edited)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "script.py").write_text(text)
    runs = (
        "import runpy; [runpy.run_path(f'{n}/script.py', {}, '__main__') for n in ('before', 'others', 'edited')]"
    )
    ran = subprocess.run([sys.executable, "-c", runs], cwd=tmp_path, capture_output=True, text=True, check=True)
    before, same, changed = (line.split() for line in ran.stdout.splitlines())
    assert same == before
    assert changed[0] != before[0]
    assert changed[1] != before[1]


def test_a_dead_reference_is_no_hindrance():
    net, trainer = nn.Linear(2, 1), nn.Linear(1, 1)
    held = weakref.proxy(trainer)
    del trainer
    assert code_mark(lambda x, held=held: net(x))


class Held(nn.Module):
    def __init__(self, limit, sizes):
        super().__init__()
        self.limit, self.sizes = limit, sizes


def closed_over(limit):
    return lambda x: x.clamp(max=limit)


def test_values_that_a_model_holds_count():
    held = [Held(1.0, (3, 5)), Held(1.004, (3, 5)), Held(1.0, (3, 6))]
    assert len({code_mark(each) for each in (*held, closed_over(1.0), closed_over(1.004))}) == 5
    assert code_mark(Held(1.0, (3, 5)).eval()) == code_mark(Held(1.0, (3, 5)).train())
    assert code_mark(closed_over(1.0)) == code_mark(closed_over(1.0))
    beside = [Predictor(closed_over(limit), modules=[nn.Linear(1, 1)]).called for limit in (1.0, 1.004)]
    assert code_mark(beside[0]) != code_mark(beside[1])


def test_threads_read_code_at_once():
    """CPython 3.11 mixes up how deep the trees of two threads are where one is stopped within the other."""

    class Slow:
        def __init__(self) -> None:
            self.itself = self  # only the collector, which comes while a tree is made, ends it

        def __del__(self) -> None:
            time.sleep(1e-4)

    def read(_: int) -> str:
        Slow()
        return _plain("x = [1, (2, 3), f(4)]\n" * 300)

    before = gc.get_threshold()
    gc.set_threshold(200)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert len(set(threads.map(read, range(16)))) == 1
    finally:
        gc.set_threshold(*before)
