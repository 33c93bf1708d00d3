"""Options from a file, and the file that a run writes to go on with."""

import json
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

import tempograd as tg
from tempograd.cli import main, make_parser
from tempograd.cli.arguments import as_toml, with_config
from tests.bulk.conftest import alone  # noqa: F401  # a fixture
from tests.cli.test_bulk_runs import EXPLAIN, MODEL, rows, states
from tests.cli.test_bulk_runs import x as series

x = series
OWN = "out/_tempograd/run.toml"


def parsed(*words):
    parser = make_parser(["explain"])
    return parser.parse_args(with_config(parser, ["explain", *words]))


@pytest.mark.usefixtures("x", "alone")
def test_a_run_goes_on_with_the_file_that_it_wrote_from_anywhere(capsys, tmp_path, monkeypatch):
    more = ["--keep", "day,site", "--max-faults", "0.5", "--set", "segments=3", "--no-labels"]
    assert main([*EXPLAIN, *more, "--limit", "8"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith(f"Next: tempograd explain --config {OWN}\n")
    done = states()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for _ in range(2):
        assert main(["explain", "--config", f"../{OWN}"]) == 0
        assert "left: 0 files" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert done.items() <= states().items()
    assert main([*EXPLAIN, *more, "--out", "other/"]) == 0
    np.testing.assert_equal(rows(), rows("other"))  # NaN equals NaN
    told = tomllib.loads(Path(OWN).read_text())
    assert told == {
        "model": str(tmp_path / "m.safetensors"),
        "device": "cpu",
        "data": str(tmp_path / "in/*.parquet"),
        "no-labels": True,
        "keep": ["day", "site"],
        "method": "timing",
        "seed": 3,
        "out": f"{tmp_path}/out/",
        "max-faults": 0.5,
        "set": {"n_samples": 6, "segments": 3},
    }


@pytest.mark.usefixtures("x")
def test_another_run_keeps_its_file(capsys, said):
    assert main(EXPLAIN) == 0
    before = Path(OWN).read_text()
    capsys.readouterr()
    assert main([*EXPLAIN, "--n-samples", "7"]) == 5
    said(capsys.readouterr().err)
    assert Path(OWN).read_text() == before


def test_what_is_typed_wins(tmp_path):
    path = tmp_path / "a b.toml"
    path.write_text(
        'model = "m"\ndata = "state"\nn_samples = 5\nmax-faults = 0.5\nkeep = ["a", "b"]\nshape = [3, 2]\n'
        'trust = true\nforce = false\n[set]\nsegments = 3\nrule = "midpoint"\nareas = [0.1, 0.2]\n'
        'held = "none"\ntolerance = 0.1\n'
    )
    args = parsed("--config", str(path))
    assert (args.max_faults, args.keep, args.shape) == (0.5, ["a", "b"], (3, 2))
    assert (args.trust, args.force, args.config) == (True, False, None)
    settings = {
        "segments": 3,
        "rule": "midpoint",
        "areas": [0.1, 0.2],
        "held": None,
        "tolerance": 0.1,
        "n_samples": 5,
    }
    assert dict(args.settings) == settings
    args = parsed(f"--config={path}", "--n-samples", "9", "--set", "segments=4", "--set=rule=left", "--model", "n")
    assert args.model == "n"
    assert dict(args.settings) == settings | {"segments": 4, "rule": "left", "n_samples": 9}


@pytest.mark.parametrize(
    "words",
    [
        "--model net:make --data s3://lake/in?region=x --out out --target 3,1 --steps 3,4 --units mV,C",
        "--model m.pt2 --trust --data state --root data --classes no,yes --fill zero --label 'a \"b\"\\'",
        "--model m.pt --data lake --background pool.npz --set a=none --set b=true --set c=1,2 --set d=x",
    ],
)
def test_every_option_comes_back(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    args = parsed(*shlex.split(words))
    Path("run.toml").write_text(as_toml(args))
    found, known = vars(parsed("--config", "run.toml")), vars(args)
    places = {"model", "data", "out", "root", "background", "parser"}
    assert {name: found[name] for name in known.keys() - places} == {
        name: known[name] for name in known.keys() - places
    }
    for name in places - {"parser"}:
        now, before = str(found[name]), str(known[name])
        assert now in {before, str(tmp_path / before)}
        assert (now == before) == (before in {"state", "None", "explanation.safetensors"} or ":" in before)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("limt = 3", 2, "No option in a.toml is called 'limt'. Did you mean 'limit'?"),
        ("config = 'b.toml'", 2, "'config'"),
        ("limit = 'many'", 2, "--limit"),
        ("trust = 'yes'", 2, "argument --trust: ignored explicit argument 'yes'"),
        ("limit = true", 2, "argument --limit: expected one argument"),
        ("set = 3", 2, "argument --set: write name=value, got '3'"),
        ("[set]\nsegmnts = 3", 2, "segmnts"),
        ("limit =", 3, "a.toml cannot be read"),
        (None, 3, "a.toml cannot be read"),
    ],
)
@pytest.mark.usefixtures("x")
def test_what_is_wrong_with_a_file(text, code, words, capsys):
    if text is not None:
        Path("a.toml").write_text(text)
    try:
        got = main(["explain", "--config", "a.toml", *MODEL, "--data", "in", "--out", "out/"])
    except SystemExit as stop:
        got = stop.code
    assert got == code
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not Path("out").exists()


@pytest.mark.usefixtures("x")
def test_one_file_is_explained_by_a_config_too(capsys):
    Path("a.toml").write_text(
        'model = "m.safetensors"\ndata = "in/0.parquet"\nout = "e.safetensors"\nlimit = 3\njson = true'
    )
    assert main(["explain", "--config", "a.toml", "--n-samples", "6"]) == 0
    assert json.loads(capsys.readouterr().out)["series"] == len(tg.Explanation.load("e.safetensors")) == 3
