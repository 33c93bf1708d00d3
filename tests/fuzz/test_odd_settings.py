"""Settings of methods, metrics and calls with odd values: the right answer, or one sentence."""

import json
import math
from dataclasses import fields

import numpy as np
import pytest
import torch

import tempograd as tg
from tests.fuzz.judging import CHANNELS, MODEL, STEPS, linear_scores, near, outcome
from tests.fuzz.odd_arrays import numbers
from tests.fuzz.odd_settings import VALUES, settings_of

pytestmark = pytest.mark.slow

X = numbers(np.random.default_rng(14), 2, STEPS, CHANNELS)
SERIES = torch.from_numpy(X).float()
RIGHT = linear_scores(X)
QUICK = {"n_steps": 4, "n_samples": 20, "fit_batch_size": 8}  # where the default takes longer
CALL = (
    "seed",
    "batch_size",
    "draws",
    "precision",
    "output",
    "gradient_check",
    "steps",
    "target",
)
EXACT = {"timing", "integrated_gradients", "deep_lift", "occlusion"}


def plain(value):
    """Return the Python value of a number of numpy."""
    return value.item() if isinstance(value, np.generic) else value


def checked_fields(kind):
    """Return the names of the settings that are declared with a check."""
    return {part.name for part in fields(kind) if "check" in part.metadata}


@pytest.mark.parametrize("method", tg.EXPLAINERS)
def test_hyper_parameters(method):
    """Every field with every value is refused, or kept as plain data, the same from numpy and from Python."""
    kind, faults = tg.EXPLAINERS[method], []
    for name in settings_of(method):
        for label, value in VALUES.items():

            def right(found, name=name, value=value):
                json.dumps(found.parameters, allow_nan=False)
                if type(getattr(found, name)).__module__ == "numpy":
                    return "kept as a number of numpy"
                return "" if found == kind(**{name: plain(value)}) else "not as its Python value"

            status, said = outcome(lambda value=value, name=name: kind(**{name: value}), right)
            if status == "wrong":
                faults.append(f"{name}={label}: {said}")
            if status == "right" and label in {"NaN", "infinity", "huge integer", "shy", "object", "deep list"}:
                faults.append(f"{name}={label} was accepted")
    assert not faults


@pytest.mark.parametrize("method", tg.EXPLAINERS)
def test_every_hyper_parameter_is_declared_with_its_bounds(method):
    assert set(settings_of(method)) == checked_fields(tg.EXPLAINERS[method])


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "occlusion"])
def test_explaining_with_odd_settings(method):
    faults, counts = [], {"right": 0, "refused": 0, "wrong": 0}
    for name in (*settings_of(method), *CALL):
        for label, value in VALUES.items():
            if name == "target" and callable(value):
                continue  # a function of the user's own
            quick = {} if method == "occlusion" else QUICK  # which draws nothing without other series
            options = {key: chosen for key, chosen in quick.items() if key in settings_of(method)}
            options |= {"output": "raw", "target": 0, name: value}

            def right(found, name=name):
                if method not in EXACT or name in {"target", "output", "precision", "absolute", "draws"}:
                    return "" if bool(found.values.isfinite().all()) else "not finite"
                met = 1 if found.n_draws is None else (found.n_draws > 0).numpy()  # few points miss cells
                return near(found.values, RIGHT * met)

            status, said = outcome(lambda options=options: tg.explain(MODEL, SERIES, method, **options), right)
            counts[status] += 1
            if status == "wrong":
                faults.append(f"{name}={label}: {said}")
    assert not faults
    assert min(counts["right"], counts["refused"]) > 20


@pytest.mark.parametrize("name", tg.METRICS)
def test_metrics(name):
    kind, faults = tg.METRICS[name], []
    known = tg.explain(MODEL, SERIES, "integrated_gradients", output="raw", target=0)
    truth = (X > 0).astype(float)

    def right(found):
        return "" if all(isinstance(score, torch.Tensor) for score in found.values()) else "no scores"

    for field in checked_fields(kind):
        for label, value in VALUES.items():

            def call(field=field, value=value):
                metric = kind(**{field: value})
                return tg.evaluate(MODEL, known, metrics=[metric], truth=truth)

            status, said = outcome(call, right)
            if status == "wrong":
                faults.append(f"{field}={label}: {said}")
    assert not faults


def test_calls_of_evaluate_and_summaries():
    known = tg.explain(MODEL, SERIES, "integrated_gradients", output="raw", target=0)
    scores = torch.tensor([1.0, 2.0])
    calls = {
        "k": lambda value: tg.evaluate(MODEL, known, metrics="prediction_difference", k=value),
        "batch_size": lambda value: tg.evaluate(MODEL, known, metrics="prediction_difference", batch_size=value),
        "metrics": lambda value: None if hasattr(value, "ndim") else tg.evaluate(MODEL, known, metrics=value),
        "explanation": lambda value: tg.evaluate(MODEL, value),
        "model": lambda value: None if callable(value) else tg.evaluate(value, known),
        "rank": lambda value: tg.removal_curve(MODEL, known, rank=value),
        "descending": lambda value: tg.removal_curve(MODEL, known, descending=value),
        "summarise": tg.summarise,
        "compare": lambda value: tg.compare(scores, value),
        "level": lambda value: tg.compare(scores, scores, value),
        "rows": lambda value: known[value],
        "top": known.top,
        "verdict": known.verdict,
        "channels": lambda value: tg.Series(SERIES, channels=value),
        "times": lambda value: tg.Series(SERIES, times=value),
        "method": lambda value: None if callable(value) else tg.explain(MODEL, SERIES, value),
        "explained model": lambda value: None if callable(value) else tg.explain(value, SERIES),
    }
    faults = [
        f"{name}={label}: {said}"
        for name, call in calls.items()
        for label, value in VALUES.items()
        for status, said in [outcome(lambda call=call, value=value: call(value), lambda found: "")]
        if status == "wrong"
    ]
    assert not faults


def test_numbers_of_numpy_do_what_numbers_of_python_do():
    pairs = {"anchored": 0.5, "tolerance": 0.25, "n_samples": 60, "segments": 1}
    pairs |= {"control_variates": True, "max_samples": 200}
    python = tg.Timing(**pairs)(MODEL, SERIES, output="raw", target=0)
    kinds = {float: np.float64, int: np.int64, bool: np.bool_}
    odd = tg.Timing(**{name: kinds[type(value)](value) for name, value in pairs.items()})
    found = odd(MODEL, SERIES, output="raw", target=np.int64(0), seed=np.int32(0), draws=np.int64(1))
    assert torch.equal(found.values, python.values)
    assert found.parameters == python.parameters
    assert not math.isnan(found.parameters["anchored"])
