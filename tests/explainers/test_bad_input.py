"""Every mistake gets one sentence that says what to do."""

import inspect
import re

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import (
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
    "rank two": (lambda: tg.explain(MODEL, X[0]), InputError),
    "rank four": (lambda: tg.explain(MODEL, X[None]), InputError),
    "a list": (lambda: tg.explain(MODEL, X[0, 0].tolist()), InputError),
    "NaN": (lambda: tg.explain(MODEL, HOLE), InputError),
    "NaN that was observed": (
        lambda: tg.explain(MODEL, tg.Series(HOLE, mask=torch.ones_like(HOLE))),
        InputError,
    ),
    "infinity": (lambda: tg.explain(MODEL, ENDLESS), InputError),
    "integers": (lambda: tg.explain(MODEL, X.long()), InputError),
    "integers from numpy": (lambda: tg.explain(MODEL, np.zeros((2, 6, 2), int)), InputError),
    "no series": (lambda: tg.explain(MODEL, X[:0]), InputError),
    "no steps": (lambda: tg.explain(MODEL, X[:, :0]), InputError),
    "layout": (lambda: tg.explain(MODEL, tg.Series(X, layout="TBD")), InputError),
    "method": (lambda: tg.explain(MODEL, X, "timming"), UnknownNameError),
    "method, for short": (lambda: tg.explain(MODEL, X, "IG"), UnknownNameError),
    "method, capitals": (lambda: tg.explain(MODEL, X, "Gradient-SHAP"), UnknownNameError),
    "nothing like it": (lambda: tg.explain(MODEL, X, "zzz"), UnknownNameError),
    "option": (lambda: tg.explain(MODEL, X, n_sampels=3), UnknownNameError),
    "no method": (lambda: tg.explain(MODEL, X, 3), InputError),
    "output": (lambda: tg.explain(MODEL, X, output="logit"), InputError),
    "target too large": (lambda: tg.explain(MODEL, X, target=3), InputError),
    "target negative": (lambda: tg.explain(MODEL, X, target=-1), InputError),
    "target per series": (lambda: tg.explain(MODEL, X, target=[0, 1]), InputError),
    "target real": (lambda: tg.explain(MODEL, X, target=0.5), InputError),
    "target bool": (lambda: tg.explain(MODEL, X, target=True), InputError),
    "target function": (lambda: tg.explain(MODEL, X, target=lambda y: y), InputError),
    "target and steps": (lambda: tg.explain(MODEL, X, target=torch.sum, steps=1), InputError),
    "max_length": (lambda: tg.explain(MODEL, X, max_length=7), SettingError),
    "min_length": (lambda: tg.explain(MODEL, X, min_length=7), SettingError),
    "min above max": (lambda: tg.Timing(min_length=5, max_length=3), SettingError),
    "always held": (
        lambda: tg.explain(MODEL, X[..., :1], segments=3, min_length=4, max_length=5),
        SettingError,
    ),
    "no points": (lambda: tg.Timing(n_samples=0), InputError),
    "points real": (lambda: tg.IntegratedGradients(n_steps=2.5), InputError),
    "segments": (lambda: tg.Timing(segments=-1), InputError),
    "anchored": (lambda: tg.Timing(anchored=1.0), SettingError),
    "p": (lambda: tg.RandIG(p=0), SettingError),
    "rule": (lambda: tg.IntegratedGradients(rule="simpson"), SettingError),
    "noise": (lambda: tg.GradientShap(noise=-1), SettingError),
    "pool": (
        lambda: tg.explain(MODEL, X, "gradient_shap", background=X[:, :3]),
        InputError,
    ),
    "baseline shape": (lambda: tg.explain(MODEL, X, baseline=torch.zeros(5, 1, 1)), InputError),
    "baseline name": (lambda: tg.explain(MODEL, X, baseline="mean"), InputError),
    "baseline NaN": (lambda: tg.explain(MODEL, X, baseline=float("nan")), InputError),
    "mask shape": (lambda: tg.explain(MODEL, tg.Series(X, mask=torch.ones(4, 6))), InputError),
    "mask values": (lambda: tg.explain(MODEL, tg.Series(X, mask=torch.full_like(X, 2))), InputError),
    "ids twice": (lambda: tg.explain(MODEL, tg.Series(X, ids=[1, 2, 2, 3])), InputError),
    "ids too few": (lambda: tg.explain(MODEL, tg.Series(X, ids=[1, 2])), InputError),
    "ids real": (lambda: tg.explain(MODEL, tg.Series(X, ids=[0.0, 1.0, 2.0, 3.0])), InputError),
    "seed": (lambda: tg.explain(MODEL, X, seed=1.5), InputError),
    "batch_size": (lambda: tg.explain(MODEL, X, batch_size=0), InputError),
    "channels": (lambda: tg.explain(MODEL, tg.Series(X, channels=["a"])), InputError),
    "NaN from the model": (lambda: tg.explain(Broken(), X), ModelError),
    "NaN from the model, random": (lambda: tg.explain(Broken(), X, "random"), ModelError),
    "NaN on the path": (
        lambda: tg.explain(Steep(), torch.zeros(2, 6, 2), output="raw"),
        ModelError,
    ),
    "probabilities": (lambda: tg.explain(nn.Sequential(MODEL, nn.Softmax(-1)), X), ModelError),
    "no gradient": (lambda: tg.explain(Shy(), X), ModelError),
    "tuple from the model": (lambda: tg.explain(lambda x: (x, x), X), ModelError),
    "scalar from the model": (lambda: tg.explain(lambda x: x.sum(), X, batch_size=8), ModelError),
    "wrong rows": (lambda: tg.explain(lambda x: x[:-1, 0], X, batch_size=8), ModelError),
    "other outputs": (lambda: tg.explain(lambda x: x[:, :3], X, output="probability"), ModelError),
    "k": (lambda: tg.evaluate(MODEL, tg.explain(MODEL, X), k=13), InputError),
    "metric": (
        lambda: tg.evaluate(MODEL, tg.explain(MODEL, X), metrics=["cpds"]),
        UnknownNameError,
    ),
    "data set": (lambda: tg.load_dataset("sate"), UnknownNameError),
    "model": (lambda: tg.train("gur", tg.load_dataset("state")), UnknownNameError),
}  # fmt: skip


MANY = torch.zeros(5000, 6, 2)
MANY[4999, 5, 1] = torch.nan
STEPS = Recurrent(channels=2, per_step=True)


class Late(torch.nn.Module):
    """NaN for the first series only, which is not in the last block."""

    def forward(self, x):
        return torch.where((x[:, :1, 0] == X[0, 0, 0]), torch.nan, x.flatten(1)[:, :2])


CASES |= {
    "NaN far down": (lambda: tg.explain(MODEL, MANY), InputError),
    "ids bool": (lambda: tg.explain(MODEL, tg.Series(X[:2], ids=[True, False])), InputError),
    "ids twice, apart": (lambda: tg.explain(MODEL, tg.Series(X, ids=[2, 1, 3, 2])), InputError),
    "baseline bool": (lambda: tg.explain(MODEL, X, baseline=True), InputError),
    "points bool": (lambda: tg.Timing(n_samples=True), InputError),
    "target of one": (lambda: tg.explain(MODEL, X, target=[0]), InputError),
    "seed bool": (lambda: tg.explain(MODEL, X, seed=True), InputError),
    "steps real": (lambda: tg.explain(STEPS, X, steps=[1.0]), InputError),
    "steps none": (lambda: tg.explain(STEPS, X, steps=[]), InputError),
    "steps negative": (lambda: tg.explain(STEPS, X, steps=-1), InputError),
    "four axes": (lambda: tg.explain(tg.Predictor(lambda x: x[..., None], task="classification"), X), ModelError),
    "NaN in one block": (lambda: tg.explain(Late(), X, "random", batch_size=1), ModelError),
    "level": (lambda: tg.explain(MODEL, X).interval(1.0), InputError),
    "p above one": (lambda: tg.RandIG(p=1.5), SettingError),
    "noise NaN": (lambda: tg.GradientShap(noise=float("nan")), SettingError),
    "anchored negative": (lambda: tg.Timing(anchored=-0.1), SettingError),
    "moving": (lambda: tg.MaskingIG(torch.ones(5, 2))(MODEL, X), InputError),
    "one sample": (lambda: tg.Lime(n_samples=1), InputError),
    "no penalty": (lambda: tg.Lime(alpha=0), SettingError),
    "endless width": (lambda: tg.Lime(width=float("inf")), SettingError),
    "relative": (lambda: tg.Lime(relative=1), SettingError),
    "distance": (lambda: tg.Lime(distance="cosine"), SettingError),
    "no module": (lambda: tg.DeepLift()(lambda x: x.flatten(1), X), InputError),
    "no graph for DeepLIFT": (lambda: tg.DeepLift()(Shy(), X), ModelError),
    "option of an explainer": (lambda: tg.explain(MODEL, X, tg.Timing(), n_samples=3), InputError),
    "target text": (lambda: tg.explain(MODEL, X, target="a"), InputError),
    "target complex": (lambda: tg.explain(MODEL, X, target=1j), InputError),
    "ids text twice": (lambda: tg.Series(X, ids=["a", "b", "c", "a"]), InputError),
    "too few ids": (lambda: tg.Series(X, ids=["a", "b"]), InputError),
    "ids without text": (lambda: tg.explain(MODEL, tg.Series(X, ids=[None] * 4)), InputError),
    "baseline text": (lambda: tg.explain(MODEL, X, baseline=["a"]), InputError),
    "steps text": (lambda: tg.explain(STEPS, X, steps=["a"]), InputError),
    "steps array": (lambda: tg.explain(MODEL, X, steps=np.array([1, 2])), InputError),
    "noise text": (lambda: tg.GradientShap(noise="1"), InputError),
    "p text": (lambda: tg.RandIG(p="1"), InputError),
    "flat mask": (lambda: tg.explain(MODEL, tg.Series(X, mask=torch.ones(4, 6), layout="BDT")), InputError),
    "masking rule": (lambda: tg.MaskingIG(1, rule="simpson"), SettingError),
    "absolute": (lambda: tg.Occlusion(absolute=1), SettingError),
    "samples": (lambda: tg.AugmentedOcclusion(n_samples=0), InputError),
    "marginal": (lambda: tg.AugmentedOcclusion(marginal="all"), SettingError),
    "over": (lambda: tg.AugmentedOcclusion(over="classes"), SettingError),
    "no training series": (lambda: tg.explain(MODEL, X, "augmented_occlusion"), InputError),
    "shorter training series": (
        lambda: tg.explain(MODEL, X, "occlusion", background=X[:, :3]),
        InputError,
    ),
    "narrower training series": (
        lambda: tg.AugmentedOcclusion().fit(MODEL, X[..., :1])(MODEL, X),
        InputError,
    ),
    "no model": (lambda: tg.explain(None, X), InputError),
    "a class": (lambda: tg.explain(nn.Linear, X), InputError),
    "a whole array": (
        lambda: tg.explain(MODEL, X, baseline=np.full((400, 400), "a")),
        InputError,
    ),
    "pool as option": (lambda: tg.explain(MODEL, X, "gradient_shap", pool=X), UnknownNameError),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_says_what_to_do(case, said):
    call, kind = CASES[case]
    assert issubclass(kind, TempogradError)
    message = said.refused(kind, call)
    assert message.endswith(".")
    assert "\n" not in message


def test_an_index_is_one_series():
    found = tg.explain(MODEL, tg.Series(X, ids=list("abcd")))
    assert (len(found[2]), found[2].names, found[-1].names) == (1, ("c",), ("d",))
    assert torch.equal(found[2].ids, found.ids[2:3])
    assert torch.equal(found[2].values, found.values[2:3])
    for place in (4, -5):
        with pytest.raises(InputError, match=rf"rows must be positions in 0 … 3, .*, got \[{place}\]"):
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
        tg.explain(tg.Predictor(model, task="classification"), X, "random")


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
    assert re.search(r"equal to input_size.*2, got 6; tg\.Series\(layout=\) is the order", str(caught.value))
    assert isinstance(caught.value.__cause__, RuntimeError)


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


@pytest.mark.usefixtures("little_to_collect")
def test_memory_that_runs_out_in_the_first_pass_halves_the_pass():
    def model(x):
        if len(x) > 8:
            raise torch.OutOfMemoryError("out of memory: tensor of size 9")
        return MODEL(x)

    torch.testing.assert_close(tg.explain(model, X).values, tg.explain(MODEL, X).values)


def test_our_own_models_name_the_channels_and_not_the_batch():
    model = build("gru", 2, 3, hidden=4)
    turned = r"\(batch, time, 2\), got \(batch, 2, 6\): if channels come first, .*'BDT'"
    with pytest.raises(InputError, match=turned):
        tg.explain(model, X.mT)
    with pytest.raises(InputError, match=r"\(batch, time, 2\), got \(batch, 6, 3\)"):
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


def test_numpy_numbers_can_be_saved(tmp_path):
    found = tg.explain(MODEL, tg.Series(X, ids=np.arange(4)), n_samples=np.int64(30), seed=np.int64(3))
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    assert (loaded.parameters["n_samples"], loaded.seed) == (30, 3)
    assert loaded[np.int64(2)].ids.tolist() == [2]


def test_the_pool_has_a_layout_of_its_own():
    x, pool = series(3, 6, 6), series(8, 6, 6, seed=1)
    model = linear(6, 6)
    plain = tg.explain(model, x, "gradient_shap", background=pool).values
    given, others = (tg.Series(part.mT, layout="BDT") for part in (x, pool))
    turned = tg.explain(model, given, "gradient_shap", background=others).values
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
    with pytest.raises(ModelError, match=r"numpy arrays, which have no gradient: .* occlusion or lime"):
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
    small = lambda z: (z / 3e38).sum(1)  # noqa: E731
    assert (tg.explain(small, x, "occlusion", output="raw").values - 1).abs().max() < 1e-5
    x[1, 2, 0] = torch.inf
    with pytest.raises(InputError, match="x holds infinity"):
        tg.explain(small, x, "occlusion", output="raw")
