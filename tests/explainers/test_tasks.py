"""What an output is must be said where its shape does not tell: every task is right by plain forwards."""

import ast
import warnings
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError, ModelError
from tempograd.engine import predictor
from tempograd.engine.outputs import LINKS, TASKS, Link, Outputs
from tempograd.typing import Task
from tempograd.views.labels import explained
from tests.helpers.models import Recurrent, linear, series

X = series(6, 9, 2)
ZERO = torch.zeros_like(X)


def steep(outputs, seed=0, shape=None):
    """A smooth model with many outputs, of any shape."""
    body, head = linear(9, 2, 16, seed), linear(1, 16, outputs, seed + 1)
    return lambda z: 3 * head(body(z).tanh()[:, None]).reshape(len(z), *(shape or (outputs,)))


def integrated(model, x=X, *, task=None, classes=None, **options):
    return tg.explain(tg.Predictor(model, task=task, classes=classes), x, "integrated_gradients", **options)


def assert_sums_to(found, score, model):
    """The scores of integrated gradients sum to what the plain forwards say."""
    with torch.no_grad():
        expected = score(model(X)) - score(model(ZERO))
    assert float(expected.abs().mean()) > 0.02  # or anything would be close
    torch.testing.assert_close(found.values.sum((1, 2)), expected, atol=1e-4, rtol=1e-3)


def silent(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return integrated(model, **options)


def refused(model, kind=ModelError, **options):
    with pytest.raises(kind) as caught:
        integrated(model, **options)
    return caught.value


# What the shape does not tell is refused without a task, and right with it


def test_a_horizon_is_no_set_of_classes():
    walk = linear(9, 2, 6)
    model = lambda z: 20 + walk(z).cumsum(1)  # noqa: E731
    with pytest.warns(tg.TempogradWarning, match="6 outputs were read as scores of classes"):
        assert integrated(model).task == "classification"
    assert silent(model).task == "classification"  # warned of once
    found = silent(model, task="forecast", target=4)
    assert (found.task, found.output, found.output_shape) == ("forecast", "raw", ())
    assert_sums_to(found, lambda y: y[:, 4], model)


def test_a_regression_is_no_logit():
    model = steep(1)
    assert refused(model).code == "model.task"
    assert refused(model, target=lambda y: y[:, 0]).code == "model.task"
    found = silent(model, task="regression")
    assert (found.task, found.output) == ("regression", "raw")
    assert_sums_to(found, lambda y: y[:, 0], model)
    for said in ({"task": "binary"}, {"task": "classification"}, {"output": "probability"}):
        logit = silent(model, **said)
        assert logit.task == "binary"
        assert_sums_to(logit, lambda y: y[:, 0].sigmoid(), model)
    assert silent(model, output="raw").task == "regression"
    assert_sums_to(silent(lambda z: model(z)[:, 0], task="regression"), lambda y: y[:, 0], model)


def test_labels_are_no_classes():
    model = steep(3)
    found = silent(model, task="multilabel", target=1)
    assert (found.task, found.output, found.link) == ("multilabel", "probability", "sigmoid")
    assert_sums_to(found, lambda y: y[:, 1].sigmoid(), model)
    assert torch.equal(silent(model, task="multilabel").target, model(X).argmax(1))
    assert_sums_to(silent(model, task="multilabel", target=1, output="raw"), lambda y: y[:, 1], model)


def test_a_horizon_as_long_as_the_series_is_no_class_per_step():
    model = steep(9 * 3, shape=(9, 3))
    pick = lambda y: y[:, 4, 2]  # noqa: E731
    for options in ({}, {"target": (4, 2)}, {"target": pick}, {"output": "probability"}, {"output": "raw"}):
        assert refused(model, **options).code == "model.task"
    found = silent(model, task="forecast", target=(4, 2))
    assert found.output_shape == (9, 3)
    assert found.target.tolist() == [14] * 6
    assert_sums_to(found, lambda y: y[:, 4, 2], model)
    raw = silent(model, output="raw", target=pick)  # a function knows what it picks
    assert raw.task == "forecast"
    assert torch.equal(raw.values, found.values)
    steps = silent(model, steps=3)  # which only outputs per step have
    assert steps.task == "per_step"
    assert torch.equal(silent(model, task="per_step", steps=3).values, steps.values)


def test_one_label_is_not_two_classes():
    model = steep(1)
    found = silent(model, task="multilabel")
    assert found.n_outputs == 1
    assert found.target.tolist() == [0] * 6
    assert_sums_to(found, lambda y: y[:, 0].sigmoid(), model)
    with pytest.raises(InputError, match="target 1 is out of range"):
        integrated(model, task="multilabel", target=1)


# Addresses


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2), (9, 2, 2)])
def test_an_address_is_one_output(shape):
    model = steep(torch.Size(shape).numel(), shape=shape)
    address = tuple(size - 1 for size in shape)
    for options in ({"output": "raw"}, {"task": "forecast"}, {"task": "regression"}):
        found = silent(model, target=address, **options)
        assert (found.output, found.output_shape) == ("raw", shape)
        assert_sums_to(found, lambda y: y[(slice(None), *address)], model)


def test_several_series_have_addresses_of_their_own_as_flat_columns():
    model, columns = steep(12, shape=(4, 3)), torch.tensor([0, 5, 11, 3, 7, 2])
    found = silent(model, target=columns, task="forecast")
    assert_sums_to(found, lambda y: y.flatten(1).gather(1, columns[:, None])[:, 0], model)


def test_one_number_is_the_step_where_there_is_one_variable():
    model = steep(5, shape=(5, 1))
    assert_sums_to(silent(model, target=3, task="forecast"), lambda y: y[:, 3, 0], model)
    assert_sums_to(silent(steep(5), target=(3,), task="forecast"), lambda y: y[:, 3], steep(5))


def test_a_tuple_is_an_address_and_a_list_one_target_each():
    """Also where there are as many series as the address has parts."""
    model = steep(3)
    one_each = silent(model, target=[0, 1, 2, 0, 1, 2], task="classification")
    assert one_each.target.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(tg.TempogradError, match=r"each axis.* or a list with one target"):
        silent(model, target=(0, 1, 2, 0, 1, 2), task="classification")


def test_one_number_per_step_needs_no_axis():
    flat, wide = steep(9), steep(9, shape=(9, 1))
    for options in ({}, {"steps": 3}, {"target": 0, "output": "raw"}, {"steps": "own"}):
        found = silent(flat, task="per_step", **options)
        assert found.target.shape == (6, 9)
        torch.testing.assert_close(found.values, silent(wide, task="per_step", **options).values)
    for method in ("occlusion", "winit", "timing"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parts = [
                tg.explain(tg.Predictor(Steps(axis), task="per_step"), X, method, background=X)
                for axis in (True, False)
            ]
        torch.testing.assert_close(parts[0].values, parts[1].values)


class Steps(nn.Module):
    """One number per step from the steps up to it, with or without an axis."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        found = 2 * x.cumsum(1).sin().sum(-1)
        return found[..., None] if self.axis else found


# Without a target


def test_the_mean_of_a_forecast_is_explained_and_said():
    for model in (steep(6), steep(6, shape=(2, 3))):
        with pytest.warns(
            tg.TempogradWarning, match="No target was given, so the mean over all outputs was explained .6 outputs"
        ):
            found = integrated(model, task="forecast")
        assert found.target is None
        assert found.target_text == "the mean over all outputs"
        assert_sums_to(found, lambda y: y.flatten(1).mean(1), model)
    with pytest.warns(tg.TempogradWarning, match=r"with shape \(2, 3\).*pass target=\(0, 0\) for one of them"):
        assumed = integrated(model, output="raw")
    assert torch.equal(assumed.values, found.values)
    assert "target.score" in [finding.code for finding in assumed.findings]
    assert torch.equal(silent(model, target=tg.targets.mean()).values, found.values)
    single = silent(steep(1), task="forecast")
    assert single.target.tolist() == [0] * 6


def test_a_forecaster_that_draws_has_no_predicted_class():
    net = steep(6)
    model = lambda z: net(z) + 0.1 * torch.randn(len(z), 6)  # noqa: E731
    with pytest.warns(tg.TempogradWarning, match="the mean over all outputs was explained .6 outputs"):
        found = integrated(model, task="forecast", draws=4)
    assert found.target is None
    assert_sums_to(found, lambda y: y.mean(1), steep(6))


# Who may say it


def test_a_model_can_declare_its_task():
    model = nn.Sequential(nn.Flatten(), nn.Linear(18, 1))
    model.tempograd_task = "regression"
    assert silent(model).task == "regression"
    assert silent(model, task="classification").task == "binary"  # who calls knows better
    model.tempograd_task = "regress"
    with pytest.raises(InputError, match="tempograd_task of the model must be"):
        integrated(model)
    assert silent(Recurrent(2, 1)).task == "binary"


def test_models_of_the_library_declare_their_task():
    for per_step in (False, True):
        found = silent(tg.models.build("gru", 2, 1, per_step=per_step, hidden=4))
        assert found.task == ("per_step" if per_step else "binary")


def test_names_are_targets():
    model, names = steep(3), ["stable", "worse", "died"]
    number = silent(model, target=2, task="classification")
    assert torch.equal(silent(model, target="died", classes=names).values, number.values)
    difference = tg.targets.difference("died", "stable")
    found = silent(model, target=difference, classes=names, output="probability")
    assert found.target_text == "output 2 minus output 0"
    assert_sums_to(found, lambda y: y.softmax(1)[:, 2] - y.softmax(1)[:, 0], model)
    one = silent(steep(1), target="died", classes=["stable", "died"], task="classification")
    assert one.target.tolist() == [1] * 6


def test_a_sigmoid_is_not_applied_twice_in_silence():
    model = lambda z: steep(3)(z).sigmoid()  # noqa: E731
    with pytest.warns(tg.TempogradWarning, match="The model ends with a sigmoid"):
        integrated(model, task="multilabel")
    assert_sums_to(silent(model, task="multilabel", output="raw", target=2), lambda y: y[:, 2], model)


def test_a_function_of_an_output_with_axes_needs_to_know_what_they_are():
    model, pick = steep(12, shape=(4, 3)), lambda y: y[:, 3, 1]
    assert refused(model, target=pick).code == "model.task"
    assert_sums_to(silent(model, target=pick, task="forecast"), pick, model)
    assert_sums_to(silent(model, target=pick, output="raw"), pick, model)
    probable = silent(model, target=pick, output="probability")
    assert_sums_to(probable, lambda y: y.softmax(-1)[:, 3, 1], model)


def test_one_sentence_shows_the_ways_to_say_the_task():
    one, steps = refused(steep(1)), refused(steep(27, shape=(9, 3)))
    assert "tg.Predictor(model, task='binary')" in str(one)
    assert "--task binary" in one.finding.say("shell")
    assert all(f"task='{task}'" in str(steps) for task in ("per_step", "forecast", "multilabel"))
    assert "per_step" not in str(refused(steep(12, shape=(4, 3))))


LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, True),
        ({"x": tg.Series(X, y=LABELS)}, False),
        ({"classes": ["a", "b", "c"]}, False),
        ({"task": "classification"}, None),
        ({"output": "probability"}, None),
        ({"output": "raw"}, True),
        ({"output": "raw", "target": 1}, None),
    ],
)
def test_class_scores_are_an_assumption_unless_something_says_it(options, warned):
    """Warned of, listed only, or nothing that was assumed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = integrated(steep(3), **options)
    assert ["read as scores of classes" in str(each.message) for each in caught] == ([True] if warned else [])
    listed = {finding.code for finding in found.findings if finding.severity == "assumption"}
    assert ("task.classes" in listed) == (warned is not None)
    assert ("target.predicted" in listed) == ("target" not in options)
    assert "baseline.zero" in listed


def test_what_was_said_is_no_assumption():
    assert silent(steep(2)).findings[0].code == "task.classes"  # of two, listed only
    assert silent(steep(2), task="classification", target=1, baseline=0).assumptions == ()
    assert [each.code for each in silent(steep(1), task="binary", baseline=0).findings] == ["target.one"]


def test_real_labels_are_no_classes():
    series = tg.Series(X, y=LABELS.double() / 2)
    assert refused(steep(3), x=series, kind=InputError).code == "model.task"
    assert silent(steep(3), x=series, task="regression", target=0).task == "regression"
    assert silent(steep(3), x=series, output="raw", target=0).task is None


def test_the_table_has_the_tasks_of_the_public_type():
    assert set(TASKS) == set(get_args(Task))


REFUSED = {
    "several numbers": (InputError, steep(3), {"task": "regression"}),
    "several axes": (InputError, steep(12, shape=(4, 3)), {"task": "regression"}),
    "probability of a regression": (InputError, steep(1), {"task": "regression", "output": "probability"}),
    "probability of a forecast": (InputError, steep(6), {"task": "forecast", "output": "probability"}),
    "steps of a forecast": (InputError, steep(6), {"task": "forecast", "steps": 3}),
    "no such task": (InputError, steep(6), {"task": "forecasting"}),
    "a forecast as classes": (ModelError, steep(12, shape=(4, 3)), {"task": "classification"}),
    "a forecast as steps": (ModelError, steep(12, shape=(4, 3)), {"task": "per_step"}),
    "another number of steps": (ModelError, steep(6), {"task": "per_step"}),
    "probabilities of no axis": (ModelError, steep(12, shape=(4, 3)), {"output": "probability"}),
    "out of range": (InputError, steep(12, shape=(4, 3)), {"task": "forecast", "target": (3, 3)}),
    "counted from the end": (InputError, steep(12, shape=(4, 3)), {"task": "forecast", "target": (-1, 0)}),
    "too few indices": (InputError, steep(12, shape=(4, 3)), {"task": "forecast", "target": (3,)}),
    "one number": (InputError, steep(12, shape=(4, 3)), {"task": "forecast", "target": 3}),
    "too many indices": (InputError, steep(6), {"target": (3, 1), "task": "forecast"}),
    "no integers": (InputError, steep(12, shape=(4, 3)), {"task": "forecast", "target": (1.0, 2)}),
    "a name": (InputError, steep(3), {"target": "died"}),
    "no such name": (tg.TempogradError, steep(3), {"target": "dead", "classes": ["a", "died", "b"]}),
    "a name twice": (InputError, steep(3), {"target": "a", "classes": ["a", "died", "a"]}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_contradiction_is_refused_in_one_sentence(case, said):
    kind, model, options = REFUSED[case]
    said.refused(kind, integrated, model, **options)


@pytest.mark.parametrize("method", ["dynamask", "extremal_mask", "contralsp"])
def test_learnt_masks_keep_every_label(method):
    """With one label per series that matters, the mask of labels is that of the logit of one."""
    one = steep(1)
    settings = {"epochs": 30} if method != "dynamask" else {"epochs": 30, "areas": (0.3,)}
    alone = tg.explain(tg.Predictor(one, task="classification"), X, method, **settings)
    label = tg.explain(tg.Predictor(one, task="multilabel"), X, method, **settings)
    torch.testing.assert_close(alone.values, label.values, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("method", "settings"), [("fit", {}), ("winit", {"distance": "kl"}), ("timex", {})])
def test_methods_for_classes_refuse_labels(method, settings, said):
    few = {"epochs": 1} if method != "winit" else {"epochs": 1, "n_samples": 1}
    model = Recurrent(2, 3)
    model = tg.Predictor(model, task="multilabel")
    said.refused(InputError, tg.explain, model, X, method, background=X, **few, **settings)


def test_winit_adds_up_the_labels():
    """Two labels that are the same count twice."""
    one = Steps(axis=True)
    both = lambda z: one(z).expand(-1, -1, 2)  # noqa: E731
    scores = [
        tg.explain(
            tg.Predictor(lambda z, m=model: m(z)[:, -1], task="multilabel"),
            X,
            "winit",
            background=X,
            sampler="marginal",
        )
        for model in (one, both)
    ]
    torch.testing.assert_close(scores[1].values, 2 * scores[0].values)


@pytest.mark.parametrize(("method", "zero"), [("occlusion", False), ("gradient_shap", False), ("timing", True)])
def test_a_learnt_baseline_is_not_called_zero(method, zero):
    model, x = tg.Predictor(linear(4, 2), task="classification"), series(3, 4, 2)
    exp = tg.explain(model, x, method, background=series(9, 4, 2) + 3)
    assert ("baseline.zero" in {finding.code for finding in exp.findings}) == zero
    assert bool(exp.baseline.any()) != zero


@pytest.fixture
def new_tasks(monkeypatch):
    """Two more rows, one of them with a link of its own."""
    interval = {"shape": "(batch, intervals)", "place": "interval {}"}
    monkeypatch.setitem(TASKS, "survival", Outputs("labels", "sigmoid", tg.targets.mean(), **interval))
    monkeypatch.setitem(TASKS, "counts", Outputs("numbers", "exp", "none"))
    monkeypatch.setitem(LINKS, "exp", Link(torch.exp, "its exponential", "exp of each of {} outputs", False))
    monkeypatch.setattr(predictor, "Task", Literal["survival", "counts"])


@pytest.mark.usefixtures("new_tasks")
@pytest.mark.parametrize(
    ("task", "target", "score", "words"),
    [
        ("survival", None, lambda raw: raw.sigmoid().mean(1), "the mean over all outputs"),
        ("survival", 2, lambda raw: raw.sigmoid()[:, 2], "interval 2, as a probability"),
        ("counts", 2, lambda raw: raw.exp()[:, 2], "output 2, exp of each of 4 outputs"),
    ],
)
@pytest.mark.filterwarnings("ignore:No target was given")
def test_a_task_and_a_link_are_a_row_each(task, target, score, words):
    model = steep(4)
    found = integrated(model, task=task, target=target)
    assert_sums_to(found, score, model)
    assert explained(found) == words
    removed = tg.evaluate(model, found, metrics=["comprehensiveness"], k=X[0].numel())["comprehensiveness"]
    torch.testing.assert_close(removed, score(model(X)) - score(model(ZERO)))


def test_no_other_file_tells_tasks_apart_by_name():
    """What differs between tasks is a field of their rows."""
    source = Path(tg.__file__).parent
    allowed = {"engine/outputs.py", "metrics/base.py"}  # the table; one logit or two, which are the same task
    by_name = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in {*TASKS}
    }
    assert by_name - allowed - {"explanation/files.py"} == set()  # files of earlier versions


def test_every_link_of_a_task_is_there():
    assert {row.link for row in TASKS.values()} <= LINKS.keys()
