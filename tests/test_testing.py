"""The contract is sharp: methods and metrics that each break one rule are refused, and the rule is named."""

import random
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import torch

import tempograd as tg
from tempograd import testing
from tempograd.core.errors import UnknownNameError
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.metrics.localisation import Localisation
from tempograd.testing.rules import Smooth, small_series


@dataclass(frozen=True)
class Method(tg.IntegratedGradients):
    """A right method; each of those below spoils something."""

    n_steps: int = 8

    def spoil(self, values, ask):
        return values

    def attribute(self, ask):
        return [one._replace(values=self.spoil(one.values, ask)) for one in super().attribute(ask)]


@dataclass(frozen=True)
class Company(Method):
    def spoil(self, values, ask):
        return values - values.mean(0) * (values != 0)


@dataclass(frozen=True)
class Position(Method):
    def spoil(self, values, ask):
        return values * (1 + torch.arange(len(values))[:, None, None])


@dataclass(frozen=True)
class ErrorOfCompany(Method):
    def attribute(self, ask):
        (found,) = super().attribute(ask)
        error = torch.full_like(found.values, 1.0 / len(found.values))
        return [found._replace(standard_error=error if ask.mask is None else error * ask.mask)]


@dataclass(frozen=True)
class BatchSize(Method):
    def spoil(self, values, ask):
        return values * (1 if ask.batch_size is None else 1 + 1e-3)


@dataclass(frozen=True)
class TorchDraws(Method):
    deterministic: ClassVar[bool] = False

    def spoil(self, values, ask):
        return values * (1 + torch.rand(()) * (1 + ask.seed))


@dataclass(frozen=True)
class SecretDraws(Method):
    def spoil(self, values, ask):
        return values * (1 + ask.seed)


@dataclass(frozen=True)
class NoDraws(Method):
    deterministic: ClassVar[bool] = False


@dataclass(frozen=True)
class Shape(Method):
    def spoil(self, values, ask):
        return values[:, :, :1].expand_as(values)[:, :-1]


@dataclass(frozen=True)
class NotFinite(Method):
    def spoil(self, values, ask):
        return values / (values.shape[2] != 1)


@dataclass(frozen=True)
class AllAlike(Method):
    def spoil(self, values, ask):
        return torch.full_like(values, 0.5)


@dataclass(frozen=True)
class Double(Method):
    def spoil(self, values, ask):
        return values.double()


@dataclass(frozen=True)
class Unsigned(Method):
    def spoil(self, values, ask):
        return values.abs()


@dataclass(frozen=True)
class Incomplete(Method):
    def spoil(self, values, ask):
        return values * 0.9


@dataclass(frozen=True)
class NotZero(Method):
    complete: ClassVar[bool] = False

    def spoil(self, values, ask):
        return values + 1e-3 * (1 if ask.mask is None else ask.mask)


@dataclass(frozen=True)
class Everything(Method):
    targeted: ClassVar[bool] = False
    complete: ClassVar[bool] = False


@dataclass(frozen=True)
class AnyTarget(tg.Occlusion):
    """The mean effect on all classes, called targeted."""

    def attribute(self, ask):
        ask.read_all()
        parts = [super(AnyTarget, self).attribute(ask.replace(target=each))[0] for each in range(2)]
        return [parts[0]._replace(values=parts[0].values * 2 - parts[1].values)]


@dataclass(frozen=True)
class NoGradient(Method):
    needs_gradient: ClassVar[bool] = False


@dataclass(frozen=True)
class Gradient(tg.Occlusion):
    needs_gradient: ClassVar[bool] = True


@dataclass(frozen=True)
class Module(tg.Occlusion):
    needs_module: ClassVar[bool] = True


@dataclass(frozen=True)
class Probabilities(tg.Occlusion):
    needs_probabilities: ClassVar[bool] = True


@dataclass(frozen=True)
class Unmasked(Method):
    complete: ClassVar[bool] = False

    def attribute(self, ask):
        (found,) = super().attribute(ask)
        return [found._replace(values=found.values + ask.x.float() * 1e-3 * (ask.mask is not None))]


@dataclass(frozen=True)
class Filled(tg.Occlusion):
    """Puts the baseline where nothing was observed."""

    def attribute(self, ask):
        if ask.mask is not None:
            ask = replace(ask, x=torch.where(ask.mask, ask.x, ask.baseline))
        return super().attribute(ask)


@dataclass(frozen=True)
class Length(Method):
    complete: ClassVar[bool] = False

    def spoil(self, values, ask):
        return values / values.shape[1]


@dataclass(frozen=True)
class Weights(Method):
    def spoil(self, values, ask):
        with torch.no_grad():
            next(ask.model.parameters()).mul_(1.001)
        return values


@dataclass(frozen=True)
class Hooks(Method):
    def spoil(self, values, ask):
        next(ask.model.children()).register_forward_hook(lambda *_: None)
        return values


@dataclass(frozen=True)
class Grads(Method):
    def spoil(self, values, ask):
        with torch.enable_grad():
            ask.model(ask.x.to(next(ask.model.parameters()).dtype)).sum().backward()
        return values


@dataclass(frozen=True)
class Series(Method):
    def spoil(self, values, ask):
        ask.x.mul_(1.5)
        return values


@dataclass(frozen=True)
class Generators(Method):
    def __call__(self, model, x, **call):
        random.random()
        return super().__call__(model, x, **call)


@dataclass(frozen=True)
class Steps(Method):
    def attribute(self, ask):
        if ask.question.steps is not None:
            raise RuntimeError("no steps")
        return super().attribute(ask)


@dataclass(frozen=True)
class TensorSetting(Method):
    weights: Any = field(default_factory=lambda: torch.ones(2), hash=False, compare=False)


@dataclass(frozen=True)
class HiddenSetting(Method):
    scale: float = 2.0

    @property
    def parameters(self):
        return {name: value for name, value in super().parameters.items() if name != "scale"}


@dataclass(frozen=True)
class Learns(Method):
    """A right method that learns the size of its background."""

    needs_fit: ClassVar[bool] = True
    complete: ClassVar[bool] = False

    size: Any = field(default=None, compare=False, metadata={"fitted": True})

    def fit(self, model, x, *, seed=0):
        return replace(self, size=torch.as_tensor(x).abs().mean())

    def spoil(self, values, ask):
        return values * self.size


@dataclass(frozen=True)
class FitsInPlace(Learns):
    def fit(self, model, x, *, seed=0):
        object.__setattr__(self, "size", torch.as_tensor(x).abs().mean())
        return self


@dataclass(frozen=True)
class FitsAnew(Learns):
    """Learns something else each time."""

    def fit(self, model, x, *, seed=0):
        return replace(self, size=torch.rand(()))


@dataclass(frozen=True)
class NeverFitted(Method):
    needs_fit: ClassVar[bool] = True


@dataclass(frozen=True)
class Unasked(Method):
    size: Any = field(default=2.0, metadata={"fitted": True})


BROKEN = {
    "settings": [TensorSetting, HiddenSetting],
    "fit": [FitsInPlace, FitsAnew, NeverFitted, Unasked],
    "numbers": [Shape, NotFinite, AllAlike, Double, Steps],
    "seed": [TorchDraws, SecretDraws, NoDraws],
    "company": [Company, Position, ErrorOfCompany, BatchSize],
    "left": [Weights, Hooks, Grads, Series, Generators],
    "ignored": [NotZero],
    "complete": [Incomplete],
    "signed": [Unsigned],
    "targeted": [Everything, AnyTarget],
    "models": [NoGradient, Gradient, Module, Probabilities],
    "mask": [Unmasked, Filled],
    "padding": [Length],
}


@pytest.mark.parametrize(("rule", "kind"), [(rule, kind) for rule, kinds in BROKEN.items() for kind in kinds])
def test_a_broken_method_is_refused_by_its_rule(rule, kind):
    with pytest.raises(testing.ContractError) as error:
        testing.check_explainer(kind, rules=[rule])
    assert error.value.rule == rule


def test_every_rule_has_been_seen_to_bite():
    assert set(BROKEN) == set(testing.EXPLAINER_RULES)
    assert set(BROKEN_METRICS) == set(testing.METRIC_RULES)


@pytest.mark.parametrize("kind", [Method, Learns])
def test_right_methods_hold(kind):
    testing.check_explainer(kind)


def test_what_they_say():
    """One sentence: the rule, what it says, and by how much it is broken."""
    with pytest.raises(AssertionError) as error:
        testing.check_explainer(NotZero())
    assert (error.value.rule, str(error.value).count("\n")) == ("ignored", 0)
    assert "0.001" in str(error.value)
    with pytest.raises(tg.TempogradError) as error:
        testing.check_explainer(NoGradient, rules=["models"])
    assert "ModelError" in str(error.value)


def test_what_is_no_explainer_and_no_rule():
    with pytest.raises(testing.ContractError):
        testing.check_explainer(lambda model, x: x)
    with pytest.raises(testing.ContractError):
        testing.check_metric(Method())
    with pytest.raises(UnknownNameError):
        testing.check_explainer(Method, rules=["compony"])


def test_the_small_model_predicts_every_class():
    """Or rules about targets would say little."""
    x = small_series(12)
    assert len(Smooth()(x).argmax(-1).unique()) == 3


# metrics


@dataclass(frozen=True, kw_only=True)
class Drop(Faithfulness):
    """A right metric: how much the explained output falls."""

    higher_is_better: ClassVar[bool] = True

    def score(self, outputs):
        return outputs.over_steps(outputs.score[:, :1] - outputs.score[:, -1:])[:, 0]


@dataclass(frozen=True, kw_only=True)
class FirstStep(Drop):
    """Forgets that there may be one output per step."""

    def score(self, outputs):
        return outputs.score[:, 0] - outputs.score[:, -1]


@dataclass(frozen=True, kw_only=True)
class OfAClass(Drop):
    """Forgets that a function may have picked the score."""

    def score(self, outputs):
        clean, removed = outputs.predictions[:, 0], outputs.predictions[:, -1]
        if outputs.steps is not None:
            return super().score(outputs)
        return (clean - removed).gather(1, outputs.target[:, None])[:, 0]


@dataclass(frozen=True, kw_only=True)
class Hits(Localisation):
    """A right metric: the share of the salient cells that have the highest score."""

    higher_is_better: ClassVar[bool] = True

    def score(self, table):
        return (table.hits[:, :1] / table.positives)[:, 0]


@dataclass(frozen=True, kw_only=True)
class NoDirection(Drop):
    higher_is_better: ClassVar[Any] = "yes"


@dataclass(frozen=True, kw_only=True)
class TensorMetric(Drop):
    weights: Any = field(default_factory=lambda: torch.ones(2), compare=False)


@dataclass(frozen=True, kw_only=True)
class Undefined(Drop):
    def score(self, outputs):
        return super().score(outputs).log()


@dataclass(frozen=True, kw_only=True)
class Relative(Drop):
    def score(self, outputs):
        found = super().score(outputs)
        return found - found.mean()


@dataclass(frozen=True, kw_only=True)
class RelativeHits(Hits):
    def score(self, table):
        return super().score(table) + 1 / len(table.score)


@dataclass(frozen=True, kw_only=True)
class PrecisionAtFive(Hits):
    """Counts the first five in the order that they come, be their scores equal or not."""

    def score(self, table):
        return table.salient[:, :5].double().mean(1)


@dataclass(frozen=True, kw_only=True)
class MeanScore(Hits):
    """Counts cells that were not observed."""

    def score(self, table):
        return super().score(table) + table.score.mean(1)


@dataclass(frozen=True, kw_only=True)
class ShareOfAll(Drop):
    """Takes a share of all cells for one of the observed ones."""

    def schedule(self, k, observed, cells):
        return super().schedule(max(1, int(k * cells)) if self.k is None else self.k, observed, cells)


@dataclass(frozen=True, kw_only=True)
class UpsideDown(Drop):
    higher_is_better: ClassVar[bool] = False


BROKEN_METRICS = {
    "settings": [NoDirection, TensorMetric],
    "numbers": [Undefined, FirstStep, OfAClass],
    "company": [Relative, RelativeHits],
    "position": [PrecisionAtFive],
    "mask": [MeanScore, ShareOfAll],
    "direction": [UpsideDown],
}


@pytest.mark.parametrize(
    ("rule", "kind"), [(rule, kind) for rule, kinds in BROKEN_METRICS.items() for kind in kinds]
)
def test_a_broken_metric_is_refused_by_its_rule(rule, kind):
    with pytest.raises(testing.ContractError) as error:
        testing.check_metric(kind, rules=[rule])
    assert error.value.rule == rule


@pytest.mark.parametrize("kind", [Drop, Hits])
def test_right_metrics_hold(kind):
    testing.check_metric(kind)
