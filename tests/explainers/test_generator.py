"""The generators' density and draws, and the loop they learn in."""

import math

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.explainers.files import LearntNetwork
from tempograd.explainers.prefix import FitSchedule, Generator, learn
from tests.helpers.literal_methods import Known
from tests.helpers.models import series

DOUBLE = torch.float64


def test_draws_given_one_value_have_the_conditional_mean_and_covariance():
    factor = torch.tensor([[0.8, 0.3, 0.0], [0.2, 0.9, 0.5], [0.0, 0.4, 0.6]], dtype=DOUBLE)
    mean, x = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE), series(1, 2, 3, dtype=DOUBLE)
    known, samples = Known(mean, factor, 0.05).double(), 100000
    drawn = known.candidates(x, known.past(x), slice(1, 2), torch.tensor([4]), 0, samples)[0, 0]
    covariance = factor @ factor.T + 0.05 * torch.eye(3, dtype=DOUBLE)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        assert (drawn[i, :, i] == x[0, 1, i]).all()
        expected = mean[rest] + covariance[rest, i] / covariance[i, i] * (x[0, 1, i] - mean[i])
        left = covariance[rest][:, rest] - torch.outer(covariance[rest, i], covariance[i, rest]) / covariance[i, i]
        torch.testing.assert_close(drawn[i][:, rest].mean(0), expected, rtol=0, atol=0.02)
        torch.testing.assert_close(drawn[i][:, rest].T.cov(), left, rtol=0, atol=0.02)


PULL, FACTOR = torch.tensor([[0.8, 0.0], [0.3, 0.5]]), torch.tensor([[0.5, 0.1], [0.3, 0.4]])


def linear_process(count, time):
    rng = torch.Generator().manual_seed(1)
    steps = [torch.randn(count, 2, generator=rng)]
    for _ in range(time - 1):
        steps.append(steps[-1] @ PULL.T + torch.randn(count, 2, generator=rng) @ FACTOR.T)
    return torch.stack(steps, 1)


class Itself(Known):
    """The law of the linear process itself."""

    def moments(self, past, noise):
        return past @ PULL.to(past).T, self.a.expand(len(past), -1, -1)


def test_the_right_generator_is_surprised_by_the_entropy():
    x = linear_process(4000, 6).double()
    process = Itself([0.0, 0.0], FACTOR, 1e-9)
    entropy = 0.5 * float(torch.logdet(2 * math.pi * math.e * FACTOR @ FACTOR.T))
    values, past = x[:, 1:].flatten(0, 1), process.past(x)[:, 1:].flatten(0, 1)
    surprise = float(process.surprise(values, past, torch.zeros(1)))
    assert surprise == pytest.approx(entropy, abs=4 / math.sqrt(len(values)))  # half a chi-square of 2: spread 1
    oracle = torch.distributions.MultivariateNormal(past @ PULL.double().T, (FACTOR @ FACTOR.T).double())
    assert surprise == pytest.approx(float(-oracle.log_prob(values).mean()), abs=1e-6)


def test_the_generator_learns_what_follows_from_the_past():
    x = linear_process(400, 8)
    schedule = FitSchedule(15, 50, rate=5e-3)
    generator = learn(lambda: Generator(2, 6), nn.Linear(2, 2), x[:300], schedule, 0, "g")
    values, past = x[300:, 3:].flatten(0, 1), generator.past(x[300:])[:, 3:].flatten(0, 1)
    noise = torch.randn(len(past), generator.latents, generator=torch.Generator().manual_seed(0))
    mean = generator.moments(past, noise)[0]
    new, all_of_it, left = (c.trace() for c in (FACTOR @ FACTOR.T, values.T.cov(), (values - mean).T.cov()))
    assert new < left < new + 0.75 * (all_of_it - new)


def weights(seed):
    return tg.Fit(epochs=2).fit(nn.Identity(), series(20, 5, 2), seed=seed).generator.state_dict()


def test_learning_depends_on_the_seed_alone_and_disturbs_no_other_numbers():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = weights(3)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(6)
    with torch.inference_mode():
        again = weights(3)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["gru.weight_ih_l0"], weights(4)["gru.weight_ih_l0"])


class Two(LearntNetwork):
    """Two numbers that rise by the rate in every epoch."""

    def __init__(self, checked):
        super().__init__()
        self.w, self.checked = nn.Parameter(torch.zeros(2, 1)), checked

    def losses(self, x, rng):
        yield -self.w.sum()

    def check(self, x, rng):
        return torch.tensor(next(self.checked))


@pytest.mark.parametrize(("patience", "best", "epochs"), [(None, [5.0, 1.0], 5), (2, [2.0, 1.0], 4)])
def test_each_part_keeps_its_best_epoch(patience, best, epochs):
    checked = iter(([3.0, 1.0], [2.0, 2.0], [2.5, 1.5], [9.0, 1.5], [1.0, 1.5]))
    schedule = FitSchedule(5, 100, rate=1.0, held_out=0.2, patience=patience)
    network = learn(lambda: Two(checked), nn.Identity(), series(10, 3, 1), schedule, 0, "two numbers")
    torch.testing.assert_close(network.w.flatten(), torch.tensor(best), rtol=1e-4, atol=0)
    assert len(list(checked)) == 5 - epochs


def test_held_out_series_are_not_learnt_from():
    seen, held = [], []

    class Watched(Generator):
        def losses(self, x, rng):
            seen.append(x[:, 0, 0])
            yield from super().losses(x, rng)

        def check(self, x, rng):
            held.append(x[:, 0, 0])
            return super().check(x, rng)

    x = torch.arange(21.0)[:, None, None].expand(21, 4, 2) / 21
    learn(lambda: Watched(2, 4), nn.Identity(), x, FitSchedule(2, 9), 0, "split")
    held, seen = torch.cat(held[:1]).sort().values, torch.cat(seen[:2]).sort().values
    assert len(held) == 3
    assert torch.equal(torch.cat([held, seen]).sort().values, x[:, 0, 0])
