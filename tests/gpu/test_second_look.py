"""Second looks on a GPU: no false alarm where rounding differs from batch to batch, and draws of its generator."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.model import computing
from tempograd.models import build
from tests.engine.test_second_look import KINDS, differs
from tests.helpers.models import AlongTheBatch, Recurrent, linear, series

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
X = series(40, 24, 3)


@pytest.mark.parametrize("kind", ["gru", "cnn", "transformer"])
@pytest.mark.parametrize("precision", ["full", "tf32", "bf16"])
def test_honest_models_raise_no_alarm(kind, precision):
    model = build(kind, channels=3, classes=4, per_step=False).cuda()
    for x in (X, X[:1], X.cuda()):
        for _ in range(3):  # the third is played back
            found = tg.explain(model, x, precision=precision)  # any warning is an error here
        assert not found.varies
    tg.evaluate(model, found)
    tg.explain(Recurrent(3, 4).cuda(), X, "occlusion", precision=precision)


@pytest.mark.parametrize("larger", [1, 2])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sound_models_raise_no_alarm_at_any_size_of_a_batch(kind, per_step, larger):
    sizes = (1, 2, 3, 7, 8, 9, 64, 500, 1024, 4096)
    for precision in ("full", "tf32", "bf16"):
        with computing(precision, torch.device("cuda")):
            said = differs(kind, "cuda", per_step=per_step, larger=larger, sizes=sizes)
        assert said == [""] * len(sizes)


def test_a_positional_encoding_along_the_batch_is_noticed():
    for count in (1, 2, 40):
        with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
            found = tg.explain(AlongTheBatch(24, 3).cuda(), X[:count], "occlusion", target=1)
        one = tg.explain(AlongTheBatch(24, 3), X[:count], "occlusion", target=1, batch_size=1)
        torch.testing.assert_close(found.values, one.values, rtol=1e-2, atol=1e-4)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = linear(24, 3, 1)

    def forward(self, x):
        return self.net(x) + 2 * torch.randn(len(x), 1, device=x.device)


def test_draws_of_the_device_are_noticed_and_averaged():
    model = Noisy().cuda()
    before = torch.cuda.get_rng_state()
    with pytest.warns(tg.TempogradWarning, match="Pass draws=32"):
        tg.explain(model, X, "occlusion", output="raw")
    found = tg.explain(model, X, "occlusion", output="raw", draws=8)
    assert torch.equal(before, torch.cuda.get_rng_state())
    exact = model.net[1].weight.view(24, 3).cpu() * X
    assert torch.corrcoef(torch.stack([found.values.flatten(), exact.flatten().detach()]))[0, 1] > 0.99
