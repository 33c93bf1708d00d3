"""Models that work in place: scores are those of the same model written out of place, and x stays as it was."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import series

POOL = series(12, 8, 2, seed=9)
WEIGHT = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))


class InPlace(nn.Module):
    """Applies one of a few operations to its input, in place or not."""

    def __init__(self, kind: str, *, honest: bool) -> None:
        super().__init__()
        self.kind, self.honest, self.head = kind, honest, nn.Linear(2, 2)
        self.head.load_state_dict({"weight": WEIGHT, "bias": torch.zeros(2)})

    def forward(self, x):
        x = x.clone() if self.honest else x
        if self.kind == "centre":
            x -= x.mean(1, keepdim=True)
        elif self.kind == "scale":
            x.mul_(0.5)
        elif self.kind == "relu":
            torch.relu_(x)
        elif self.kind == "clamp":
            x[:, 2:].clamp_(-1, 1)
        else:  # what autograd has kept is overwritten
            spread = x.std(1, keepdim=True, correction=0) + 1
            raised = x.exp()
            x = x / spread if self.honest else x.div_(spread)
            x = x * (raised * 2 if self.honest else raised.mul_(2))
        return self.head(x.sin().sum(1))


KINDS = ("centre", "scale", "relu", "clamp", "kept")
SETTINGS = {
    "dynamask": {"epochs": 5},
    "extremal_mask": {"epochs": 5},
    "contralsp": {"epochs": 5},
    "lime": {"n_samples": 60},
    "gradient_shap": {"background": POOL},
    "augmented_occlusion": {"background": POOL, "n_samples": 3},
    "fit": {"background": POOL, "epochs": 1},
    "winit": {"background": POOL, "epochs": 1},
    "timex": {"background": POOL, "epochs": 2},
    "timexpp": {"background": POOL, "epochs": 2},
}


@pytest.mark.filterwarnings("ignore:The scores of deep_lift")
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, method) for kind in ("centre", "kept") for method in sorted(tg.EXPLAINERS)),
        *((kind, method) for kind in ("scale", "relu", "clamp") for method in ("occlusion", "timing")),
    ],
)
def test_scores_are_those_of_the_model_out_of_place(kind, method):
    x = series(3, 8, 2)
    before, settings = x.clone(), SETTINGS.get(method, {})
    found = tg.explain(InPlace(kind, honest=False), x, method, **settings)
    assert torch.equal(x, before)
    expected = tg.explain(InPlace(kind, honest=True), x, method, **settings)
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_leave_the_series_alone(kind):
    x = series(3, 8, 2)
    before = x.clone()
    found = tg.explain(InPlace(kind, honest=True), x, "occlusion")
    scores = tg.evaluate(InPlace(kind, honest=False), found)
    expected = tg.evaluate(InPlace(kind, honest=True), found)
    assert torch.equal(x, before)
    assert torch.equal(found.series.x, before)
    assert all(torch.allclose(scores[name], expected[name], rtol=1e-4, atol=1e-6) for name in expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_captum_face_with_two_inputs(kind):
    captum = pytest.importorskip("tempograd.captum")
    inputs = series(3, 8, 2), series(3, 8, 2, seed=1)
    before = [part.clone() for part in inputs]

    def both(honest):
        model = InPlace(kind, honest=honest)
        return captum.Timing(lambda a, b: model(a) + model(b)).attribute(inputs, target=0, n_steps=8)

    for found, expected in zip(both(False), both(True), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(part, kept) for part, kept in zip(inputs, before, strict=True))
