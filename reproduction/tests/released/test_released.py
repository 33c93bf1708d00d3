"""What all released methods share: names, faults in words, single logits, and what the explanation says."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError, SettingError, TempogradError, UnknownNameError
from tempograd.explainers import EXPLAINERS
from tempograd_paper.labels import METHOD_LABELS, REAL, SYNTHETIC
from tempograd_paper.released import RELEASED, faults, kind_of, released
from tempograd_paper.released.gradient_shap import ReleasedGradientShap
from tempograd_paper.released.lime import ReleasedLime
from tempograd_paper.released.occlusion import ReleasedOcclusion
from tempograd_paper.released.rand_ig import ReleasedRandIG
from tempograd_paper.released.timing import ReleasedTiming
from tests.helpers.methods import QUICK, run
from tests.helpers.models import Risk, patients, series

ROOT = Path(__file__).parents[3]
WRONG = {
    "quirk, small": (lambda: ReleasedTiming(quirks={"a3"}), UnknownNameError, "Did you mean 'A3'"),
    "quirk": (lambda: ReleasedTiming(quirks=frozenset({"A33"})), UnknownNameError, "Did you mean 'A3'"),
    "quirks": (lambda: ReleasedTiming(quirks="A3"), SettingError, "quirks must be a set of keys, got 'A3'"),
    "p": (lambda: ReleasedRandIG(p=1, quirks={"A11"}), SettingError, "no cell move"),
    "batch": (lambda: ReleasedGradientShap(batch=0), InputError, "batch must be at least 1"),
    "method": (lambda: released("timming", "wafer"), UnknownNameError, "Did you mean 'timing'"),
    "timing": (
        lambda: released("timing", "waffer"),
        UnknownNameError,
        "paper ran timing on is .*'waffer'.*'wafer'",
    ),
    "rand_ig": (
        lambda: released("rand_ig", "wafer"),
        UnknownNameError,
        r"^The paper has no run of rand_ig on 'wafer', only on mimic3\.$",
    ),
    "timex": (
        lambda: released("timex", "state"),
        UnknownNameError,
        "timex on 'state', only on mimic3, pam, boiler",
    ),
    "gradient_shap": (lambda: released("gradient_shap", "pamm"), UnknownNameError, "'pam'"),
    "lime": (lambda: released("lime", "waver"), UnknownNameError, "'wafer'"),
    "deep_lift": (lambda: released("deep_lift", "stat"), UnknownNameError, "'state'"),
    "random": (lambda: released("random", "pam"), UnknownNameError, "No released method is called .random."),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_names_and_settings_get_one_sentence(case):
    call, kind, text = WRONG[case]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("method", RELEASED)
def test_a_released_method_is_a_value_that_says_its_faults_in_words(method):
    kind = RELEASED[method]
    assert kind_of(method) is kind
    assert all(len(text) > 20 for text in kind.faults.values())
    assert faults(method) == kind.faults
    plain, faulty = kind(), kind(quirks=set(kind.faults))
    assert plain != faulty
    assert hash(faulty) == hash(kind(**faulty.parameters))
    assert faulty == kind(**faulty.parameters)
    assert (plain.name, faulty.name) == (method, method)
    assert faulty.parameters["quirks"] == sorted(kind.faults)
    assert f"quirks=frozenset({{{', '.join(map(repr, sorted(kind.faults)))}}})" in repr(faulty)


@pytest.mark.parametrize("method", RELEASED)
def test_no_setting_of_the_paper_follows_a_default_of_the_library(method, monkeypatch):
    """Every default of the library becomes what no setting can be: whoever relied on one, fails."""
    kind = RELEASED[method]
    before = {dataset: released(method, dataset).parameters for dataset in kind.datasets}
    ours = {name for base in kind.__mro__ if base.__module__.startswith("tempograd_paper") for name in vars(base)}
    ours |= {part.name for part in fields(kind) if part.metadata.get("fitted")}
    places = {False: [], True: []}
    for name, part in inspect.signature(kind.__init__).parameters.items():
        if part.default is not part.empty:
            default = part.default if name in ours else object()
            places[part.kind is part.KEYWORD_ONLY].append((name, default))
    monkeypatch.setattr(kind.__init__, "__defaults__", tuple(default for _, default in places[False]))
    monkeypatch.setattr(kind.__init__, "__kwdefaults__", dict(places[True]))
    if set(before[kind.datasets[0]]) - ours:
        with pytest.raises(TempogradError):
            kind()  # the defaults are others
    assert {dataset: released(method, dataset).parameters for dataset in kind.datasets} == before


@pytest.mark.parametrize("method", RELEASED)
def test_without_faults_it_is_the_method_of_the_library(method):
    """And with them it does not claim that its scores sum to the change of the prediction."""
    kind, library = RELEASED[method], EXPLAINERS[method]
    assert kind().facts == library().facts
    assert not kind(quirks=set(kind.faults)).facts.complete
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(15, 3)), series(4, 5, 3)
    settings = {"noise": 0.1} if method == "gradient_shap" else QUICK.get(method, {})
    found, plain = (run(each(**settings), model, x, output="raw") for each in (kind, library))
    assert torch.equal(found.values, plain.values)
    assert found.method == plain.method == method
    assert found.parameters["quirks"] == []


def test_one_page_has_every_key_with_the_methods_that_show_it():
    page = (ROOT / "docs/faults.md").read_text()
    _, *rows = re.findall(r"^\| (\S+) \| ([^|]+) \|[^|]+\|[^|]+\|$", page, re.MULTILINE)
    shown = {key: set(methods.split(", ")) for key, methods in rows}
    assert len(shown) == len(rows)
    known: dict[str, set[str]] = {}
    for method, kind in RELEASED.items():
        for key in kind.faults:
            known.setdefault(key, set()).add(METHOD_LABELS[method])
    assert shown == known


@pytest.mark.parametrize("method", RELEASED)
def test_a_class_says_its_faults_with_their_keys(method):
    words = RELEASED[method].__doc__
    assert all(re.search(rf"(\(|, ){re.escape(key)}[,)]", words) for key in RELEASED[method].faults), words


@pytest.mark.parametrize("dataset", REAL + SYNTHETIC)
def test_settings_exist_where_the_paper_has_a_run(dataset):
    known = set()
    for method in RELEASED:
        try:
            assert isinstance(released(method, dataset), EXPLAINERS[method])
        except TempogradError:
            continue
        known.add(method)
    missing = {"rand_ig", "winit"} if dataset != "mimic3" else set()
    missing |= {"timex", "timexpp"} if dataset in SYNTHETIC else set()
    assert set(RELEASED) - known == missing | ({"occlusion"} if dataset in set(REAL) - {"mimic3"} else set())


@pytest.mark.parametrize("target", [None, 0])
@pytest.mark.parametrize("explainer", [ReleasedOcclusion(quirks={"B8"}), ReleasedLime(64, quirks={"B8"})])
def test_the_class_at_the_end_of_a_prefix_is_class_one_too(explainer, target):
    """B8 asks for the class predicted at a value's own step; that of a single logit is the explained one."""

    class Last(nn.Module):
        def forward(self, x):
            return 2 * x[:, -1, :1] - 1

    x = series(4, 5, 1)
    found = explainer(tg.Predictor(Last(), task="classification"), x, target=target).values[..., 0]
    p = (2 * x[..., 0] - 1).sigmoid()
    fall = (p - torch.tensor(-1.0).sigmoid()) * (-1 if target == 0 else 1)
    if isinstance(explainer, ReleasedOcclusion):
        torch.testing.assert_close(found, fall, rtol=1e-5, atol=1e-6)
    else:  # a penalty shrinks, but does not turn
        big = fall.abs() > 0.1
        assert torch.equal(found[big].sign(), fall[big].sign())


def test_released_code_that_reads_the_logit_still_explains_class_one():
    explainer, x = ReleasedOcclusion(quirks=frozenset({"A6"})), patients()
    found = explainer(Risk(), x)
    torch.testing.assert_close(found.values[:, 2, 0], 3 * x[:, 2, 0])
    assert (found.target.tolist(), found.output, found.n_outputs) == ([1, 1], "probability", 2)
    with pytest.raises(InputError, match=r"\(A6\).*leave target out"):
        explainer(Risk(), x, target=0)
