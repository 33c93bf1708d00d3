"""Class names, units, values before scaling and time stamps belong to an explanation; scores do not know them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tests.helpers.explanations import named_ward, stamp, ward


@pytest.fixture(scope="module")
def found():
    return tg.explain(*named_ward(), n_samples=10)


def test_scores_do_not_know_what_people_call_things(found):
    model, x, options = ward()
    plain = tg.explain(model, tg.Series(x, mask=options["mask"], ids=options["names"]), n_samples=10)
    assert torch.equal(plain.values, found.values)
    assert torch.equal(plain.x, found.x)


def test_every_row_of_the_table_says_what_people_know(found):
    table = found.to_dataframe()
    mask, raw, units = found.mask.numpy(), found.raw.numpy(), ("bpm", "°C")
    places = list(zip(*np.nonzero(mask), strict=True))
    assert len(table) == len(places) == 34
    assert table["time"].tolist() == [stamp(row, step) for row, step, _ in places]
    assert table["value"].tolist() == [raw[place] for place in places]
    assert table["unit"].tolist() == [units[channel] for *_, channel in places]
    said = [("survived", "died")[k] for k in found.target.tolist()]
    assert set(said) == {"survived", "died"}
    assert table["class"].tolist() == [said[row] for row, *_ in places]
    low, high = (side[found.mask].numpy() for side in found.interval())
    np.testing.assert_array_equal(table[["low", "high"]], np.stack([low, high], 1))
    np.testing.assert_array_equal(table["attribution"], found.values[found.mask])


def test_without_them_the_table_has_the_values_that_the_model_reads():
    model, x, options = ward()
    table = tg.explain(model, tg.Series(x, mask=options["mask"]), "integrated_gradients").to_dataframe()
    np.testing.assert_array_equal(table["value"], x[options["mask"]])
    assert list(table.columns) == ["id", "time", "channel", "attribution", "value"]


def test_classes_of_steps_are_those_of_each_step():
    model = lambda z: torch.stack([-z[..., 0], z[..., 0]], -1)  # noqa: E731
    x = torch.tensor([[[1.0], [-1.0], [1.0]]])
    predictor = tg.Predictor(model, classes=["calm", "alarm"], task="per_step")
    table = tg.explain(predictor, x, "integrated_gradients").to_dataframe()
    assert table["class"].tolist() == ["alarm", "calm", "alarm"]


def test_some_of_the_series_keep_what_is_theirs(found):
    part = found[[2, 0]]
    assert part.times_of(0) == tuple(stamp(2, step) for step in range(6))
    assert part.times_of(1) == tuple(stamp(0, step) for step in range(6))
    assert found[-1].times == (found.times_of(2),)
    torch.testing.assert_close(part.raw, found.raw[[2, 0]], equal_nan=True)
    assert (part.classes, part.units) == (("survived", "died"), ("bpm", "°C"))
    assert len(found[[]]) == 0
    assert tg.explain(*ward()[:2], "random").times_of(1) == tuple("012345")


def test_raw_values_come_in_the_layout_of_the_series(found):
    model, x, options = ward()
    turned = {name: options[name].transpose(1, 2) for name in ("mask", "raw")}
    series = tg.Series(x.transpose(1, 2), **turned, ids=options["names"], layout="BDT")
    other = tg.explain(model, series, n_samples=10)
    torch.testing.assert_close(other.raw, found.raw, equal_nan=True)
    assert torch.equal(other.values, found.values)


def test_whole_numbers_are_values_too():
    model, x, _ = ward()
    counts = np.arange(36).reshape(3, 6, 2)
    assert tg.explain(model, tg.Series(x, raw=counts), "random").raw.tolist() == counts.tolist()


def test_a_single_probability_has_two_classes():
    x = torch.ones(2, 3, 1)
    model = lambda z: z.sum((1, 2))[:, None]  # noqa: E731
    named = tg.explain(tg.Predictor(model, task="binary", classes=["survived", "died"]), x, "integrated_gradients")
    assert named.to_dataframe()["class"].tolist() == ["died"] * 6
    with pytest.raises(InputError, match="one name per output of the model, 2, got 1"):
        tg.explain(tg.Predictor(model, task="binary", classes=["died"]), x, "integrated_gradients")


def gaps(options):
    return options["raw"].clone().masked_fill_(torch.ones(3, 6, 2, dtype=torch.bool), torch.nan)


WRONG = {
    "raw of another shape": (
        lambda o: {"raw": o["raw"][:, :5]},
        r"raw must have the shape of x, \(3, 6, 2\), got \(3, 5, 2\)\.",
    ),
    "raw without a value": (
        lambda o: {"raw": gaps(o)},
        r"raw holds NaN or infinity where a value was observed: put",
    ),
    "raw text": (lambda o: {"raw": np.full((3, 6, 2), "a")}, r"raw must hold real numbers, got <U1\."),
    "one unit": (lambda o: {"units": ["bpm"]}, r"units must have 2 entries, got 1\."),
    "units text": (lambda o: {"units": "ab"}, r"units must be a list of 2 names, got 'ab'\."),
    "classes text": (lambda o: {"classes": "ab"}, r"classes must be a list of names, got 'ab'\."),
    "classes number": (lambda o: {"classes": 2}, r"classes must be a list of names, got 2\."),
    "times of two series": (
        lambda o: {"times": o["times"][:2]},
        r"times must hold 6 texts, or 6 for each of the 3 series, got 2 rows\.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_before_the_model_runs(case):
    _, x, options = ward()
    wrong, message = WRONG[case]

    told = {name: options[name] for name in ("mask", "raw", "channels", "units", "times", "classes")}
    told |= wrong(options)
    classes = told.pop("classes")
    with pytest.raises(InputError, match=message):
        tg.explain(tg.Predictor(lambda z: pytest.fail("the model was run"), classes=classes), tg.Series(x, **told))


def test_another_number_of_classes_is_refused_once_the_first_series_are_read():
    model, x, _ = ward()
    calls = []

    def counting(z):
        calls.append(len(z))
        return model(z)

    with pytest.raises(InputError, match="classes must hold one name per output of the model, 2, got 3"):
        tg.explain(tg.Predictor(counting, classes=["a", "b", "c"]), x, n_samples=5000, batch_size=3)
    assert len(calls) <= 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": ("a",)}, "classes must hold one name per output of the model, 2, got 1"),
        ({"units": ("a",) * 3}, r"units must have shape \(2,\), got \(3,\)"),
        ({"raw": torch.zeros(3, 6)}, r"raw must have shape \(3, 6, 2\), got \(3, 6\)"),
        ({"times": (("a",) * 6,) * 2}, r"times must have shape .*, got \(2, 6\)"),
    ],
)
def test_later_names_must_fit_too(found, wrong, message):
    with pytest.raises(InputError, match=message):
        replace(found, **wrong).verify()
