"""DeepLIFT: completeness where all is rescaled, captum by hand, and a model left as it was."""

import sys
import warnings

import pytest
import torch
from torch import nn

from tempograd.core.errors import MissingExtraError, ModelError, TempogradWarning
from tempograd.explainers import DeepLift
from tempograd.models import MODELS
from tests.helpers.literal_methods import captum_deep_lift
from tests.helpers.models import Recurrent, linear, series, smooth


def deep(time: int, channels: int, classes: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = (nn.Linear(time * channels, 20), nn.ReLU(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, classes))
        return nn.Sequential(nn.Flatten(), *layers).double()


@pytest.mark.parametrize("output", ["raw", "probability"])
@pytest.mark.parametrize("classes", [3, 1])
def test_scores_sum_to_the_change_where_all_is_rescaled(output, classes):
    model, x = deep(7, 2, classes), 2 * series(6, 7, 2, dtype=torch.float64)
    baseline = series(6, 7, 2, seed=5, dtype=torch.float64)  # one of its own for each series
    found = DeepLift()(model, x, baseline=baseline, output=output)

    def score(z):
        answer = model(z)
        if output == "probability":
            answer = (torch.cat([0 * answer, answer], -1) if classes == 1 else answer).softmax(-1)
        return answer.gather(1, found.target[:, None])[:, 0]

    delta = (score(x) - score(baseline)).detach()
    torch.testing.assert_close(found.values.double().sum((1, 2)), delta, rtol=1e-5, atol=1e-6)


def test_a_linear_model_is_its_weights():
    model, x = linear(6, 2), series(4, 6, 2)
    found = DeepLift()(model, x, target=1, baseline="average", output="raw").values
    expected = model[1].weight[1].view(6, 2) * (x - x.mean(1, keepdim=True))
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("architecture", ["gru", "cnn", "transformer"])
def test_captum_gives_the_same_logits(architecture):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[architecture](3, 4).double().eval()
    x, target = series(5, 16, 3, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2])
    baseline = x.mean(1, keepdim=True).expand_as(x).contiguous()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DeepLift.caveat)
        found = DeepLift()(model, x, target=target, baseline=baseline, output="raw").values
    pick = target.repeat(2)[:, None]
    expected = captum_deep_lift(model, x, baseline, lambda answer: answer.gather(1, pick)[:, 0])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-9)


def test_what_the_gates_of_a_recurrent_layer_leave_over_is_said():
    model, x = Recurrent().double().eval(), 2 * series(5, 9, 3, dtype=torch.float64)
    with pytest.warns(TempogradWarning, match="gates inside recurrent layers, or the gradient is not") as caught:
        found = DeepLift()(model, x)
    p = [model(z).softmax(-1).gather(1, found.target[:, None])[:, 0].detach() for z in (x, torch.zeros_like(x))]
    left = (found.values.double().sum((1, 2)) - (p[0] - p[1])).abs().sum() / (p[0] - p[1]).abs().sum()
    assert left > 0.05
    assert f"leave {left:.0%} of the change" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_steps_that_are_no_activation_modules_are_named_too():
    class Functional(nn.Module):
        def forward(self, x):
            return (x**3).flatten(1).sum(1)

    with pytest.warns(TempogradWarning, match="200% of the change .* no activation modules"):
        found = DeepLift()(Functional(), torch.tensor([[[2.0]]]), output="raw")
    assert found.values.item() == pytest.approx(24)  # 2 · 3 · 2²


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_captum_stays_on_the_layers(fails):
    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.idle, self.calls = smooth(6, 2), nn.ReLU(), 0

        def forward(self, x):
            self.calls += 1
            answer = self.inner(x)
            self.idle(x)  # runs, but nothing comes of it
            if fails and self.calls == 2:  # the pass on which captum has its hooks
                raise ArithmeticError
            return answer

    model = Fragile()
    before = [set(vars(layer)) for layer in model.modules()]
    if fails:
        with pytest.raises(ArithmeticError):
            DeepLift()(model, series(3, 6, 2))
    else:
        DeepLift()(model, series(3, 6, 2))
    assert [set(vars(layer)) for layer in model.modules()] == before
    for layer in model.modules():
        assert not layer._forward_hooks
        assert not layer._forward_pre_hooks
        assert not layer._backward_hooks


def test_an_activation_used_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.relu = nn.Linear(6, 9), nn.Linear(9, 2), nn.ReLU()

        def forward(self, x):
            return self.relu(self.second(self.relu(self.first(x.flatten(1)))))

    model = Twice()
    with pytest.raises(ModelError, match="an activation module more than once"):
        DeepLift()(model, series(2, 3, 2))
    assert not model.relu._forward_pre_hooks


@pytest.mark.parametrize("layer", [nn.Softmax(-1), nn.MaxPool1d(2)])
def test_layers_whose_rule_mixes_the_batch_see_one_series_at_a_time(layer):
    mix, width = nn.Linear(2, 2), 1 if isinstance(layer, nn.MaxPool1d) else 2
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([[1.0, -1.0], [1.0, 0.0]]))  # 0 for equal channels, as for the baseline
    model = nn.Sequential(mix, layer, nn.Flatten(), linear(6, width)[1]).double()
    x = series(6, 6, 2, dtype=torch.float64)
    x[3, :, 1] = x[3, :, 0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DeepLift.caveat)
        together = DeepLift()(model, x, target=0).values
        alone = DeepLift()(model, x[3:4], target=0).values
    torch.testing.assert_close(together[3:4], alone)


def test_a_method_of_a_module_is_explained_through_its_layers():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = deep(5, 2)

        def predict(self, x):
            return self.inner(x)

    named, x = Named(), series(3, 5, 2, dtype=torch.float64)
    torch.testing.assert_close(DeepLift()(named.predict, x).values, DeepLift()(named.inner, x).values)


def test_captum_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtraError, match=r"tempograd\[captum\]"):
        DeepLift()(smooth(4, 2), series(2, 4, 2))
