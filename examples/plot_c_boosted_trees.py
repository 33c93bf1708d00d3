"""
Boosted trees in a pipeline
===========================

A scikit-learn pipeline has no gradient and takes tables. Methods that only need
predictions explain it as it is: occlusion and LIME.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tempograd as tg

# %%
# Machines report pressure and vibration once an hour. One that will fail had a burst of
# vibration in the last six hours.

generator = np.random.default_rng(0)
x = generator.normal(size=(300, 24, 2))
fails = np.arange(300) % 2
x[fails == 1, -6:, 1] += 1.5
x = x * [2.0, 0.3] + [100.0, 1.0]  # bar and mm/s

model = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=30))
model.fit(x[:200].reshape(200, -1), np.where(fails[:200] == 1, "fails", "runs"))
print(
    f"accuracy {model.score(x[200:].reshape(100, -1), np.where(fails[200:], 'fails', 'runs')):.2f}"
)

# %%
# The pipeline was fitted to rows of 48 numbers, so each series is laid out like that
# for it. Its probabilities are explained as they are, and its classes have their names.
# What replaces a value is the mean of the training series at that hour: 0 is far from
# any pressure.

new = tg.Series(
    x[200:],
    channels=["pressure", "vibration"],
    times=list(range(-24, 0)),
    units=["bar", "mm/s"],
)
exp = tg.explain(model, new, "occlusion", background=x[:200], target="fails")
print(exp.verdict())
exp.plot(1)

# %%
# Over all machines, the vibration of the last hours decides:

tg.plots.channel_importance(exp)

# %%
# A function from numpy arrays to numpy arrays is a model too:


@tg.adapters.from_numpy
def risk(series):
    return model.predict_proba(series.reshape(len(series), -1))[:, 0]


predictor = tg.Predictor(risk, task="regression")
again = tg.explain(predictor, new.take(slice(20)), "lime", baseline="average")
print(again.top(3))
