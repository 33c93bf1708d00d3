"""The contract of explainers and metrics as functions, for the tests of this library and of other packages.

A package that brings a method needs one test, with pytest or without::

    from tempograd.testing import check_explainer

    def test_contract():
        check_explainer(MyMethod(epochs=2))

Every rule is tried on small models and series that come with it, the same on every machine, and one that is broken
raises :class:`ContractError`, a sentence that names the rule. What a class says about itself, such as
``deterministic`` or ``zero_if_ignored``, decides what is asked of it.
"""

import copy
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tempograd.errors import InputError, ModelError, TempogradError, TempogradWarning, UnknownNameError, one_line
from tempograd.explainers import Explainer, Occlusion
from tempograd.explanation import Explanation
from tempograd.metrics import Metric, evaluate
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.metrics.localisation import Localisation

__all__ = ["EXPLAINER_RULES", "METRIC_RULES", "ContractError", "check_explainer", "check_metric"]

TIME, CHANNELS, CLASSES = 9, 3, 3
ERRORS = ("standard_error", "n_draws", "ess")  # what an explanation may say of its scores


class ContractError(TempogradError, AssertionError):
    """A rule of the contract is broken.

    Attributes
    ----------
    rule : str
        Its name, a key of ``EXPLAINER_RULES`` or ``METRIC_RULES``.
    """

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class Rule(NamedTuple):
    """One rule: what it says, and what tries it."""

    says: str
    check: Callable[[Any], None]


EXPLAINER_RULES: dict[str, Rule] = {}
"""The rules of explainers, by name."""
METRIC_RULES: dict[str, Rule] = {}
"""The rules of metrics, by name."""


def check_explainer(method: type[Explainer] | Explainer, *, rules: Iterable[str] | None = None) -> None:
    """Try the contract of explainers on a method.

    Parameters
    ----------
    method : class or Explainer
        A class is tried with its default settings; pass an object with few epochs where a method learns for long.
    rules : names, optional
        Some of ``EXPLAINER_RULES``, by default all of them.

    Raises
    ------
    ContractError
        One sentence: which rule is broken, and by how much.

    Examples
    --------
    >>> import tempograd as tg
    >>> check_explainer(tg.Timing(n_samples=8))
    """
    explainer = method() if isinstance(method, type) else method
    if not isinstance(explainer, Explainer):
        raise ContractError(f"An explainer is a class under tempograd.Explainer, got {type(explainer).__name__}.")
    _try_all(explainer, EXPLAINER_RULES, rules)


def check_metric(metric: type[Metric] | Metric, *, rules: Iterable[str] | None = None) -> None:
    """Try the contract of metrics on a metric.

    Parameters
    ----------
    metric : class or Metric
        A class is tried with its default settings.
    rules : names, optional
        Some of ``METRIC_RULES``, by default all of them.

    Raises
    ------
    ContractError
        One sentence: which rule is broken, and by how much.

    Examples
    --------
    >>> import tempograd as tg
    >>> check_metric(tg.METRICS["cpd"])
    """
    found = metric() if isinstance(metric, type) else metric
    if not isinstance(found, (Faithfulness, Localisation)):
        raise ContractError(
            "A metric is a class under Faithfulness or Localisation of tempograd.metrics, got "
            f"{type(found).__name__}."
        )
    _try_all(found, METRIC_RULES, rules)


def _try_all(thing: Explainer | Metric, known: dict[str, Rule], names: Iterable[str] | None) -> None:
    for name in known if names is None else names:
        if name not in known:
            raise UnknownNameError("rule", name, known)
        start = f"{one_line(thing.name)} breaks the rule '{name}' ({known[name].says}):"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TempogradWarning)  # what a method warns of by design may come
            try:
                known[name].check(thing)
            except _BrokenError as error:
                raise ContractError(f"{start} {error}.", name) from None
            except Exception as error:
                reason = one_line(str(error), 200)
                raise ContractError(f"{start} it fails with {type(error).__name__}: {reason}", name) from error


class _BrokenError(Exception):
    """What is wrong, as the end of a sentence."""


def _rule(known: dict[str, Rule], says: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Decorate what tries a rule, which is called like the function."""

    def add(check: Callable[[Any], None]) -> Callable[[Any], None]:
        known[check.__name__.removeprefix("_").removeprefix("scores_")] = Rule(says, check)
        return check

    return add


def _require(holds: bool | Tensor, otherwise: str) -> None:
    if not bool(holds):
        raise _BrokenError(otherwise)


def _same(found: Tensor, expected: Tensor, where: str, rtol: float = 2e-4, atol: float = 2e-7) -> None:
    """Refuse numbers that differ by more than the rounding of another batch."""
    _require(found.shape == expected.shape, f"{where} they have shape {_shape(found)}, not {_shape(expected)}")
    close = torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    gap, size = (found - expected).abs().nan_to_num(), expected.abs().nan_to_num(posinf=0.0)
    _require(close.all(), f"{where} they differ by up to {float(gap.max()):.3g}, of up to {float(size.max()):.3g}")


def _shape(found: Tensor) -> tuple[int, ...]:
    return tuple(found.shape)


# Models and series. The models are modules that end in a linear layer, answer series of any length and are smooth,
# so that every method can be asked about them.


def _series(batch: int, time: int = TIME, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, channels, generator=generator, dtype=torch.float64)


class _Smooth(nn.Module):
    """Reads the first ``time`` steps of the first ``used`` channels, or at each step those up to it."""

    def __init__(
        self,
        time: int = TIME,
        used: int = CHANNELS,
        classes: int = CLASSES,
        *,
        per_step: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(time * used, 24), nn.Tanh()).double()
            self.head = nn.Linear(24, classes).double()
        self.time, self.used, self.per_step = time, used, per_step

    def forward(self, x: Tensor) -> Tensor:
        if not self.per_step:
            answer: Tensor = self.head(self.body(self._filled(x)))
            return answer
        prefixes = torch.stack([self._filled(x[:, : step + 1]) for step in range(x.shape[1])], 1)
        answer = self.head(self.body(prefixes.flatten(0, 1)))
        return answer.view(*x.shape[:2], -1)

    def _filled(self, x: Tensor) -> Tensor:
        x = x[:, : self.time, : self.used]
        return torch.cat([x, x.new_zeros(len(x), self.time - x.shape[1], self.used)], 1)


class _Weighted(nn.Module):
    """The logit is a weighted sum of the cells plus a constant: what each does is known."""

    def __init__(self, weights: Tensor, constant: float = 0.0) -> None:
        super().__init__()
        self.body, self.head = nn.Flatten(), nn.Linear(weights.numel(), 1).double()
        with torch.no_grad():
            self.head.weight.copy_(weights.flatten()[None])
            self.head.bias.fill_(constant)

    def forward(self, x: Tensor) -> Tensor:
        missing = x.new_zeros(len(x), self.head.in_features // x.shape[2] - x.shape[1], x.shape[2])
        answer: Tensor = self.head(self.body(torch.cat([x, missing], 1)))
        return answer


class _Recurrent(nn.Module):
    """Has dropout between its layers and batch normalisation, much that can be disturbed, and fails if told to."""

    def __init__(self, fails_after: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.gru = nn.GRU(CHANNELS, 8, num_layers=2, dropout=0.4, batch_first=True)
            self.norm, self.head = nn.BatchNorm1d(8), nn.Linear(8, CLASSES)
        self.head.bias.requires_grad_(False)
        self.calls, self.fails_after = 0, fails_after
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.fails_after is not None and self.calls > self.fails_after:
            raise ArithmeticError("the model fails, as the rule wants it to")
        answer: Tensor = self.head(self.norm(self.gru(x)[0][:, -1]))
        return answer


class _Watched(_Smooth):
    """Keeps every sequence that it is asked about."""

    seen: list[Tensor]

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach())
        return super().forward(x)


def _left_as_found(model: _Recurrent, x: Tensor, work: Callable[[], object]) -> None:
    """Let something ask a model, to its end or not, and compare all that it may have touched."""
    state, kept, hooks = copy.deepcopy(model.state_dict()), x.clone(), _hooks(model)
    generators, enabled, fails = _generators(), torch.is_grad_enabled(), model.fails_after is not None
    try:
        work()
        _require(model.fails_after != 0 or not model.calls, "an error of the model is swallowed")
    except ArithmeticError:
        pass
    end = " after the model failed" if fails else ""
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, state[name])]
    _require(not changed, f"{', '.join(changed)} changed{end}")
    _require(all(part.training for part in model.modules()), f"the model is no longer in training mode{end}")
    _require(model.gru.dropout == 0.4, f"dropout of the model was switched off{end}")
    wanted = [weight is not model.head.bias for weight in model.parameters()]
    _require([weight.requires_grad for weight in model.parameters()] == wanted, f"requires_grad changed{end}")
    _require(all(weight.grad is None for weight in model.parameters()), f"gradients of weights were left{end}")
    _require(_hooks(model) == hooks, f"hooks were left in the model{end}")
    _require(torch.equal(x, kept) and not x.requires_grad, f"x changed{end}")
    _require(_generators() == generators, f"the state of a random generator changed{end}")
    _require(torch.is_grad_enabled() == enabled, f"gradients were switched on or off{end}")


def _hooks(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(part, kind)) for part in model.modules() for kind in kinds)


def _generators() -> tuple[bytes, str, str]:
    """Return the state of torch's, numpy's and Python's own generators."""
    numpy = np.random.mtrand._rand.get_state()
    return torch.get_rng_state().numpy().tobytes(), str(numpy), str(random.getstate())


# Asking a method.


def _background(explainer: Explainer, x: Tensor, batch: int = 16) -> Tensor:
    """Return other series to learn from, as long as x; for prefixes any length of two or more will do."""
    time = 12 if explainer.needs_prefixes else x.shape[1]
    return _series(batch, 64, x.shape[2], seed=99)[:, :time].to(x.dtype)


def _ready(explainer: Explainer, model: nn.Module, x: Tensor) -> Explainer:
    """Fit a method that needs it."""
    return explainer.fit(model, _background(explainer, x)) if explainer.needs_fit else explainer


def _explain(explainer: Explainer, model: nn.Module, x: Tensor, **call: Any) -> Explanation:
    return _ready(explainer, model, x)(model, x, **call)


# The rules of explainers.


@_rule(EXPLAINER_RULES, "settings are the fields of a frozen dataclass, and plain data")
def _settings(explainer: Explainer) -> None:
    kind = type(explainer)
    _require(is_dataclass(kind), "the class is no dataclass")
    frozen = kind.__dataclass_params__.frozen and kind.__eq__ is not object.__eq__  # type: ignore[attr-defined]
    _require(frozen, "the dataclass is not frozen, or cannot be compared")
    known = {field.name for field in fields(kind) if not field.metadata.get("fitted")}
    _require(
        set(explainer.parameters) == known, f"parameters has {sorted(explainer.parameters)}, not {sorted(known)}"
    )
    try:
        json.dumps(explainer.parameters)
    except (TypeError, ValueError) as error:
        raise _BrokenError(f"a setting is no plain data: {error}") from None
    again = kind(**explainer.parameters)
    _require(again == explainer and hash(again) == hash(explainer), "the same settings make another explainer")


@_rule(EXPLAINER_RULES, "fit returns a new explainer, and what needs it says so without it")
def _fit(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(4)
    if not explainer.needs_fit:
        _require(explainer.learnt is None, "something is learnt, though needs_fit is False")
        explainer.fit(model, _background(explainer, x))(model, x)
        return
    try:
        explainer(model, x)
        raise _BrokenError("a call without a fit goes through")
    except InputError as error:
        _require("fit" in str(error), f"a call without a fit says only '{error}'")
    settings = copy.deepcopy(explainer.parameters)
    first, second = (explainer.fit(model, _background(explainer, x), seed=5) for _ in range(2))
    _require(first is not explainer, "fit returns the object that it was called on")
    _require(explainer.learnt is None, "fit changes the object that it was called on")
    _require(first.learnt is not None, "what was learnt is in no field with metadata={'fitted': True}")
    _require(first.parameters == settings, "fit changes the settings")
    _same(first(model, x).values, second(model, x).values, "learnt twice with one seed", rtol=0, atol=0)


@_rule(EXPLAINER_RULES, "one finite float32 score per cell, which tells series apart")
def _shape_and_numbers(explainer: Explainer) -> None:
    for time, channels, classes in ((7, 4, 3), (11, 1, 2), (1, 3, 3), (2, 1, 1)):
        x = _series(5, time, channels)
        found = _explain(explainer, _Smooth(time, channels, classes), x).values
        size = f"for series of shape {_shape(x)}"
        _require(found.shape == x.shape, f"{size} the scores have shape {_shape(found)}")
        _require(found.dtype == torch.float32, f"{size} the scores are {found.dtype}")
        _require(found.isfinite().all(), f"{size} {int((~found.isfinite()).sum())} scores are not finite")
        silent = time == 1 and (explainer.blends_steps or explainer.needs_prefixes)  # nothing comes before
        if time * channels > 2 and not silent:
            _require((found != found[:1]).any(), f"{size} all five series get the same scores")


@_rule(EXPLAINER_RULES, "the seed decides every draw, and deterministic says whether there is any")
def _seed(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(4)
    explainer = explainer.fit(model, _background(explainer, x))  # some draw from what they learnt
    found = []
    for seed, state in ((3, 0), (3, 1), (4, 0)):  # whatever the state of torch's own generator
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(state)
            found.append(explainer(model, x, seed=seed).values)
    first, again, other = found
    _same(again, first, "with the same seed", rtol=0, atol=0)
    if explainer.deterministic:
        _same(other, first, "it is called deterministic, but with another seed", rtol=0, atol=0)
    else:
        _require(not torch.equal(first, other), "it is not called deterministic, but the seed makes no difference")


@_rule(EXPLAINER_RULES, "a series' scores do not depend on its company, only on its id")
def _company(explainer: Explainer) -> None:
    model, x, ids = _Smooth(), _series(7), torch.arange(7) * 5 - 8
    explainer = _ready(explainer, model, x)
    together, order = explainer(model, x, ids=ids, seed=2), torch.tensor([4, 0, 6, 2, 1, 5, 3])
    shuffled = explainer(model, x[order], ids=ids[order], seed=2)
    _same(shuffled.values, together.values[order], "in another order")
    for row in () if explainer.shared else (0, 3):  # where a network is shared, only the order does not matter
        alone = explainer(model, x[row : row + 1], ids=ids[row : row + 1], seed=2)
        _same(alone.values, together.values[row : row + 1], "explained alone")
        for name in ERRORS:
            mine, theirs = getattr(alone, name), getattr(together, name)
            _require((mine is None) == (theirs is None), f"{name} is there for one of them only")
            if mine is not None:
                _same(mine.float(), theirs[row : row + 1].float(), f"explained alone, in {name},")


@_rule(EXPLAINER_RULES, "the size of a batch makes no difference")
def _batch_size(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(6)
    explainer = _ready(explainer, model, x)
    expected = explainer(model, x)
    for size in (1, 7, 100000):
        found = explainer(model, x, batch_size=size)
        _same(found.values, expected.values, f"with {size} sequences a pass")
        if expected.standard_error is not None and found.standard_error is not None:
            error = found.standard_error
            _same(error, expected.standard_error, f"with {size} a pass, in standard_error,", rtol=1e-3)


@_rule(EXPLAINER_RULES, "model, series and generators are left as they were found")
def _left(explainer: Explainer) -> None:
    x = _series(6).float()
    ready = _ready(explainer, _Recurrent(), x)
    for fails_after in (None, 0, 1):
        model = _Recurrent(fails_after)
        _left_as_found(model, x, lambda model=model: ready(model, x, batch_size=200))  # type: ignore[misc]
    if explainer.needs_fit:
        for fails_after in (None, 0):
            model, others = _Recurrent(fails_after), _background(explainer, x)
            _left_as_found(model, others, lambda model=model, others=others: explainer.fit(model, others))  # type: ignore[misc]


@_rule(EXPLAINER_RULES, "zero_if_ignored: what the model ignores scores exactly 0")
def _ignored(explainer: Explainer) -> None:
    if not explainer.zero_if_ignored:
        return
    found = _explain(explainer, _Smooth(used=CHANNELS - 1), _series(8)).values
    largest = float(found[..., -1].abs().max())
    _require(largest == 0, f"a channel that the model never reads scores up to {largest:.3g}")
    share = float((found[..., :-1] != 0).float().mean())
    _require(share > 0.8, f"only {share:.0%} of the values that it reads score other than 0")
    if not explainer.needs_fit:
        x = _series(4)
        largest = float(explainer(_Smooth(), x, baseline=x).values.abs().max())
        _require(largest == 0, f"values that do not differ from the baseline score up to {largest:.3g}")


@_rule(EXPLAINER_RULES, "complete: scores sum to the change of the prediction")
def _complete(explainer: Explainer) -> None:
    if not explainer.complete:
        return
    model, x = _Smooth(), _series(6)
    found = _explain(explainer, model, x)
    with torch.no_grad():
        before, after = (model(z).softmax(-1) for z in (torch.zeros_like(x), x))
    target = after.argmax(-1, keepdim=True)
    wanted = (after - before).gather(1, target)[:, 0]
    error = torch.zeros_like(x) if found.standard_error is None else found.standard_error.double()
    allowed = 0.02 * wanted.abs() + 4 * error.square().sum((1, 2)).sqrt() + 1e-5
    gap = (found.values.double().sum((1, 2)) - wanted).abs()
    _require(
        (gap <= allowed).all(), f"they miss it by up to {float(gap.max()):.3g}, of {float(wanted.abs().max()):.3g}"
    )


@_rule(EXPLAINER_RULES, "signed: the sign of a score is the direction of the effect")
def _signed(explainer: Explainer) -> None:
    x = _series(6).abs() + 3
    for sign in (1, -1):  # of every weight, where all values lie above the baseline and above those to learn from
        found = _explain(explainer, _Weighted(torch.full((TIME, CHANNELS), sign * 0.02)), x)
        _require(
            found.signed == explainer.signed, f"the explanation says signed={found.signed}, the class does not"
        )
        if explainer.signed:
            right = float((found.values * sign > 0).float().mean())
            _require(
                right > 0.9, f"with weights that are all {'positive' if sign > 0 else 'negative'}, {right:.0%} are"
            )


@_rule(EXPLAINER_RULES, "targeted: scores are about the given target, by default the predicted class")
def _targeted(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(12)
    explainer = _ready(explainer, model, x)
    with torch.no_grad():
        classes = model(x).argmax(-1)
    expected = explainer(model, x, baseline=5.0)  # far away, where other classes may be predicted
    _require(expected.target is not None and torch.equal(expected.target, classes), "another class is explained")
    _same(explainer(model, x, baseline=5.0, target=classes).values, expected.values, "given the predicted classes")
    other = explainer(model, x, baseline=5.0, target=(classes + 1) % CLASSES).values
    if not explainer.targeted:
        _same(other, expected.values, "it is not called targeted, but for another target")
    elif torch.equal(other, expected.values):  # as for scores that know nothing of the model, which random ones do
        elsewhere = _explain(explainer, _Smooth(seed=1), x, baseline=5.0).values
        _require(torch.equal(elsewhere, expected.values), "every target gets the same scores")


class _Opaque(nn.Module):
    """Leaves torch, so that there is no gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.model(x.detach()).detach()
        return answer


@_rule(EXPLAINER_RULES, "needs_gradient: a model without a gradient is refused, or else explained")
def _gradient(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(4)
    if not explainer.needs_gradient:
        explainer = _ready(explainer, model, x)
        _same(
            explainer(_Opaque(model), x).values, explainer(model, x).values, "for a model that hides its gradient"
        )
        return
    try:
        _explain(explainer, _Opaque(model), x)
    except ModelError:
        return
    raise _BrokenError("a model that gives no gradient is explained all the same")


@_rule(
    EXPLAINER_RULES,
    "needs_module, needs_probabilities: other models are refused in one sentence, or else explained",
)
def _models(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(4)
    explainer = _ready(explainer, model, x)
    expected = explainer(model, x).values
    plain, asked = lambda z: model(z), explainer.needs_module and not explainer.needs_fit  # noqa: PLW0108
    if not explainer.needs_module:
        _same(explainer(plain, x).values, expected, "for the same model as a function")
    elif asked:
        _refused(lambda: explainer(plain, x), "a function")
    if explainer.needs_probabilities:
        _refused(lambda: explainer(model, x, output="raw"), "a raw output")
    else:
        _require(
            explainer(model, x, output="raw").values.isfinite().all(), "scores of a raw output are not finite"
        )


def _refused(work: Callable[[], object], what: str) -> None:
    try:
        work()
    except TempogradError:
        return
    raise _BrokenError(f"{what} is explained all the same")


@_rule(EXPLAINER_RULES, "unobserved cells hold 0 in all, and stay as they are where the model reads them")
def _mask(explainer: Explainer) -> None:
    model, x = _Watched(), _series(5)
    mask, model.seen = _observed(x), []
    explainer = _ready(explainer, model, x)
    model.seen.clear()  # a fit sees other series
    found = explainer(model, x, mask=mask, baseline=7.0)
    for name in ("values", *ERRORS):
        part = getattr(found, name)
        _require(part is None or bool((part[~mask] == 0).all()), f"{name} holds other numbers there")
    for batch in model.seen:  # every sequence agrees with one of the series wherever that was not observed
        kept = (batch[:, None] == x[:, : batch.shape[1]]) | mask[:, : batch.shape[1]]
        _require(kept.flatten(2).all(2).any(1).all(), "a value that was not observed is replaced")
    nothing = explainer(model, x[:2], mask=torch.stack([mask[0], torch.zeros_like(mask[0])])).values
    _require((nothing[1] == 0).all() and nothing.isfinite().all(), "a series without an observation gets a score")


def _observed(x: Tensor) -> Tensor:
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[:, -1, 0] = True  # no padding yet
    return mask


@_rule(EXPLAINER_RULES, "padding changes nothing for a model that ignores it")
def _padding(explainer: Explainer) -> None:
    more = (5, 6, CHANNELS)
    for per_step in (False, True):
        model, x = _Smooth(per_step=per_step), _series(5)
        mask, tail = _observed(x), _series(*more, seed=1)
        padded, padding = torch.cat([x, tail], 1), torch.cat([mask, torch.zeros(more, dtype=torch.bool)], 1)
        ready = _ready(explainer, model, padded)
        found = ready(model, padded, mask=padding).values
        if explainer.amortised:  # bound to one length: what the padding holds makes no difference
            short = ready(model, torch.cat([x, torch.zeros(more)], 1), mask=padding).values[:, :TIME]
        else:
            short = _ready(explainer, model, x)(model, x, mask=mask).values
        end = " for one output per step" if per_step else ""
        _same(found[:, :TIME], short, f"with padding{end}", rtol=1e-5, atol=1e-9)
        _require((found[:, TIME:] == 0).all(), f"padding gets scores{end}")


@_rule(EXPLAINER_RULES, "layout, kind of array and precision of x make no difference; a float64 model stays one")
def _arrays(explainer: Explainer) -> None:
    model, x = _Smooth(TIME, TIME), _series(4, TIME, TIME).float().double()  # a square, which any layout would fit
    mask, explainer = _observed(x), _ready(explainer, model, x)
    expected = explainer(model, x, mask=mask).values
    turned = explainer(model, x.transpose(1, 2), mask=mask.transpose(1, 2), layout="BDT").values
    _same(turned, expected, "with layout='BDT'")
    _same(explainer(model, x.numpy(), mask=mask.numpy()).values, expected, "for an array of numpy")
    _same(explainer(model, x.float(), mask=mask).values, expected, "for float32 series", rtol=1e-3, atol=1e-6)
    _require(all(weight.dtype == torch.float64 for weight in model.parameters()), "the model is no longer float64")


@_rule(EXPLAINER_RULES, "NaN is refused, unless missing='mask' leaves it out")
def _missing(explainer: Explainer) -> None:
    model, x = _Smooth(), _series(4)
    explainer, gaps = _ready(explainer, model, x), ~_observed(x)
    try:
        explainer(model, x.masked_fill(gaps, torch.nan))
        raise _BrokenError("NaN is explained all the same")
    except InputError:
        pass
    found = explainer(model, x.masked_fill(gaps, torch.nan), missing="mask").values
    by_hand = explainer(model, x.masked_fill(gaps, 0.0), mask=~gaps).values
    _same(found, by_hand, "with missing='mask' and with a mask")


@_rule(EXPLAINER_RULES, "one output per step is explained, or refused in one sentence")
def _steps(explainer: Explainer) -> None:
    model, x = _Smooth(per_step=True), _series(3)
    explainer = _ready(explainer, model, x)
    for steps in (None, 4, [1, 5], "own"):
        try:
            found = explainer(model, x, steps=steps).values
        except TempogradError:
            continue
        _require(found.isfinite().all(), f"with steps={steps!r} scores are not finite")


@_rule(EXPLAINER_RULES, "an explanation says what made it, also after it was saved and loaded")
def _files(explainer: Explainer) -> None:
    found = _explain(explainer, _Smooth(), _series(4), seed=6)
    _require(found.method == explainer.name, f"it is called {found.method}, the explainer {explainer.name}")
    _require(found.parameters == explainer.parameters, "its parameters are not those of the explainer")
    with tempfile.TemporaryDirectory() as folder:
        loaded = Explanation.load(found.save(Path(folder) / "explanation.safetensors"))
    for name in ("values", *ERRORS, "target", "x", "ids"):
        one, other = getattr(found, name), getattr(loaded, name)
        _require(one is other or torch.equal(one, other), f"{name} is another one in the file")
    for name in ("method", "facts", "seed", "signed"):
        _require(getattr(found, name) == getattr(loaded, name), f"{name} is another one in the file")
    plain = json.loads(json.dumps(found.parameters))
    _require(json.loads(json.dumps(loaded.parameters)) == plain, "parameters are others in the file")
    _require(found.verdict() == loaded.verdict(), "the verdict is another one in the file")


# The rules of metrics. Cells have distinct scores but where ties are the point.


def _maps(batch: int, seed: int = 3) -> Tensor:
    """Return scores, no two of which are equal in size."""
    order = torch.rand(batch, TIME * CHANNELS, generator=torch.Generator().manual_seed(seed)).argsort(1)
    sign = torch.where(order % 2 == 0, 1.0, -1.0)
    return ((order + 1) * sign / 10).view(batch, TIME, CHANNELS)


def _explanation(model: nn.Module, x: Tensor, values: Tensor, mask: Tensor | None = None) -> Explanation:
    """Return scores of our own as an explanation, with ids that say nothing of the order."""
    ids = (torch.arange(len(x)) * 37) % 1009 - 50
    return replace(Occlusion()(model, x, mask=mask, ids=ids), values=values)


def _truth(batch: int) -> Tensor:
    truth = torch.rand(batch, TIME, CHANNELS, generator=torch.Generator().manual_seed(8)) < 0.3
    truth[:, 0, 0], truth[:, 1, 0] = True, False
    return truth


def _measure(metric: Metric, model: nn.Module, found: Explanation, truth: Tensor, **options: Any) -> Tensor:
    scores = evaluate(model, found, metrics=[metric], truth=truth, **({"k": 0.3} | options))
    _require(list(scores) == [metric.name], f"the scores are reported under {', '.join(scores)}")
    return scores[metric.name]


def _pools(metric: Metric) -> bool:
    return isinstance(metric, Localisation) and metric.whole


@_rule(METRIC_RULES, "settings are the fields of a frozen dataclass, and plain data; the direction is said")
def _scores_settings(metric: Metric) -> None:
    kind = type(metric)
    _require(is_dataclass(kind) and kind.__dataclass_params__.frozen, "the class is no frozen dataclass")  # type: ignore[attr-defined]
    _require(type(getattr(metric, "higher_is_better", None)) is bool, "higher_is_better is not True or False")
    try:
        json.dumps(metric.parameters)
    except (TypeError, ValueError) as error:
        raise _BrokenError(f"a setting is no plain data: {error}") from None
    _require(kind(**metric.parameters, name=metric.name) == metric, "the same settings make another metric")
    renamed = replace(metric, name="another name")
    model, x = _Smooth(), _series(3)
    _measure(renamed, model, _explanation(model, x, _maps(3)), _truth(3))


@_rule(METRIC_RULES, "one finite float32 score per series")
def _scores_shape_and_numbers(metric: Metric) -> None:
    model, x = _Smooth(), _series(7)
    found = _measure(metric, model, _explanation(model, x, _maps(7)), _truth(7))
    wanted: tuple[int, ...] = () if _pools(metric) else (7,)
    _require(_shape(found) == wanted, f"seven series get scores of shape {_shape(found)}, not {wanted}")
    _require(found.dtype == torch.float32, f"the scores are {found.dtype}")
    _require(found.isfinite().all(), f"{int((~found.isfinite()).sum())} of them are not finite")


@_rule(METRIC_RULES, "a series' score does not depend on its company, only on its id")
def _scores_company(metric: Metric) -> None:
    model, x, truth = _Smooth(), _series(9), _truth(9)
    values = _maps(9)
    values[:, 2:6] = 0.5  # ties too
    explanation = _explanation(model, x, values)
    expected = _measure(metric, model, explanation, truth)
    for rows in (torch.tensor([4, 8, 0, 2, 7, 1, 3, 6, 5]), *(() if _pools(metric) else (torch.tensor([6, 1]),))):
        found = _measure(metric, model, explanation[rows], truth[rows])
        _same(
            found, expected if _pools(metric) else expected[rows], f"for {len(rows)} series in another order", 1e-5
        )
    for size in (1, 7, 100000):
        _same(_measure(metric, model, explanation, truth, batch_size=size), expected, f"with {size} a pass", 1e-5)


@_rule(METRIC_RULES, "where a cell stands makes no difference, and ties are not broken by position")
def _scores_position(metric: Metric) -> None:
    batch, cells = 256, TIME * CHANNELS
    x, order = _series(batch) + 1, torch.randperm(cells, generator=torch.Generator().manual_seed(2))
    weights, truth = torch.linspace(-0.5, 1, cells, dtype=torch.float64), _truth(batch)
    straight = _moved(metric, x, weights, _maps(batch), truth, torch.arange(cells))
    _same(
        _moved(metric, x, weights, _maps(batch), truth, order), straight, "with cells in another order", 1e-4, 1e-6
    )
    half, flat = torch.arange(cells) < cells // 2, torch.ones(batch, TIME, CHANNELS)
    weights, truth = torch.where(half, 0.3, 0.0).double(), half.view(1, TIME, CHANNELS).expand(batch, -1, -1)
    first, last = (
        _moved(metric, x, weights, flat, truth, way) for way in (torch.arange(cells), order.sort().values.flip(0))
    )
    gap = float((first.double().mean() - last.double().mean()).abs())
    spread = 0.0 if _pools(metric) else float((first.double().var() / batch + last.double().var() / batch).sqrt())
    _require(gap <= 5 * spread + 1e-6, f"cells of equal scores count {gap:.3g} more where they come first")


def _moved(metric: Metric, x: Tensor, weights: Tensor, values: Tensor, truth: Tensor, order: Tensor) -> Tensor:
    """Measure with the cells of series, model, scores and truth in another order."""
    model = _Weighted(weights[order])
    x, values, truth = (part.flatten(1)[:, order].view(part.shape) for part in (x, values, truth))
    return _measure(metric, model, _explanation(model, x, values), truth)


@_rule(METRIC_RULES, "unobserved cells are never ranked, removed or counted")
def _scores_mask(metric: Metric) -> None:
    x, mask, truth, values = _series(6), torch.ones(6, TIME, CHANNELS, dtype=torch.bool), _truth(6), _maps(6)
    mask[:, 3:5, 1:], mask[:, -2:] = False, False
    weights = torch.linspace(-0.5, 1, TIME * CHANNELS, dtype=torch.float64).view(TIME, CHANNELS)
    model = _Weighted(weights * mask[0])  # does not read them
    expected = _measure(metric, model, _explanation(model, x, values.where(mask, 0), mask), truth)
    loud = _explanation(model, x.where(mask, 50.0), values.where(mask, 1000.0), mask)
    _same(_measure(metric, model, loud, truth ^ ~mask), expected, "with other numbers there", 1e-5)


@_rule(
    METRIC_RULES,
    "k is a count or a share; one above the cells of a series is refused, above the observed ones not",
)
def _scores_k(metric: Metric) -> None:
    if not isinstance(metric, Faithfulness):
        return
    model, x, mask = _Smooth(), _series(4), torch.zeros(4, TIME, CHANNELS, dtype=torch.bool)
    mask[:, 1:3, :2] = True
    found = _explanation(model, x, _maps(4).where(mask, 0), mask)
    five, all_cells = (_measure(replace(metric, k=k), model, found, _truth(4)) for k in (4, TIME * CHANNELS))
    _same(all_cells, five, "with k of all cells, where four are observed,", 1e-6)
    _same(_measure(replace(metric, k=1.0), model, found, _truth(4)), five, "with a share of 1", 1e-6)
    try:
        _measure(replace(metric, k=TIME * CHANNELS + 1), model, found, _truth(4))
    except InputError:
        return
    raise _BrokenError(f"k={TIME * CHANNELS + 1} is taken for series of {TIME * CHANNELS} cells")


@_rule(METRIC_RULES, "the unit of the scores makes no difference")
def _scores_unit(metric: Metric) -> None:
    if _pools(metric):  # which adds a small number to the span of the scores, as in the papers
        return
    model, x, truth = _Smooth(), _series(6), _truth(6)
    expected = _measure(metric, model, _explanation(model, x, _maps(6)), truth)
    for factor in (2.0**-10, 2.0**10):
        found = _measure(metric, model, _explanation(model, x, _maps(6) * factor), truth)
        _same(found, expected, f"with scores times {factor:g}", 1e-4)


@_rule(METRIC_RULES, "higher_is_better: scores that know the answer are better than random ones")
def _scores_direction(metric: Metric) -> None:
    batch = 64
    x, truth = _series(batch).abs() * 0.2 + 1, torch.zeros(batch, TIME, CHANNELS, dtype=torch.bool)
    truth[:, 2:5, 1] = True
    weights = torch.where(truth[0], 3.0, 0.05).double()
    model = _Weighted(weights, constant=-4.0)  # without the three cells the answer is the other class
    known, noise = (x * weights).float(), _maps(batch).abs()
    options: dict[str, Any] = {"k": 3}
    good, chance = (
        float(_measure(metric, model, _explanation(model, x, values), truth, **options).double().mean())
        for values in (known, noise)
    )
    better = good > chance if metric.higher_is_better else good < chance
    word = "higher" if metric.higher_is_better else "lower"
    _require(better, f"{word} is called better, but they get {good:.3g} on average and random ones {chance:.3g}")


@_rule(METRIC_RULES, "model, series and generators are left as they were found")
def _scores_left(metric: Metric) -> None:
    if not isinstance(metric, Faithfulness):  # these never ask the model
        return
    x = _series(6).float()
    found = _explanation(_Recurrent(), x, _maps(6))
    for fails_after in (None, 0):
        model = _Recurrent(fails_after)
        _left_as_found(model, x, lambda model=model: _measure(metric, model, found, _truth(6)))  # type: ignore[misc]
