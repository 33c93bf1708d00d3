"""The generator against its definition; that it is uniform and its streams unrelated is in tests/properties."""

from pathlib import Path

import pytest
import torch

from tempograd.core import rng
from tempograd.core.rng import bits, fold_in, keys, uniform


def mix(h: int) -> int:
    """The mixer of the module's docstring, with Python's unbounded integers."""
    h ^= h >> 16
    h = h * 0x21F0AAAD % 2**32
    h ^= h >> 15
    h = h * 0x735A2D97 % 2**32
    return h ^ (h >> 15)


@pytest.mark.exact_draws
def test_words_follow_the_definition_for_any_integers():
    for seed, key, purpose, counter in [(0, 0, 0, 0), (7, 12, 1, 5), (-3, -1, 2, 9), (2**40 + 1, 2**62, 0, 2**31)]:
        lanes = []
        for start in (0x243F6A88, 0x13198A2E):
            lane = start
            for word in (seed % 2**32, (seed >> 32) % 2**32, purpose, key % 2**32, (key >> 32) % 2**32):
                lane = mix(lane ^ word)
            lanes.append(lane)
        expected = (mix(lanes[0] ^ counter) + lanes[1]) % 2**32
        stream = keys(seed, torch.tensor([key]), purpose)
        assert bits(stream, counter).item() == expected
        for many in (torch.tensor(counter), torch.tensor([[counter], [0]])):  # the words of a CPU
            assert bits(stream, many).flatten()[0].item() == expected


def test_words_of_many_counters_are_those_of_one_at_a_time():
    stream = fold_in(keys(3, torch.arange(4), 0), 5)[..., None]
    counters = torch.cat([torch.arange(6), 2**31 + torch.arange(6), 2**32 - 1 - torch.arange(6)])
    together = bits(stream, counters)
    assert together.shape == (4, 5, 18)
    assert int(together.max()) > 2**31  # no sign
    for place, counter in enumerate(counters.tolist()):
        assert torch.equal(together[..., place : place + 1], bits(stream, counter))


@pytest.mark.parametrize(("word", "expected"), [(0, 2.0**-24), (2**32 - 1, 1 - 2.0**-24)])
def test_uniform_is_inside_the_interval_for_the_first_and_the_last_word(word, expected):
    """The mixer keeps 0, so a stream of the lanes 0 and w gives the word w at counter 0."""
    assert uniform(torch.tensor([[0], [word]]), 0).item() == expected


def test_no_two_uses_of_a_seed_may_share_a_number():
    """Python takes a second name of one number for the same member, unless it is told not to."""
    mistyped = Path(rng.__file__).read_text().replace("SAMPLES = 14\n", "SAMPLES = 14\n    NOISE = 14\n")
    assert "NOISE = 14" in mistyped
    with pytest.raises(ValueError, match="NOISE -> SAMPLES"):
        exec(mistyped, {"__name__": "mistyped"})
