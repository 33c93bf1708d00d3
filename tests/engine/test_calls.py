"""Models as people have them: in other orders of axes, with answers in parts, estimators, functions of arrays.

Everything equals, to the bit, the same model in a small function written by hand, or a loop over numpy.
"""

import copy
from collections import namedtuple
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import tempograd as tg
from tempograd.engine import Call, fingerprint, owner, place
from tempograd.engine.model import modules_of
from tempograd.engine.predictor import as_model
from tests.helpers.models import series

TIME, CHANNELS = 9, 3
X = series(5, TIME, CHANNELS)
METHODS = {
    "timing": {"n_samples": 6},
    "integrated_gradients": {"n_steps": 4},
    "deep_lift": {},
    "occlusion": {},
    "lime": {"n_samples": 40},
}


class Net(nn.Module):
    """Channels first, with everything that training mode disturbs, and an answer in parts."""

    def __init__(self, answer=None):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm = nn.Conv1d(CHANNELS, 6, 3), nn.BatchNorm1d(6)
            self.act, self.drop, self.head = nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2)
        self.answer = answer

    def forward(self, z):
        hidden = self.drop(self.act(self.norm(self.conv(z)))).mean(2)
        logits = self.head(hidden)
        return logits if self.answer is None else self.answer(logits, hidden)

    def scores(self, z):
        return {"hidden": z, "logits": self(z)}


class Recurrent(nn.Module):
    """Time first, as torch's recurrent layers are."""

    def __init__(self, *, per_step=False):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru, self.head = nn.GRU(CHANNELS, 4), nn.Linear(4, 2)
        self.per_step = per_step
        self.tempograd_task = "per_step" if per_step else "classification"

    def forward(self, z):
        out = self.head(self.gru(z)[0])
        return out if self.per_step else out[-1]


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: torch.Tensor
    loss: float | None = None


@dataclass(slots=True)
class Slotted:
    logits: torch.Tensor
    hidden: torch.Tensor


Pair = namedtuple("Pair", "logits hidden")
ANSWERS = {  # what the model makes of logits and hidden, and what picks the logits
    "dict": (lambda y, h: {"loss": None, "logits": y, "hidden": h}, "logits"),
    "tuple": (lambda y, h: (h, y), 1),
    "from the end": (lambda y, h: [h, y], -1),
    "dataclass": (Answer, "logits"),
    "dataclass with slots": (Slotted, "logits"),
    "named tuple": (Pair, "logits"),
    "place in a named tuple": (lambda y, h: (h, Pair(y, h)), "1.logits"),
    "attributes": (lambda y, h: SimpleNamespace(logits=y, hidden=h), "logits"),
    "property": (lambda y, h: torch.distributions.Normal(y, y.exp()), "mean"),
    "nested": (lambda y, h: {"a": {"b": y, "c": h}, "d": 1}, "a.b"),
    "name with a dot": (lambda y, h: {"a.b": y, "a": {"b": h}}, "a.b"),
}


def around(net):
    def call(z):
        return net(z)

    return call


class Turned(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, z):
        return self.net(z.mT)


def turned(net):
    return lambda z: net(z.transpose(1, 2))


@pytest.mark.parametrize("method", METHODS)
def test_channels_first_is_the_function_by_hand_to_the_bit(method):
    net = Net().train()
    before = copy.deepcopy(net.state_dict())
    found = tg.explain(tg.Predictor(net, layout="BDT"), X, method, **METHODS[method])
    by_hand = tg.Predictor(lambda z: net(z.transpose(1, 2).contiguous()), modules=[net])
    expected = tg.explain(by_hand, X, method, **METHODS[method])
    assert expected.values.abs().max() > 0
    assert torch.equal(found.values, expected.values)
    assert net.training
    assert net.drop.training
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    assert found.fingerprint == fingerprint(net)()


def test_data_and_model_with_channels_first_need_a_word_each():
    net = Net()
    found = tg.explain(tg.Predictor(net, layout="BDT"), tg.Series(X.transpose(1, 2), layout="BDT"), n_samples=6)
    assert torch.equal(found.values, tg.explain(turned(net), X, n_samples=6).values)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("kind", ["module", "function"])
def test_a_picked_part_is_the_function_by_hand_to_the_bit(name, kind):
    answer, pick = ANSWERS[name]
    net, plain = Net(answer), Net()
    model = net if kind == "module" else around(net)
    found = tg.explain(tg.Predictor(model, layout="BDT", pick=pick), X, n_samples=6)
    assert torch.equal(found.values, tg.explain(turned(plain), X, n_samples=6).values)
    expected = tg.explain(turned(plain), X, "occlusion")
    assert torch.equal(
        tg.explain(tg.Predictor(model, layout="BDT", pick=pick), X, "occlusion").values, expected.values
    )


def test_a_method_of_a_module_is_called_the_same_way():
    net = Net()
    found = tg.explain(tg.Predictor(net.scores, layout="BDT", pick="logits"), X, n_samples=6)
    assert torch.equal(found.values, tg.explain(turned(net), X, n_samples=6).values)


def test_the_only_output_needs_no_pick():
    plain = Net()
    for answer in (
        lambda y, h: {"loss": None, "logits": y, "steps": torch.arange(len(y)), "norm": h.norm()},
        lambda y, h: (y, None, "text", h.T),
        lambda y, h: Answer(y, None),
    ):
        found = tg.explain(turned(Net(answer)), X, n_samples=6)
        assert torch.equal(found.values, tg.explain(turned(plain), X, n_samples=6).values)


def test_an_answer_in_parts_of_any_size_is_explained():
    """Very large scores are explained in another unit."""
    weight = series(1, TIME * CHANNELS, 1)[0]

    def large(z):
        return 1e20 * (z.flatten(1) @ weight).tanh()

    found = tg.explain(lambda z: {"height": large(z)}, X, n_samples=6, output="raw")
    expected = tg.explain(large, X, n_samples=6, output="raw")
    assert expected.values.abs().max() > 1e12
    assert torch.equal(found.values, expected.values)


REFUSED_PICKS = {
    "several": (lambda y, h: {"logits": y, "hidden": h}, None),
    "several in an object": (Answer, None),
    "none": (lambda y, h: {"labels": y.argmax(-1), "loss": 0.5}, None),
    "not there": (lambda y, h: {"logits": y, "hidden": h, "loss": None}, "prediction_logits"),
    "place not there": (lambda y, h: (y, h), 2),
    "path not there": (lambda y, h: {"a": {"b": y}}, "a.c"),
    "None": (lambda y, h: {"logits": y, "loss": None}, "loss"),
    "holds several": (lambda y, h: {"logits": y, "states": (h, h)}, "states"),
    "of a tensor": (None, "logits"),
}


@pytest.mark.parametrize("name", REFUSED_PICKS)
def test_what_cannot_be_picked_is_said_with_what_there_is(name, said):
    answer, pick = REFUSED_PICKS[name]
    said.refused(tg.TempogradError, tg.explain, tg.Predictor(Net(answer), pick=pick, layout="BDT"), X)


@pytest.mark.parametrize("wrong", [{"pick": True}, {"pick": 1.5}, {"layout": "TDB"}, {"layout": None}], ids=repr)
def test_words_that_no_predictor_has(wrong, said):
    said.refused(tg.TempogradError, tg.Predictor, Net(), **wrong)


def test_a_plain_call_is_the_model_itself():
    net = Net()
    for model in (net, net.scores, turned(net)):
        assert Call().adapt(model) is model
    adapted = Call(model_layout="BDT").adapt(turned(net.double()))
    assert modules_of(adapted) == [net]
    assert place(adapted, X)[1] == torch.float64
    assert owner(Call(pick=0).adapt(net)) is net


# Time first


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, TIME])
def test_time_first_is_the_function_by_hand(rows, per_step):
    """Also where the batch is as long as the series, or has as many rows as there are classes."""
    net, x = Recurrent(per_step=per_step), series(rows, TIME, CHANNELS)

    def by_hand(z):
        out = net(z.transpose(0, 1).contiguous())
        return out.transpose(0, 1) if per_step else out

    for method, settings in (("timing", {"n_samples": 8, "segments": 1}), ("occlusion", {})):
        found = tg.explain(tg.Predictor(net, layout="TBD"), x, method, batch_size=rows, **settings)
        expected = tg.explain(
            tg.Predictor(by_hand, task=net.tempograd_task), x, method, batch_size=rows, **settings
        )
        assert expected.values.abs().max() > 0
        assert torch.equal(found.values, expected.values)
        assert torch.equal(found.target, expected.target)


@pytest.mark.parametrize("rows", [3, 4])
def test_a_horizon_before_the_batch_is_turned_round_also_when_it_is_as_long(rows):
    x, weight = series(rows, TIME, CHANNELS), series(1, TIME, 3)[0]

    def ahead(z):  # (time, batch, channel) to (horizon of 3, batch)
        return weight.T @ z.sum(-1)

    found = tg.explain(tg.Predictor(ahead, layout="TBD"), x, "occlusion", output="raw", target=2, batch_size=rows)
    expected = weight[:, 2, None] * x
    assert torch.allclose(found.values, expected, atol=1e-6)


def test_outputs_in_time_first_are_turned():
    assert torch.equal(Call(model_layout="TBD").adapt(lambda z: z)(X), X)


def test_a_recurrent_layer_that_runs_along_the_batch_is_warned_of(said):
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
        tg.explain(Recurrent(per_step=True), X, "occlusion")
    tg.explain(tg.Predictor(Recurrent(per_step=True), layout="TBD"), X, "occlusion")
    said.refused(tg.TempogradError, tg.explain, Recurrent(), X, "occlusion")


# One channel without an axis


def test_one_channel_without_an_axis(said):
    flat, x = nn.Linear(TIME, 2), series(5, TIME, 1)
    found = tg.explain(tg.Predictor(flat, layout="BT"), x, n_samples=6)
    assert torch.equal(found.values, tg.explain(lambda z: flat(z.squeeze(2)), x, n_samples=6).values)
    said.refused(tg.TempogradError, tg.explain, tg.Predictor(flat, layout="BT"), X)

    def unpacks(z):
        _, time = z.shape
        return flat(z.view(-1, time))

    said.refused(tg.TempogradError, tg.explain, unpacks, x)


def test_an_error_about_sizes_names_both_layouts():
    inside = nn.Sequential(nn.Linear(CHANNELS, 4), nn.Flatten(), nn.Linear(4 * TIME, 2))
    for model, layout in ((Net(), "BTD"), (inside, "BDT")):
        with pytest.raises(tg.TempogradError, match=r"; .* tg\.Predictor\(layout=\) that of the model\.$"):
            tg.explain(tg.Predictor(model, layout=layout), X)


# What else runs a model


@pytest.mark.parametrize("kind", ["module", "function"])
def test_metrics_pictures_and_report_call_the_model_as_it_was_explained(kind, tmp_path):
    answer, pick = ANSWERS["dict"]
    net, plain = Net(answer), turned(Net())
    model = net if kind == "module" else around(net)
    found = tg.explain(tg.Predictor(model, layout="BDT", pick=pick), X, "occlusion")
    found.save(tmp_path / "e.safetensors")
    loaded = tg.Explanation.load(tmp_path / "e.safetensors")
    assert loaded.call == Call(pick=pick, model_layout="BDT")
    expected = tg.explain(plain, X, "occlusion")
    names = ["cpd", "accuracy", "comprehensiveness"]
    scores = tg.evaluate(model, loaded, metrics=names)
    assert scores["cpd"].abs().max() > 0
    for name, score in tg.evaluate(plain, expected, metrics=names).items():
        assert torch.equal(scores[name], score)
    curve, by_hand = tg.removal_curve(model, loaded), tg.removal_curve(plain, expected)
    assert torch.equal(curve.score, by_hand.score)
    tg.report(tmp_path / "e.html", model, [loaded])
    tg.report(tmp_path / "by_hand.html", plain, [expected])
    pictures = loaded.plot(0), expected.plot(0)
    found, by_hand = ([text.get_text() for text in picture.texts] for picture in pictures)
    assert "probability of class" in " ".join(found)
    assert found == by_hand


def test_learning_methods_learn_from_the_model_as_it_is_called():
    answer, pick = ANSWERS["dict"]
    options = {"background": series(20, TIME, CHANNELS, seed=3), "epochs": 2}
    found = tg.explain(tg.Predictor(Net(answer), layout="BDT", pick=pick), X, "timex", **options)
    expected = tg.explain(Turned(Net()), X, "timex", **options)
    assert torch.allclose(found.values, expected.values, atol=1e-6)


class Both(nn.Module):
    """Channels first, beside values that have no time, with an answer in parts."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.head = nn.Conv1d(CHANNELS, 4, 3), nn.Linear(6, 2)

    def forward(self, past, static, scale):
        assert past.shape[1:] == (CHANNELS, TIME)
        hidden = self.conv(past * scale).tanh().mean(2)
        return hidden, self.head(torch.cat([hidden, static], 1))


def test_several_inputs_are_laid_out_and_the_answer_is_picked():
    net, inputs = Both(), {"past": X, "static": series(5, 2, 1)[..., 0]}
    scale = torch.rand(5, TIME, CHANNELS, generator=torch.Generator().manual_seed(1)) + 0.5
    found = tg.explain(
        tg.Predictor(net, layout="BDT", pick=1), tg.Series(inputs, fixed={"scale": scale.mT}), n_samples=6
    )

    def by_hand(past, static, scale):
        return net(past.mT.contiguous(), static, scale)[1]

    expected = tg.explain(by_hand, tg.Series(inputs, fixed={"scale": scale.mT}), n_samples=6)
    assert torch.equal(found.values, expected.values)
    assert found["static"].values.abs().max() > 0


# Estimators and functions of arrays

RNG = np.random.default_rng(0)
TRAIN = RNG.normal(size=(60, TIME, 2)).astype(np.float32)
SERIES = torch.from_numpy(RNG.normal(size=(4, TIME, 2)).astype(np.float32))
LABELS = (TRAIN[:, 2, 0] + TRAIN[:, 5, 1] > 0).astype(int)
FLAT = TRAIN.reshape(60, -1)


def by_loop(score, x, target):
    """Occlusion one value at a time, over numpy."""
    values = np.zeros(x.shape)
    for i, t, d in np.ndindex(*x.shape):
        z = x[i : i + 1].copy()
        z[0, t, d] = 0
        values[i, t, d] = score(x[i : i + 1])[0, target[i]] - score(z)[0, target[i]]
    return torch.from_numpy(values).float()


class ChannelsFirst:
    """As aeon's classifiers: no features, (batch, channel, time)."""

    def predict_proba(self, x):
        assert isinstance(x, np.ndarray)
        one = 1 / (1 + np.exp(-x[:, 1, 2:5].sum(1)))
        return np.stack([1 - one, one], 1)


ESTIMATORS = {
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()).fit(FLAT, LABELS),
    "forest": RandomForestClassifier(12, random_state=0).fit(FLAT, LABELS),
    "no probabilities": RidgeClassifier().fit(FLAT, LABELS + 2 * (TRAIN[:, 1, 1] > 0)),
    "regression": LinearRegression().fit(FLAT, TRAIN[:, :2, 0] ** 2),
    "outliers": IsolationForest(n_estimators=5, random_state=0).fit(FLAT),
    "channels first": ChannelsFirst(),
}


def columns(estimator, x):
    """What the estimator says, one row per series."""
    turned = x.swapaxes(1, 2) if isinstance(estimator, ChannelsFirst) else x.reshape(len(x), -1)
    name = next(n for n in ("predict_proba", "decision_function", "predict") if hasattr(estimator, n))
    said = getattr(estimator, name)(turned)
    return said.reshape(len(x), -1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_occlusion_of_an_estimator_is_a_loop_over_numpy(name, tmp_path):
    estimator = ESTIMATORS[name]
    layout, target = "BDT" if name == "channels first" else "BTD", 1 if name == "regression" else None
    found = tg.explain(tg.Predictor(estimator, layout=layout), SERIES, "occlusion", target=target)
    said = columns(estimator, SERIES.numpy())
    targets = np.ones(len(said), int) if name == "regression" else said.argmax(1)
    assert found.target.tolist() == targets.tolist()
    assert found.output == "raw"
    expected = by_loop(lambda x: columns(estimator, x), SERIES.numpy(), targets)
    assert expected.abs().max() > 0
    assert torch.allclose(found.values, expected, atol=1e-6)
    adapted = tg.Predictor(tg.adapters.estimator(estimator), layout=layout)
    again = tg.explain(adapted, SERIES, "occlusion", target=target)
    assert torch.equal(again.values, found.values)
    assert again.fingerprint == found.fingerprint
    curve, top, start = tg.removal_curve(estimator, found, k=1), found.top(1), SERIES.clone()
    start[0, top.time[0, 0], top.channel[0, 0]] = 0
    target = targets[0]
    assert curve.score[0, 0].item() == pytest.approx(said[0, target], abs=1e-6)
    assert curve.score[0, 1].item() == pytest.approx(columns(estimator, start.numpy())[0, target], abs=1e-6)
    tg.report(tmp_path / "r.html", estimator, [found])
    found.plot(0)


def test_probabilities_of_an_estimator_stay_what_they_are():
    model = ESTIMATORS["pipeline"]
    plain, asked = (tg.explain(model, SERIES, "occlusion", **more) for more in ({}, {"output": "probability"}))
    assert torch.equal(plain.values, asked.values)
    scores = tg.evaluate(model, plain, metrics=["cpd", "accuracy", "cross_entropy"], k=3)
    assert scores["cross_entropy"].isfinite().all()
    found = tg.explain(model, SERIES, "occlusion", target=1)
    assert torch.allclose(found.values.sum(), -tg.explain(model, SERIES, "occlusion", target=0).values.sum())


def test_lime_of_an_estimator_is_that_of_the_same_function_in_torch():
    model = ESTIMATORS["pipeline"]
    scaler, linear = (part for _, part in model.steps)
    weight = torch.from_numpy(linear.coef_[0] / scaler.scale_)
    start = torch.from_numpy(linear.intercept_ - (linear.coef_ * scaler.mean_ / scaler.scale_).sum())

    def in_torch(z):
        one = (z.flatten(1).double() @ weight + start).sigmoid()
        return torch.stack([1 - one, one], 1)

    for method in ("lime", "augmented_occlusion"):
        more = {"background": torch.from_numpy(TRAIN)} if method == "augmented_occlusion" else {}
        found = tg.explain(model, SERIES, method, **more)
        expected = tg.explain(in_torch, SERIES, method, output="raw", **more)
        assert torch.allclose(found.values, expected.values, atol=1e-5)


def test_the_outputs_of_several_labels_are_picked():
    both = RandomForestClassifier(8, random_state=0).fit(FLAT, np.stack([LABELS, LABELS[::-1]], 1))
    found = tg.explain(tg.Predictor(both, pick=1), SERIES, "occlusion", target=1)
    score = lambda x: both.predict_proba(x.reshape(len(x), -1))[1]  # noqa: E731
    assert torch.allclose(found.values, by_loop(score, SERIES.numpy(), [1] * 4), atol=1e-6)
    with pytest.raises(tg.TempogradError, match=r"one list that holds 0 \(batch, 2\), 1"):
        tg.explain(both, SERIES, "occlusion")


class Labels:
    """A classifier that tells nothing but labels."""

    def predict(self, x):
        return np.where(x.mean((1, 2)) > 0, "up", "down")


REFUSED = {
    "gradient": (ESTIMATORS["pipeline"], "timing", {}),
    "learnt masks": (ESTIMATORS["forest"], "dynamask", {}),
    "layers": (ESTIMATORS["forest"], "deep_lift", {}),
    "text": (Labels(), "occlusion", {}),
    "features": (LogisticRegression().fit(FLAT[:, :5], LABELS), "occlusion", {}),
    "prefixes": (ESTIMATORS["pipeline"], "fit", {"background": torch.from_numpy(TRAIN), "epochs": 1}),
    "window": (ESTIMATORS["pipeline"], "winit", {"background": torch.from_numpy(TRAIN), "epochs": 1}),
    "array": (tg.adapters.from_numpy(lambda x: x.mean((1, 2))), "integrated_gradients", {"output": "raw"}),
    "class": (LogisticRegression, "occlusion", {}),
    "labels": (lambda x: np.where(x.mean((1, 2)) > 0, "up", "down"), "occlusion", {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_estimator_cannot_do_is_one_sentence(name, said):
    model, method, options = REFUSED[name]
    said.refused(tg.TempogradError, tg.explain, model, SERIES, method, **options)


def test_the_captum_face_refuses_estimators_in_one_sentence(said):
    pytest.importorskip("captum")
    forest = import_module("tempograd.captum").Timing(ESTIMATORS["forest"])
    said.refused(tg.TempogradError, forest.attribute, SERIES, target=1)


def test_names_of_classes_come_from_the_estimator():
    words = np.where(LABELS, "up", "down")
    estimator = LogisticRegression().fit(FLAT, words)
    found = tg.explain(estimator, SERIES, "occlusion", target="up")
    assert found.classes == ("down", "up")
    assert found.target.tolist() == [1, 1, 1, 1]
    assert tg.explain(tg.Predictor(estimator, classes=["a", "b"]), SERIES, "occlusion").classes == ("a", "b")
    ridge = RidgeClassifier().fit(FLAT, words)  # whose one score is that of the second class
    assert tg.explain(ridge, SERIES, "occlusion", target="up").classes == ("up",)
    three = RidgeClassifier().fit(FLAT, np.where(TRAIN[:, 0, 0] > 1, "top", words))
    assert tg.explain(three, SERIES, "occlusion").classes is None
    assert as_model(LogisticRegression().fit(FLAT, LABELS + 1)).classes == ("1", "2")
    assert as_model(ESTIMATORS["pipeline"]).classes is None


FUNCTIONS = {
    "only arrays": lambda x: x.astype(np.float64).std((1, 2)),
    "both": lambda x: np.asarray(x.std(1).sum(1)),  # of which torch makes something else
    "reversed": lambda x: x[:, ::-1][:, 0] ** 2,
    "parts": lambda x: {"mean": np.mean(x, (1, 2)), "names": ["a"]},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_arrays_is_a_loop_over_numpy(name):
    function = FUNCTIONS[name]

    def score(x):
        said = function(x)
        said = said["mean"] if isinstance(said, dict) else said
        return np.asarray(said).reshape(len(x), -1)

    found = tg.explain(tg.adapters.from_numpy(function), SERIES, "occlusion", output="raw", target=0)
    expected = by_loop(score, SERIES.numpy(), [0] * 4)
    assert expected.abs().max() > 0
    assert torch.allclose(found.values, expected, atol=1e-6)


def test_errors_of_a_function_are_its_own():
    def in_torch(z):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tg.explain(in_torch, SERIES)


def test_a_function_of_tensors_that_returns_arrays_keeps_its_tensors():
    found = tg.explain(lambda z: z.detach().mT.sum((1, 2)).numpy(), SERIES, "occlusion", output="raw")
    assert torch.allclose(found.values, SERIES, atol=1e-5)


def test_adapters_refuse_what_they_cannot_adapt(said):
    said.refused(tg.TempogradError, tg.adapters.estimator, object())
    said.refused(tg.TempogradError, tg.adapters.estimator, ESTIMATORS["regression"], "predict_proba")
    said.refused(tg.TempogradError, tg.adapters.estimator, ESTIMATORS["pipeline"], "transform")
    said.refused(tg.TempogradError, tg.adapters.from_numpy, 3)
    found = tg.explain(tg.adapters.estimator(ESTIMATORS["pipeline"], "decision_function"), SERIES, "occlusion")
    step = ESTIMATORS["pipeline"].decision_function
    expected = by_loop(lambda x: step(x.reshape(len(x), -1))[:, None], SERIES.numpy(), [0] * 4)
    assert torch.allclose(found.values, expected, atol=1e-5)
