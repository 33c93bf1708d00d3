"""Series as people have them: a list of unequal lengths, a data frame."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import DataError, InputError, ModelError, TempogradWarning
from tests.helpers.models import series

LENGTHS = (7, 4, 9, 4, 6)
EXACT = ("timing", "rand_ig", "integrated_gradients", "occlusion", "lime", "random")


class LastState(nn.Module):
    """A GRU that reads its last step, so that a step of padding would change its answer."""

    def __init__(self, *, per_step=False):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru, self.head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 3)
        self.per_step = per_step

    def forward(self, x):
        states = self.gru(x)[0]
        return self.head(states if self.per_step else states[:, -1])


@pytest.fixture(scope="module")
def model():
    return LastState().double()


@pytest.fixture(scope="module")
def parts():
    return [series(1, length, 2, seed=place)[0].double() for place, length in enumerate(LENGTHS)]


def unequal(*arguments, **options):
    with pytest.warns(TempogradWarning, match="The series have 4 different lengths, 4 to 9 steps"):
        return tg.explain(*arguments, **options)


@pytest.mark.parametrize("method", EXACT)
def test_each_series_gets_the_scores_that_it_gets_alone(model, parts, method):
    found = unequal(model, [part.numpy() for part in parts], method, seed=3)
    for i, part in enumerate(parts):
        alone = tg.explain(model, tg.Series(part[None], ids=[i]), method, seed=3)
        torch.testing.assert_close(found.values[i : i + 1, : len(part)], alone.values, atol=1e-6, rtol=1e-4)
        assert found.target[i] == alone.target[0]
        assert not found.values[i, len(part) :].any()
        assert not found.mask[i, len(part) :].any()
        assert found.mask[i, : len(part)].all()


def test_integrated_gradients_sum_to_the_change_that_the_model_itself_shows(model, parts):
    found = unequal(model, parts, "integrated_gradients", target=1, output="raw", n_steps=200)
    for i, part in enumerate(parts):
        change = (model(part[None]) - model(torch.zeros_like(part)[None]))[0, 1]
        assert found.values[i].sum().item() == pytest.approx(change.item(), abs=1e-4)


def test_metrics_reports_and_files_show_the_model_no_padding_either(model, parts, tmp_path):
    found = unequal(model, parts, "integrated_gradients")
    scores = tg.evaluate(model, found, metrics=["cpd"], k=3)["cpd"]
    found.save(tmp_path / "e.safetensors")
    again = tg.Explanation.load(tmp_path / "e.safetensors")
    torch.testing.assert_close(tg.evaluate(model, again, metrics=["cpd"], k=3)["cpd"], scores)
    tg.report(tmp_path / "report.html", model, again)
    said = tg.removal_curve(model, again, k=1).predictions[:, 0]
    for i, part in enumerate(parts):
        torch.testing.assert_close(said[i : i + 1].double(), model(part[None]).softmax(-1), atol=1e-5, rtol=0)
        alone = tg.explain(model, tg.Series(part[None], ids=[i]), "integrated_gradients")
        expected = tg.evaluate(model, alone, metrics=["cpd"], k=3)["cpd"]
        torch.testing.assert_close(scores[i : i + 1], expected)
        torch.testing.assert_close(tg.evaluate(model, again[i], metrics=["cpd"], k=3)["cpd"], expected)
    joined = tg.concat([again[:2], again[2:]])
    torch.testing.assert_close(tg.evaluate(model, joined, metrics=["cpd"], k=3)["cpd"], scores)


def test_one_output_per_step(parts):
    model = LastState(per_step=True).double()
    found = unequal(tg.Predictor(model, task="per_step"), parts, "integrated_gradients", target=2)
    for i, part in enumerate(parts):
        alone = tg.explain(
            tg.Predictor(model, task="per_step"), tg.Series(part[None], ids=[i]), "integrated_gradients", target=2
        )
        torch.testing.assert_close(found.values[i : i + 1, : len(part)], alone.values, atol=1e-6, rtol=1e-4)
        expected = tg.evaluate(model, alone, metrics=["cpd"], k=2)["cpd"]
        torch.testing.assert_close(tg.evaluate(model, found[i], metrics=["cpd"], k=2)["cpd"], expected)


@pytest.mark.parametrize("method", ["occlusion", "integrated_gradients"])
def test_a_step_after_the_end_of_a_series_has_no_prediction(parts, method):
    """A model at its own length says nothing there; 0 behind the end was once taken for what it said: 50 %."""
    model = LastState(per_step=True).double()
    inside = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    for steps in ([8], [2, 8], 8, torch.arange(9) > 3, torch.ones(len(LENGTHS), 9, dtype=torch.bool)):
        with pytest.raises(InputError, match=r"steps= chooses step \d of x\[\d\], which has \d steps"):
            unequal(model, parts, method, target=2, steps=steps)
    for steps in (inside, inside & (torch.arange(9) > 2)):
        found = unequal(model, parts, method, target=2, steps=steps)
        for i, part in enumerate(parts):
            own = steps[i : i + 1, : len(part)]
            alone = tg.explain(model, tg.Series(part[None], ids=[i]), method, target=2, steps=own)
            torch.testing.assert_close(found.values[i : i + 1, : len(part)], alone.values, atol=1e-6, rtol=1e-4)


def test_a_mask_of_another_shape_beside_a_list_is_refused_in_a_sentence(parts):
    with pytest.raises(InputError, match=r"mask must have the shape of x, \(5, 4, 2\), got \(5, 4\)"):
        tg.explain(
            lambda z: z.sum((1, 2))[:, None],
            tg.Series([p[:4].T for p in parts], mask=torch.ones(5, 4), layout="BDT"),
        )


def test_a_forecast_as_long_as_one_of_the_series_is_no_output_per_step(parts):
    """Its horizon has four steps, and so have two of the series."""
    weights = torch.arange(8.0, dtype=torch.float64).view(4, 2)

    def forecast(x):
        return x.mean(1)[:, None] * weights

    found = unequal(tg.Predictor(forecast, task="forecast"), parts, "integrated_gradients", target=(3, 1))
    for i, part in enumerate(parts):
        assert found.values[i].sum().item() == pytest.approx(7 * part[:, 1].mean().item(), abs=1e-5)


def test_an_output_that_grows_otherwise_is_refused(parts):
    with pytest.warns(TempogradWarning), pytest.raises(ModelError, match=r"\(2, 2\) for a series of 4 steps and"):
        tg.explain(lambda x: x[:, : x.shape[1] // 2], parts)


def test_masks_raw_values_and_times_go_along(model, parts):
    masks = [torch.ones_like(part, dtype=torch.bool) for part in parts]
    masks[1][2, 0] = False
    stamps = [[f"{i}:{t}" for t in range(len(part))] for i, part in enumerate(parts)]
    given = tg.Series(parts, mask=masks, raw=[10 * part for part in parts], times=stamps)
    found = unequal(model, given, "integrated_gradients")
    assert not found.mask[1, 2, 0]
    assert found.mask.sum() == sum(mask.sum() for mask in masks)
    assert found.times[1] == ("1:0", "1:1", "1:2", "1:3", "", "", "", "", "")
    torch.testing.assert_close(found.raw[0, :7], 10 * parts[0])
    given = tg.Series([part.T for part in parts], layout="BDT", mask=[m.T for m in masks])
    turned = unequal(model, given, "integrated_gradients")
    torch.testing.assert_close(turned.values, found.values)


def test_a_list_of_equal_series_is_a_batch(model, parts, recwarn):
    equal = [part[:4] for part in parts]
    found = tg.explain(model, equal, "integrated_gradients")
    expected = tg.explain(model, torch.stack(equal), "integrated_gradients")
    assert torch.equal(found.values, expected.values)
    assert (found.mask, found.call.lengths) == (None, None)
    assert torch.equal(tg.explain(model, torch.stack(equal).tolist(), "integrated_gradients").values, found.values)
    assert not recwarn.list


def test_lists_that_are_no_series(model, parts, said):
    frame = pd.DataFrame(np.zeros((3, 2)), columns=["a", "b"])
    for x, options in (
        ([], {}),
        ([np.zeros(4), np.zeros(5)], {}),
        ([np.zeros((4, 2)), np.zeros((4, 3))], {}),
        ([np.zeros((4, 2)), np.zeros((0, 2))], {}),
        (frame, {}),
        ([frame, frame], {}),
        (["a", "b"], {}),
    ):
        said.refused(InputError, tg.explain, model, x, **options)
    with pytest.warns(TempogradWarning):
        said.refused(InputError, tg.explain, model, parts, "dynamask")
    said.refused(InputError, tg.Series, parts, mask=torch.ones(5, 9, 2))
    said.refused(InputError, tg.Series, parts, mask=[torch.ones(4, 2)] * 5)
    said.refused(InputError, tg.explain, model, tg.Series(parts, fixed={"length": list(LENGTHS)}))


# data frames


def table(parts):
    rows = [
        {"patient": f"p{i}", "hour": t, "pulse": float(part[t, 0]), "sodium": float(part[t, 1]), "label": i % 2}
        for i, part in enumerate(parts)
        for t in range(len(part))
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("form", ["plain", "index", "shuffled", "whole numbers"])
def test_a_frame_is_read_as_its_file_is(model, parts, tmp_path, form):
    frame = table(parts)
    if form == "whole numbers":
        frame["pulse"] = (10 * frame["pulse"]).round().astype("Int64")
        frame.loc[3, "pulse"] = pd.NA
    frame.to_csv(tmp_path / "ward.csv", index=False)
    expected = tg.read_series(tmp_path / "ward.csv")
    given = {
        "index": lambda: frame.set_index(["patient", "hour"]),
        "shuffled": lambda: frame.sample(frac=1, random_state=0).sort_values("patient", kind="stable"),
    }.get(form, lambda: frame)()
    found = tg.read_series(given)
    assert torch.equal(found.padded().mask, expected.padded().mask)
    torch.testing.assert_close(found.x, expected.x, equal_nan=True)
    assert (found.ids, found.channels, found.times) == (expected.ids, expected.channels, expected.times)
    assert found.y.tolist() == expected.y.tolist()
    explained = unequal(model, found, "integrated_gradients")
    again = unequal(model, expected, "integrated_gradients")
    torch.testing.assert_close(explained.values, again.values, atol=1e-6, rtol=1e-4)
    assert (explained.names, explained.channels) == (again.names, again.channels)


def test_dates_and_ids_of_a_frame():
    days = pd.to_datetime(["2026-03-01 08:00", "2026-03-01 09:30"] * 2)
    frame = pd.DataFrame({"id": [70, 70, 5, 5], "time": days, "load": [1.0, 2.0, 3.0, np.nan]})
    found = tg.read_series(frame)
    assert found.ids.tolist() == [70, 5]
    assert found.times == ("2026-03-01 08:00", "2026-03-01 09:30")
    assert found.padded().mask.flatten().tolist() == [True, True, True, False]


def test_frames_that_are_no_series(said):
    frame = pd.DataFrame({"id": [0, 0], "time": [0, 1], "a": [1.0, 2.0]})
    said.refused(DataError, tg.read_series, frame.assign(b=["x", "y"]))
    said.refused(DataError, tg.read_series, frame.drop(columns="time"))
    said.refused(DataError, tg.read_series, frame[:0])
    said.refused(DataError, tg.read_series, pd.concat([frame, frame], axis=1))
