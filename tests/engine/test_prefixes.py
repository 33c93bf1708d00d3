"""Predictions at every step, with and without other values: remembered states against plain runs."""

import pytest
import torch
from torch import nn

from tempograd.core.errors import ModelError
from tempograd.core.question import Question
from tempograd.engine import Ask, Prefixes, frozen
from tempograd.models import build
from tests.helpers.models import Recurrent, linear, series

TIME, CHANNELS = 7, 3


class Lstm(nn.Module):
    """Two recurrent layers of other kinds, a learnt start and a layer before them."""

    def __init__(self, *, pooled: bool = False, two_ways: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.first = nn.Linear(CHANNELS, 4)
            self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=two_ways)
            self.rnn = nn.RNN(10 if two_ways else 5, 6, batch_first=True)
            self.start = nn.Parameter(torch.randn(1, 1, 6))
            self.head = nn.Linear(6, 2)
        self.pooled = pooled

    def forward(self, x):
        states = self.lstm(self.first(x).tanh())[0]
        states = self.rnn(states, self.start.expand(-1, len(x), -1).contiguous())[0]
        return self.head(states.mean(1) if self.pooled else states[:, -1])


MODELS = {
    "gru": (lambda: build("gru", CHANNELS, 3, hidden=6), True),
    "gru per step": (lambda: build("gru", CHANNELS, 3, per_step=True, hidden=6), True),
    "two layers and batch norm": (Recurrent, True),
    "lstm": (Lstm, True),
    "lstm, mean of the steps": (lambda: Lstm(pooled=True), False),
    "lstm, two ways": (lambda: Lstm(two_ways=True), False),
    "cnn": (lambda: build("cnn", CHANNELS, 3, hidden=8), False),
    "cnn per step": (lambda: build("cnn", CHANNELS, 3, per_step=True, hidden=8), False),
    "transformer per step": (lambda: build("transformer", CHANNELS, 3, per_step=True), False),
}


def prefixes(model, x, size=50, **options):
    ask = Ask.create(model, x, Question(), task=getattr(model, "tempograd_task", None))
    return Prefixes(ask, ask.with_target(ask.block(slice(0, len(x)))), size, **options)


def literal(model, x, t):
    """The prediction at step t: the output for it, or the answer to the prefix."""
    answer = model(x)
    answer = answer[:, t] if answer.ndim == 3 else model(x[:, : t + 1])
    return answer.softmax(-1)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_with_and_without_other_values(name):
    make, remembers = MODELS[name]
    model, x = make().double().eval(), series(4, TIME, CHANNELS, dtype=torch.float64)
    with frozen(model):
        found = prefixes(model, x)
        assert (found._stepper is not None) == remembers
        for t in range(TIME):
            torch.testing.assert_close(found.outputs[:, t], literal(model, x, t))
        windows = series(4 * TIME * 2, 3, CHANNELS, seed=3, dtype=torch.float64).view(4, TIME, 2, 3, CHANNELS)
        batches = list(found.starts(2, 3))
        assert [t for batch in batches for t in range(batch.start, batch.stop)] == list(range(TIME))
        answers = torch.cat([found.replaced(batch, windows[:, batch]) for batch in batches], 1)
        for start in range(TIME):
            for candidate in range(2):
                for step in range(3):
                    got = answers[:, start, candidate, step]
                    if start + step >= TIME:
                        assert (got == 0).all()
                        continue
                    z = x.clone()
                    z[:, start : start + step + 1] = windows[:, start, candidate, : step + 1]
                    torch.testing.assert_close(got, literal(model, z, start + step))


@pytest.mark.parametrize("name", ["gru", "gru per step", "lstm"])
def test_remembered_states_can_be_switched_off(name):
    model, x = MODELS[name][0]().double().eval(), series(3, TIME, CHANNELS, dtype=torch.float64)
    windows = series(3 * TIME * 2, 1, CHANNELS, seed=4, dtype=torch.float64).view(3, TIME, 2, 1, CHANNELS)
    with frozen(model):
        slow, fast = prefixes(model, x, fast=False), prefixes(model, x)
        assert slow._stepper is None
        torch.testing.assert_close(slow.outputs, fast.outputs)
        whole = slice(0, TIME)
        torch.testing.assert_close(slow.replaced(whole, windows), fast.replaced(whole, windows))


def test_memory_is_bounded_by_the_size():
    rows = []

    class Watched(Recurrent):
        def forward(self, x):
            rows.append(x.shape[0] * x.shape[1])
            return super().forward(x)

    model, x = Watched().eval(), series(2, TIME, CHANNELS)
    for fast in (True, False):
        found = prefixes(model, x, size=6, fast=fast)
        rows.clear()
        for batch in found.starts(3, 2):
            found.replaced(batch, torch.zeros(2, batch.stop - batch.start, 3, 2, CHANNELS))
        assert max(rows) <= 6 * TIME


@pytest.mark.parametrize("layers", [1, 2])
def test_the_layers_are_as_before_also_after_an_error(layers):
    model, x = Recurrent().eval(), series(2, TIME, CHANNELS)
    if layers == 1:
        model.gru = nn.GRU(CHANNELS, 8, batch_first=True)
    found = prefixes(model, x)
    before = dict(vars(model.gru))
    model.head = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        found.replaced(slice(0, 1), torch.zeros(2, 1, 4, 1, CHANNELS))
    assert vars(model.gru).keys() == before.keys()
    assert not model.gru._forward_hooks
    assert not model.gru._forward_pre_hooks


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_candidates_share_what_they_have_in_common(bias, batch_first):
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(CHANNELS, 4, bias=bias, batch_first=batch_first)

        def forward(self, x):
            return self.gru(x)[0][:, -1] if batch_first else self.gru(x.transpose(0, 1))[1][0]

    model, x = Plain().double(), series(3, TIME, CHANNELS, dtype=torch.float64)
    windows = series(3 * TIME * 5, 2, CHANNELS, seed=4, dtype=torch.float64).view(3, TIME, 5, 2, CHANNELS)
    with frozen(model):
        fast, slow = prefixes(model, x), prefixes(model, x, fast=False)
        assert fast._stepper is not None
        whole = slice(0, TIME)
        torch.testing.assert_close(fast.replaced(whole, windows), slow.replaced(whole, windows))


def test_a_model_that_rejects_prefixes_gets_one_sentence():
    with pytest.raises(ModelError, match=r"needs predictions on prefixes.*rejects the first 1 of 7 steps"):
        prefixes(linear(TIME, CHANNELS), series(2, TIME, CHANNELS))


def test_a_model_that_looks_ahead_gets_one_sentence():
    class Ahead(nn.Module):
        tempograd_task = "per_step"

        def forward(self, x):
            return x.flip(1).cumsum(1).flip(1)

    x = series(2, TIME, CHANNELS)
    with pytest.raises(ModelError, match="fit needs predictions from the past alone"):
        prefixes(Ahead(), x).require_past("fit")
    prefixes(MODELS["cnn per step"][0]().eval(), x).require_past("fit")
