"""Report and notebook show what people know: values before scaling, units, class names and time stamps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.data import Series
from tests.helpers.explanations import named_ward, stamp, ward
from tests.helpers.report_page import Page
from tests.html_report.test_notebook import Reader


@pytest.fixture(scope="module")
def found():
    return tg.explain(*named_ward(), n_samples=10)


def stamps(*rows):
    return [[stamp(row, step) for step in range(6)] for row in rows]


def test_a_report_takes_them_from_the_explanation(found, tmp_path):
    model, x, options = ward()
    content = Page(tg.report(tmp_path / "r.html", model, found, series=[2, 0])).content
    raw = found.raw[[2, 0]].float().numpy().ravel()
    np.testing.assert_array_equal(content["values"], raw)
    assert (content["units"], content["classes"]) == (["bpm", "°C"], ["survived", "died"])
    assert (content["times"], content["exact"]) == (None, stamps(2, 0))
    assert content["stamps"] == [[text[11:] for text in row] for row in stamps(2, 0)]  # of one day
    plain = tg.explain(model, tg.Series(x, mask=options["mask"], ids=options["names"]), n_samples=10)
    other = Page(tg.report(tmp_path / "r.html", model, plain, series=[2, 0])).content
    np.testing.assert_array_equal(other["values"], x[[2, 0]].numpy().ravel())
    assert (other["units"], other["classes"]) == (None, ["class 0", "class 1"])
    assert (other["times"], other["stamps"]) == (None, None)
    for name in ("outputs", "score"):  # what was removed is what the model reads
        np.testing.assert_array_equal(content["maps"][0]["removal"][name], other["maps"][0]["removal"][name])


def test_values_of_any_of_the_explanations_are_shown(found, tmp_path):
    model, x, options = ward()
    plain = tg.explain(model, tg.Series(x, mask=options["mask"], ids=options["names"]), "integrated_gradients")
    content = Page(tg.report(tmp_path / "r.html", model, [plain, found])).content
    np.testing.assert_array_equal(content["values"], found.raw.float().numpy().ravel())


def test_stamps_that_all_series_share_are_packed_once(found, tmp_path):
    hours = [f"{hour}:00" for hour in range(6)]
    content = Page(tg.report(tmp_path / "r.html", None, replace(found, times=(tuple(hours),) * 3))).content
    assert (content["times"], content["stamps"]) == (hours, None)


def test_labels_of_a_file_are_counted_as_the_explanation_counts_classes(tmp_path):
    """A file with some of the classes, or in sorted order, has other numbers for them."""
    model, x, options = ward()
    named = tg.Predictor(model, classes=("survived", "died"))

    def labels(split):
        return Page(tg.report(tmp_path / "r.html", model, tg.explain(named, split, "random"))).content["label"]

    sorted_ones = Series(x, torch.tensor([0, 1, 0]), mask=options["mask"], classes=("died", "survived"))
    assert labels(sorted_ones) == [1, 0, 1]
    some = Series(x, torch.tensor([0, 0, 0]), mask=options["mask"], classes=("died",))
    assert labels(some) == [1, 1, 1]
    others = Series(x, torch.tensor([0, 1, 0]), mask=options["mask"], classes=("a", "b"))
    with pytest.warns(tg.TempogradWarning, match="label 'a' is none of the classes .*: labels are left out"):
        assert labels(others) is None


def test_a_file_names_the_classes_where_nobody_else_does(tmp_path):
    model, x, options = ward()
    split = Series(x, torch.tensor([0, 1, 0]), mask=options["mask"], classes=("a", "b"))
    content = Page(tg.report(tmp_path / "r.html", model, tg.explain(model, split, "random"))).content
    assert (content["classes"], content["label"]) == (["a", "b"], [0, 1, 0])
    more = Series(x, torch.tensor([0, 1, 2]), mask=options["mask"], classes=("a", "b", "c"))
    with pytest.warns(tg.TempogradWarning, match="name 3 classes, but the model has 2 outputs"):
        found = tg.explain(model, more, "random")
    content = Page(tg.report(tmp_path / "r.html", model, found)).content
    assert (content["classes"], content["label"]) == (["class 0", "class 1"], None)


def test_a_page_holds_fewer_series_where_each_has_stamps_of_its_own():
    from tempograd.views.series import most

    x = torch.zeros(2, 5000, 1)
    plain = tg.explain(lambda z: z[:, 0], x, "random", output="raw")
    stamped = replace(
        plain, times=tuple(tuple(f"2026-03-01 00:00:{t:05}" for t in range(r, r + 5000)) for r in range(2))
    )
    assert most({"random": stamped}) < most({"random": plain}) / 3


def test_a_notebook_names_the_class(found):
    page = Reader(found[1]._repr_html_())
    assert f"Explained: “{found.classes[int(found.target[1])]}”, as a probability." in page.text
    every = Reader(found._repr_html_()).text
    assert "“died” for " in every
    assert "“survived” for " in every


def test_a_notebook_names_the_class_of_every_step():
    x = torch.ones(1, 3, 1)
    model = lambda z: torch.cat([-z, z], -1)  # noqa: E731
    named = tg.explain(tg.Predictor(model, classes=["calm", "alarm"], task="per_step"), x, "integrated_gradients")
    assert "“alarm”, as a probability, summed over the steps" in Reader(named._repr_html_()).text
