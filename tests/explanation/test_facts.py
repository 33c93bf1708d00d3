"""Explanations carry what their method promises, so that nobody has to know the method to judge them."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import tempograd as tg
from tempograd.core.errors import DataError
from tempograd.core.estimate import Estimate
from tempograd.explanation import Facts
from tempograd.explanation.files import SETTING_WORDS, TENSOR_WORDS, checksum
from tests.helpers.models import linear, series

OLD = Path(__file__).parent / "schema_1"
COMPLETE = "complete to 0.1 %: the scores sum to the change of the prediction"


@dataclass(frozen=True)
class Linear(tg.Explainer):
    """Another package's method, in no registry: the gradient times the distance to the baseline."""

    complete: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    n_steps: Any = "auto"  # a setting of its own under a name that means something elsewhere
    share: float = 1.0

    def attribute(self, ask):
        block = ask.block(slice(None))
        x = ask.x.clone().requires_grad_()
        scores = ask.apply_link(ask.raw_outputs(x[:, None], block)).flatten(1)[:, 0]
        (slope,) = torch.autograd.grad(scores.sum(), x)
        values = self.share * slope * (ask.x - ask.baseline)
        ask.read_all()
        return [Estimate(values, delta=(slope * (ask.x - ask.baseline)).sum((1, 2)))]


def explained(**settings):
    return Linear(**settings)(linear(4, 2, classes=1), series(3, 4, 2), output="raw")


@dataclass(frozen=True)
class Careless(Linear):
    """One whose differences are not one number per series."""

    def attribute(self, ask):
        return [estimate._replace(delta=estimate.values) for estimate in super().attribute(ask)]


def test_what_a_method_from_elsewhere_returns_is_verified():
    with pytest.raises(tg.TempogradError, match=r"delta must have shape \(3,\), got \(3, 4, 2\)"):
        Careless()(linear(4, 2, classes=1), series(3, 4, 2), output="raw")


UNCHECKED = "no sampling error; whether the gradient is that of the prediction is not known"
SCHEMA_1 = {
    **dict.fromkeys(
        ("complete", "variant", "foreign"),
        "no error is known: explain again with another seed to see how much the scores move",
    ),
    "timing": "not converged: error about 56 % with 4 samples; "
    "pass n_samples=160; 7 cells were seen less than twice",
    "timing_variant": "not converged in 1 of 2 series: error about 9.4 % with 6 samples; "
    "pass n_samples=120; 2 cells were seen less than twice",
}
ELSEWHERE = """
import json, sys
from tempograd.explanation import Explanation
def verdicts(paths):
    return [Explanation.load(path).verdict() for path in paths]
new, old = map(json.loads, sys.argv[1:])
told = {"new": verdicts(new), "explainers": "tempograd.explainers" in sys.modules, "old": verdicts(old)}
found = Explanation.load(new[0])
told["matplotlib"] = "matplotlib" in sys.modules
print(json.dumps(told | {"plot": found.plot(1).axes != [], "html": "data:image/png" in found._repr_html_()}))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """What a process says of files that knows explanations only; one does it all, since it takes long to start."""
    folder = tmp_path_factory.mktemp("elsewhere")
    new = [explained(share=share).save(folder / f"{share}") for share in (1.0, 0.5)]
    words = [json.dumps([str(path) for path in paths]) for paths in (new, map(schema_1, SCHEMA_1))]
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, *words], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def schema_1(name):
    return OLD / f"{name}.safetensors"


def test_a_method_that_nobody_knows_gets_a_right_verdict(elsewhere):
    found = explained()
    assert found.method not in tg.EXPLAINERS
    assert found.facts == Facts(complete=True, deterministic=True)
    short = explained(share=0.5)
    miss = "not complete: the scores miss 50 % of the change of the prediction"
    assert (found.verdict(), short.verdict()) == (COMPLETE, miss)  # nothing to type: its points are no number
    assert replace(found, delta=None).verdict() == UNCHECKED
    assert elsewhere["new"] == [COMPLETE, miss]
    assert not elsewhere["explainers"]


def test_facts_stay_with_the_explanation(tmp_path):
    found = explained(n_steps=3)
    told = Facts(complete=True, deterministic=True, unit="n_steps")
    path = found.save(tmp_path / "e")
    for other in (
        found,
        found[1:],
        found[[2, 0]],
        replace(found, channels=("a", "b")),
        replace(found, seed=4),
        tg.Explanation.load(path),
        tg.Explanation.load(tg.Explanation.load(path)[:1].save(tmp_path / "again")),
    ):
        assert other.facts == told
    with safe_open(path, "pt") as file:
        assert file.metadata()["schema"] == "5"
        assert json.loads(file.metadata()["tempograd"])["facts"] == {
            "complete": True,
            "deterministic": True,
            "needs_gradient": True,
            "adaptive": False,
            "unit": "n_steps",
        }


@pytest.mark.parametrize("name", sorted(tg.EXPLAINERS))
def test_facts_are_those_of_the_class(name):
    kind = tg.EXPLAINERS[name]
    told = kind().facts
    for each in ("complete", "deterministic", "needs_gradient"):
        assert getattr(told, each) == getattr(kind, each)
    assert told.adaptive == (name == "timing")
    counts = {name for name, value in kind().parameters.items() if type(value) is int}
    assert told.unit == "".join({"n_samples", "n_steps"} & counts)


def test_files_of_schema_1_promise_nothing(elsewhere):
    """They were written before explanations carried facts; whatever is imported, the same is said."""
    for name, verdict in SCHEMA_1.items():
        with safe_open(schema_1(name), "pt") as file:
            assert file.metadata()["schema"] == "1"
        assert tg.Explanation.load(schema_1(name)).verdict() == verdict
    assert elsewhere["old"] == list(SCHEMA_1.values())


class Faulty(tg.IntegratedGradients):
    """As variants with known faults are."""

    _examined = False


def test_a_variant_promises_less():
    assert tg.IntegratedGradients().facts.complete
    assert Faulty().facts == replace(tg.IntegratedGradients().facts, complete=False)


def test_explanations_draw_themselves_wherever_they_come_from(elsewhere):
    assert (elsewhere["matplotlib"], elsewhere["plot"], elsewhere["html"]) == (False, True, True)


def as_schema_2(path, target, **facts):
    """Write a file of TIMING in the words of schema 2."""
    with safe_open(path, "pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    old = {new: word for word, new in TENSOR_WORDS.items()}
    settings = {new: word for word, new in SETTING_WORDS["timing"].items()}
    plain, shapes = json.loads(header["tempograd"]), json.loads(header["shapes"])
    plain["parameters"] = {settings.get(name, name): value for name, value in plain["parameters"].items()}
    plain["parameters"] |= {"max_points": 3200, "until": "error"}
    plain["facts"] |= {"unit": "points"} | facts
    tensors, shapes = ({old.get(name, name): part for name, part in each.items()} for each in (tensors, shapes))
    header = {"tempograd": json.dumps(plain), "shapes": json.dumps(shapes), "schema": "2"}
    save_file(tensors, target, header | {"checksum": checksum(tensors, header)})
    return target


def test_files_of_schema_2_speak_the_new_words(tmp_path):
    found = tg.explain(linear(4, 2), series(2, 4, 2), n_samples=6)
    path = found.save(tmp_path / "new")
    old = tg.Explanation.load(as_schema_2(path, tmp_path / "old"))
    assert (old.parameters, old.facts, old.verdict()) == (found.parameters, found.facts, found.verdict())
    for name in ("n_draws", "ess", "n_evals", "delta"):
        assert torch.equal(getattr(old, name), getattr(found, name)), name
    with pytest.raises(DataError, match="is damaged"):
        tg.Explanation.load(as_schema_2(path, tmp_path / "odd", unit=["points"]))
