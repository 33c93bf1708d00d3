"""Metrics that remove cells, against a loop over series and cells, and on models with a known answer."""

import pytest
import torch
from torch import nn

from tempograd.core.errors import InputError, ModelError, TempogradWarning
from tempograd.explainers import Random
from tempograd.metrics import METRICS, evaluate, removal_curve
from tests.helpers.literal_metrics import Net, by_hand, faithfulness, randn
from tests.helpers.models import first_seed

NAMES = [
    "cpd",
    "cpp",
    "prediction_difference",
    "accuracy",
    "cross_entropy",
    "log_odds",
    "comprehensiveness",
    "sufficiency",
]
SERIES, TIME, DEPTH = 6, 5, 2


def metrics(**settings):
    every = [METRICS[name](**settings) for name in NAMES]
    return [*every, METRICS["accuracy"](threshold=0.5, name="accuracy_half", **settings)]


def problem(classes=3, per_step=False, masked=False, seed=0):
    model = Net(DEPTH, classes, per_step, seed).double()
    x, values = randn(SERIES, TIME, DEPTH, seed=seed + 1), randn(SERIES, TIME, DEPTH, seed=seed + 2)
    mask = None
    if masked:
        mask = randn(SERIES, TIME, DEPTH, seed=seed + 3) > -0.4
        mask[0, -2:] = False  # padding
        mask[1] = False
        mask[1, 0, 0] = True
        mask[2] = True
    with torch.no_grad():
        target = model(x).argmax(-1)
    return model, x, values, mask, target


def literal(model, explanation, baseline, counts, rank="absolute"):
    x, mask = explanation.x, explanation.mask
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    rows = []
    for i in range(len(x)):
        target = explanation.target[i]
        length = max((t + 1 for t in range(TIME) if seen[i, t].any()), default=0)
        if isinstance(explanation.steps, torch.Tensor):
            steps = explanation.steps[i].tolist()
        else:
            steps = [t < length for t in range(TIME)] if target.ndim else [True]
        rows.append(
            faithfulness(
                model,
                x[i],
                explanation.values[i],
                seen[i],
                target.tolist() if target.ndim else [int(target)],
                baseline[i],
                counts[i],
                output=explanation.output,
                steps=steps,
                rank=rank,
            )
        )
    return {name: torch.tensor([row[name] for row in rows], dtype=torch.float64).float() for name in rows[0]}


def assert_equal_scores(ours, expected):
    for name in expected:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-5, atol=1e-6, equal_nan=True, msg=name)


def counts_of(k, mask):
    observed = [TIME * DEPTH] * SERIES if mask is None else mask.flatten(1).sum(1).tolist()
    if isinstance(k, int):
        return [min(k, n) for n in observed]
    return [max(1, int(k * n + 1e-9)) if n else 0 for n in observed]


def channel_means(x, mask):
    means = torch.zeros_like(x)
    for i in range(len(x)):
        for d in range(x.shape[2]):
            seen = [x[i, t, d].item() for t in range(x.shape[1]) if mask is None or mask[i, t, d]]
            means[i, :, d] = sum(seen) / len(seen) if seen else 0.0
    return means


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("baseline", ["zero", "average", "given"])
@pytest.mark.parametrize("k", [4, 0.3])
@pytest.mark.parametrize("rank", ["absolute", "signed"])
def test_every_metric_equals_its_definition(masked, baseline, k, rank):
    model, x, values, mask, target = problem(masked=masked)
    explanation = by_hand(values, x, target, mask)
    absent = {
        "zero": torch.zeros_like(x),
        "average": channel_means(x, mask),
        "given": randn(TIME, 1, seed=9).expand_as(x),
    }[baseline]
    given = randn(TIME, 1, seed=9) if baseline == "given" else baseline
    ours = evaluate(model, explanation, metrics=metrics(rank=rank), k=k, baseline=given)
    assert_equal_scores(ours, literal(model, explanation, absent, counts_of(k, mask), rank))


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("steps", ["own", "all", "some"])
def test_one_output_per_step_is_averaged_over_the_explained_steps(masked, steps):
    model, x, values, mask, target = problem(per_step=True, masked=masked)
    chosen = torch.tensor([True, False, True, True, False]).expand(SERIES, TIME)
    chosen = {"own": "own", "all": torch.ones(SERIES, TIME, dtype=torch.bool), "some": chosen}[steps]
    explanation = by_hand(values, x, target, mask, steps=chosen)
    ours = evaluate(model, explanation, metrics=metrics(), k=3)
    assert_equal_scores(ours, literal(model, explanation, torch.zeros_like(x), counts_of(3, mask)))


@pytest.mark.parametrize("kind", ["class 1", "class 0", "both"])
@pytest.mark.parametrize("per_step", [False, True])
def test_a_single_logit_has_two_classes(per_step, kind):
    """The explained one counts, whatever the model says about the clean series; its twin scores the same."""

    def made(seed):
        model, x, values, _, target = problem(classes=1, per_step=per_step, seed=seed)
        mixed = (torch.arange(target.numel()) % 2).view(target.shape)
        target = {"class 1": torch.ones_like(target), "class 0": torch.zeros_like(target), "both": mixed}[kind]
        explanation = by_hand(values, x, target, steps="own" if per_step else None, columns=1)
        return model, x, explanation, literal(model, explanation, torch.zeros_like(x), [4] * SERIES)

    def suits(seed):
        """Tell whether both classes occur, and some stay and some change, else this shows nothing."""
        model, x, _, expected = made(seed)
        with torch.no_grad():
            return 0 < (model(x) >= 0).double().mean() < 1 and 0 < expected["accuracy"].mean() < 1

    model, _, explanation, expected = made(first_seed(suits))
    ours = evaluate(model, explanation, metrics=metrics(), k=4)
    assert_equal_scores(ours, expected)

    def twin(z):
        return torch.cat([torch.zeros_like(model(z)), model(z)], -1)

    assert_equal_scores(ours, evaluate(twin, explanation, metrics=metrics(), k=4))


@pytest.mark.parametrize("per_step", [False, True])
def test_an_explanation_that_knows_nothing_of_classes_called_the_single_probability_0(per_step):
    """Files of earlier versions, which meant class 1, still mean it."""
    model, x, values, _, target = problem(classes=1, per_step=per_step)
    assert target.unique().tolist() == [0]
    steps = "own" if per_step else None
    ours = evaluate(model, by_hand(values, x, target, steps=steps), metrics=metrics(), k=4)
    assert_equal_scores(
        ours, evaluate(model, by_hand(values, x, target + 1, steps=steps, columns=1), metrics=metrics(), k=4)
    )
    with pytest.raises(ModelError):
        evaluate(model, by_hand(values, x, target + 1, steps=steps), metrics="cpd", k=4)


def test_raw_output_of_one_column_counts_once():
    model, x, values, _, target = problem(classes=1)
    explanation = by_hand(values, x, target, output="raw", columns=1)
    names = ["cpd", "cpp", "prediction_difference", "comprehensiveness", "sufficiency"]
    ours = evaluate(model, explanation, metrics=names, k=4)
    expected = literal(lambda z: model(z) + 100, explanation, torch.zeros_like(x), [4] * SERIES)
    assert_equal_scores(ours, {name: expected[name] for name in names})


def test_a_curve_follows_the_explained_class_and_holds_both():
    model, x, values, _, target = problem(classes=1)
    of = [removal_curve(model, by_hand(values, x, target + k, columns=1), k=3) for k in (0, 1)]
    for k, curve in enumerate(of):
        torch.testing.assert_close(curve.score, curve.predictions[..., k])
    torch.testing.assert_close(of[0].score, 1 - of[1].score)
    assert torch.equal(of[0].predictions, of[1].predictions)
    clean = model(x).sigmoid().detach().float()
    torch.testing.assert_close(of[0].predictions[:, 0], torch.cat([1 - clean, clean], 1))


def test_raw_output_that_is_a_probability_is_taken_as_one():
    model, x, values, _, target = problem()
    explanation = by_hand(values, x, target, output="raw")
    ours = evaluate(nn.Sequential(model, nn.Softmax(-1)), explanation, metrics=metrics(), k=4)
    expected = literal(model, by_hand(values, x, target), torch.zeros_like(x), [4] * SERIES)
    assert_equal_scores(ours, expected)


def test_raw_logits_serve_the_metrics_that_need_no_probability():
    model, x, values, _, target = problem()
    explanation = by_hand(values, x, target, output="raw")
    names = ["cpd", "cpp", "prediction_difference", "comprehensiveness", "sufficiency"]
    with pytest.warns(TempogradWarning, match="all 3 outputs"):
        ours = evaluate(model, explanation, metrics=names, k=4)
    shifted = by_hand(values, x, target, output="raw")
    # every logarithm of the loop needs positive numbers; these metrics do not feel a constant
    expected = literal(lambda z: model(z) + 100, shifted, torch.zeros_like(x), [4] * SERIES)
    assert_equal_scores(ours, {name: expected[name] for name in names})


@pytest.mark.parametrize("name", ["accuracy", "cross_entropy", "log_odds"])
@pytest.mark.parametrize("classes", [1, 3])
def test_metrics_that_need_a_probability_refuse_raw_logits(name, classes):
    model, x, values, _, target = problem(classes=classes)
    with pytest.raises(InputError):
        evaluate(model, by_hand(values, x, target, output="raw"), metrics=name, k=2)


def test_one_raw_column_is_never_a_probability_even_if_it_sums_to_one():
    x = randn(2, 3, 1)
    explanation = by_hand(x.clone(), x, torch.zeros(2, dtype=torch.int64), output="raw")
    with pytest.raises(InputError):
        evaluate(lambda z: torch.ones(len(z), 1), explanation, metrics="cross_entropy", k=1)


def test_opposite_effects_cancel_in_the_difference_but_not_in_cpd():
    """The paper's first figure: +3 and -3 matter most, and together they change nothing."""
    x = torch.tensor([[[3.0], [-3.0], [0.1], [0.2]]])
    model = lambda z: torch.cat([z.sum(1), -z.sum(1)], 1)  # noqa: E731
    explanation = by_hand(torch.tensor([[[1.0], [-0.9], [0.1], [0.2]]]), x, torch.tensor([0]))
    scores = evaluate(model, explanation, metrics=["cpd", "prediction_difference", "comprehensiveness"], k=2)
    torch.testing.assert_close(scores["prediction_difference"], torch.tensor([0.0]), rtol=0, atol=1e-6)
    torch.testing.assert_close(scores["comprehensiveness"], torch.tensor([0.0]), rtol=0, atol=1e-6)
    # the prediction travels from a sum of 0.3 to one of -2.7 and back, in both classes
    there, back = torch.sigmoid(2 * torch.tensor([0.3, -2.7]))
    torch.testing.assert_close(scores["cpd"], 2 * 2 * (there - back)[None])
    assert scores["cpd"] > 2


def test_log_probabilities_too_small_for_a_float_stay_finite():
    x = torch.tensor([[[200.0], [1.0]]])
    model = lambda z: torch.cat([z.sum(1), 400 - z.sum(1)], 1)  # noqa: E731
    explanation = by_hand(x.clone(), x, torch.tensor([0]))
    scores = evaluate(model, explanation, metrics=["cross_entropy", "log_odds"], k=1)
    # logits (1, 399) after the removal, (201, 199) before it
    torch.testing.assert_close(scores["cross_entropy"], torch.tensor([398.0]))
    torch.testing.assert_close(
        scores["log_odds"], torch.tensor([-398.0]) + torch.tensor(2.0).exp().add(1).log() - 2
    )


def linear(depth=3, time=8):
    """Logits ±w·x: the effect of a cell is w·x, and integrated gradients knows it up to a factor."""
    weights = randn(time, depth, seed=5, dtype=torch.float32)
    x = randn(200, time, depth, seed=6, dtype=torch.float32)

    def model(z):
        effect = (z * weights).sum((1, 2))
        return torch.stack([effect, -effect], 1) / 4

    return model, x, weights


@pytest.mark.parametrize("name", sorted(NAMES))
def test_truth_beats_chance_beats_inversion(name):
    model, x, weights = linear()
    chance = Random()(model, x)
    sign = 1 - 2 * chance.target[:, None, None]
    truth = by_hand(x * weights * sign, x, chance.target)
    # cells are ranked as each metric means it: by size for a total change, by sign for a loss
    rank = "absolute" if name in {"cpd", "cpp"} else "signed"
    either_way = name in {"cpd", "cpp", "prediction_difference"}
    upside_down = by_hand(1 / truth.values.abs() if either_way else -truth.values, x, chance.target)
    metric = METRICS[name](rank=rank, k=0.25)
    best, middle, worst = (
        evaluate(model, e, metrics=metric)[name].double().mean() for e in (truth, chance, upside_down)
    )
    if metric.higher_is_better:
        assert best > middle > worst
    else:
        assert best < middle < worst


@pytest.mark.parametrize("rank", ["absolute", "signed"])
def test_positive_scaling_of_the_attribution_changes_nothing(rank):
    model, x, values, mask, target = problem(masked=True)
    one, other = (
        evaluate(model, by_hand(values * factor, x, target, mask), metrics=metrics(rank=rank), k=0.4)
        for factor in (1, 2.0**-20)
    )
    for name in one:
        assert torch.equal(one[name], other[name])


def test_a_function_that_nobody_knows_leaves_cpd_and_cpp():
    model, x, values, _, target = problem()
    explanation = by_hand(values, x)
    ours = evaluate(model, explanation, metrics=["cpd", "cpp"], k=3, of="output")
    expected = literal(model, by_hand(values, x, target), torch.zeros_like(x), [3] * SERIES)
    assert_equal_scores(ours, {name: expected[name] for name in ("cpd", "cpp")})
    for name in sorted(set(NAMES) - {"cpd", "cpp"}):
        with pytest.raises(InputError):
            evaluate(model, explanation, metrics=name)


def test_an_output_of_another_shape_is_one_long_vector():
    """A forecast (batch, horizon, channel), explained through a function."""
    x, values = randn(3, 4, 2), randn(3, 4, 2, seed=1)
    forecast = lambda z: z[:, -3:].cumsum(1)  # noqa: E731
    explanation = by_hand(values, x, None, output="raw")
    flat = evaluate(lambda z: forecast(z).flatten(1), explanation, metrics="cpd", k=6, of="output")["cpd"]
    torch.testing.assert_close(evaluate(forecast, explanation, metrics="cpd", k=6, of="output")["cpd"], flat)
    assert (flat > 0).all()
