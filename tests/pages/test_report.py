"""The file: its numbers are the library's, nothing in it runs or is fetched, and it is well-formed."""

import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from toy_models import Flat, Running, masked_series, random_series, three_explanations

from tempograd.data import Split
from tempograd.errors import InputError, TempogradWarning
from tempograd.explainers import explain
from tempograd.metrics import compare, evaluate, summarise
from tempograd.pages import figure, report
from tempograd.pages.scores import score_table

VOID = {"meta", "input", "img", "br"}


class Page(HTMLParser):
    """Collects start tags and the text of scripts, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def parse(path):
    text = path.read_text(encoding="utf-8")
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    return Page(text)


@pytest.fixture(scope="module")
def flat():
    return Flat().eval()


@pytest.fixture(scope="module")
def masked_split():
    return masked_series()


@pytest.fixture(scope="module")
def explanations(flat, masked_split):
    return three_explanations(flat, masked_split)


@pytest.fixture
def page(tmp_path, flat, explanations, masked_split):
    return parse(report(tmp_path / "report.html", flat, explanations, masked_split))


def test_scores_on_the_page_are_those_of_the_metrics(page, flat, explanations, masked_split):
    cells = {(a["data-method"], a["data-metric"]): a for tag, a in page.tags if "data-metric" in a}
    assert len(cells) == 12
    for explanation in explanations:
        metrics = ["cpd", "cpp", "auroc", "auprc"]
        scores = evaluate(flat, explanation, metrics=metrics, truth=masked_split.truth)
        for metric, values in scores.items():
            cell, summary = cells[explanation.method, metric], summarise(values)
            assert float(cell["data-mean"]) == summary.mean
            assert float(cell["data-error"]) == summary.standard_error


def test_numbers_behind_the_pictures_are_unchanged(page, explanations, masked_split):
    series = json.loads(page.scripts[0])["series"]
    assert len(series) == 5
    for index, shown in enumerate(series):
        for drawn, explanation in zip(shown["maps"], explanations, strict=True):
            np.testing.assert_array_equal(
                np.float32(drawn["values"]).T, explanation.values[index].numpy(), strict=True
            )
        low = explanations[0].interval()[0][index].numpy().T
        found = np.array(shown["maps"][0]["low"], dtype=float)
        np.testing.assert_array_equal(found[np.isfinite(low)].astype(np.float32), low[np.isfinite(low)])
        gaps = np.array([[value is None for value in channel] for channel in shown["x"]]).T
        np.testing.assert_array_equal(gaps, ~masked_split.mask[index].numpy())


def test_infinite_limits_are_null(tmp_path, flat):
    explanation = explain(flat, random_series(1), "gradient_shap", train=random_series(1), points=1)
    assert explanation.standard_error.isinf().all()
    page = parse(report(tmp_path / "r.html", flat, explanation))
    assert json.loads(page.scripts[0])["series"][0]["maps"][0]["low"][0][0] is None


def test_names_from_data_cannot_become_markup(page, tmp_path):
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert len(page.scripts) == 2
    assert "<img" not in page.scripts[0]
    assert json.loads(page.scripts[0])["series"][0]["channels"][1] == "<img src=x onerror=alert(1)>"


def test_labels_and_methods_are_escaped_too(tmp_path, flat, explanations, masked_split):
    named = {"</script><img src=x>": explanations[0], '"quoted"': explanations[1]}
    page = parse(report(tmp_path / "r.html", flat, named, masked_split))
    assert "img" not in {tag for tag, _ in page.tags}
    assert {a["data-method"] for _, a in page.tags if "data-method" in a} == set(named)


def test_nothing_is_fetched(page):
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert not any({"src", "href", "action"} & set(attributes) for _, attributes in page.tags)


def test_every_series_is_there_without_a_script(page):
    ids = [a["id"] for tag, a in page.tags if tag == "article"]
    assert ids == [f"series-{number}" for number in range(40, 45)]
    assert not any("hidden" in a for tag, a in page.tags if tag == "article")


def test_only_the_series_asked_for(tmp_path, flat, explanations, masked_split):
    page = parse(report(tmp_path / "r.html", flat, explanations, masked_split, series=[3, 1]))
    assert [a["id"] for tag, a in page.tags if tag == "article"] == ["series-43", "series-41"]


def test_probabilities_on_the_page_are_the_models(page, flat, masked_split):
    found = [float(a["data-output"]) for _, a in page.tags if "data-output" in a]
    expected = flat(masked_split.x).softmax(-1).flatten().tolist()
    assert found == pytest.approx(expected, rel=1e-6)


def test_outputs_are_written_to_the_same_digit(tmp_path, flat):
    x = random_series(1)
    for output, pattern in (("probability", r"[<>]? ?\d\.\d{3}"), ("raw", r"−?\d\.\d{2}")):
        path = report(tmp_path / "r.html", flat, explain(flat, x, "integrated_gradients", output=output))
        written = re.findall(r"<span data-output=.*?>(.*?)</span>", path.read_text(encoding="utf-8"))
        assert len(written) == 3
        assert all(re.fullmatch(pattern, text) for text in written), written


def test_given_scores_are_used(tmp_path, flat, explanations):
    scores = {e.method: {"mine": torch.tensor([1.0, 2.0, 6.0])} for e in explanations[:2]}
    page = parse(report(tmp_path / "r.html", flat, [e[:3] for e in explanations[:2]], scores=scores))
    assert [a["data-mean"] for _, a in page.tags if "data-mean" in a] == ["3.0", "3.0"]


def test_scores_of_other_methods_are_refused(tmp_path, flat, explanations):
    with pytest.raises(InputError, match="one entry per explanation, timing; got lime"):
        report(tmp_path / "r.html", flat, explanations[0], scores={"lime": {"cpd": torch.zeros(5)}})
    assert list(tmp_path.iterdir()) == []


def test_another_model_is_named_on_the_page(tmp_path, explanations):
    with pytest.warns(TempogradWarning, match="timing, random explained another model") as caught:
        path = report(tmp_path / "r.html", Flat(classes=3).double(), [explanations[0], explanations[2]])
    assert [warning.filename for warning in caught] == [__file__]
    assert 'class="notice"' in path.read_text(encoding="utf-8")


def test_best_and_differences_follow_the_direction():
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.5, 4.0])
    scores = {"a": {"cpd": first, "cpp": first}, "b": {"cpd": second, "cpp": second}}
    table = score_table(scores, ("a", "b"))
    assert table.higher_is_better == (True, False)
    assert [key for key, cell in table.cells.items() if cell.best] == [("b", "cpd"), ("a", "cpp")]
    assert table.cells["b", "cpd"].difference == compare(second, first)
    assert table.cells["a", "cpd"].difference is None


def best(**scores):
    table = score_table({name: {"auroc": torch.tensor(values)} for name, values in scores.items()}, tuple(scores))
    return [method for (method, _), cell in table.cells.items() if cell.best]


def test_undefined_scores_are_never_best():
    assert best(a=[math.nan] * 3, b=[0.2, 0.3, 0.4], c=[0.51, 0.6, 0.7]) == ["c"]
    assert best(a=[math.nan] * 3, b=[0.2, 0.3, 0.4]) == []


def test_best_is_only_what_is_better_than_each_other_by_more_than_chance():
    """Differences of 1, 1 and 4: mean 2, standard error 1, so the interval reaches from -2.3 to 6.3."""
    assert best(a=[0.0, 0.0, 0.0], b=[1.0, 1.0, 4.0]) == []
    assert best(a=[0.0, 0.0, 0.0], b=[1.0, 1.1, 1.2]) == ["b"]
    assert best(a=[0.0, 0.0, 0.0], b=[1.0, 1.1, 1.2], c=[0.0, 0.0, 3.2]) == []
    assert best(a=[0.1], b=[0.9]) == []


def strongest(path):
    (table,) = re.findall(r"<h4>Strongest.*?<tbody>(.*?)</tbody>", path.read_text(encoding="utf-8"), re.DOTALL)
    return [re.findall(r"<td.*?>(.*?)</td>", line) for line in table.split("</tr>")[:-1]]


def test_an_unknown_interval_is_said_in_words(tmp_path, flat):
    explanation = explain(flat, random_series(1), "gradient_shap", points=1, train=random_series(4))
    path = report(tmp_path / "r.html", flat, explanation)
    assert [row[4] for row in strongest(path)] == ["not known"] * 6
    note = "Not known: fewer than two draws counted for the value."
    assert note in path.read_text(encoding="utf-8")
    known = report(tmp_path / "k.html", flat, explain(flat, random_series(1)))
    assert note not in known.read_text(encoding="utf-8")


def test_effects_and_limits_are_written_to_the_same_digit(tmp_path, flat):
    """The third significant digit of the largest number in the table."""
    explanation = explain(flat, random_series(1), points=20)
    rows = strongest(report(tmp_path / "r.html", flat, explanation))
    cells = [cell for row in rows for cell in (row[3], *row[4].split(" to "))]
    top = explanation.top(6)
    low, high = explanation.interval()
    expected = []
    for t, d in zip(top.time[0], top.channel[0], strict=True):
        expected += [float(side[0, t, d]) for side in (explanation.values, low, high)]
    size = max(map(abs, expected))
    digit = 10.0 ** (math.floor(math.log10(size)) - 2)
    found = [float(cell.replace("−", "-")) for cell in cells]
    assert found == pytest.approx(expected, abs=0.5001 * digit)
    assert len({len(cell.partition(".")[2]) for cell in cells}) == 1


def test_the_page_says_how_many_values_cpd_removes_and_which_way_differences_go(tmp_path, flat, explanations):
    text = (
        report(tmp_path / "r.html", flat, explanations)
        .read_text(encoding="utf-8")
        .replace("\N{NO-BREAK SPACE}", " ")
    )
    assert "<b>CPD</b>: sum of all changes of the prediction while the strongest values (k = 10 %" in text
    assert "Small print: this method minus timing, mean and 95 % interval." in text


@pytest.mark.parametrize(("time", "channels", "classes"), [(1, 1, 1), (1000, 1, 2), (30, 12, 2)])
def test_unusual_sizes(tmp_path, time, channels, classes):
    model = Flat(time, channels, classes).eval()
    x = random_series(1, time, channels)
    x[..., 0] = 2.0
    page = parse(report(tmp_path / "r.html", model, explain(model, x, "integrated_gradients")))
    assert sum(a.get("class") == "row channel" for _, a in page.tags) == channels


def test_per_step_models_show_prediction_label_and_explained_steps(tmp_path):
    x = random_series(2)
    explanation = explain(Running(), x, "integrated_gradients", steps=[0, 7])
    path = report(tmp_path / "r.html", Running(), explanation, Split(x, (x[..., 1] > 0).long()))
    text = path.read_text(encoding="utf-8")
    for name in ("probability of class 1", "true label", "explained steps"):
        assert f'<div class="name">{name}</div>' in text
    shown = json.loads(parse(path).scripts[0])["series"][1]["output"]
    np.testing.assert_allclose(shown["values"], Running()(x).softmax(-1)[1, :, 1].numpy(), rtol=1e-6)


def test_series_saved_apart_come_from_the_split(tmp_path, flat, explanations, masked_split):
    bare = explanations[0].load(explanations[0].save(tmp_path / "e.safetensors", series=False))
    with pytest.raises(InputError, match="pass split="):
        report(tmp_path / "r.html", flat, bare)
    page = parse(report(tmp_path / "r.html", flat, bare, masked_split))
    first = np.array(json.loads(page.scripts[0])["series"][0]["x"][2], dtype=np.float32)
    np.testing.assert_array_equal(first, masked_split.x[0, :, 2].numpy())


def test_figure_is_one_picture_with_a_row_per_channel_and_method(flat, explanations, masked_split):
    drawn = ElementTree.fromstring(figure(explanations, 1, split=masked_split, model=flat))
    space = "{http://www.w3.org/2000/svg}"
    texts = [node.text for node in drawn.iter(f"{space}text")]
    assert texts[0] == "Series 41"
    assert texts.count("integrated gradients") == 3 + 1  # once per channel, once at the scale
    assert "O₂ & more" in texts
    assert len(drawn.findall(f"{space}svg")) == 3 * (1 + 1 + 3)


def test_figure_refuses_a_width_nothing_fits_into(explanations):
    with pytest.raises(InputError, match="at least 300 pixels, got 100"):
        figure(explanations[0], width=100)
