"""Keras on torch, and estimators of aeon, tslearn, scikit-learn, xgboost and lightgbm."""

import os

import numpy as np
import torch

from tests.other_libraries.catalogue.cases import Built, case, walks

WIDTH, TIME = 3, 16


@case("keras", "LSTM, backend torch", 'exp = tg.explain(model, x, "integrated_gradients")')
def keras_lstm():
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([keras.Input((TIME, WIDTH)), layers.LSTM(8), layers.Dense(3)])
    x = walks(WIDTH, time=TIME) - 10
    predicted = model(x).argmax(-1, keepdim=True)
    return Built({"model": model, "x": x}, x, lambda z: model(z).softmax(-1).gather(1, predicted)[:, 0])


@case(
    "keras",
    "Conv1D, sigmoid for several labels",
    """
labels = tg.Predictor(model, task="multilabel")
exp = tg.explain(labels, x, "integrated_gradients", output="raw", target=1, n_steps=200)
""",
)
def keras_convolution():
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((TIME, WIDTH)),
            layers.Conv1D(8, 3, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(4, activation="sigmoid"),
        ]
    )
    x = walks(WIDTH, time=TIME) - 10
    return Built({"model": model, "x": x}, x, lambda z: model(z)[:, 1])


def _classes(x):
    """Return which of three channels ends highest."""
    return x[:, -1].argmax(-1).numpy()


def _training():
    x = walks(WIDTH, series=60, time=TIME)
    return x, _classes(x)


def _classifier(model, x, shape):
    """Return what the user has, and the probability of the class that was predicted for each series."""
    ask = lambda z: torch.from_numpy(np.asarray(model.predict_proba(z.numpy().reshape(shape)))).float()
    predicted = ask(x).argmax(-1, keepdim=True)
    return Built({"model": model, "x": x}, x, lambda z: ask(z).gather(1, predicted)[:, 0])


SERIES, FLAT = (-1, TIME, WIDTH), (-1, TIME * WIDTH)


@case("tslearn", "KNeighborsTimeSeriesClassifier", 'exp = tg.explain(model, x, "occlusion")')
def tslearn_neighbours():
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier

    x, y = _training()
    model = KNeighborsTimeSeriesClassifier(5, metric="euclidean").fit(x[4:].numpy(), y[4:])
    return _classifier(model, x[:4], SERIES)


@case("tslearn", "TimeSeriesSVC", 'exp = tg.explain(model, x, "occlusion")')
def tslearn_svc():
    from tslearn.svm import TimeSeriesSVC

    x, y = _training()
    model = TimeSeriesSVC(kernel="rbf", gamma=0.01, probability=True, random_state=0).fit(x[4:].numpy(), y[4:])
    return _classifier(model, x[:4], SERIES)


@case("scikit-learn", "Pipeline with logistic regression", 'exp = tg.explain(model, x, "occlusion")')
def sklearn_pipeline():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = _training()
    return _classifier(make_pipeline(StandardScaler(), LogisticRegression()).fit(x.flatten(1), y), x[:4], FLAT)


@case(
    "scikit-learn",
    "RandomForestRegressor",
    'exp = tg.explain(tg.Predictor(model, task="regression"), x, "occlusion")',
)
def sklearn_regressor():
    from sklearn.ensemble import RandomForestRegressor

    x, _ = _training()
    model = RandomForestRegressor(20, random_state=0).fit(x.flatten(1), x[:, -1].sum(-1))
    score = lambda z: torch.from_numpy(model.predict(z.reshape(FLAT).numpy())).float()
    return Built({"model": model, "x": x[:4]}, x[:4], score)


@case("xgboost", "XGBClassifier", 'exp = tg.explain(model, x, "occlusion")')
def xgboost_classifier():
    from xgboost import XGBClassifier

    x, y = _training()
    return _classifier(XGBClassifier(n_estimators=10, n_jobs=1).fit(x.flatten(1).numpy(), y), x[:4], FLAT)


@case("lightgbm", "LGBMRegressor", 'exp = tg.explain(tg.Predictor(model, task="regression"), x, "occlusion")')
def lightgbm_regressor():
    from lightgbm import LGBMRegressor

    x, _ = _training()
    model = LGBMRegressor(n_estimators=20, min_child_samples=5, verbose=-1, n_jobs=1)
    model.fit(x.flatten(1).numpy(), x[:, -1].sum(-1).numpy())
    score = lambda z: torch.from_numpy(model.predict(z.reshape(FLAT).numpy())).float()
    return Built({"model": model, "x": x[:4]}, x[:4], score)


def _aeon(model):
    x = walks(2, series=20, time=20).movedim(1, 2).contiguous()
    model.fit(x.numpy(), (x[:, 0, -1] > x[:, 1, -1]).long().numpy())
    return _classifier(model, x[:4], (-1, 2, 20))


CHANNELS_FIRST = """
exp = tg.explain(tg.Predictor(model, layout="BDT"), tg.Series(x, layout="BDT"), "occlusion")
"""


@case("aeon", "TimeSeriesForestClassifier", CHANNELS_FIRST)
def aeon_forest():
    from aeon.classification.interval_based import TimeSeriesForestClassifier

    return _aeon(TimeSeriesForestClassifier(n_estimators=10, random_state=0))


@case("aeon", "MiniRocketClassifier", CHANNELS_FIRST)
def aeon_minirocket():
    from aeon.classification.convolution_based import MiniRocketClassifier
    from sklearn.linear_model import LogisticRegression

    return _aeon(MiniRocketClassifier(n_kernels=168, estimator=LogisticRegression(), random_state=0))
