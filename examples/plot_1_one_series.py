"""
One series
==========

The picture shows one series, what each of its values did to the prediction, and the
truth.

The data is made on the spot: pumps with six sensors, read every ten minutes for eight
hours. A pump fails if its vibration has a spike and its bearing warms up two to three
hours later; either alone means nothing. So it is known which values decide each
failure, and the picture can be checked.
"""

from textwrap import fill

import tempograd as tg

data = tg.load_dataset("pump")
settings = {
    "epochs": 30,
    "patience": 30,
    "learning_rate": 0.01,
    "weight_decay": 0.001,
}
model = tg.train("gru", data, seed=0, options={"hidden": 64}, **settings)
print(f"test accuracy {tg.accuracy(model, data.test):.2f}")

# %%
# Explain some test machines. The series know what they are called, their sensors and
# units, and the values before they were scaled for the model.

test = data.test.take(slice(30))
exp = tg.explain(model, test, tolerance=0.1)
print(fill(exp.describe("P-710"), 84))
exp.plot("P-710")

# %%
# Bars up pushed "failure" up, bars down pushed it down; pale bars are not sure at 95 %.
# The black marks are the truth. The long bars stand where the marks are.
#
# Over all failures, AUROC is the chance that a value that counts scores higher than one
# that does not; dice would have one half.

scores = tg.evaluate(model, exp, metrics=["cpd", "auroc"])
tg.summarise(scores["auroc"])

# %%
# The model is wrong about P-704: it is healthy. The clock says why. The bearing was warm
# *before* the vibration, so it was not the vibration that heated it. The model does not
# look at the order: of some machines to learn from with the same order the labels said
# "failure", by mistake. An explanation brings such a thing to light.

print(fill(exp.describe("P-704"), 84))
exp.plot("P-704", channels=3)
