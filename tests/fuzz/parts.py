"""Arguments of a call, each with what it stands for: a value, nonsense that must be refused, or something open."""

import random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from tests.fuzz.odd_arrays import EXACT, NUMPY_FLOATS, OTHERS, REFUSED, TORCH_FLOATS, of_nothing
from tests.fuzz.worlds import CHANNELS, TIME, World

MAX = 2**63 - 1


class Sign(NamedTuple):
    """A word in place of a value."""

    word: str


NONSENSE = Sign("nonsense")  # must be refused
OPEN = Sign("open")  # may be refused or not
LEFT_OUT = Sign("left out")  # the argument is not given at all


class Part(NamedTuple):
    """An argument: what is passed, and what it stands for."""

    value: Any
    means: Any


def shown(value: Any) -> str:
    """Write a value in a line of a report."""
    try:
        shape = getattr(value, "shape", None)
        text = f"{type(value).__name__}{tuple(shape)}" if isinstance(shape, tuple) and shape else repr(value)
    except Exception:  # some of the odd values cannot show themselves
        text = f"a {type(value).__name__}"
    return " ".join(text.split())[:60]


def listed(options: dict[str, Any]) -> str:
    """Write arguments in a line of a report."""
    return ", ".join(f"{name}={shown(value)}" for name, value in options.items())


def nothing(rng: random.Random) -> Any:
    """Return something that is no array, no number and no word that anybody knows."""
    return rng.choice(list(of_nothing())).value


NUMBERS_GONE_WRONG: tuple[Any, ...] = (
    *(1.5, "1", "", [], {}, (1, 2), True, b"1", 1j, np.float32(2.5), np.array([1, 2]), float("nan"), float("inf")),
    *(-(10**400), 2**63, torch.tensor([1, 2]), object(), np.datetime64("2020-01-01"), "nine\nlines\n" * 30),
)


def integer(rng: random.Random, sound: tuple[int, ...], least: int) -> Part:
    """Return an integer in one of its forms, or nonsense."""
    value = rng.choice(sound)
    return rng.choice(
        [
            Part(value, value),
            Part(np.int64(value), value),
            Part(rng.choice(NUMBERS_GONE_WRONG), NONSENSE),
            Part(least - rng.choice((1, 2, 10**9)), NONSENSE),
        ]
    )


# --- series ----------------------------------------------------------------------------------------------------


def numbers(rng: random.Random, *shape: int) -> np.ndarray:
    """Return numbers that every kind of float holds exactly."""
    return np.array([rng.choice(EXACT) for _ in range(int(np.prod(shape)))]).reshape(shape)


def floats_as(rng: random.Random, given: np.ndarray) -> Any:
    """Return the same float64 numbers in one of the forms that are accepted wherever floats are."""
    forms = {**NUMPY_FLOATS, **TORCH_FLOATS, **OTHERS}
    return forms[rng.choice(sorted(forms))](given)


def series(rng: random.Random, x: np.ndarray) -> Part:
    """Return series ``x`` in an odd form, or what is none."""
    kind = rng.randrange(8)
    if kind < 3:
        return Part(floats_as(rng, x), x)
    if kind == 3:
        return Part(REFUSED[rng.choice(sorted(REFUSED))](x), NONSENSE)
    if kind == 4:
        return Part(nothing(rng), NONSENSE)
    if kind == 5:
        wrong = (x[0], x[:0], x[:, :0], x[..., :0], x[None], x[..., 0], x.astype(np.int64), x > 0, x[0, 0, 0])
        return Part(rng.choice(wrong), NONSENSE)
    if kind == 6:
        broken = x.copy()
        broken[0, -1, 0] = rng.choice((np.nan, np.nan, np.inf, -np.inf))
        gaps = ("gaps", np.isnan(broken)) if np.isnan(broken).any() else NONSENSE
        return Part(torch.from_numpy(broken).float(), gaps)
    return Part((torch.from_numpy(x) * rng.choice((1e-42, 1e-30, 1e30, 1e38))).float(), OPEN)


def mask(rng: random.Random, shape: tuple[int, ...]) -> Part:
    """Return which cells were observed."""
    seen = np.array([rng.random() < 0.75 for _ in range(int(np.prod(shape)))]).reshape(shape)
    if rng.random() < 0.2:
        seen[:, -1] = False  # padding
    if rng.random() < 0.1:
        seen[0] = False  # a series of which nothing was observed
    if rng.random() < 0.7:
        forms = (
            seen,
            seen.astype(np.uint8),
            torch.from_numpy(seen),
            torch.from_numpy(seen).float(),
            seen[::-1].copy()[::-1],
        )
        return Part(rng.choice(forms), seen)
    wrong = (
        seen[0],
        seen[..., 0],
        seen * 0.5,
        seen * 2,
        seen - 1.0,
        np.where(seen, np.nan, 1),
        nothing(rng),
        "mask",
    )
    value = rng.choice(wrong)
    fits = isinstance(value, np.ndarray) and value.shape == shape
    return Part(value, OPEN if fits and bool(np.isin(value, (0, 1)).all()) else NONSENSE)


def baseline(rng: random.Random, x: np.ndarray, seen: np.ndarray) -> Part:
    """Return what "absent" means, like x, in one of its forms."""
    kind = rng.randrange(7)
    if kind == 0:
        return Part(rng.choice((None, "zero")), np.zeros_like(x))
    if kind == 1:
        count = seen.sum(1, keepdims=True)
        return Part("average", np.broadcast_to((x * seen).sum(1, keepdims=True) / np.maximum(count, 1), x.shape))
    if kind == 2:
        value = rng.choice((2, -1.5, 0, np.float64(0.5), np.int8(3), torch.tensor(1.5)))
        return Part(value, np.full_like(x, float(value)))
    if kind in (3, 4):
        given = numbers(rng, *rng.choice((x.shape, x.shape[1:], x.shape[2:], (1, *x.shape[1:]), (x.shape[1], 1))))
        return Part(floats_as(rng, given), np.broadcast_to(given, x.shape))
    wrong = (
        "mean",
        "",
        np.full_like(x, np.nan),
        numbers(rng, 7),
        numbers(rng, 2, *x.shape),
        np.inf,
        True,
        [[1, 2], [3]],
    )
    return Part(rng.choice((*wrong, nothing(rng), REFUSED[rng.choice(sorted(REFUSED))](x))), NONSENSE)


# --- what is asked ---------------------------------------------------------------------------------------------


def target(rng: random.Random, world: World, count: int, output: str) -> Part:
    """Return a class for each series, or for each step of each, (series,) or (series, time)."""
    classes = 2 if world.columns == 1 and output == "probability" else world.columns
    shape = (count, TIME) if world.per_step else (count,)
    kind = rng.randrange(6)
    if kind < 2:
        one = rng.randrange(classes)
        forms = (one, np.int64(one), torch.tensor(one), np.uint8(one))
        return Part(rng.choice(forms), np.full(shape, one))
    if kind < 4:
        many = np.array([rng.randrange(classes) for _ in range(int(np.prod(shape)))]).reshape(shape)
        if world.per_step and rng.random() < 0.3:
            return Part(many[:, 0].tolist(), np.broadcast_to(many[:, :1], shape))
        forms = (many, torch.from_numpy(many), many.astype(np.uint8), many.tolist(), many.astype(">i4"))
        return Part(rng.choice(forms), many)
    wrong = (
        classes,
        -1,
        10**30,
        1.0,
        "1",
        True,
        [0] * (count + 1),
        np.zeros(shape),
        torch.zeros(*shape, 2).long(),
        [],
    )
    return Part(
        rng.choice((*wrong, [None] * count, {"a": 1}, np.full(shape, classes), np.full(shape, 2**63, np.uint64))),
        NONSENSE,
    )


def steps(rng: random.Random, world: World, count: int) -> Part:
    """Return which steps are explained, (series, time), or "own"."""
    if not world.per_step:
        return Part(rng.choice((0, [0], "own", torch.ones(count, TIME, dtype=torch.bool), "x", 1.5)), NONSENSE)
    kind = rng.randrange(5)
    if kind == 0:
        return Part("own", "own")
    if kind < 3:
        some = sorted(rng.sample(range(TIME), rng.randint(1, TIME)))
        chosen = np.zeros((count, TIME))
        chosen[:, some] = 1
        forms = (
            some,
            tuple(some),
            np.array(some),
            torch.tensor(some),
            chosen[0] > 0,
            torch.from_numpy(chosen > 0),
        )
        return Part(rng.choice(forms if len(some) > 1 else (*forms, some[0], np.int64(some[0]))), chosen)
    wrong = (
        TIME,
        -1,
        [0, TIME],
        "all",
        "",
        [],
        [0.0],
        1.5,
        np.ones((count, TIME)),
        [[0, 1]],
        [True],
        {0},
        b"own",
        nothing(rng),
    )
    return Part(rng.choice(wrong), NONSENSE)


def seed(rng: random.Random) -> Part:
    """Return a seed."""
    value = rng.choice((0, 1, -7, 12345, MAX, -MAX - 1))
    wrong = (1.0, "0", None, [0], MAX + 1, -(10**30), True, np.array([1, 2]), torch.tensor(1.5))
    return rng.choice([Part(value, value), Part(np.int64(value), value), Part(rng.choice(wrong), NONSENSE)])


def ids(rng: random.Random, count: int) -> Part:
    """Return distinct integers, one for each series."""
    some = rng.sample(range(-5, 50), count)
    far = [MAX - number for number in range(count)]
    wrong = (
        [1] * (count + 1),
        some[1:],
        ["a"] * (count + 1),
        [0.5] * count,
        3,
        "abc",
        [None] * count,
        [2**64] * count,
    )
    if rng.random() < 0.4:
        return Part(rng.choice((*wrong, np.full(count, 2**63, np.uint64), [[1]] * count, nothing(rng))), NONSENSE)
    chosen = rng.choice((some, far))
    forms = (
        chosen,
        tuple(chosen),
        np.array(chosen),
        torch.tensor(chosen),
        pd.Series(chosen),
        np.array(chosen, ">i8"),
    )
    return Part(rng.choice(forms), chosen)


ODD_NAMES = ("", "a", "a\nb", "ä", "\x1b[31mred", "<b>", "$x$", "x" * 500, "📈", "0", "%s", "{0}", "\ud800", "a,b")


def labels(rng: random.Random, count: int) -> Part:
    """Return a name for each of a few things; an explanation has spaces where signs would steer a terminal."""
    found = [rng.choice(ODD_NAMES[:-2] + ODD_NAMES[-1:]) + str(place) for place in range(count)]
    if rng.random() < 0.4:
        wrong = (
            [*found, "more"],
            found[1:],
            "ab",
            5,
            {"a": 1},
            b"ab",
            np.zeros((count, 2)),
            ...,
            {*found},
            1.5,
            object(),
        )
        return Part(rng.choice(wrong), NONSENSE)
    forms = (found, tuple(found), np.array(found), pd.Index(found), iter(found), np.array(found, object))
    return Part(rng.choice(forms), ["".join(s if s.isprintable() else " " for s in text) for text in found])


def word(rng: random.Random, known: tuple[str, ...], none: Sign = NONSENSE) -> Part:
    """Return one of the known words, or nonsense, which None may be or not."""
    if rng.random() < 0.6:
        value = rng.choice(known)
        return Part(value, value)
    wrong = (
        "",
        "x" * 5000,
        None,
        1,
        known[0].upper() + "!",
        [known[0]],
        known[0].encode(),
        True,
        {known[0]},
        object(),
    )
    value = rng.choice(wrong)
    return Part(value, none if value is None else NONSENSE)


def flag(rng: random.Random) -> Part:
    """Return True or False."""
    value = rng.random() < 0.5
    wrong = ("no", 2, None, [True], np.array([True, False]), 0.0)
    return rng.choice([Part(value, value), Part(np.bool_(value), value), Part(rng.choice(wrong), NONSENSE)])


SHAPE = (TIME, CHANNELS)
