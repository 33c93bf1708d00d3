"""The generator: uniform, unbiased, streams that know nothing of each other, and the same bits in any batching.

A draw is a function of its key, so a property is either exact or a statistic with a bound that one key in 10¹²
would exceed by chance.
"""

import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tempograd.core.rng import Stream, bits, fold_in, keys, normal, randint, scale, split, uniform
from tests.helpers.strategies import IDS, SEEDS

PURPOSES = st.sampled_from(Stream)
RARE = 1e-12
WORDS = 2**32
DRAWS = 20_000
MANY = st.lists(IDS, min_size=1, max_size=6, unique=True)


def stream(seed, number, purpose=0):
    return keys(seed, torch.tensor([number]), purpose)


def even(counts):
    """Whether counts differ as chance lets them: neither too much, nor too little, as those of a plain counter."""
    expected, freedom = counts.double().mean(), len(counts) - 1
    found = float(((counts - expected) ** 2 / expected).sum())
    return stats.chi2.ppf(RARE, freedom) < found < stats.chi2.isf(RARE, freedom)


@given(SEEDS, IDS, PURPOSES, st.sampled_from([24, 16, 8, 0]))
def test_every_byte_of_the_words_is_uniform(seed, number, purpose, shift):
    drawn = bits(stream(seed, number, purpose), torch.arange(DRAWS))
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < WORDS
    assert even(torch.bincount(drawn >> shift & 255, minlength=256))


@given(SEEDS, IDS, st.integers(2, 40))
def test_integers_below_a_bound_are_uniform(seed, number, bound):
    counts = torch.bincount(randint(stream(seed, number), torch.arange(DRAWS), bound), minlength=bound)
    assert len(counts) == bound
    assert even(counts)


@given(st.data(), st.integers(1, 2**31))
def test_no_integer_below_a_bound_has_more_than_one_word_more_than_another(data, bound):
    """Exactly: v is drawn for the words from ⌈v·2³²/bound⌉ up to those of v+1."""
    value = data.draw(st.integers(0, bound - 1))
    first, last = -(-value * WORDS // bound), -(-(value + 1) * WORDS // bound) - 1
    assert last - first + 1 in (WORDS // bound, WORDS // bound + 1)
    assert scale(torch.tensor([first, last]), bound).tolist() == [value, value]
    if value:
        assert scale(torch.tensor(first - 1), bound).item() == value - 1


def unrelated(first, second):
    """Whether two columns of numbers are correlated no more than chance allows."""
    real = torch.stack([first, second]).double() / WORDS - 0.5
    correlation = float((real[0] * real[1]).mean() * 12)
    return abs(correlation) < stats.norm.isf(RARE / 2) / len(real[0]) ** 0.5


@given(SEEDS, IDS, PURPOSES, st.data())
def test_streams_with_another_key_are_unrelated(seed, number, purpose, data):
    """Keys one bit apart; a stream and the streams derived from it; and neighbours within one."""
    bit = 1 << data.draw(st.integers(0, 62))
    own, counter = stream(seed, number, purpose), torch.arange(DRAWS)
    drawn = bits(own, counter)
    others = [
        stream(seed ^ bit, number, purpose),
        stream(seed, number ^ bit, purpose),
        stream(seed, number, (purpose + 1) % len(Stream)),
        split(own, 0),
        fold_in(own, 3)[..., 2],
    ]
    for other in others:
        assert unrelated(drawn, bits(other, counter))
        assert not torch.equal(drawn[:4], bits(other, counter[:4]))
    assert unrelated(drawn[1:], drawn[:-1])
    assert unrelated(bits(fold_in(own, DRAWS), 0)[0], bits(fold_in(own, DRAWS), 1)[0])


@given(SEEDS, MANY, PURPOSES, st.data())
def test_bits_do_not_depend_on_how_they_are_batched(seed, numbers, purpose, data):
    ids, counter = torch.tensor(numbers), torch.arange(12)
    whole = bits(keys(seed, ids, purpose)[..., None], counter)
    rows = data.draw(st.lists(st.sampled_from(range(len(numbers))), min_size=1, max_size=8))
    cut = data.draw(st.integers(0, 12))
    some = keys(seed, ids[rows], purpose)[..., None]
    parts = torch.cat([bits(some, counter[:cut]), bits(some, counter[cut:])], -1)
    assert torch.equal(parts, whole[rows])
    assert torch.equal(bits(some, counter.flip(0)), whole[rows].flip(-1))
    points = data.draw(st.integers(1, 9))
    longer = fold_in(keys(seed, ids, purpose), 9)
    assert torch.equal(fold_in(keys(seed, ids[rows], purpose), points), longer[:, rows, :points])


@given(SEEDS, IDS)
def test_real_numbers_follow_their_distributions(seed, number):
    """Kolmogorov and Smirnov's distance, whose tail is below 2·exp(-2nd²) for any n."""
    own, counter = stream(seed, number), torch.arange(DRAWS)
    bound = (torch.tensor(2 / RARE).log().item() / (2 * DRAWS)) ** 0.5
    flat = uniform(own, counter, torch.float64)
    assert 0 < float(flat.min()) < float(flat.max()) < 1
    assert stats.kstest(flat.numpy(), "uniform").statistic < bound
    torch.testing.assert_close(
        normal(own, counter), torch.from_numpy(stats.norm.ppf(flat)), rtol=1e-10, atol=1e-10
    )
