"""A model that fails in the middle of its work, and what must hold of it afterwards."""

import copy

import torch
from conftest import Recurrent


class Fragile(Recurrent):
    """Fails at its sixth call, if it is to fail."""

    def __init__(self, fails):
        super().__init__()
        self.fails, self.calls = fails, 0

    def forward(self, x):
        self.calls += 1
        if self.fails and self.calls > 5:
            raise ArithmeticError
        return super().forward(x)


def check_left_as_found(learn, fails):
    """Let something learn from a model, to its end or not, and compare all that it may have touched."""
    model, failed = Fragile(fails).train(), False
    model.head.bias.requires_grad_(False)
    state, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    try:
        learn(model)
    except ArithmeticError:
        failed = True
    assert failed == fails
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(part.training and not part._forward_hooks for part in model.modules())
    assert model.gru.dropout == 0.4
    assert [p.requires_grad for p in model.head.parameters()] == [True, False]
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(rng, torch.get_rng_state())
