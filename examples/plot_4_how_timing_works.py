"""
How TIMING works
================

Real masks, path points and gradients of one series, and the attribution that they add
up to.
"""

import torch

import tempograd as tg
from tempograd_paper import figures  # pip install ./reproduction

torch.manual_seed(0)
model = torch.nn.GRU(2, 16, batch_first=True)
head = torch.nn.Linear(16, 2)


def classify(x):
    return head(model(x)[0][:, -1])


t = torch.linspace(0, 6.3, 40)
x = torch.stack([torch.sin(t) + 0.2 * torch.randn(40), torch.cos(2 * t)], 1)[None]
series = tg.Series(x, channels=["slow", "fast"])
exp = tg.explain(classify, series)
figures.timing_steps(classify, exp, 0, channel="slow")

# %%
# From left to right: the series and its baseline; some of the path points, with
# their held segments in grey; the gradient at each of them, which counts only where
# a value moves; the mean over all samples; and the attribution, that mean times the
# distance from the baseline.
#
# Segments of another length change what a value is seen together with. With
# ``segments=0`` nothing is held:

plain = tg.explain(classify, series, segments=0)
tg.plots.compare({"TIMING": exp, "nothing held": plain}, 0)
