"""
Your own LSTM on your own CSV
=============================

From a table on disk to a picture: read the file, train a model that knows nothing of
this library, explain it, and find out which sensor made it raise the alarm, and when.
"""

# %%
# A CSV with one row per machine and hour. In yours there is real data; this one is
# made. A machine fails when its oil gets hot while it is under load. Some readings
# are missing.

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

import tempograd as tg

folder = Path(tempfile.mkdtemp())
generator = torch.Generator().manual_seed(0)
rows = ["machine,hour,load,oil,noise,state"]
for machine in range(160):
    load, oil, noise = torch.randn(3, 24, generator=generator)
    start = int(torch.randint(18, (), generator=generator))
    if machine % 2:
        oil[start : start + 6] += 2.5
        load[start : start + 6] += 1.5
    for hour in range(24):
        reading = "" if hour % 7 == 3 else f"{60 + 8 * oil[hour]:.1f}"
        state = "failure" if machine % 2 else "running"
        values = f"{50 + 10 * load[hour]:.1f},{reading},{noise[hour]:.2f}"
        rows.append(f"{machine},{hour},{values},{state}")
(folder / "machines.csv").write_text("\n".join(rows))
print("\n".join(rows[:5]))

# %%
# Read it. Empty cells become missing values, with a mask; text labels become
# classes.

machines = tg.read_series(
    folder / "machines.csv", id="machine", time="hour", label="state"
)
print(machines, machines.channels, machines.classes)

# %%
# Standardise with the observed values, put 0 where a value is missing, and train an
# LSTM as one always does. The classes are in the order of the alphabet: 0 is
# failure.

seen = machines.mask
count = seen.sum((0, 1))
centre = (machines.x * seen).sum((0, 1)) / count
spread = ((((machines.x - centre) * seen) ** 2).sum((0, 1)) / count).sqrt()
x = torch.where(seen, (machines.x - centre) / spread, 0)
train, test = slice(0, 120), slice(120, 160)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, series):
        return self.head(self.lstm(series)[0].mean(1))


torch.manual_seed(0)
model = LSTM()
optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(80):
    loss = nn.functional.cross_entropy(
        model(x[train]), machines.y[train], label_smoothing=0.1
    )
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
right = model(x[test]).argmax(1) == machines.y[test]
print(f"right on {right.float().mean():.0%} of the other machines")

# %%
# Explain why it says *failure*, class 0. The model reads scaled values; ``raw`` keeps
# those of the file for the pictures.

others = replace(machines, x=x, raw=machines.x).take(test)
exp = tg.explain(
    tg.Predictor(model, classes=machines.classes), others, target=0, n_samples=200
)
exp.plot(1)

# %%
# Over all machines that fail: which sensor drives it?

failing = (others.y == 0).nonzero().flatten().tolist()
tg.plots.channel_importance(exp, rows=failing)

# %%
# One file for the people who run the machines:

tg.report(folder / "machines.html", model, exp).name
