"""A classifier with a single logit l has two classes: every answer is that of its twin with the logits (0, l)."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.explainers import EXPLAINERS, IntegratedGradients, Timing
from tests.helpers.methods import explained, fitted, quick, usable
from tests.helpers.models import Recurrent, Risk, first_seed, patients, series, smooth

TARGETED = sorted(name for name, kind in EXPLAINERS.items() if kind.targeted and name != "random")
WHOLE = ("contralsp", "dynamask", "extremal_mask", "fit", "timexpp", "winit")  # about both classes at once
SIGNED = sorted(name for name in TARGETED if EXPLAINERS[name].signed)
MIXED = torch.tensor([0, 1, 1, 0, 1])


class Twin(nn.Module):
    """The same classifier with one logit for each class."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.tempograd_task = "per_step" if inner.tempograd_task == "per_step" else "classification"

    def forward(self, x):
        answer = self.inner(x)
        answer = answer[:, None] if answer.ndim == 1 else answer
        return torch.cat([torch.zeros_like(answer), answer], -1)


class Bare(nn.Module):
    """Answers (batch,)."""

    tempograd_task = "classification"

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[:, 0]


def both(name, model, x, target, **call):
    """Explain a model and its twin, whose target must be told."""
    explainer = quick(name)
    for each, wanted in ((model, target), (Twin(model), 1 if target is None else target)):
        ready = usable(each, explainer, x.shape[1])
        asked = {"target": wanted} if explainer.targeted else {}
        yield explained(fitted(explainer, ready, x), ready, x, **asked, **call)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-7)


@pytest.mark.parametrize("target", [None, 0, 1, MIXED], ids=["none", "0", "1", "mixed"])
@pytest.mark.parametrize("name", TARGETED)
def test_a_single_logit_is_explained_as_its_twin(name, target):
    model = smooth(6, 2, 1)

    def of_both_classes(seed):  # some are predicted as class 0, and explained for class 1
        with torch.no_grad():
            return 0 < (model(series(5, 6, 2, seed, torch.float64)) > 0).double().mean() < 1

    x = series(5, 6, 2, first_seed(of_both_classes), torch.float64)
    found, expected = both(name, model, x, target)
    close(found.values, expected.values)
    assert found.values.abs().max() > 1e-3
    wanted = torch.ones(5) if target is None else torch.as_tensor(target).expand(5)
    assert found.target.tolist() == expected.target.tolist() == wanted.tolist()
    assert found.n_outputs == expected.n_outputs == 2
    for part in ("standard_error", "delta"):
        if getattr(expected, part) is not None:
            torch.testing.assert_close(getattr(found, part), getattr(expected, part), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_methods_about_the_whole_answer_see_both_classes(name):
    model, x = smooth(6, 2, 1), series(5, 6, 2, dtype=torch.float64)
    found, expected = both(name, model, x, None)
    close(found.values, expected.values)
    assert found.target.tolist() == [1] * 5


@pytest.mark.parametrize(
    ("name", "target", "steps"),
    [
        *((name, MIXED, "own") for name in TARGETED if name != "deep_lift"),
        *(("integrated_gradients", target, steps) for target in (None, 0) for steps in (None, "own", [1, 4])),
        *(("lime", target, steps) for target, steps in ((None, None), (0, [1, 4]))),
    ],
)
def test_one_logit_per_step(name, target, steps):
    model, x = Recurrent(2, 1, per_step=True).double().eval(), series(5, 6, 2, dtype=torch.float64)
    found, expected = both(name, model, x, target, steps=steps)
    close(found.values, expected.values)
    wanted = torch.ones(5) if target is None else torch.as_tensor(target).expand(5)
    assert torch.equal(found.target, wanted[:, None].expand(5, 6).long())


def test_one_target_per_step():
    model, x = Recurrent(2, 1, per_step=True).double().eval(), series(5, 6, 2, dtype=torch.float64)
    target = (torch.arange(30) % 2).view(5, 6)
    found, expected = both("integrated_gradients", model, x, target)
    close(found.values, expected.values)
    assert torch.equal(found.target, target)


@pytest.mark.parametrize("target", [None, 0])
def test_a_model_that_returns_one_number_a_series(target):
    model, x = smooth(6, 2, 1), series(5, 6, 2, dtype=torch.float64)
    found, plain = (tg.explain(each, x, "timing", n_samples=20, target=target) for each in (Bare(model), model))
    assert torch.equal(found.values, plain.values)
    assert torch.equal(found.target, plain.target)


@pytest.mark.parametrize("name", SIGNED)
def test_the_complement_has_the_negative_map(name):
    model, x = smooth(6, 2, 1), series(5, 6, 2, dtype=torch.float64)
    for_it, against = (next(both(name, model, x, target)) for target in (1, 0))
    torch.testing.assert_close(against.values, -for_it.values, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("explainer", [Timing(20, control_variates=False), IntegratedGradients(20)])
def test_the_negative_is_exact_where_nothing_but_a_gradient_is_taken(explainer):
    model, x = smooth(6, 2, 1).float(), series(5, 6, 2)
    assert torch.equal(explainer(model, x, target=0).values, -explainer(model, x, target=1).values)


@pytest.mark.parametrize("name", ["integrated_gradients", "timing", "occlusion", "lime"])
def test_a_known_sign_is_told_for_either_class(name):
    """Both for the series that is taken for class 1 and for the one that is taken for class 0."""
    x = patients()
    with torch.no_grad():
        assert ((Risk()(x) > 0).flatten()).tolist() == [True, False]
    for target, sign in ((None, 1), (1, 1), (0, -1)):
        found = tg.explain(Risk(), x, name, target=target).values
        assert (sign * found[:, 2, 0] > 0.05).all()
        assert (sign * found[:, 5, 1] < -0.01).all()


def test_the_change_is_that_of_the_explained_class():
    x = patients()
    chance = Risk()(x).sigmoid()[:, 0]
    for target, expected in ((None, chance - 0.5), (0, 0.5 - chance)):
        found = tg.explain(Risk(), x, "integrated_gradients", target=target, n_steps=200)
        torch.testing.assert_close(found.delta, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.values.sum((1, 2)), expected, rtol=1e-3, atol=1e-5)


def test_raw_is_the_column_itself():
    x = patients()
    for target in (None, 0):
        found = tg.explain(Risk(), x, "integrated_gradients", target=target, output="raw")
        torch.testing.assert_close(found.values[:, 2, 0], 3 * x[:, 2, 0])
        assert (found.target.tolist(), found.n_outputs) == ([0, 0], 1)
    with pytest.raises(InputError, match=r"target 1 is out of range: the outputs to choose from are 0 to 0"):
        tg.explain(Risk(), x, "integrated_gradients", target=1, output="raw")


@pytest.mark.parametrize("target", [2, -1, torch.tensor([0, 2])])
def test_there_is_no_third_class(target):
    with pytest.raises(InputError, match="out of range: the outputs to choose from are 0 to 1"):
        tg.explain(Risk(), patients(), "integrated_gradients", target=target)


@pytest.mark.parametrize("name", ["integrated_gradients", "occlusion", "lime", "timing", "deep_lift"])
def test_a_function_gets_the_models_own_column(name):
    x, seen = patients(), set()

    def picked(answer):
        seen.add(answer.shape[1:])
        return answer[:, 0]

    found = tg.explain(Risk(), x, name, target=picked)
    torch.testing.assert_close(found.values, tg.explain(Risk(), x, name, target=1).values)
    assert seen == {(1,)}
    assert (found.target, found.n_outputs) == (None, 2)
