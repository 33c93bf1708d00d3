"""Gradients that are not those of the score: found with certainty, named, and never called converged."""

import html
import itertools
import re
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.core.estimate import Found, GradientCheck, hidden
from tempograd.engine.gradients import APART
from tempograd.explainers import MaskingIG
from tempograd.explanation.diagnostics import poor
from tempograd.views.drivers import reader_verdict
from tests.helpers.models import linear, series, smooth

TIME, CHANNELS = 24, 3
METHODS = ("timing", "integrated_gradients", "rand_ig", "gradient_shap")
ADVICE = ("n_samples=", "n_steps=", "tolerance=")
# what torch itself says where a processor lacks a kind of product, and another way is taken
FALLS_BACK = pytest.mark.filterwarnings(r"ignore:(?s).*\(Triggered internally at")


def inputs(count=8):
    """Return series away from 0, a trend and a wave in each, so that baselines differ."""
    generator = torch.Generator().manual_seed(1)
    return 0.6 + 0.7 * torch.randn(count, TIME, CHANNELS, generator=generator)


def weights(shape=(TIME, CHANNELS)):
    return 0.3 * torch.rand(shape, generator=torch.Generator().manual_seed(2)) + 0.1


class Drawn(nn.Module):
    """Adds numbers that torch draws."""

    def forward(self, z):
        return z + 0.01 * torch.randn(z.shape[-1])


class Normalised(nn.Module):
    """A forecaster with reversible instance normalisation; most code detaches its statistics."""

    def __init__(self, *, detach):
        super().__init__()
        self.detach = detach
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        mean, size = x.mean(1, keepdim=True), (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        if self.detach:
            mean, size = mean.detach(), size.detach()
        return self.net((x - mean) / size) * size[:, 0, :1] + mean[:, 0, :1]


def weighted(part):
    w = weights()
    return lambda z: (part(z) * w).sum((1, 2))[:, None]


def some_channels(part, rest=torch.tanh):
    """Two channels go through ``part``, the third through something smooth."""
    return weighted(lambda z: torch.cat([part(z[..., :2]), rest(z[..., 2:])], 2))


def straight_through(step):
    """The forward pass of one function with the gradient of the identity."""
    return weighted(lambda z: z + (step(z) - z).detach())


def categorical(z):
    """The first channel is a code that an embedding turns into a number."""
    table = torch.tensor([0.0, 2.0, -1.0, 1.5])
    code = table[(z[..., 0] * 2).long().clamp(0, 3)]
    w = weights()
    return (code * w[:, 0]).sum(1, keepdim=True) + torch.tanh(z[..., 1:] * w[:, 1:]).sum((1, 2))[:, None]


def half_without_gradient(z):
    w = weights()
    with torch.no_grad():
        first = torch.tanh(z[..., :2] * w[:, :2]).sum((1, 2))
    return (first + torch.tanh(z[..., 2:] * w[:, 2:]).sum((1, 2)))[:, None]


class Backward(torch.autograd.Function):
    """The identity, whose gradient somebody got wrong by a factor."""

    @staticmethod
    def forward(ctx, z, factor):
        ctx.factor = factor
        return z.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.factor * gradient, None


class Hooked(nn.Module):
    """A layer with a hook that makes gradients seven times as large."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Identity()
        self.layer.register_full_backward_hook(lambda _, given, __: tuple(7 * each for each in given))

    def forward(self, z):
        return weighted(torch.tanh)(self.layer(z))


def detached_gate(z):
    """Half of what a value does goes through its gate, which the gradient does not know of."""
    return weighted(lambda part: part * torch.sigmoid(4 * part).detach())(z)


WRONG = {
    "detached": Normalised(detach=True),
    "rounded": weighted(lambda z: (2 * z).round() / 2 + 0 * z),
    "finely rounded": weighted(lambda z: (50 * z).round() / 50 + 0 * z),
    "some rounded": some_channels(torch.round),
    "threshold at 0": some_channels(lambda z: (z > 0).float()),
    "threshold at 0.5": some_channels(lambda z: (z > 0.5).float()),
    "categorical": categorical,
    "straight-through sign": straight_through(lambda z: torch.sign(z - 0.4)),
    "straight-through rounding": straight_through(torch.round),
    "half under no_grad": half_without_gradient,
}
MISTAKEN = {
    "turned round": weighted(lambda z: torch.tanh(Backward.apply(z, -1.0))),
    "tripled": weighted(lambda z: torch.tanh(Backward.apply(z, 3.0))),
    "hooked": Hooked(),
    "detached gate": detached_gate,  # so little of it is wrong that not every method tells
}
RIGHT = {
    "normalised": Normalised(detach=False),
    "linear": weighted(lambda z: z),
    "sigmoids": some_channels(lambda z: torch.sigmoid(10 * (z - 0.5))),
    "absolute": some_channels(torch.abs),
    "relu": nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, 32), nn.ReLU(), nn.Linear(32, 1)),
}


def explain(model, x, method, **options):
    with warnings.catch_warnings():
        for known in ("gradient_shap has no pool", "The gradient is not that of", "The prediction jumps"):
            warnings.filterwarnings("ignore", known)
        return tg.explain(model, x, method, output="raw", target=0, **options)


def names_causes(text):
    return "detached statistics" in text and "thresholds" in text and not any(word in text for word in ADVICE)


@pytest.mark.parametrize("baseline", ["zero", "average"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gradient_is_named_whatever_the_method_and_the_baseline(name, method, baseline):
    found = explain(WRONG[name], inputs(), method, baseline=baseline)
    text = found.verdict()
    assert "converged" not in text
    assert "complete" not in text
    assert names_causes(text), text
    assert poor(found)


DOUBT = "The gradient is not that of the prediction"


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, "timing") for name in WRONG if "round" not in name), *itertools.product(MISTAKEN, METHODS[:2])],
)
def test_a_wrong_gradient_is_warned_of_once_and_comes_first_in_every_sentence(name, method):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        several = tg.explain((WRONG | MISTAKEN)[name], inputs(), method, output="raw", targets=[0])
    told = [str(each.message) for each in warned if "no pool" not in str(each.message)]
    found, verdict = several[0], several.verdict()
    if name == "detached gate" and not names_causes(verdict):
        assert (told, DOUBT in found.describe(0)) == ([], False)
        return
    assert names_causes(verdict)
    assert told == [f"{verdict[:1].upper()}{verdict[1:]}."]
    assert all(found.describe(i).startswith(DOUBT) for i in (0, len(found) - 1))
    if name == "detached":  # drawn once
        assert html.escape(DOUBT) in found._repr_html_()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_gradient_is_neither_warned_of_nor_doubted(name, method):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = tg.explain(RIGHT[name], inputs(), method, output="raw", target=0)
    assert [str(each.message) for each in warned if "no pool" not in str(each.message)] == []
    assert not any("gradient" in found.describe(i) for i in range(len(found)))


def test_a_wrong_gradient_is_not_warned_of_where_it_was_hardly_looked_at_nor_batch_by_batch(tmp_path):
    """Of few points honest models are accused now and then; a run over files says it of all its series."""
    model, x = WRONG["rounded"], inputs()
    few = tg.explain(model, x, n_samples=10, output="raw", target=0)
    assert names_causes(few.verdict())
    assert few.describe(0).startswith(DOUBT)
    np.save(tmp_path / "x.npy", x.numpy())
    run = tg.explain_dataset(model, tmp_path / "x.npy", tmp_path / "out", output="raw", target=0, batch_size=2)
    assert run.summary()["warnings"] == {}
    assert run.verdict().startswith("not to be relied on: the gradient is not that of the prediction in 8 of 8")


def test_what_the_sentence_says_of_a_few_wrong_series_and_of_what_all_show_together():
    """One of many is doubted alone; where single series cannot tell and all together do, all of them are."""
    found = explain(RIGHT["linear"], inputs(40), "timing")
    check = found.gradient_check
    few = torch.where(torch.arange(40) == 7, Found.WRONG, check.found).to(check.found)
    told = replace(found, gradient_check=replace(check, found=few))
    assert [i for i in range(40) if told.describe(i).startswith(DOUBT)] == [7]
    together = replace(found, gradient_check=replace(check, gap=torch.full_like(check.gap, 0.2)))
    assert "gradient is not that of the prediction" in together.verdict()
    assert all(together.describe(i).startswith(DOUBT) for i in range(40))


def test_deep_lift_does_not_claim_what_it_cannot_know():
    """Nothing compares its gradient with the model: it neither vouches for it nor blames captum alone."""
    for factor in (-1.0, 3.0, 1.0):
        layers = nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, 4), nn.Tanh(), nn.Linear(4, 1))

        class Net(nn.Module):
            def __init__(self, layers=layers, factor=factor):
                super().__init__()
                self.layers, self.factor = layers, factor

            def forward(self, z):
                return self.layers(Backward.apply(z, self.factor))

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = tg.explain(Net(), inputs(), "deep_lift", output="raw")
        assert found.verdict() == "no sampling error; whether the gradient is that of the prediction is not known"
        assert reader_verdict(found).badge == "unknown"
        assert len(warned) == (factor != 1)
        assert all("or the gradient is not that of the prediction" in str(each.message) for each in warned)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in WRONG if "half" not in name])
def test_most_single_series_show_it_alone(name, method):
    """What one series shows by itself; a part of its cells or of its steps may be right by chance."""
    found = explain(WRONG[name], inputs(), method)
    texts = [found.verdict(i) for i in range(len(found))]
    assert sum(map(names_causes, texts)) >= 7, texts
    alone = explain(WRONG[name], inputs()[:1], method)
    assert names_causes(alone.verdict()) == names_causes(texts[0])


@pytest.mark.parametrize("baseline", ["zero", "average"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RIGHT)
def test_honest_twins_keep_their_verdict(name, method, baseline):
    x = inputs(20)
    found = explain(RIGHT[name], x, method, baseline=baseline)
    plain = explain(RIGHT[name], x, method, baseline=baseline, gradient_check=False)
    assert plain.gradient_check is None
    torch.testing.assert_close(found.values, plain.values, rtol=1e-4, atol=1e-5)
    figures = re.compile(r"[\d.,]+ (%|samples)|=\d+|\d+ of")  # far ends may widen errors a little
    assert figures.sub("", found.verdict()) == figures.sub("", plain.verdict())
    if plain.relative_error is not None:
        torch.testing.assert_close(found.relative_error, plain.relative_error, rtol=0.3, atol=1e-3)
    assert not found.gradient_check.failed.any()


def test_one_mask_is_checked_as_well():
    moving = torch.zeros(TIME, CHANNELS)
    moving[:12] = 1
    with pytest.warns(tg.TempogradWarning, match="gradient is not that of the prediction"):
        found = MaskingIG(moving)(WRONG["threshold at 0.5"], inputs(), output="raw")
    assert names_causes(found.verdict())
    honest = MaskingIG(moving)(RIGHT["sigmoids"], inputs(), output="raw")
    assert (honest.gradient_check.found == Found.AGREES).all()


@FALLS_BACK
def test_a_quantised_model_is_named():
    """torch's int8 layers answer, and have no gradient."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, 16), nn.ReLU(), nn.Linear(16, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this place of the function is an old one
        quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
        for method in METHODS:
            with pytest.raises(tg.TempogradError, match="in a way autograd can see"):
                tg.explain(quantised, inputs(), method, output="raw", target=0)
            beside = explain(lambda z: quantised(z) + z.mean((1, 2))[:, None], inputs(), method)
            assert names_causes(beside.verdict())
    assert "converged" in tg.explain(model, inputs(), output="raw", target=0).verdict()


def test_the_numbers_of_the_check_by_hand():
    """F = w · (z - mean(z)) with a detached mean: the gradient says w, the score's slope is w - mean(w)."""
    x = inputs(3)
    w = weights()

    def model(z):
        return ((z - z.mean(1, keepdim=True).detach()) * w).sum((1, 2))[:, None]

    found = explain(model, x, "integrated_gradients")
    total, missed = (x * w).sum((1, 2)), (x.mean(1) * w.sum(0)).sum(1)
    check = found.gradient_check
    whole = torch.maximum((total - missed).abs(), (x * w).abs().sum((1, 2)))
    torch.testing.assert_close(check.missing, missed / whole, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(check.gap, (missed / total).abs(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(check.nearby[:, 0], check.nearby[:, 1], rtol=1e-2, atol=1e-3)  # a linear score
    assert float(check.jump.max()) < 1e-3
    first = explain(model, x / 49.7, "integrated_gradients").gradient_check  # nothing depends on the scale
    torch.testing.assert_close(first.gap, check.gap, rtol=1e-3, atol=1e-4)


def test_a_jump_at_the_baseline_is_seen_although_no_point_lies_there():
    """A zero that means "missing": all of the change happens at the first step away from it."""
    x = inputs().abs() + 0.1

    def model(z):
        return (z != 0).float().mean((1, 2))[:, None] + 0.1 * torch.tanh(z).mean((1, 2))[:, None]

    for method in METHODS:
        found = explain(model, x, method)
        torch.testing.assert_close(found.gradient_check.jump, torch.ones(len(x)), rtol=1e-3, atol=0)
        assert names_causes(found.verdict())
    elsewhere = explain(model, x, "timing", baseline=x + 1.0)
    assert elsewhere.verdict().startswith("converged")


def test_what_no_point_saw_is_not_converged():
    """The prediction changes by -2.996 in the first part of the path, where many a series has no point."""
    x = torch.ones(15, 1, 4)

    def model(z):
        return (10 * torch.relu(0.3 - z.abs().mean((1, 2))) + 0.001 * z.sum((1, 2)))[:, None]

    for options in ({"n_samples": 50}, {"tolerance": 0.1}):
        found = tg.explain(model, x, output="raw", **options)
        texts = [found.verdict(i) for i in range(15)]
        small = found.values.abs().sum((1, 2)) < 0.02  # exact: 0.22
        assert bool(small.any()) or "tolerance" in options
        claims = [text.startswith("converged") for text in texts]
        assert not any(claim for claim, wrong in zip(claims, small.tolist(), strict=True) if wrong)
        told = [text for text, wrong in zip(texts, small.tolist(), strict=True) if wrong]
        assert all(text.startswith("not converged") for text in told)
        assert not told or any("no point saw" in text for text in told)
        assert found.verdict().startswith("not converged")


def test_the_rule_of_three():
    """Of a change of 3, of which no draw saw more than 1, at most 3/50 · 2 is missing."""
    share = hidden(torch.full((1, 2, 2), 0.15), torch.tensor([-3.0]), torch.tensor([1.0]), 50)
    assert float(share) == pytest.approx(3 / 50 * 2 / 0.6)
    assert float(hidden(torch.ones(1, 2, 2), torch.tensor([1.0]), torch.tensor([1.5]), 50)) == 0


def saturated(z):
    return torch.tanh(50 * z.sum((1, 2)))[:, None]


def step(z):
    high = 4 * (z.sum((1, 2)) > 0).float() + 0 * z.sum((1, 2))
    return torch.stack([high, -high], 1)


@pytest.mark.parametrize("method", ["timing", "rand_ig", "gradient_shap", "integrated_gradients"])
@pytest.mark.parametrize("model", [saturated, step])
def test_an_all_zero_map_is_not_converged(model, method):
    x = inputs().abs() + 1
    found = explain(model, x, method)
    for text in (found.verdict(), found.verdict(0), found[:1].verdict()):
        assert not text.startswith(("converged", "complete")), text
        assert not any(word in text for word in ADVICE) or "not complete" in text
    if model is saturated:
        assert not (found.gradient_check.found == Found.WRONG).any()  # its gradient is right, and flat


@pytest.mark.parametrize("method", ["occlusion", "lime", "deep_lift", "augmented_occlusion"])
def test_the_change_is_known_for_every_method_and_an_all_zero_map_is_said(method):
    x = inputs().abs() + 1

    class Step(nn.Module):
        def forward(self, z):
            return (z.sum((1, 2), keepdim=True)[:, 0] > 1).float() + 0 * z.sum((1, 2))[:, None]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        train = {"background": x} if method == "augmented_occlusion" else {}
        found = tg.explain(Step(), x, method, output="raw", **train)
    torch.testing.assert_close(found.delta, torch.ones(len(x)))
    assert not found.values.any()
    assert found.verdict(0).startswith("all scores are 0, but the prediction changes: ")
    assert found.verdict() == found.verdict(0)
    function = tg.explain(Step(), x, "occlusion", target=lambda out: 3 * out[:, 0], output="raw")
    torch.testing.assert_close(function.delta, torch.full((8,), 3.0))


def test_a_model_that_ignores_its_input_may_have_an_all_zero_map():
    found = tg.explain(lambda z: 0 * z.sum((1, 2))[:, None] + 2.0, inputs(), output="raw")
    assert found.verdict().startswith("converged")
    assert (found.gradient_check.found == Found.UNKNOWN).all()


def test_nothing_was_explained_where_nothing_was_asked():
    per_step = lambda z: torch.stack([z.sum(2), -z.sum(2)], -1)  # noqa: E731
    x = inputs(4)
    steps = torch.zeros(4, TIME, dtype=torch.bool)
    steps[0, 3] = True
    for method in ("timing", "integrated_gradients", "occlusion"):
        found = tg.explain(per_step, x, method, steps=steps)
        assert found.verdict(1) == "nothing was explained"
        assert found[1:].verdict() == "nothing was explained"
        assert found.verdict() == found.verdict(0) + "; nothing was explained in 3 series"
        assert not poor(found[1:])
        mask = torch.ones_like(x)
        mask[2:] = 0
        masked = tg.explain(smooth(TIME, CHANNELS), tg.Series(x, mask=mask), method)
        assert masked.verdict(2) == "nothing was explained"
        assert masked.verdict().endswith("; nothing was explained in 2 series")


def test_steepness_is_told_from_a_jump_and_samples_are_advised():
    """A sigmoid 20 times as steep as the path is long: slopes of 5 were met where a step of 1 has none."""
    x = torch.ones(40, 4, 1)
    steep = lambda z: torch.sigmoid(60 * (z.mean((1, 2)) - 0.6))[:, None]  # noqa: E731
    found = explain(steep, x, "integrated_gradients", n_steps=8)
    assert found.gradient_check.found.tolist() == [Found.STEEP] * 40
    assert found.verdict().endswith("pass n_steps=32")
    jump = lambda z: (z.mean((1, 2), keepdim=True)[:, 0] > 0.6).float() + 0 * z[:, 0]  # noqa: E731
    assert names_causes(explain(jump, x, "integrated_gradients", n_steps=8).verdict())


def test_a_few_wrong_series_among_many_are_counted():
    """One series in 40 crosses a threshold that the others are far from."""
    x = inputs(40).clamp(-2, 2)
    x[7] += 5

    def model(z):
        w = weights()
        return ((torch.tanh(z) + 3 * (z > 2.5).float()) * w).sum((1, 2))[:, None]

    for method in METHODS:
        found = explain(model, x, method)
        assert found.gradient_check.failed.nonzero().flatten().tolist() == [7]
        assert found.verdict().endswith("; the gradient is not that of the prediction in 1 series")
        assert names_causes(found.verdict(7))
        assert not names_causes(found.verdict(6))


def test_the_check_goes_with_its_series_and_into_the_file(tmp_path):
    found = explain(WRONG["detached"], inputs(), "timing")
    check = found.gradient_check
    loaded = tg.Explanation.load(found.save(tmp_path / "e.safetensors")).gradient_check
    part = found[[5, 2]].gradient_check
    for name in (field.name for field in fields(GradientCheck)):
        whole, exact = getattr(check, name), {"rtol": 0, "atol": 0, "equal_nan": True}
        torch.testing.assert_close(getattr(loaded, name), whole, **exact)
        torch.testing.assert_close(getattr(part, name), whole[[5, 2]], **exact)
    assert repr(check) == "GradientCheck(wrong in 8 of 8 series)"
    plain = replace(found, gradient_check=None)
    assert tg.Explanation.load(plain.save(tmp_path / "old.safetensors")).gradient_check is None
    with pytest.raises(InputError, match=r"gradient_check must have shape \(2,\), got \(8,\)"):
        replace(found[:2], gradient_check=check).verify()


def test_it_depends_on_the_series_alone_and_not_on_batches():
    x = inputs()
    for name in ("detached", "threshold at 0"):
        line = [explain(WRONG[name], part, "integrated_gradients").gradient_check for part in (x, x[3:4])]
        torch.testing.assert_close(line[0].nearby[3:4], line[1].nearby, rtol=1e-2, atol=1e-2)
        whole = explain(WRONG[name], x, "timing").gradient_check
        alone = explain(WRONG[name], tg.Series(x[3:4], ids=[3]), "timing").gradient_check
        torch.testing.assert_close(alone.gap, whole.gap[3:4], rtol=1e-3, atol=1e-4)
        for batch_size in (1, 7) if name == "detached" else (120,):
            part = explain(WRONG[name], x, "timing", batch_size=batch_size).gradient_check
            assert (
                torch.equal(part.failed, whole.failed) or batch_size == 1
            )  # one point at a time has no neighbours
            torch.testing.assert_close(part.seen, whole.seen)
            torch.testing.assert_close(part.jump, whole.jump)


@FALLS_BACK
def test_coarse_numbers_raise_no_alarm():
    model, x = smooth(TIME, CHANNELS), series(20, TIME, CHANNELS)
    for options in ({"precision": "bf16"}, {}):
        found = tg.explain(model, x, **options)
        assert not found.gradient_check.failed.any()
    for dtype in (torch.bfloat16, torch.float64):
        assert not tg.explain(smooth(TIME, CHANNELS).to(dtype), x).gradient_check.failed.any()


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}, {"draws": 2}])
def test_a_warning_of_torch_itself_changes_nothing(options, monkeypatch):
    """As on processors that lack products of bfloat16: torch warns, and takes another way."""
    torch.manual_seed(0)
    drawing = (
        nn.Sequential(smooth(TIME, CHANNELS).float(), Drawn()) if "draws" in options else smooth(TIME, CHANNELS)
    )
    x, linear_layer, text = (
        series(6, TIME, CHANNELS),
        nn.functional.linear,
        "mkldnn_matmul failed (Triggered internally at",
    )
    plain = tg.explain(drawing, x, **options)

    def warning(*given):
        warnings.warn(text, UserWarning, stacklevel=2)
        return linear_layer(*given)

    monkeypatch.setattr(nn.functional, "linear", warning)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = tg.explain(drawing, x, **options)
    assert {str(each.message) for each in told} == {text}
    torch.testing.assert_close(found.values, plain.values, rtol=1e-4, atol=1e-6)
    assert found.verdict() == plain.verdict()


def test_series_far_from_0_raise_no_alarm():
    """An offset of 10,000 leaves three digits of each value."""
    x = inputs(20) + 1e4
    found = explain(lambda z: linear(TIME, CHANNELS)(z - 1e4), x, "timing", baseline=torch.tensor(1e4))
    assert not found.gradient_check.failed.any()


def test_how_many_rows_and_passes_it_costs():
    """Three rows a series are read beside the points, and far ends, a twelfth of them: many without a gradient."""
    sizes = []

    def model(z):
        sizes.append(len(z))
        return z.sum((1, 2))[:, None]

    def passes(count, method, *, check):
        sizes.clear()
        explain(model, inputs(count), method, gradient_check=check, batch_size=1000)
        return sizes.copy()

    for method, riding, apart in (("timing", 1, 4), ("rand_ig", 1, 4), ("integrated_gradients", 3, 0)):
        for count in (2, 8):
            plain, checked = passes(count, method, check=False), passes(count, method, check=True)
            assert plain[0] == count * (50 + 2)
            read = count * (2 + riding + apart)
            first = [count * 50 + read] if read < APART else [read, count * 50]
            assert checked == [*first, *plain[1:]]
