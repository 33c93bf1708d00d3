"""Rules that hold everywhere, for every method and whatever the shapes: company, surroundings, missing data."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tempograd as tg
from tempograd.explainers import EXPLAINERS
from tempograd.explainers.timex import MaskNetwork
from tests.helpers.methods import Filled, explained, filled, fitted, quick, usable
from tests.helpers.models import Recurrent, smooth
from tests.helpers.strategies import SEEDS, batches, examples

# enough to be wrong in; what they find is tested elsewhere
CHEAP = {
    "contralsp": {"epochs": 3},
    "dynamask": {"epochs": 4},
    "extremal_mask": {"epochs": 3},
    "fit": {"epochs": 1},
}
METHODS = pytest.mark.parametrize("name", sorted(EXPLAINERS))
CHUNKS = st.one_of(st.none(), st.integers(1, 40))


def cheap(name):
    return quick(name, **CHEAP.get(name, {}))


def ready(name, model, x):
    """Return the method, fitted where it has to be, and the model in a form that it can use."""
    explainer = cheap(name)
    model = usable(model, explainer, x.shape[1])
    return fitted(explainer, model, x), model


def alike(found, expected, rows):
    """The same scores and errors up to rounding, from exactly as many draws."""
    torch.testing.assert_close(found.values, expected.values[rows], rtol=2e-4, atol=2e-6)
    for part, tolerance in (("standard_error", 1e-3), ("n_draws", 0), ("n_evals", 0)):
        one, other = getattr(found, part), getattr(expected, part)
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other[rows], rtol=tolerance, atol=tolerance and 1e-6)


@METHODS
@examples(0.2)
@given(st.data(), batches(most=4, time=5), st.integers(1, 3), SEEDS)
def test_scores_of_a_series_do_not_depend_on_its_company(name, data, batch, classes, seed):
    """Neither on the order of the series, nor on which others there are, nor on how many run at once."""
    count, time, channels = batch.x.shape
    explainer, model = ready(name, smooth(time, channels, classes), batch.x)
    rows = data.draw(st.permutations(range(count)))
    if not explainer.shared:
        rows = rows[: data.draw(st.integers(1, count))]
    some, turned = batch.take(rows), data.draw(st.booleans())
    together = explained(explainer, model, batch.series, seed=seed)
    x, mask = some.x, some.mask
    if turned:
        x, mask = x.transpose(1, 2), None if mask is None else mask.transpose(1, 2)
    again = tg.Series(x, mask=mask, ids=some.ids, layout="BDT" if turned else "BTD")
    alike(explained(explainer, model, again, batch_size=data.draw(CHUNKS), seed=seed), together, rows)


class Fragile(Recurrent):
    """Fails when it is called once too often."""

    calls, most = 0, float("inf")

    def forward(self, x):
        self.calls += 1
        if self.calls > self.most:
            raise ArithmeticError
        return super().forward(x)


def memory(model, x):
    """Return all that a call must leave alone, as plain values that can be compared."""
    parts = [
        (type(part), part.training, len(part._forward_hooks), len(part._backward_hooks))
        for part in model.modules()
    ]
    weights = [(p.requires_grad, p.grad is None, p.detach().clone()) for p in model.parameters()]
    flags = (torch.is_grad_enabled(), torch.backends.cudnn.enabled, torch.get_default_dtype())
    return (
        parts,
        model.gru.dropout,
        weights,
        copy.deepcopy(list(model.buffers())),
        torch.get_rng_state(),
        np.random.mtrand._rand.get_state()[1].copy(),
        flags,
        x.detach().clone(),
        (x.requires_grad, x._version, x.grad is None),
    )


def same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool((one == other).all()) if isinstance(one, (torch.Tensor, np.ndarray)) else one == other


@METHODS
@examples(0.15)
@given(st.data(), batches(), st.one_of(st.none(), st.integers(0, 9)), st.booleans())
def test_model_and_series_are_left_as_they_were_found(name, data, batch, most, strided):
    """In training mode, with frozen weights, with series that want a gradient; also if the model fails midway."""
    channels = batch.x.shape[2]
    model = Fragile(channels).to(batch.x.dtype).train()
    frozen = data.draw(st.lists(st.booleans(), min_size=10, max_size=10))
    for weight, keep in zip(model.parameters(), frozen * 2, strict=False):
        weight.requires_grad_(not keep)
    x = batch.x.repeat_interleave(2, 1)[:, ::2] if strided else batch.x.clone()
    x.requires_grad_(data.draw(st.booleans()))
    explainer, usable_model = ready(name, model, batch.x)
    model.calls, model.most = 0, float("inf") if most is None else most
    before = memory(model, x)
    try:
        explained(
            explainer, usable_model, tg.Series(x, mask=batch.mask, ids=batch.ids), batch_size=data.draw(CHUNKS)
        )
    except ArithmeticError:
        assert most is not None
    assert same(memory(model, x), before)


class Watched(Filled):
    """Remembers what it was shown."""

    def __init__(self, model, time):
        super().__init__(model, time)
        self.seen = []

    def forward(self, z):
        self.seen.append(z.detach())
        return super().forward(z)


@METHODS
@examples(0.15)
@given(batches(masked=True), st.sampled_from([0.0, 7.0, "average"]), SEEDS)
def test_unobserved_cells_score_zero_and_are_never_replaced(name, batch, baseline, seed):
    time, channels = batch.x.shape[1:]
    model = Watched(smooth(time, channels), time)
    explainer = fitted(cheap(name), model, batch.x)
    model.seen.clear()  # a fit sees other series
    found = explained(explainer, model, batch.series, baseline=baseline, seed=seed)
    for part in (found.values, found.standard_error, found.n_draws, found.ess):
        assert part is None or (part[~batch.mask] == 0).all()
    for shown in model.seen:  # every sequence agrees with one of the series wherever that was not observed
        steps = shown.shape[1]
        kept = (shown[:, None] == batch.x[:, :steps]) | batch.mask[:, :steps]
        assert kept.flatten(2).all(2).any(1).all()


class Beginning(nn.Module):
    """Looks at the first steps only, so that padding means nothing to it; at a step, at those up to it."""

    def __init__(self, time, channels, *, per_step):
        super().__init__()
        self.inner, self.time, self.per_step = smooth(time, channels), time, per_step

    def forward(self, x):
        if not self.per_step:
            return self.inner(filled(x, self.time)[:, : self.time])
        prefixes = [filled(x[:, : t + 1], self.time)[:, : self.time] for t in range(x.shape[1])]
        return self.inner(torch.stack(prefixes, 1).flatten(0, 1)).view(
            *x.shape[:2], -1
        )  # DeepLIFT's layers run once


@METHODS
@examples(0.15)
@given(batches(masked=True), st.integers(1, 5), SEEDS, st.booleans())
def test_appended_padding_changes_nothing(name, batch, more, seed, per_step):
    count, time, channels = batch.x.shape
    batch.mask[:, -1, 0] = True  # else the last steps would be padding, too
    model, explainer = Beginning(time, channels, per_step=per_step), cheap(name)
    junk = torch.randn(count, more, channels, generator=torch.Generator().manual_seed(1)).to(batch.x)
    padded = torch.cat([batch.x, junk], 1)
    mask = torch.cat([batch.mask, torch.zeros(count, more, channels, dtype=torch.bool)], 1)
    other, other_mask, task = batch.x, batch.mask, "per_step" if per_step else "classification"
    if isinstance(explainer, MaskNetwork):  # bound to one length: padding cannot go away, what it holds can change
        other, other_mask = torch.cat([batch.x, torch.zeros_like(junk)], 1), mask
    long, short = (
        explained(
            fitted(explainer, model, z),
            tg.Predictor(model, task=task),
            tg.Series(z, mask=seen, ids=batch.ids),
            seed=seed,
        ).values
        for z, seen in ((padded, mask), (other, other_mask))
    )
    short = short[:, :time]
    assert (long[:, time:] == 0).all()
    torch.testing.assert_close(long[:, :time], short, rtol=2e-4, atol=2e-6)
