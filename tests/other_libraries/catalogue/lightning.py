"""Forecasters of pytorch-forecasting and gluonts, with random weights."""

import numpy as np
import torch

from tests.other_libraries.catalogue.cases import AHEAD, PAST, SERIES, Built, case, lively, walks

INPUTS = ("encoder_cont", "decoder_cont")
BATCH = """
inputs = {key: batch.pop(key) for key in ("encoder_cont", "decoder_cont")}
net = tg.Predictor(lambda **batch: model(batch).prediction, task="forecast")
exp = tg.explain(net, tg.Series(inputs, fixed=batch), "integrated_gradients", target=(2, 0))
"""


def _batch(**columns):
    """Return a data set of pytorch-forecasting and a batch of it."""
    import pandas as pd
    from pytorch_forecasting import TimeSeriesDataSet

    time, draws = PAST + AHEAD, np.random.default_rng(2)
    y = walks(series=SERIES, time=time)[..., 0].numpy().flatten()
    frame = pd.DataFrame(
        {
            "step": np.tile(np.arange(time), SERIES),
            "shop": np.repeat(list("abcd"), time),
            "sold": y,
            "price": draws.random(len(y), dtype=np.float32),
            "size": np.repeat(draws.random(SERIES, dtype=np.float32), time),
            "day": [str(step % 7) for step in range(time)] * SERIES,
        }
    )
    data = TimeSeriesDataSet(
        frame,
        time_idx="step",
        target="sold",
        group_ids=["shop"],
        min_encoder_length=PAST,
        max_encoder_length=PAST,
        max_prediction_length=AHEAD,
        time_varying_unknown_reals=["sold"],
        **columns,
    )
    return data, next(iter(data.to_dataloader(train=False, batch_size=SERIES)))[0]


COVARIATES = {
    "static_reals": ["size"],
    "time_varying_known_reals": ["price"],
    "time_varying_known_categoricals": ["day"],
}


def _of_batch(model, batch, column=0):
    inputs = {key: batch[key] for key in INPUTS}
    score = lambda z: model({**batch, **z}).prediction[:, 2, column]
    return Built({"model": model, "batch": dict(batch)}, inputs, score)


@case("pytorch-forecasting", "TemporalFusionTransformer", BATCH.replace("(2, 0)", "(2, 1)"))
def forecasting_tft():
    from pytorch_forecasting import TemporalFusionTransformer
    from pytorch_forecasting.metrics import QuantileLoss

    data, batch = _batch(**COVARIATES)
    torch.manual_seed(1)  # with 0 and 3, of 0 to 4, one series is told: docs/models.md says so
    model = TemporalFusionTransformer.from_dataset(
        data, hidden_size=8, attention_head_size=2, hidden_continuous_size=4, loss=QuantileLoss([0.1, 0.5, 0.9])
    )
    return _of_batch(model.eval(), batch, 1)


@case("pytorch-forecasting", "NHiTS", BATCH)
def forecasting_nhits():
    from pytorch_forecasting import NHiTS

    data, batch = _batch(**COVARIATES)
    torch.manual_seed(0)
    return _of_batch(NHiTS.from_dataset(data, hidden_size=16).eval(), batch)


@case("pytorch-forecasting", "NBeats", BATCH.replace(', "decoder_cont"', ","))
def forecasting_nbeats():
    from pytorch_forecasting import NBeats

    data, batch = _batch()
    torch.manual_seed(0)
    model = NBeats.from_dataset(data, widths=[16, 16], num_blocks=[1, 1]).eval()
    score = lambda z: model({**batch, **z}).prediction[:, 2, 0]
    return Built({"model": model, "batch": dict(batch)}, {"encoder_cont": batch["encoder_cont"]}, score)


@case(
    "gluonts",
    "PatchTST",
    """
net = lambda past, observed: model.distr_output.distribution(*model(past, observed)).mean
net, series = tg.Predictor(net, task="forecast", layout="BT"), tg.Series(x, fixed={"observed": observed})
exp = tg.explain(net, series, "integrated_gradients", target=2)
""",
)
def gluonts_patchtst():
    from gluonts.torch.model.patch_tst.module import PatchTSTModel

    torch.manual_seed(0)
    model = PatchTSTModel(
        prediction_length=AHEAD,
        context_length=PAST,
        patch_len=8,
        stride=8,
        padding_patch="end",
        d_model=16,
        nhead=2,
        dim_feedforward=16,
        num_feat_dynamic_real=0,
        dropout=0.1,
        activation="relu",
        norm_first=False,
        num_encoder_layers=1,
        scaling="mean",
    ).eval()
    x, observed = walks(), torch.ones(SERIES, PAST)
    score = lambda z: model.distr_output.distribution(*model(z[..., 0], observed)).mean[:, 2]
    return Built({"model": model, "x": x, "observed": observed}, x, score)


@case(
    "gluonts",
    "SimpleFeedForward",
    """
net = lambda past: model.distr_output.distribution(*model(past)).mean
net = tg.Predictor(net, task="forecast", layout="BT")
exp = tg.explain(net, x, "integrated_gradients", target=2, n_steps=200)
""",
)
def gluonts_feedforward():
    from gluonts.torch.model.simple_feedforward.module import SimpleFeedForwardModel

    torch.manual_seed(0)
    model = lively(SimpleFeedForwardModel(AHEAD, PAST, hidden_dimensions=[16, 16]), 1.5)
    x = walks()
    score = lambda z: model.distr_output.distribution(*model(z[..., 0])).mean[:, 2]
    return Built({"model": model, "x": x}, x, score)
