"""A model that goes on from its state gives what it gives for whole series, and only where that is sure."""

import pytest
import torch
from torch import nn

import tempograd as tg
import tempograd.engine.outputs as module
from tempograd.engine.outputs import resumed, resumes, spans
from tempograd.engine.predictor import forward
from tempograd.explainers import AugmentedOcclusion, Occlusion
from tempograd.metrics import METRICS, evaluate, removal_curve
from tempograd.models import MODELS, build
from tempograd.models.networks import GRUClassifier
from tests.helpers.models import series

TIME = 60  # two spans and a part of one


@pytest.fixture(params=[True, False], ids=["per step", "per series"])
def model(request):
    return build("gru", 3, 2, per_step=request.param, hidden=12).eval()


@pytest.fixture
def rows(monkeypatch):
    """How many rows went through each span."""
    found, resume = [], GRUClassifier.resume

    def counted(self, x, state):
        found.append(len(x))
        return resume(self, x, state)

    monkeypatch.setattr(GRUClassifier, "resume", counted)
    return found


def close(first, second):
    torch.testing.assert_close(first, second, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_that_resumes_keeps_its_promise(name):
    for per_step in (True, False):
        model = build(name, 3, 2, per_step=per_step, hidden=8) if name == "gru" else build(name, 3, 2, per_step)
        assert resumes(model.eval()) == (name == "gru")
        if not resumes(model):
            continue
        x = series(5, TIME, 3)
        with torch.no_grad():
            first, state = model.resume(x[:, :20], None)
            second, _ = model.resume(x[:, 20:], state)
            close(torch.cat([first, second], 1) if per_step else second, model(x))


def test_series_that_begin_alike_share_their_beginnings(model, rows):
    """Three copies of each series that differ from the second span on, from the third, and nowhere."""
    x = series(20, TIME, 3).repeat_interleave(3, 0)
    x[0::3, 30] += 1
    x[1::3, 55] -= 1
    own, owner = torch.arange(60), torch.arange(60) // 3 + 100
    alike = torch.stack([owner, torch.where(own % 3 == 0, own, owner), torch.where(own % 3 == 2, owner, own)], 1)
    with torch.no_grad():
        close(forward(resumed(model, x, alike), x), model(x))
        assert rows == [32, 48, 64]  # 20, 40 and 60, each filled up to a multiple of 16
        close(forward(resumed(model, x), x), model(x))


def test_wrong_groups_are_seen():
    """What the test above compares is not always the same."""
    model, x = build("gru", 3, 2, per_step=True, hidden=12).eval(), series(4, TIME, 3)
    with torch.no_grad():
        wrong = forward(resumed(model, x, torch.zeros(4, len(spans(TIME)), dtype=torch.long)), x)
        assert (wrong - model(x)).abs().max() > 1e-3


class Louder(GRUClassifier):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked(model):
    model.readout[1].register_forward_hook(lambda *_: None)
    return model


def exchanged(model):
    model.recurrence = nn.GRU(3, 4, batch_first=True, bidirectional=True)
    return model


def patched(model):
    model.forward = lambda x: x[..., :2]
    return model


@pytest.mark.parametrize(
    "changed",
    [
        lambda: Louder(3, 2, hidden=8).eval(),
        lambda: hooked(build("gru", 3, 2, hidden=8).eval()),
        lambda: exchanged(build("gru", 3, 2, hidden=8).eval()),
        lambda: patched(build("gru", 3, 2, hidden=8).eval()),
        lambda: build("gru", 3, 2, hidden=8).train(),
        lambda: build("gru", 3, 2, hidden=8).eval().forward,
        lambda: nn.Sequential(build("gru", 3, 2, hidden=8)).eval(),
    ],
    ids=["derived class", "hook", "other layer", "other forward", "training", "bound method", "inside another"],
)
def test_whoever_changes_the_model_is_answered_by_the_whole_model(changed, rows):
    model = changed()
    assert not resumes(model)
    with torch.no_grad():
        x = series(2, TIME, 3)
        answer, expected = forward(resumed(model, x), x), None
        if not getattr(model, "training", False):
            expected = model(series(2, TIME, 3))
    assert rows == []
    if expected is not None:
        assert torch.equal(answer, expected)


def test_gradients_go_through_the_whole_model(model, rows):
    x = series(2, TIME, 3).requires_grad_()
    torch.autograd.grad(forward(resumed(model, x), x).sum(), x)
    assert rows == []


def observed(x):
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.8


@pytest.mark.parametrize(("masked", "batch_size"), [(False, None), (True, 20)])
def test_occlusion_is_that_of_the_plain_loop(model, rows, masked, batch_size):
    x = series(3, TIME, 3)
    mask = observed(x) if masked else torch.ones_like(x, dtype=torch.bool)
    mask[:, -1, 0] = True  # what comes behind the last observed step would not be explained
    found = Occlusion()(model, tg.Series(x, mask=mask), output="raw", batch_size=batch_size)
    assert len(rows) > 3
    expected = torch.zeros_like(x)
    target = found.target if found.target.ndim == 2 else found.target[:, None]

    def score(z):
        with torch.no_grad():
            return model(z).view(len(z), -1, 2).gather(2, target[..., None]).sum((1, 2))

    clean = score(x)
    for t, d in torch.cartesian_prod(torch.arange(TIME), torch.arange(3)):
        z = x.clone()
        z[:, t, d] = torch.where(mask[:, t, d], 0.0, z[:, t, d])
        expected[:, t, d] = clean - score(z)
    torch.testing.assert_close(found.values, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    "explainer", [Occlusion(), AugmentedOcclusion(n_samples=2, rows=series(6, TIME, 3, seed=1))]
)
def test_a_channel_without_weights_scores_exactly_zero(model, rows, explainer):
    with torch.no_grad():
        model.recurrence.weight_ih_l0[:, 1] = 0
    found = explainer(model, series(3, TIME, 3)).values
    assert len(rows) > 3
    assert (found[..., 1] == 0).all()
    assert (found[:, -5:, [0, 2]] != 0).all()  # what came long before is forgotten


@pytest.mark.parametrize(("masked", "batch_size"), [(False, None), (True, 20)])
def test_removal_is_that_of_whole_series(model, rows, monkeypatch, masked, batch_size):
    """Both ends of both rankings, against the same pass without remembered states."""
    x = series(4, TIME, 3)
    mask = observed(x) if masked else None
    explanation = Occlusion()(model, tg.Series(x, mask=mask))
    rows.clear()
    ways = [(metric, rank) for metric in ("cpd", "cpp") for rank in ("absolute", "signed")]
    metrics = [METRICS[metric](rank=rank, k=0.5, name=f"{metric} {rank}") for metric, rank in ways]
    found = evaluate(model, explanation, metrics=metrics, batch_size=batch_size)
    curve = removal_curve(model, explanation, k=0.5, batch_size=batch_size)
    assert len(rows) > 3
    rows.clear()
    monkeypatch.setattr(module, "resumes", lambda _: False)
    plain, plain_curve = evaluate(model, explanation, metrics=metrics), removal_curve(model, explanation, k=0.5)
    assert rows == []
    for name, score in found.items():
        torch.testing.assert_close(score, plain[name], rtol=1e-3, atol=1e-5)
    close(curve.delta, plain_curve.delta)
