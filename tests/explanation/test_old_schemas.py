"""Files of schemas 2, 3 and 4 hold what the code that wrote them read in them (``write_old_schemas.py``)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from torch import Tensor

import tempograd as tg
from tempograd.explanation.targets import called

SAME = (  # fields that are called now as then
    *("values", "standard_error", "baseline", "mask", "x", "raw", "n_draws", "ess", "n_evals", "delta"),
    *("prediction", "target", "steps", "ids", "gradient_check"),
    *("output", "seed", "method", "parameters", "facts", "fingerprint", "signed", "version", "draws", "varies"),
    *("mixes_series", "columns", "channels", "times", "names", "classes", "units", "task", "output_shape"),
    *("target_text", "picker", "background"),
    *("inputs", "n_outputs", "baseline_kind", "labels"),  # told by the others
)
NOW = {name: name for name in SAME} | {"call": "call.plain", "fixed": "call.tensors"}  # where they are
THEN = {  # what schema 2 called them
    "free_points": "n_draws",
    "effective_points": "ess",
    "passes": "n_evals",
    "change": "delta",
}
PART = {  # where it is what an explanation says of one of several inputs
    **{name: name for name in ("name", "values", "standard_error", "n_draws", "ess", "x", "baseline", "mask")},
    **{name: name for name in ("raw", "channels", "units")},
}
GONE = {"curve_samples", "curve_points", "curve_error"}  # which no explanation has any more
LATER = {  # what files say that were written before a field was there
    **dict.fromkeys(("raw", "prediction", "classes", "units", "task", "background", "picker")),
    "mixes_series": False,
    "output_shape": [],
    "target_text": "",
    "call": {"pick": None, "model_layout": "BTD"},
    "fixed": {},
}
TIMING = {"controls": "control_variates", "max_points": "max_samples", "until": "stop_when"}
SETTINGS = {  # what schema 2 called settings, by method
    "timing": TIMING | {"points": "n_samples"},
    "rand_ig": {"points": "n_samples"},
    "gradient_shap": {"points": "n_samples"},
    "integrated_gradients": {"points": "n_steps"},
    "lime": {"samples": "n_samples"},
    "augmented_occlusion": {"samples": "n_samples"},
    "fit": {"samples": "n_samples", "batch_size": "fit_batch_size"},
    "winit": {"samples": "n_samples", "batch_size": "fit_batch_size"},
    "timex": {"batch": "fit_batch_size"},
    "extremal_mask": {"batch": "fit_batch_size"},
}
HERE = Path(__file__).parent
FOLDERS = ("schema_2", "schema_3", "schema_3/early", "schema_4", "schema_4/early")


@cache
def expected(folder):
    """Return what the code of then read in each file, in today's words."""
    every = json.loads((HERE / folder / "expected.json").read_text(encoding="utf-8"))
    for was in every.values():
        if (was.get("task"), was["columns"]) == ("classification", 1):
            was["task"] = "binary"
    return {name: in_new_words(was) for name, was in every.items()} if folder == "schema_2" else every


def in_new_words(was):
    words, unit = SETTINGS.get(was["method"], {}), was["facts"]["unit"]
    settings = {words.get(name, name): value for name, value in was["parameters"].items()}
    if was["method"] == "timing" and settings["tolerance"] is None:  # without which these two say nothing
        settings |= {"max_samples": None, "stop_when": None}
    was |= {"parameters": settings, "facts": was["facts"] | {"unit": words.get(unit, unit)}}
    return {THEN.get(name, name): value for name, value in was.items()}


def told(explanation, *others):
    """Return all that an explanation says, by the names of then, and what those of further targets say."""
    content = {name: attrgetter(place)(explanation) for name, place in NOW.items()}
    content["siblings"] = [told(each) for each in others]
    content["targets"] = [called(each) for each in (explanation, *others)]
    content["picker"] = None if content["picker"] is None else content["picker"].spec()
    parts = {name: explanation[name] for name in content["inputs"]}
    content["parts"] = {
        name: {each: getattr(part, place) for each, place in PART.items()} for name, part in parts.items()
    }
    return content


@cache
def found(folder, name):
    return told(*tg.Explanations.load(HERE / folder / f"{name}.safetensors").values())


def plain(value):
    """Return what a thing and what JSON holds of it have in common; all numbers of arrays count, bit by bit."""
    if isinstance(value, Mapping) and "dtype" in value:
        value = np.array(value["numbers"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        array = value.copy()
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan  # of which there are many
        return str(array.dtype), array.shape, array.tobytes()
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return value


def same(one, other):
    return repr(plain(one)) == repr(plain(other))  # where True is not 1


def agrees(now, was, field):
    """Tell whether a field is what it was; of several targets, all that was known of each."""
    if field != "siblings":
        return same(now[field], was.get(field, LATER.get(field)))
    pairs = list(zip(now["siblings"], was["siblings"], strict=True))
    return all(agrees(one, other, name) for one, other in pairs for name in {*other} - GONE)


def asked(folder):
    """Return the fields that the code of then knew, and those that came later."""
    return sorted({*LATER}.union(*expected(folder).values()) - GONE)


@pytest.mark.parametrize(("folder", "field"), [(folder, field) for folder in FOLDERS for field in asked(folder)])
def test_every_field_is_what_it_was(folder, field):
    files = expected(folder)
    assert [name for name, was in files.items() if not agrees(found(folder, name), was, field)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_of_the_schema_that_their_folder_says(folder):
    paths = sorted((HERE / folder).glob("*.safetensors"))
    assert [path.stem for path in paths] == sorted(expected(folder))
    for path in paths:
        with safe_open(path, "pt") as file:
            assert file.metadata()["schema"] == folder.removeprefix("schema_")[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_that_is_written_again_says_the_same(folder, tmp_path):
    for name in expected(folder):
        old = found(folder, name)
        path = tg.Explanations.load(HERE / folder / f"{name}.safetensors").save(tmp_path / "e.safetensors")
        new = told(*tg.Explanations.load(path).values())
        assert [field for field in old if not same(old[field], new[field])] == [], name
