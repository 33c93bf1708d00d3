"""A classifier with a single logit whose sign is known: the right words in pictures, notebook, report and summary.

The logit of class 1, "died", is 3 · x[2, 0] - 2 · x[5, 1]. The first patient is at high, the second at low risk.
"""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tempograd.core.errors import InputError
from tempograd.data import Series
from tempograd.html_report import notebook
from tempograd.views.groups import channel_sums
from tempograd_paper import figures
from tests.helpers.pictures import view
from tests.helpers.report_page import Page, flags

CLASSES = ["survived", "died"]
CODE = """
from torch import nn

class Risk(nn.Module):
    tempograd_task = "classification"

    def forward(self, x):
        return 3 * x[:, 2, :1] - 2 * x[:, 5, 1:2]
"""


class Risk(nn.Module):
    tempograd_task = "classification"

    def forward(self, x):
        return 3 * x[:, 2, :1] - 2 * x[:, 5, 1:2]


class Running(nn.Module):
    """One logit per step."""

    tempograd_task = "per_step"

    def forward(self, x):
        return 2 * x[..., :1] - x[..., 1:2]


class Twin(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.tempograd_task = inner, inner.tempograd_task

    def forward(self, x):
        answer = self.inner(x)
        return torch.cat([torch.zeros_like(answer), answer], -1)


def patients():
    x = torch.zeros(4, 8, 2)
    x[0, 2, 0], x[0, 5, 1] = 1.0, 0.25
    x[1, 2, 0], x[1, 5, 1] = 0.5, 2.0
    x[2, 2, 0], x[2, 5, 1] = 0.2, 1.0
    x[3, 2, 0], x[3, 5, 1] = 2.0, 1.0
    return x


LABELS = torch.tensor([1, 0, 1, 0])
CHANCES = [0.9241, 0.0759, 0.1978, 0.9820]  # 1 / (1 + exp(-l)) of l = 2.5, -2.5, -1.4, 4


def explained(target=None, model=None, **options):
    return tg.explain(model or Risk(), patients(), "integrated_gradients", target=target, **options)


def named(*question, **options):
    return replace(explained(*question, **options), classes=CLASSES)


TITLES = {
    None: [
        "92 % probability of “died” (true: “died”)",
        "8 % probability of “died” (true: “survived”)",
    ],
    1: [
        "92 % probability of “died” (true: “died”)",
        "8 % probability of “died” (true: “survived”)",
    ],
    0: [
        "8 % probability of “survived” (true: “died”)",
        "92 % probability of “survived” (true: “survived”)",
    ],
}


@pytest.mark.parametrize("target", TITLES)
@pytest.mark.parametrize("several", [False, True])
def test_the_title_names_the_explained_class(several, target):
    found = [named(target)] if several else named(target)
    for i, title in enumerate(TITLES[target]):
        one = found[0] if several else found
        assert view(replace(one, y=LABELS), i).said.text == title
        assert view(found, i).said.text == title.split(" (")[0]


def test_the_drawn_title_is_that_sentence():
    texts = [text.get_text() for text in named().plot(0).findobj(lambda a: hasattr(a, "get_text"))]
    assert any("“died”" in text for text in texts)
    assert not any("survived" in text for text in texts)


def test_each_series_has_its_own_class():
    found = named(torch.tensor([0, 1, 1, 0]))
    texts = [view(found, i).said.text for i in range(4)]
    chances = [f"{100 * float(each):.0f} %" for each in found.prediction]
    expected = [f"{chance} probability of “{CLASSES[k]}”" for k, chance in zip((0, 1, 1, 0), chances, strict=True)]
    assert texts == expected


def test_the_logit_itself_is_no_class():
    found = explained(output="raw")
    assert view(found, 0).said.text == "the model's output is 2.5"
    assert view(replace(found, prediction=None), 0).said.text == "the model's output"
    with pytest.raises(InputError, match=r"classes must hold one name per output of the model, 1, got 2"):
        replace(found, classes=CLASSES).verify()


def test_an_older_file_is_not_guessed(tmp_path):
    """There the single probability was called 0, and nothing said how many outputs there were."""
    now = explained()
    older = replace(now, target=torch.zeros(4, dtype=torch.int64), columns=None, prediction=None)
    older = tg.Explanation.load(older.save(tmp_path / "older.safetensors"))
    assert view(older, 0).said.text == "output 0"
    alone = Page(tg.report(tmp_path / "r.html", None, older)).content
    assert alone["classes"] == ["output 0"]
    assert torch.equal(tg.evaluate(Risk(), older)["cpd"], tg.evaluate(Risk(), now)["cpd"])


def test_the_steps_of_timing_are_those_of_the_explained_class():
    x = torch.randn(2, 8, 2, generator=torch.Generator().manual_seed(0))
    up, down = (tg.explain(Risk(), x, "timing", target=target) for target in (1, 0))
    slopes = [figures.timing_steps_record(Risk(), each, 0, channel=0).mean_gradient for each in (up, down)]
    assert slopes[0][2] > 0.01
    np.testing.assert_allclose(slopes[1], -slopes[0])


def test_how_many_outputs_there_are_is_kept_in_files_and_parts(tmp_path):
    found = tg.Explanation.load(explained(0).save(tmp_path / "e.safetensors"))
    assert (found.n_outputs, found[1:3].n_outputs, found.target.tolist()) == (2, 2, [0, 0, 0, 0])
    assert explained(output="raw").n_outputs == 1


def test_drivers_are_those_of_the_explained_class():
    sums = channel_sums(named())
    signs = dict(zip(sums.channels, sums.mean[:, 0], strict=True))
    assert signs["channel 0"] > 0 > signs["channel 1"]


def test_steps_name_the_class(tmp_path):
    x = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])
    model = tg.Predictor(Running(), classes=CLASSES)
    found = tg.explain(model, x, "integrated_gradients")
    record = view(found, 0)
    mean = float(Running()(x)[0, :, 0].sigmoid().mean())
    assert record.said.text == f"{100 * mean:.0f} % mean probability of “died” over all 5 steps"
    page = Page(tg.report(tmp_path / "r.html", Running(), replace(found, y=labels))).content
    assert page["steps"]["name"] == "probability of died"
    values = Running()(x)[..., 0].sigmoid().flatten()
    np.testing.assert_allclose(page["steps"]["values"], values, rtol=1e-5)
    assert flags(page["steps"]["labels"], (2, 5)).tolist() == labels.bool().tolist()
    own = tg.explain(model, x, "integrated_gradients", target=0, steps="own")
    assert "“survived” over all 5 steps" in view(own, 0).said.text
    raw = tg.explain(Running(), x, "integrated_gradients", output="raw")
    page = Page(tg.report(tmp_path / "r.html", Running(), raw, force=True)).content
    assert page["steps"]["name"] == "the model's output"


def test_the_notebook_says_which_class():
    assert "Explained: class 1, as a probability." in notebook.as_html(explained())
    assert "Explained: class 0, as a probability." in notebook.as_html(explained(0))


@pytest.mark.parametrize("target", [None, 0])
def test_the_report_is_that_of_the_twin(target, tmp_path):
    one = tg.report(tmp_path / "1.html", Risk(), replace(named(target), y=LABELS))
    twin = Twin(Risk())
    asked = 1 if target is None else target
    two = tg.report(tmp_path / "2.html", twin, replace(named(asked, twin), y=LABELS))
    found, expected = Page(one).content, Page(two).content
    for name in ("classes", "target", "predicted", "label", "outcome", "output"):
        assert found[name] == expected[name], name
    assert found["classes"] == CLASSES
    assert found["target"] == [1 if target is None else 0] * 4
    assert found["predicted"] == [1, 0, 0, 1]
    assert found["outcome"] == ["TP", "TN", "FN", "FP"]
    for name in ("outputs", "score"):
        np.testing.assert_allclose(
            found["maps"][0]["removal"][name], expected["maps"][0]["removal"][name], rtol=1e-4, atol=1e-6
        )
    chance = np.array(CHANCES)
    outputs = found["maps"][0]["removal"]["outputs"].reshape(4, -1, 2)[:, 0]
    np.testing.assert_allclose(outputs, np.stack([1 - chance, chance], 1), atol=1e-4)
    scores = found["maps"][0]["scores"], expected["maps"][0]["scores"]
    assert scores[0]["cpd"] == pytest.approx(scores[1]["cpd"], rel=1e-4)
    sign = 1 if target is None else -1
    values = found["maps"][0]["values"].reshape(4, 8, 2) * sign
    assert (values[:, 2, 0] > 0).all()
    assert (values[:, 5, 1] < 0).all()
    called = "died" if target is None else "survived"
    assert f"Explained: “{called}”, as a probability." in Page(one).text


def test_without_a_model_the_report_still_knows_two_classes(tmp_path):
    content = Page(tg.report(tmp_path / "r.html", None, explained())).content
    assert (content["classes"], content["target"]) == (["class 0", "class 1"], [1] * 4)
    content = Page(tg.report(tmp_path / "r.html", None, named())).content
    assert content["classes"] == CLASSES


@pytest.mark.parametrize("target", [None, 0])
def test_mistakes_at_steps_are_about_class_one(target, tmp_path):
    x = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(18).view(3, 6) % 3 == 0).long()
    found = tg.explain(tg.Predictor(Running(), classes=CLASSES), x, "integrated_gradients", target=target)
    steps = Page(tg.report(tmp_path / "r.html", Running(), replace(found, y=y))).content["steps"]
    chance = Running()(x)[..., 0].sigmoid().numpy()
    np.testing.assert_allclose(steps["values"], chance.ravel(), rtol=1e-5)
    assert steps["name"] == "probability of died"
    assert steps["alarm"]
    np.testing.assert_array_equal(flags(steps["labels"], (3, 6)), y.bool().numpy())
    says = chance > 0.5
    np.testing.assert_array_equal(flags(steps["agrees"], (3, 6)), says if target is None else ~says)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "risk_net.py").write_text(CODE)
    np.savez("ward.npz", x=patients().numpy(), y=np.array(CLASSES)[LABELS.numpy()])
    yield tmp_path
    sys.modules.pop("risk_net", None)


def command(capsys, *words):
    assert main(list(words)) == 0
    return capsys.readouterr()


@pytest.mark.parametrize("target", [None, "0", "1"])
@pytest.mark.usefixtures("folder")
def test_the_command_line_names_both_classes(target, capsys):
    argv = ["explain", "--model", "risk_net:Risk", "--data", "ward.npz", "--classes", "survived,died"]
    argv += ["--device", "cpu", "--method", "integrated_gradients"] + (
        [] if target is None else ["--target", target]
    )
    found = command(capsys, *argv)
    name = CLASSES[0 if target == "0" else 1]
    assert found.err == ""
    facts = json.loads(command(capsys, *argv, "--json").out)
    assert facts["classes"] == CLASSES
    stored = tg.Explanation.load("explanation.safetensors")
    assert (stored.target.tolist(), stored.n_outputs) == ([CLASSES.index(name)] * 4, 2)
    wanted = ["evaluate", "explanation.safetensors", "--model", "risk_net:Risk", "--device", "cpu", "--json"]
    metrics = "cpd,cpp,accuracy,log_odds,comprehensiveness,sufficiency,cross_entropy"
    scores = json.loads(command(capsys, *wanted, "--metrics", metrics).out)["explanations"][0]["metrics"]
    twin = tg.evaluate(Twin(Risk()), replace(stored, fingerprint=""), metrics=metrics.split(","))
    for metric, values in twin.items():
        assert scores[metric]["scores"] == pytest.approx(values.tolist(), rel=1e-4, abs=1e-6)


def test_one_half_is_not_yet_class_one(tmp_path):
    """As for two equal logits, of which the first counts."""
    split = Series(torch.zeros(3, 8, 2), torch.tensor([0, 0, 1]))
    found = tg.explain(Risk(), split, "random")
    content = Page(tg.report(tmp_path / "r.html", Risk(), found)).content
    assert (content["predicted"], content["outcome"]) == ([0, 0, 0], ["TN", "TN", "FN"])
    assert tg.evaluate(Risk(), found, metrics="accuracy")["accuracy"].tolist() == [0, 0, 0]
