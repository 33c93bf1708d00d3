"""The study of FIT's generator asks the whole model, also where it takes one step from a state that it knows."""

import pytest
import torch

import fit_generators
from tempograd.data import Series
from tempograd.models.networks import GRUClassifier
from tempograd_paper.released.fit import PlainGenerator
from tests.helpers.models import series

pytestmark = pytest.mark.slow  # weekly


@pytest.mark.parametrize("changed", ["nothing", "last step", "first step"])
@torch.no_grad()
def test_one_step_from_a_known_state_gives_the_model_s_own_logits(changed):
    torch.manual_seed(0)
    model, x = GRUClassifier(3, 2, per_step=True, hidden=5).eval(), series(4, 6, 3)
    logits = fit_generators.stepping(fit_generators.Subject(None, model, Series(x, torch.zeros(4, 6).long())))
    for length in range(1, 7):
        z = x[:, :length].clone()
        if changed != "nothing":
            z[:, {"last step": -1, "first step": 0}[changed]] += 1
        torch.testing.assert_close(logits(z), model.last(z), rtol=1e-5, atol=1e-6)


def test_every_weight_of_our_generator_has_a_name_there():
    layers = [f"{layer}.{weight}" for layer in "03" for weight in ("weight", "bias")]
    layers += [f"2.{each}" for each in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
    parts = ("dist_predictor", "mean_generator", "cov_generator")
    theirs = [f"rnn.{kind}_{part}_l0" for kind in ("weight", "bias") for part in ("ih", "hh")]
    theirs += [f"{part}.{layer}" for part in parts for layer in layers]
    ours = PlainGenerator(3, fit_generators.settings().hidden).state_dict()
    assert sorted(map(fit_generators.our_name, theirs)) == sorted(ours)


def test_the_loss_of_one_gaussian_is_its_entropy():
    """Of standard normal numbers in two channels, 1 + log(2 pi); and of those times three, log 9 more."""
    x = torch.randn(300, 204, 2, generator=torch.Generator().manual_seed(0))
    plain, wide = fit_generators.one_gaussian(x), fit_generators.one_gaussian(3 * x)
    assert plain == pytest.approx(1 + torch.log(torch.tensor(2 * torch.pi)).item(), abs=0.02)
    assert wide - plain == pytest.approx(torch.log(torch.tensor(9.0)).item(), abs=1e-5)
