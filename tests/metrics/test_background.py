"""Removed cells that take values of other series, against a slow loop."""

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import TempogradWarning
from tempograd.core.rng import Stream
from tempograd.engine.ask import Background
from tests.helpers.models import Recurrent, series, smooth

TIME, CHANNELS, DRAWS, K = 6, 2, 3, 5
POOL = series(12, TIME, CHANNELS, seed=3)


def explained(count=4, mask=None):
    model, x = smooth(TIME, CHANNELS).float(), tg.Series(series(count, TIME, CHANNELS), mask=mask)
    return model, tg.explain(model, x, baseline="background", background=POOL)


def removed_one_by_one(model, exp, i, z, k, *, weakest=False):
    """Return the outputs of one series while its cells take the values of ``z``, as a textbook has it."""
    x, cells = exp.x[i].clone(), torch.cartesian_prod(torch.arange(TIME), torch.arange(CHANNELS)).tolist()
    if exp.mask is not None:
        cells = [cell for cell in cells if exp.mask[i][tuple(cell)]]
    cells.sort(key=lambda cell: float(exp.values[i][tuple(cell)].abs()), reverse=not weakest)
    states = [x.clone()]
    for cell in cells[:k]:
        x[tuple(cell)] = z[tuple(cell)]
        states.append(x.clone())
    return model(torch.stack(states)).softmax(-1).detach()


def drawn_series(exp, draws=DRAWS):
    """Return which series of the pool each one meets, (series, draws, time, channel)."""
    place = torch.device("cpu"), torch.float32
    others = Background.of(POOL, exp.x, 0, place, Stream.REMOVALS)
    return others.pool[others.rows(exp.x, exp.ids, draws)]


@pytest.mark.parametrize("masked", [False, True])
def test_every_metric_is_the_mean_of_a_slow_loop(masked):
    mask = torch.rand(4, TIME, CHANNELS, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    model, exp = explained(mask=mask)
    names = ["cpd", "cpp", "prediction_difference", "accuracy", "comprehensiveness", "cross_entropy"]
    found = tg.evaluate(model, exp, metrics=names, background=POOL, draws=DRAWS, k=K)
    slow = {name: [] for name in names}
    for i, others in enumerate(drawn_series(exp)):
        target = int(exp.target[i])
        for z in others:
            first, last = (removed_one_by_one(model, exp, i, z, K, weakest=weakest) for weakest in (False, True))
            slow["cpd"].append(first.diff(dim=0).abs().sum())
            slow["cpp"].append(last.diff(dim=0).abs().sum())
            slow["prediction_difference"].append((first[-1, target] - first[0, target]).abs())
            slow["comprehensiveness"].append(first[0, target] - first[-1, target])
            slow["accuracy"].append((first[-1].argmax() == target).float())
            slow["cross_entropy"].append(-first[-1, target].log())
    for name in names:
        torch.testing.assert_close(
            found[name], torch.stack(slow[name]).view(4, DRAWS).mean(1), rtol=1e-4, atol=1e-6
        )


def test_curves_are_means_over_the_same_draws():
    model, exp = explained()
    curve = tg.removal_curve(model, exp, k=K, background=POOL, draws=DRAWS)
    states = torch.stack(
        [
            torch.stack([removed_one_by_one(model, exp, i, z, K) for z in others])
            for i, others in enumerate(drawn_series(exp))
        ]
    )
    torch.testing.assert_close(curve.predictions, states.mean(1), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(curve.delta, states.diff(dim=2).abs().sum(-1).mean(1), rtol=1e-4, atol=1e-6)
    cpd = tg.evaluate(model, exp, metrics="cpd", k=K, background=POOL, draws=DRAWS)["cpd"]
    torch.testing.assert_close(curve.delta.sum(1), cpd)


def test_all_methods_meet_the_same_series():
    asked = []
    net = smooth(TIME, CHANNELS).float()

    def model(z):
        asked.append(z.detach().clone())
        return net(z)

    x, everything = series(3, TIME, CHANNELS), []
    for method in ("timing", "occlusion", "random"):
        exp = tg.explain(net, x, method)
        asked.clear()
        tg.evaluate(model, exp, metrics="cpd", k=TIME * CHANNELS, baseline="background", background=POOL, draws=2)
        rows = torch.cat(asked).flatten(1)
        everything.append({tuple(row) for row in rows.tolist()} & {tuple(row) for row in POOL.flatten(1).tolist()})
    assert everything[0] == everything[1] == everything[2]
    assert 2 <= len(everything[0]) <= 6


def test_scores_depend_on_the_series_alone():
    model, exp = explained(6)
    whole = tg.evaluate(model, exp, background=POOL)
    part = tg.evaluate(model, exp[[4, 1]], background=POOL.flip(0), batch_size=3)
    for name, scores in whole.items():
        torch.testing.assert_close(part[name], scores[[4, 1]], rtol=1e-5, atol=1e-7)


def test_a_pool_of_one_series_is_that_baseline():
    model, x = smooth(TIME, CHANNELS).float(), series(4, TIME, CHANNELS)
    zero = tg.explain(model, x)
    single = tg.evaluate(model, zero, baseline=POOL[0])
    found = tg.evaluate(model, zero, baseline="background", background=POOL[:1], draws=2)
    for name, scores in single.items():
        torch.testing.assert_close(found[name], scores)


def test_several_inputs_and_what_goes_along():
    net, x, other = smooth(TIME, CHANNELS).float(), series(3, TIME, CHANNELS), series(3, TIME, 1, seed=8)

    def several(past, more, gain):
        return (net(past) + 0.1 * more.sum((1, 2))[:, None]) * gain[:, None]

    pools = {"past": POOL, "more": series(12, TIME, 1, seed=9)}
    several_series = tg.Series({"past": x, "more": other}, fixed={"gain": torch.ones(3)})
    options = {"baseline": "background", "background": pools}
    exp = tg.explain(several, several_series, "occlusion", output="raw", target=1, **options)
    found = tg.evaluate(several, exp, metrics="prediction_difference", k=1.0, background=pools, draws=12)
    pool = net(pools["past"])[:, 1] + 0.1 * pools["more"].sum((1, 2))
    clean = net(x)[:, 1] + 0.1 * other.sum((1, 2))
    slow = (clean[:, None] - pool).abs().mean(1)
    torch.testing.assert_close(found["prediction_difference"], slow.detach(), rtol=1e-4, atol=1e-5)


def test_one_output_per_step():
    model, x = Recurrent(2, per_step=True), series(3, TIME, CHANNELS)
    exp = tg.explain(model, x, baseline="background", background=POOL)
    found = tg.evaluate(model, exp, metrics="cpd", k=1.0, background=POOL, draws=2)["cpd"]
    assert (found > 0).all()


def test_sentences():
    model, exp = explained()
    with pytest.raises(tg.TempogradError):
        tg.evaluate(model, exp)
    with pytest.raises(tg.TempogradError):
        tg.evaluate(model, exp, baseline="background")
    with pytest.raises(tg.TempogradError):
        tg.evaluate(model, exp, background=POOL, draws=0)
    with pytest.warns(TempogradWarning, match="background series"):
        tg.evaluate(model, exp, background=POOL[1:])
    assert set(tg.evaluate(model, exp, baseline="zero")) == {"cpd", "cpp"}
