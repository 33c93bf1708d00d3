"""``mask="nan"``: NaN in x is masked and reads as 0, as by hand, for every method."""

import re

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tests.helpers.methods import explained, fitted, quick, usable
from tests.helpers.models import Recurrent, linear, series, smooth

X = series(5, 6, 2)
GAPS = torch.rand(X.shape, generator=torch.Generator().manual_seed(3)) < 0.3
GAPS[0] = False
GAPS[1, :, 0] = True  # a channel without any value
GAPS[2, 4:] = True  # padding
HOLES = X.masked_fill(GAPS, torch.nan)
MASK = torch.rand(X.shape, generator=torch.Generator().manual_seed(4)) < 0.8
OWN = series(1, 6, 2, seed=5)
BASELINES = {"zero": "zero", "average": "average", "own": OWN, "number": 0.25}


def by_hand(baseline, mask=None):
    """Return the filled series, the mask and the baseline, one cell after the other."""
    seen = torch.ones_like(GAPS) if mask is None else mask
    x, observed, absent = X.clone(), seen.clone(), torch.zeros_like(X)
    for i, t, d in np.ndindex(*X.shape):
        if GAPS[i, t, d]:
            observed[i, t, d] = False
    for i, t, d in np.ndindex(*X.shape):
        if isinstance(baseline, str) and baseline == "average":
            known = [float(X[i, s, d]) for s in range(6) if observed[i, s, d]]
            absent[i, t, d] = sum(known) / len(known) if known else 0.0
        elif not isinstance(baseline, str):
            absent[i, t, d] = float(torch.as_tensor(baseline).expand(X.shape)[i, t, d])
        if GAPS[i, t, d]:
            x[i, t, d] = 0
    return x, observed, absent


@pytest.mark.parametrize("method", tg.EXPLAINERS)
def test_it_is_what_one_would_do_by_hand(method):
    explainer = quick(method)
    model = usable(smooth(6, 2).float(), explainer, 6)
    ready = fitted(explainer, model, X)
    x, observed, absent = by_hand(OWN, MASK)  # no average, whose rounding learning would amplify
    expected = explained(ready, model, tg.Series(x, mask=observed), baseline=absent, seed=3)
    found = explained(ready, model, tg.Series(HOLES, mask=MASK & ~GAPS), baseline=OWN, seed=3)
    assert torch.equal(found.x, x)
    assert torch.equal(found.mask, observed)
    torch.testing.assert_close(found.baseline, expected.baseline)
    torch.testing.assert_close(found.values, expected.values)
    assert bool((found.values[GAPS] == 0).all())
    assert bool((found.values[observed] != 0).any())


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("baseline", BASELINES)
def test_a_linear_model_has_its_closed_form(baseline, mask):
    model = linear(6, 2)
    weight = model[1].weight[0].detach().view(6, 2)
    x, observed, absent = by_hand(BASELINES[baseline], mask)
    given = tg.Series(HOLES, mask="nan" if mask is None else mask & ~GAPS)
    options = {"baseline": BASELINES[baseline], "output": "raw", "target": 0}
    for method in ("timing", "integrated_gradients", "occlusion"):
        found = tg.explain(model, given, method, **options)
        torch.testing.assert_close(found.values, weight * (x - absent) * observed, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.x, x)


def test_the_layout_is_turned_first():
    model = linear(6, 2)
    plain = tg.explain(model, tg.Series(HOLES, mask="nan"), baseline="average")
    turned = tg.explain(model, tg.Series(HOLES.mT, mask="nan", layout="BDT"), baseline="average")
    torch.testing.assert_close(turned.values, plain.values)
    assert torch.equal(turned.mask, plain.mask)


def test_series_without_a_gap_stay_as_they_are():
    model = linear(6, 2)
    found = tg.explain(model, tg.Series(X, mask="nan"))
    assert found.mask is None
    assert torch.equal(found.values, tg.explain(model, X).values)
    assert torch.equal(HOLES.isnan(), GAPS)  # and nobody filled the caller's


def test_infinity_stays_a_mistake():
    x = HOLES.clone()
    x[0, 0, 0] = torch.inf
    with pytest.raises(InputError, match="x holds infinity"):
        tg.explain(linear(6, 2), tg.Series(x, mask="nan"))
    with pytest.raises(InputError, match="baseline holds NaN"):
        tg.explain(linear(6, 2), tg.Series(HOLES, mask="nan"), baseline=HOLES)


def test_the_sentence_about_nan_offers_it():
    with pytest.raises(InputError, match=r"x holds NaN: pass tg\.Series\(x, mask='nan'\) if NaN marks"):
        tg.explain(linear(6, 2), HOLES)
    with pytest.raises(InputError, match="x holds NaN where the mask says that a value was observed"):
        tg.explain(linear(6, 2), tg.Series(HOLES, mask=torch.ones_like(GAPS)))
    with pytest.raises(InputError, match=r"mask must be an array like x, or 'nan' where .* got 'fill'"):
        tg.Series(HOLES, mask="fill")
    with pytest.raises(InputError, match="the training series must not hold NaN or infinity"):
        tg.explain(linear(6, 2), X, "occlusion", background=HOLES)


def test_what_was_explained_is_evaluated_saved_and_reported(tmp_path):
    model = linear(6, 2)
    series = tg.Series(HOLES, torch.zeros(5, dtype=torch.int64), mask="nan")
    found = tg.explain(model, series, baseline="average")
    x, observed, absent = by_hand("average")
    plain = tg.explain(model, tg.Series(x, mask=observed), baseline=absent)
    expected = tg.evaluate(model, plain)
    read = tg.Explanation.load(found.save(tmp_path / "e.safetensors"))
    torch.testing.assert_close(tg.evaluate(model, read), expected, rtol=1e-4, atol=1e-5)
    page = tg.report(tmp_path / "r.html", model, [found]).read_text()
    assert "NaN" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_model_per_step_has_none_of_its_steps_after_the_padding():
    model = Recurrent(2, per_step=True).eval()
    found = tg.explain(model, tg.Series(HOLES, mask="nan"), "integrated_gradients")
    last = int((~HOLES[2].isnan()).any(-1).nonzero().max())
    assert found.steps[2].nonzero().flatten().tolist() == list(range(last + 1))
    assert last + 1 < HOLES.shape[1]
