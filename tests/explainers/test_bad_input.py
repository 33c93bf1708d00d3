"""Every mistake gets one sentence that says what to do."""

import inspect
import re

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd._utils import validation
from tempograd.errors import (
    InputError,
    ModelError,
    SettingError,
    TempogradError,
    TempogradWarning,
    UnknownNameError,
)
from tempograd.models import build
from tests.helpers.methods import explained
from tests.helpers.models import Recurrent, linear, series

X = series(4, 6, 2)
MODEL = linear(6, 2)
HOLE = X.clone()
HOLE[1, 2, 0] = torch.nan
ENDLESS = X.clone()
ENDLESS[1, 2, 0] = torch.inf


class Broken(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :2] * torch.nan


class Shy(nn.Module):
    def forward(self, x):
        return x.detach().flatten(1)[:, :2]


class Steep(nn.Module):
    """Finite everywhere, with an infinite slope at 0."""

    def forward(self, x):
        return x.clamp(min=0).sqrt().flatten(1)[:, :2]


CASES = {
    "rank two": (lambda: tg.explain(MODEL, X[0]), InputError, r"x\[None\]"),
    "rank four": (lambda: tg.explain(MODEL, X[None]), InputError, r"\(batch, time, channel\)"),
    "a list": (lambda: tg.explain(MODEL, X.tolist()), InputError, "tensor or a numpy array"),
    "NaN": (lambda: tg.explain(MODEL, HOLE), InputError, "pass mask="),
    "NaN under the mask": (
        lambda: tg.explain(MODEL, HOLE, mask=~HOLE.isnan()),
        InputError,
        "cells that mask= leaves out must hold a number too",
    ),
    "infinity": (lambda: tg.explain(MODEL, ENDLESS), InputError, "x holds infinity: put a number there"),
    "integers": (lambda: tg.explain(MODEL, X.long()), InputError, r"x\.float\(\)"),
    "integers from numpy": (lambda: tg.explain(MODEL, np.zeros((2, 6, 2), int)), InputError, r"x\.float\(\)"),
    "no series": (lambda: tg.explain(MODEL, X[:0]), InputError, "at least one series"),
    "no steps": (lambda: tg.explain(MODEL, X[:, :0]), InputError, "empty"),
    "layout": (lambda: tg.explain(MODEL, X, layout="TBD"), InputError, "'BTD' or 'BDT'"),
    "method": (lambda: tg.explain(MODEL, X, "timming"), UnknownNameError, "Did you mean 'timing'"),
    "method, for short": (lambda: tg.explain(MODEL, X, "IG"), UnknownNameError, "mean 'integrated_gradients'"),
    "method, capitals": (lambda: tg.explain(MODEL, X, "Gradient-SHAP"), UnknownNameError, "mean 'gradient_shap'"),
    "nothing like it": (lambda: tg.explain(MODEL, X, "zzz"), UnknownNameError, r"called 'zzz'\. Known names: "),
    "option": (lambda: tg.explain(MODEL, X, n_sampels=3), UnknownNameError, "Did you mean 'n_samples'"),
    "no method": (lambda: tg.explain(MODEL, X, 3), InputError, "a name or an explainer"),
    "output": (lambda: tg.explain(MODEL, X, output="logit"), InputError, "'probability' or 'raw'"),
    "target too large": (lambda: tg.explain(MODEL, X, target=3), InputError, "target 3 is out of range.*0 to 2"),
    "target negative": (lambda: tg.explain(MODEL, X, target=-1), InputError, "target -1 is out of range"),
    "target per series": (lambda: tg.explain(MODEL, X, target=[0, 1]), InputError, r"shape \(4,\)"),
    "target real": (lambda: tg.explain(MODEL, X, target=0.5), InputError, "integers"),
    "target bool": (lambda: tg.explain(MODEL, X, target=True), InputError, "bool"),
    "target function": (lambda: tg.explain(MODEL, X, target=lambda y: y), InputError, "one score per series"),
    "target and steps": (lambda: tg.explain(MODEL, X, target=torch.sum, steps=1), InputError, "in the function"),
    "max_length": (lambda: tg.explain(MODEL, X, max_length=7), SettingError, "series of 6 steps: pass at most 6"),
    "min_length": (lambda: tg.explain(MODEL, X, min_length=7), SettingError, "min_length=7 does not fit"),
    "min above max": (lambda: tg.Timing(min_length=5, max_length=3), SettingError, "above max_length=3"),
    "always held": (
        lambda: tg.explain(MODEL, X[..., :1], segments=3, min_length=4, max_length=5),
        SettingError,
        "hold step 2.*try segments=2, min_length=1, max_length=2",
    ),
    "no points": (lambda: tg.Timing(n_samples=0), InputError, "n_samples must be at least 1"),
    "points real": (lambda: tg.IntegratedGradients(n_steps=2.5), InputError, "n_steps must be an integer"),
    "segments": (lambda: tg.Timing(segments=-1), InputError, "segments must be at least 0"),
    "anchored": (lambda: tg.Timing(anchored=1.0), SettingError, "between 0 and 0.95"),
    "p": (lambda: tg.RandIG(p=0), SettingError, "p must be above 0 and at most 1, got 0"),
    "rule": (lambda: tg.IntegratedGradients(rule="simpson"), SettingError, "'gauss-legendre' or 'midpoint'"),
    "noise": (lambda: tg.GradientShap(noise=-1), SettingError, "negative"),
    "pool": (
        lambda: tg.explain(MODEL, X, "gradient_shap", background=X[:, :3]),
        InputError,
        r"shape \(3, 2\).*\(6, 2\)",
    ),
    "baseline shape": (lambda: tg.explain(MODEL, X, baseline=torch.zeros(5, 1, 1)), InputError, "broadcast to x"),
    "baseline name": (lambda: tg.explain(MODEL, X, baseline="mean"), InputError, "'zero', 'average' or a tensor"),
    "baseline NaN": (lambda: tg.explain(MODEL, X, baseline=float("nan")), InputError, "baseline holds NaN"),
    "mask shape": (lambda: tg.explain(MODEL, X, mask=torch.ones(4, 6)), InputError, "shape of x"),
    "mask values": (lambda: tg.explain(MODEL, X, mask=torch.full_like(X, 2)), InputError, "1 .observed. and 0"),
    "ids twice": (lambda: tg.explain(MODEL, X, ids=[1, 2, 2, 3]), InputError, "but 2 occurs more than once"),
    "ids too few": (lambda: tg.explain(MODEL, X, ids=[1, 2]), InputError, "each of the 4 series once"),
    "ids real": (lambda: tg.explain(MODEL, X, ids=[0.0, 1.0, 2.0, 3.0]), InputError, "ids must be integers"),
    "seed": (lambda: tg.explain(MODEL, X, seed=1.5), InputError, "seed must be an integer"),
    "batch_size": (lambda: tg.explain(MODEL, X, batch_size=0), InputError, "batch_size must be at least 1"),
    "channels": (lambda: tg.explain(MODEL, X, channels=["a"]), InputError, "channels must have 2 entries"),
    "NaN from the model": (lambda: tg.explain(Broken(), X), ModelError, "returned NaN or infinity"),
    "NaN from the model, random": (lambda: tg.explain(Broken(), X, "random"), ModelError, "returned NaN"),
    "NaN on the path": (
        lambda: tg.explain(Steep(), torch.zeros(2, 6, 2), output="raw"),
        ModelError,
        "on the path",
    ),
    "probabilities": (lambda: tg.explain(nn.Sequential(MODEL, nn.Softmax(-1)), X), ModelError, "output='raw'"),
    "no gradient": (lambda: tg.explain(Shy(), X), ModelError, "needs no gradient"),
    "tuple from the model": (lambda: tg.explain(lambda x: (x, x), X), ModelError, "returns the tensor"),
    "scalar from the model": (lambda: tg.explain(lambda x: x.sum(), X), ModelError, "one row per series"),
    "wrong rows": (lambda: tg.explain(lambda x: x[:-1, 0], X), ModelError, "one row per series"),
    "other outputs": (lambda: tg.explain(lambda x: x[:, :3], X), ModelError, "with 6 steps"),
    "k": (lambda: tg.evaluate(MODEL, tg.explain(MODEL, X), k=13), InputError, "13"),
    "metric": (
        lambda: tg.evaluate(MODEL, tg.explain(MODEL, X), metrics=["cpds"]),
        UnknownNameError,
        "Did you mean 'cpd'",
    ),
    "data set": (lambda: tg.load_dataset("sate"), UnknownNameError, "Did you mean 'state'"),
    "model": (lambda: tg.train("gur", tg.load_dataset("state")), UnknownNameError, "Did you mean 'gru'"),
}  # fmt: skip


MANY = torch.zeros(5000, 6, 2)
MANY[4999, 5, 1] = torch.nan
STEPS = Recurrent(channels=2, per_step=True)


class Late(torch.nn.Module):
    """NaN for the first series only, which is not in the last block."""

    def forward(self, x):
        return torch.where((x[:, :1, 0] == X[0, 0, 0]), torch.nan, x.flatten(1)[:, :2])


CASES |= {
    "NaN far down": (lambda: tg.explain(MODEL, MANY), InputError, "pass mask="),
    "ids bool": (lambda: tg.explain(MODEL, X[:2], ids=[True, False]), InputError, "ids must be integers"),
    "ids twice, apart": (lambda: tg.explain(MODEL, X, ids=[2, 1, 3, 2]), InputError, "2 occurs more than once"),
    "baseline bool": (lambda: tg.explain(MODEL, X, baseline=True), InputError, "baseline must hold numbers"),
    "points bool": (lambda: tg.Timing(n_samples=True), InputError, "n_samples must be an integer"),
    "target of one": (lambda: tg.explain(MODEL, X, target=[0]), InputError, r"shape \(4,\)"),
    "seed bool": (lambda: tg.explain(MODEL, X, seed=True), InputError, "seed must be an integer"),
    "steps real": (lambda: tg.explain(STEPS, X, steps=[1.0]), InputError, "steps must be an integer or a list"),
    "steps none": (lambda: tg.explain(STEPS, X, steps=[]), InputError, "steps must be an integer or a list"),
    "steps negative": (lambda: tg.explain(STEPS, X, steps=-1), InputError, "0 … 5"),
    "four axes": (lambda: tg.explain(lambda x: x[..., None], X), ModelError, "pass a function as target"),
    "NaN in one block": (lambda: tg.explain(Late(), X, "random", batch_size=1), ModelError, "returned NaN"),
    "level": (lambda: tg.explain(MODEL, X).interval(1.0), InputError, "between 0 and 1"),
    "p above one": (lambda: tg.RandIG(p=1.5), SettingError, "at most 1"),
    "noise NaN": (lambda: tg.GradientShap(noise=float("nan")), SettingError, "must be finite and not negative"),
    "anchored negative": (lambda: tg.Timing(anchored=-0.1), SettingError, "between 0 and 0.95"),
    "moving": (lambda: tg.MaskingIG(torch.ones(5, 2))(MODEL, X), InputError, "active must broadcast"),
    "one sample": (lambda: tg.Lime(n_samples=1), InputError, "samples must be at least 2"),
    "no penalty": (lambda: tg.Lime(alpha=0), SettingError, "alpha must be a finite number above 0"),
    "endless width": (lambda: tg.Lime(width=float("inf")), SettingError, "width must be a finite number above 0"),
    "relative": (lambda: tg.Lime(relative=1), SettingError, "relative must be True or False"),
    "distance": (lambda: tg.Lime(distance="cosine"), SettingError, "'kept' or 'series'"),
    "no module": (lambda: tg.DeepLift()(lambda x: x.flatten(1), X), ModelError, "needs the nn.Module itself"),
    "no graph for DeepLIFT": (lambda: tg.DeepLift()(Shy(), X), ModelError, "does not depend on its input"),
    "option of an explainer": (lambda: tg.explain(MODEL, X, tg.Timing(), n_samples=3), InputError, "it when the"),
    "target text": (lambda: tg.explain(MODEL, X, target="a"), InputError, "target must hold numbers"),
    "target complex": (lambda: tg.explain(MODEL, X, target=1j), InputError, "target must hold real numbers"),
    "ids text": (
        lambda: tg.explain(MODEL, X, ids=["pump-00", "b", "c", "d"]),
        InputError,
        "ids must hold whole numbers, got 'pump-00'; pass text names as names=",
    ),
    "ids without text": (lambda: tg.explain(MODEL, X, ids=[None] * 4), InputError, "ids must hold numbers"),
    "baseline text": (lambda: tg.explain(MODEL, X, baseline=["a"]), InputError, "baseline must hold numbers"),
    "steps text": (lambda: tg.explain(STEPS, X, steps=["a"]), InputError, "steps must hold numbers"),
    "steps array": (lambda: tg.explain(MODEL, X, steps=np.array([1, 2])), InputError, "one output per time step"),
    "noise text": (lambda: tg.GradientShap(noise="1"), InputError, "noise must be a number"),
    "p text": (lambda: tg.RandIG(p="1"), InputError, "p must be a number"),
    "flat mask": (lambda: tg.explain(MODEL, X, mask=torch.ones(4, 6), layout="BDT"), InputError, "shape of x"),
    "masking rule": (lambda: tg.MaskingIG(1, rule="simpson"), SettingError, "'gauss-legendre' or 'midpoint'"),
    "absolute": (lambda: tg.Occlusion(absolute=1), SettingError, "absolute must be True or False, got 1"),
    "samples": (lambda: tg.AugmentedOcclusion(n_samples=0), InputError, "samples must be at least 1"),
    "marginal": (lambda: tg.AugmentedOcclusion(marginal="all"), SettingError, "'per_time' or 'pooled'"),
    "over": (lambda: tg.AugmentedOcclusion(over="classes"), SettingError, "'target' or 'all', got 'classes'"),
    "no training series": (lambda: tg.explain(MODEL, X, "augmented_occlusion"), InputError, "or pass background="),
    "shorter training series": (
        lambda: tg.explain(MODEL, X, "occlusion", background=X[:, :3]),
        InputError,
        r"shape \(3, 2\).*\(6, 2\): fit with",
    ),
    "narrower training series": (
        lambda: tg.AugmentedOcclusion().fit(MODEL, X[..., :1])(MODEL, X),
        InputError,
        r"shape \(6, 1\).*\(6, 2\): fit with",
    ),
    "too many nodes": (lambda: tg.IntegratedGradients(n_steps=5001), SettingError, "pass rule='midpoint'"),
    "no model": (lambda: tg.explain(None, X), InputError, "must be an nn.Module or a function.*but it is None"),
    "a class": (lambda: tg.explain(nn.Linear, X), InputError, "model is the class Linear: pass an object of it"),
    "a whole array": (
        lambda: tg.explain(MODEL, X, baseline=np.full((400, 400), "a")),
        InputError,
        r"^baseline must hold numbers, got text \(<U1\)\.$",
    ),
    "pool as option": (lambda: tg.explain(MODEL, X, "gradient_shap", pool=X), UnknownNameError, "pool"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_says_what_to_do(case):
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert isinstance(caught.value, TempogradError)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


def test_an_index_is_one_series():
    found = tg.explain(MODEL, X, names=list("abcd"))
    assert (len(found[2]), found[2].ids.tolist(), found[2].names, found[-1].ids.tolist()) == (1, [2], ("c",), [3])
    assert torch.equal(found[2].values, found.values[2:3])
    for place in (4, -5):
        with pytest.raises(InputError, match=f"There is no series {place}: the explanation holds 4"):
            found[place]


def test_rare_cells_are_announced_before_anything_runs():
    calls = []

    def model(x):
        calls.append(len(x))
        return MODEL(x)

    with pytest.warns(TempogradWarning, match="use n_samples=") as caught:
        tg.explain(model, X, n_samples=4)
    assert caught[0].filename == __file__
    with pytest.warns(TempogradWarning, match="larger p"):
        tg.explain(model, X, "rand_ig", n_samples=4, p=0.2)


def test_recurrent_models_in_training_mode_are_explained_in_evaluation_mode():
    x = series(5, 9, 3)
    trained, evaluated = Recurrent().train(), Recurrent().eval()
    torch.testing.assert_close(tg.explain(trained, x).values, tg.explain(evaluated, x).values)


def test_series_that_require_gradients_are_explained_like_others():
    x = X.clone().requires_grad_()
    found = tg.explain(MODEL, x, "integrated_gradients")
    assert not found.values.requires_grad
    assert not found.x.requires_grad
    assert x.grad is None


def test_numpy_integers_are_integers():
    assert tg.Timing(n_samples=np.int64(20)) == tg.Timing(n_samples=20)


def test_logits_that_happen_to_sum_to_one_are_no_probabilities():
    def signed(x):
        first = x.flatten(1)[:, :1] * 10 + 3
        return torch.cat([first, 1 - first], 1)

    def one_row(x):
        return x.flatten(1)[:, :2].abs() * torch.where(x[:, :1, 0] == X[0, 0, 0], 0, 1) + 0.5

    def one_column(x):
        return x.flatten(1)[:, :1] * 0 + 1

    for model in (signed, one_row, one_column):
        tg.explain(model, X, "random")


def test_a_recurrent_layer_hidden_in_a_function_is_named_as_the_problem():
    """What cuDNN says on a GPU when nobody could reach the layer to prepare it."""

    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.flatten(1)[:, :2]

        @staticmethod
        def backward(ctx, _):
            raise RuntimeError("cudnn RNN backward can only be called in training mode")

    with pytest.raises(ModelError, match=r"pass the nn\.Module itself"):
        tg.explain(Refuses.apply, X)


class Lstm(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0][:, -1]


lstm = Lstm(2, 3, batch_first=True)


@pytest.mark.parametrize("method", [name for name, kind in tg.EXPLAINERS.items() if not kind.needs_fit])
def test_swapped_axes_are_named_with_the_users_own_shape(method):
    """Seven series, of which only two go through the model at once."""
    x = series(7, 6, 2)
    with pytest.raises(ModelError, match=r"x of shape \(7, 2, 6\), read as \(batch, time, channel\)") as caught:
        explained(tg.EXPLAINERS[method](), lstm, x.mT, batch_size=2)
    assert re.search(r"must be equal to input_size.*2, got 6; if time .* pass layout='BDT'\.$", str(caught.value))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_layout_that_is_wrong_is_named_the_other_way_round():
    with pytest.raises(ModelError, match=r"\(4, 6, 2\), read as \(batch, channel, time\).*layout='BTD'"):
        tg.explain(lstm, X, layout="BDT")


def raises(error):
    def model(_):
        raise error

    return model


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no luck today"),
        ValueError("learning is over"),
        TypeError("unknown size"),
        KeyError("shape"),
        SettingError("a setting of size 3 is wrong."),
    ],
)
def test_other_errors_of_a_model_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught:
        tg.explain(raises(error), X)
    assert caught.value is error


def test_an_error_about_sizes_after_the_first_pass_stays_as_it_is():
    calls = []

    def model(x):
        calls.append(len(x))
        if len(calls) > 1:
            raise RuntimeError("the size of the world")
        return MODEL(x)

    with pytest.raises(RuntimeError, match=r"^the size of the world$"):
        tg.explain(model, X, "random", batch_size=2)


def test_memory_that_runs_out_in_the_first_pass_halves_the_pass():
    def model(x):
        if len(x) > 8:
            raise torch.OutOfMemoryError("out of memory: tensor of size 9")
        return MODEL(x)

    torch.testing.assert_close(tg.explain(model, X).values, tg.explain(MODEL, X).values)


def test_our_own_models_name_the_channels_and_not_the_chunk():
    model = build("gru", 2, 3, hidden=4)
    with pytest.raises(InputError, match=r"\(batch, time, 2\), got series of 2 steps and 6 channels: .*'BDT'"):
        tg.explain(model, X.mT)
    with pytest.raises(InputError, match=r"\(batch, time, 2\), got series of 6 steps and 3 channels\.$"):
        tg.explain(model, series(4, 6, 3))


def test_warnings_point_at_the_callers_line():
    for call in (
        lambda: tg.Timing(4)(MODEL, X),
        lambda: tg.RandIG(4, 0.2)(MODEL, X),
        lambda: tg.explain(MODEL, X, n_samples=4),
    ):
        with pytest.warns(TempogradWarning, match="use n_samples=") as caught:
            call()
        assert caught[0].filename == __file__


def test_steps_that_are_always_held_but_never_observed_do_not_matter():
    mask = torch.zeros(3, 5, 1)
    mask[:, 0] = mask[:, 4] = 1
    with pytest.warns(TempogradWarning, match="use n_samples="):
        found = tg.Timing(50, 1, 4, 4)(linear(5, 1), series(3, 5, 1), mask=mask)
    assert (found.values[:, [0, 4]] != 0).all()


def test_numpy_numbers_can_be_saved(tmp_path):
    found = tg.explain(MODEL, X, n_samples=np.int64(30), seed=np.int64(3), ids=np.arange(4))
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    assert (loaded.parameters["n_samples"], loaded.seed) == (30, 3)
    assert loaded[np.int64(2)].ids.tolist() == [2]


def test_the_pool_follows_the_layout():
    x, pool = series(3, 6, 6), series(8, 6, 6, seed=1)
    model = linear(6, 6)
    plain = tg.explain(model, x, "gradient_shap", background=pool).values
    turned = tg.explain(model, x.mT, "gradient_shap", background=pool.mT, layout="BDT").values
    torch.testing.assert_close(turned, plain)


def test_state_that_is_no_tensor_does_not_disturb_the_fingerprint():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"note": 1}

        def set_extra_state(self, state): ...

    model = nn.Sequential(nn.Flatten(), Extra(12, 3))
    assert tg.explain(model, X, "random").fingerprint.startswith("Sequential:")


def test_every_argument_of_the_call_is_in_the_help_of_explain():
    parameters = inspect.signature(tg.Explainer.__call__).parameters.values()
    expected = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} | {"background"}
    found = {p.name for p in inspect.signature(tg.explain).parameters.values() if p.kind is p.KEYWORD_ONLY}
    listed = re.findall(r"^    (\w+(?:, \w+)*) : ", tg.explain.__doc__, re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(listed))) - {"model", "x", "method"} == found == expected


def test_a_model_that_leaves_torch_is_told_which_methods_can_follow():
    rule = lambda z: torch.from_numpy(z.numpy()[:, 0])  # noqa: E731
    with pytest.raises(ModelError, match=r"numpy array, which has no gradient: .* occlusion or lime"):
        tg.explain(rule, X, output="raw")
    assert (tg.explain(rule, X, "occlusion", output="raw").values[:, 1:] == 0).all()


def test_training_series_of_another_width_are_refused_before_anything_is_learnt():
    with pytest.raises(InputError, match="The background series have 3 channels, x has 2"):
        tg.explain(MODEL, X, "winit", background=series(20, 6, 3))


def test_occlusion_says_what_it_replaced_values_by():
    train = series(5, 6, 2, seed=8)
    found = tg.explain(MODEL, X, "occlusion", background=train)
    torch.testing.assert_close(found.baseline[1], train.mean(0))


def test_large_numbers_are_finite_even_if_their_sum_is_not():
    x = torch.full((2, 3, 1), 3e38)
    assert validation.check_series(x) is not None
    x[1, 2, 0] = torch.inf
    with pytest.raises(InputError, match="x holds infinity"):
        validation.check_series(x)
