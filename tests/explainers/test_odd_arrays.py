"""What an array says about itself is not lost at the door: its own mask, integers without a sign, strides."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.explainers import MaskingIG
from tests.helpers.methods import quick
from tests.helpers.models import Recurrent, linear, series

X = series(4, 6, 2)
MODEL = linear(6, 2)
MASKED = np.ma.masked_greater(X.numpy(), 1)
FIRST = np.ma.masked_array([0, 1, 2, 0], [False, True, False, False])


def explained(mask=None, ids=None, **options):
    return tg.explain(MODEL, tg.Series(X, mask=mask, ids=ids), "occlusion", **options)


PLACES = {
    "x": lambda: tg.explain(MODEL, MASKED),
    "mask": lambda: explained(mask=np.ma.masked_array(np.ones(X.shape), MASKED.mask)),
    "baseline": lambda: explained(baseline=MASKED),
    "target": lambda: explained(target=FIRST),
    "ids": lambda: explained(ids=FIRST),
    "steps": lambda: tg.explain(lambda z: z, X, "occlusion", steps=np.ma.masked_array([1, 2], [0, 1])),
    "moving": lambda: MaskingIG(MASKED > 0)(MODEL, X),
    "training": lambda: tg.explain(MODEL, X, "gradient_shap", background=MASKED),
    "baseline of evaluate": lambda: tg.evaluate(MODEL, explained(), baseline=MASKED),
    "truth": lambda: tg.evaluate(MODEL, explained(), metrics=["auroc"], truth=MASKED > 0),
    "scores": lambda: tg.summarise(np.ma.masked_array([1.0, 2.0], [0, 1])),
    "rows of a plot": lambda: tg.plots.channel_importance(explained(), rows=FIRST),
    "a list of numbers": lambda: explained(target=[0, np.ma.masked, 2, 0]),
}


@pytest.mark.parametrize("place", PLACES)
def test_masked_arrays_are_refused(place):
    with pytest.raises(
        tg.TempogradError, match=r"is a numpy masked array, whose mask would be lost: pass .*filled"
    ):
        PLACES[place]()


def test_what_the_sentence_says_about_x_works():
    with pytest.raises(tg.TempogradError, match=r"pass x\.filled\(0\), and mask=~np\.ma\.getmaskarray\(x\)\.$"):
        tg.explain(MODEL, MASKED)
    found = tg.explain(MODEL, tg.Series(MASKED.filled(0), mask=~np.ma.getmaskarray(MASKED)), "occlusion")
    assert bool((found.values[torch.from_numpy(MASKED.mask)] == 0).all())
    assert bool((found.values[torch.from_numpy(~MASKED.mask)] != 0).all())


def test_transformed_tensors_are_refused():
    for call in (
        lambda: torch.func.grad(lambda z: explained_one(z).sum())(X),
        lambda: torch.func.vmap(lambda z: explained_one(z[None]))(X),
    ):
        with pytest.raises(tg.TempogradError, match=r"inside a transform of torch\.func: .*outside"):
            call()


def explained_one(x):
    return tg.explain(MODEL, x).values


def test_masked_tensors_are_refused():
    with pytest.warns(UserWarning, match="prototype"):
        masked = torch.masked.as_masked_tensor(X, X < 1)
    with pytest.raises(
        tg.TempogradError, match=r"x is no ordinary, dense tensor with numbers, got a MaskedTensor"
    ):
        tg.explain(MODEL, masked)


@pytest.mark.parametrize("kind", ["numpy", "torch", "python"])
def test_ids_and_targets_beyond_64_bits_are_refused(kind):
    large = {
        "numpy": np.array([2**64 - 1, 1, 2, 3], np.uint64),
        "torch": torch.tensor([2**64 - 1, 1, 2, 3], dtype=torch.uint64),
        "python": [2**64 - 1, 1, 2, 3],
    }[kind]
    with pytest.raises(
        tg.TempogradError, match=r"ids holds integers beyond 9223372036854775807|ids must be integers"
    ):
        explained(ids=large)
    with pytest.raises(tg.TempogradError, match=r"target (holds integers beyond|must hold integers)"):
        explained(target=large)


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_small_numbers_without_a_sign_are_numbers(kind):
    plain, other = explained(target=1, ids=[5, 6, 7, 8]), np.array([5, 6, 7, 8], kind)
    found = explained(target=np.ones(4, kind), ids=other, mask=np.ones(X.shape, kind), baseline=np.zeros(1, kind))
    assert found.ids.tolist() == [5, 6, 7, 8]
    assert torch.equal(found.values, plain.values)


@pytest.mark.filterwarnings("ignore::tempograd.TempogradWarning")
@pytest.mark.parametrize("method", tg.EXPLAINERS)
def test_how_series_lie_in_memory_does_not_matter(method):
    model, x, baseline, others = Recurrent(2).eval(), X, series(4, 6, 2, seed=1), series(8, 6, 2, seed=2)
    mask = series(4, 6, 2, seed=3) > -1
    explainer = quick(method)

    def scores(turn):
        known = tg.Series(turn(x), mask=turn(mask))
        more = {"background": turn(others)} if explainer.needs_fit else {"baseline": turn(baseline)}
        if method == "random":
            more = {}
        found = tg.explain(model, known, explainer, target=0, **more)
        return found.values, tg.evaluate(model, found)["cpd"]

    plain = scores(lambda part: part)
    for turn in (lambda part: part.mT.contiguous().mT, lambda part: part.repeat_interleave(2, -1)[..., ::2]):
        torch.testing.assert_close(scores(turn), plain, rtol=1e-4, atol=1e-6)
