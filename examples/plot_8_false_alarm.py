"""
Read a false alarm
==================

A monitor raised an alarm, and nothing was wrong. Which sensor drove it, and when? The
picture names the sensor and the hour; taking these values away is the proof.
"""

import torch
from torch import nn

import tempograd as tg

# %%
# Pumps with three sensors. A burst of vibration means failure. Some sensors also
# have glitches: one or two readings far off, which mean nothing, and which the
# model never saw in training.


def pumps(count, seed, glitches=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 48, 3, generator=generator)
    y = torch.arange(count) % 2
    for i in range(count):
        start = int(torch.randint(42, (), generator=generator))
        x[i, start : start + 6, 1] += 3 * y[i]
        other = int(torch.randint(42, (), generator=generator))
        x[i, other : other + 6, 0] += 3  # bursts of pressure mean nothing
    for i in range(0, 2 * glitches, 2):
        at = int(torch.randint(46, (), generator=generator))
        x[i, at : at + 2, 1] += 9
    return x, y


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0].mean(1))


torch.manual_seed(0)
model = LSTM()
x, y = pumps(200, seed=0)
optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(100):
    loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

# %%
# Find the false alarms among new pumps: the model says failure, and the label says
# none.

x, y = pumps(60, seed=1, glitches=10)
probability = model(x).softmax(1)[:, 1].detach()
false_alarms = ((probability > 0.5) & (y == 0)).nonzero().flatten().tolist()
print("false alarms:", false_alarms)

# %%
# Explain them. ``target=1`` asks what spoke for failure, in every series.

sensors = ["pressure", "vibration", "temperature"]
named = tg.Predictor(model, classes=["fine", "failure"])
exp = tg.explain(named, tg.Series(x, y, channels=sensors), target=1, n_samples=400)
case = false_alarms[0]
tg.plots.series(exp, case)

# %%
# Two readings of the vibration, and hardly anything else. A true alarm looks
# different: the evidence is spread over six steps.

true_alarm = ((probability > 0.5) & (y == 1)).nonzero().flatten().tolist()[0]
tg.plots.series(exp, true_alarm)

# %%
# The proof: take the strongest values away one by one, and the alarm is gone. Take
# random ones, and it stays.

chance = tg.explain(model, x, "random", target=1)
for name, found in (("strongest", exp), ("random", chance)):
    curve = tg.removal_curve(model, found[case : case + 1], k=4)
    print(
        f"{name:9} values gone, 0 to 4: probability",
        [round(value, 2) for value in curve.score[0].tolist()],
    )
