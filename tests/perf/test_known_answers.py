"""The default number of samples on an ordinary LSTM whose alarms have two known causes."""

import pytest

import tempograd as tg
from known_answers import Alarm, plant, trained
from tempograd.views.drivers import drivers_of


@pytest.mark.filterwarnings("ignore:The gradient is not that")  # of a few, which are steep
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_true_alarms_name_a_true_cause_by_default(seed):
    model, test = trained(Alarm, plant(3000, 10 + seed), 30, 1e-2, seed, "cpu"), plant(240, 20 + seed)
    alarms = test.take(((test.y == 1) & (model(test.x).argmax(-1) == 1)).nonzero()[:, 0])
    exp = tg.explain(model, alarms)
    first = [drivers_of(exp, i)[0] for i in range(len(alarms))]
    right = [
        each.certain and bool(alarms.truth[i, each.start : each.stop, each.channel].any())
        for i, each in enumerate(first)
    ]
    assert sum(right) >= 0.95 * len(alarms) >= 45
    assert float(exp.n_evals.float().mean()) < 350
