"""An explainer's file: the same scores to the last bit, no code in it, and one sentence for anything else."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file

import tempograd as tg
from tempograd.core.errors import DataError, InputError, OutputError, counted_warnings
from tempograd.explainers import EXPLAINERS, Explainer
from tempograd.explainers.by_name import require_alone
from tempograd.explainers.files import LearntParts, fingerprint_of_explainer
from tests.helpers.models import Recurrent, series

TIME, CHANNELS = 6, 3
FILE = Path("e.safetensors")
QUICK = {"epochs": 2}
SETTINGS = {
    "fit": {"epochs": 2, "hidden": 4, "n_samples": 2},
    "winit": {"epochs": 2, "window": 3, "n_samples": 2},
    "timex": QUICK,
    "timexpp": QUICK,
    "augmented_occlusion": {"n_samples": 3, "over": "all"},
    "gradient_shap": {"n_samples": 4, "noise": 0.25},
    "timing": {"n_samples": 6, "segments": 2, "min_length": 1, "max_length": 3},
    "lime": {"n_samples": 40},
    "dynamask": QUICK,
    "extremal_mask": QUICK,
    "contralsp": QUICK,
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in a folder of its own, so that sentences hold names of files alone."""
    monkeypatch.chdir(tmp_path)


def learnt(name: str, model=None, **settings) -> Explainer:
    model = Recurrent(per_step=EXPLAINERS[name].needs_prefixes) if model is None else model
    explainer = EXPLAINERS[name](**SETTINGS.get(name, {}) | settings)
    return explainer.fit(model, series(20, TIME, CHANNELS, seed=1), seed=3)


def same_scores(one: Explainer, two: Explainer) -> None:
    model = Recurrent(per_step=one.needs_prefixes)
    with counted_warnings():  # deep_lift says what it leaves over
        found = [
            each(model, tg.Series(series(3, TIME, CHANNELS, seed=2), ids=[5, 9, 2]), seed=4) for each in (one, two)
        ]
    assert torch.equal(found[0].values, found[1].values)
    assert found[0].parameters == found[1].parameters
    for part in ("standard_error", "baseline"):
        first, second = (getattr(each, part) for each in found)
        assert (first is None and second is None) or torch.equal(first, second)


@pytest.mark.parametrize("name", sorted(name for name in EXPLAINERS if not EXPLAINERS.origin(name)))
def test_what_is_read_back_gives_the_same_scores_to_the_last_bit(name):
    explainer = learnt(name)
    state = torch.get_rng_state()
    again = Explainer.load(explainer.save(FILE))
    assert torch.equal(torch.get_rng_state(), state)
    assert type(again) is type(explainer)
    assert again == explainer
    assert again.fingerprint == explainer.fingerprint
    assert (again.learnt is None) == (explainer.learnt is None)
    same_scores(explainer, again)


@pytest.mark.parametrize("name", ["fit", "winit", "timex"])
def test_networks_of_double_precision_stay_so(name):
    model = Recurrent(per_step=EXPLAINERS[name].needs_prefixes).double()
    explainer = learnt(name, model)
    again = Explainer.load(explainer.save(FILE))
    x = series(2, TIME, CHANNELS, dtype=torch.float64)
    assert torch.equal(again(model, x).values, explainer(model, x).values)
    assert torch.float32 not in {tensor.dtype for tensor in again._learnt_parts().tensors.values()}


def test_a_marginal_of_winit():
    explainer = learnt("winit", sampler="marginal")
    same_scores(explainer, Explainer.load(explainer.save(FILE)))


@pytest.mark.parametrize("name", ["gradient_shap", "occlusion"])
@pytest.mark.parametrize("named", [True, False])
def test_series_of_several_inputs(name, named):
    def model(vitals, static):
        return torch.stack([vitals.square().sum((1, 2)), static.sum(1)], 1)

    def inputs(batch, seed):
        both = {"vitals": series(batch, 4, 2, seed), "static": series(batch, 1, 3, seed)[:, 0].numpy()}
        return both if named else tuple(both.values())

    explainer = EXPLAINERS[name]().fit(model, inputs(9, 1))
    again = Explainer.load(explainer.save(FILE))
    expected, found = (each(model, inputs(2, 2)) for each in (explainer, again))
    for part in ("vitals", "static"):
        assert torch.equal(found[part].values, expected[part].values)
    assert again.fingerprint == explainer.fingerprint


def test_a_series_of_numpy_has_the_name_of_its_tensor():
    pool = series(5, TIME, CHANNELS)
    one, two = (EXPLAINERS["gradient_shap"]().fit(torch.sum, each) for each in (pool, pool.numpy()))
    assert one.fingerprint == two.fingerprint


def test_whatever_differs_is_in_the_fingerprint():
    first = learnt("augmented_occlusion")
    moved = replace(first, rows=first.rows.flip(0))
    nudged = replace(first, rows=first.rows.clone())
    nudged.rows.view(torch.int32)[0, 0, 0] += 1
    others = [moved, nudged, replace(first, n_samples=4), replace(first, rows=first.rows.double())]
    others += [replace(first, rows=None), learnt("gradient_shap"), tg.Timing(), tg.Timing(n_samples=51)]
    names = [each.fingerprint for each in (first, *others)]
    assert len(set(names)) == len(names)
    assert learnt("augmented_occlusion").fingerprint == first.fingerprint


def test_a_file_of_one_method_is_read_by_its_class_and_by_no_other(said):
    path = tg.Timing(n_samples=7).save(FILE)
    assert tg.Timing.load(path) == tg.Timing(n_samples=7)
    said.refused(DataError, tg.Fit.load, path)


@pytest.fixture
def saved():
    return learnt("augmented_occlusion").save(FILE)


def rewritten(path, tensors=None, **changes):
    """Change a file as somebody could who knows the format, but leaves the fingerprint alone."""
    with safetensors.safe_open(path, "pt") as file:
        header = file.metadata()
    header = {name: text for name, text in (header | changes).items() if text is not None}
    save_file(load_file(path) if tensors is None else tensors, path, metadata=header)
    return path


def forged(path, **changes):
    """Give a changed file the fingerprint that it must have."""
    rewritten(path, **changes)
    with safetensors.safe_open(path, "pt") as file:
        header = file.metadata()
    parts = LearntParts(json.loads(header["learnt"]), load_file(path))
    name = fingerprint_of_explainer(header["method"], json.loads(header["settings"]), parts)
    return rewritten(path, fingerprint=name)


CHANGES = {
    "a setting": {"settings": json.dumps({"n_samples": 5, "marginal": "per_time", "over": "all"})},
    "a method": {"method": "gradient_shap"},
    "no settings": {"settings": None},
    "settings that are no JSON": {"settings": "{"},
    "a newer format": {"format": "tempograd-explainer-2"},
    "another program": {"format": "pt"},
    "a number that is none": {"format": "tempograd-explainer-²"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused(saved, change, said):
    said.refused(DataError, Explainer.load, rewritten(saved, **CHANGES[change]))


def test_one_changed_bit_is_refused(saved, said):
    tensors = load_file(saved)
    tensors["series.0"].view(torch.int32)[3, 1, 2] ^= 1
    said.refused(DataError, Explainer.load, rewritten(saved, tensors))


FORGED = {
    "a method that is not here": {"method": "no_such_method"},
    "a setting that it lacks": {"settings": json.dumps({"held": 0.5})},
    "a setting out of bounds": {"settings": json.dumps({"n_samples": 0})},
    "settings that are a list": {"settings": "[]"},
    "no inputs": {"learnt": "{}"},
    "a list": {"learnt": "[]"},
    "integers": {"tensors": {"series.0": torch.ones(4, 6, 3, dtype=torch.int64)}},
    "infinity": {"tensors": {"series.0": torch.full((4, 6, 3), torch.inf)}},
    "no tensor": {"tensors": {}},
}


@pytest.mark.parametrize("change", FORGED)
def test_a_forged_file_is_refused(saved, change, said):
    said.refused(DataError, Explainer.load, forged(saved, **FORGED[change]))


@pytest.mark.parametrize(
    "sizes", [{"channels": 4, "hidden": 4}, {"channels": 10**12, "hidden": 4}, {"channels": -1}]
)
def test_sizes_that_the_weights_do_not_have_are_refused_without_memory_for_them(sizes):
    path = learnt("fit").save(FILE)
    with pytest.raises(DataError, match="fit it again"):
        Explainer.load(forged(path, learnt=json.dumps({"sizes": sizes})))


@pytest.mark.parametrize("keep", [0, 7, 200, -1])
def test_a_file_cut_short(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(DataError, match="not a readable safetensors file"):
        Explainer.load(saved)


def test_other_files_are_not_taken_for_explainers_nor_replaced(said):
    model = tg.save_model(tg.MODELS["gru"](3, 2, hidden=2), "model.safetensors")
    said.refused(DataError, Explainer.load, model)
    said.refused(DataError, Explainer.load, "none.safetensors")
    with pytest.raises(OutputError, match="exists and is no explainer that tempograd wrote"):
        tg.Timing().save(model)
    assert Explainer.load(tg.Timing().save(model, force=True)) == tg.Timing()
    assert Explainer.load(tg.Timing(n_samples=9).save(model)) == tg.Timing(n_samples=9)  # its own kind


def test_what_has_no_name_or_no_form_is_not_written(said):
    @dataclass(frozen=True)
    class Variant(tg.Timing):
        pass

    said.refused(InputError, Variant().save, FILE)
    said.refused(InputError, replace(tg.GradientShap(), pool=object()).save, FILE)
    assert not list(Path().iterdir())


def test_an_array_of_numpy_is_kept_as_it_is():
    pool = np.asfortranarray(series(4, TIME, CHANNELS).double().numpy())
    again = tg.GradientShap.load(tg.GradientShap().fit(torch.sum, pool).save(FILE))
    assert np.array_equal(again.pool.numpy(), pool)
    assert again.pool.dtype == torch.float64


def test_a_network_has_the_size_it_learnt_with_whatever_the_settings_say_now():
    explainer = replace(learnt("fit"), hidden=None)
    same_scores(explainer, Explainer.load(explainer.save(FILE)))


def test_methods_that_share_a_network_are_refused_where_series_are_explained_in_parts(said):
    """All others give the first series the scores that they give it alone.

    In double precision: learning magnifies the rounding of single precision, which other batches change.
    """
    for name in (name for name in sorted(EXPLAINERS) if not EXPLAINERS.origin(name)):
        kind = EXPLAINERS[name]
        if kind.shared:
            said.refused(InputError, require_alone, kind())
            continue
        require_alone(kind())
        model, x = Recurrent(per_step=kind.needs_prefixes).double(), series(3, TIME, CHANNELS).double()
        explainer = learnt(name, model)
        with counted_warnings():
            whole, part = (explainer(model, x[:count], seed=1) for count in (3, 1))
        assert torch.allclose(whole.values[:1], part.values, rtol=1e-5, atol=1e-6), name
