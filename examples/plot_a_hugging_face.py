"""
A Hugging Face forecaster
=========================

``PatchTSTForPrediction`` returns an object with several tensors, and a forecast has
three axes. ``pick`` of a ``Predictor`` says which tensor, ``target`` which step and
variable.
"""

import torch
from transformers import PatchTSTConfig, PatchTSTForPrediction

import tempograd as tg

# %%
# Demand follows the day and, six hours later, the temperature. The network reads 48
# hours of both and forecasts the next six of both.

generator = torch.Generator().manual_seed(0)
hours = torch.arange(3000)
temperature = torch.sin(hours / 37) + 0.5 * torch.randn(3000, generator=generator)
noise = 0.05 * torch.randn(3000, generator=generator)
demand = torch.sin(hours * 6.2832 / 24) - 0.8 * temperature.roll(6) + noise
windows = torch.stack([demand, temperature], 1).unfold(0, 54, 6).movedim(1, 2)
x, future = windows[:, :48].contiguous(), windows[:, 48:].contiguous()

torch.manual_seed(0)
config = PatchTSTConfig(
    num_input_channels=2,
    context_length=48,
    prediction_length=6,
    patch_length=6,
    patch_stride=6,
    d_model=32,
    ffn_dim=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    channel_attention=True,
    scaling=None,
    dropout=0.0,
)
model = PatchTSTForPrediction(config)
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    rows = slice(step % 6 * 64, step % 6 * 64 + 64)
    loss = model(past_values=x[rows], future_values=future[rows]).loss
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
print(f"mean squared error of the last batch {loss:.2f}, spread {future.var():.2f}")

# %%
# Which hours made the demand of the third hour ahead what it is? The address is
# (step of the horizon, variable). A model that was just trained is still in training
# mode: it is run in evaluation mode and put back.

forecaster = tg.Predictor(model, task="forecast", pick="prediction_outputs")
new = tg.Series(
    x[400:], channels=["demand", "temperature"], times=list(range(-48, 0))
)
exp = tg.explain(forecaster, new, target=(2, 0))
print(exp.verdict())
exp.plot(5)

# %%
# All six steps of the demand in one call, which runs the model once for all of them,
# and one picture: which past hours pushed which hour of the forecast.

steps = [(step, 0) for step in range(6)]
every = tg.explain(forecaster, new.take(slice(4)), targets=steps)
tg.plots.horizon(every, 0)

# %%
# Metrics follow the explained step alone: how far does the forecast of that hour move
# when the strongest tenth of the values is taken away?

scores = tg.evaluate(model, exp, metrics=["cpd", "comprehensiveness"])
print({name: round(float(values.mean()), 3) for name, values in scores.items()})
