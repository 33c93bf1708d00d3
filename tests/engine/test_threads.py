"""Several threads that explain one model: right scores, and the model and torch's settings as they were."""

import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine import frozen
from tempograd.engine.model import computing, rounding
from tempograd.engine.predictor import forward
from tests.helpers.models import Recurrent, series


@pytest.fixture
def hasty():
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*works):
    results, errors = [None] * len(works), []
    gate = threading.Barrier(len(works))

    def run(place):
        gate.wait()
        try:
            results[place] = works[place]()
        except Exception as error:  # shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return results


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("mode", [True, False])
def test_two_threads_explain_one_model(mode):
    model, x = Recurrent().train(mode), series(8, 6, 3)
    many, few = tg.explain(model, x).values, tg.explain(model, x[:3], n_samples=120).values
    for _ in range(4):
        generator = torch.get_rng_state()
        found = together(
            lambda: tg.explain(model, x).values,
            lambda: tg.explain(lambda z: model(z) + 0, x[:3], n_samples=120).values,
            lambda: tg.explain(model, x, "occlusion").values,
        )
        torch.testing.assert_close(found[0], many)
        torch.testing.assert_close(found[1], few)
        assert all(part.training == mode for part in model.modules())
        assert all(weight.requires_grad for weight in model.parameters())
        assert model.gru.dropout == 0.4
        assert torch.equal(generator, torch.get_rng_state())


def settings():
    products = getattr(torch.backends.mkldnn, "matmul", None)  # torch has these since 2.9
    return rounding(), getattr(products, "fp32_precision", None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_calls_that_overlap_leave_what_they_share_as_it_was(order):
    """Two threads, each with another model, in the order that leaves the wrong state if each puts back."""
    before, flag, generator = settings(), torch.backends.cudnn.enabled, torch.get_rng_state()
    models = [Recurrent() for _ in range(2)]
    device = torch.device("cpu")
    calls = [(frozen(models[0]), computing("tf32", device)), (frozen(models[1]), computing("exact", device))]
    threads = [ThreadPoolExecutor(1) for _ in calls]
    for thread, call in zip(threads, calls, strict=True):
        for context in call:
            thread.submit(context.__enter__).result()
        torch.rand(1)
        torch.backends.cudnn.enabled = False  # as for an exported program with recurrent layers
    for place in order:
        assert not torch.backends.cudnn.enabled
        for context in reversed(calls[place]):
            threads[place].submit(context.__exit__, None, None, None).result()
        assert all(weight.requires_grad for weight in models[place].parameters())
    assert settings() == before
    assert torch.backends.cudnn.enabled == flag
    assert torch.equal(generator, torch.get_rng_state())


def test_a_hidden_module_that_another_thread_explains_is_left_to_it():
    """It is frozen already, and the other thread puts it back."""
    net, x = Recurrent().train(), series(2, 6, 3)
    hidden = {"net": weakref.ref(net)}  # where nobody looks

    def model(z):
        return hidden["net"]()(z)

    other, thread = frozen(model), ThreadPoolExecutor(1)
    with frozen(net):
        thread.submit(other.__enter__).result()
        during = thread.submit(forward, model, x).result()
    thread.submit(other.__exit__, None, None, None).result()
    assert all(part.training for part in net.modules())
    assert all(weight.requires_grad for weight in net.parameters())
    torch.testing.assert_close(during, net.eval()(x))


@pytest.mark.usefixtures("hasty")
def test_deep_lift_disturbs_no_other_thread():
    """captum's hooks sit on the layers of the model, whoever runs it."""
    layers = [nn.Flatten(), nn.Linear(18, 16), nn.Tanh(), nn.Linear(16, 8), nn.ReLU()]
    model, other = (nn.Sequential(*layers, nn.Linear(8, 2)).eval() for _ in range(2))  # which share most of them
    x = series(8, 6, 3)
    asked = [(model, "deep_lift"), (model, "integrated_gradients"), (other, "deep_lift"), (other, "occlusion")]

    def explained(net, method):
        return [tg.explain(net, x + shift, method, target=1).values for shift in range(6)]

    expected = [explained(*each) for each in asked]
    found = together(*(partial(explained, *each) for each in asked))
    for values, right in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.stack(values), torch.stack(right))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_model_may_explain_another_while_it_runs():
    """Its thread has its turn already."""
    inner, x = Recurrent(), series(2, 6, 3)

    def outer(z):
        shares = tg.explain(inner, z.detach(), "occlusion", target=0).values
        return (z * shares).sum((1, 2))[:, None]

    found = tg.explain(tg.Predictor(outer, task="regression"), x, "occlusion")
    assert torch.isfinite(found.values).all()
    assert found.values.any()
