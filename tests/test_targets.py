"""Targets that people ask about: their numbers by hand, words and files, and the gradient through the series."""

import pytest
import torch

import tempograd as tg
from tempograd import targets
from tempograd.core.errors import DataError, InputError
from tests.helpers.models import linear, series

X = series(4, 6, 2)
HORIZON = torch.arange(24.0).reshape(2, 4, 3).square()  # two series, four steps, three variables


def integrated(model, target, x=X, **options):
    return tg.explain(model, x, "integrated_gradients", target=target, **options)


@pytest.mark.parametrize(
    ("target", "expected", "text"),
    [
        (targets.mean(), HORIZON.mean((1, 2)), "the mean over all outputs"),
        (targets.mean(variable=2), HORIZON[:, :, 2].mean(1), "the mean over the whole forecast of variable 2"),
        (targets.mean([0, 3]), HORIZON[:, [0, 3]].mean((1, 2)), "the mean over steps 0, 3"),
        (targets.mean(3, 1), HORIZON[:, 3, 1], "the mean over step 3 of variable 1"),
        (targets.total(slice(1, 3)), HORIZON[:, 1:3].sum((1, 2)), "the sum over steps 1 to 2"),
        (targets.total(slice(2, None)), HORIZON[:, 2:].sum((1, 2)), "the sum over the steps from 2 on"),
        (
            targets.mean(slice(0, 4, 2), 0),
            HORIZON[:, [0, 2], 0].mean(1),
            "the mean over steps 0 to 3 in strides of 2 of variable 0",
        ),
        (
            targets.difference((3, 1), (0, 2)),
            HORIZON[:, 3, 1] - HORIZON[:, 0, 2],
            "output (3, 1) minus output (0, 2)",
        ),
        (
            targets.quantile_spread(0, 2, steps=range(2)),
            (HORIZON[:, :2, 2] - HORIZON[:, :2, 0]).mean(1),
            "quantile 2 minus quantile 0, the mean over steps 0, 1",
        ),
    ],
)
def test_targets_are_what_they_say(target, expected, text):
    torch.testing.assert_close(target(HORIZON), expected)
    assert target.text == text
    again = targets.from_spec(target.spec())
    assert again == target
    torch.testing.assert_close(again(HORIZON), expected)


def autoencoder(z):
    """Rebuilds series badly, and each channel from the other too."""
    return 0.5 * z.flip(2) + torch.sin(z.cumsum(1))


@pytest.mark.parametrize("channels", [None, 1, [0, 1]])
def test_a_reconstruction_error_counts_what_the_series_does_itself(channels):
    """The scores sum to the change of the error, which a gradient through the output alone would miss."""
    chosen = [0, 1] if channels is None else [channels] if isinstance(channels, int) else channels

    def error(z):
        return (autoencoder(z) - z)[..., chosen].square().mean((1, 2))

    baseline = torch.full_like(X, 0.3)
    found = integrated(autoencoder, targets.reconstruction(channels), baseline=0.3)
    torch.testing.assert_close(found.values.sum((1, 2)), error(X) - error(baseline), atol=1e-4, rtol=1e-3)
    by_hand = tg.explain(
        tg.Predictor(lambda z: error(z)[:, None], task="regression"), X, "occlusion", baseline=0.3
    )
    occluded = tg.explain(autoencoder, X, "occlusion", target=targets.reconstruction(channels), baseline=0.3)
    torch.testing.assert_close(occluded.values, by_hand.values, atol=1e-5, rtol=1e-4)
    assert (found.task, found.output) == ("forecast", "raw")


def test_cells_that_were_not_observed_are_not_compared():
    mask = series(4, 6, 2, seed=5) > -0.5
    found = integrated(autoencoder, targets.reconstruction(), tg.Series(X, mask=mask))

    def error(z):
        return ((autoencoder(z) - z).square() * mask).sum((1, 2)) / mask.sum((1, 2))

    start = torch.where(mask, 0, X)
    torch.testing.assert_close(found.values.sum((1, 2)), error(X) - error(start), atol=1e-4, rtol=1e-3)
    assert bool((found.values[~mask] == 0).all())


def test_a_reconstruction_with_companions_is_that_of_the_first_input():
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def model(past, scale):
        return autoencoder(past) * scale[:, None, None]

    target = targets.reconstruction()
    found = tg.explain(
        model, tg.Series({"past": X}, fixed={"scale": scale}), "integrated_gradients", target=target
    )
    for row in range(4):
        alone = integrated(lambda z, s=scale[row]: autoencoder(z) * s, target, X[row : row + 1])
        torch.testing.assert_close(found.values[row, :6, :2], alone.values[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("target", [targets.mean([0, 2]), targets.difference(2, 0), lambda y: y[:, 1]])
def test_what_was_explained_survives_a_file(target, tmp_path):
    model = linear(6, 2, 4)
    found = integrated(tg.Predictor(model, task="forecast"), target)
    again = tg.Explanation.load(found.save(tmp_path / "e.safetensors"))
    assert (again.target_text, again.task) == (found.target_text, "forecast")
    assert again.picker == (found.picker if isinstance(target, targets.TargetScore) else None)


def test_addresses_survive_a_file(tmp_path):
    found = tg.explain(tg.Predictor(lambda z: z[:, :3], task="forecast"), X, "occlusion", target=(2, 1))
    again = tg.Explanation.load(found.save(tmp_path / "e.safetensors"))
    assert (again.task, again.output_shape, again.target.tolist()) == ("forecast", (3, 2), [5] * 4)


def test_functions_are_called_by_what_they_say():
    def risk(output):
        """Risk within a day.

        And more.
        """
        return output[:, 0]

    def plain(output):
        return output[:, 0]

    assert targets.in_words(risk) == "Risk within a day"
    assert targets.in_words(plain) == "the score that plain picks"
    assert targets.in_words(lambda output: output[:, 0]) == "a score of your own"
    assert targets.in_words(torch.sum) == "a score of your own"
    assert integrated(linear(6, 2, 3), risk).target_text == "Risk within a day"


REFUSED = {
    "no such step": lambda: targets.mean([4])(HORIZON),
    "no such variable": lambda: targets.mean(variable=3)(HORIZON),
    "no variable at all": lambda: targets.mean(variable=0)(HORIZON[:, :, 0]),
    "steps behind the end": lambda: targets.mean(slice(4, None))(HORIZON),
    "no quantiles": lambda: targets.quantile_spread(0, 1)(HORIZON[:, :, 0]),
    "an address too short": lambda: targets.difference(1, 0)(HORIZON),
    "a negative step": lambda: targets.mean([-1]),
    "no step": lambda: targets.mean([]),
    "a name without names": lambda: integrated(linear(6, 2, 3), targets.difference("died", 0)),
    "another shape": lambda: integrated(lambda z: z[:, :3], targets.reconstruction()),
    "a method that cannot": lambda: tg.explain(
        linear(6, 2, 12).append(torch.nn.Unflatten(1, (6, 2))), X, "deep_lift", target=targets.reconstruction()
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_targets_that_cannot_be_are_refused(case, said):
    said.refused(InputError, REFUSED[case])


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"name": "median"},
        {"name": ["mean"]},
        {"name": "mean", "steps": "all", "span": None, "variable": None},
        {"name": "mean", "steps": None, "span": [0, 1, 2, 3], "variable": None},
        {"name": "mean", "steps": None},
        {"name": "difference", "first": 1, "second": {}},
        {"name": "reconstruction", "channels": [-1]},
    ],
)
def test_a_file_cannot_hold_any_target(spec):
    with pytest.raises(DataError, match=r"No target of tempograd\.targets is written as"):
        targets.from_spec(spec)


@pytest.mark.parametrize("layout", ["BDT", "BT"])
def test_a_reconstruction_is_compared_in_the_order_of_the_series(layout):
    """Also where there are as many channels as steps, so that no shape tells them apart."""
    x = series(3, 4, 4 if layout == "BDT" else 1)
    weight = torch.arange(16.0).view(4, 4) / 10

    def autoencoder(z):  # (batch, channel, time), or (batch, time)
        return z @ weight

    def error(z):
        turned = z.transpose(1, 2) if layout == "BDT" else z[..., 0]
        return (autoencoder(turned) - turned).square().flatten(1).mean(1)

    found = integrated(tg.Predictor(autoencoder, layout=layout), targets.reconstruction(), x, n_steps=5)
    torch.testing.assert_close(
        found.values.sum((1, 2)), error(x) - error(torch.zeros_like(x)), atol=1e-5, rtol=1e-4
    )
    scores = tg.evaluate(autoencoder, found, metrics=["comprehensiveness"], k=x[0].numel())["comprehensiveness"]
    torch.testing.assert_close(scores, error(x) - error(torch.zeros_like(x)), atol=1e-5, rtol=1e-4)


def test_explanations_of_different_outputs_are_not_put_together(tmp_path):
    model = linear(6, 2, 4)
    found = [
        integrated(
            tg.Predictor(model, task="forecast"), target, tg.Series(X, ids=range(4 * target, 4 * target + 4))
        )
        for target in (0, 1)
    ]
    with pytest.raises(InputError, match="explains another output"):
        tg.concat(found)
    same = [integrated(tg.Predictor(model, task="forecast"), target) for target in (0, 1)]
    with pytest.raises(InputError, match="explains another output"):
        tg.report(tmp_path / "r.html", model, same)
    with pytest.raises(InputError, match="explains another output"):
        tg.plots.compare(same, 0)
    classes = [
        tg.explain(model, X, method) for method in ("integrated_gradients", "occlusion")
    ]  # the predicted ones
    assert len(tg.concat([classes[0][:2], classes[0][2:]])) == 4
