"""
Missing values
==============

Hospital series are mostly holes: a pulse every hour, a laboratory value now and then,
and patients who leave early. What was not observed gets no score, and is not drawn as
0.
"""

import torch

import tempograd as tg

generator = torch.Generator().manual_seed(0)
channels = ["pulse", "temperature", "lactate", "sodium"]
x = torch.randn(60, 36, 4, generator=generator)
often = torch.tensor([0.9, 0.4, 0.12, 0.15])
mask = torch.rand(60, 36, 4, generator=generator) < often
mask[:, :2] = True  # everything is measured at admission
left = torch.randint(18, 37, (60,), generator=generator)
mask &= (torch.arange(36) < left[:, None])[
    ..., None
]  # nothing after the patient left
y = torch.arange(60) % 2
x[..., 2] += 1.5 * y[:, None]  # lactate tells
x = torch.where(mask, x, 0)

# %%
# A model that reads the mean of what was observed. In ``x`` the holes are 0;
# dividing by the number of observed values makes the model independent of them.


def model(series):
    mean = series.sum(1) / (series != 0).sum(1).clamp(min=1)
    risk = 3 * mean[:, 2] + 0.5 * mean[:, 0] - 2
    return torch.stack([-risk, risk], 1)


series = tg.Series(x, y, mask=mask, channels=channels)
named = tg.Predictor(model, classes=["well", "ill"])
exp = tg.explain(named, series, target=1, n_samples=100)
tg.plots.series(exp, 1)

# %%
# Hatched cells were not observed. This patient's few lactate values carry the
# prediction.
#
# Many channels are easier to see as heat maps: a patient who is well.

tg.plots.compare(exp, 0)

# %%
# Over all patients: a laboratory value that is rare can still weigh most.

tg.plots.channel_importance(exp)
