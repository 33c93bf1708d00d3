"""
Which values, at which hours, over many patients
================================================

One map is about one patient. What drives the alarms of a ward: which measurements,
at which hours? And what sets false alarms apart from true ones?
"""

import torch
from torch import nn

import tempograd as tg

# %%
# Two hundred made patients over two days. The ill ones have a rising lactate in the
# second day. In some of those who are well, the oxygen sensor slips for six hours.

channels = ["lactate", "oxygen", "pulse", "sodium", "temperature"]
units = ["mmol/L", "%", "bpm", "mmol/L", "°C"]
hours = [f"{hour} h" for hour in range(48)]


def ward(patients, seed, slipped):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(patients, 48, 5, generator=generator)
    ill = torch.arange(patients) % 2
    x[:, 24:, 0] += ill[:, None] * torch.linspace(0, 3, 24)
    x[:, 36:42, 1] -= 2.5 * ill[:, None]
    x[0:slipped:2, 36:42, 1] -= 5
    return x, ill


torch.manual_seed(0)


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


model = GRU()
x, ill = ward(200, seed=0, slipped=0)
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    loss = nn.functional.cross_entropy(model(x), ill, label_smoothing=0.1)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
model.eval()

# %%
# New patients are explained for the class "ill", all of them. ``raw=`` has the values
# as people know them, before they were scaled for the model.

x, ill = ward(80, seed=1, slipped=30)
scale = torch.tensor([1.5, 3.0, 12.0, 4.0, 0.6])
mean = torch.tensor([3.0, 95.0, 80.0, 140.0, 37.0])
exp = tg.explain(
    tg.Predictor(model, classes=["well", "ill"]),
    tg.Series(
        x, ill, channels=channels, times=hours, units=units, raw=x * scale + mean
    ),
    target=1,
)

# %%
# One patient in one sentence: what is predicted, what is true, and what drove it.

print(exp.describe(1))
print(exp.describe(2))

# %%
# Which channels, at which hours, over those who are ill? The numbers are means over
# patients.

blocks = exp.blocks(ill == 1, steps=6)
blocks

# %%
# The strongest block, with its interval:

best = blocks.mean.argmax()
d, block = divmod(best, len(blocks.times))
blocks.channels[d], blocks.times[block], blocks.low[d, block], blocks.high[d, block]

# %%
# False alarms against true ones: the model says ill, and half of them are not. False
# alarms come from the oxygen sensor, and lactate speaks against them.

alarm = exp.prediction > 0.5
groups = tg.compare_groups(
    exp,
    alarm & (ill == 0),
    alarm & (ill == 1),
    names=["false alarms", "true alarms"],
)
print(groups)
