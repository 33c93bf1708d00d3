"""``--set`` and ``--missing``: what settings may say, what other options must say, and NaN in files of arrays."""

import shlex

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.models import build, save_model
from tests.helpers.models import series

X = series(4, 6, 2)
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    save_model(build("gru", 2, 2, hidden=4), folder / "m.safetensors")
    np.savez(folder / "d.npz", x=X.numpy())
    return folder


def command(place, *more):
    start = ["explain", "--model", place / "m.safetensors", "--data", place / "d.npz", "--device", "cpu"]
    return [str(part) for part in (*start, "--out", place / "e.safetensors", *more)]


@pytest.mark.parametrize("setting", ["x=3", "method=lime", "channels=1", "batch_size=4", "seed=1", "n_sample=3"])
def test_what_is_no_setting_of_the_method_is_wrong_usage(setting, place, capsys):
    assert main(command(place, "--set", setting)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"'{setting.partition('=')[0]}'" in line


WRONG = {
    "quirks=1": "No option of timing is called 'quirks'",
    "control_variates=[]": "control_variates must be True or False, got []",
    "n_samples=[[[[": "n_samples must be an integer, got '[[[['",
    f"n_samples={DEEP}": "n_samples must be an integer, got '[[[",
    f"n_samples={'9' * 5000}": "n_samples must be an integer, got '999",
    "n_samples=1e9": "n_samples must be an integer, got 1000000000.0",
    "n_samples=1000000000": "n_samples must be at most 10000000",
    "n_samples=NaN": "n_samples must be an integer, got nan",
    "anchored=NaN": "anchored must lie between 0 and 0.95, got nan",
    "tolerance=-Infinity": "tolerance must be above 0 and below 1, got -inf",
    'n_samples={"a": 1}': "n_samples must be an integer, got {'a': 1}",
}


@pytest.mark.parametrize("setting", WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_is_one_sentence(setting, place, capsys):
    assert main(command(place, "--set", setting)) in {2, 5}
    said = capsys.readouterr().err
    assert said.startswith(f"tempograd: {WRONG[setting]}")
    assert said.count("\n") == 1
    assert len(said) <= 312  # with its first word


def test_settings_and_arguments_of_the_call_still_work(place, capsys):
    more = ["--set", "n_samples=20", "--batch-size", "2", "--baseline", "average", "--seed", "3"]
    assert main(command(place, *more)) == 0
    found = tg.Explanation.load(place / "e.safetensors")
    model = tg.load_model(place / "m.safetensors")
    torch.testing.assert_close(found.values, tg.explain(model, X, n_samples=20, baseline="average", seed=3).values)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_nan_in_arrays_is_missing_if_one_says_so(kind, place, tmp_path, capsys):
    holes = X.clone()
    holes[1, 2:4, 0] = torch.nan
    file = tmp_path / f"d.{kind}"
    np.savez(file, x=holes.numpy()) if kind == "npz" else np.save(file, holes.numpy())
    argv = command(place, "--data", file, "--out", tmp_path / "e.safetensors")
    assert main(argv) == 3
    assert "x holds NaN: pass --missing mask" in capsys.readouterr().err
    assert main([*argv, "--missing", "mask"]) == 0
    told = capsys.readouterr().out
    model, found = tg.load_model(place / "m.safetensors"), tg.Explanation.load(tmp_path / "e.safetensors")
    expected = tg.explain(model, tg.Series(holes, mask="nan"))
    torch.testing.assert_close(found.values, expected.values)
    assert torch.equal(found.mask, ~holes.isnan())
    assert torch.equal(found.x, expected.x)
    following = next(line for line in told.splitlines() if line.startswith("Next: "))
    assert main([*shlex.split(following)[2:], "--out", str(tmp_path / "r.html")]) == 0
    argv = ["evaluate", tmp_path / "e.safetensors", "--model", place / "m.safetensors"]
    assert main([*map(str, argv), "--device", "cpu"]) == 0
