"""Recorded passes: as fast as they may be, they must never tell anything but what the model says now."""

import gc

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.engine import cuda
from tempograd.explainers import IntegratedGradients, Timing
from tempograd.models import build
from tests.helpers.models import Recurrent, linear, series

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
METHOD = Timing(20)


@pytest.fixture(autouse=True)
def _nothing_recorded():
    cuda._known.clear()


def recordings(model: nn.Module) -> int:
    """Passes that are recorded, without the sums over their points and what they tell of the gradient."""
    known = cuda._known.get(model, {})
    passes = [found for key, found in known.items() if key[-1] is not None]  # which depend on the model
    return sum(isinstance(found, cuda._CapturedGraph) for found in passes)


def expected(model, x, **call):
    """What a model of which nothing is known says."""
    cuda._known.clear()
    values = METHOD(model, x, **call).values
    cuda._known.clear()
    return values


class Odd(nn.Module):
    """A recurrent model with one more thing to it."""

    def __init__(self, extra) -> None:
        super().__init__()
        self.net, self.extra, self.scale = Recurrent(), extra, 1.0
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        return self.extra(self, self.net(x)) * self.scale


def plain(_, answer):
    return answer


@pytest.mark.parametrize("method", [Timing(20), IntegratedGradients(20), Timing(20, anchored=0.8)])
@pytest.mark.parametrize("target", [None, 1, [2, 0, 1, 1]])
def test_playback_agrees_with_the_pass(method, target):
    model, x, other = Recurrent().cuda(), series(4, 12, 3).cuda(), series(4, 12, 3, seed=1).cuda()
    target = torch.tensor(target) if isinstance(target, list) else target
    first, second = (method(model, z, target=target) for z in (x, other))
    assert recordings(model) == 1
    for z, before in ((x, first), (other, second), (x, first)):
        after = method(model, z, target=target)
        torch.testing.assert_close(after.values, before.values, rtol=1e-4, atol=1e-6)
        if before.standard_error is not None:
            torch.testing.assert_close(after.standard_error, before.standard_error, rtol=1e-3, atol=1e-6)
        assert torch.equal(after.target, before.target)
    assert recordings(model) == 1


@pytest.mark.parametrize("target", [None, 0, 1, [1, 0, 0, 1]])
def test_a_single_logit_is_played_back_for_either_class(target):
    model, x = Recurrent(classes=1).double().eval(), series(4, 12, 3, dtype=torch.float64)
    target = torch.tensor(target) if isinstance(target, list) else target
    slow = METHOD(model, x, target=target)
    model, x = model.cuda(), x.cuda()
    for _ in range(3):
        found = METHOD(model, x, target=target)
        torch.testing.assert_close(found.values.cpu(), slow.values, rtol=1e-4, atol=1e-7)
        assert torch.equal(found.target.cpu(), slow.target)
    assert recordings(model) == 1
    with pytest.raises(InputError, match="out of range: the outputs to choose from are 0 to 1"):
        METHOD(model, x, target=2)


def test_a_target_out_of_range_is_refused_with_a_graph_too():
    model, x = Recurrent().cuda(), series(4, 12, 3).cuda()
    for _ in range(3):
        METHOD(model, x, target=2)
    with pytest.raises(InputError, match="out of range"):
        METHOD(model, x, target=3)
    with pytest.raises(InputError, match="out of range"):
        METHOD(model, x, target=-1)


def test_what_changed_since_is_seen():
    model, x = Odd(plain).cuda(), series(4, 12, 3).cuda()
    for _ in range(3):
        METHOD(model, x)
    assert recordings(model) == 1
    with torch.no_grad():
        model.net.head.weight.mul_(1.5)  # as an optimiser does
        model.net.gru.weight_ih_l0.data.mul_(1.2)
    found = METHOD(model, x).values
    torch.testing.assert_close(found, expected(model, x), rtol=1e-4, atol=1e-6)
    for _ in range(3):
        METHOD(model, x)
    model.net.head.weight = nn.Parameter(model.net.head.weight.detach() * 2)
    model.scale = 0.5
    found = METHOD(model, x).values
    torch.testing.assert_close(found, expected(model, x), rtol=1e-4, atol=1e-6)


def test_hooks_are_called_every_time():
    model, x, calls = Recurrent().cuda(), series(4, 12, 3).cuda(), []
    for _ in range(3):
        METHOD(model, x)
    handle = model.head.register_forward_hook(lambda *_: calls.append(1))
    METHOD(model, x)
    once = len(calls)
    for _ in range(2):
        METHOD(model, x)
    handle.remove()
    assert once > 0
    assert len(calls) == 3 * once


def waits(_, answer):
    return answer * 2 if float(answer.detach().sum()) > 1e9 else answer


def waits_unseen(_, answer):
    torch.cuda.synchronize()
    return answer


def draws(_, answer):
    return answer + 1e-3 * torch.rand_like(answer)


def counts(self, answer):
    self.calls += 1
    return answer


def copies(_, answer):
    return answer * torch.tensor([1.0, 2.0, 3.0]).to(answer)


def copies_without_waiting(_, answer):
    return answer * torch.tensor([1.0, 2.0, 3.0]).to(answer, non_blocking=True)


def scales(_, answer):
    return answer * torch.tensor(2.0)


UNFIT = [waits, waits_unseen, draws, counts, copies, copies_without_waiting, scales]


@pytest.mark.filterwarnings("ignore:The model is stochastic")  # one of them draws
@pytest.mark.parametrize("extra", UNFIT)
def test_models_that_cannot_be_captured_run_as_usual(extra):
    model, x, state = Odd(extra).cuda(), series(4, 12, 3).cuda(), torch.cuda.get_rng_state()
    first = METHOD(model, x).values
    for _ in range(3):
        torch.testing.assert_close(
            METHOD(model, x).values, first, rtol=1e-4, atol=1e-6 if extra != draws else 1e-2
        )
    assert recordings(model) == 0
    assert model.calls == 0
    assert torch.equal(state, torch.cuda.get_rng_state())
    torch.rand(3, device="cuda")  # the generator still works
    other = Recurrent().cuda()
    for _ in range(3):
        METHOD(other, x)
    assert recordings(other) == 1  # and so do recordings


def test_memory_goes_with_the_model():
    x = series(4, 12, 3).cuda()
    for _ in range(3):
        METHOD(keeper := Recurrent().cuda(), x)
    for _ in range(3):
        METHOD(keeper, x)
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    model = linear(12, 3).cuda()
    for _ in range(3):
        METHOD(model, x, output="raw")
    assert recordings(model) == 1
    del model
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() <= before[0]
    assert torch.cuda.memory_reserved() <= before[1]


def test_series_on_the_host_give_the_same_in_any_number_of_blocks():
    model, x = Recurrent().cuda(), series(60, 12, 3)
    whole = METHOD(model, x.cuda())
    for batch_size in (100, 400):
        apart = METHOD(model, x, batch_size=batch_size)
        assert apart.values.device.type == "cpu"
        torch.testing.assert_close(apart.values, whole.values.cpu(), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(apart.standard_error, whole.standard_error.cpu(), rtol=1e-2, atol=1e-5)
        assert torch.equal(apart.n_draws, whole.n_draws.cpu())
        assert torch.equal(apart.target, whole.target.cpu())


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_is_close_and_leaves_the_settings(precision):
    model, x = Recurrent().cuda(), series(20, 12, 3).cuda()
    before = cuda.rounding()
    full = METHOD(model, x).values
    found = METHOD(model, x, precision=precision).values
    assert (found - full).norm() / full.norm() < 0.05
    assert cuda.rounding() == before


class Detached(nn.Module):
    """A recurrent model of normalised series, whose statistics may be detached."""

    def __init__(self, *, detach):
        super().__init__()
        self.inner, self.detach = Recurrent(), detach

    def forward(self, x):
        mean, size = x.mean(1, keepdim=True), x.std(1, keepdim=True)
        if self.detach:
            mean, size = mean.detach(), size.detach()
        return self.inner((x - mean) / size) * size[:, 0] + mean[:, 0]


@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("detach", [True, False])
def test_a_captured_pass_tells_the_same_of_the_gradient(detach, batch):
    x = 2 * series(batch, 30, 3, dtype=torch.float64) + 1
    model = Detached(detach=detach).double().eval()  # in single precision TF32 moves the gap by a fifth
    here = Timing(50)(model, x, output="raw").gradient_check
    model.cuda()
    first, second, third = (Timing(50)(model, x, output="raw").gradient_check for _ in range(3))
    assert recordings(model) == 1
    assert any(key[0][0] == "_along" and found for key, found in cuda._known[model].items())
    for check in (first, second, third):
        assert bool(check.failed.all()) == detach
        assert bool(check.failed.any()) == detach
        torch.testing.assert_close(check.gap, here.gap, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(check.seen, here.seen, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(second.gap, third.gap)


@pytest.mark.parametrize("name", ["gru", "cnn", "transformer"])
def test_the_models_of_the_library_are_recorded(name):
    """Fused attention keeps the seed of its dropout on the host, which has no meaning where nothing is dropped."""
    model, x = build(name, 3, 2).cuda(), series(2, 12, 3).cuda()
    truth = expected(model, x)
    for _ in range(3):
        values = METHOD(model, x).values
    assert recordings(model) == 1
    torch.testing.assert_close(values, truth, rtol=1e-3, atol=1e-5)


def test_one_number_per_step_is_no_row_of_classes():
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x):
            return self.layer(x)[..., 0]

    model, x = Steps().cuda(), series(2, 12, 3).cuda()
    truth = expected(tg.Predictor(model, task="per_step"), x)
    for _ in range(3):
        torch.testing.assert_close(METHOD(tg.Predictor(model, task="per_step"), x).values, truth)
