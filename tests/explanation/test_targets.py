"""An explanation of several targets: which they are, one of them, slices, files, tables, and who refuses it."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tempograd as tg
from tempograd.core.errors import DataError, InputError, TempogradWarning
from tempograd.explanation.files import checksum

SERIES, TIME, CHANNELS, OUTPUTS = 4, 6, 2, 12
X = torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(1))
WEIGHT = torch.randn(TIME * CHANNELS, OUTPUTS, generator=torch.Generator().manual_seed(2))


def forecaster(z):
    return (z.flatten(1) @ WEIGHT).tanh()


def grid(z):
    return forecaster(z).view(-1, 4, 3)


def spread(outputs):
    return outputs.amax(1) - outputs.amin(1)


def explained(targets, model=forecaster, **options):
    options = {"output": "raw", "n_samples": 10} | options
    return tg.explain(model, X, "timing", targets=targets, **options)


@pytest.fixture(scope="module")
def three():
    return explained([0, 5, 11])


def equal(found, expected):
    for name in (
        "values",
        "standard_error",
        "target",
        "delta",
        "baseline",
        "x",
        "ids",
        "n_draws",
        "ess",
        "curve_error",
    ):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0, equal_nan=True)
    for name, part in vars(expected.gradient_check).items():
        torch.testing.assert_close(getattr(found.gradient_check, name), part, rtol=0, atol=0, equal_nan=True)
    for name in (
        "method",
        "parameters",
        "fingerprint",
        "output",
        "columns",
        "output_shape",
        "target_text",
        "task",
    ):
        assert getattr(found, name) == getattr(expected, name)


def test_one_target_is_found_by_what_it_is(three):
    assert three.targets == [0, 5, 11]
    assert [three.for_target(target).target.unique().tolist() for target in (0, 5, 11)] == [[0], [5], [11]]
    assert three.for_target(5).siblings == ()
    assert three.for_target(5).targets == [5]
    assert three.for_target(11).for_target(11).targets == [11]


def test_a_position_is_taken_with_a_warning(three):
    with pytest.warns(TempogradWarning, match=r"^No target is 2: this is the one at position 2, 11\.$"):
        assert three.for_target(2).targets == [11]
    with pytest.warns(TempogradWarning, match=r"^No target is 1: this is the one at position 1, 5\.$"):
        assert three.for_target(1).targets == [5]


@pytest.mark.parametrize("wrong", [7, -1, True, "five", (0, 5), spread, None, 1.0])
def test_no_other_target_is_there(three, wrong):
    with pytest.raises(InputError, match=r"the explanation is of 0, 5, 11, pass one of them\.$"):
        three.for_target(wrong)


def test_of_one_target_there_is_no_position(three):
    with pytest.raises(InputError, match=r"^There is no target 0: the explanation is of 5, pass one of them\.$"):
        three.for_target(5).for_target(0)


def test_addresses_functions_and_targets_per_series():
    each = torch.tensor([3, 0, 1, 2])
    found = explained([(3, 1), (0, 2), spread_of_grid, tg.targets.mean()], tg.Predictor(grid, task="forecast"))
    assert found.targets[:2] == [(3, 1), (0, 2)]
    assert found.for_target((0, 2)).target.unique().tolist() == [2]
    assert found.for_target(10).targets == [(3, 1)]
    for target in (spread_of_grid, tg.targets.mean()):
        expected = tg.explain(tg.Predictor(grid, task="forecast"), X, "timing", target=target, n_samples=10)
        assert torch.equal(found.for_target(target).values, expected.values)
    words = tg.targets.mean()
    assert found.for_target(found.for_target(words).target_text).target is None
    other = explained([each, 4])
    assert other.targets == ["one output per series", 4]
    assert torch.equal(other.for_target(each).target, each)
    assert other[1].targets == [0, 4]


def spread_of_grid(outputs):
    return spread(outputs.flatten(1))


def test_names_of_outputs():
    names = tuple(f"hour {hour}" for hour in range(OUTPUTS))
    found = explained([0, 5, 11])
    named = replace(found, classes=names, siblings=tuple(replace(each, classes=names) for each in found.siblings))
    assert named.targets == ["hour 0", "hour 5", "hour 11"]
    assert named.for_target("hour 5").target.unique().tolist() == [5]
    assert named.for_target(5).targets == ["hour 5"]
    with pytest.raises(
        InputError, match="There is no target 'hour 4': the explanation is of hour 0, hour 5, hour 11"
    ):
        named.for_target("hour 4")


def test_slices_and_names_keep_the_siblings(three):
    for rows in (2, slice(1, 3), [3, 0], slice(None, None, -1)):
        part = three[rows]
        assert part.targets == [0, 5, 11]
        for place in range(2):
            equal(part.siblings[place], three.siblings[place][rows])
    named = three.with_names(channels=["a", "b"], names=list("wxyz"))
    assert [each.channels for each in named.siblings] == [("a", "b")] * 2
    assert named[1].siblings[1].names == ("x",)


def test_what_is_said_of_several(three):
    assert "targets=[0, 5, 11]" in repr(three)
    assert "targets" not in repr(three.for_target(5))
    first = three.for_target(0).verdict()
    assert three.verdict().startswith(f"{first}; this is of 0, the first of 3 targets")
    error = torch.full_like(three.values, 10.0)
    bad = replace(three, siblings=(three.siblings[0], replace(three.siblings[1], standard_error=error)))
    good = sum(tg.explanation.diagnostics.poor(each) for each in three.siblings[:1])
    told = "1 of the others is" if not good else "2 of the others are"
    assert f", and {told} not good: see for_target(" in bad.verdict()


def test_the_table_has_a_column_for_the_target(three):
    table = three.to_dataframe()
    assert list(table.columns[:4]) == ["target", "id", "time", "channel"]
    assert len(table) == 3 * X.numel()
    part = table[table["target"] == 11].drop(columns="target").reset_index(drop=True)
    assert part.equals(three.for_target(11).to_dataframe())


def test_files_hold_several_targets_and_shared_parts_once(three, tmp_path):
    path = three.save(tmp_path / "e.safetensors")
    found = tg.Explanation.load(path)
    assert found.targets == [0, 5, 11]
    for target in (0, 5, 11):
        equal(found.for_target(target), three.for_target(target))
    with safe_open(path, "pt") as file:
        names = set(file.keys())
    assert {"x", "baseline", "targets.1.values", "targets.2.values", "targets.2.target"} <= names
    assert not names & {
        f"targets.{k}.{name}" for k in (1, 2) for name in ("x", "baseline", "ids", "n_draws", "ess")
    }
    again = tg.Explanation.load(found[1:].save(tmp_path / "again"))
    equal(again.siblings[1], three.siblings[1][1:])
    alone = tg.Explanation.load(three.for_target(5).save(tmp_path / "alone"))
    assert alone.siblings == ()
    assert alone.targets == [5]


def test_files_of_targets_that_lack_different_parts(tmp_path):
    found = explained([spread_of_grid, (1, 1), tg.targets.mean()], tg.Predictor(grid, task="forecast"))
    back = tg.Explanation.load(found.save(tmp_path / "e"))
    assert back.target is None
    assert back.siblings[0].target.unique().tolist() == [4]
    assert back.siblings[1].target is None
    assert back.targets == found.targets
    assert torch.equal(back.for_target(tg.targets.mean()).values, found.siblings[1].values)
    without = tg.Explanation.load(found.save(tmp_path / "without", series=False))
    assert [each.x for each in (without, *without.siblings)] == [None] * 3


def forged(path, out, change, drop=()):
    """Write a file again with another header, as nobody would write it, and a checksum that fits."""
    with safe_open(path, "pt") as file:
        header = dict(file.metadata())
    tensors = {name: part for name, part in load_file(path).items() if name not in drop}
    header["tempograd"] = json.dumps(change(json.loads(header["tempograd"])))
    header["checksum"] = checksum(tensors, header)
    save_file(tensors, out, header)
    return out


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (3, "targets in its header is 3"),
        ([3, 4], "its header tells 3 of target 1"),
        ([{"plain": {}}], "its header tells {.*} of target 1"),
        ([{"plain": {"seed": "x"}, "absent": []}], "seed in its header is 'x'"),
        ([{"plain": {}, "absent": ["values"]}], "it lacks the values of target 1"),
        ([{"plain": {"columns": 3}, "absent": []}], r"target must lie in 0 … 2"),
        ([{"plain": {}, "absent": ["ids"]}], "ids must have shape"),
    ],
)
def test_a_damaged_file_is_one_sentence(three, tmp_path, told, message):
    path = three.save(tmp_path / "e.safetensors")
    wrong = forged(path, tmp_path / "wrong", lambda plain: plain | {"targets": told})
    with pytest.raises(DataError, match=f"is damaged, {message}"):
        tg.Explanation.load(wrong)


def test_siblings_are_of_the_same_series(three):
    with pytest.raises(InputError, match="siblings must be explanations of other targets of the same series"):
        replace(three, siblings=(three.siblings[0][:2],))
    with pytest.raises(InputError, match="siblings must be explanations of other targets of the same series"):
        replace(three, siblings=(three,))


WHO = {
    "evaluate": lambda found: tg.evaluate(forecaster, found),
    "removal_curve": lambda found: tg.metrics.removal_curve(forecaster, found),
    "report": lambda found: tg.report("never.html", forecaster, found),
    "plot": lambda found: found.plot(),
    "heatmap": tg.plots.heatmap,
    "compare": lambda found: tg.plots.compare([found.for_target(0), found]),
    "channel_importance": tg.plots.channel_importance,
    "removal": lambda found: tg.plots.removal(forecaster, found),
    "convergence": tg.plots.convergence,
}


@pytest.mark.parametrize("who", WHO)
def test_who_needs_one_target_says_how_to_take_it(three, who):
    with pytest.raises(
        InputError, match=r"^The explanation is of 3 targets, 0, 5, 11: take one with for_target\(0\)\.$"
    ):
        WHO[who](three)


def test_a_notebook_shows_the_first_and_names_the_others(three):
    page = three._repr_html_()
    assert "3 targets: 0, 5, 11. This is the first; for_target(5) shows another." in page
    assert "this is of 0" not in page
