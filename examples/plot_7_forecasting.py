"""
Forecasting
===========

Which past values made the forecast what it is? A forecast has no classes: a
``Predictor`` says so, and ``target`` chooses the step of the horizon.
"""

import torch
from torch import nn

import tempograd as tg

# %%
# Demand follows a day of 24 hours and the temperature of six hours ago. The model
# sees 48 hours and forecasts six.

generator = torch.Generator().manual_seed(0)
hours = torch.arange(3000)
temperature = torch.sin(hours / 37) + 0.5 * torch.randn(3000, generator=generator)
demand = (
    torch.sin(hours * 6.2832 / 24)
    - 0.8 * temperature.roll(6)
    + 0.05 * torch.randn(3000, generator=generator)
)
series = torch.stack([demand, temperature], 1)
windows = series.unfold(0, 54, 6).movedim(1, 2)  # (window, 54 hours, channel)
x, future = windows[:, :48].contiguous(), windows[:, 48:, 0]

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(96, 6))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
for _ in range(400):
    loss = nn.functional.mse_loss(model(x[:400]), future[:400])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
error = (model(x[400:]) - future[400:]).square().mean().sqrt()
print(f"error of new windows {error:.2f}, their spread {future[400:].std():.2f}")

# %%
# Why this forecast for three hours ahead (index 2)? The times count back from now.

times = [str(hour) for hour in range(-48, 0)]
forecaster = tg.Predictor(model, task="forecast")
new = tg.Series(x[400:], channels=["demand", "temperature"], times=times)
exp = tg.explain(forecaster, new, target=2)
exp.plot(5)

# %%
# The temperature of four hours ago stands out, -4 on the axis: it is six hours
# before the forecast hour. Past demand counts a
# little, at many hours.
#
# Each step of the horizon has its own map. All six come from one call, which runs
# the model as often as one of them would. The temperature that counts moves along
# with the step:

every = tg.explain(forecaster, new, targets="all")
tg.plots.horizon(every, 5, channels=["temperature"])

# %%
# The same in numbers, over all windows:

for step in range(6):
    strongest = every[step].importance[..., 1].mean(0).argmax().item()
    print(f"{step + 1} hours ahead: the temperature of hour {times[strongest]}")

# %%
# ``tg.targets`` has other scores, for instance the mean over the horizon; a function of
# one's own picks any:

whole = tg.explain(forecaster, new, target=tg.targets.mean())
tg.plots.compare(whole, 5)
