"""Series, data sets and loading by name."""

import numpy as np
import pytest
import torch

from tempograd.core.errors import InputError, UnknownNameError
from tempograd.data import Dataset, Series, load_dataset


def make(series=6, time=4, channels=2, **changes):
    x = torch.arange(series * time * channels, dtype=torch.float32).view(series, time, channels)
    parts = {
        "x": x,
        "y": torch.arange(series) % 3,
        "mask": x % 3 != 0,
        "truth": x % 5 == 0,
        "ids": torch.arange(series) * 10,
    }
    return Series(**(parts | changes))


@pytest.mark.parametrize(
    "indices", [[4, 1], torch.tensor([4, 1]), torch.tensor([4, 1]).numpy(), slice(4, None), slice(1, 5, 3)]
)
def test_take_moves_every_part_along(indices):
    series = make()
    rows = list(range(6))[indices] if isinstance(indices, slice) else [4, 1]
    taken = series.take(indices)
    assert taken.ids.tolist() == [10 * row for row in rows]
    assert taken.y.tolist() == [row % 3 for row in rows]
    for name in ("x", "mask", "truth"):
        expected = [getattr(series, name)[row].tolist() for row in rows]
        assert getattr(taken, name).tolist() == expected
    assert len(taken) == len(rows)


def test_take_with_a_bool_mask_keeps_absent_parts_absent():
    taken = make(mask=None, truth=None).take(torch.tensor([True, False, False, True, False, False]))
    assert taken.ids.tolist() == [0, 30]
    assert taken.mask is None
    assert taken.truth is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(6, 4)}, "batch, time, channel"),
        ({"x": torch.zeros(6, 4, 2, dtype=torch.long)}, "torch.int64"),
        ({"y": torch.zeros(6, dtype=torch.bool)}, "y must be classes"),
        ({"y": torch.zeros(5, 1)}, r"one per series \(6,\) or step \(6, 4\)"),
        ({"y": torch.tensor(0.5)}, "real values with one row per series"),
        ({"y": torch.zeros(6, 2, dtype=torch.long)}, r"step \(6, 4\).* got .*\(6, 2\) and int64"),
        ({"mask": torch.full((6, 4, 2), 0.5)}, "mask must hold 1"),
        (
            {"truth": torch.ones(6, 4, 1, dtype=torch.bool)},
            r"truth must have the shape of x, \(6, 4, 2\), got \(6, 4, 1\)",
        ),
        ({"ids": torch.tensor([0, 1, 2, 3, 4, 4])}, "ids must be distinct, but 4 occurs"),
        ({"ids": torch.arange(5)}, "expected 6, got 5"),
        ({"ids": torch.arange(6)[:, None]}, r"one per series, got .*\(6, 1\)"),
        ({"ids": ["a", "b"]}, "one entry per series: expected 6, got 2"),
        ({"ids": ["a", "b", "c", "d", "e", "a"]}, "ids must be distinct, but 'a' occurs"),
    ],
)
def test_series_refuse_parts_that_do_not_fit(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


@pytest.mark.parametrize("kind", [np.asarray, list], ids=["numpy", "list"])
def test_series_take_arrays_and_lists(kind):
    """Whole numbers of any kind are ids and classes."""
    series = make()
    parts = {name: getattr(series, name).numpy() for name in ("x", "mask", "truth")}
    found = Series(**parts, y=kind(series.y.int().numpy()), ids=kind(series.ids.numpy()))
    assert found.take([4, 1]).ids.tolist() == [40, 10]
    for name in ("x", "y", "mask", "truth", "ids"):
        assert torch.equal(getattr(found, name), getattr(series, name))
    with pytest.raises(InputError, match="ids must be distinct, but 4 occurs"):
        make(ids=np.array([0, 1, 2, 3, 4, 4]))


@pytest.mark.parametrize("shape", [(6,), (6, 4)])
def test_series_hold_the_values_of_a_regression(shape):
    y = torch.linspace(-2, 30, torch.Size(shape).numel()).view(shape)
    series = make(y=y)
    assert torch.equal(series.take([5, 0]).y, y[[5, 0]])
    assert Dataset("toy", series, None, series, classes=1, channels=("a", "b")).per_step == (len(shape) == 2)


@pytest.mark.parametrize("shape", [(6, 1), (6, 3), (6, 3, 2)])
def test_series_hold_the_values_of_a_forecast(shape):
    """A horizon is as long as it is; one as long as the series would look like values of its steps."""
    y = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    series = make(y=y)
    assert series.take([5, 0]).y.tolist() == y[[5, 0]].tolist()
    assert "real values" in repr(series)
    assert not Dataset("toy", series, None, series, classes=3, channels=("a", "b")).per_step


def test_a_dataset_refuses_labels_and_names_that_do_not_fit():
    series = make()
    with pytest.raises(InputError, match=r"labels of toy must lie in 0 … 1"):
        Dataset("toy", series, None, series, classes=2, channels=("a", "b"))
    with pytest.raises(InputError, match="channels must have 2 entries, got 3"):
        Dataset("toy", series, None, series, classes=3, channels=("a", "b", "c"))


def test_a_fold_splits_the_training_series_and_leaves_the_test_alone():
    whole, folded = load_dataset("switch_feature"), load_dataset("switch_feature", fold=3)
    assert whole.validation is None
    assert set(folded.train.ids.tolist()) | set(folded.validation.ids.tolist()) == set(range(800))
    assert not set(folded.train.ids.tolist()) & set(folded.validation.ids.tolist())
    assert torch.equal(folded.validation.x, whole.train.x[folded.validation.ids])
    assert torch.equal(folded.test.x, whole.test.x)


def test_the_five_validation_parts_are_the_training_series():
    parts = [load_dataset("switch_feature", fold=fold).validation.ids for fold in range(5)]
    assert torch.cat(parts).sort().values.tolist() == list(range(800))


def test_per_step_follows_the_labels():
    series = make()
    assert not Dataset("toy", series, None, series, 3, ("a", "b")).per_step
    assert load_dataset("state").per_step


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="Did you mean 'state'"):
        load_dataset("stat")
    with pytest.raises(
        UnknownNameError, match=r"No variant of state is called 'relased'. Did you mean 'released'"
    ):
        load_dataset("state", variant="relased")
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4"):
        load_dataset("state", fold=5)


def test_series_and_data_sets_write_themselves_in_a_few_words():
    mask = torch.ones(4, 5, 2, dtype=torch.bool)
    mask[0] = False
    series = Series(torch.zeros(4, 5, 2), torch.tensor([0, 1, 2, 0]), mask=mask, truth=mask)
    assert repr(series) == "Series(4 series × 5 steps × 2 channels, 3 classes, 25 % missing, truth known)"
    values = Series(torch.zeros(1, 5, 2), torch.zeros(1))
    assert repr(values) == "Series(1 series × 5 steps × 2 channels, real values)"
    steps = Series(torch.zeros(1, 5, 2), torch.zeros(1, 5, dtype=torch.int64))
    assert repr(steps) == "Series(1 series × 5 steps × 2 channels, 1 class per step)"
    data = Dataset("toy", series, None, steps, 3, ("a", "b"), "paper")
    assert repr(data).splitlines() == [
        "Dataset toy (paper), 3 classes, channels a, b",
        f"  train      {series!r}",
        f"  test       {steps!r}",
    ]


def scaled(series=None, **changes):
    series = make() if series is None else series
    parts = {"centre": torch.tensor([10.0, -1.0]), "scale": torch.tensor([2.0, 0.5]), "units": ("°C", "")}
    return Dataset("toy", series, None, series, 3, ("a", "b"), **(parts | changes))


@pytest.mark.parametrize("shape", [(2,), (1, 2), (4, 1), (4, 2), ()])
def test_raw_undoes_the_scaling_cell_by_cell(shape):
    centre, scale = (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) + 1 for seed in (0, 1))
    data = scaled(centre=centre, scale=scale)
    few = data.test.take([4, 1])
    found = data.raw(few)
    assert found.dtype == torch.float64
    for (row, time, channel), value in np.ndenumerate(found.numpy()):
        if not few.mask[row, time, channel]:
            assert np.isnan(value)
            continue
        shift, factor = (float(part.expand(4, 2)[time, channel]) for part in (centre, scale))
        assert value == pytest.approx(float(few.x[row, time, channel]) * factor + shift, rel=1e-12)


def test_series_that_were_not_scaled_are_raw_as_they_are():
    data = load_dataset("state")
    assert (data.centre, data.scale, data.units) == (None, None, None)
    assert torch.equal(data.raw(data.test), data.test.x.double())


def test_a_fold_keeps_the_scaling():
    folded = scaled(make(50, mask=None)).fold(2)
    assert torch.equal(
        folded.raw(folded.validation),
        folded.validation.x * torch.tensor([2, 0.5]).double() + torch.tensor([10, -1]),
    )
    assert folded.units == ("°C", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"centre": None}, "toy has one of centre and scale: pass both, or neither"),
        ({"units": ("kg",)}, "units must have 2 entries, got 1"),
    ],
)
def test_a_scaling_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        scaled(**changes)
