"""Commands on small settings: what they print and write is what the library returns."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.data import load_dataset
from tempograd.explainers import explain
from tempograd.explanation import Explanation
from tempograd.metrics import compare, evaluate, summarise, table
from tempograd.models import accuracy, build, load_model, save_model, train
from tests.helpers.report_page import Page

SERIES = 6


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small models are slower on several threads, and very much so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small trained model for switch_feature and a file with series."""
    path = tmp_path_factory.mktemp("cli")
    data = load_dataset("switch_feature")
    small = train("gru", data, options={"hidden": 8}, epochs=1, device="cpu")
    save_model(small, path / "model.safetensors")
    part = data.test.take(slice(SERIES))
    mask = part.x.abs() > 0.05
    np.savez(
        path / "series.npz",
        x=part.x.numpy(),
        mask=mask.numpy(),
        ids=part.ids.numpy(),
        y=part.y.numpy(),
        truth=part.truth.numpy(),
        channels=np.array(["a", "b", "c"]),
    )
    np.save(path / "series.npy", part.x.numpy())
    return path


@pytest.fixture(scope="module")
def stored(folder):
    """An explanation written by the command, and what it printed."""
    path = folder / "timing.safetensors"
    model = str(folder / "model.safetensors")
    argv = [
        "explain",
        "--model",
        model,
        "--data",
        "switch_feature",
        "--limit",
        str(SERIES),
        "--set",
        "n_samples=8",
    ]
    assert main([*argv, "--seed", "3", "--device", "cpu", "--out", str(path)]) == 0
    return path


def test_train_writes_the_model_the_library_trains(tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    argv = ["train", "switch_feature", "--model", "cnn", "--fold", "1", "--seed", "5", "--epochs", "1"]
    assert main([*argv, "--device", "cpu", "--out", str(out)]) == 0
    data = load_dataset("switch_feature", fold=1)
    expected, written = train("cnn", data, seed=5, epochs=1, device="cpu"), load_model(out)
    for name, weights in expected.state_dict().items():
        torch.testing.assert_close(written.state_dict()[name], weights, rtol=0, atol=0)
    reached = accuracy(expected, data.test)
    captured = capsys.readouterr()
    assert f"Test accuracy {reached:.4f}." in captured.out
    assert captured.err == ""  # bars are for terminals
    assert written.facts["fold"] == 1
    assert written.facts["test_accuracy"] == reached
    assert written.facts["validation_accuracy"] == accuracy(expected, data.validation)


def test_explain_writes_what_the_library_explains(folder, stored):
    test = load_dataset("switch_feature").test.take(slice(SERIES))
    model = load_model(folder / "model.safetensors")
    expected = explain(model, tg.Series(test.x, ids=test.ids), "timing", n_samples=8, seed=3)
    written = Explanation.load(stored)
    torch.testing.assert_close(written.values, expected.values, rtol=0, atol=0)
    assert written.ids.tolist() == test.ids.tolist()
    assert written.channels == load_dataset("switch_feature").channels
    assert written.parameters["n_samples"] == 8


def test_explain_reads_everything_from_a_file(folder, tmp_path):
    out = tmp_path / "e.safetensors"
    argv = ["explain", "--model", str(folder / "model.safetensors"), "--data", str(folder / "series.npz")]
    argv += [
        "--method",
        "gradient_shap",
        "--background",
        "switch_feature",
        "--set",
        "n_samples=3",
        "--set",
        "noise=0.5",
    ]
    argv += ["--target", "1", "--baseline", "average", "--output", "raw", "--steps", "4,9", "--out", str(out)]
    assert main([*argv, "--device", "cpu"]) == 0
    arrays = np.load(folder / "series.npz")
    expected = explain(
        load_model(folder / "model.safetensors"),
        tg.Series(arrays["x"], mask=arrays["mask"], ids=arrays["ids"]),
        "gradient_shap",
        background=load_dataset("switch_feature").train.x,
        n_samples=3,
        noise=0.5,
        target=1,
        baseline="average",
        output="raw",
        steps=[4, 9],
    )
    written = Explanation.load(out)
    torch.testing.assert_close(written.values, expected.values, rtol=0, atol=0)
    torch.testing.assert_close(written.steps, expected.steps)
    assert written.channels == ("a", "b", "c")


@pytest.mark.parametrize("y", [np.linspace(0, 1, SERIES), np.array(["yes"] * SERIES), np.zeros((SERIES, 7))])
def test_explain_leaves_labels_alone(folder, tmp_path, y):
    arrays, out = np.load(folder / "series.npz"), tmp_path / "e.safetensors"
    np.savez(tmp_path / "s.npz", x=arrays["x"], mask=arrays["mask"], y=y)
    argv = ["explain", "--model", str(folder / "model.safetensors"), "--data", str(tmp_path / "s.npz")]
    assert main([*argv, "--method", "random", "--device", "cpu", "--out", str(out)]) == 0
    np.testing.assert_array_equal(Explanation.load(out).mask.numpy(), arrays["mask"])


def test_report_shows_the_values_of_a_regression(tmp_path):
    model = build("gru", 3, 1, hidden=4)
    save_model(model, tmp_path / "m.safetensors")
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    labelled = tg.Series(x, torch.tensor([1.25, -7.5]))
    explain(model, labelled, "random", output="raw").save(tmp_path / "e.safetensors")
    argv = ["report", str(tmp_path / "e.safetensors"), "--model", str(tmp_path / "m.safetensors")]
    argv += ["--out", str(tmp_path / "r.html"), "--device", "cpu"]
    assert main(argv) == 0
    page = Page(tmp_path / "r.html")
    assert page.content["trueValue"] == [1.25, -7.5]
    assert page.content["label"] is None


def test_explain_reads_a_bare_array(folder, tmp_path):
    out = tmp_path / "e.safetensors"
    argv = ["explain", "--model", str(folder / "model.safetensors"), "--data", str(folder / "series.npy")]
    assert main([*argv, "--method", "random", "--device", "cpu", "--out", str(out)]) == 0
    np.testing.assert_array_equal(Explanation.load(out).x.numpy(), np.load(folder / "series.npy"))


def test_evaluate_declares_no_winner_among_different_targets(folder, stored, tmp_path, capsys):
    found = Explanation.load(stored)
    other = replace(found, target=1 - found.target)
    other.save(tmp_path / "other.safetensors")
    argv = ["evaluate", str(stored), str(tmp_path / "other.safetensors")]
    assert main([*argv, "--model", str(folder / "model.safetensors")]) == 5
    told = capsys.readouterr()
    assert f"explains other outputs than {stored.stem} in {len(found)} series" in told.err
    assert "better than" not in told.out


def test_evaluate_prints_mean_and_standard_error(folder, stored, capsys):
    argv = ["evaluate", str(stored), "--model", str(folder / "model.safetensors"), "--metrics", "cpd,auroc"]
    assert main([*argv, "--k", "7", "--baseline", "average", "--device", "cpu"]) == 0
    scores = evaluate(
        load_model(folder / "model.safetensors"),
        Explanation.load(stored),
        metrics=["cpd", "auroc"],
        k=7,
        baseline="average",
        truth=load_dataset("switch_feature").test.truth[:SERIES],
    )
    expected = table({"timing": scores})
    assert capsys.readouterr().out.startswith(f"{expected}\n")
    assert expected.heads == ["CPD ↑", "AUROC ↑"]


def test_evaluate_gives_json_with_one_score_per_series(folder, stored, capsys):
    argv = ["evaluate", str(stored), "--model", str(folder / "model.safetensors"), "--json", "--device", "cpu"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    scores = evaluate(load_model(folder / "model.safetensors"), Explanation.load(stored))
    assert found["ids"] == Explanation.load(stored).ids.tolist()
    (entry,) = found["explanations"]
    assert (entry["name"], entry["file"]) == ("timing", str(stored))
    assert {name: metric["scores"] for name, metric in entry["metrics"].items()} == {
        name: values.tolist() for name, values in scores.items()
    }
    assert entry["metrics"]["cpd"]["mean"] == summarise(scores["cpd"]).mean
    assert entry["metrics"]["cpd"]["difference"] is None


def test_evaluate_follows_the_score_where_told(folder, stored, capsys):
    argv = ["evaluate", str(stored), "--model", str(folder / "model.safetensors"), "--json", "--device", "cpu"]
    found = {}
    for of in ("score", "output"):
        assert main([*argv, "--of", of]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["explanations"]
        found[of] = entry["metrics"]["cpd"]["scores"]
        scores = evaluate(load_model(folder / "model.safetensors"), Explanation.load(stored), of=of)
        assert found[of] == scores["cpd"].tolist()
    assert all(score < output for score, output in zip(found["score"], found["output"], strict=True))


def test_evaluate_compares_several_explanations_series_by_series(folder, stored, tmp_path, capsys):
    model, first = load_model(folder / "model.safetensors"), Explanation.load(stored)
    other = explain(model, tg.Series(first.x, ids=first.ids), "random")
    other.save(tmp_path / "random.safetensors")
    argv = ["evaluate", str(stored), str(tmp_path / "random.safetensors"), "--device", "cpu"]
    argv += ["--model", str(folder / "model.safetensors"), "--metrics", "cpd,cpp"]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    one, two = evaluate(model, first), evaluate(model, other)
    assert [entry["name"] for entry in found["explanations"]] == ["timing", "random"]
    for metric in ("cpd", "cpp"):
        gap = compare(two[metric], one[metric])
        assert found["explanations"][1]["metrics"][metric]["difference"] == {
            "mean": gap.mean,
            "standard_error": gap.standard_error,
            "low": gap.low,
            "high": gap.high,
            "count": SERIES,
        }
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith(f"{table({'timing': one, 'random': two})}\n")


@pytest.fixture(scope="module")
def several(folder, stored):
    """Files of the same series: random, which has no use for its baseline, and TIMING with two others."""
    model, first = load_model(folder / "model.safetensors"), Explanation.load(stored)
    explain(model, tg.Series(first.x, ids=first.ids), "random", baseline="average").save(
        folder / "noise.safetensors"
    )
    explain(model, tg.Series(first.x, ids=first.ids), "timing", baseline="average").save(
        folder / "other.safetensors"
    )
    explain(model, tg.Series(first.x, ids=first.ids), "timing", baseline=0.5).save(folder / "half.safetensors")
    return folder


def evaluated(capsys, folder, *names, extra=()):
    files = [str(folder / f"{name}.safetensors") for name in names]
    argv = ["evaluate", *files, "--model", str(folder / "model.safetensors"), "--device", "cpu"]
    assert main([*argv, *extra]) == 0
    return capsys.readouterr()


def test_evaluate_names_explanations_of_one_method_by_their_files(several, capsys):
    found = evaluated(capsys, several, "timing", "noise", "half", extra=["--json", "--baseline", "average"])
    assert [entry["name"] for entry in json.loads(found.out)["explanations"]] == ["timing", "noise", "half"]
    found = evaluated(capsys, several, "half", "half", extra=["--json", "--baseline", "average"])
    assert [entry["name"] for entry in json.loads(found.out)["explanations"]] == ["timing", "timing 2"]


def test_evaluate_notes_baselines_that_differ(several, capsys):
    assert evaluated(capsys, several, "timing", "timing").err == ""
    assert evaluated(capsys, several, "timing", "other").err == (
        "tempograd: warning: Removed values become what each explanation compares with, and these differ (timing: "
        "zero, other: average), so their scores are not about the same removals: pass --baseline zero or "
        "--baseline average.\n"
    )
    assert evaluated(capsys, several, "timing", "other", extra=["--baseline", "average"]).err == ""
    assert evaluated(capsys, several, "half").err == ""


def test_evaluate_says_when_another_model_was_explained(stored, tmp_path, capsys):
    other = save_model(build("gru", 3, 2, per_step=True, seed=9, hidden=8), tmp_path / "other.safetensors")
    assert main(["evaluate", str(stored), "--model", str(other), "--metrics", "cpd", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert re.fullmatch(r"tempograd: warning: .* explained another model .*\n", captured.err)
    assert captured.out.startswith("| Method")


def test_report_shows_the_series_asked_for(folder, stored, tmp_path):
    out = tmp_path / "r.html"
    argv = ["report", str(stored), str(stored), "--model", str(folder / "model.safetensors"), "--device", "cpu"]
    assert main([*argv, "--series", "4", "1", "--out", str(out)]) == 0
    page = Page(out)
    assert page.content["ids"] == [804, 801]
    assert [drawn["label"] for drawn in page.content["maps"]] == ["timing", "timing 2"]


@pytest.mark.parametrize("kind", ["explainers", "metrics", "datasets", "models"])
def test_list_names_everything_with_one_line(kind, capsys):
    assert main(["list", kind, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert all(entry["about"].endswith(".") and ":math:" not in entry["about"] for entry in entries)
    assert main(["list", kind]) == 0
    printed = capsys.readouterr().out
    assert all(re.search(rf"^{entry['name']}  ", printed, re.MULTILINE) for entry in entries)


def test_list_alone_lists_everything(capsys):
    kinds = ("explainers", "metrics", "datasets", "models")
    parts, known = [], {}
    for kind in kinds:
        main(["list", kind])
        parts.append(f"{kind.upper()}\n{capsys.readouterr().out}")
        main(["list", kind, "--json"])
        known[kind] = json.loads(capsys.readouterr().out)
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "\n".join(parts)
    assert main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == known


def test_methods_that_learn_take_the_training_series_of_a_data_set(folder, tmp_path, capsys):
    out = tmp_path / "e.safetensors"
    argv = ["explain", "--model", str(folder / "model.safetensors"), "--method", "augmented_occlusion"]
    argv += ["--limit", "2", "--set", "n_samples=2", "--out", str(out), "--device", "cpu"]
    assert main([*argv, "--data", "switch_feature"]) == 0
    data, model = load_dataset("switch_feature"), load_model(folder / "model.safetensors")
    expected = explain(
        model,
        tg.Series(data.test.x[:2], ids=data.test.ids[:2]),
        "augmented_occlusion",
        background=data.train.x,
        n_samples=2,
    )
    torch.testing.assert_close(Explanation.load(out).values, expected.values)
    assert main([*argv, "--data", str(folder / "series.npz")]) == 5
    assert "augmented_occlusion learns from training series: pass --background." in capsys.readouterr().err


def test_other_series_are_the_baseline_of_both_commands(folder, tmp_path, capsys):
    model, out = str(folder / "model.safetensors"), str(tmp_path / "e.safetensors")
    argv = ["explain", "--model", model, "--data", "switch_feature", "--limit", "4", "--device", "cpu"]
    assert main([*argv, "--set", "n_samples=6", "--baseline", "background", "--out", out]) == 0
    said = capsys.readouterr().out
    assert "with timing, baseline: background." in said
    data, net = load_dataset("switch_feature"), load_model(model)
    options = {"baseline": "background", "background": data.train.x, "n_samples": 6}
    expected = explain(net, tg.Series(data.test.x[:4], ids=data.test.ids[:4]), **options)
    found = Explanation.load(out)
    torch.testing.assert_close(found.values, expected.values)
    assert found.background == expected.background

    scoring = ["evaluate", out, "--model", model, "--json"]
    assert main(scoring) == 5
    assert "pass --background, or another --baseline" in capsys.readouterr().err
    assert main([*scoring, "--baseline", "background"]) == 5
    assert "--background" in capsys.readouterr().err
    assert main([*scoring, "--background", "switch_feature"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["explanations"]
    slow = evaluate(net, expected, background=data.train.x)
    assert np.allclose(told["metrics"]["cpd"]["scores"], slow["cpd"], atol=1e-5)

    plain = str(tmp_path / "zero.safetensors")
    assert main([*argv, "--set", "n_samples=6", "--out", plain]) == 0
    capsys.readouterr()
    both = ["evaluate", out, plain, "--model", model, "--background", "switch_feature"]
    assert main([*both, "--baseline", "background"]) == 0
    assert "Removed values become" not in capsys.readouterr().err
    assert main(both) == 0
    assert "(e: background, zero: zero)" in capsys.readouterr().err


def test_a_file_has_no_training_series_to_compare_with(folder, tmp_path, capsys):
    argv = ["explain", "--model", str(folder / "model.safetensors"), "--data", str(folder / "series.npz")]
    assert main([*argv, "--baseline", "background", "--out", str(tmp_path / "e.safetensors")]) == 5
    assert "--baseline background draws from --background: pass both." in capsys.readouterr().err
