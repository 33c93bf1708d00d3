"""Arrays in odd forms at every door: the right answer, or one sentence."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tests.fuzz.judging import CHANNELS, MODEL, STEPS, linear_scores, near, outcome
from tests.fuzz.odd_arrays import Odd, numbers, of_floats, of_integers, of_nothing
from tests.helpers.models import Recurrent

pytestmark = pytest.mark.slow

METHODS = ("integrated_gradients", "timing", "deep_lift")
SHAPE = (3, STEPS, CHANNELS)
RNG = np.random.default_rng(14)
X = numbers(RNG, *SHAPE)
SERIES = torch.from_numpy(X).float()
OBSERVED = (RNG.random(SHAPE) < 0.7).astype(np.float64)
PER_STEP = Recurrent(CHANNELS, per_step=True).eval()


def explain(method: str, x=SERIES, known=None, **options):
    x = x if known is None else tg.Series(x, **known)
    return tg.explain(MODEL, x, method, output="raw", target=options.pop("target", 0), **options)


def told(odd: Odd, call, right) -> str:
    """Return what is wrong with the outcome of a call with an odd array; nothing if it is as it should be."""
    kind, said = outcome(call, right)
    if kind == "wrong":
        return f"{odd.name}: {said}"
    if kind == "right" and odd.meaning is None:
        return f"{odd.name}: accepted, though it stands for no numbers"
    if kind == "refused" and odd.certain:
        return f"{odd.name}: refused ({said})"
    return ""


def check(odds, call, right) -> None:
    faults = [told(odd, lambda odd=odd: call(odd.value), lambda found, odd=odd: right(found, odd)) for odd in odds]
    assert not list(filter(None, faults))
    assert len(faults) > 20


@pytest.mark.parametrize("method", METHODS)
def test_x(method):
    def right(found, odd):
        return near(found.values, linear_scores(odd.meaning)) or near(found.x, odd.meaning)

    check(
        (odd for odd in [*of_floats(X), *of_nothing()] if "list" not in odd.name or odd.meaning is None),
        lambda value: explain(method, value),
        right,
    )


def test_lists_are_series_and_other_things_are_not():
    for odd in of_floats(X):
        if "list" in odd.name or odd.name in {"tuple", "pandas"}:
            right = "right" if "list" in odd.name else "refused"
            scores = linear_scores(odd.meaning)
            call, judged = lambda odd=odd: explain("timing", odd.value), lambda found: near(found.values, scores)  # noqa: B023
            assert outcome(call, judged)[0] == right, odd.name


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [SHAPE, (CHANNELS,)])
def test_baseline(method, shape):
    def right(found, odd):
        return near(found.values, linear_scores(X, odd.meaning))

    odds = [odd for odd in of_floats(numbers(RNG, *shape)) if odd.name != "pandas"]
    check(odds, lambda value: explain(method, baseline=value), right)


def test_numbers_as_baseline():
    for value in (2, -1.5, np.float64(0.5), np.float16(0.5), np.int8(3), np.uint64(2), torch.tensor(1.5)):
        found = explain("integrated_gradients", baseline=value)
        assert near(found.values, linear_scores(X, float(value))) == ""


def test_nothing_as_baseline():
    check(of_nothing(), lambda value: explain("integrated_gradients", baseline=value), None)


@pytest.mark.parametrize("method", METHODS)
def test_mask(method):
    def right(found, odd):
        return near(found.values, linear_scores(X, 0, odd.meaning))

    forms = [odd for odd in of_floats(OBSERVED) if odd.meaning is not None and "list" not in odd.name]
    odds = [odd for odd in forms if odd.name not in {"tuple", "pandas"}]
    odds += [Odd(f"{kind}", OBSERVED.astype(kind), OBSERVED, certain=True) for kind in ("?", "u1", "i8", ">u4")]
    refused = [odd for odd in of_floats(OBSERVED) if odd.meaning is None]
    check([*odds, *refused, *of_nothing()], lambda value: explain(method, known={"mask": value}), right)


def test_target():
    chosen = RNG.integers(0, 3, SHAPE[0])

    def right(found, odd):
        return "" if found.target.tolist() == odd.meaning.tolist() else f"explained {found.target.tolist()}"

    nothing = [odd for odd in of_nothing() if odd.name != "function"]  # a function picks a score
    nothing = [odd for odd in nothing if odd.name not in {"class", "wrong to_numpy"}]
    several = [odd for odd in of_integers(chosen) if odd.name != "tuple"]  # which is an address
    check([*several, *nothing], lambda value: explain("integrated_gradients", target=value), right)


def test_ids():
    ids = RNG.permutation(100)[: SHAPE[0]]

    def right(found, odd):
        return (
            ""
            if odd.meaning is None or found.ids.tolist() == odd.meaning.tolist()
            else f"ids are {found.ids.tolist()}"
        )

    odds = [
        odd for odd in (*of_integers(ids), *of_nothing()) if "text" not in odd.name and odd.name != "class"
    ]  # texts are ids
    check(odds, lambda value: explain("timing", known={"ids": value}, n_samples=8), right)


def test_steps():
    def right(found, odd):
        chosen = found.steps[0].nonzero().flatten().tolist()
        return "" if chosen == sorted(odd.meaning.tolist()) else f"explained {chosen}"

    def call(value):
        return tg.explain(PER_STEP, SERIES, "integrated_gradients", steps=value, n_steps=4)

    odds = [odd for odd in of_integers(np.array([1, 3])) if odd.name != "pandas nothing"]
    check([*odds, *of_nothing()], call, right)


@pytest.mark.parametrize("method", ["gradient_shap", "occlusion"])
def test_training_series(method):
    """The average of the pool takes the baseline's place in a linear model, for occlusion exactly."""
    pool = numbers(RNG, 5, STEPS, CHANNELS)

    def right(found, odd):
        if method == "gradient_shap":
            return "" if bool(found.values.isfinite().all()) else "not finite"
        return near(found.values, linear_scores(X, odd.meaning.mean(0)))

    check([*of_floats(pool), *of_nothing()], lambda value: explain(method, background=value), right)


def test_evaluation():
    """All cells go, so that ties make no difference: the score changes by the sum of w · (x - substitute)."""
    known, every = explain("integrated_gradients"), STEPS * CHANNELS

    def call(**options):
        return tg.evaluate(MODEL, known, metrics="prediction_difference", k=every, **options)

    def right(found, baseline):
        expected = np.abs(linear_scores(X, baseline).sum((1, 2)))
        return near(found["prediction_difference"], expected)

    check([*of_floats(X), *of_nothing()], lambda value: call(x=value), lambda found, _: right(found, 0))
    odds = [*of_floats(numbers(RNG, *SHAPE)), *of_nothing()]
    check(odds, lambda value: call(baseline=value), lambda found, odd: right(found, odd.meaning))


def test_truth():
    known = explain("integrated_gradients")
    expected = tg.evaluate(None, known, metrics=["auroc"], truth=OBSERVED)["auroc"]

    def alike(found, odd):
        return "" if torch.allclose(found["auroc"], expected, equal_nan=True) else "other scores"

    check(
        [*of_floats(OBSERVED), *of_nothing()],
        lambda value: tg.evaluate(None, known, metrics=["auroc"], truth=value),
        alike,
    )


def test_captum_inputs():
    captum = pytest.importorskip("tempograd.captum")
    method = captum.Timing(MODEL)

    def right(found, odd):
        return near(found.detach(), linear_scores(odd.meaning), 1e-2 if found.dtype.itemsize < 4 else 2e-5)

    forms = [*of_floats(X), *of_nothing()]
    odds = [odd._replace(certain=False) for odd in forms if "float8" not in odd.name]
    odds = [odd for odd in odds if "16" not in odd.name and "64" not in odd.name]  # which the model does not take
    check(odds, lambda value: method.attribute(value, target=0, n_steps=8), right)


def test_names():
    def right(found, odd):
        return "" if all(isinstance(name, str) for name in found.channels) else "no text"

    odds = [odd._replace(meaning=0, certain=False) for odd in [*of_integers(np.arange(2)), *of_nothing()]]
    check(odds, lambda value: tg.Series(X, channels=value), right)
