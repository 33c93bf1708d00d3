"""Models of transformers and chronos, built from configurations: random weights, nothing is downloaded."""

import torch

from tests.other_libraries.catalogue.cases import AHEAD, PAST, SERIES, Built, case, lively, walks

SMALL = {"context_length": PAST, "patch_length": 8, "patch_stride": 8, "d_model": 16}
LAGS, TIME_FEATURES = [1, 2, 3], 2


def _patchtst(**settings):
    from transformers import PatchTSTConfig

    return PatchTSTConfig(
        num_input_channels=3, num_attention_heads=2, num_hidden_layers=2, ffn_dim=32, **SMALL, **settings
    )


def _mixer(**settings):
    from transformers import PatchTSMixerConfig

    return PatchTSMixerConfig(num_input_channels=3, num_layers=2, **SMALL, **settings)


@case(
    "transformers",
    "PatchTSTForClassification",
    """
classifier = tg.Predictor(model, pick="prediction_logits")
exp = tg.explain(classifier, x, "integrated_gradients", baseline=usual)
""",
)
def patchtst_classification():
    from transformers import PatchTSTForClassification

    torch.manual_seed(0)
    model, x = lively(PatchTSTForClassification(_patchtst(num_targets=3))), walks(3)
    usual = walks(3, seed=1)[0]
    predicted = model(past_values=x).prediction_logits.argmax(-1)
    score = lambda z: model(past_values=z).prediction_logits.softmax(-1).gather(1, predicted[:, None])[:, 0]
    return Built({"model": model, "x": x, "usual": usual}, x, score, usual.expand_as(x))


@case(
    "transformers",
    "PatchTSTForPrediction",
    """
forecaster = tg.Predictor(model, task="forecast", pick="prediction_outputs")
exp = tg.explain(forecaster, x, "integrated_gradients", target=(3, 1))
""",
)
def patchtst_prediction():
    from transformers import PatchTSTForPrediction

    torch.manual_seed(0)
    model, x = lively(PatchTSTForPrediction(_patchtst(prediction_length=AHEAD))), walks(3)
    return Built({"model": model, "x": x}, x, lambda z: model(past_values=z).prediction_outputs[:, 3, 1])


@case(
    "transformers",
    "PatchTSMixerForTimeSeriesClassification",
    """
classifier = tg.Predictor(model, pick="prediction_outputs")
exp = tg.explain(classifier, x, "integrated_gradients", n_steps=200)
""",
)
def mixer_classification():
    from transformers import PatchTSMixerForTimeSeriesClassification

    torch.manual_seed(0)
    model, x = lively(PatchTSMixerForTimeSeriesClassification(_mixer(num_targets=3)), 1.5), walks(3)
    predicted = model(past_values=x).prediction_outputs.argmax(-1)
    score = lambda z: model(past_values=z).prediction_outputs.softmax(-1).gather(1, predicted[:, None])[:, 0]
    return Built({"model": model, "x": x}, x, score)


@case(
    "transformers",
    "PatchTSMixerForPrediction",
    """
forecaster = tg.Predictor(model, task="forecast", pick="prediction_outputs")
exp = tg.explain(forecaster, x, "integrated_gradients", target=tg.targets.mean(variable=2))
""",
)
def mixer_prediction():
    from transformers import PatchTSMixerForPrediction

    torch.manual_seed(0)
    model, x = lively(PatchTSMixerForPrediction(_mixer(prediction_length=AHEAD))), walks(3)
    return Built({"model": model, "x": x}, x, lambda z: model(past_values=z).prediction_outputs[..., 2].mean(1))


@case(
    "transformers",
    "PatchTSMixerForRegression",
    """
regression = tg.Predictor(model, task="regression", pick="regression_outputs")
exp = tg.explain(regression, x, "integrated_gradients", target=1, n_steps=200)
""",
)
def mixer_regression():
    from transformers import PatchTSMixerForRegression

    torch.manual_seed(0)
    model, x = lively(PatchTSMixerForRegression(_mixer(num_targets=2, loss="mse")), 1.5), walks(3)
    return Built({"model": model, "x": x}, x, lambda z: model(past_values=z).regression_outputs[:, 1])


def _with_covariates(name, variables):
    """Build a forecaster of past values, time features and static values, and what its user has."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        prediction_length=AHEAD,
        context_length=PAST - max(LAGS),
        input_size=variables,
        lags_sequence=LAGS,
        num_time_features=TIME_FEATURES,
        num_static_real_features=2,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
    )
    model = lively(getattr(transformers, f"{name}ForPrediction")(config))
    past, future = walks(variables), walks(variables, time=AHEAD, seed=1)
    if variables == 1:
        past, future = past[..., 0], future[..., 0]
    draws = torch.Generator().manual_seed(2)
    return {
        "model": model,
        "past": past,
        "calendar": torch.rand(SERIES, PAST, TIME_FEATURES, generator=draws),
        "static": torch.rand(SERIES, 2, generator=draws),
        "calendar_ahead": torch.rand(SERIES, AHEAD, TIME_FEATURES, generator=draws),
        "observed": torch.ones_like(past),
        "drawn_before": future,
    }


COVARIATES = """
mean = lambda **inputs: (out := model(**inputs)).loc + out.scale * out.params[1]
x = tg.Series({"past_values": past, "past_time_features": calendar, "static_real_features": static}, fixed=rest)
exp = tg.explain(tg.Predictor(mean, task="forecast"), x, "integrated_gradients", target=(3, 1), n_steps=200)
"""


def _forecaster_with_covariates(name):
    names = _with_covariates(name, 2)
    model = names["model"]
    rest = {
        "past_observed_mask": names.pop("observed"),
        "future_values": names.pop("drawn_before"),
        "future_time_features": names.pop("calendar_ahead"),
    }

    def score(z):
        out = model(**z, **rest)
        return (out.loc + out.scale * out.params[1])[:, 3, 1]

    inputs = {
        "past_values": names["past"],
        "past_time_features": names["calendar"],
        "static_real_features": names["static"],
    }
    return Built({**names, "rest": rest}, inputs, score)


@case("transformers", "TimeSeriesTransformerForPrediction", COVARIATES)
def time_series_transformer():
    return _forecaster_with_covariates("TimeSeriesTransformer")


@case("transformers", "InformerForPrediction", COVARIATES)
def informer():
    return _forecaster_with_covariates("Informer")


@case("transformers", "AutoformerForPrediction", COVARIATES)
def autoformer():
    return _forecaster_with_covariates("Autoformer")


@case(
    "transformers",
    "TimesFmModelForPrediction",
    """
forecaster = tg.Predictor(model, task="forecast", pick="mean_predictions", layout="BT")
exp = tg.explain(forecaster, x, "integrated_gradients")
""",
)
def timesfm():
    from transformers import TimesFmConfig, TimesFmModelForPrediction

    torch.manual_seed(0)
    config = TimesFmConfig(
        patch_length=8,
        context_length=PAST,
        horizon_length=AHEAD,
        num_hidden_layers=2,
        hidden_size=16,
        intermediate_size=16,
        head_dim=8,
        num_attention_heads=2,
    )
    model, x = lively(TimesFmModelForPrediction(config)), walks()
    return Built({"model": model, "x": x}, x, lambda z: model(z[..., 0]).mean_predictions.mean(1))


@case(
    "chronos-forecasting",
    "Chronos-Bolt",
    """
forecaster = tg.Predictor(pipeline.model, task="forecast", pick="quantile_preds", layout="BT")
exp = tg.explain(forecaster, x, "integrated_gradients", target=(4, 3))
""",
)
def chronos_bolt():
    from chronos import ChronosBoltPipeline
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    torch.manual_seed(0)
    config = T5Config(
        d_model=16, d_ff=16, d_kv=8, num_layers=1, num_decoder_layers=1, num_heads=2, decoder_start_token_id=0
    )
    config.chronos_config = {
        "context_length": PAST,
        "prediction_length": AHEAD,
        "input_patch_size": 8,
        "input_patch_stride": 8,
        "quantiles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
        "use_reg_token": True,
    }
    pipeline, x = ChronosBoltPipeline(lively(ChronosBoltModelForForecasting(config))), walks()
    score = lambda z: pipeline.model(z[..., 0]).quantile_preds[:, 4, 3]
    return Built({"pipeline": pipeline, "x": x}, x, score)


@case(
    "chronos-forecasting",
    "Chronos-2",
    """
forecaster = tg.Predictor(pipeline.model, task="forecast", pick="quantile_preds", layout="BT")
exp = tg.explain(forecaster, x, "integrated_gradients", target=(1, 3))
""",
)
def chronos_2():
    from chronos import Chronos2Model, Chronos2Pipeline
    from chronos.chronos2 import Chronos2CoreConfig

    torch.manual_seed(0)
    config = Chronos2CoreConfig(d_model=16, d_ff=16, d_kv=8, num_layers=1, num_heads=2)
    config.chronos_config = {
        "context_length": PAST,
        "output_patch_size": AHEAD,
        "input_patch_size": 8,
        "input_patch_stride": 8,
        "quantiles": [0.1, 0.5, 0.9],
        "use_reg_token": True,
        "use_arcsinh": True,
        "max_output_patches": 1,
        "time_encoding_scale": PAST,
    }
    pipeline, x = Chronos2Pipeline(lively(Chronos2Model(config))), walks()
    return Built({"pipeline": pipeline, "x": x}, x, lambda z: pipeline.model(z[..., 0]).quantile_preds[:, 1, 3])
