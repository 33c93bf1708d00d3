"""Class names, units, values and stamps go from the data into the explanation, and from there into the report."""

import json

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tests.helpers.explanations import stamp, ward
from tests.helpers.report_page import Page


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.export.save(
        torch.export.export(ward()[0], (torch.zeros(2, 6, 2),), dynamic_shapes=({0: torch.export.Dim.AUTO},)),
        "m.pt2",
    )
    return tmp_path


EXPLAIN = ["explain", "--model", "m.pt2", "--trust", "--data", "d.npz", "--set", "n_samples=5", "--device", "cpu"]


def arrays(**more):
    _, x, options = ward()
    labels = np.array(["died", "survived", "died"])
    np.savez("d.npz", x=x.numpy(), mask=options["mask"].numpy(), y=labels, **more)
    return x, options


def test_a_file_of_arrays_tells_all_of_it(place, capsys):
    _, _, options = ward()
    x, _ = arrays(times=options["times"], units=np.array(options["units"]), raw=options["raw"].numpy())
    assert main([*EXPLAIN, "--classes", "survived,died", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    found = tg.Explanation.load("explanation.safetensors")
    assert (found.classes, found.units) == (("survived", "died"), ("bpm", "°C"))
    assert found.times == tuple(tuple(stamp(row, step) for step in range(6)) for row in range(2))
    torch.testing.assert_close(found.raw, options["raw"][:2], equal_nan=True)
    torch.testing.assert_close(found.x, x[:2])
    assert "“survived”" in out or "“died”" in out
    assert main(["report", "explanation.safetensors", "--model", "m.pt2", "--trust", "--device", "cpu"]) == 0
    content = Page(place / "report.html").content
    np.testing.assert_array_equal(content["values"], found.raw.float().numpy().ravel())
    assert (content["units"], content["classes"]) == (["bpm", "°C"], ["survived", "died"])
    assert content["exact"] == [[stamp(row, step) for step in range(6)] for row in range(2)]


def test_options_tell_units(place, capsys):
    arrays()
    assert main([*EXPLAIN, "--units", "bpm,°C", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == ["died", "survived"]  # the labels, in sorted order
    found = tg.Explanation.load("explanation.safetensors")
    assert (found.units, found.classes) == (("bpm", "°C"), ("died", "survived"))


def test_a_single_probability_is_called_by_its_class(place, capsys):
    one = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 1))
    shapes = ({0: torch.export.Dim.AUTO},)
    torch.export.save(torch.export.export(one, (torch.zeros(2, 6, 2),), dynamic_shapes=shapes), "m.pt2")
    arrays()
    assert main([*EXPLAIN, "--output", "probability", "--classes", "survived,died"]) == 0
    assert "explained: “died”, as a probability, by a sigmoid" in capsys.readouterr().out


def test_labels_that_do_not_fit_name_no_outputs(place, capsys):
    _, x, _ = ward()
    np.savez("d.npz", x=x.numpy(), y=np.array(["a", "b", "c"]))
    assert main(EXPLAIN) == 0
    assert "The labels name 3 classes, but the model has 2 outputs" in capsys.readouterr().err
    assert tg.Explanation.load("explanation.safetensors").classes is None


def test_a_data_set_is_explained_in_its_units(place, monkeypatch):
    _, x, options = ward()
    split = tg.Series(x, torch.tensor([0, 1, 0]), mask=options["mask"])
    units = {"centre": torch.tensor([80.0, 37.0]), "scale": torch.tensor([12.0, 0.6]), "units": ("bpm", "°C")}
    data = tg.Dataset("state", split, None, split, 2, ("heart rate", "temperature"), **units)
    monkeypatch.setattr("tempograd.cli.inputs.load_dataset", lambda *_, **__: data)
    argv = [part if part != "d.npz" else "state" for part in EXPLAIN]
    assert main(argv) == 0
    found = tg.Explanation.load("explanation.safetensors")
    torch.testing.assert_close(found.raw.double(), options["raw"], equal_nan=True)
    assert (found.units, found.channels, found.classes) == (("bpm", "°C"), ("heart rate", "temperature"), None)
    assert main(["report", "explanation.safetensors"]) == 0
    np.testing.assert_array_equal(Page(place / "report.html").content["values"], found.raw.float().numpy().ravel())


def test_rows_of_a_table_keep_their_times(place):
    rows = ["bed,when,a,b", *(f"{r},{stamp(r, t)},{r + t},{t}" for r in range(3) for t in range(6 - r))]
    (place / "d.csv").write_text("\n".join(rows))
    argv = [part if part != "d.npz" else "d.csv" for part in EXPLAIN]
    assert main([*argv, "--id", "bed", "--time", "when", "--align", "order", "--lengths", "padded"]) == 0
    found = tg.Explanation.load("explanation.safetensors")
    assert found.times_of(0) == tuple(stamp(0, step) for step in range(6))
    assert found.times_of(2) == (*(stamp(2, step) for step in range(4)), "", "")
