"""
A real pump, and a valve that somebody closed
=============================================

The Skoltech Anomaly Benchmark (SKAB) is a pump in a laboratory: eight sensors, one row
a second. In each run somebody closed a valve for some minutes, so the cause is known.
Does an explanation name it?

This script reads the data where it lies: get it from https://github.com/waico/SKAB and
set ``TEMPOGRAD_DATA`` to the folder that holds ``SKAB/``. It is not run when this page is built.
"""

import os
from pathlib import Path

import pandas as pd
import torch

import tempograd as tg

root = Path(os.environ.get("TEMPOGRAD_DATA", ".")) / "SKAB"
files = sorted(root.glob("valve[12]/*.csv*"))
if not files:
    raise SystemExit(f"skipped: there is no SKAB/valve1/*.csv below {root.parent}")

# %%
# Windows of a minute, one every ten seconds, all of a class: those in which the valve
# moves are left out. Each run is compared with its own first five minutes, which are
# normal in all of them.

LONG, EVERY, NORMAL = 60, 10, 300


def windows(path):
    run = pd.read_csv(path, sep=";", index_col="datetime")
    values = torch.tensor(run.iloc[:, :8].to_numpy(), dtype=torch.float32)
    closed = torch.tensor(run["anomaly"].to_numpy()) == 1
    name = f"{path.parent.name}/{path.name.split('.')[0]}"
    for at in range(0, len(run) - LONG + 1, EVERY):
        rows = slice(at, at + LONG)
        if closed[rows].all() or not closed[rows].any():
            normal = values[:NORMAL].mean(0)
            clock = [stamp[11:] for stamp in run.index[rows]]
            yield values[rows], normal, int(closed[at]), f"{name} {clock[0]}", clock


names = pd.read_csv(files[0], sep=";", nrows=0).columns[1:9].str.removesuffix("RMS")
units = ["g", "g", "A", "bar", "°C", "°C", "V", "L/min"]
test_runs = {"valve1/0", "valve1/3", "valve1/7", "valve1/11", "valve1/15"}
parts = {"train": [], "test": []}
for path in files:
    for window in windows(path):
        run = window[3].split()[0]
        new = run in test_runs or run.startswith("valve2")
        parts["test" if new else "train"].append(window)

spread = torch.cat([x - normal for x, normal, y, *_ in parts["train"] if not y]).std(
    0
)
series = {}
for part, found in parts.items():
    x, normal, y, ids, times = zip(*found, strict=True)
    raw = torch.stack(x)
    z = (raw - torch.stack(normal)[:, None]) / spread
    series[part] = tg.Series(
        z, y, raw=raw, ids=ids, times=times, classes=["open", "closed"]
    )

# %%
# Eleven runs with the inlet valve teach a small network; five others and the four runs
# with the *outlet* valve test it.

data = tg.Dataset(
    "SKAB", series["train"], None, series["test"], 2, tuple(names), units=tuple(units)
)
settings = {"epochs": 10, "patience": None, "options": {"hidden": 32}}
model = tg.train(
    "gru", data, seed=0, learning_rate=0.005, weight_decay=1e-3, **settings
)
test = data.test
print(f"{len(data.train)} windows to learn from, {len(test)} to test")
print(f"right on {tg.accuracy(model, test):.0%} of them; closed and called so:")
with torch.no_grad():
    said = pd.Series((model(test.x).argmax(1) == 1).numpy())
runs = pd.Series([name.split()[0] for name in test.ids])
really = (test.y == 1).numpy()
print(
    "  ".join(
        f"{k} {v:.0%}" for k, v in said[really].groupby(runs[really]).mean().items()
    )
)

# %%
# Explain every seventh window that the model rightly calls closed. It is so sure that the
# probability hardly moves: ``output="raw"`` explains what is before it.

few = test.take((said.to_numpy() & really).nonzero()[0][::7])
exp = tg.explain(model, few, target=1, output="raw", tolerance=0.1)
print(exp.describe(0))

# %%
# Compare it with what is known. A closed valve must lower the flow. ``moved`` is how far
# a sensor really moved, in its usual spreads; ``named`` the windows in which it pushed
# most; ``still closed`` what the model says of the windows with this sensor as it is
# normally, and ``alone`` with all others so.

first = exp.values.sum(1).argmax(1)
rows = []
for d, name in enumerate(names):
    without, only = few.x.clone(), torch.zeros_like(few.x)
    without[..., d], only[..., d] = 0, few.x[..., d]
    with torch.no_grad():
        still, alone = (
            (model(z).argmax(1) == 1).float().mean() for z in (without, only)
        )
    moved = few.x[..., d].median() - test.x[test.y == 0][..., d].median()
    named = int((first == d).sum())
    rows.append([name, float(moved), named, f"{still:.0%}", f"{alone:.0%}"])
columns = ["sensor", "moved", f"named of {len(few)}", "still closed", "alone"]
print(pd.DataFrame(rows, columns=columns).round(1).to_string(index=False))

# %%
# On one core all of this takes half a minute. The model is right on 94 % of the new
# windows: it finds all closed ones but those of one run, ``valve1/0`` (3 %). The table::
#
#               sensor  moved  named of 38 still closed alone
#       Accelerometer1    0.1            0         100%    0%
#       Accelerometer2    0.2            0         100%    0%
#              Current    0.0            0         100%    0%
#             Pressure    0.0            0         100%    0%
#          Temperature    0.0            0         100%    0%
#         Thermocouple   -0.6            0         100%    0%
#              Voltage    0.0            0         100%    0%
#     Volume Flow Rate   -5.2           38           0%  100%
#
# **What it says.** In all windows the flow pushed most, which is what a closed valve must
# lower, and the one sensor that moved far. The last columns are the proof: with the flow
# as usual no window is called closed any more, and the flow alone is enough. The model
# learnt this from the inlet valve, and it holds for the outlet valve.
#
# **What speaks against it.** In ``valve1/0`` somebody closed the valve, but the flow did
# not fall, and the model missed it: an explanation shows what a model looks at, not what
# it should have looked at. The 21 false alarms come from four runs, from minutes with a
# slightly low flow. One would expect the pressure to move as well; here its median did
# not, so nothing can be said of it. And the valve is closed at the same minutes of all
# runs, from the tenth to the sixteenth: whatever drifts tells the class by the clock. The
# thermocouple drifts, and a model could have learnt that. ``alone`` says that this one
# did not. With ``seed=2`` it finds 82 % of ``valve1/0``, and the thermocouple is named first
# in four windows: that network looks at the clock as well.
