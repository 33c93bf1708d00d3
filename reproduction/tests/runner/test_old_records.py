"""Records of the time before the reproduction was a package of its own still count as done."""

import json
from dataclasses import asdict, replace

import torch
from safetensors.torch import save_file

from tempograd_paper.cell import cell_from
from tempograd_paper.commands import main
from tempograd_paper.runner import load_plan
from tempograd_paper.runner.store import Store

PLAN = """title = "A plan"
datasets = ["switch_feature"]
models = ["gru"]
folds = [0]
series = 3
protocol = "published"
explainers = [
  "timing",
  { method = "timing", label = "mended", settings = { n_samples = 20, quirks = ["A3", "A5"] } },
]
metrics = [{ metric = "cpd", k = 0.1 }]

[training]
epochs = 1

[sizes]
hidden = 4
"""
# As they were written: names of records, of explanations and of the model, what each cell had of its own, scores.
MODEL = "e8822009a767abebfc24"
RECORDS = {
    "f01193c1cf31cf86b440": ("d19ff48fc6a5e8409172", "timing", [], [0.031, 0.033, 0.058]),
    "5f8aa00be1ddfd2e477e": (
        "27583148fa844a7d44ac",
        "timing",
        [["points", 20], ["quirks", ["A3", "A5"]]],
        [0.03, 0.034, 0.055],
    ),
    "0320a8b3d85083fa3c17": ("eee62ae75f3eb0abcfb6", "random", [], [0.013, 0.015, 0.023]),
}
CELL = (
    '{"dataset": "switch_feature", "fold": 0, "measures": [{"k": 0.1, "metric": "cpd", "name": "cpd10%_zero", '
    '"substitute": "zero"}], "model": "gru", "protocol": "published", "rank": "absolute", "seed": 42, '
    '"series": 3, "sizes": [["hidden", 4]], "training": [["epochs", 1]], "variant": "released"}'
)
FACTS = (
    '{"chosen": null, "device": "cpu (x86_64)", "model": {"accuracy": 0.3565, "at_chance": true, "auroc": 0.272, '
    '"auroc_error": 0.0039, "epochs": 1, "kept_epoch": 1, "learning_rate": 0.0001, "majority": 0.63895, '
    '"validation_loss": 0.869}, "parameters": {"quirks": []}, "seconds": {"evaluate": 0.04, "explain": 0.5, '
    '"fit": 0.0, "train": 3.8}, "versions": {"numpy": "2.4.6", "tempograd": "0.1.0", "torch": "2.13.0+cpu"}, '
    '"warnings": []}'
)


def test_they_count_and_are_printed(tmp_path, capsys, monkeypatch):
    plan, out = tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    (out / "records").mkdir(parents=True)
    for key, (_, method, settings, scores) in RECORDS.items():
        cell = json.loads(CELL) | {"method": method, "settings": settings}
        header = json.dumps({"cell": cell, "facts": json.loads(FACTS)}, sort_keys=True)
        tensors = {"ids": torch.tensor([800, 866, 933]), "score.cpd10%_zero": torch.tensor(scores)}
        save_file(tensors, out / "records" / f"{key}.safetensors", {"tempograd": header})
    monkeypatch.setattr("tempograd_paper.runner.running.run_cell", None)  # nothing is to be computed
    monkeypatch.setattr("tempograd_paper.runner.running.train_cell", None)
    assert main(["run", str(plan), "--out", str(out), "--device", "cpu"]) == 0
    assert "3 cells: 3 there before, 0 done, 0 failed." in capsys.readouterr().out
    assert main(["table", str(plan), "--results", str(out), "--json"]) == 0
    rows = {row["label"]: row for row in json.loads(capsys.readouterr().out) if "label" in row}
    assert rows.keys() >= {"TIMING", "mended", "random"}


def test_what_was_called_released_is_now_redrawn_and_the_released_series_have_files_of_their_own(tmp_path):
    """State of the first version was drawn anew: it must not pass for the released series, nor they for it."""
    plan, store = tmp_path / "plan.toml", Store(tmp_path)
    plan.write_text(PLAN.replace('"switch_feature"', '{ name = "state", variant = "released" }'))
    released = load_plan(plan).cells()[0]
    redrawn = replace(released, variant="redrawn")
    plain = json.loads(json.dumps(asdict(released)))
    for cell in (released, redrawn):  # both kept as "released", each under its own key
        assert cell_from(plain, cell.key) == cell
    assert cell_from(plain) == released
    for path in (store.data_path, store.model_path, store.explanation_path, store.record_path):
        assert path(released) != path(redrawn)
    assert store.data_path(redrawn).name == "state-released.safetensors"  # as the first version wrote it


def test_what_a_stopped_run_left_keeps_its_names(tmp_path):
    plan, store = tmp_path / "plan.toml", Store(tmp_path)
    plan.write_text(PLAN)
    found = {cell.key: cell for cell in load_plan(plan).cells()}
    assert set(found) == set(RECORDS)
    for key, (explanation, *_) in RECORDS.items():
        assert store.explanation_path(found[key]).stem == explanation
        assert store.model_path(found[key]).stem == MODEL
