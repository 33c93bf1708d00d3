"""What a captured pass depends on; that running the graph is right needs a GPU (tests/gpu)."""

import pytest
import torch
from torch import nn

from tempograd.core.question import Question
from tempograd.engine import Ask
from tempograd.engine.cuda import HostWriter, NotCapturableError, Prefetcher, plain_state
from tempograd.engine.gradients import _gradient_pass, compute_gradients
from tempograd.engine.outputs import findings
from tempograd.models import build
from tests.helpers.models import Recurrent, series, smooth


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.scale, self.sizes, self.act = Recurrent(), 1.0, {"a": [1, 2]}, torch.relu
        self.code, self.last = torch.zeros(3), nn.Tanh()  # the first not a buffer

    def forward(self, x):
        return self.last(self.act(self.net(x)) * self.scale)


CHANGES = {
    "attribute": lambda net: setattr(net, "scale", 2.0),
    "inside a dictionary": lambda net: net.sizes["a"].append(3),
    "function": lambda net: setattr(net, "act", torch.tanh),
    "mode": lambda net: net.net.norm.train(),
    "layer": lambda net: setattr(net.net, "head", nn.Linear(8, 3)),
    "other kind of layer": lambda net: setattr(net.net, "norm", nn.Identity()),
    "activation": lambda net: setattr(net, "last", nn.Sigmoid().eval()),
    "weight": lambda net: setattr(net.net.head, "weight", nn.Parameter(net.net.head.weight.detach().clone())),
    "buffer": lambda net: setattr(net.net.norm, "running_mean", torch.ones(8)),
    "plain tensor": lambda net: setattr(net, "code", torch.zeros(3)),
}
SECRETS = {
    "hook": lambda net: net.net.head.register_forward_hook(lambda *_: None),
    "hook before": lambda net: net.net.register_forward_pre_hook(lambda *_: None),
    "backward hook": lambda net: net.net.register_full_backward_hook(lambda *_: None),
    "other forward": lambda net: setattr(net.net, "forward", lambda x: x),
    "closure": lambda net: setattr(net, "act", lambda x: x * net.scale),
    "object": lambda net: setattr(net, "sizes", object()),
    "layers in a list": lambda net: setattr(net, "sizes", [nn.Linear(2, 2)]),
    "generator": lambda net: setattr(net, "sizes", torch.Generator()),
}


@pytest.mark.parametrize("delta", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(delta):
    net = Net().eval()
    before = plain_state(net)
    assert hash(before) == hash(plain_state(net))
    kept = [*net.parameters(), *net.buffers(), net.code]  # so that no address is used again
    delta(net)
    assert plain_state(net) != before
    assert kept


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_what_cannot_be_compared_is_not_captured(secret):
    net = Net().eval()
    secret(net)
    with pytest.raises(NotCapturableError):
        plain_state(net)


@pytest.mark.parametrize("name", ["gru", "cnn", "transformer"])
def test_new_numbers_at_old_addresses_are_the_same_model(name):
    """A playback reads them; the models of the library can all be recorded."""
    model = build(name, 3, 2)
    before = plain_state(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    assert plain_state(model) == before


TARGETS = (None, 0, 1, [1, 0, 1])


@pytest.mark.parametrize(
    ("columns", "output", "target"),
    [
        *((1, "raw", target) for target in TARGETS[:2]),  # which has no second class
        *((1, "probability", target) for target in TARGETS),
        *((2, output, target) for target in TARGETS for output in ("probability", "raw")),
    ],
)
def test_the_pass_that_is_captured_picks_the_class_of_the_plain_one(columns, output, target):
    """Where there is no GPU nothing is recorded, but the pass itself runs anywhere."""
    model, x = smooth(4, 2, columns), series(3, 4, 2, dtype=torch.float64)
    z = torch.stack([0.3 * x, 0.9 * x], 1)
    target = torch.tensor(target) if isinstance(target, list) else target
    ask = Ask.create(model, x, Question(target=target, output=output))
    (expected,) = compute_gradients([ask], z.clone(), [ask.block(slice(0, 3))])
    asked = () if target is None else (torch.as_tensor(target).expand(3),)
    beside = torch.stack([0.1 * x, 0.2 * x, 0.4 * x], 1)
    rows = torch.cat([x, beside.flatten(0, 1)])
    first, told, chosen, score, gradient = _gradient_pass(model, output, 2, clean=True)(
        z.flatten(0, 1), rows, *asked
    )
    torch.testing.assert_close(first, model(rows).detach())
    torch.testing.assert_close(told, findings(model(x).detach()))
    assert torch.equal(chosen, expected.block.target)
    torch.testing.assert_close(score[:3], expected.block.clean_score)
    torch.testing.assert_close(score[3:12].view(3, 3), ask.scores(beside, expected.block))
    torch.testing.assert_close(score[12:].view(3, 2), expected.score)
    torch.testing.assert_close(gradient.view_as(z), expected.gradient)


def test_the_pass_that_is_captured_cuts_targets_at_the_last_class():
    """The caller refuses what is out of range, but only once the answer is there."""
    model, x = smooth(4, 2, 1), series(3, 4, 2, dtype=torch.float64)
    work = _gradient_pass(model, "probability", 1, clean=True)
    cut, last = (work(x, x, torch.full((3,), target)) for target in (7, 1))
    assert torch.equal(cut[3], last[3])


def test_what_was_prepared_is_used_once_and_only_for_its_own_key():
    ahead, made = Prefetcher(torch.device("cpu")), []

    def make(name):
        made.append(name)
        return name

    ahead.prepare((0, 5), lambda: make("early"))
    assert ahead.take((0, 5), lambda: make("late")) == "early"
    assert ahead.take((0, 5), lambda: make("late")) == "late"
    ahead.prepare((5, 9), lambda: make("for others"))
    assert ahead.take((5, 7), lambda: make("mine")) == "mine"  # the block became smaller: memory ran out
    assert ahead.take((5, 9), lambda: make("again")) == "again"
    assert made == ["early", "late", "for others", "mine", "again"]


def test_results_are_written_as_the_kind_they_are_kept_in():
    whole, writer = torch.full((4, 2), -1, dtype=torch.int32), HostWriter()
    writer.write(whole, slice(1, 3), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    writer.flush()
    assert whole.tolist() == [[-1, -1], [3, 4], [5, 6], [-1, -1]]
