"""Forecasters of darts and neuralforecast, trained for a few steps."""

import logging

import numpy as np
import torch

from tests.other_libraries.catalogue.cases import AHEAD, PAST, SERIES, Built, case, walks

QUIET = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "logger": False,
    "enable_checkpointing": False,
    "enable_model_summary": False,
}
DETACHED = "mean and deviation of its normalisation are detached"


def _darts(kind, *, covariates=False, **settings):
    """Train a model of darts and return it in evaluation mode."""
    import pandas as pd
    from darts import TimeSeries, models

    logging.disable(logging.CRITICAL)
    model = getattr(models, kind)(
        input_chunk_length=PAST,
        output_chunk_length=AHEAD,
        n_epochs=2,
        random_state=0,
        pl_trainer_kwargs=QUIET,
        **settings,
    )
    long = walks(1, series=1, time=300, seed=1)[0].numpy()
    if covariates:
        known = walks(2, series=1, time=300, seed=2)[0].numpy()
        statics = pd.DataFrame({"size": [0.5], "age": [0.2]})
        model.fit(
            TimeSeries.from_values(long, static_covariates=statics),
            future_covariates=TimeSeries.from_values(known),
        )
    else:
        model.fit(TimeSeries.from_values(long))
    logging.disable(logging.NOTSET)
    model.model.eval()
    return model


DARTS = """
net = tg.Predictor(lambda series: model.model(PLModuleInput(series)), task="forecast", pick="prediction")
exp = tg.explain(net, x, "integrated_gradients", target=(2, 0, 0))
"""
DARTS_COVARIATES = """
net = tg.Predictor(lambda **inputs: model.model(PLModuleInput(**inputs)), task="forecast", pick="prediction")
exp = tg.explain(net, inputs, "integrated_gradients", target=(2, 0, 1))
"""


def _darts_built(model):
    from darts.utils.data.torch_datasets.utils import PLModuleInput

    x = walks()
    score = lambda z: model.model(PLModuleInput(past_target=z)).prediction[:, 2, 0, 0]
    return Built({"model": model, "PLModuleInput": PLModuleInput, "x": x}, x, score)


def _darts_with_covariates(model, column):
    from darts.utils.data.torch_datasets.utils import PLModuleInput

    draws = torch.Generator().manual_seed(3)
    inputs = {
        "past_target": walks() / 10,
        "historic_future_covariates": walks(2, seed=4) / 10,
        "future_covariates": walks(2, time=AHEAD, seed=5) / 10,
        "static_covariates": torch.rand(SERIES, 1, 2, generator=draws),
    }
    score = lambda z: model.model(PLModuleInput(**z)).prediction[:, 2, 0, column]
    return Built({"model": model, "PLModuleInput": PLModuleInput, "inputs": inputs}, inputs, score)


@case("darts", "NBEATSModel", DARTS.replace("target=", "n_steps=200, target="))
def darts_nbeats():
    return _darts_built(_darts("NBEATSModel", num_stacks=2, num_blocks=1, layer_widths=16))


@case("darts", "BlockRNNModel", DARTS)
def darts_rnn():
    return _darts_built(_darts("BlockRNNModel", model="LSTM", hidden_dim=8))


@case("darts", "TFTModel, quantiles and covariates", DARTS_COVARIATES)
def darts_tft():
    from darts.utils.likelihood_models.torch import QuantileRegression

    likelihood = QuantileRegression([0.1, 0.5, 0.9])
    model = _darts("TFTModel", covariates=True, hidden_size=8, num_attention_heads=2, likelihood=likelihood)
    return _darts_with_covariates(model, 1)


@case("darts", "TiDEModel with covariates", DARTS_COVARIATES.replace("(2, 0, 1)", "(2, 0, 0)"))
def darts_tide():
    return _darts_with_covariates(_darts("TiDEModel", covariates=True, hidden_size=16), 0)


@case("darts", "NHiTSModel, reversible norm", DARTS, flagged=DETACHED)
def darts_nhits():
    return _darts_built(_darts("NHiTSModel", layer_widths=16, use_reversible_instance_norm=True))


@case("darts", "TSMixerModel, reversible norm", DARTS, flagged=DETACHED)
def darts_tsmixer():
    return _darts_built(_darts("TSMixerModel", hidden_size=8, ff_size=8, use_reversible_instance_norm=True))


def _neuralforecast(kind, *, covariates=False, **settings):
    """Train a model of neuralforecast as its users do; it is ``nf.models[0]``."""
    import pandas as pd
    from neuralforecast import NeuralForecast, models

    logging.disable(logging.CRITICAL)
    listed = {"futr_exog_list": ["promotion"], "hist_exog_list": ["visits"], "stat_exog_list": ["size", "age"]}
    several = {"n_series": 3} if kind == "iTransformer" else {}
    model = getattr(models, kind)(
        h=AHEAD,
        input_size=PAST,
        max_steps=2,
        random_seed=0,
        **several,
        **settings,
        **(listed if covariates else {}),
        **QUIET,
    )
    known, ids = walks(3, series=3, time=100, seed=1).numpy(), np.repeat(["a", "b", "c"], 100)
    columns = {"y": known[..., 0], "promotion": known[..., 1], "visits": known[..., 2]}
    frame = pd.DataFrame({"unique_id": ids, "ds": np.tile(np.arange(100), 3)})
    for column, values in list(columns.items())[: 3 if covariates else 1]:
        frame[column] = values.flatten()
    statics = pd.DataFrame({"unique_id": ["a", "b", "c"], "size": [0.1, 0.5, 0.9], "age": [0.3, 0.2, 0.8]})
    nf = NeuralForecast(models=[model], freq=1)
    nf.fit(frame, static_df=statics if covariates else None)
    logging.disable(logging.NOTSET)
    nf.models[0].eval()
    return nf


NEURALFORECAST = """
net = tg.Predictor(lambda series: nf.models[0]({"insample_y": series}), task="forecast")
exp = tg.explain(net, x, "integrated_gradients", target=(2, 0))
"""
NEURALFORECAST_COVARIATES = """
net = tg.Predictor(lambda **inputs: nf.models[0](inputs), task="forecast")
series = tg.Series(inputs, fixed={"insample_mask": ones})
exp = tg.explain(net, series, "integrated_gradients", target=(2, 0))
"""


def _neuralforecast_built(nf, channels=1):
    x = walks(channels)
    score = lambda z: nf.models[0]({"insample_y": z})[:, 2, 0]
    return Built({"nf": nf, "x": x}, x, score)


def _neuralforecast_with_covariates(nf):
    inputs = {
        "insample_y": walks(),
        "futr_exog": walks(1, time=PAST + AHEAD, seed=2),
        "hist_exog": walks(1, seed=3),
        "stat_exog": torch.from_numpy(np.random.default_rng(4).random((SERIES, 2), dtype=np.float32)),
    }
    ones = torch.ones(SERIES, PAST, 1)
    score = lambda z: nf.models[0]({**z, "insample_mask": ones})[:, 2, 0]
    return Built({"nf": nf, "inputs": inputs, "ones": ones}, inputs, score)


@case("neuralforecast", "NHITS with covariates", NEURALFORECAST_COVARIATES)
def neuralforecast_nhits():
    return _neuralforecast_with_covariates(_neuralforecast("NHITS", mlp_units=3 * [[16, 16]], covariates=True))


@case("neuralforecast", "TFT with covariates", NEURALFORECAST_COVARIATES)
def neuralforecast_tft():
    return _neuralforecast_with_covariates(_neuralforecast("TFT", hidden_size=8, n_head=2, covariates=True))


@case("neuralforecast", "DLinear", NEURALFORECAST)
def neuralforecast_dlinear():
    return _neuralforecast_built(_neuralforecast("DLinear"))


@case("neuralforecast", "PatchTST, reversible norm", NEURALFORECAST, flagged=DETACHED)
def neuralforecast_patchtst():
    sizes = {"hidden_size": 16, "n_heads": 2, "linear_hidden_size": 16, "encoder_layers": 1, "patch_len": 8}
    return _neuralforecast_built(_neuralforecast("PatchTST", stride=8, revin=True, **sizes))


@case("neuralforecast", "iTransformer", NEURALFORECAST, flagged=DETACHED)
def neuralforecast_itransformer():
    sizes = {"hidden_size": 16, "n_heads": 2, "e_layers": 1, "d_ff": 16}
    return _neuralforecast_built(_neuralforecast("iTransformer", **sizes), 3)
