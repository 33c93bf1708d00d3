"""
Why changes are added up
========================

A map can find the values that matter and still look useless, if their effects have
opposite signs and all of them are removed at once.
"""

import tempograd as tg
from tempograd_paper import figures  # pip install ./reproduction

figures.cancel_out()

# %%
# The top row shows two maps of the same series and the twenty values that each of
# them would remove first (dark). The left map found the strong values, plus and
# minus in turn. The right map found weak ones that all push the same way.
#
# Bottom left: the distance from the start, as older measures have it. The strong
# effects cancel, and the weak map wins. Bottom right: the sum of the single
# changes, the CPD. The strong map wins, as it should.
#
# The same in numbers:

model, maps = figures.cancel_out_example()
for name, exp in maps.items():
    scores = tg.evaluate(model, exp, metrics=["prediction_difference", "cpd"], k=20)
    plain, cpd = scores["prediction_difference"].item(), scores["cpd"].item()
    print(f"{name}: from start to end {plain:.1f}, CPD {cpd:.1f}")
