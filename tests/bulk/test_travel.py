"""Models of a run on several workers: sent to processes, or made again by class, factory or name."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import Worker

TIME, CHANNELS = 5, 2
HERE = "tests.bulk.test_travel"
OPTIONS = {"n_samples": 6, "seed": 2}


class Sized(nn.Module):
    """A network whose class needs an argument."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.scale = scale
        self.first, self.last = nn.Linear(TIME * CHANNELS, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.scale * self.last(self.first(x.flatten(1)).tanh())


class Ready(Sized):
    """One whose class needs none."""

    def __init__(self):
        super().__init__(3)


def make():
    return Sized(3)


def wide():
    return Sized(4)


def scaled():
    return Sized(3, scale=2.0)


def weights():
    return torch.Generator().manual_seed(5)


@pytest.fixture
def x(tmp_path):
    x = torch.randn(12, TIME, CHANNELS, generator=weights())
    np.save(tmp_path / "x.npy", x.numpy())
    return x


def in_turn(folder, fragments):
    """Run fragments by a worker that has nothing but the folder."""
    worker = Worker.open(folder)
    return [worker.run(fragment) for fragment in fragments]


def trained(model):
    with torch.no_grad():
        for part in model.parameters():
            part.copy_(torch.randn(part.shape, generator=weights()))
    return model.eval()


def equal_scores(run, model, x):
    expected = tg.explain(model, x, **OPTIONS)
    torch.testing.assert_close(run.take(range(12)).values, expected.values, rtol=0, atol=0)


KINDS = {
    "class": (Ready(), {}),
    "of the library": (tg.MODELS["gru"](CHANNELS, 2, hidden=4), {}),
    "factory": (Sized(3), {"factory": f"{HERE}:make"}),
    "task": (Ready(), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_made_again_with_its_weights(kind, x, tmp_path):
    model, options = KINDS[kind]
    model = trained(model)
    if kind == "task":
        model.tempograd_task = "multilabel"
    state = torch.get_rng_state()
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", engine=in_turn, **options, **OPTIONS)
    assert torch.equal(torch.get_rng_state(), state)
    equal_scores(run, model, x)


def test_code_and_files_are_taken_along(x, tmp_path):
    model = trained(Sized(3))
    torch.save(model.state_dict(), tmp_path / "w.pt")
    loaded, named = tg.load_model(f"{HERE}:make", weights=tmp_path / "w.pt"), f"{HERE}:make"
    options = {"engine": in_turn, "factory": named} | OPTIONS
    equal_scores(tg.explain_dataset(loaded, tmp_path / "x.npy", tmp_path / "a", **options), model, x)
    saved = tg.MODELS["cnn"](CHANNELS, 2, hidden=4).eval()
    file = tg.save_model(saved, tmp_path / "saved.safetensors")
    equal_scores(tg.explain_dataset(file, tmp_path / "x.npy", tmp_path / "b", engine=in_turn, **OPTIONS), saved, x)
    file.unlink()
    assert Worker.open(tmp_path / "b").model.config == saved.config
    assert json.loads((tmp_path / "a/_tempograd/job.json").read_text())["model"]["source"] == f"{HERE}:make"


def test_processes_get_any_module(x, tmp_path):
    """Also one of a kind that nothing makes again; the program keeps its own."""
    model = trained(nn.Sequential(Sized(3), nn.Linear(2, 2)))
    before = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", workers=2, **OPTIONS)
    equal_scores(run, model, x)
    assert {name: tensor.data_ptr() for name, tensor in model.state_dict().items()} == before
    assert not list((tmp_path / "out/_tempograd").glob("model*"))
    with pytest.raises(tg.TempogradError):
        Worker.open(tmp_path / "out")


class Local:
    """Where classes are that no other process finds."""

    @staticmethod
    def made():
        class Inside(Ready):
            pass

        return Inside()


def alone(x):
    return x.sum(1)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Local.made(), {"workers": 2}),
        (Local.made(), {"engine": in_turn}),
        (alone, {"workers": 2}),
        (lambda x: x.sum(1), {"engine": in_turn}),
        (Sized(3), {"engine": in_turn}),  # its class needs an argument
        (Sized(3), {"engine": in_turn, "factory": f"{HERE}:wide"}),
        (Sized(3), {"engine": in_turn, "factory": f"{HERE}:scaled"}),  # the same weights, twice the outputs
        (Sized(3), {"workers": 2, "factory": make}),
    ],
    ids=["local, sent", "local", "function", "lambda", "argument", "other sizes", "other outputs", "no name"],
)
@pytest.mark.usefixtures("x")
def test_what_other_processes_cannot_have_is_refused_before_the_run(model, options, tmp_path):
    with pytest.raises((tg.core.errors.ModelError, tg.core.errors.InputError)) as raised:
        tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", **options, **OPTIONS)
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "out").glob("data/*.parquet"))


@pytest.mark.usefixtures("x")
def test_a_worker_refuses_files_of_another_model(tmp_path):
    for name, model in (("out", trained(Ready())), ("other", Ready().eval())):
        tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / name, engine=in_turn, **OPTIONS)
    file, other = (tmp_path / name / "_tempograd/model.safetensors" for name in ("out", "other"))
    file.write_bytes(other.read_bytes())
    with pytest.raises(tg.core.errors.ModelError):
        Worker.open(tmp_path / "out")


def test_a_default_stays_one_on_the_way(tmp_path):
    """The default output would contradict a regression if somebody had chosen it."""
    np.save(tmp_path / "x.npy", np.ones((3, TIME, CHANNELS), dtype=np.float32))
    options = {"method": "integrated_gradients", "n_steps": 2, "target": 1}
    model = tg.Predictor(Ready(), task="regression")
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", engine=in_turn, **options)
    assert run.faults() == {}
    assert len(run) == 3
