"""
Irregular series and what goes along with them
==============================================

A GRU-D reads the values, which of them were measured, and how long ago the last
measurement was. Only the values are explained: the mask and the times go along with
their patient, and so does what is known of the patient.
"""

import torch
from torch import nn

import tempograd as tg

# %%
# Sixty stays of up to 24 measurements at times of their own; lactate tells who is ill,
# and more so in the old.

generator = torch.Generator().manual_seed(0)
stays, steps, channels = 60, 24, ["pulse", "lactate", "sodium"]
gaps = torch.rand(stays, steps, generator=generator) * 2 + 0.1  # hours
hours = gaps.cumsum(1)
mask = torch.rand(stays, steps, 3, generator=generator) < torch.tensor(
    [0.9, 0.3, 0.2]
)
mask[:, 0] = True
ill = torch.arange(stays) % 2
age = torch.randn(stays, 1, generator=generator)
x = torch.randn(stays, steps, 3, generator=generator)
x[..., 1] += ill[:, None] * (0.8 + 0.4 * age)
x = torch.where(mask, x, 0)

delta = torch.zeros(stays, steps, 3)  # hours since the last measurement of a channel
for t in range(1, steps):
    waited = gaps[:, t, None] + torch.where(mask[:, t - 1], 0, delta[:, t - 1])
    delta[:, t] = waited

# %%
# A value that is not measured decays towards 0, the mean, with the time since the last
# one; so does what the network remembers.


class GRUD(nn.Module):
    def __init__(self, channels=3, hidden=12):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(channels))
        self.memory = nn.Linear(channels, hidden)
        self.cell = nn.GRUCell(2 * channels, hidden)
        self.head = nn.Linear(hidden + 1, 2)

    def forward(self, values, age, mask, delta):
        last = torch.zeros_like(values[:, 0])
        state = values.new_zeros(len(values), self.cell.hidden_size)
        for t in range(values.shape[1]):
            seen = mask[:, t].to(values)
            last = seen * values[:, t] + (1 - seen) * last
            kept = torch.exp(-nn.functional.softplus(self.value) * delta[:, t])
            filled = seen * values[:, t] + (1 - seen) * kept * last
            state = state * torch.exp(-torch.relu(self.memory(delta[:, t])))
            state = self.cell(torch.cat([filled, seen], 1), state)
        return self.head(torch.cat([state, age], 1))


torch.manual_seed(0)
model = GRUD()
optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.02)
for _ in range(40):
    loss = nn.functional.cross_entropy(model(x, age, mask, delta), ill)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
right = (model(x, age, mask, delta).argmax(1) == ill).float().mean()
print(f"right on {100 * right:.0f} % of the stays it was trained on")

# %%
# Two inputs are explained, the values and the age; two are fixed. ``mask=`` says which
# values were measured, so that the others are neither scored nor removed.

predictor = tg.Predictor(model, classes=["well", "ill"])
both = tg.Series(
    {"values": x, "age": age},
    mask={"values": mask},
    channels={"values": channels, "age": ["age"]},
    fixed={"mask": mask, "delta": delta},
)
exp = tg.explain(predictor, both, target=1, n_samples=100)
print(exp)
print(exp.verdict())
exp.plot(1)

# %%
# One input by itself, in its own shape:

print(exp["age"].values.shape, exp["values"].values.shape)

# %%
# What their age did for the five oldest, with its error:

oldest = exp["age"].x[:, 0].argsort(descending=True)[:5].tolist()
for stay in oldest:
    score, error = exp["age"].values[stay, 0], exp["age"].standard_error[stay, 0]
    print(f"stay {stay}: age {score:+.3f} ± {error:.3f}")

# %%
# The series alone, with the hours of each stay, ``times=``, on the axis:

alone = tg.Series(
    x,
    mask=mask,
    channels=channels,
    times=[[f"{hour:.1f} h" for hour in stay] for stay in hours.tolist()],
    fixed={"age": age, "mask": mask, "delta": delta},
)
tg.explain(predictor, alone, target=1, n_samples=100).plot(1)
