"""What the metrics follow: the explained score of any task, address or function, or all outputs."""

from itertools import pairwise

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError, ModelError, TempogradWarning
from tempograd.metrics import evaluate, removal_curve
from tests.helpers.literal_metrics import Net, by_hand, important_first, randn, without

SERIES, TIME, DEPTH, HORIZON, VARIABLES = 4, 6, 2, 5, 3
K = 4
SCORED = ["cpd", "cpp", "prediction_difference", "comprehensiveness", "sufficiency"]
OF_A_CLASS = ["accuracy", "cross_entropy", "log_odds"]


class Forecaster(Net):
    """Forecasts (horizon, variable) values, the further the less smooth."""

    def __init__(self, horizon=HORIZON, variables=VARIABLES):
        super().__init__(DEPTH, horizon * variables)
        self.shape = (horizon, variables)

    def forward(self, x):
        return super().forward(x).unflatten(1, self.shape) * 20 + 100


def problem(masked=False):
    x, values = randn(SERIES, TIME, DEPTH, seed=1), randn(SERIES, TIME, DEPTH, seed=2)
    mask = randn(SERIES, TIME, DEPTH, seed=3) > -0.4 if masked else None
    return x, values, mask


def along(f, x, order):
    """What a plain function of one series says as cells go one by one."""
    zero = torch.zeros_like(x)
    with torch.no_grad():
        return [f(without(x, order[:j], zero)[None])[0] for j in range(len(order) + 1)]


def change(states):
    return sum(float((b - a).abs().sum()) for a, b in pairwise(states))


def literal(f, x, values, mask=None):
    """The metrics that follow a score f, (batch,), or all outputs f, (batch, ...), from its plain answers."""
    found = {name: [] for name in SCORED}
    for i in range(len(x)):
        seen = torch.ones_like(x[i], dtype=torch.bool) if mask is None else mask[i]
        order = important_first(values[i], seen, "absolute")
        count = min(K, len(order))
        strong, weak = along(f, x[i], order), along(f, x[i], order[::-1])
        found["cpd"].append(change(strong[: count + 1]))
        found["cpp"].append(change(weak[: count + 1]))
        found["comprehensiveness"].append(float((strong[0] - strong[count]).sum()))
        found["prediction_difference"].append(abs(found["comprehensiveness"][-1]))
        found["sufficiency"].append(float((weak[0] - weak[len(order) - count]).sum()))
    return {name: torch.tensor(scores) for name, scores in found.items()}


def assert_scores(ours, expected, names=SCORED):
    for name in names:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-5, atol=1e-5, msg=name)


def apart(one, other):
    assert ((one - other).abs() > 0.01 * other.abs()).all()


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("task", ["regression", "forecast"])
def test_one_output_of_several_is_measured_as_a_model_with_that_output_only(task, masked):
    model, (x, values, mask) = Net(DEPTH, 4).double(), problem(masked)
    target = torch.full((SERIES,), 2)
    explanation = by_hand(values, x, target, mask, output="raw", columns=4, task=task)
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    assert_scores(ours, literal(lambda z: model(z)[:, 2], x, values, mask))
    alone = by_hand(values, x, torch.zeros_like(target), mask, output="raw", columns=1, task=task)
    assert_scores(ours, evaluate(lambda z: model(z)[:, 2:3], alone, metrics=SCORED, k=K))
    everything = evaluate(model, explanation, metrics=["cpd", "cpp"], k=K, of="output")
    assert_scores(everything, literal(model, x, values, mask), ["cpd", "cpp"])
    apart(ours["cpd"], everything["cpd"])


@pytest.mark.parametrize("horizon", [HORIZON, TIME], ids=["short", "as long as the series"])
def test_an_address_into_a_forecast(horizon):
    """Also where the horizon is as long as the series: it is no output per step."""
    model, (x, values, _) = Forecaster(horizon).double(), problem()
    column = 3 * VARIABLES + 1
    explanation = by_hand(
        values, x, torch.full((SERIES,), column), output="raw", task="forecast", output_shape=(horizon, VARIABLES)
    )
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    assert_scores(ours, literal(lambda z: model(z)[:, 3, 1], x, values))
    everything = evaluate(model, explanation, metrics=["cpd", "cpp"], k=K, of="output")
    assert_scores(everything, literal(model, x, values), ["cpd", "cpp"])
    curve = removal_curve(model, explanation, k=K)
    torch.testing.assert_close(curve.score[:, 0], model(x)[:, 3, 1].detach().float())
    torch.testing.assert_close(curve.predictions[:, 0], model(x).flatten(1).detach().float())
    torch.testing.assert_close(curve.delta.sum(1), ours["cpd"])
    torch.testing.assert_close(removal_curve(model, explanation, k=K, of="output").delta.sum(1), everything["cpd"])


def test_a_forecast_of_another_shape_than_the_explained_one_is_refused():
    model, (x, values, _) = Forecaster(HORIZON + 1).double(), problem()
    explanation = by_hand(
        values, x, torch.zeros(SERIES, dtype=torch.int64), output="raw", task="forecast", output_shape=(HORIZON, 3)
    )
    with pytest.raises(ModelError):
        evaluate(model, explanation)


def test_a_task_tells_what_a_shape_cannot():
    """Outputs (batch, time, column) are steps where the task says so, and a forecast elsewhere."""
    model, (x, values, _) = Forecaster(TIME, 1).double(), problem()
    steps = torch.ones(SERIES, TIME, dtype=torch.bool)
    target = torch.zeros(SERIES, TIME, dtype=torch.int64)
    each = by_hand(values, x, target, output="raw", columns=1, steps=steps, task="per_step")
    picked = by_hand(values, x, output="raw", task="forecast", picker=lambda y: y.mean((1, 2)))
    whole = literal(model, x, values)["cpd"]
    torch.testing.assert_close(evaluate(model, each, metrics="cpd", k=K)["cpd"] * TIME, whole)
    torch.testing.assert_close(evaluate(model, picked, metrics="cpd", k=K, of="output")["cpd"], whole)
    with pytest.raises(ModelError):
        evaluate(
            lambda z: model(z).flatten(1)[:, :4], by_hand(values, x, target[:, 0], output="raw", task="per_step")
        )


def test_one_number_per_step_needs_no_axis_for_it():
    model, (x, values, _) = Forecaster(TIME, 1).double(), problem()
    target, steps = torch.zeros(SERIES, TIME, dtype=torch.int64), torch.ones(SERIES, TIME, dtype=torch.bool)
    steps[:, 2:] = False
    explanation = by_hand(values, x, target, output="raw", columns=1, steps=steps, task="per_step")
    names = SCORED[:3]
    ours = evaluate(lambda z: model(z)[..., 0], explanation, metrics=names, k=K)
    assert_scores(ours, evaluate(model, explanation, metrics=names, k=K), names)


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_a_function_that_picked_the_score_is_followed(masked):
    model, (x, values, mask) = Forecaster().double(), problem(masked)

    def rise(y):
        assert y.shape[1:] == (HORIZON, VARIABLES)  # what the model returns, as it is
        return y[:, -1, 0] - y[:, 0, 0]

    explanation = by_hand(values, x, None, mask, output="raw", task="forecast", picker=rise)
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    assert_scores(ours, literal(lambda z: rise(model(z)), x, values, mask))
    curve = removal_curve(model, explanation, k=K)
    torch.testing.assert_close(curve.score[:, 0], rise(model(x)).detach().float())
    torch.testing.assert_close(curve.delta.sum(1), ours["cpd"])


def test_a_function_gets_probabilities_in_the_models_own_columns():
    """A single probability is not doubled for it, as for the explanation."""
    x, values, _ = problem()
    first = lambda y: y[:, 0] ** 2  # noqa: E731
    for classes, link in ((1, lambda y: y.sigmoid()), (3, lambda y: y.softmax(-1))):
        model = Net(DEPTH, classes).double()
        explanation = by_hand(values, x, task="classification", picker=first)
        ours = evaluate(model, explanation, metrics=SCORED, k=K)
        assert_scores(ours, literal(lambda z, m=model, s=link: first(s(m(z))), x, values))


def test_a_function_of_a_model_with_one_output_per_step_gives_one_score_per_series():
    model, (x, values, _) = Net(DEPTH, 3, per_step=True).double(), problem()
    last = lambda y: y[:, -1, 1]  # noqa: E731
    explanation = by_hand(values, x, task="per_step", picker=last)
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    assert_scores(ours, literal(lambda z: last(model(z).softmax(-1)), x, values))


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_a_function_that_takes_the_series_too(masked):
    """An error of reconstruction: what stands in the place of removed cells is what the model shall give back."""
    weights, (x, values, mask) = randn(DEPTH, DEPTH, seed=7), problem(masked)
    model = lambda z: (z @ weights).tanh()  # noqa: E731

    def error(y, z, seen):
        return ((y - z) ** 2 * seen).sum((1, 2))

    error.takes_input = True
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    explanation = by_hand(values, x, None, mask, output="raw", task="forecast", picker=error)
    ours = evaluate(model, explanation, metrics=SCORED, k=K, batch_size=3)
    for i in range(SERIES):
        one = literal(
            lambda z, i=i: error(model(z), z, seen[i : i + 1]), x[i : i + 1], values[i : i + 1], seen[i : i + 1]
        )
        assert_scores({name: scores[i : i + 1] for name, scores in ours.items()}, one)


def test_a_function_that_gives_no_number_somewhere_is_refused():
    x, values, _ = problem()
    explanation = by_hand(values, x, output="raw", picker=lambda y: y[:, 0] / 0.0)
    with pytest.raises(InputError):
        evaluate(Net(DEPTH, 2).double(), explanation)


def multilabel(seed=0):
    model, (x, values, _) = Net(DEPTH, 3, seed=seed).double(), problem()
    explanation = by_hand(values, x, torch.tensor([0, 2, 1, 1]), columns=3, task="multilabel")
    return model, x, values, explanation


def test_labels_are_measured_each_by_itself():
    model, x, values, explanation = multilabel()
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    for i, label in enumerate(explanation.target.tolist()):
        row = slice(i, i + 1)
        one = literal(lambda z, j=label: model(z)[:, j].sigmoid(), x[row], values[row])
        assert_scores({name: scores[row] for name, scores in ours.items()}, one)
    everything = evaluate(model, explanation, metrics=["cpd", "cpp"], k=K, of="output")
    assert_scores(everything, literal(lambda z: model(z).sigmoid(), x, values), ["cpd", "cpp"])


def test_one_label_is_one_output():
    model, x, values, _ = multilabel()
    one = by_hand(values, x, torch.zeros(SERIES, dtype=torch.int64), columns=1, task="multilabel")
    assert one.n_outputs == 1
    first = lambda z: model(z)[:, :1]  # noqa: E731
    expected = literal(lambda z: first(z)[:, 0].sigmoid(), x, values)
    for of in (None, "output"):
        assert_scores(evaluate(first, one, metrics=["cpd", "cpp"], k=K, of=of), expected, ["cpd", "cpp"])


@pytest.mark.parametrize("name", OF_A_CLASS)
def test_metrics_of_a_class_refuse_what_has_none(name):
    x, values, _ = problem()
    target = torch.zeros(SERIES, dtype=torch.int64)
    model = Net(DEPTH, 2).double()
    for task in ("regression", "forecast"):
        # also where rows happen to sum to 1
        shares = torch.nn.Sequential(model, torch.nn.Softmax(-1))
        with pytest.raises(InputError):
            evaluate(shares, by_hand(values, x, target, output="raw", task=task), metrics=name)
    picked = by_hand(values, x, task="classification", picker=lambda y: y[:, 0])
    with pytest.raises(InputError):
        evaluate(model, picked, metrics=name)
    for output in ("raw", "probability"):
        with pytest.raises(InputError):
            evaluate(model, by_hand(values, x, target, output=output, task="multilabel"), metrics=name)


def test_classes_and_steps_are_measured_over_all_outputs_unless_told():
    x, values, _ = problem()
    for per_step in (False, True):
        model = Net(DEPTH, 3, per_step=per_step).double()
        target = model(x).argmax(-1)
        steps = torch.ones(SERIES, TIME, dtype=torch.bool) if per_step else None
        task = "per_step" if per_step else "classification"
        unknown, known = (by_hand(values, x, target, steps=steps, task=said) for said in (None, task))
        before = evaluate(model, unknown, k=K)
        for of in (None, "output"):
            found = evaluate(model, known, k=K, of=of)
            assert all(torch.equal(found[name], before[name]) for name in before)
        ours = evaluate(model, known, metrics="cpd", k=K, of="score")["cpd"]
        torch.testing.assert_close(ours, score_cpd(model, x, values, target), rtol=1e-5, atol=1e-5)
        assert (ours < before["cpd"]).all()


def score_cpd(model, x, values, target):
    """CPD of the explained class alone, step by step where there are steps."""
    rows = []
    for i in range(len(x)):
        each = []
        for t, label in enumerate(target[i].reshape(-1).tolist()):
            score = lambda z, t=t, c=label: model(z).softmax(-1).view(len(z), -1, 3)[:, t, c]  # noqa: E731
            each.append(literal(score, x[i : i + 1], values[i : i + 1])["cpd"])
        rows.append(torch.stack(each).mean(0))
    return torch.cat(rows)


def test_what_is_measured_is_one_of_two():
    model, _, _, explanation = multilabel()
    with pytest.raises(InputError):
        evaluate(model, explanation, of="class")
    with pytest.raises(InputError):
        removal_curve(model, explanation, of="class")


def test_metrics_that_follow_the_score_anyway_do_not_mind():
    model, _, _, explanation = multilabel()
    names = SCORED[2:]
    one, other = (evaluate(model, explanation, metrics=names, k=K, of=of) for of in ("score", "output"))
    assert all(torch.equal(one[name], other[name]) for name in names)


def test_several_raw_outputs_of_no_known_task_are_all_counted_with_a_warning():
    model, (x, values, _) = Net(DEPTH, 4).double(), problem()
    explanation = by_hand(values, x, torch.full((SERIES,), 2), output="raw", columns=4)
    with pytest.warns(TempogradWarning, match="all 4 outputs.*of='score'"):
        ours = evaluate(model, explanation, k=K)
    assert_scores(ours, literal(model, x, values), ["cpd", "cpp"])
    said = evaluate(model, explanation, k=K, of="output")
    assert all(torch.equal(said[name], ours[name]) for name in ours)
    alone = evaluate(model, explanation, k=K, of="score")
    assert_scores(alone, literal(lambda z: model(z)[:, 2], x, values), ["cpd", "cpp"])


def test_the_function_of_a_file_has_to_be_given(tmp_path):
    model, (x, values, _) = Forecaster().double(), problem()
    total = lambda y: y.sum((1, 2))  # noqa: E731
    explanation = by_hand(values.float(), x.float(), output="raw", picker=total)
    path = explanation.save(tmp_path / "e.safetensors")
    loaded = tg.Explanation.load(path)
    whole = evaluate(model, explanation, metrics=SCORED, k=K)
    given = evaluate(model, loaded, metrics=SCORED, k=K, target=total)
    assert all(torch.equal(given[name], whole[name]) for name in SCORED)
    assert torch.equal(
        removal_curve(model, loaded, k=K, target=total).score, removal_curve(model, explanation, k=K).score
    )
    with pytest.warns(TempogradWarning, match=r"all 15 outputs.*target="):
        ours = evaluate(model, loaded, metrics="cpd", k=K)["cpd"]
    assert torch.equal(ours, evaluate(model, explanation, metrics="cpd", k=K, of="output")["cpd"])
    assert removal_curve(model, loaded, k=K).score is None
    with pytest.raises(InputError):
        evaluate(model, loaded, of="score")
    with pytest.raises(InputError):
        evaluate(model, loaded, metrics="comprehensiveness")
    with pytest.raises(InputError):
        evaluate(model, loaded, target=2)
    with pytest.raises(InputError):
        evaluate(model, explanation, target=total)
    with pytest.raises(InputError):
        removal_curve(*multilabel()[::3], target=total)


def several():
    """A model of a past, values of its future and static ones, and of what it gets beside them."""
    past, ahead, static = randn(5, 4, 2, seed=1), randn(5, 3, 1, seed=2), randn(5, 2, seed=3)
    weight, offset = randn(5, 3, seed=4), randn(5, seed=5)

    def model(past, future, static, weight, offset):
        hidden = (past[..., 0] * past[..., 1]).sum(1) + (future[..., 0] * weight).sum(1) * static[:, 0]
        return torch.stack([hidden + static[:, 1] ** 2, hidden.sin() * offset], 1)

    inputs = {"past": past, "future": ahead, "static": static}
    return model, inputs, {"weight": weight, "offset": offset}


def test_several_inputs_are_removed_cell_by_cell_beside_what_stays_fixed():
    model, inputs, fixed = several()
    explanation = tg.explain(model, tg.Series(inputs, fixed=fixed), "occlusion", output="raw", target=1)
    names = list(inputs)
    expected = {name: [] for name in ("cpd", "comprehensiveness")}
    for i in range(5):
        scores = {name: explanation[name].values[i] for name in names}
        cells = sorted(
            ((name, place) for name in names for place in range(scores[name].numel())),
            key=lambda cell, scores=scores: -abs(float(scores[cell[0]].flatten()[cell[1]])),
        )
        one = {name: inputs[name][i : i + 1].clone() for name in names}
        along_with = {name: value[i : i + 1] for name, value in fixed.items()}
        states = [float(model(**one, **along_with)[0, 1])]
        for name, place in cells[:K]:
            one[name].view(-1)[place] = 0
            states.append(float(model(**one, **along_with)[0, 1]))
        expected["cpd"].append(sum(abs(b - a) for a, b in pairwise(states)))
        expected["comprehensiveness"].append(states[0] - states[-1])
    expected = {name: torch.tensor(scores) for name, scores in expected.items()}
    ours = evaluate(model, explanation, metrics=list(expected), k=K, of="score")
    assert_scores(ours, expected, list(expected))
    chosen = torch.tensor([3, 1])
    some = evaluate(model, explanation[chosen], metrics=list(expected), k=K, of="score", batch_size=2)
    assert_scores(some, {name: scores[chosen] for name, scores in expected.items()}, list(expected))


@pytest.mark.filterwarnings("ignore:static is taken for")
def test_a_truth_of_other_inputs_than_the_explained_ones_is_refused():
    model, inputs, fixed = several()
    explanation = tg.explain(model, tg.Series(inputs, fixed=fixed), "occlusion", output="raw", target=1)
    cells = sum(part[0].numel() for part in inputs.values())
    for truth in (
        {"past": inputs["past"]},
        inputs | {"future": inputs["future"][:, 1:]},
        tuple(inputs.values())[:2],
        (*inputs.values(), inputs["past"]),
    ):
        with pytest.raises(InputError):
            evaluate(model, explanation, metrics="aup", truth=truth)
    salient = {name: part > 0 for name, part in inputs.items()}
    found = evaluate(model, explanation, metrics="auroc", truth=salient)["auroc"]
    flat = torch.cat([part.flatten(1) for part in salient.values()], 1)
    sizes = torch.cat([explanation[name].values.abs().flatten(1) for name in inputs], 1)
    for row, area in enumerate(found.tolist()):
        hits, misses = sizes[row][flat[row]][:, None], sizes[row][~flat[row]]
        assert area == pytest.approx(float(((hits > misses) + (hits == misses) / 2).mean()), abs=1e-6)
    assert evaluate(model, explanation, k=cells, of="score")["cpd"].min() > 0
    with pytest.raises(InputError):
        evaluate(model, explanation, k=cells + 1, of="score")


def kinds():
    """Calls of people, and the score that each is about, by plain forwards."""
    forecaster, net = Forecaster().double(), Net(DEPTH, 3).double()
    forecast = tg.Predictor(forecaster, task="forecast")
    weights = randn(DEPTH, DEPTH, seed=7)
    coder = lambda z: (z @ weights).tanh()  # noqa: E731
    mean = tg.targets.mean(steps=[1, 2], variable=0)
    return {
        "address": (forecast, {"target": (3, 1)}, lambda z: forecaster(z)[:, 3, 1]),
        "raw": (forecaster, {"target": (3, 1), "output": "raw"}, lambda z: forecaster(z)[:, 3, 1]),
        "whole": (forecaster, {"target": tg.targets.mean()}, lambda z: forecaster(z).mean((1, 2))),
        "mean": (forecast, {"target": mean}, lambda z: forecaster(z)[:, 1:3, 0].mean(1)),
        "regression": (tg.Predictor(net, task="regression"), {"target": 2}, lambda z: net(z)[:, 2]),
        "label": (tg.Predictor(net, task="multilabel"), {"target": 2}, lambda z: net(z)[:, 2].sigmoid()),
        "difference": (
            net,
            {"target": tg.targets.difference(2, 0)},
            lambda z: (net(z).softmax(-1) * torch.tensor([-1.0, 0, 1])).sum(1),
        ),
        "lambda": (net, {"target": lambda y: y[:, 1] ** 2}, lambda z: net(z).softmax(-1)[:, 1] ** 2),
        "anomaly": (
            coder,
            {"target": tg.targets.reconstruction()},
            lambda z: ((coder(z) - z) ** 2).mean((1, 2)),
        ),
    }


@pytest.mark.parametrize("kind", list(kinds()))
def test_what_people_explain_is_what_is_measured(kind, tmp_path):
    model, options, score = kinds()[kind]
    x = problem()[0]
    explanation = tg.explain(model, x, "random", **options)
    ours = evaluate(model, explanation, metrics=SCORED, k=K)
    assert_scores(ours, literal(score, x, explanation.values))
    loaded = tg.Explanation.load(explanation.save(tmp_path / "e.safetensors"))
    lost = {"target": options["target"]} if kind == "lambda" else {}
    again = evaluate(model, loaded, metrics=SCORED, k=K, **lost)
    assert all(torch.equal(again[name], ours[name]) for name in SCORED)


def test_parts_of_an_answer_and_other_orders_of_axes():
    """What the call tells of the model holds for its evaluation too."""
    model, (x, _, _) = Net(DEPTH, 3).double(), problem()
    swapped = lambda z: {"logits": model(z.transpose(1, 2))}  # noqa: E731
    one = tg.explain(tg.Predictor(swapped, layout="BDT", pick="logits"), x, "random")
    other = tg.explain(model, x, "random")
    names = SCORED + OF_A_CLASS
    found, expected = evaluate(swapped, one, metrics=names, k=K), evaluate(model, other, metrics=names, k=K)
    assert_scores(found, expected, names)


def test_each_of_several_targets_is_measured_as_if_alone():
    model, (x, _, _) = Forecaster().double(), problem()
    addresses = [(0, 0), (3, 1)]
    every = tg.explain(
        tg.Predictor(model, task="forecast"), x, "integrated_gradients", targets=addresses, n_steps=4
    )
    for step, variable in addresses:
        one = every[(step, variable)]
        ours = evaluate(model, one, metrics=SCORED, k=K)
        assert_scores(ours, literal(lambda z, h=step, v=variable: model(z)[:, h, v], x, one.values))
