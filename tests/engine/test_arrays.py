"""Functions that mean one thing for tensors and another for numpy arrays."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.errors import TempogradWarning

X = np.array([[[1.0], [2.0], [6.0]], [[0.0], [0.0], [3.0]]])  # variances 14/3 and 2 (over n), 7 and 3 (over n - 1)


def spread(values):
    return values.var(1)


class Spread:
    def __call__(self, x):
        return x[:, :, 0].var(1)

    def of(self, x):
        return x[:, :, 0].var(1)


def inside():
    def own(values):
        return values.var(1)

    return lambda x: own(x[:, :, 0])


AMBIGUOUS = {
    "a lambda": lambda x: x[:, :, 0].var(1),
    "through a function of its module": lambda x: spread(x[:, :, 0]),
    "through a function around it": inside(),
    "an object": Spread(),
    "a method": Spread().of,
    "a partial": partial(lambda factor, x: x[:, :, 0].var(1) * factor, 1.0),
}


def explain(model):
    return tg.explain(model, X, "occlusion", task="regression")


@pytest.mark.parametrize("model", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_numbers_that_differ_for_arrays_and_tensors_are_said(model):
    with pytest.warns(TempogradWarning, match=re.escape("gives 4.67 for a numpy array and 7 for a tensor")):
        found = explain(model)
    assert found.prediction.tolist() == [7.0, 3.0]


def test_the_advice_gives_what_the_function_means_for_arrays():
    found = explain(tg.adapters.from_numpy(AMBIGUOUS["a lambda"]))
    assert found.prediction.tolist() == pytest.approx([14 / 3, 2.0])


@pytest.mark.parametrize(
    ("model", "predictions"),
    [
        (lambda x: np.var(x[:, :, 0], axis=1), [14 / 3, 2.0]),
        (lambda x: torch.var(x[:, :, 0], 1), [7.0, 3.0]),
        (lambda x: x[:, :, 0].var(1, correction=0), [14 / 3, 2.0]),
    ],
    ids=["of arrays alone", "of tensors alone", "that says what it means"],
)
@pytest.mark.filterwarnings("error:The model gives:tempograd.errors.TempogradWarning")
def test_nothing_is_said_of_a_function_that_means_one_thing(model, predictions):
    assert explain(model).prediction.tolist() == pytest.approx(predictions)


def test_a_function_whose_names_are_out_of_reach_is_called_as_it_is():
    """Compiled ones carry the code of something else, and a variable around a function may have no value yet."""

    class Compiled:
        __code__ = spread.__code__

        def __call__(self, x):
            return x[:, :, 0].sum(1)

    def recursive(x):
        return later(x) if len(x) == 0 else x[:, :, 0].sum(1)

    assert explain(Compiled()).prediction.tolist() == explain(recursive).prediction.tolist() == [9.0, 3.0]
    later = None  # after the calls


def test_nothing_is_said_of_a_function_that_draws():
    """It differs from itself, not because of arrays."""
    random = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        explain(lambda x: x[:, :, 0].var(1) + random.random())
    assert not [each for each in said if "numpy array" in str(each.message)]


def test_a_function_without_such_names_is_called_no_more_often():
    rows = []

    def counted(x):
        rows.append(len(x))
        return x[:, :, 0].sum(1)

    explain(counted)
    first = rows.copy()
    rows.clear()
    explain(counted)  # it is known by now
    assert first == rows


def test_a_function_that_writes_to_its_input_changes_no_series():
    def writing(x):
        x *= 2
        return x[:, :, 0].var(1)

    before = X.copy()
    with pytest.warns(TempogradWarning, match="for a numpy array"):
        found = explain(writing)
    assert found.prediction.tolist() == [28.0, 12.0]
    assert (before == X).all()
