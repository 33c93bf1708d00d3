"""What is written is read again, to the last bit, whatever the numbers and the names are."""

import csv
import gzip
import math
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import tempograd as tg
from tempograd.core.question import Question
from tempograd.explanation import Facts
from tests.helpers.explanations import made
from tests.helpers.strategies import IDS, NAMES, SEEDS, batches

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def folder():
    return tempfile.TemporaryDirectory()


def filled(draw, shape, numbers):
    """Draw a tensor number by number, so that the largest, the smallest and -0 are among them."""
    size = math.prod(shape)
    return torch.tensor(draw(st.lists(numbers, min_size=size, max_size=size)), dtype=torch.float32).view(shape)


@st.composite
def explanations(draw):
    """Draw an explanation with any of the parts that one may have."""
    batch = draw(batches())
    count, time, channels = shape = batch.x.shape
    maybe = st.booleans()
    parts = {"x": batch.x, "mask": batch.mask, "ids": batch.ids, "seed": draw(SEEDS), "baseline": batch.x * 0}
    parts["target"] = draw(st.sampled_from([None, torch.zeros(count, dtype=torch.int64)]))
    if draw(maybe):
        errors = st.floats(0, math.inf, width=32)
        parts |= {"standard_error": filled(draw, shape, errors), "ess": torch.ones(shape)}
    if draw(maybe):
        parts["steps"] = draw(st.sampled_from(["own", torch.ones(count, time, dtype=torch.bool)]))
    if draw(maybe):
        parts["delta"] = filled(draw, (count,), FLOATS)
    if draw(maybe):
        parts["facts"] = Facts(complete=draw(maybe), deterministic=draw(st.sampled_from([None, True, False])))
    for name, size in (("channels", channels), ("times", time), ("names", count), ("units", channels)):
        if draw(maybe):
            parts[name] = tuple(draw(st.lists(NAMES, min_size=size, max_size=size)))
    if draw(maybe):
        stamps = st.lists(NAMES, min_size=time, max_size=time).map(tuple)
        parts["times"] = tuple(draw(st.lists(stamps, min_size=count, max_size=count)))
    if draw(maybe):
        parts["raw"] = filled(draw, shape, FLOATS).double()
    parts["parameters"] = draw(st.dictionaries(NAMES, st.one_of(st.none(), SEEDS, FLOATS, NAMES), max_size=3))
    parts["method"] = draw(NAMES)
    return made(filled(draw, shape, FLOATS), **parts)


def same(one, other):
    if isinstance(one, torch.Tensor):
        bits = {torch.float32: torch.int32, torch.float64: torch.int64}.get(one.dtype, one.dtype)
        return one.dtype == other.dtype and torch.equal(one.view(bits), other.contiguous().view(bits))
    return all(map(same, vars(one).values(), vars(other).values())) if isinstance(one, Question) else one == other


@given(explanations(), st.booleans())
def test_an_explanation_comes_back_to_the_last_bit(explanation, series):
    with folder() as where:
        back = tg.Explanation.load(explanation.save(Path(where) / "e.safetensors", series=series))
    for field in fields(explanation):
        one, other = getattr(explanation, field.name), getattr(back, field.name)
        if field.name in {"x", "raw"} and not series:
            assert other is None
        else:
            assert same(one, other), field.name


TEXTS = NAMES.filter(lambda text: "\0" not in text)
WORDS = TEXTS.map(str.strip).filter(lambda text: text and "\r" not in text)  # cells are stripped, \r is read as \n


@st.composite
def tables(draw, texts):
    """Draw series with gaps as nested lists, and names for everything that may have one."""
    count, time, channels = (draw(st.integers(1, most)) for most in (3, 4, 3))
    cells = st.one_of(st.none(), FLOATS)
    x = [[[draw(cells) for _ in range(channels)] for _ in range(time)] for _ in range(count)]
    x[0][0][0] = 0.5 if x[0][0][0] is None else x[0][0][0]  # a file without any value is refused
    own = texts.filter(lambda text: text not in {"id", "time"})
    named = draw(st.lists(own, min_size=channels, max_size=channels, unique=True))
    return x, named, draw(st.lists(texts, min_size=count, max_size=count, unique=True))


def expected(x):
    array = np.array(x, dtype=np.float64)
    return torch.from_numpy(np.nan_to_num(array)), torch.from_numpy(np.isfinite(array))


def compared(found, x, channels, dtype=torch.float32):
    found = found.padded()  # to the last step that any of them has
    values, observed = (part[:, : found.shape[1]] for part in expected(x))
    assert same(found.x, values.to(dtype))
    assert torch.equal(torch.ones_like(observed) if found.mask is None else found.mask, observed)
    assert found.channels == tuple(channels)


def called(found):
    """Return the names of the series, which are ids where all of them are whole numbers."""
    return [str(name) for name in (found.ids.tolist() if isinstance(found.ids, torch.Tensor) else found.ids)]


@given(tables(WORDS), st.sampled_from(",;\t"), st.booleans())
@example(table=([[[0.5]]], [";;;;"], ["a"]), separator=",", packed=False)
def test_a_table_of_any_numbers_and_names_is_read_as_it_was_written(table, separator, packed):
    x, channels, names = table
    with folder() as where:
        path = Path(where) / ("t.csv.gz" if packed else "t.csv")
        with (gzip.open if packed else open)(path, "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
            writer.writerow(["id", "time", *channels])
            for name, steps in zip(names, x, strict=True):
                writer.writerows(
                    [name, t, *("" if v is None else repr(v) for v in row)] for t, row in enumerate(steps)
                )
        found = tg.read_series(path, id="id", time="time", channels=channels, labels=False)
    compared(found, x, channels)
    assert called(found) == names


@given(tables(TEXTS), st.data())
def test_arrays_of_any_numbers_and_names_are_read_as_they_were_written(table, data):
    x, channels, names = table
    numbers = st.lists(IDS, min_size=len(x), max_size=len(x), unique=True)
    ids = data.draw(st.one_of(numbers, st.just(names)))
    array = np.array(x, dtype=data.draw(st.sampled_from([np.float32, np.float64])))
    with folder() as where:
        path = Path(where) / "a.npz"
        np.savez(path, x=array, channels=channels, ids=ids)
        found = tg.read_series(path, missing="mask")
    compared(found, x, channels, torch.from_numpy(array).dtype)
    assert called(found) == [str(number) for number in ids]
