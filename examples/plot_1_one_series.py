"""
One series
==========

The picture shows one series, what each of its values did to the prediction, and the
truth.

The data is made on the spot: three channels, 100 steps, and a hidden state that
decides which of the channels counts. So it is known which values decide each label,
and the picture can be checked.
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
print(f"test accuracy {tg.accuracy(model, data.test):.2f}")

# %%
# Explain the first test series. The model answers at every step, and by default all
# steps are explained together.

test = data.test.take(slice(20))
exp = tg.explain(model, test, n_samples=200)
exp.plot(0)

# %%
# Bars up pushed the predictions up, bars down pushed them down; pale bars are not
# sure at 95 %. The black marks are the truth. The long bars stand where the marks
# are.
#
# How well do they agree over all twenty series? AUROC is the chance that a value
# that counts scores higher than one that does not; dice would have one half.

scores = tg.evaluate(model, exp, metrics=["cpd", "auroc"])
tg.summarise(scores["auroc"])
