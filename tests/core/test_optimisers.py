"""Optimisers that take torch's own steps and do not load its compiler."""

import subprocess
import sys

import pytest
import torch

from tempograd.core.optimisers import Adam, AdamW

LEARN = """
import sys, torch
import tempograd as tg
x = torch.randn(12, 6, 2, generator=torch.Generator().manual_seed(0))
split = tg.data.Series(x, (x.mean((1, 2)) > 0).long())
data = tg.data.Dataset("toy", split, None, split, classes=2, channels=("a", "b"))
torch.ones(2, requires_grad=True).sum().backward()
before = "torch._dynamo" in sys.modules
model = tg.train("gru", data, options={"hidden": 4}, epochs=2)
tg.explain(model, x, "dynamask", epochs=2)
for method in ("fit", "timex"):
    tg.explain(model, x, method, background=x, epochs=1)
print(before, "torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"foreach": False}, {"fused": True}])
def test_steps_are_torchs_to_the_last_bit(ours, theirs, options):
    moved = []
    for kind in (ours, theirs):
        weight = torch.linspace(-1, 1, 7).requires_grad_()
        optimiser = kind([weight], lr=0.1, **options)
        for _ in range(5):
            (weight.sin().square().sum() + weight[0]).backward()
            optimiser.step()
            optimiser.zero_grad()
            assert weight.grad is None
        moved.append(weight.detach())
    assert torch.equal(*moved)
    assert not torch.equal(moved[0], torch.linspace(-1, 1, 7))


@pytest.mark.slow  # a process
def test_learning_does_not_load_torchs_compiler():
    command = [sys.executable, "-W", "ignore", "-c", LEARN]
    before, after = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert after == before  # a torch that loads it anyway has nothing to save
