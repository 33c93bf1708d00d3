"""
Compare methods
===============

Five methods explain the same predictions. Which of them describes this model best?
The curves answer: remove what a method calls important, and see how fast the
prediction moves.
"""

from dataclasses import replace

import tempograd as tg

data = tg.load_dataset("switch_feature")
few = replace(
    data, train=data.train.take(slice(300))
)  # enough for this page, and quick
model = tg.train(
    "gru", few, seed=0, options={"hidden": 32}, epochs=8, learning_rate=0.01
)
test = data.test.take(slice(20))

names = ["timing", "integrated_gradients", "occlusion", "lime", "random"]
maps = {name: tg.explain(model, test, name) for name in names}

# %%
# The maps of one series. Each has its own colour scale, so compare *where* they are
# dark and not how dark.

tg.plots.compare(maps, 0)

# %%
# Removal curves over all twenty series, with 95 % bands. On the left the strongest
# values go first: steep and high is good. On the right the weakest go first: flat
# and low is good.

tg.plots.removal(model, maps)

# %%
# In numbers. The best of a column has a star, and what a paired test does not tell
# from it a dagger; ``to_latex()`` writes the table for a paper.

metrics = ["cpd", "cpp", "auroc"]
scores = {
    name: tg.evaluate(model, exp, metrics=metrics) for name, exp in maps.items()
}
tg.table(scores)

# %%
# And the differences to TIMING on the same series. An interval that holds 0 says
# that these series cannot tell the two apart.

for name in names[1:]:
    gap = tg.compare(scores[name]["cpd"], scores["timing"]["cpd"])
    print(f"{name:21} {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]")
