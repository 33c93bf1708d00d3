"""The rules of explainers, section by section of what a class may say about itself."""

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.core.errors import InputError, ModelError, TempogradError
from tempograd.core.series import Series
from tempograd.explainers import Explainer
from tempograd.explanation import Explanation
from tempograd.testing.rules import (
    CHANNELS,
    CLASSES,
    TIME,
    BrokenError,
    PerStep,
    Recurrent,
    Smooth,
    Weighted,
    demand,
    left_as_found,
    rules_of,
    same_numbers,
    small_series,
)

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


def _settings(explainer: Explainer) -> None:
    """Require that settings are the fields of a frozen dataclass, and plain data."""
    kind = type(explainer)
    demand(is_dataclass(kind), "the class is no dataclass")
    frozen = kind.__dataclass_params__.frozen and kind.__eq__ is not object.__eq__  # type: ignore[attr-defined]
    demand(frozen, "the dataclass is not frozen, or cannot be compared")
    known = {field.name for field in fields(kind) if not field.metadata.get("fitted")}
    found = set(explainer.parameters)
    demand(found == known, f"parameters has {sorted(found)}, not {sorted(known)}")
    json.dumps(explainer.parameters)  # or it fails: settings are plain data
    again = kind(**explainer.parameters)
    demand(again == explainer and hash(again) == hash(explainer), "the same settings make another explainer")


def _fit(explainer: Explainer) -> None:
    """Require that fit returns a new explainer, and what needs it says so without it."""
    model, x = Smooth(), small_series(4)
    if not explainer.needs_fit:
        demand(explainer.learnt is None, "something is learnt, though needs_fit is False")
        explainer.fit(model, _background(explainer, x))(model, x)
        return
    _refused(lambda: explainer(model, x), "a series without a fit")
    settings = copy.deepcopy(explainer.parameters)
    first, second = (explainer.fit(model, _background(explainer, x), seed=5) for _ in range(2))
    demand(first is not explainer, "fit returns the object that it was called on")
    demand(explainer.learnt is None, "fit changes the object that it was called on")
    demand(first.learnt is not None, "what was learnt is in no field with metadata={'fitted': True}")
    demand(first.parameters == settings, "fit changes the settings")
    same_numbers(first(model, x).values, second(model, x).values, "learnt twice with one seed", rtol=0, atol=0)


def _numbers(explainer: Explainer) -> None:
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


def _seed(explainer: Explainer) -> None:
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


def _company(explainer: Explainer) -> None:
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


def _left(explainer: Explainer) -> None:
    """Require that model, series and generators are left as they were found."""
    x = small_series(6).float()
    ready = _ready(explainer, Recurrent(), x)
    for fails_after in (None, 0, 1):
        left_as_found(Recurrent(fails_after), x, lambda model: ready(model, x, batch_size=200))
    others = _background(explainer, x)
    for fails_after in (None, 0) if explainer.needs_fit else ():
        left_as_found(Recurrent(fails_after), others, lambda model: explainer.fit(model, others))


def _ignored(explainer: Explainer) -> None:
    """Require that what the model ignores scores exactly 0."""
    if not explainer.zero_if_ignored:
        return
    found = _explain(explainer, Smooth(used=CHANNELS - 1), small_series(8)).values
    largest = float(found[..., -1].abs().max())
    demand(largest == 0, f"a channel that the model never reads scores up to {largest:.3g}")
    share = float((found[..., :-1] != 0).float().mean())
    demand(share > 0.8, f"only {share:.0%} of the values that it reads score other than 0")
    if explainer.uses_baseline and not explainer.needs_fit:
        x = small_series(4)
        largest = float(explainer(Smooth(), x, baseline=x).values.abs().max())
        demand(largest == 0, f"values that do not differ from the baseline score up to {largest:.3g}")


def _complete(explainer: Explainer) -> None:
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


def _signed(explainer: Explainer) -> None:
    """Require that the sign of a score is the direction of the effect."""
    x = small_series(6).abs() + 3
    for sign in (1, -1):  # of every weight, where all values lie above the baseline and above those to learn from
        found = _explain(explainer, Weighted(torch.full((TIME, CHANNELS), sign * 0.02)), x)
        demand(found.signed == explainer.signed, f"the explanation says signed={found.signed}, the class does not")
        if explainer.signed:
            right = float((found.values * sign > 0).float().mean())
            demand(right > 0.9, f"with weights that all have the sign of {sign}, {right:.0%} have it")


def _targeted(explainer: Explainer) -> None:
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


def _gradient(explainer: Explainer) -> None:
    """Require that a model without a gradient is refused, or else explained."""
    model, x = Smooth(), small_series(4)
    opaque = copy.deepcopy(model)
    opaque.register_forward_pre_hook(lambda _, inputs: (inputs[0].detach(),))
    opaque.requires_grad_(requires_grad=False)
    if explainer.needs_gradient:
        _refused(lambda: _explain(explainer, opaque, x), "a model that gives no gradient")
        return
    explainer = _ready(explainer, model, x)
    same_numbers(explainer(opaque, x).values, explainer(model, x).values, "for a model that hides its gradient")


def _models(explainer: Explainer) -> None:
    """Require that other models are refused in one sentence, or else explained."""
    model, x = Smooth(), small_series(4)
    explainer = _ready(explainer, model, x)
    plain = lambda z: model(z)  # noqa: E731, PLW0108  # a function
    if not explainer.needs_module:
        same_numbers(explainer(plain, x).values, explainer(model, x).values, "for the same model as a function")
    elif not explainer.needs_fit:
        _refused(lambda: explainer(plain, x), "a function")
    if explainer.needs_probabilities:
        _refused(lambda: explainer(model, x, output="raw"), "a raw output")
    else:
        demand(explainer(model, x, output="raw").values.isfinite().all(), "scores of a raw output are not finite")


def _refused(work: Callable[[], object], what: str) -> None:
    try:
        work()
    except (InputError, ModelError):
        return
    raise BrokenError(f"{what} is explained all the same")


def _mask(explainer: Explainer) -> None:
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


def _padding(explainer: Explainer) -> None:
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


EXPLAINER_RULES = rules_of(globals())
"""The rules of explainers, by name."""
