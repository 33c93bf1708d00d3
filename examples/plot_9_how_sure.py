"""
How sure is it?
===============

Samples are added until each series is good enough.

TIMING averages over random masks. How far its map is from the converged one can be
estimated from the draws themselves, so nobody has to guess the number of samples.
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
test = data.test.take(slice(30))

exp = tg.explain(model, test, tolerance=0.05)
exp.verdict()

# %%
# A fixed number of samples may be too few for some series and too many for others.
# The verdict says what to type instead.

rough = tg.explain(model, test, n_samples=50)
rough.verdict()

# %%
# Each series has its own verdict, and got its own number of samples.

hardest = int(exp.n_evals.argmax())
print(f"series {hardest}: {exp.verdict(hardest)}")
print("samples of the first ten series:", exp.n_evals[:10].tolist())
