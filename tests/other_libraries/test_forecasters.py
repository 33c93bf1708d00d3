"""Forecasters of darts and neuralforecast, as their users have them: ``make test-slow`` installs both.

Their reversible instance normalisation detaches mean and deviation: autograd differentiates another function. The
honest twin of such a network is the same one, run while ``detach`` does nothing.
"""

import logging
import warnings

import numpy as np
import pytest
import torch

import tempograd as tg

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # theirs are many
PAST, AHEAD = 24, 6
TRAINER = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "logger": False,
    "enable_checkpointing": False,
    "enable_model_summary": False,
}


def walks(count: int, channels: int = 1) -> torch.Tensor:
    steps = np.random.default_rng(0).normal(size=(count, PAST, channels)).cumsum(1)
    return torch.from_numpy(steps.astype(np.float32)) + 20


def honest(model, z):
    """Run a model while nothing is detached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "detach", lambda tensor: tensor)
        return model(z)


@pytest.fixture(scope="module", params=["NHiTSModel", "TiDEModel"])
def darts_network(request):
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from darts import TimeSeries, models
        from darts.utils.data.torch_datasets.utils import PLModuleInput

        long = np.random.default_rng(1).normal(size=(300, 1)).cumsum(0).astype(np.float32) + 20
        kind = getattr(models, request.param)
        model = kind(
            input_chunk_length=PAST,
            output_chunk_length=AHEAD,
            n_epochs=3,
            random_state=0,
            use_reversible_instance_norm=True,
            pl_trainer_kwargs=TRAINER,
        )
        model.fit(TimeSeries.from_values(long))
    logging.disable(logging.NOTSET)
    return lambda z: model.model(PLModuleInput(past_target=z)).prediction[:, :, 0, 0]


@pytest.fixture(scope="module")
def itransformer():
    from neuralforecast.models import iTransformer

    torch.manual_seed(0)
    model = iTransformer(
        h=AHEAD, input_size=PAST, n_series=3, hidden_size=16, n_heads=2, e_layers=1, d_ff=16, max_steps=1
    )
    return lambda z: model({"insample_y": z, "futr_exog": None, "hist_exog": None, "stat_exog": None})[:, :, 0]


@pytest.mark.parametrize("baseline", ["zero", "average"])
@pytest.mark.parametrize("method", ["timing", "integrated_gradients"])
def test_detached_normalisation_is_told(darts_network, method, baseline):
    found = tg.explain(darts_network, walks(12), method, output="raw", target=2, baseline=baseline)
    assert "gradient" in found.verdict()
    assert not found.verdict().startswith(("converged", "complete"))
    assert "n_samples=" not in found.verdict()


@pytest.mark.parametrize("baseline", ["zero", "average"])
def test_the_honest_twin_is_complete(darts_network, baseline):
    twin = lambda z: honest(darts_network, z)
    found = tg.explain(
        twin, walks(12), "integrated_gradients", output="raw", target=2, baseline=baseline, n_steps=200
    )
    assert found.verdict().startswith("complete")


def test_a_network_that_works_in_place_is_differentiated(itransformer):
    """Its deviations are divided out in place, which autograd refuses at first."""
    twin = lambda z: honest(itransformer, z)
    found = tg.explain(twin, walks(6, 3), "integrated_gradients", output="raw", target=2, n_steps=200)
    residual, delta = found.convergence_delta.abs().sum(), found.delta.abs().sum()
    assert residual < 1e-2 * delta
    kept = tg.explain(itransformer, walks(6, 3), output="raw", target=2)
    assert "gradient" in kept.verdict()  # the mean is detached
