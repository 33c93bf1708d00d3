"""Several targets in one call: the same scores as calls one by one, with the passes of one of them."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.core.estimate import Estimate
from tempograd.core.question import Question
from tempograd.engine import Ask
from tempograd.explainers import Timing

SERIES, TIME, CHANNELS, OUTPUTS = 4, 9, 2, 12
TARGETS = [0, 5, 11]
PARTS = ("values", "standard_error", "n_draws", "ess", "delta", "target", "n_evals")


class Counting(nn.Module):
    """A recurrent forecaster that counts the rows and the passes that go through it."""

    def __init__(self, outputs=OUTPUTS):
        super().__init__()
        self.recurrent = nn.GRU(CHANNELS, 6, batch_first=True)
        self.head = nn.Linear(6, outputs)
        self.rows = self.passes = 0

    def forward(self, x):
        self.rows, self.passes = self.rows + len(x), self.passes + 1
        return self.head(self.recurrent(x)[0][:, -1])

    def counted(self, work):
        self.rows = self.passes = 0
        found = work()
        return found, self.rows, self.passes


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return Counting().eval()


@pytest.fixture(scope="module")
def x():
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(4))


POOL = torch.randn(6, TIME, CHANNELS, generator=torch.Generator().manual_seed(5))
METHODS = {
    "integrated_gradients": {"n_steps": 12},
    "timing": {"n_samples": 60},
    "timing plain": {"n_samples": 20, "control_variates": False},
    "rand_ig": {"n_samples": 20},
    "gradient_shap": {"n_samples": 12, "background": POOL},
    "occlusion": {},
    "occlusion fitted": {"background": POOL},
    "augmented_occlusion": {"n_samples": 3, "background": POOL},
    "lime": {"n_samples": 40},
    "lime many": {"n_samples": 200},
}


def explain(model, x, name, **options):
    return tg.explain(model, x, name.split()[0], **{"output": "raw"} | METHODS.get(name, {}) | options)


def same(found, expected):
    for name in PARTS:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    one, other = found.gradient_check, expected.gradient_check
    assert (one is None) == (other is None)
    for name in () if one is None else vars(one):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [*((name, None) for name in METHODS), ("timing", 100), ("timing plain", 8), ("lime", 30), ("occlusion", 8)],
)
def test_several_targets_are_calls_one_by_one_with_a_third_of_the_rows(model, x, name, batch_size):
    options = {"batch_size": batch_size}
    explain(model, x, name, target=1, **options)  # the model is looked at twice only by the first call
    together, rows, passes = model.counted(lambda: explain(model, x, name, targets=TARGETS, **options))
    alone, all_rows, all_passes = model.counted(
        lambda: [explain(model, x, name, target=target, **options) for target in TARGETS]
    )
    assert (3 * rows, 3 * passes) == (all_rows, all_passes)
    for target, expected in zip(TARGETS, alone, strict=True):
        same(together[target], expected)


@pytest.mark.parametrize("task", [None, "forecast", "regression"])
def test_the_scores_of_a_linear_forecaster_are_its_weights_times_the_series(x, task):
    weight = torch.randn(TIME * CHANNELS, OUTPUTS, generator=torch.Generator().manual_seed(6))
    found = explain(tg.Predictor(lambda z: z.flatten(1) @ weight, task=task), x, "timing", targets="all")
    assert list(found) == list(range(OUTPUTS))
    for place in range(OUTPUTS):
        torch.testing.assert_close(found[place].values, x * weight[:, place].view(TIME, CHANNELS))


def test_all_are_the_classes_also_of_a_single_logit(x):
    model = tg.Predictor(lambda z: z.sum((1, 2))[:, None] / 9, task="classification")
    found = tg.explain(model, x, "integrated_gradients", targets="all")
    assert list(found) == [0, 1]
    torch.testing.assert_close(found[0].values, -found[1].values)


def test_all_outputs_per_step_and_steps_of_their_own(x):
    model = Counting().recurrent.eval()
    per_step = tg.Predictor(lambda z: model(z)[0][..., :3], task="per_step")
    for steps in (None, [2, 3], "own"):
        for name in ("integrated_gradients", "occlusion", "lime"):
            found = explain(per_step, x, name, targets="all", steps=steps)
            assert list(found) == [0, 1, 2]
            for target in range(3):
                same(found[target], explain(per_step, x, name, target=target, steps=steps))


def test_targets_of_every_kind_go_together(model, x):
    each = torch.tensor([3, 1, 0, 2])

    def spread(outputs):
        return outputs.amax(1) - outputs.amin(1)

    for name in ("timing", "occlusion", "lime"):
        found = explain(model, x, name, targets=[4, each, spread])
        same(found[4], explain(model, x, name, target=4))
        same(found.at(1), explain(model, x, name, target=each))
        same(found["target 2"], explain(model, x, name, target=spread))


@pytest.mark.parametrize("method", ["timing", "occlusion", "lime"])
def test_missing_cells_and_probabilities(model, x, method):
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(8)) > 0.3
    x, options = tg.Series(x, mask=mask), {"output": "probability", "baseline": "average"}
    found = explain(model, x, method, targets=[2, 7], **options)
    for target in (2, 7):
        same(found[target], explain(model, x, method, target=target, **options))
    assert not found.at(1).values[~mask].any()


def test_a_tolerance_stops_each_target_by_itself(model, x):
    options = {"tolerance": 0.02, "n_samples": 50, "max_samples": 200}
    together, rows, _ = model.counted(lambda: explain(model, x, "timing", targets=[0, 5], **options))
    alone, all_rows, _ = model.counted(lambda: [explain(model, x, "timing", target=t, **options) for t in (0, 5)])
    assert not torch.equal(alone[0].n_evals, alone[1].n_evals), "the targets must differ in what they need"
    for found, expected in zip(together.values(), alone, strict=True):
        same(found, expected)
    assert rows <= all_rows


def test_methods_without_a_way_of_their_own_take_several_targets(x):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, 5), nn.ReLU(), nn.Linear(5, 3))
    found = explain(model, x, "deep_lift", targets="all")
    assert list(found) == [0, 1, 2]
    for target in range(3):
        same(found[target], explain(model, x, "deep_lift", target=target))


@dataclass(frozen=True)
class Doubled(Timing):
    """A variant that overrides how one target is explained, and nothing else."""

    def attribute(self, ask: Ask) -> list[Estimate]:
        return [each._replace(values=2 * each.values) for each in super().attribute(ask)]


def test_a_variant_that_overrides_one_target_is_asked_for_each(model, x):
    found = Doubled(n_samples=20)(model, x, targets=[0, 5], output="raw")
    for target in (0, 5):
        plain = Timing(n_samples=20)(model, x, target=target, output="raw")
        torch.testing.assert_close(found[target].values, 2 * plain.values)


class Dropping(Counting):
    """A forecaster that draws random numbers."""

    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.3, training=True))


def test_draws_are_the_same_for_all_targets(x):
    torch.manual_seed(9)
    model = Dropping().eval()
    options = {"draws": 2, "n_samples": 5}
    found = explain(model, x, "timing", targets=[0, 5], **options)
    for target in (0, 5):
        same(found[target], explain(model, x, "timing", target=target, **options))
    assert found.at(0).draws == found.at(1).draws == 2


def test_targets_of_very_different_size(x):
    scale = torch.tensor([1.0, 1e20, 1e-25])

    def model(z):
        return (z.sum((1, 2)).tanh() + z[:, 0, 0] ** 2)[:, None] * scale

    found = explain(model, x, "timing", targets=[0, 1, 2])
    for target in range(3):
        same(found[target], explain(model, x, "timing", target=target))
    torch.testing.assert_close(found[1].values, found[0].values * 1e20, rtol=1e-4, atol=0)


def test_a_model_that_works_in_place(x):
    def model(z):
        z = z * 1.0
        y = z.tanh()
        z -= z.mean(1, keepdim=True)
        y *= z
        return torch.stack([y.sum((1, 2)), (y**2).sum((1, 2))], 1)

    found = explain(model, x, "integrated_gradients", targets="all")
    for target in range(2):
        same(found[target], explain(model, x, "integrated_gradients", target=target))


def test_many_targets_leave_room_for_what_is_kept_of_each(model, x):
    ask = Ask.create(model, x, Question(output="raw"))
    one, few, many = (ask.gradient_batching(targets) for targets in (1, 2, 2**17))
    assert few.size == one.size
    assert many.size * 2**17 * x[0].numel() <= 2 * 2**26


def test_the_whole_output_has_no_targets(model, x):
    with pytest.raises(InputError, match="dynamask explains the whole output of the model: leave targets= out"):
        explain(model, x, "dynamask", targets=[0, 1], output="probability")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"targets": [0, 1], "target": 1},
            "target= and targets= exclude each other: put all targets into targets=",
        ),
        ({"targets": []}, r"targets= is \[\]: list the targets"),
        ({"targets": "every"}, r"targets= is 'every': list the targets, such as \[0, 5\], or pass 'all'"),
        ({"targets": {0, 1}}, "list the targets, such as"),
        ({"targets": 3}, "list the targets, such as"),
        ({"targets": torch.arange(4)}, "list the targets, such as"),
        ({"targets": [0, None]}, r"targets= is \[0, None\]: list the targets"),
        ({"targets": [0, 12]}, "target 12 is out of range: the outputs to choose from are 0 to 11"),
        ({"targets": [0, True]}, "must hold integers, got torch.bool"),
        (
            {"targets": [0, lambda out: out[:, 0]], "steps": 1},
            "steps= is for models with one output per time step",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(model, x, options, message):
    with pytest.raises(InputError, match=message):
        explain(model, x, "integrated_gradients", **options)
