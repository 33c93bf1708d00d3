"""Training: its steps by hand, stopping, reproducibility, and that something is learnt."""

import copy
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import nn

from tempograd.core.errors import InputError, ModelError, SettingError
from tempograd.data import Dataset, Series
from tempograd.models import Recipe, accuracy, build, train
from tempograd.models import training as training_file
from tempograd.models.training import DEFAULT, mean_loss, predictions
from tests.helpers.training import SMALL, adam_by_hand, negative_log_likelihood, toy, weights

# in order, to the last epoch
PLAIN = Recipe(100, 1e-4, 1e-3, 32, shuffle=False, patience=None)


def test_a_plain_recipe_is_adam_over_the_series_in_order():
    data = toy(series=70)
    trained = train("gru", data, seed=3, recipe=PLAIN, epochs=2, options=SMALL, device="cpu")
    cuts = [slice(0, 32), slice(32, 64), slice(64, 70)] * 2
    losses = [
        lambda model, cut=cut: negative_log_likelihood(model(data.train.x[cut]), data.train.y[cut]) for cut in cuts
    ]
    expected = adam_by_hand(build("gru", 2, 2, seed=3, **SMALL).train(), losses)
    torch.testing.assert_close(weights(trained), weights(expected), rtol=1e-4, atol=1e-6)


def test_facts_tell_the_recipe():
    model = train("gru", toy(per_step=True), recipe=PLAIN, epochs=3, options=SMALL)
    assert model.facts["recipe"] == asdict(replace(PLAIN, epochs=3))
    assert (model.facts["epochs"], model.facts["kept_epoch"]) == (3, 3)


def test_default_loss_counts_every_step_at_once():
    data = toy(series=40, per_step=True)
    settings = {"shuffle": False, "patience": None, "epochs": 1, "batch_size": 40, "weight_decay": 1e-3}
    trained = train("gru", data, options=SMALL, learning_rate=1e-4, **settings)
    flat = data.train.y.flatten()
    step = lambda model: negative_log_likelihood(model(data.train.x).reshape(-1, 2), flat)  # noqa: E731
    expected = adam_by_hand(build("gru", 2, 2, per_step=True, **SMALL).train(), [step])
    torch.testing.assert_close(weights(trained), weights(expected), rtol=1e-4, atol=1e-6)


def test_stopping_brings_the_best_weights_back():
    """Validation labels that contradict the training labels: the first epoch is the best one."""
    data = toy(series=64)
    data = toy(series=64, validation=Series(data.train.x, 1 - data.train.y))
    settings = {"options": SMALL, "learning_rate": 0.01, "seed": 1}
    stopped = train("gru", data, patience=3, minimum_steps=0, **settings)
    assert (stopped.facts["epochs"], stopped.facts["kept_epoch"]) == (4, 1)
    one_epoch = train("gru", data, epochs=1, **settings)
    assert torch.equal(weights(stopped), weights(one_epoch))
    assert stopped.facts["validation_loss"] == mean_loss(one_epoch, data.validation)
    patient = train("gru", data, patience=3, minimum_steps=13, **settings)  # two batches of 32 per epoch
    assert (patient.facts["epochs"], patient.facts["kept_epoch"]) == (7, 1)
    last = train("gru", data, patience=None, epochs=4, **settings)
    assert not torch.equal(weights(last), weights(stopped))


def test_gains_too_small_to_matter_are_kept_but_do_not_go_on_for_ever(monkeypatch):
    falling = iter([0.7] + [0.5 - 1e-5 * epoch for epoch in range(100)])
    monkeypatch.setattr(training_file, "mean_loss", lambda model, split: next(falling))
    model = train("gru", toy(), options=SMALL, patience=4, minimum_steps=0)
    assert (model.facts["epochs"], model.facts["kept_epoch"]) == (6, 6)


def test_holds_out_a_fifth_where_there_is_no_validation(monkeypatch):
    seen = {}
    fit, loss = training_file._fit, training_file.mean_loss

    def note_training(network, split, *rest):
        seen.setdefault("train", split.ids.tolist())
        return fit(network, split, *rest)

    def note_validation(network, split):
        seen.setdefault("validation", split.ids.tolist())
        return loss(network, split)

    monkeypatch.setattr(training_file, "_fit", note_training)
    monkeypatch.setattr(training_file, "mean_loss", note_validation)
    train("gru", toy(series=50), options=SMALL, epochs=1, seed=7)
    assert len(seen["validation"]) == 10
    assert sorted(seen["train"] + seen["validation"]) == list(range(50))
    assert sorted(seen["validation"]) != list(range(10))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    first, again, other = (train("gru", toy(), seed=seed, options={"hidden": 6}, epochs=3) for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


def test_the_seed_decides_order_and_dropout_not_only_the_initial_weights():
    start = build("gru", 2, 2, hidden=6, dropout=0.0)
    shuffled = [weights(train(copy.deepcopy(start), toy(), seed=s, patience=None, epochs=1)) for s in (1, 2)]
    assert not torch.equal(*shuffled)
    start = build("gru", 2, 2, hidden=6, dropout=0.5)
    fixed = {"patience": None, "epochs": 1, "shuffle": False}
    dropped = [weights(train(copy.deepcopy(start), toy(), seed=s, **fixed)) for s in (1, 2)]
    assert not torch.equal(*dropped)


@pytest.mark.parametrize("recipe", [DEFAULT, PLAIN], ids=["default", "plain"])
def test_global_generators_are_neither_used_nor_changed(recipe):
    results = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
        model = train("gru", toy(per_step=True), recipe=recipe, epochs=2, options={"hidden": 6})
        assert torch.equal(torch.get_rng_state(), before[0])
        after = np.random.get_state()  # noqa: NPY002
        np.testing.assert_array_equal(after[1], before[1][1])
        assert after[2] == before[1][2]
        assert random.getstate() == before[2]
        results.append(weights(model))
    assert torch.equal(*results)


@pytest.mark.parametrize(
    ("name", "per_step"),
    [("gru", True), ("cnn", False), pytest.param("transformer", True, marks=pytest.mark.slow)],
)
def test_learns_a_toy_problem(name, per_step):
    data = toy(series=400, time=4, per_step=per_step)
    unseen = toy(series=200, time=4, per_step=per_step, seed=1).train
    options = {} if name == "transformer" else {"hidden": 16}
    model = train(name, data, options=options, learning_rate=5e-3, epochs=30)
    assert accuracy(model, unseen) > 0.9
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize(("series", "sizes"), [(65, [32, 33]), (64, [32, 32]), (66, [32, 32, 2]), (3, [3])])
@pytest.mark.parametrize("recipe", [PLAIN, DEFAULT], ids=["plain", "default"])
def test_a_single_series_left_over_joins_the_batch_before(series, sizes, recipe, monkeypatch):
    seen = []
    loss = training_file.cross_entropy
    monkeypatch.setattr(training_file, "cross_entropy", lambda p, y: (seen.append(len(y)), loss(p, y))[1])
    train("gru", toy(series=series), recipe=recipe, patience=None, epochs=1, options=SMALL)
    assert seen == sizes


def test_a_module_of_ones_own_is_trained_in_place_in_its_own_precision():
    module = nn.Sequential(nn.Flatten(), nn.Linear(10, 2)).double()
    data = toy(series=200)
    before = accuracy(module, data.test)
    trained = train(module, data, learning_rate=0.02, epochs=20)
    assert trained is module
    assert module[1].weight.dtype == torch.float64
    assert accuracy(trained, data.test) > max(0.9, before)


def test_numbers_too_small_to_matter_do_not_slow_a_training_down():
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")
    seen, tiny = [], torch.tensor(1e-40)

    class Watching(nn.Linear):
        def forward(self, x):
            seen.append(float(tiny * 1))
            return super().forward(x.mean(1))

    train(Watching(2, 2), toy(), epochs=1)
    assert set(seen) == {0.0}
    assert float(tiny * 1) > 0


def test_accuracy_counts_and_restores_mixed_modes():
    class LastSign(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Dropout(0.9)

        def forward(self, x):
            score = self.inner(x).sum(-1)
            return torch.stack([-score, score], dim=-1)

    model = LastSign().eval()
    model.inner.train()
    x = torch.tensor([[[1.0], [-1.0]], [[2.0], [3.0]]]).repeat(300, 1, 1)  # more than one batch
    labels = torch.tensor([[1, 1], [1, 0]]).repeat(300, 1)
    assert accuracy(model, Series(x, labels)) == 0.5
    assert not model.training
    assert model.inner.training


REFUSED = {
    "unknown setting": (TypeError, lambda: train("gru", toy(), epoch=3)),
    "unknown option": (TypeError, lambda: train("gru", toy(), options={"width": 3})),
    "batches of one": (InputError, lambda: train("gru", toy(), batch_size=1)),
    "no step": (SettingError, lambda: train("gru", toy(), learning_rate=0.0)),
    "too few series": (InputError, lambda: train("gru", toy(series=2))),
    "sizes of a module": (InputError, lambda: train(build("gru", 2, 2), toy(), options=SMALL)),
    "no data set": (InputError, lambda: train("gru", toy().train)),
    "nothing to predict": (ModelError, lambda: accuracy(build("gru", 2, 2), toy().train.take([]))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused(name):
    kind, call = REFUSED[name]
    with pytest.raises(kind):
        call()


def test_values_of_a_regression_are_refused():
    x = torch.randn(8, 5, 2)
    split = Series(x, x.mean((1, 2)))
    data = Dataset("toy", split, None, split, classes=1, channels=("a", "b"))
    with pytest.raises(InputError):
        train("gru", data)
    with pytest.raises(InputError):
        accuracy(build("gru", 2, 1, hidden=4), split)


def test_a_loss_that_is_no_number_ends_the_training():
    data = toy()
    data.train.x[3, 2, 1] = torch.nan
    with pytest.raises(ModelError):
        train("gru", data, recipe=PLAIN, options=SMALL)


def test_without_patience_the_validation_loss_is_that_of_the_last_epoch_and_computed_once(monkeypatch):
    loss, calls = training_file.mean_loss, []
    monkeypatch.setattr(training_file, "mean_loss", lambda *given: (calls.append(1), loss(*given))[1])
    held_out = toy(seed=1).train
    model = train("gru", toy(validation=held_out), recipe=PLAIN, epochs=3, options=SMALL)
    assert calls == [1]
    log_chances = model(held_out.x).detach().log_softmax(-1)[torch.arange(len(held_out)), held_out.y]
    assert model.facts["validation_loss"] == pytest.approx(-float(log_chances.mean()), rel=1e-6)
    assert "validation_loss" not in train("gru", toy(), recipe=PLAIN, epochs=3, options=SMALL).facts


@pytest.mark.parametrize("per_step", [False, True])
def test_predictions_are_one_row_per_label_in_order(per_step):
    """More than one batch, of a model that dropout and training mode would change."""
    split = toy(series=300, per_step=per_step).train
    model = build("gru", 2, 2, per_step=per_step, hidden=6).train()
    logits, y = predictions(model, split)
    assert model.training
    assert not logits.requires_grad
    expected = model.eval()(split.x).detach()
    rows = [row for series in expected for row in (series if per_step else [series])]
    torch.testing.assert_close(logits, torch.stack(rows), rtol=1e-5, atol=1e-6)
    assert y.tolist() == [label for labels in split.y.tolist() for label in (labels if per_step else [labels])]


class OneLogit(nn.Module):
    """A logit per series or per step, with an axis of its own or without."""

    def __init__(self, axis, per_step):
        super().__init__()
        self.axis, self.per_step = axis, per_step
        self.layer = nn.Linear(2, 1)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[2.0, -1.0]]))
            self.layer.bias.zero_()

    def forward(self, x):
        logit = self.layer(x if self.per_step else x[:, -1])
        return logit if self.axis else logit[..., 0]


@pytest.mark.parametrize("axis", [True, False])
@pytest.mark.parametrize("per_step", [True, False])
def test_a_single_logit_is_that_of_class_one(axis, per_step):
    x = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(0))
    model = OneLogit(axis, per_step)
    chance = torch.sigmoid(2 * x[..., 0] - x[..., 1])
    chance = chance if per_step else chance[:, -1]
    y = (torch.rand(chance.shape, generator=torch.Generator().manual_seed(1)) < chance).long()
    split = Series(x, y)
    right = ((chance > 0.5).long() == y).double().mean()
    assert 0.5 < right < 1
    assert accuracy(model, split) == pytest.approx(float(right))
    expected = -torch.where(y == 1, chance, 1 - chance).log().double().mean()
    assert mean_loss(model, split) == pytest.approx(float(expected), rel=1e-5)
    logits, labels = predictions(model, split)
    torch.testing.assert_close(logits.softmax(-1)[:, 1], chance.flatten())
    assert torch.equal(labels, y.flatten())
    data = Dataset("toy", split, None, split, classes=2, channels=("a", "b"))
    nn.init.zeros_(model.layer.weight)  # a loss of ln 2
    train(model, data, epochs=30, learning_rate=0.1, seed=0)
    assert mean_loss(model, split) < 0.6
