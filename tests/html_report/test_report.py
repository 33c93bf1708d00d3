"""The file: its numbers are the library's, nothing in it runs or is fetched, and it is well-formed."""

import base64
import hashlib
import html
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError, TempogradWarning
from tempograd.explainers import explain
from tempograd.html_report import report
from tempograd.html_report.cards import STEADY
from tempograd.metrics import compare, evaluate
from tempograd.views.drivers import reader_verdict
from tests.helpers.explanations import masked_series, three_explanations
from tests.helpers.models import Flat, RunningMean, random_series
from tests.helpers.report_page import Page, flags


@pytest.fixture(scope="module")
def flat():
    return Flat().eval()


@pytest.fixture(scope="module")
def masked_split():
    return masked_series()


@pytest.fixture(scope="module")
def explanations(flat, masked_split):
    return three_explanations(flat, masked_split)


@pytest.fixture(scope="module")
def page(tmp_path_factory, flat, explanations):
    folder = tmp_path_factory.mktemp("report")
    return Page(report(folder / "report.html", flat, explanations))


def test_scores_on_the_page_are_those_of_the_metrics(page, flat, explanations):
    every = {}
    for explanation, drawn in zip(explanations, page.content["maps"], strict=True):
        metrics = ["cpd", "cpp", "auroc", "auprc"]
        scores = evaluate(flat, explanation, metrics=metrics)
        for metric, values in scores.items():
            assert drawn["scores"][metric] == values.tolist()
        every[explanation.method] = scores
    printed = page.text.split('<pre id="scores">')[1].split("</pre>")[0]
    assert html.unescape(printed) == repr(tg.table(every))


def test_values_gaps_and_truth_are_unchanged(page, masked_split):
    content = page.content
    np.testing.assert_array_equal(content["values"], masked_split.x.numpy().ravel())
    np.testing.assert_array_equal(flags(content["observed"], (5, 20, 3)), masked_split.mask.numpy())
    np.testing.assert_array_equal(flags(content["truth"], (5, 20, 3)), masked_split.truth.numpy())
    assert content["observedCount"] == masked_split.mask.flatten(1).sum(1).tolist()
    assert content["ids"] == [40, 41, 42, 43, 44]
    assert content["label"] == [0, 1, 2, 0, 1]


def test_scores_and_intervals_of_cells_are_those_of_the_explanations(page, explanations):
    for drawn, explanation in zip(page.content["maps"], explanations, strict=True):
        np.testing.assert_array_equal(drawn["values"], explanation.values.flatten())
    values, half = (page.content["maps"][0][name] for name in ("values", "half"))
    for side, read in zip(explanations[0].interval(), (values - half, values + half), strict=True):
        np.testing.assert_allclose(read, side.flatten(), rtol=1e-5, atol=1e-8)


def test_the_strongest_cells_come_first(page, explanations):
    drawn = page.content["maps"][0]
    order = torch.from_numpy(drawn["order"].astype(np.int64)).view(5, -1)[:, :10]
    top = explanations[0].top(10)
    np.testing.assert_array_equal(order, top.time * 3 + top.channel)


def test_predictions_before_removal_are_the_models(page, flat, masked_split):
    content = page.content
    outputs = content["maps"][0]["removal"]["outputs"].reshape(5, len(content["counts"]), 3)
    expected = flat(masked_split.x).softmax(-1).detach()
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-6)
    assert content["predicted"] == expected.argmax(-1).tolist()
    right = expected.argmax(-1) == masked_split.y
    assert content["outcome"] == ["right" if hit else "wrong" for hit in right]


def test_infinite_limits_stay_unknown(tmp_path, flat):
    explanation = explain(flat, random_series(1), "gradient_shap", background=random_series(1), n_samples=1)
    assert explanation.standard_error.isinf().all()
    drawn = Page(report(tmp_path / "r.html", flat, explanation)).content["maps"][0]
    assert np.isinf(drawn["half"]).all()


def test_names_from_data_cannot_become_markup(page):
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert set(page.scripts) == {"data", "code"}
    assert page.content["channels"][1] == "<img src=x onerror=alert(1)>"


def test_labels_methods_and_titles_are_escaped_too(tmp_path, flat, explanations):
    named = {"</script><img src=x>": explanations[0], '"quoted"': explanations[1]}
    page = Page(report(tmp_path / "r.html", flat, named, title="</title><img src=x>"))
    assert "img" not in {tag for tag, _ in page.tags}
    assert [html.escape(name)[:20] in page.text for name in named] == [True, True]


def test_only_the_pages_own_script_may_run_and_nothing_is_fetched(page):
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.scripts["code"].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert not any({"src", "href", "action"} & set(attributes) for _, attributes in page.tags)


def test_the_same_content_gives_the_same_file(tmp_path, flat, explanations):
    first = report(tmp_path / "a.html", flat, explanations)
    packed = base64.b64decode(Page(first).scripts["data"])
    assert packed[4:8] == bytes(4)  # gzip keeps no date
    assert first.read_bytes() == report(tmp_path / "b.html", flat, explanations).read_bytes()


def test_only_the_series_asked_for(tmp_path, flat, explanations, masked_split):
    page = Page(report(tmp_path / "r.html", flat, explanations, series=[3, 1]))
    assert page.content["ids"] == [43, 41]
    np.testing.assert_array_equal(page.content["values"], masked_split.x[[3, 1]].numpy().ravel())
    assert page.content["summary"]["groups"][0] == {"kind": None, "count": 5}
    assert "2 of 5 series" in page.text


def test_without_a_model_nothing_is_predicted_removed_or_scored(tmp_path, explanations):
    page = Page(report(tmp_path / "r.html", None, explanations))
    assert page.content["maps"][0]["removal"] is None
    assert page.content["predicted"] is None
    assert "No model was given" in page.text


def test_given_scores_are_used(tmp_path, flat, explanations):
    scores = {e.method: {"mine": torch.tensor([1.0, 2.0, 6.0])} for e in explanations[:2]}
    second = explanations[1].method
    scores["other"] = {"mine": torch.tensor([0.0, 0.0, math.nan])}
    page = Page(report(tmp_path / "r.html", flat, [e[:3] for e in explanations[:2]], scores=scores))
    rows = page.text.split('<pre id="scores">')[1].splitlines()[2:5]
    assert [re.findall(r"[\w.]+", row)[:2] for row in rows] == [
        ["timing", "3.0"],
        [second, "3.0"],
        ["other", "0.0"],
    ]
    assert page.content["maps"][1]["scores"] == {"mine": [1.0, 2.0, 6.0]}


def test_scores_of_other_methods_are_refused(tmp_path, flat, explanations):
    with pytest.raises(InputError, match="entries of timing; got lime"):
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
    table = tg.table(scores)
    assert table.higher_is_better == (True, False)
    assert [key for key in table.cells if table.cells[key].best] == [("b", "cpd"), ("a", "cpp")]
    assert table.cells["b", "cpd"].difference == compare(second, first)
    assert table.cells["a", "cpd"].difference is None


def test_the_page_says_what_metrics_mean(page):
    assert "while the most important cells are removed" in page.content["metrics"]["cpd"]["meaning"]


def test_the_page_says_where_its_numbers_come_from(page, explanations):
    facts = dict(
        re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.text.split("<h3>timing</h3>")[1].split("</dl>")[0])
    )
    assert facts["model"] == explanations[0].fingerprint
    assert facts["seed"] == "0"
    assert "control_variates = true" in facts["parameters"]
    assert "segments" not in facts["parameters"]  # as usual


@pytest.mark.parametrize(("time", "channels", "classes"), [(1, 1, 1), (10_000, 1, 2), (30, 12, 20)])
def test_unusual_sizes(tmp_path, time, channels, classes):
    model = Flat(time, channels, classes).eval()
    x = random_series(1, time, channels)
    x[..., 0] = 2.0
    content = Page(report(tmp_path / "r.html", model, explain(model, x, "integrated_gradients"))).content
    np.testing.assert_array_equal(content["values"], x.numpy().ravel())
    outputs = content["maps"][0]["removal"]["outputs"].reshape(len(content["counts"]), -1)
    answer = model(x).detach()[0]
    expected = torch.cat([0 * answer, answer]).softmax(-1) if classes == 1 else answer.softmax(-1)
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-5)


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.slow)])
def test_three_hundred_series_with_two_methods_fit_into_fifteen_megabytes(tmp_path, count):
    """48 steps, 32 channels, scores and errors that hardly compress, on a model that says nothing."""
    x = random_series(count, 48, 32)
    model = Flat(48, 32, 2).eval()
    one = explain(model, x, n_samples=8)
    named = {"a": one, "b": type(one)(**{**vars(one), "seed": 1})}
    path = report(tmp_path / "r.html", model, named, scores={name: {"cpd": torch.ones(count)} for name in named})
    assert len(Page(path).content["ids"]) == count
    assert path.stat().st_size < 400_000 + 45_000 * count  # the empty page, and each series


def test_per_step_models_show_prediction_label_and_explained_steps(tmp_path):
    x = random_series(2)
    explanation = explain(RunningMean(), x, "integrated_gradients", steps=[0, 7])
    content = Page(
        report(tmp_path / "r.html", RunningMean(), replace(explanation, y=(x[..., 1] > 0).long()))
    ).content
    steps = content["steps"]
    np.testing.assert_allclose(
        steps["values"].reshape(2, 20), RunningMean()(x).softmax(-1)[..., 1].numpy(), rtol=1e-6
    )
    np.testing.assert_array_equal(flags(steps["labels"], (2, 20)), (x[..., 1] > 0).numpy())
    assert np.flatnonzero(flags(steps["explained"], (2, 20))[0]).tolist() == [0, 7]
    assert content["target"] is None


def test_explanations_saved_without_their_series_are_refused(tmp_path, flat, explanations):
    bare = explanations[0].load(explanations[0].save(tmp_path / "e.safetensors", series=False))
    with pytest.raises(InputError, match="saved without its series"):
        report(tmp_path / "r.html", flat, bare)
    content = Page(report(tmp_path / "r.html", flat, [bare, *explanations[1:]])).content
    np.testing.assert_array_equal(content["values"], explanations[1].x.numpy().ravel())


def test_series_are_called_by_their_names(tmp_path, flat):
    explanation = explain(flat, tg.Series(random_series(2), ids=["ward 3", "<b>7"]), "random")
    assert Page(report(tmp_path / "r.html", flat, explanation)).content["names"] == ["ward 3", "<b>7"]


@pytest.mark.parametrize(
    ("options", "predicted", "own"),
    [({}, True, False), ({"target": 1}, False, False), ({"steps": "own"}, True, True)],
)
def test_the_page_knows_what_was_explained_at_each_step(tmp_path, options, predicted, own):
    x = random_series(3)
    assert RunningMean()(x).argmax(-1).unique().tolist() == [0, 1]
    page = Page(
        report(tmp_path / "r.html", RunningMean(), explain(RunningMean(), x, "integrated_gradients", **options))
    )
    assert (page.content["steps"]["predicted"], page.content["steps"]["own"]) == (predicted, own)


@pytest.mark.parametrize(("baseline", "said"), [("zero", "zero"), ("average", "average"), (0.3, "own")])
def test_the_page_names_the_baseline(tmp_path, flat, baseline, said):
    given = torch.full((20, 3), baseline) if isinstance(baseline, float) else baseline
    path = report(
        tmp_path / "r.html", None, explain(flat, random_series(2), "integrated_gradients", baseline=given)
    )
    assert f"<dt>baseline</dt><dd>{said}</dd>" in path.read_text(encoding="utf-8")


def test_how_sure_the_scores_are_is_the_librarys(tmp_path, flat, explanations):
    """Words about all series, numbers of the shown ones."""
    looked = replace(
        explanations[0],
        standard_error=explanations[0].values.abs() * torch.tensor([0.5, 0.5, 0.5, 0.01, 0.5]).view(5, 1, 1),
        delta=torch.tensor([0.5, -0.25, 0.0, 1.0, 2.0]),
    )
    named = {"timing": looked, "ig": replace(explanations[1], delta=None)}
    page = Page(report(tmp_path / "r.html", flat, named, series=[3, 1]))
    found, exact = (drawn["certainty"] for drawn in page.content["maps"])
    told = [reader_verdict(looked), reader_verdict(looked, 3), reader_verdict(looked, 1)]
    said = [(STEADY[verdict.badge], verdict.text) for verdict in told]
    assert [(tuple(badge), text) for badge, text in zip(found["badges"], found["texts"], strict=True)] == said
    assert {badge for badge, _ in told} == {"rough", "converged"}
    facts = page.text.split("<h3>timing</h3>")[1]
    assert f"<dt>verdict</dt><dd>{looked.verdict()}</dd>" in facts  # for those who can run it again
    np.testing.assert_allclose(found["error"], looked.relative_error[[3, 1]], rtol=1e-6)
    np.testing.assert_allclose(found["total"], looked.values[[3, 1]].sum((1, 2)), rtol=1e-5)
    assert found["delta"].tolist() == [1.0, -0.25]
    assert [good for good, _ in found["badges"]] == [
        False,
        True,
        False,
    ]  # all together, and the two that are shown
    assert (found["complete"], exact["complete"]) == (False, True)
    assert {word for _, word in exact["badges"]} == {"numbers exact"}
    assert [exact[name] for name in ("error", "total", "delta")] == [None] * 3
