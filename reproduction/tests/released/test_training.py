"""The training of the released code."""

import pytest
import torch

from tempograd.core.errors import InputError
from tempograd.models import build, train
from tempograd_paper.released import train_as_released
from tempograd_paper.released.training import PER_STEP, RECIPE, ReleasedRecipe
from tests.helpers.training import SMALL, adam_by_hand, negative_log_likelihood, toy, weights

SHARED = {"learning_rate": 1e-4, "weight_decay": 1e-3, "batch_size": 32, "shuffle": False, "patience": None}


def test_the_settings_of_the_paper():
    assert ReleasedRecipe(epochs=100, random_prefix=False, minimum_steps=0, **SHARED) == RECIPE
    model = train_as_released("gru", toy(per_step=True), options={"hidden": 6})
    assert model.facts["recipe"] == {"epochs": 50, "random_prefix": True, "minimum_steps": 0, **SHARED}
    assert (model.facts["epochs"], model.facts["kept_epoch"]) == (50, 50)


def test_labels_per_series_have_no_prefixes():
    model = train_as_released("gru", toy(per_step=False), options={"hidden": 6}, epochs=2)
    assert model.facts["recipe"] == {"epochs": 2, "random_prefix": False, "minimum_steps": 0, **SHARED}


def test_random_prefixes_learn_one_random_step_per_batch_from_its_prefix():
    data = toy(series=32, time=4, per_step=True)
    candidates = []
    for t in range(4):
        model = build("gru", 2, 2, per_step=False, seed=0, **SMALL).train()  # reads the last state alone
        step = lambda model, t=t: negative_log_likelihood(model(data.train.x[:, : t + 1]), data.train.y[:, t])  # noqa: E731
        candidates.append(weights(adam_by_hand(model, [step])))
    drawn = set()
    for seed in range(40):
        start = build("gru", 2, 2, per_step=True, seed=0, **SMALL)
        result = weights(train(start, data, seed=seed, recipe=PER_STEP, epochs=1))
        matches = [t for t, candidate in enumerate(candidates) if torch.allclose(result, candidate, atol=1e-6)]
        assert len(matches) == 1
        drawn.update(matches)
    assert drawn == {0, 1, 2, 3}


def test_global_generators_are_neither_used_nor_changed():
    results = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        results.append(weights(train("gru", toy(per_step=True), recipe=PER_STEP, epochs=2, options={"hidden": 6})))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*results)


def test_wrong_settings_get_one_sentence():
    with pytest.raises(InputError, match="random_prefix needs a label for every step"):
        train("gru", toy(), recipe=PER_STEP, options=SMALL)
    with pytest.raises(InputError, match="random_prefix must be True or False"):
        train_as_released("gru", toy(), random_prefix="no")
    with pytest.raises(TypeError, match="random_prefix"):
        train("gru", toy(per_step=True), random_prefix=True)
