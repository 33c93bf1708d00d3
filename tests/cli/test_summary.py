"""What ``explain`` says about model and scores, on models whose answers are known."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tempograd.explanation.diagnostics import completeness_gap, sentence
from tests.helpers.models import linear, series

CODE = """
import torch
from torch import nn

class Sign(nn.Module):
    "Class 1 where the values sum to more than 0."
    def forward(self, x):
        total = x.sum((1, 2))
        return torch.stack([-total, total], -1)

class Column(Sign):
    tempograd_task = "classification"

    def forward(self, x):
        return x.sum((1, 2))[:, None]

class Steps(Sign):
    tempograd_task = "per_step"

    def forward(self, x):
        return torch.stack([-x[..., 0], x[..., 0]], -1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, x):
        return self.last(x[:, -1])

def ready():
    return Net()
"""
COUNT = 20
WRONG = 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "pump_net.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("pump_net", None)


@pytest.fixture
def labelled(folder):
    """Write a file in which the first three of twenty labels contradict the sign."""
    x = series(COUNT, 5, 2)
    up = x.sum((1, 2)) > 0
    up[:WRONG] = ~up[:WRONG]
    np.savez("pumps.npz", x=x.numpy(), y=np.where(up.numpy(), "up", "down"))
    return folder


def explain(capsys, model, *extra, data="pumps.npz"):
    argv = ["explain", "--model", f"pump_net:{model}", "--data", data, "--device", "cpu", "--method", "random"]
    assert main([*argv, *extra]) == 0
    return capsys.readouterr()


def told_to_all(capsys, model, code, words, *extra):
    """Explain in the shell and in Python: both warn, both explanations keep the finding, and the page shows it."""
    told = explain(capsys, model, *extra).err
    assert told.count(words) == told.count("warning") == 1
    stored = tg.Explanation.load("explanation.safetensors")
    assert [finding.code for finding in stored.findings if finding.severity == "warning"] == [code]
    page = tg.report("page.html", None, stored).read_text(encoding="utf-8")
    assert f'<p class="notice">{words}' in page.replace("&#x27;", "'")
    method = extra[extra.index("--method") + 1] if "--method" in extra else "random"
    with pytest.warns(tg.TempogradWarning, match="[^-]{2}") as caught:
        found = tg.explain(tg.load_model(f"pump_net:{model}"), tg.read_series("pumps.npz"), method)
    assert [each.message.finding.code for each in caught] == [code]
    assert caught[0].message.finding in found.findings
    assert words in str(caught[0].message)
    assert "--" not in str(caught[0].message)


@pytest.mark.parametrize("model", ["Sign", "Column"])
def test_everybody_hears_of_a_model_that_is_worse_than_guessing(model, folder, capsys):
    x = series(COUNT, 5, 2)
    y = (x.sum((1, 2)) < 0).long()
    y[:WRONG] = 1 - y[:WRONG]
    np.savez("pumps.npz", x=x.numpy(), y=y.numpy())
    words = "The model is right on 15 % of the labels, guessing on 50 %: was it trained on scaled values?"
    told_to_all(capsys, model, "model.accuracy", words)


def test_steps_of_the_padding_do_not_count_as_wrong():
    x, mask, y = torch.ones(20, 10, 1), torch.ones(20, 10, 1), torch.ones(20, 10, dtype=torch.long)
    mask[:, 1:], y[:, 1:] = 0, 0
    model = tg.Predictor(lambda x: torch.stack([-x[..., 0], x[..., 0] + 1], -1), task="per_step")
    found = tg.explain(model, tg.Series(x, y, mask=mask), "random")
    assert {finding.severity for finding in found.findings} == {"assumption"}


@pytest.mark.usefixtures("labelled")
def test_classes_in_the_wrong_order_are_noticed(capsys):
    found = explain(capsys, "Sign", "--classes", "up,down")
    assert "is right on 15 % of the labels, guessing on 50 %" in found.err
    few = explain(capsys, "Sign", "--classes", "up,down", "--limit", str(WRONG + 1))
    assert few.err == ""


def test_a_few_unlucky_series_are_no_reason_to_warn(folder, capsys):
    x = series(4, 5, 2)
    np.savez("pumps.npz", x=x.numpy(), y=(x.sum((1, 2)) > 0).numpy().astype(int) ^ np.array([1, 1, 1, 0]))
    found = explain(capsys, "Sign")
    assert found.err == ""


def test_faulty_labels_are_refused_or_left_out(folder, capsys):
    np.savez("pumps.npz", x=series(2, 5, 2).numpy(), y=np.array([1j, 2]))
    argv = ["explain", "--model", "pump_net:Sign", "--data", "pumps.npz", "--device", "cpu", "--method", "random"]
    assert main(argv) == 3
    assert capsys.readouterr().err.startswith("tempograd: pumps.npz: y must hold real numbers")
    assert "right on" not in explain(capsys, "Sign", "--no-labels").out


def natural(times=4):
    """Channels: 51 to 79, missing value 0; around 0; -30 to -20; constant; 10 to 20.5, which reaches nearer."""
    x = torch.zeros(2, 3, 5)
    x[..., 0] = torch.tensor([[51.0, 60.0, 79.0], [55.0, 0.0, 61.0]])
    x[..., 1] = torch.tensor([[-1.0, 1.0, 0.5], [0.0, 2.0, 1.0]])
    x[..., 2] = torch.tensor([[-30.0, -20.0, -25.0], [-22.0, -28.0, -26.0]])
    x[..., 3] = 7.0
    x[..., 4] = torch.tensor([[10.0, 20.5, 12.0], [11.0, 19.0, 13.0]])
    mask = torch.ones_like(x)
    mask[1, 1, 0] = 0
    x, mask = (part.repeat(times, 1, 1) for part in (x, mask))
    return {"x": x.numpy(), "mask": mask.numpy(), "channels": np.array(["heat", "wave", "depth", "one", "near"])}


def test_everybody_hears_of_a_baseline_far_from_all_values(folder, capsys):
    np.savez("pumps.npz", **natural())
    words = "0 is far from every value of 2 of 5 channels (channel 'heat': 51 to 79), and scores compare with 0"
    told_to_all(capsys, "Sign", "baseline.far", words, "--method", "occlusion")


@pytest.mark.parametrize("shift", [2.0, -4.9])
def test_one_scaled_series_may_lie_on_one_side_of_zero(shift):
    x = shift + torch.linspace(0, 0.5, 60).view(1, 30, 2)
    tg.explain(linear(30, 2), x, "occlusion")  # a warning would be an error
    with pytest.warns(tg.TempogradWarning, match=r"of 2 of 2 channels \(channel 0: 52 to 52.5\)"):
        tg.explain(linear(30, 2), x - shift + 52, "occlusion")
    with pytest.warns(tg.TempogradWarning, match="0 is far"):  # of many not all do
        tg.explain(linear(30, 2), x.expand(12, -1, -1), "occlusion")


def test_a_run_says_once_that_zero_is_far(tmp_path):
    np.save(tmp_path / "x.npy", 50 + series(12, 10, 2).numpy())
    with pytest.warns(tg.TempogradWarning) as caught:
        tg.explain_dataset(linear(10, 2), tmp_path / "x.npy", tmp_path / "run", method="occlusion", batch_size=3)
    (told,) = (str(each.message) for each in caught if "0 is far" in str(each.message))
    assert told.endswith("times)")


@pytest.mark.parametrize(
    ("extra", "warned"),
    [
        (["--method", "occlusion"], True),
        (["--method", "occlusion", "--baseline", "zero"], False),
        (["--method", "occlusion", "--baseline", "average"], False),
        (["--method", "random"], False),
    ],
)
def test_zero_far_from_the_data_is_noticed(extra, warned, folder, capsys):
    np.savez("pumps.npz", **natural())
    found = explain(capsys, "Sign", "--output", "probability", *extra)
    assert bool(found.err) == warned
    baseline = "zero" if warned or "zero" in extra else "average"
    assert (f" with occlusion, baseline: {baseline}.\n" in found.out) == ("occlusion" in extra)
    assert ("baseline" in found.out) == ("occlusion" in extra)
    np.savez("pumps.npz", **natural(times=1))  # too few values to tell
    assert not explain(capsys, "Sign", "--output", "probability", *extra).err


@pytest.mark.parametrize(
    ("model", "extra", "warned"),
    [("Net", [], True), ("Net", ["--weights", "w.pt"], False), ("ready", [], False), ("Sign", [], False)],
)
def test_weights_that_nobody_trained_are_noticed(model, extra, warned, folder, capsys):
    torch.save({"last." + name: part for name, part in nn.Linear(2, 2).state_dict().items()}, "w.pt")
    np.savez("pumps.npz", x=series(2, 5, 2).numpy())
    assert ("seems untrained" in explain(capsys, model, *extra).err) == warned
    if warned:
        told_to_all(capsys, model, "model.fresh", "Net seems untrained (created without weights)")
        trained = tg.load_model("pump_net:Net")
        nn.init.zeros_(trained.last.bias)
        tg.explain(trained, series(2, 5, 2), "random")  # a warning would be an error


def test_assumptions_are_listed_once_in_the_shell_and_on_the_page(folder, capsys):
    np.savez("pumps.npz", x=series(2, 5, 2).numpy())
    out = explain(capsys, "Sign", "--method", "occlusion").out
    words = (
        "ssumed: the model's 2 outputs were read as scores of classes; the predicted class of each series was "
        "explained; values were compared with 0, as the model reads them"
    )
    assert out.count(f"  a{words}\n") == out.count("ssumed") == 1
    stored = tg.Explanation.load("explanation.safetensors")
    page = tg.report("page.html", None, [stored, replace(stored, method="other")]).read_text(encoding="utf-8")
    assert page.replace("&#x27;", "'").count(f">A{words}.</p>") == 1


def test_how_good_the_scores_are_and_what_to_type(folder, capsys):
    np.savez("pumps.npz", x=series(2, 30, 2).numpy())
    found = explain(capsys, "Sign", "--method", "timing", "--set", "n_samples=1000").out
    stored = tg.Explanation.load("explanation.safetensors")
    assert f"\n  {sentence(stored, dialect='shell')}\n" in found
    argv = ["--method", "rand_ig", "--set", "n_samples=2"]
    found = explain(capsys, "Sign", *argv).out
    (line,) = (line for line in found.splitlines() if "converged" in line)
    assert line.startswith("  not converged: error over 100 % with 2 samples; pass ")
    assert line.endswith(" cells were seen less than twice")
    assert found.count("--n-samples") == 1  # one voice
    facts = json.loads(explain(capsys, "Sign", *argv, "--json").out)
    assert facts["verdict"] == line.strip()
    stored = tg.Explanation.load("explanation.safetensors")
    assert facts["relative_error"] == pytest.approx(float(stored.relative_error.min()))  # the lower of two
    assert main(["evaluate", "explanation.safetensors", "--model", "pump_net:Sign", "--device", "cpu"]) == 0
    advised = line.strip().replace("pass --", "explain again with --")
    assert f"\nrand_ig: {advised}\n" in capsys.readouterr().out
    explain(capsys, "Sign", "--method", "occlusion")
    assert main(["evaluate", "explanation.safetensors", "--model", "pump_net:Sign", "--device", "cpu"]) == 0
    assert " is " not in capsys.readouterr().out  # nothing to complain of


def cubes(x):
    return (x**3).sum((1, 2))[:, None]


@pytest.mark.parametrize("masked", [False, True])
def test_gap_of_a_cube_at_the_midpoint(masked):
    """One node in the middle gives 3 (x/2)² x, three quarters of x³."""
    x = series(3, 4, 2, dtype=torch.float64) + 2
    mask = torch.ones_like(x)
    mask[:, 1] = 0 if masked else 1
    known, settings = tg.Series(x, mask=mask), {"n_steps": 1, "rule": "midpoint", "output": "raw"}
    explanation = tg.explain(cubes, known, "integrated_gradients", **settings)
    assert completeness_gap(explanation) == pytest.approx(0.25, rel=1e-5)
    exact = tg.explain(cubes, known, "integrated_gradients", n_steps=2, output="raw")
    assert completeness_gap(exact) == pytest.approx(0, abs=1e-5)
    assert completeness_gap(tg.explain(cubes, x, "random", output="raw")) is None


def test_gap_counts_the_explained_steps_only():
    def running(x):
        return (x**3).cumsum(1).sum(-1, keepdim=True)

    x = series(3, 4, 2, dtype=torch.float64) + 2
    settings = {"n_steps": 1, "rule": "midpoint", "output": "raw", "steps": [1, 3]}
    explanation = tg.explain(running, x, "integrated_gradients", **settings)
    assert completeness_gap(explanation) == pytest.approx(0.25, rel=1e-5)
    own = tg.explain(running, x, "integrated_gradients", **(settings | {"steps": "own"}))
    assert completeness_gap(own) is None


def test_a_wide_gap_comes_with_advice(folder, capsys):
    np.savez("pumps.npz", x=10 * series(5, 5, 2).abs().numpy())
    argv = ["--method", "integrated_gradients"]
    wide = explain(capsys, "Sign", *argv, "--set", "n_steps=2").out
    assert "pass --n-steps" in next(line for line in wide.splitlines() if "complete" in line)
    close = explain(capsys, "Sign", *argv, "--output", "raw").out
    assert "pass --" not in next(line for line in close.splitlines() if "complete" in line)
