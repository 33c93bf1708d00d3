"""The rules of explainers and of metrics, and what they are made of: errors, small models and series.

What a class says about itself decides what it must fulfil. In the rules of metrics cells have distinct scores but
where ties are the point.
"""

import copy
import json
import random
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from tempograd.core.errors import TempogradError, TempogradWarning, UnknownNameError, one_line
from tempograd.core.series import Series
from tempograd.engine import Predictor
from tempograd.explainers import Explainer, Occlusion
from tempograd.explanation import Explanation
from tempograd.metrics import Metric, evaluate
from tempograd.models import build

TIME, CHANNELS, CLASSES = 9, 3, 3
Rule = Callable[[Any], None]


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


def try_rules(thing: Explainer | Metric, known: dict[str, Rule], names: Iterable[str] | None) -> None:
    """Try rules on an explainer or a metric; the first that is broken is an error."""
    for name in known if names is None else names:
        if name not in known:
            raise UnknownNameError("rule", name, known)
        says = (known[name].__doc__ or "").removeprefix("Require ").removeprefix("that ").rstrip(".")
        start = f"{one_line(thing.name)} breaks the rule '{name}' ({says}):"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TempogradWarning)  # what a method warns of by design may come
            try:
                known[name](thing)
            except BrokenError as error:
                raise ContractError(f"{start} {error}.", name) from None
            except Exception as error:
                reason = one_line(str(error), 200)
                raise ContractError(f"{start} it fails with {type(error).__name__}: {reason}", name) from error


class BrokenError(Exception):
    """What is wrong, as the end of a sentence."""


def demand(holds: bool | Tensor, otherwise: str) -> None:
    """Say what is wrong, as the end of a sentence, unless something holds."""
    if not bool(holds):
        raise BrokenError(otherwise)


def same_numbers(found: Tensor, expected: Tensor, where: str, rtol: float = 2e-4, atol: float = 2e-7) -> None:
    """Refuse numbers that differ by more than the rounding of another batch."""
    demand(
        found.shape == expected.shape, f"{where} they have shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    )
    close = torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    gap, size = (found - expected).abs().nan_to_num(), expected.abs().nan_to_num(posinf=0.0)
    demand(close.all(), f"{where} they differ by up to {float(gap.max()):.3g}, of up to {float(size.max()):.3g}")


# Models and series. The models are modules that end in a linear layer, take series of any length and are smooth,
# so that every method can explain them.


def small_series(batch: int, time: int = TIME, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    """Return series of standard normal numbers, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, channels, generator=generator, dtype=torch.float64)


class Smooth(nn.Module):
    """Reads the first ``time`` steps of the first ``used`` channels."""

    tempograd_task = "classification"

    def __init__(self, time: int = TIME, used: int = CHANNELS, classes: int = CLASSES, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(time * used, 24), nn.Tanh()).double()
            self.head = nn.Linear(24, classes).double()
        self.time, self.used = time, used

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, : self.time, : self.used]
        missing = x.new_zeros(len(x), self.time - x.shape[1], self.used)
        return cast("Tensor", self.head(self.body(torch.cat([x, missing], 1))))


class PerStep(Smooth):
    """Reads, at each step, those up to it."""

    tempograd_task = "per_step"

    def forward(self, x: Tensor) -> Tensor:
        until = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).tril()
        return super().forward((x[:, None] * until[..., None]).flatten(0, 1)).view(*x.shape[:2], -1)


class Weighted(Smooth):
    """The logit is a weighted sum of the cells plus a constant: what each does is known."""

    tempograd_task = "binary"

    def __init__(self, weights: Tensor, constant: float = 0.0) -> None:
        super().__init__(weights.numel() // CHANNELS, classes=1)
        self.body = nn.Sequential(nn.Flatten())
        self.head = nn.Linear(weights.numel(), 1).double()
        with torch.no_grad():
            self.head.weight.copy_(weights.flatten()[None])
            self.head.bias.fill_(constant)


def left_as_found(x: Tensor, work: Callable[[nn.Module], object]) -> None:
    """Let something run a model with much that can be disturbed, and compare all that it may have touched."""
    model = build("gru", CHANNELS, CLASSES, hidden=8).train()
    next(model.readout.parameters()).requires_grad_(False)
    before = _state(model, x)
    work(model)
    after = _state(model, x)
    changed = [name for name in before if before[name] != after[name]]
    demand(not changed, f"{', '.join(changed)} changed")


def _state(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Return, by its name, all of a model, of its series and of generators that a method may disturb."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    parts, weights = list(model.modules()), list(model.parameters())
    return {name: value.tolist() for name, value in model.state_dict().items()} | {
        "training mode": [part.training for part in parts],
        "requires_grad": [weight.requires_grad for weight in (*weights, x)],
        "gradients of weights": [weight.grad is None for weight in weights],
        "hooks": [len(getattr(part, kind)) for part in parts for kind in kinds],
        "x": x.tolist(),
        "torch's generator": torch.get_rng_state().tolist(),
        "numpy's generator": str(np.random.mtrand._rand.get_state()),
        "Python's generator": random.getstate(),
        "whether gradients are on": torch.is_grad_enabled(),
    }


# The rules of explainers

ERRORS = ("standard_error", "n_draws", "ess")  # what an explanation may say of its scores


def _background(explainer: Explainer, x: Tensor) -> Tensor:
    """Return other series to learn from, as long as x; for prefixes any length of two or more will do."""
    time = 12 if explainer.needs_prefixes else x.shape[1]
    return small_series(16, 64, x.shape[2], seed=99)[:, :time].to(x.dtype)


def _ready(explainer: Explainer, model: nn.Module, x: Tensor) -> Explainer:
    """Fit a method that needs it."""
    return explainer.fit(model, _background(explainer, x)) if explainer.needs_fit else explainer


def _explain(explainer: Explainer, model: nn.Module, x: Tensor, **call: Any) -> Explanation:
    return _ready(explainer, model, x)(model, x, **call)


# The rules of explainers.


def explainer_settings(explainer: Explainer) -> None:
    """Require that settings are the fields of a frozen dataclass, and plain data."""
    known = {field.name for field in fields(explainer) if not field.metadata.get("fitted")}
    found = set(explainer.parameters)
    demand(found == known, f"parameters has {sorted(found)}, not {sorted(known)}")
    _made_of_settings(explainer, explainer.parameters)


def _made_of_settings(thing: Explainer | Metric, settings: dict[str, Any]) -> None:
    """Refuse what its settings do not make again, as a frozen dataclass of plain data."""
    kind = type(thing)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    demand(frozen and kind.__eq__ is not object.__eq__, "the class is no frozen dataclass that can be compared")
    json.dumps(settings)  # or it fails: settings are plain data
    again = kind(**settings)
    demand(again == thing and hash(again) == hash(thing), f"the same settings make another {kind.__name__}")


def explainer_fit(explainer: Explainer) -> None:
    """Require that fit returns a new explainer, and what needs it says so without it."""
    model, x = Smooth(), small_series(4)
    if not explainer.needs_fit:
        demand(explainer.learnt is None, "something is learnt, though needs_fit is False")
        explainer.fit(model, _background(explainer, x))(model, x)
        return
    _refused(lambda: explainer(model, x), "a series without a fit")
    first, second = (explainer.fit(model, _background(explainer, x), seed=5) for _ in range(2))
    demand(explainer.learnt is None, "fit changes the object that it was called on")
    demand(first.learnt is not None, "what was learnt is in no field with metadata={'fitted': True}")
    demand(first.parameters == explainer.parameters, "fit changes the settings")
    same_numbers(first(model, x).values, second(model, x).values, "learnt twice with one seed", rtol=0, atol=0)


def explainer_numbers(explainer: Explainer) -> None:
    """Require one finite float32 score per cell, which tells series apart; scores of steps may be refused."""
    for time, channels, classes in ((7, 4, 3), (11, 1, 2), (1, 3, 3), (2, 1, 1)):
        x = small_series(5, time, channels)
        found = _explain(explainer, Smooth(time, channels, classes), x).values
        size = f"for series of shape {tuple(x.shape)}"
        demand(found.shape == x.shape, f"{size} the scores have shape {tuple(found.shape)}")
        demand(found.dtype == torch.float32, f"{size} the scores are {found.dtype}")
        demand(found.isfinite().all(), f"{size} {int((~found.isfinite()).sum())} scores are not finite")
        silent = time == 1 and (explainer.blends_steps or explainer.needs_prefixes)  # nothing comes before
        if time * channels > 2 and not silent:
            demand((found != found[:1]).any(), f"{size} all five series get the same scores")
    model, x = PerStep(), small_series(3)
    explainer = _ready(explainer, model, x)
    for steps in (None, 4, [1, 5], "own"):
        with suppress(TempogradError):
            found = explainer(model, x, steps=steps).values
            demand(found.isfinite().all(), f"with steps={steps!r} scores are not finite")


def explainer_seed(explainer: Explainer) -> None:
    """Require that the seed decides every draw, and deterministic says whether there is any."""
    model, x = Smooth(), small_series(4)
    explainer = explainer.fit(model, _background(explainer, x))  # some draw from what they learnt
    found = []
    for seed, state in ((3, 0), (3, 1), (4, 0)):  # whatever the state of torch's own generator
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(state)
            found.append(explainer(model, x, seed=seed).values)
    first, again, other = found
    same_numbers(again, first, "with the same seed", rtol=0, atol=0)
    if explainer.deterministic:
        same_numbers(other, first, "it is called deterministic, but with another seed", rtol=0, atol=0)
    else:
        demand(not torch.equal(first, other), "it is not called deterministic, but the seed makes no difference")


def explainer_company(explainer: Explainer) -> None:
    """Require that a series' scores depend on its id alone, not on its company nor on the size of a batch."""
    model, x, ids = Smooth(), small_series(7), torch.arange(7) * 5 - 8
    explainer = _ready(explainer, model, x)
    series, order = Series(x, ids=ids), [4, 0, 6, 2, 1, 5, 3]
    together = explainer(model, series, seed=2)
    # where a network is shared, only the order and the size do not matter
    ways = [(order, 3)] if explainer.shared else [(order, None), ([0], 100000), ([3, 5], 120), ([3], 1)]
    for rows, size in ways:
        found, expected = explainer(model, series.take(rows), seed=2, batch_size=size), together[rows]
        where = f"with series {rows} alone in this order and {size or 'any number of'} sequences a pass"
        same_numbers(found.values, expected.values, where)
        for name in ERRORS:
            one, other = getattr(found, name), getattr(expected, name)
            demand((one is None) == (other is None), f"{name} is there for one of them only")
            if one is not None:
                same_numbers(one.float(), other.float(), f"{where}, in {name},", 1e-3)


def explainer_left(explainer: Explainer) -> None:
    """Require that model, series and generators are left as they were found."""
    x = small_series(6).float()
    others = _background(explainer, x)
    ready = _ready(explainer, build("gru", CHANNELS, CLASSES, hidden=8), x)
    left_as_found(x, lambda model: ready(model, x, batch_size=200))
    left_as_found(others, lambda model: explainer.fit(model, others))


def explainer_ignored(explainer: Explainer) -> None:
    """Require that what the model ignores scores exactly 0."""
    if not explainer.zero_if_ignored:
        return
    found = _explain(explainer, Smooth(used=CHANNELS - 1), small_series(8)).values
    largest = float(found[..., -1].abs().max())
    demand(largest == 0, f"a channel that the model never reads scores up to {largest:.3g}")
    share = float((found[..., :-1] != 0).float().mean())
    demand(share > 0.8, f"only {share:.0%} of the values that it reads score other than 0")


def explainer_complete(explainer: Explainer) -> None:
    """Require that scores sum to the change of the prediction."""
    if not explainer.complete:
        return
    model, x = Smooth(), small_series(6)
    found = _explain(explainer, model, x)
    with torch.no_grad():
        before, after = (model(z).softmax(-1) for z in (torch.zeros_like(x), x))
    wanted = (after - before).gather(1, after.argmax(-1, keepdim=True))[:, 0]
    error = torch.zeros_like(x) if found.standard_error is None else found.standard_error.double()
    allowed = 0.02 * wanted.abs() + 4 * error.square().sum((1, 2)).sqrt() + 1e-5
    gap = (found.values.double().sum((1, 2)) - wanted).abs()
    most, largest = float(gap.max()), float(wanted.abs().max())
    demand((gap <= allowed).all(), f"they miss it by up to {most:.3g}, of {largest:.3g}")


def explainer_signed(explainer: Explainer) -> None:
    """Require that the sign of a score is the direction of the effect."""
    x = small_series(6).abs() + 3
    for sign in (1, -1):  # of every weight, where all values lie above the baseline and above those to learn from
        found = _explain(explainer, Weighted(torch.full((TIME, CHANNELS), sign * 0.02)), x)
        demand(found.signed == explainer.signed, f"the explanation says signed={found.signed}, the class does not")
        if explainer.signed:
            right = float((found.values * sign > 0).float().mean())
            demand(right > 0.9, f"with weights that all have the sign of {sign}, {right:.0%} have it")


def explainer_targeted(explainer: Explainer) -> None:
    """Require that scores are about the given target, by default the predicted class."""
    model, x = Smooth(), small_series(12)
    explainer = _ready(explainer, model, x)
    with torch.no_grad():
        classes = model(x).argmax(-1)
    expected = explainer(model, x, baseline=5.0)  # far away, where other classes may be predicted
    demand(expected.target is not None and torch.equal(expected.target, classes), "another class is explained")
    given = explainer(model, x, baseline=5.0, target=classes).values
    same_numbers(given, expected.values, "given the predicted classes")
    other = explainer(model, x, baseline=5.0, target=(classes + 1) % CLASSES).values
    if not explainer.targeted:
        same_numbers(other, expected.values, "it is not called targeted, but for another target")
    elif torch.equal(other, expected.values):  # as for scores that know nothing of the model, which random ones do
        elsewhere = _explain(explainer, Smooth(seed=1), x, baseline=5.0).values
        demand(torch.equal(elsewhere, expected.values), "every target gets the same scores")


def explainer_models(explainer: Explainer) -> None:
    """Require that functions, models without a gradient and raw outputs are refused, or else explained."""
    model, x = Smooth(), small_series(4)
    ready = _ready(explainer, model, x)
    opaque = copy.deepcopy(model).requires_grad_(requires_grad=False)
    opaque.register_forward_pre_hook(lambda _, inputs: (inputs[0].detach(),))
    others: list[tuple[Any, bool, str]] = [
        (lambda z: model(z), explainer.needs_module, "the same model as a function"),  # noqa: PLW0108  # a function
        (opaque, explainer.needs_gradient, "a model that gives no gradient"),
    ]
    for other, refuses, what in others:
        if refuses:
            _refused(partial(_explain, explainer, other, x), what)
        else:
            same_numbers(ready(other, x).values, ready(model, x).values, f"for {what}")
    if explainer.needs_probabilities:
        _refused(partial(ready, model, x, output="raw"), "a raw output")
    else:
        demand(ready(model, x, output="raw").values.isfinite().all(), "scores of a raw output are not finite")


def _refused(work: Callable[[], object], what: str) -> None:
    try:
        work()
    except TempogradError:
        return
    raise BrokenError(f"{what} is explained all the same")


def explainer_mask(explainer: Explainer) -> None:
    """Require that unobserved cells hold 0 in all, and stay as they are where the model reads them."""
    model, x, seen = Smooth(), small_series(5), list[Tensor]()
    explainer = _ready(explainer, model, x)  # a fit sees other series
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    mask = _observed(x)
    found = explainer(model, Series(x, mask=mask), baseline=7.0)
    for name in ("values", *ERRORS):
        part = getattr(found, name)
        demand(part is None or bool((part[~mask] == 0).all()), f"{name} holds other numbers there")
    for batch in seen:  # every sequence agrees with one of the series wherever that was not observed
        kept = (batch[:, None] == x[:, : batch.shape[1]]) | mask[:, : batch.shape[1]]
        demand(kept.flatten(2).all(2).any(1).all(), "a value that was not observed is replaced")
    empty = torch.stack([mask[0], torch.zeros_like(mask[0])])
    nothing = explainer(model, Series(x[:2], mask=empty)).values
    demand((nothing[1] == 0).all() and nothing.isfinite().all(), "a series without an observation gets a score")


def _observed(x: Tensor) -> Tensor:
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[:, -1, 0] = True  # no padding yet
    return mask


def explainer_padding(explainer: Explainer) -> None:
    """Require that padding changes nothing for a model that ignores it."""
    more = (5, 6, CHANNELS)
    for model in (Smooth(), PerStep()):
        x = small_series(5)
        mask, tail = _observed(x), small_series(*more, seed=1)
        padded, padding = torch.cat([x, tail], 1), torch.cat([mask, torch.zeros(more, dtype=torch.bool)], 1)
        ready = _ready(explainer, model, padded)
        found = ready(model, Series(padded, mask=padding)).values
        if explainer.needs_fit and not explainer.needs_prefixes:  # it may be bound to the length it learnt from
            short = ready(model, Series(torch.cat([x, torch.zeros(more)], 1), mask=padding)).values[:, :TIME]
        else:
            short = _ready(explainer, model, x)(model, Series(x, mask=mask)).values
        end = f" for {model.tempograd_task}"
        same_numbers(found[:, :TIME], short, f"with padding{end}", rtol=1e-5, atol=1e-9)
        demand((found[:, TIME:] == 0).all(), f"padding gets scores{end}")


# The rules of metrics


def _maps(batch: int) -> Tensor:
    """Return scores, no two of which are equal in size."""
    order = torch.rand(batch, TIME * CHANNELS, generator=torch.Generator().manual_seed(3)).argsort(1)
    return ((order + 1) * torch.where(order % 2 == 0, 1.0, -1.0) / 10).view(batch, TIME, CHANNELS)


def _explanation(model: nn.Module, x: Tensor, values: Tensor, mask: Tensor | None = None) -> Explanation:
    """Return scores of our own as an explanation, with ids that say nothing of the order."""
    ids = (torch.arange(len(x)) * 37) % 1009 - 50
    return replace(Occlusion()(model, Series(x, mask=mask, ids=ids)), values=values)


def _truth(batch: int) -> Tensor:
    truth = torch.rand(batch, TIME, CHANNELS, generator=torch.Generator().manual_seed(8)) < 0.3
    truth[:, 0, 0], truth[:, 1, 0] = True, False
    return truth


def _measure(
    metric: Metric, model: nn.Module | Predictor, found: Explanation, truth: Tensor, **options: Any
) -> Tensor:
    scores = evaluate(model, found, metrics=[metric], truth=truth, **({"k": 0.3} | options))
    demand(list(scores) == [metric.name], f"the scores are reported under {', '.join(scores)}")
    return scores[metric.name]


def metric_settings(metric: Metric) -> None:
    """Require that settings are fields of a frozen dataclass and plain data, and the direction is said."""
    demand(type(getattr(metric, "higher_is_better", None)) is bool, "higher_is_better is not True or False")
    _made_of_settings(metric, metric.parameters | {"name": metric.name})


def metric_numbers(metric: Metric) -> None:
    """Require one finite float32 score per series; those of other tasks may be refused in one sentence."""
    model, step, x = Smooth(), PerStep(), small_series(5)
    calls: tuple[tuple[Any, dict[str, Any]], ...] = (
        (model, {}),
        (step, {}),
        (step, {"steps": [1, 5]}),
        (Predictor(model, task="multilabel"), {"target": 1}),
        (Predictor(model, task="forecast"), {"target": 2}),
        (model, {"target": lambda outputs: outputs[:, 0] - outputs[:, 1]}),
    )
    for number, (predictor, question) in enumerate(calls):
        try:
            explained = replace(Occlusion()(predictor, x, **question), values=_maps(5))
            found = _measure(metric, predictor, explained, _truth(5))
        except TempogradError:
            demand(number > 0, "scores of a class are refused")
            continue
        wanted: tuple[int, ...] = () if metric.whole else (5,)
        demand(tuple(found.shape) == wanted, f"five series get scores of shape {tuple(found.shape)}, not {wanted}")
        demand(found.dtype == torch.float32, f"the scores are {found.dtype}")
        demand(found.isfinite().all(), f"{int((~found.isfinite()).sum())} of them are not finite")


def metric_company(metric: Metric) -> None:
    """Require that a series' score does not depend on its company, only on its id."""
    model, x, truth = Smooth(), small_series(9), _truth(9)
    values = _maps(9)
    values[:, 2:6] = 0.5  # ties too
    explanation = _explanation(model, x, values)
    expected = _measure(metric, model, explanation, truth)
    for rows in ([4, 8, 0, 2, 7, 1, 3, 6, 5], *([] if metric.whole else [[6, 1]])):
        found = _measure(metric, model, explanation[torch.tensor(rows)], truth[rows])
        wanted = expected if metric.whole else expected[rows]
        same_numbers(found, wanted, f"for {len(rows)} series in another order", 1e-5)
    for size in (1, 7, 100000):
        found = _measure(metric, model, explanation, truth, batch_size=size)
        same_numbers(found, expected, f"with {size} sequences a pass", 1e-5)


def metric_position(metric: Metric) -> None:
    """Require that where a cell stands makes no difference, and ties are not broken by position."""
    batch, cells = 96, torch.arange(TIME * CHANNELS)
    x, values, truth = small_series(batch) + 1, _maps(batch), _truth(batch)
    weights = torch.linspace(-0.5, 1, len(cells), dtype=torch.float64)
    order = torch.randperm(len(cells), generator=torch.Generator().manual_seed(2))
    expected, found = (_moved(metric, x, weights, values, truth, way) for way in (cells, order))
    same_numbers(found, expected, "with cells in another order", 1e-4, 1e-6)
    first = cells < len(cells) // 2  # of which alone the model knows, and then of the last
    weights, truth = first.double() * 0.3, first.view(1, TIME, CHANNELS).expand(batch, -1, -1)
    ends = [_moved(metric, x, weights, torch.ones(x.shape), truth, way).double() for way in (cells, cells.flip(0))]
    gap = float((ends[0].mean() - ends[1].mean()).abs())
    spread = 0.0 if metric.whole else sum(float(end.var()) / batch for end in ends) ** 0.5
    demand(gap <= 5 * spread + 1e-6, f"where all scores are equal, cells that come first count {gap:.3g} more")


def _moved(metric: Metric, x: Tensor, weights: Tensor, values: Tensor, truth: Tensor, order: Tensor) -> Tensor:
    """Measure with the cells of series, model, scores and truth in another order."""
    model = Weighted(weights[order])
    x, values, truth = (part.flatten(1)[:, order].view(part.shape) for part in (x, values, truth))
    return _measure(metric, model, _explanation(model, x, values), truth)


def metric_mask(metric: Metric) -> None:
    """Require that unobserved cells are never ranked, removed or counted."""
    x, mask, truth, values = small_series(6), torch.ones(6, TIME, CHANNELS, dtype=torch.bool), _truth(6), _maps(6)
    mask[:, 3:5, 1:], mask[:, -2:] = False, False
    weights = torch.linspace(-0.5, 1, TIME * CHANNELS, dtype=torch.float64).view(TIME, CHANNELS)
    model = Weighted(weights * mask[0])  # does not read them
    expected = _measure(metric, model, _explanation(model, x, values.where(mask, 0), mask), truth)
    loud = _explanation(model, x.where(mask, 50.0), values.where(mask, 1000.0), mask)
    same_numbers(_measure(metric, model, loud, truth ^ ~mask), expected, "with other numbers there", 1e-5)
    short, rest = Weighted((weights * mask[0])[:-2]), slice(None, -2)
    cut = _explanation(short, x[:, rest], values[:, rest].where(mask[:, rest], 0), mask[:, rest])
    same_numbers(_measure(metric, short, cut, truth[:, rest]), expected, "without the steps at the end", 1e-5)


def metric_direction(metric: Metric) -> None:
    """Require that scores that know the answer are better than random ones."""
    batch = 64
    x, truth = small_series(batch).abs() * 0.2 + 1, torch.zeros(batch, TIME, CHANNELS, dtype=torch.bool)
    truth[:, 2:5, 1] = True
    weights = torch.where(truth[0], 3.0, 0.05).double()
    model = Weighted(weights, constant=-4.0)  # without the three cells the answer is the other class
    known, noise = (x * weights).float(), _maps(batch).abs()
    found = (_explanation(model, x, values) for values in (known, noise))
    good, chance = (float(_measure(metric, model, each, truth, k=3).double().mean()) for each in found)
    better = good > chance if metric.higher_is_better else good < chance
    word = "higher" if metric.higher_is_better else "lower"
    demand(better, f"{word} is called better, but they get {good:.3g} on average and random ones {chance:.3g}")


def rules_of(kind: str) -> dict[str, Rule]:
    """Return the rules of one kind of thing by name: functions whose names begin with the kind."""
    rules = {name: thing for name, thing in globals().items() if name.startswith(f"{kind}_")}
    return {name.removeprefix(f"{kind}_"): rule for name, rule in rules.items()}


EXPLAINER_RULES, METRIC_RULES = rules_of("explainer"), rules_of("metric")
"""The rules of explainers, and those of metrics, by name."""
