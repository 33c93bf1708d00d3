"""A model's file: the same weights to the last bit, and one clear sentence for anything else."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tempograd.core.errors import DataError, InputError
from tempograd.models import MODELS, build, load_model, save_model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_round_trip_is_exact(tmp_path, name, dtype):
    model = build(name, 3, 4, per_step=True, seed=3).to(dtype)
    model(torch.randn(8, 10, 3, dtype=dtype, generator=torch.Generator().manual_seed(0)))  # moves the statistics
    model.facts = {"dataset": "toy", "seed": 3}
    state = torch.get_rng_state()
    loaded = load_model(save_model(model, tmp_path / "m.safetensors", facts={"accuracy": 0.75}))
    assert torch.equal(torch.get_rng_state(), state)
    expected = model.state_dict()
    assert list(loaded.state_dict()) == list(expected)
    for key, tensor in loaded.state_dict().items():
        assert tensor.dtype == expected[key].dtype
        assert torch.equal(tensor, expected[key])
    x = torch.randn(2, 10, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))
    assert torch.equal(loaded(x), model.eval()(x))
    assert loaded.config == model.config
    assert loaded.facts == {"dataset": "toy", "seed": 3, "accuracy": 0.75}
    assert not any(module.training for module in loaded.modules())


def test_a_loaded_model_can_be_trained_on(tmp_path):
    loaded = load_model(save_model(build("gru", 3, 2, hidden=4), tmp_path / "m.safetensors")).train()
    loaded(torch.ones(2, 5, 3)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in loaded.parameters())


@pytest.fixture
def saved(tmp_path):
    return save_model(build("gru", 3, 2, hidden=4), tmp_path / "m.safetensors")


def rewrite(path, **header):
    config = {"name": "gru", "channels": 3, "classes": 2, "per_step": False, "options": {"hidden": 4}}
    config |= header.pop("config", {})
    metadata = {"format": "tempograd-model-1", "config": json.dumps(config), "facts": "{}"} | header
    save_file(load_file(path), path, metadata=metadata)


def refused(path):
    with pytest.raises(DataError) as error:
        load_model(path)
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.safetensors")


def test_a_folder_in_place_of_a_file(tmp_path):
    refused(tmp_path)


@pytest.mark.parametrize("keep", [0, 7, 200, -1])
def test_a_file_cut_short(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    refused(saved)


def test_a_file_of_another_program(saved):
    save_file(load_file(saved), saved)
    refused(saved)
    rewrite(saved, format="pt")
    refused(saved)


@pytest.mark.parametrize(
    "header",
    [
        {"config": {"name": "lstm"}},
        {"config": {"channels": 4}},
        {"config": {"channels": "3"}},
        {"config": {"options": {"hidden": 5}}},
        {"config": {"options": {"width": 4}}},
        {"config": {"options": None}},
        {"config": {"name": ["gru"]}},
        {"facts": "{"},
        {"facts": "3"},
        {"facts": "[" * 100_000},
        {"config": {"options": {"hidden": 10**30}}},
        {"config": {"options": {"hidden": 10**11}}},
    ],
)
def test_weights_that_do_not_fit_the_configuration(saved, header):
    rewrite(saved)
    assert load_model(saved).config["options"]["hidden"] == 4
    rewrite(saved, **header)
    refused(saved)


def test_a_save_that_breaks_off_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full_disk(weights, path, header):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("tempograd.core.io.save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_model(build("gru", 3, 2), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_refused_save_leaves_the_old_file(saved):
    before = saved.read_bytes()
    with pytest.raises(TypeError):
        save_model(build("gru", 3, 2), saved, facts={"weights": torch.zeros(1)})
    with pytest.raises(InputError):
        save_model(nn.Linear(2, 2), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
