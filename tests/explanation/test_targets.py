"""Explanations of several targets: a mapping by what was asked, slices, files, tables, and who refuses it."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tempograd as tg
from tempograd.core.errors import DataError, InputError
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
    assert list(three) == [0, 5, 11]
    assert len(three) == 3
    assert [three[target].target.unique().tolist() for target in (0, 5, 11)] == [[0], [5], [11]]
    assert three.at(0) is three[0]
    assert three.at(2) is three.at(-1) is three[11]
    assert [part.question.target for part in three.values()] == [0, 5, 11]
    assert three[5].question.targets is None
    with pytest.raises(InputError, match="place"):
        three.at(3)


@pytest.mark.parametrize("wrong", [7, -1, True, "five", (0, 5), spread, None, 1.0])
def test_no_other_target_is_there(three, wrong):
    assert wrong not in three
    with pytest.raises(KeyError, match=r"^No target is called .*\. Known names: 0, 11, 5\.$"):
        three[wrong]


def test_one_target_in_a_list_is_a_mapping_too():
    assert list(explained([5])) == [5]


def test_addresses_functions_and_targets_per_series():
    each = torch.tensor([3, 0, 1, 2])
    found = explained([(3, 1), (0, 2), spread_of_grid, tg.targets.mean()], tg.Predictor(grid, task="forecast"))
    assert list(found) == [(3, 1), (0, 2), "target 2", "target 3"]
    assert found[(0, 2)].target.unique().tolist() == [2]
    for target, key in ((spread_of_grid, "target 2"), (tg.targets.mean(), "target 3")):
        expected = tg.explain(tg.Predictor(grid, task="forecast"), X, "timing", target=target, n_samples=10)
        assert torch.equal(found[key].values, expected.values)
    other = explained([each, 4])
    assert list(other) == ["target 0", 4]
    assert torch.equal(other["target 0"].target, each)
    assert other["target 0"][1].question.target.tolist() == [0]


def spread_of_grid(outputs):
    return spread(outputs.flatten(1))


def test_names_of_outputs():
    names = tuple(f"hour {hour}" for hour in range(OUTPUTS))
    named = explained(["hour 0", 5, "hour 11"], tg.Predictor(forecaster, classes=names))
    assert list(named) == ["hour 0", 5, "hour 11"]
    with pytest.raises(KeyError, match="No target is called 'hour 4'"):
        named["hour 4"]


def test_slices_are_those_of_each_target(three):
    for rows in (2, slice(1, 3), [3, 0], slice(None, None, -1)):
        part = three.take(rows)
        assert list(part) == [0, 5, 11]
        for target in part:
            equal(part[target], three[target][rows])


def test_parts_are_joined_target_by_target(three):
    joined = tg.concat([three.take([0, 1]), three.take([2, 3])])
    for target in three:
        equal(joined[target], three[target])
    with pytest.raises(InputError, match="other targets than the first"):
        tg.concat([three.take([0]), explained([0, 5]).take([1])])


def test_what_is_said_of_several(three):
    assert repr(three).startswith("Explanations of 3 targets, 0, 5, 11; the first: Explanation(4 × 6 × 2")
    assert three.verdict().startswith(f"{three[0].verdict()}; this is of 0, the first of 3 targets")


def test_files_hold_several_targets_and_shared_parts_once(three, tmp_path):
    path = three.save(tmp_path / "e.safetensors")
    found = tg.Explanations.load(path)
    assert list(found) == [0, 5, 11]
    for target in (0, 5, 11):
        equal(found[target], three[target])
    assert found[5].x is found[0].x
    with safe_open(path, "pt") as file:
        names = set(file.keys())
    assert {"x", "baseline", "targets.1.values", "targets.2.values", "targets.2.target"} <= names
    assert not names & {
        f"targets.{k}.{name}" for k in (1, 2) for name in ("x", "baseline", "ids", "n_draws", "ess")
    }
    again = tg.Explanations.load(found.take(slice(1, None)).save(tmp_path / "again"))
    equal(again[11], three[11][1:])
    assert list(tg.Explanations.load(three[5].save(tmp_path / "alone"))) == [5]
    with pytest.raises(InputError, match=r"holds 3 targets: read it by tempograd\.Explanations\.load"):
        tg.Explanation.load(path)


def test_files_of_targets_that_lack_different_parts(tmp_path):
    found = explained([spread_of_grid, (1, 1), tg.targets.mean()], tg.Predictor(grid, task="forecast"))
    back = tg.Explanations.load(found.save(tmp_path / "e"))
    assert list(back) == list(found) == ["target 0", (1, 1), "target 2"]
    assert [None if each.target is None else each.target.unique().tolist() for each in back.values()] == [
        None,
        [4],
        None,
    ]
    assert torch.equal(back["target 2"].values, found["target 2"].values)
    assert back["target 2"].picker == tg.targets.mean()
    assert back.at(0).question.target == back.at(0).target_text == "the score that spread_of_grid picks"
    without = tg.Explanations.load(found.save(tmp_path / "without", series=False))
    assert [(each.x, each.series) for each in without.values()] == [(None, None)] * 3


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
        (3, "its header is not as it was written"),
        ([3, 4], "its header is not as it was written"),
        ([{"plain": {}}], "its header is not as it was written"),
        ([{"plain": {"seed": "x"}, "absent": []}], "seed in its header is 'x'"),
        ([{"plain": {}, "absent": ["values"]}], "values in its header is None"),
        ([{"plain": {"columns": 3}, "absent": []}] * 2, r"target must lie in 0 … 2"),
        ([{"plain": {}, "absent": ["ids"]}], "ids in its header is None"),
    ],
)
def test_a_damaged_file_is_one_sentence(three, tmp_path, told, message):
    path = three.save(tmp_path / "e.safetensors")
    wrong = forged(path, tmp_path / "wrong", lambda plain: plain | {"targets": told})
    with pytest.raises(DataError, match=f"is damaged, {message}"):
        tg.Explanations.load(wrong)


@pytest.mark.parametrize("keys", [3, [0, 5], [0, 5, 5], [0, 5, None], [0, 5, [1.5]], {}])
def test_keys_that_nobody_wrote_are_refused(three, tmp_path, keys):
    path = three.save(tmp_path / "e.safetensors")
    with pytest.raises(DataError, match=r"is damaged, (its keys are|got) "):
        tg.Explanations.load(forged(path, tmp_path / "wrong", lambda plain: plain | {"keys": keys}))


def test_all_are_of_the_same_series(three):
    for wrong in ({0: three[0], 5: three[5][:2]}, {0: three[0], 5: three}, {}):
        with pytest.raises(InputError, match=r"All parts must be explanations of the same series|no explanations"):
            tg.Explanations(wrong)


WHO = {
    "evaluate": lambda found: tg.evaluate(forecaster, found),
    "removal_curve": lambda found: tg.metrics.removal_curve(forecaster, found),
    "report": lambda found: tg.report("never.html", forecaster, found),
    "series": tg.plots.series,
    "compare": lambda found: tg.plots.compare([found[0], found]),
    "channel_importance": tg.plots.channel_importance,
    "removal": lambda found: tg.plots.removal(forecaster, found),
}


@pytest.mark.parametrize("who", WHO)
def test_who_needs_one_target_says_how_to_take_it(three, who):
    with pytest.raises(
        InputError, match=r"^There are 3 targets, 0, 5, 11: take one, such as explanations\[0\]\.$"
    ):
        WHO[who](three)


def test_a_notebook_shows_the_first_and_names_the_others(three):
    page = three._repr_html_()
    assert "Targets: 0, 5, 11. This is the first; explanations[…] has the others." in page
    assert "this is of 0" not in page
