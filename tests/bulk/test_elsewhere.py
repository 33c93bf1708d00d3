"""Workers in other processes get a copy of the model, or the file of a program that has no copy."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk.engines import Here
from tempograd.core.errors import InputError, ModelError

TIME, CHANNELS = 5, 2
OPTIONS = {"n_samples": 6, "seed": 2}


class Sized(nn.Module):
    """A network whose class needs an argument."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.scale = scale
        self.first, self.last = nn.Linear(TIME * CHANNELS, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.scale * self.last(self.first(x.flatten(1)).tanh())


def total(y):
    """A target of one's own that other processes can import."""
    return y.sum(-1)


@pytest.fixture
def x(tmp_path):
    x = torch.randn(12, TIME, CHANNELS, generator=torch.Generator().manual_seed(5))
    np.save(tmp_path / "x.npy", x.numpy())
    return x


def write_program(model, x, file):
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)), file)


class InTurn(Here):
    """One process after the other: fragments are run by a copy of the worker, as in another process."""

    def __init__(self, worker, _workers, _timeout):
        super().__init__(pickle.loads(pickle.dumps(worker)))  # noqa: S301  # its own


@pytest.fixture
def in_turn(monkeypatch):
    monkeypatch.setattr("tempograd.bulk.driver.Processes", InTurn)
    return 2


def equal_scores(run, model, x, **options):
    expected = tg.explain(model, x, **(OPTIONS | options))
    torch.testing.assert_close(run.take(range(12)).values, expected.values, rtol=0, atol=0)


def tasked(model):
    model.tempograd_task = "multilabel"
    return model


KINDS = {
    "of one's own": Sized(3, scale=2.0).eval(),
    "of the library": tg.MODELS["gru"](CHANNELS, 2, hidden=4).eval(),
    "double": Sized(3).double().eval(),
    "task": tasked(Sized(3).eval()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_gives_the_same_scores(kind, x, in_turn, tmp_path):
    model = KINDS[kind]
    before = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", workers=in_turn, **OPTIONS)
    equal_scores(run, model, x)
    assert {name: tensor.data_ptr() for name, tensor in model.state_dict().items()} == before
    assert not list((tmp_path / "out/_tempograd").glob("model*"))


def test_processes_have_the_whole_question(x, tmp_path):
    """With a function as the target, a baseline of numbers, and an explainer with settings."""
    model, options = KINDS["of one's own"], {"target": total, "baseline": torch.ones(TIME, CHANNELS)}
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", workers=2, **options, **OPTIONS)
    equal_scores(run, model, x, **options)


@pytest.mark.slow  # a process; the test above has one too
def test_a_program_is_read_from_its_file_again(x, in_turn, tmp_path, monkeypatch):
    model, file = KINDS["of one's own"], tmp_path / "net.pt2"
    write_program(model, x, file)
    program = tg.load_model(file, trust=True)
    run = tg.explain_dataset(program, tmp_path / "x.npy", tmp_path / "out", workers=in_turn, **OPTIONS)
    equal_scores(run, program, x)

    def changed(worker, workers, timeout):
        write_program(Sized(3).eval(), x, file)
        return InTurn(worker, workers, timeout)

    monkeypatch.setattr("tempograd.bulk.driver.Processes", changed)
    with pytest.raises(ModelError, match="is not the file that the run began with"):
        tg.explain_dataset(program, tmp_path / "x.npy", tmp_path / "other", workers=in_turn, **OPTIONS)


class Local:
    """Where classes are that no other process finds."""

    @staticmethod
    def made():
        class Inside(Sized):
            pass

        return Inside(3)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Local.made(), {"workers": 2}),
        (total, {"workers": 2}),
        (lambda x: x.sum(1), {"workers": 2}),
        (tg.Predictor(total, modules=[nn.Linear(2, 2)]), {"workers": 2}),
        (Sized(3), {"workers": 2, "target": lambda y: y[:, 0]}),
    ],
    ids=["local", "function", "lambda", "hidden modules", "target"],
)
@pytest.mark.usefixtures("x")
def test_what_other_processes_cannot_have_is_refused_before_the_run(model, options, tmp_path):
    with pytest.raises((ModelError, InputError)) as raised:
        tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", **options, **OPTIONS)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_default_stays_one_on_the_way(in_turn, tmp_path):
    """The default output would contradict a regression if somebody had chosen it."""
    np.save(tmp_path / "x.npy", np.ones((3, TIME, CHANNELS), dtype=np.float32))
    options = {"method": "integrated_gradients", "n_steps": 2, "target": 1}
    model = tg.Predictor(Sized(3), task="regression")
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", workers=in_turn, **options)
    assert run.faults() == {}
    assert len(run) == 3
