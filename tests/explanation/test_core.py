import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from scipy import stats

import tempograd as tg
from tempograd.core.errors import DataError, InputError
from tempograd.explanation.files import checksum
from tests.helpers.models import Recurrent, linear, series, smooth


@pytest.fixture
def explanation():
    x = series(4, 6, 3)
    mask = torch.ones_like(x)
    mask[0, 4:] = 0
    return tg.explain(
        smooth(6, 3),
        tg.Series(x, mask=mask, ids=[4, 7, -2, 9], channels=["a", "b", "c"]),
        n_samples=20,
        seed=5,
        baseline="average",
    )


def same(first, second):
    for name in first.__dataclass_fields__:
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        elif name in {"gradient_check", "question"} and one is not None:
            same(one, other)
        else:
            assert one == other, name


def test_names_stay_with_their_series(tmp_path):
    x = torch.zeros(3, 2, 2)
    x[0, 1, 0], x[1, 0, 1], x[2, 1, 1] = 1, 2, 3
    names = {"ids": ["bed 7", "bed 3", "bed 5"], "channels": ["pulse", "sodium"], "times": ["08:00", "09:00"]}
    model = lambda z: z.sum((1, 2))[:, None]  # noqa: E731  # every cell's score is its value
    found = tg.explain(model, tg.Series(x, **names), "integrated_gradients", output="raw")
    assert found[[2, 0]].names == ("bed 5", "bed 7")
    assert found[1:].names == ("bed 3", "bed 5")
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    same(loaded, found)
    assert loaded.to_dataframe()["id"].tolist() == ["bed 7"] * 4 + ["bed 3"] * 4 + ["bed 5"] * 4


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("steps", [None, "own"])
def test_saved_and_loaded_nothing_changes(explanation, tmp_path, per_step, steps):
    same(tg.Explanation.load(explanation.save(tmp_path / "e.safetensors")), explanation)
    if per_step:
        other = tg.explain(
            Recurrent(per_step=True), tg.Series(series(2, 5, 3), times=list("vwxyz")), "random", steps=steps
        )
        same(tg.Explanation.load(other.save(tmp_path / "own.safetensors")), other)


def test_a_constant_baseline_costs_no_space_and_the_series_can_be_left_out(explanation, tmp_path):
    big = tg.explain(linear(500, 4), series(20, 500, 4), "random")
    with_series, without = big.save(tmp_path / "a"), big.save(tmp_path / "b", series=False)
    assert with_series.stat().st_size - without.stat().st_size == pytest.approx(20 * 500 * 4 * 4, abs=500)
    assert without.stat().st_size < 1.05 * 20 * 500 * 4 * 4
    loaded = tg.Explanation.load(without)
    assert loaded.x is None
    assert loaded.baseline.shape == big.values.shape


def test_foreign_and_damaged_files_are_refused(explanation, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        tg.Explanation.load(tmp_path / "nowhere")
    save_file({"values": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(DataError, match="holds no explanation"):
        tg.Explanation.load(tmp_path / "foreign")
    whole = explanation.save(tmp_path / "e").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a readable"):
        tg.Explanation.load(tmp_path / "half")


def test_a_failed_save_leaves_the_old_file(explanation, tmp_path, monkeypatch):
    path = explanation.save(tmp_path / "e")
    before = path.read_bytes()
    monkeypatch.setattr("tempograd.core.io.save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        explanation.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["e"]


def test_intervals_are_students_with_the_effective_size(explanation):
    low, high = explanation.interval(0.9)
    i, t, d = 1, 2, 0
    freedom = float(explanation.ess[i, t, d]) - 1
    half = stats.t.ppf(0.95, freedom) * float(explanation.standard_error[i, t, d])
    assert float(high[i, t, d] - explanation.values[i, t, d]) == pytest.approx(half, rel=1e-3)
    assert float(explanation.values[i, t, d] - low[i, t, d]) == pytest.approx(half, rel=1e-3)
    assert (low[0, 4:] == 0).all()
    assert (high[0, 4:] == 0).all()


def test_cells_with_fewer_than_two_draws_have_an_infinite_interval():
    with pytest.warns(UserWarning, match="use n_samples"):
        found = tg.explain(linear(6, 2), series(3, 6, 2), "rand_ig", n_samples=3, p=0.4)
    rare = found.n_draws < 2
    assert rare.any()
    assert found.standard_error[rare].isinf().all()
    low, high = found.interval()
    assert low[rare].isneginf().all()
    assert high[rare].isposinf().all()
    assert (found.values[found.n_draws == 0] == 0).all()


def test_a_method_without_error_has_no_interval():
    with pytest.raises(InputError, match="no Monte-Carlo error"):
        tg.explain(linear(6, 2), series(3, 6, 2), "integrated_gradients").interval()


def test_top_lists_the_strongest_observed_cells(explanation):
    top = explanation.top(5)
    assert [part is getattr(top, name) for part, name in zip(top, ("time", "channel", "values"), strict=True)] == [
        True
    ] * 3
    for i in range(4):
        cells = [
            (abs(float(explanation.values[i, t, d])), t, d)
            for t in range(6)
            for d in range(3)
            if explanation.mask[i, t, d]
        ]
        expected = sorted(cells, reverse=True)[:5]
        assert list(zip(top.time[i].tolist(), top.channel[i].tolist(), strict=True)) == [c[1:] for c in expected]
        assert top.values[i].abs().tolist() == pytest.approx([c[0] for c in expected])
    assert explanation.top(18).time[0, 12:].tolist() == [-1] * 6
    with pytest.raises(InputError, match="k must be at most 18"):
        explanation.top(19)


def test_the_table_has_one_row_per_observed_cell(explanation):
    table = explanation.to_dataframe()
    assert len(table) == 4 * 18 - 6
    row = table[(table.id == 7) & (table.time == 3) & (table.channel == "b")].iloc[0]
    assert row.attribution == pytest.approx(float(explanation.values[1, 3, 1]))
    assert row.value == pytest.approx(float(explanation.x[1, 3, 1]))
    assert row.n_draws == explanation.n_draws[1, 3, 1]
    assert row.standard_error == pytest.approx(float(explanation.standard_error[1, 3, 1]))


def test_some_series_can_be_taken_out(explanation):
    part = explanation[1:3]
    assert part.ids.tolist() == [7, -2]
    torch.testing.assert_close(part.values, explanation.values[1:3])
    torch.testing.assert_close(part.baseline, explanation.baseline[1:3])


def test_the_fingerprint_names_the_weights():
    x, model = series(2, 6, 2), linear(6, 2)
    before = tg.explain(model, x, "random").fingerprint
    assert before == tg.explain(linear(6, 2), x, "random").fingerprint
    with torch.no_grad():
        weight = model[1].weight
        weight[0, 0], weight[0, 1] = weight[0, 1].item(), weight[0, 0].item()
    swapped = tg.explain(model, x, "random").fingerprint
    assert swapped != before
    assert tg.explain(model.double(), x, "random").fingerprint not in {before, swapped}


def test_a_file_with_a_header_but_without_scores_is_refused(tmp_path):
    save_file({"x": torch.zeros(2)}, tmp_path / "e", {"tempograd": json.dumps({}), "shapes": json.dumps({})})
    with pytest.raises(DataError, match="holds no explanation"):
        tg.Explanation.load(tmp_path / "e")


def test_intervals_of_cells_worth_less_than_one_draw_are_infinite(explanation):
    size = torch.full_like(explanation.values, 0.5)
    low, high = replace(explanation, ess=size, standard_error=size).interval()
    assert low.isneginf().all()
    assert high.isposinf().all()


def test_intervals_are_infinite_where_the_error_is(explanation):
    """Whatever the degrees of freedom are."""
    endless = torch.full_like(explanation.values, torch.inf)
    low, high = replace(explanation, standard_error=endless).interval()
    assert low.isneginf().all()
    assert high.isposinf().all()


def test_places_in_the_top_that_no_cell_takes_say_so(explanation):
    top = explanation.top(18)
    assert top.channel[0, 12:].tolist() == [-1] * 6
    spoilt = replace(explanation, values=torch.ones_like(explanation.values)).top(18)
    assert spoilt.values[0].tolist() == [1] * 12 + [0] * 6


def test_names_are_kept_until_they_are_replaced(explanation):
    times = replace(explanation, times=tuple("uvwxyz"))
    assert times.channels == ("a", "b", "c")
    assert set(times.to_dataframe().time) == set("uvwxyz")


def test_the_text_tells_what_was_done():
    text = repr(tg.explain(linear(6, 2), series(3, 6, 2), "rand_ig", p=0.7, seed=4))
    assert text == (
        "Explanation(3 × 6 × 2, method='rand_ig', output='probability' (softmax over 3 outputs), baseline='zero', "
        "seed=4, n_samples=50, p=0.7)\n"
        "Assumed: the predicted class of each series was explained; "
        "values were compared with 0, as the model reads them"
    )


def test_the_text_tells_the_baseline(tmp_path):
    model, x = linear(6, 2), series(3, 6, 2) + 1
    mask = x > 0.5
    mask[:, 0] = True
    means = torch.stack([(x[i, :, d][mask[i, :, d]]).mean() for i in range(3) for d in range(2)]).view(3, 1, 2)
    off = means.repeat(1, 6, 1)
    off[2, 5, 1] += 0.01
    shifted = means + torch.tensor([0.0, 0.1])
    for name, given in (("zero", torch.zeros(6, 2)), ("average", means), ("own", off), ("own", shifted)):
        explanation = tg.explain(model, tg.Series(x, mask=mask), "random", baseline=given)
        for found in (explanation, tg.Explanation.load(explanation.save(tmp_path / "e.safetensors"))):
            assert f"baseline={name!r}" in repr(found)


def test_scores_below_zero_come_last_where_the_sign_is_no_direction():
    """As FIT and WinIT give them: a value that matters less than nothing is removed last, not first."""
    model, x = linear(4, 1, classes=2), torch.ones(1, 4, 1)
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[4.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))
        model[1].bias.zero_()
    values = torch.tensor([0.3, -0.9, 0.2, -0.1]).view(1, 4, 1)
    signed = replace(tg.explain(model, x, "random"), values=values, signed=True)
    plain = replace(signed, signed=False)
    assert signed.top(4).time.tolist() == [[1, 0, 2, 3]]
    assert plain.top(4).time.tolist() == [[0, 2, 3, 1]]
    drop = (torch.tensor([10.0]).sigmoid() - torch.tensor([7.0, 6.0]).sigmoid()).tolist()
    for explanation, gone in ((signed, drop[0]), (plain, drop[1])):
        found = tg.evaluate(model, explanation, metrics=["prediction_difference"], k=1)
        assert found["prediction_difference"].tolist() == pytest.approx([gone], rel=1e-4)
    truth = torch.tensor([False, True, False, False]).view(1, 4, 1)
    assert tg.evaluate(model, signed, metrics=["auroc"], truth=truth)["auroc"].tolist() == [1.0]
    assert tg.evaluate(model, plain, metrics=["auroc"], truth=truth)["auroc"].tolist() == [0.0]


def nobody_looked(explanation):
    return replace(explanation, n_evals=None, delta=None)


def looked_at(explanation):
    """Return the explanation with what an estimator tells about its run."""
    count = len(explanation)
    return replace(
        explanation,
        n_evals=torch.arange(count, dtype=torch.int32),
        delta=torch.linspace(-1, 1, count),
    )


def test_what_the_run_told_is_kept_in_files_and_parts(explanation, tmp_path):
    found = looked_at(explanation)
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    for name in ("n_evals", "delta"):
        torch.testing.assert_close(getattr(loaded, name), getattr(found, name), rtol=0, atol=0, equal_nan=True)
    part = loaded[[3, 1]]
    assert part.n_evals.tolist() == [3, 1]
    assert part.delta.tolist() == found.delta[[3, 1]].tolist()


def test_files_of_other_versions_are_read(explanation, tmp_path):
    """A newer one may hold more; an older one holds less."""
    path = looked_at(explanation).save(tmp_path / "e")
    with safe_open(path, "pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    plain = json.loads(header["tempograd"])
    newer = {**header, "tempograd": json.dumps({**plain, "mood": "good"})}
    more = {**tensors, "moods": torch.zeros(2)}
    save_file(more, tmp_path / "newer", {**newer, "checksum": checksum(more, newer)})
    same(tg.Explanation.load(tmp_path / "newer"), looked_at(explanation))
    for name in ("n_evals", "delta"):
        del tensors[name]
    save_file(tensors, tmp_path / "older", {**header, "checksum": checksum(tensors, header)})
    same(tg.Explanation.load(tmp_path / "older"), nobody_looked(explanation))


def test_what_the_run_told_must_fit_the_series(explanation):
    with pytest.raises(InputError, match=r"n_evals must have shape \(4,\), got \(3,\)"):
        replace(explanation, n_evals=torch.ones(3)).verify()
    with pytest.raises(InputError, match=r"delta must have shape \(4,\), got \(4, 1\)"):
        replace(explanation, delta=torch.ones(4, 1)).verify()


def test_the_relative_error_counts_observed_cells_alone(explanation):
    found, seen = explanation.relative_error, explanation.mask.bool()
    for i in range(4):
        error, size = explanation.standard_error[i][seen[i]].sum(), explanation.values[i][seen[i]].abs().sum()
        assert float(found[i]) == pytest.approx(float((2 / torch.pi) ** 0.5 * error / size), rel=1e-5)
    spoilt = explanation.standard_error.masked_fill(~seen, torch.inf)
    torch.testing.assert_close(replace(explanation, standard_error=spoilt).relative_error, found)
    assert tg.explain(linear(6, 2), series(3, 6, 2), "integrated_gradients").relative_error is None


def test_the_residual_is_what_the_scores_leave_of_the_change(explanation):
    assert nobody_looked(explanation).convergence_delta is None
    delta = torch.tensor([0.5, -0.25, 0.0, 1.0])
    told = replace(explanation, values=torch.full((4, 6, 3), 0.1), delta=delta)
    assert told.convergence_delta.tolist() == pytest.approx([1.3, 2.05, 1.8, 0.8], rel=1e-6)


def test_some_of_the_series_in_any_order(explanation):
    """Backwards, by their places, from the end, and by one truth value for each."""
    chosen = {
        "backwards": (slice(None, None, -1), [3, 2, 1, 0]),
        "every other": (slice(None, None, 2), [0, 2]),
        "places": ([2, 0], [2, 0]),
        "the last": ([-1], [3]),
        "numpy": (np.array([1, 3], np.uint8)[::-1], [3, 1]),
        "truth": ([True, False, False, True], [0, 3]),
        "none": ([], []),
    }
    for rows, places in chosen.values():
        part = explanation[rows]
        assert torch.equal(part.values, explanation.values[places])
        assert part.ids.tolist() == explanation.ids[places].tolist()
    for wrong in (
        [4],
        [0.5],
        [True],
        "0",
        None,
        {"a": 1},
    ):
        with pytest.raises(InputError, match="rows"):
            explanation[wrong]
