"""TIMING inside captum: captum's own integrated gradients, tempograd's engine, closed forms, captum's tools."""

import importlib
import sys

import pytest
import torch
from captum.attr import IntegratedGradients, NoiseTunnel
from captum.metrics import infidelity, infidelity_perturb_func_decorator, sensitivity_max
from torch import nn

import tempograd as tg
from tempograd.captum import Timing
from tempograd.core.errors import InputError, MissingExtraError, ModelError, SettingError
from tempograd.sampling.segments import complete
from tests.helpers.models import Recurrent, series, smooth


class Mixed(nn.Module):
    """A recurrent model of two series, static features, and arguments that nobody asks to explain."""

    def __init__(self, classes: int = 3, *, per_step: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru = nn.GRU(5, 6, batch_first=True)
            self.static = nn.Linear(4, 6)
            self.head = nn.Linear(6, classes)
        self.double()
        self.per_step = per_step
        self.rows = []

    def forward(self, left, right, features, scale, power="first", weights=None):
        self.rows.append(len(left))
        states = self.gru(torch.cat([left, right], 2))[0] + self.static(features).tanh()[:, None]
        answer = self.head(states) * scale[:, None, None]
        if power == "second":
            answer = answer**2
        if weights is not None:
            answer = answer * weights
        return answer if self.per_step else answer[:, -1]


def mixed_inputs(batch=4):
    left, right = (series(batch, 7, depth, depth, torch.float64) for depth in (2, 3))
    return left, right, series(batch, 1, 4, 9, torch.float64)[:, 0]


SCALE = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
TARGETS = [2, torch.tensor(1), torch.tensor([1]), torch.tensor([0, 2, 1, 1]), [2, 0, 0, 1], (1,), -1]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("baselines", [None, (0.5, -1, torch.full((1, 4), 0.25).double())], ids=["zero", "mixed"])
def test_without_segments_it_is_captums_integrated_gradients(target, baselines):
    model, inputs, arguments = Mixed(), mixed_inputs(), (SCALE, "second")
    oracle, options = IntegratedGradients(model), {"n_steps": 20, "return_convergence_delta": True}
    expected, delta = oracle.attribute(inputs, baselines, target, arguments, method="riemann_middle", **options)
    found, residual = Timing(model, segments=0).attribute(inputs, baselines, target, arguments, **options)
    assert isinstance(found, tuple)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-8)  # captum's weights are float32
    torch.testing.assert_close(residual, delta, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("target", [(3, 1), [(0, 2), (6, 0), (3, 1), (3, 2)]], ids=["all rows", "each row"])
def test_outputs_with_several_axes_take_tuples(target):
    model, inputs = Mixed(per_step=True), mixed_inputs()
    oracle = IntegratedGradients(model)
    expected = oracle.attribute(inputs, None, target, SCALE, n_steps=20, method="riemann_middle")
    found = Timing(model, segments=0).attribute(inputs, None, target, SCALE, n_steps=20)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [{}, {"segments": 20, "min_length": 2, "max_length": 4}, {"held": 0.75}, {"held": 0.75, "max_length": 1}],
    ids=["plain", "anchored", "held", "single"],
)
@pytest.mark.parametrize("size", [None, 7])
def test_one_input_gets_the_scores_of_the_engine(recurrent, settings, size):
    x, target = series(5, 12, 3), torch.tensor([0, 1, 2, 2, 1])
    expected = tg.Timing(30, **settings)(recurrent, x, target=target, baseline=0.5, output="raw", seed=4).values
    explainer = Timing(recurrent, **settings, seed=4)
    found = explainer.attribute(x, 0.5, target, n_steps=30, internal_batch_size=size)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
    other = Timing(recurrent, **settings, seed=5).attribute(x, 0.5, target, n_steps=30)
    assert (found - other).abs().max() > 0.01 * found.abs().max()  # the comparison sees the masks


def test_series_of_equal_length_share_masks_as_channels_of_one():
    model, (left, right, features) = Mixed(), mixed_inputs()
    joined = tg.Timing(25)(
        lambda z: model(z[..., :2], z[..., 2:], features[:1].expand(len(z), -1), SCALE[:1].expand(len(z))),
        torch.cat([left, right], 2)[:1],
        target=1,
        output="raw",
    ).values
    found = Timing(model).attribute((left[:1], right[:1]), None, 1, (features[:1], SCALE[:1]), n_steps=25)
    torch.testing.assert_close(torch.cat(found, 2).float(), joined, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("anchored", [0.0, 0.8])
def test_other_lengths_have_masks_of_their_own_and_static_inputs_always_move(anchored):
    """A product of sums has a closed form: series are x · (1 - p / 2) on average, static inputs x / 2."""
    short, long, static = torch.ones(1, 6, 1), torch.full((1, 9, 2), 2.0), torch.tensor([[3.0, -1.0]])

    def model(a, b, c):
        return a.sum((1, 2)) * (b.sum((1, 2)) + c.sum(1))

    explainer = Timing(model, segments=3, min_length=2, max_length=3, anchored=anchored)
    found = explainer.attribute((short, long, static), n_steps=20_000)
    sums = [float((x[0, :, 0] * (1 - free(x) / 2)).sum()) * x.shape[2] for x in (short, long)]
    torch.testing.assert_close(found[0], short * (sums[1] + 1), rtol=0.02, atol=0)
    torch.testing.assert_close(found[1], long * sums[0], rtol=0.02, atol=0)
    torch.testing.assert_close(found[2], static * sums[0], rtol=0.02, atol=0)


def free(x):
    return torch.from_numpy(complete(*x.shape[1:], 3, 2, 3, x.shape[1]).p_active())


def test_arguments_travel_with_their_rows_and_others_as_they_are():
    """Rows explained together must get the scores that each gets alone."""
    model, inputs = Mixed(), mixed_inputs()
    weights = torch.tensor([1.0, 2.0, -1.0]).double()  # three, not the four of the batch
    found = Timing(model).attribute(inputs, None, [2, 1, 0, 1], (SCALE, "second", weights), internal_batch_size=11)
    for row, target in enumerate([2, 1, 0, 1]):
        scaled = lambda a, b, c, s=SCALE[row], t=target: (  # noqa: E731
            model(a, b, c, s.expand(len(a)))[:, t] ** 2 * weights[t]
        )
        together = tuple(x[row].expand_as(x) for x in inputs)  # the same masks need the same place in the batch
        alone = Timing(scaled).attribute(together)
        for ours, theirs in zip(found, alone, strict=True):
            torch.testing.assert_close(ours[row], theirs[row], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::tempograd.TempogradWarning")  # few points are what is tested
@pytest.mark.parametrize(("steps", "size"), [(1, 3), (6, 1), (6, 5), (50, 11)])
def test_no_more_rows_than_asked_for_go_through_the_model(steps, size):
    model, inputs = Mixed(), tuple(x.repeat(3, *[1] * (x.ndim - 1)) for x in mixed_inputs())
    whole = Timing(model).attribute(inputs, None, 0, SCALE.repeat(3), n_steps=steps)
    model.rows.clear()
    parts = Timing(model).attribute(inputs, None, 0, SCALE.repeat(3), n_steps=steps, internal_batch_size=size)
    assert max(model.rows) <= size
    assert sum(model.rows) == 12 * (steps + 1)  # and each row as it is
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["smoothgrad", "smoothgrad_sq", "vargrad"])
def test_noise_tunnel_averages_over_noisy_copies(kind):
    model, inputs, target = Mixed(), mixed_inputs(), [2, 1, 0, 1]
    torch.manual_seed(3)
    found, delta = NoiseTunnel(Timing(model)).attribute(
        inputs,
        nt_type=kind,
        nt_samples=3,
        stdevs=0.2,  # captum 0.7 fails with one for each input
        target=target,
        additional_forward_args=SCALE,
        return_convergence_delta=True,
    )
    torch.manual_seed(3)
    copies = [x.repeat_interleave(3, 0) for x in inputs]
    noisy = tuple(  # the noise as NoiseTunnel draws it
        x + torch.normal(0, torch.tensor(0.2).repeat(x.shape)) for x in copies
    )
    targets, scales = torch.tensor(target).repeat_interleave(3), SCALE.repeat_interleave(3)
    by_hand = Timing(model).attribute(noisy, None, targets, scales)
    for ours, each in zip(found, by_hand, strict=True):
        drawn = each.unflatten(0, (4, 3))
        summary = {
            "smoothgrad": drawn.mean(1),
            "smoothgrad_sq": (drawn**2).mean(1),
            "vargrad": drawn.var(1, correction=0),
        }
        torch.testing.assert_close(ours, summary[kind], rtol=1e-6, atol=1e-9)
    picked = [
        model(*parts, scales).detach()[torch.arange(12), targets] for parts in (noisy, [0 * x for x in noisy])
    ]
    total = sum(part.flatten(1).sum(1) for part in by_hand)
    torch.testing.assert_close(delta, total - (picked[0] - picked[1]), rtol=1e-6, atol=1e-9)


def linear_pair(left, right):
    return torch.stack([left.sum((1, 2)) - 3 * right[:, 2].sum(1), left[:, 0, 0]], 1)


def test_infidelity_of_a_linear_model_is_zero():
    inputs = mixed_inputs()[:2]

    @infidelity_perturb_func_decorator(True)
    def shake(parts):
        return tuple(x - torch.randn_like(x) for x in parts)

    found = Timing(linear_pair).attribute(inputs, target=0)
    torch.manual_seed(0)
    wrong = (found[0], -found[1])
    scores = [
        infidelity(linear_pair, shake, inputs, each, target=0, n_perturb_samples=8) for each in (found, wrong)
    ]
    torch.testing.assert_close(scores[0], torch.zeros(4).double(), rtol=0, atol=1e-9)
    assert scores[1].min() > 1e-3


def test_sensitivity_has_a_closed_form_and_no_noise_of_its_own():
    inputs, model = mixed_inputs()[:2], Mixed()
    shifted = lambda parts, radius: tuple(x + radius for x in parts)  # noqa: E731
    explain = Timing(linear_pair).attribute
    found = sensitivity_max(explain, inputs, shifted, 0.1, n_perturb_samples=2, target=0)
    before, delta = (
        torch.cat([left.flatten(1), (right * torch.eye(7).double()[2, :, None] * -3).flatten(1)], 1).norm(dim=1)
        for left, right in (inputs, [torch.full_like(x, 0.1) for x in inputs])
    )
    torch.testing.assert_close(found, delta / before, rtol=1e-6, atol=0)
    options = {"target": 1, "additional_forward_args": SCALE, "max_examples_per_batch": 4}
    still = sensitivity_max(Timing(model).attribute, mixed_inputs(), shifted, 0.0, **options)
    assert still.max() == 0


def test_the_model_is_left_as_it_was_and_explained_in_evaluation_mode():
    model, x = Recurrent().train(), series(4, 9, 3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    found, delta = Timing(model).attribute(x, target=1, return_convergence_delta=True)
    assert model.training
    assert model.gru.dropout == 0.4
    assert all(bool((value == state[name]).all()) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    model.eval()
    torch.testing.assert_close(found, Timing(model).attribute(x, target=1))
    moved = (model(x) - model(0 * x))[:, 1].detach()
    torch.testing.assert_close(delta, found.sum((1, 2)) - moved, rtol=1e-4, atol=1e-6)


def test_scores_carry_no_graph_and_an_ignored_input_scores_zero():
    left, right, _ = (x.clone().requires_grad_() for x in mixed_inputs())
    found = Timing(lambda a, b: a.sum((1, 2))).attribute((left, right))
    assert not any(part.requires_grad for part in found)
    torch.testing.assert_close(found[0], left.detach())
    assert found[1].abs().max() == 0


X = torch.zeros(4, 5, 2)
WRONG = {
    "no series": (
        lambda z: z.sum(1),
        torch.zeros(4, 5),
        {},
        "at least one of them .batch, time, channel.*4, 5",
    ),
    "integers": (smooth(5, 2), (X.long(),), {}, "floating-point.*got .*int64.*additional_forward_args"),
    "a list": (smooth(5, 2), [X], {}, "tuple of them.*got "),
    "other rows": (smooth(5, 2), (X, X[:2]), {}, r"same rows.*got .*\(2, 5, 2\)"),
    "not finite": (smooth(5, 2), X / 0, {}, r"finite.*got .*\(4, 5, 2\)"),
    "a baseline for another": (smooth(5, 2), X, {"baselines": (0, 1)}, "for each input, 1 in all.*got int, int"),
    "a baseline's name": (smooth(5, 2), X, {"baselines": "zero"}, "got str"),
    "a baseline's shape": (smooth(5, 2), X, {"baselines": X[:, 0]}, "must broadcast"),
    "no target": (smooth(5, 2).float(), X, {}, r"returns \(3,\) numbers for each row: pass target="),
    "too many indices": (
        smooth(5, 2).float(),
        X,
        {"target": (0, 1)},
        r"returns \(3,\) numbers for each row: pass target= with one index",
    ),
    "target too large": (
        smooth(5, 2).float(),
        X,
        {"target": [0, 1, 2, 3]},
        r"\(3,\) numbers.*target= with one index",
    ),
    "target too small": (smooth(5, 2).float(), X, {"target": -4}, r"\(3,\) numbers.*target= with one index"),
    "targets of other rows": (smooth(5, 2).float(), X, {"target": [0, 1]}, "for each of the 4 rows"),
    "a fraction": (smooth(5, 2).float(), X, {"target": 0.5}, "target must be an integer"),
    "no steps": (smooth(5, 2), X, {"n_steps": 0}, "n_steps must be at least 1"),
    "no room": (smooth(5, 2), X, {"internal_batch_size": 0}, "internal_batch_size must be at least 1"),
}


@pytest.mark.parametrize(("model", "inputs", "options", "message"), WRONG.values(), ids=WRONG)
def test_bad_input_gets_one_sentence(model, inputs, options, message):
    with pytest.raises(InputError, match=message):
        Timing(model).attribute(inputs, **options)


def test_models_and_settings_that_cannot_be_explained():
    with pytest.raises(ModelError, match="one row per series"):
        Timing(lambda z: z.sum()).attribute(X)
    with pytest.raises(ModelError, match="autograd"):
        Timing(lambda z: z.detach().sum((1, 2))).attribute(X)
    with pytest.raises(ModelError, match="NaN or infinite"):
        Timing(lambda z: z.sum((1, 2)).sqrt()).attribute(X)
    with pytest.raises(SettingError, match="fix step 0"):
        Timing(lambda z: z.sum((1, 2)), segments=200, min_length=3, max_length=5).attribute(X[..., :1])


def test_a_setting_that_starves_cells_warns():
    with pytest.warns(tg.TempogradWarning, match="active in only"):
        Timing(lambda z: z.sum((1, 2)), segments=9, min_length=3, max_length=3).attribute(X, n_steps=3)


def test_captum_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    monkeypatch.delitem(sys.modules, "tempograd.captum")
    with pytest.raises(MissingExtraError, match=r"tempograd\[captum\]"):
        importlib.import_module("tempograd.captum")
