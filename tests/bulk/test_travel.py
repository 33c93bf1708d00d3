"""Models of a run on several workers: made again by class, factory or name, and refused if they are others."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import Worker

TIME, CHANNELS = 5, 2


class Sized(nn.Module):
    """A network that keeps its argument, which its class needs."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.first, self.last = nn.Linear(TIME * CHANNELS, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.last(self.first(x.flatten(1)).tanh())


class Forgetful(Sized):
    """One that does not, and does what no exported program can."""

    def __init__(self, size):
        super().__init__(size)
        del self.width

    def forward(self, x):
        if bool((x > 90).any()):
            raise ValueError("off the scale")
        return super().forward(x)


def make():
    return Forgetful(3)


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


@pytest.mark.parametrize("kind", ["class", "factory", "name"])
def test_a_model_is_made_again_with_its_weights(kind, x, tmp_path, request):
    if kind != "class":  # that one in a new process too
        request.getfixturevalue("tried_here")
    model = trained(Sized(4) if kind == "class" else Forgetful(3))
    given, options = model, {}
    if kind == "factory":
        options["factory"] = "tests.bulk.test_travel:make"
    if kind == "name":
        given, options["weights"] = "tests.bulk.test_travel:make", tmp_path / "w.pt"
        torch.save(model.state_dict(), tmp_path / "w.pt")
    options |= {"n_samples": 6, "seed": 2, "engine": in_turn}
    run = tg.explain_dataset(given, tmp_path / "x.npy", tmp_path / "out", **options)
    expected = tg.explain(model, x, n_samples=6, seed=2)
    found = run.take(range(12))
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=0)
    told = json.loads((tmp_path / "out" / "_tempograd" / "job.json").read_text())["model"]
    assert told["arguments"] == ({"width": 4} if kind == "class" else {})


@pytest.mark.usefixtures("tried_here")
def test_a_worker_refuses_files_of_another_model(x, tmp_path):
    assert len(x)
    options = {"n_samples": 6, "engine": in_turn}
    tg.explain_dataset(trained(Sized(4)), tmp_path / "x.npy", tmp_path / "out", **options)
    file = tmp_path / "out" / "_tempograd" / "model.safetensors"
    other = tmp_path / "other" / "_tempograd" / "model.safetensors"
    tg.explain_dataset(Sized(4).eval(), tmp_path / "x.npy", tmp_path / "other", **options)
    file.write_bytes(other.read_bytes())
    with pytest.raises(tg.TempogradError, match="is not the file that was written for this model"):
        Worker.open(tmp_path / "out")


def test_a_default_stays_one_on_the_way(tmp_path):
    """The default output would contradict a regression if somebody had chosen it."""
    np.save(tmp_path / "x.npy", np.ones((3, TIME, CHANNELS), dtype=np.float32))
    options = {"method": "integrated_gradients", "n_steps": 2, "target": 1}
    model = tg.Predictor(Sized(3), task="regression")
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", engine=in_turn, **options)
    assert run.faults() == {}
    assert len(run) == 3
