"""Files of explanations: whatever is wrong with one, it is one sentence, and never wrong scores."""

import json
import struct
from dataclasses import fields, replace

import numpy as np
import pytest
import safetensors
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import tempograd as tg
from tempograd.core.errors import DataError, InputError
from tempograd.explanation.files import SCHEMA, checksum
from tempograd.explanation.record import NUMBERS
from tempograd_paper import figures
from tests.helpers.models import Recurrent, linear, series

X = series(4, 6, 2)
MODEL = linear(6, 2)
COMPLEX = [torch.complex64] * (tuple(map(int, safetensors.__version__.split(".")[:2])) >= (0, 7))  # unknown before
MASK = torch.rand(X.shape, generator=torch.Generator().manual_seed(1)) < 0.8

RAW = (100 * X.double()).masked_fill(~MASK, torch.nan)


@pytest.fixture(scope="module")
def explanation():
    names = {"channels": ["a", "b"], "ids": list("pqrs"), "units": ["bpm", ""]}
    predictor = tg.Predictor(MODEL, classes=["low", "mid", "high"])
    return tg.explain(predictor, tg.Series(X, mask=MASK, truth=MASK, raw=RAW, **names), tolerance=0.2)


@pytest.fixture(scope="module")
def stored(explanation, tmp_path_factory):
    return explanation.save(tmp_path_factory.mktemp("stored") / "e.safetensors")


def parts(path):
    with safe_open(path, "pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def refused(path, text=None) -> str:
    """Load a file that cannot be right; return what is said."""
    with pytest.raises(DataError, match=text) as caught:
        tg.Explanation.load(path)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said.replace(str(path), "e.safetensors")) <= 300
    assert said.endswith(".")
    return said


def forged(folder, header, tensors):
    """Write a file with a checksum that fits, as somebody who lies would."""
    header = {name: text for name, text in header.items() if name != "checksum"}
    path = folder / "forged.safetensors"
    save_file(tensors, path, {**header, "checksum": checksum(tensors, header)})
    return path


def test_every_changed_byte_is_noticed(stored, tmp_path):
    """The length and the header of the file, its own metadata, and the numbers."""
    content = stored.read_bytes()
    rng, path = np.random.default_rng(0), tmp_path / "e.safetensors"
    (length,) = struct.unpack("<Q", content[:8])
    places = {*range(8), *rng.integers(8, 8 + length, 120), *rng.integers(8 + length, len(content), 120)}
    for key in (b'"schema"', b'"checksum"'):  # without which it would be a file of an earlier version
        places |= {content.index(key) + offset for offset in range(len(key) + 4)}
    for place in sorted(int(place) for place in places):
        changed = bytearray(content)
        for delta in (1, int(rng.integers(2, 256))):  # another letter, and anything
            changed[place] = content[place] ^ delta
            path.write_bytes(changed)
            refused(path)


def test_cut_and_foreign_files_are_refused(stored, tmp_path):
    content, path = stored.read_bytes(), tmp_path / "e.safetensors"
    for size in (0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        refused(path)
    path.write_bytes(content + b"more")
    refused(path)
    path.write_bytes(b"\xff" * 200)
    refused(path)
    refused(tmp_path)
    refused(tmp_path / "nowhere", "does not exist")
    save_file({"values": torch.zeros(1, 1, 1)}, path)
    refused(path, "holds no explanation")
    for wrong in (None, 5, "a\0b", ["e"]):
        with pytest.raises(tg.TempogradError):
            tg.Explanation.load(wrong)


def test_a_number_in_the_body_that_was_changed_is_noticed(stored, tmp_path):
    header, tensors = parts(stored)
    tensors["values"] = tensors["values"] * 2
    save_file(tensors, tmp_path / "e.safetensors", header)
    refused(tmp_path / "e.safetensors", "does not fit its checksum")
    del header["checksum"]
    save_file(tensors, tmp_path / "e.safetensors", header)
    refused(tmp_path / "e.safetensors", "does not fit its checksum")


def test_a_newer_schema_is_not_guessed_at(stored, tmp_path):
    header, tensors = parts(stored)
    assert header["schema"] == str(SCHEMA)
    path = forged(tmp_path, header | {"schema": str(SCHEMA + 1)}, tensors)
    refused(path, f"of a schema beyond {SCHEMA}: upgrade")
    for schema in ("", "one", "-1", "²", "9" * 5000):
        refused(forged(tmp_path, header | {"schema": schema}, tensors))


LIES = {
    "no JSON": lambda plain: "{",
    "NaN text": lambda plain: "nan",
    "empty": lambda plain: "",
    "a list": lambda plain: "[]",
    "deep": lambda plain: "[" * 100_000,
    "seed NaN": lambda plain: json.dumps({**plain, "seed": float("nan")}),
    "many digits": lambda plain: json.dumps(plain).replace('"seed": 0', '"seed": ' + "9" * 5000),
    "large seed": lambda plain: json.dumps({**plain, "seed": 10**30}),
    **{
        f"no {name}": lambda plain, name=name: json.dumps({key: v for key, v in plain.items() if key != name})
        for name in ("output", "seed", "method", "parameters", "fingerprint")
    },
    **{
        f"{name} is {value!r}": lambda plain, name=name, value=value: json.dumps({**plain, name: value})
        for name, values in {
            "output": (None, 3, "logits", ["raw"]),
            "seed": (None, "0", 0.5, True),
            "method": (None, 3),
            "parameters": (None, [], "points"),
            "fingerprint": (None, 3),
            "facts": (None, [], {"complete": 1}, {"deterministic": "yes"}, {"unit": ["points"]}),
            "steps": (1, "all"),
            "signed": (None, "yes"),
            "version": (None, 3),
            "draws": (None, 0, -1, 1.5),
            "varies": (None, 0),
            "columns": (0, -2, "3", True),
            "channels": (["a"], ["a", 3], "ab", 3, {}),
            "times": (["a"] * 5, [[]] * 6),
            "names": (["p"], [None] * 4),
            "call": (None, [], {"pick": 1.5}, {"pick": ["a"]}, {"model_layout": "TDB"}, {"model_layout": None}),
            "classes": (["low", "high"], ["low", "mid", 3], "low", {}),
            "units": (["bpm"], ["bpm", None], "ab"),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused(lie, stored, tmp_path):
    header, tensors = parts(stored)
    path = forged(tmp_path, header | {"tempograd": LIES[lie](json.loads(header["tempograd"]))}, tensors)
    refused(path, "is damaged")


TENSORS = fields(tg.Explanation)
DECLARED = [each.name for each in TENSORS if each.metadata.get("holds") in NUMBERS]


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in {"steps", "y"}])
def test_every_part_is_compared_with_the_scores(name, stored, tmp_path):
    """Its stored size, the size that the header gives it, and both together, which may promise terabytes."""
    header, tensors = parts(stored)
    shapes = json.loads(header["shapes"])
    longer = torch.cat([tensors[name], tensors[name]])
    refused(forged(tmp_path, header, {**tensors, name: longer}), "is damaged")
    for shape in ([10**6, 10**5, 2], [2**62] * 3, [-1] * 3, [], "abc", None, [1.5], {}, shapes[name] + [1]):
        lying = header | {"shapes": json.dumps({**shapes, name: shape})}
        refused(forged(tmp_path, lying, tensors), "is damaged")
        single = {**tensors, name: tensors[name].flatten()[:1].view([1] * tensors[name].ndim)}
        refused(forged(tmp_path, lying, single), "is damaged")
    both = header | {"shapes": json.dumps({**shapes, name: list(longer.shape)})}
    refused(forged(tmp_path, both, {**tensors, name: longer}), "is damaged")
    if name not in {"n_draws", "ess", "n_evals"}:
        for dtype in (torch.int64 if tensors[name].is_floating_point() else torch.float64, *COMPLEX):
            other = {**tensors, name: tensors[name].to(dtype)}
            refused(forged(tmp_path, header, other), "is damaged")


def test_numbers_that_no_explanation_has_are_refused(stored, tmp_path):
    header, tensors = parts(stored)
    for name, number in (("target", 7), ("target", -1), ("gradient_check.found", 9)):
        wrong = {**tensors, name: torch.full_like(tensors[name], number)}
        refused(forged(tmp_path, header, wrong), "must lie in 0")
    refused(forged(tmp_path, header, {**tensors, "ids": torch.zeros_like(tensors["ids"])}), "distinct")
    refused(forged(tmp_path, header, {**tensors, "mask": tensors["mask"].float()}), "mask must hold bool")
    refused(
        forged(tmp_path, header, {**tensors, "values": tensors["values"].long()}), "values must be a float tensor"
    )


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_not_finite_are_refused_where_they_mean_nothing(number, stored, tmp_path):
    header, tensors = parts(stored)
    loaded = set()
    for name in (name for name in tensors if tensors[name].is_floating_point() and not name.startswith("grad")):
        wrong = tensors[name].clone()
        wrong.view(-1)[int(MASK.flatten().nonzero()[0]) if wrong.numel() == MASK.numel() else 0] = number
        path = forged(tmp_path, header, {**tensors, name: wrong})
        try:
            found = tg.Explanation.load(path)
        except DataError:
            assert any(word in refused(path, "is damaged") for word in ("finite numbers", "raw holds NaN"))
            continue
        loaded.add(name)
        assert repr(found) + found.describe(0) + found.verdict()  # whatever is let in can be read
        assert found.plot(0)
    assert loaded == {"delta", *(["standard_error"] if number == torch.inf else [])}


def test_what_is_no_json_is_not_written(explanation, tmp_path):
    odd = replace(explanation, parameters={"metric": object()})
    with pytest.raises(TypeError):
        odd.save(tmp_path / "e")
    assert not list(tmp_path.iterdir())


def test_single_steps_and_own_steps_come_back(tmp_path):
    model = Recurrent(2, per_step=True).eval()
    for steps in ("own", [1, 3]):
        found = tg.explain(model, X, "integrated_gradients", steps=steps, n_steps=4)
        loaded = tg.Explanation.load(found.save(tmp_path / "e"))
        assert torch.equal(loaded.values, found.values)
        assert loaded.steps == found.steps if steps == "own" else torch.equal(loaded.steps, found.steps)


def test_an_explanation_made_by_hand_must_fit_together(explanation):
    for name, wrong in {
        "values": torch.zeros(4, 6),
        "mask": torch.ones(4, 6, 2),
        "x": X[:3],
        "baseline": None,
        "ids": torch.arange(3),
        "target": torch.zeros(4),
        "standard_error": torch.zeros(4, 6, 1),
        "channels": ("a",),
    }.items():
        with pytest.raises(InputError, match=name):
            replace(explanation, **{name: wrong}).verify()


def test_nothing_is_left_of_an_explanation_and_it_still_has_words(explanation, tmp_path):
    none = explanation[:0]
    assert repr(none).startswith("Explanation(0 × 6 × 2, method='timing'")
    assert none.verdict() == "nothing was explained"
    assert "0 series" in none._repr_html_()
    assert len(tg.Explanation.load(none.save(tmp_path / "none"))) == 0
    assert len(none.top(3).values) == 0
    for call in (
        none.plot,
        lambda: tg.plots.channel_importance(none),
        lambda: tg.plots.compare([none]),
        lambda: tg.plots.removal(MODEL, none),
        lambda: tg.report(tmp_path / "r.html", MODEL, none),
        lambda: tg.evaluate(MODEL, none),
    ):
        with pytest.raises(tg.TempogradError) as caught:
            call()
        assert "\n" not in str(caught.value)


NOT_ONE = {
    "None": None,
    "a tensor": X,
    "a path": "e.safetensors",
    "a list": [1, 2],
    "a number": 3,
    "the class": tg.Explanation,
}


@pytest.mark.parametrize("thing", NOT_ONE)
def test_what_is_no_explanation_is_refused(thing, tmp_path):
    value = NOT_ONE[thing]
    for call in (
        lambda: tg.evaluate(MODEL, value),
        lambda: tg.removal_curve(MODEL, value),
        lambda: tg.report(tmp_path / "r.html", MODEL, value),
        lambda: tg.report(tmp_path / "r.html", MODEL, [value]),
        lambda: tg.report(tmp_path / "r.html", MODEL, {"a": value}),
        lambda: tg.plots.series(value),
        lambda: tg.plots.channel_importance(value),
        lambda: tg.plots.compare(value),
        lambda: tg.plots.removal(MODEL, value),
        lambda: figures.timing_steps(MODEL, value),
    ):
        with pytest.raises(InputError, match=r"An Explanation was expected, .* got") as caught:
            call()
        assert len(str(caught.value)) <= 300
    assert not list(tmp_path.iterdir())


STAMPS = tuple(tuple(f"{8 + row + step}:0{row}" for step in range(6)) for row in range(4))


def test_what_people_call_things_comes_back(explanation, tmp_path):
    named = replace(explanation, times=STAMPS)
    back = tg.Explanation.load(named.save(tmp_path / "e.safetensors"))
    assert (back.classes, back.units, back.times) == (("low", "mid", "high"), ("bpm", ""), STAMPS)
    assert back.raw.dtype == torch.float64
    torch.testing.assert_close(back.raw, RAW, rtol=0, atol=0, equal_nan=True)
    without = tg.Explanation.load(named.save(tmp_path / "e.safetensors", series=False))
    assert (without.raw, without.x, without.times) == (None, None, STAMPS)
    plain = tg.Explanation.load(replace(explanation, times=tuple("abcdef")).save(tmp_path / "e.safetensors"))
    assert plain.times == tuple("abcdef")


@pytest.mark.slow
def test_time_stamps_of_more_series_than_a_header_holds(explanation, tmp_path):
    """A header ends at 100 MB; eight stamps of 13 MB are beyond."""
    long = tuple(tuple("x" * 13_000_000 if step % 3 == 0 else "" for step in range(6)) for _ in range(4))
    back = tg.Explanation.load(replace(explanation, times=long).save(tmp_path / "e.safetensors"))
    assert back.times_of(3) == tuple(long[3])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"[[1]]",
        b'[["a"]]',
        b"[" * 100_000,
        json.dumps([[1] * 6] * 4).encode(),
        json.dumps(STAMPS[:3]).encode(),
        None,
    ],
)
def test_time_stamps_that_are_none_are_refused(content, explanation, tmp_path):
    header, tensors = parts(replace(explanation, times=STAMPS).save(tmp_path / "e.safetensors"))
    wrong = torch.zeros(3) if content is None else torch.tensor(list(content), dtype=torch.uint8)
    refused(forged(tmp_path, header, {**tensors, "times": wrong}), "is damaged")


def test_raw_values_that_an_observed_cell_lacks_are_refused(stored, tmp_path):
    header, tensors = parts(stored)
    refused(
        forged(tmp_path, header, {**tensors, "raw": torch.full_like(tensors["raw"], torch.nan)}), "raw holds NaN"
    )
