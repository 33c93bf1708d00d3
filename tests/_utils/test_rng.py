import pytest
import torch

from tempograd._utils.rng import bits, keys, randint, split, uniform


def stream(seed: int, ids: list[int], purpose: int = 0) -> torch.Tensor:
    return keys(seed, torch.tensor(ids), purpose)[..., None]


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
        assert bits(keys(seed, torch.tensor([key]), purpose), counter).item() == expected


def test_every_part_of_the_key_matters():
    base = bits(stream(1, [2], 3), torch.arange(64))
    others = [
        stream(2, [2], 3),
        stream(1, [3], 3),
        stream(1, [2], 4),
        stream(1 + 2**32, [2], 3),
        stream(1, [2 + 2**32], 3),
    ]
    others.append(split(stream(1, [2], 3), 0))
    for other in others:
        assert (bits(other, torch.arange(64)) == base).float().mean() < 0.05


def test_bits_are_uniform_and_unrelated_between_neighbours():
    sample = bits(stream(0, list(range(50))), torch.arange(20000))
    counts = torch.bincount((sample >> 24).flatten(), minlength=256).double()
    chi2 = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi2 < 255 + 5 * (2 * 255) ** 0.5
    ones = ((sample[..., None] >> torch.arange(32)) & 1).double().mean((0, 1))
    assert ((ones - 0.5).abs() < 5 * 0.5 / 1e6**0.5).all()
    real = sample.double() / 2**32 - 0.5
    assert (real[:, 1:] * real[:, :-1]).mean().abs() < 5 / 12 / 1e6**0.5
    assert (real[1:] * real[:-1]).mean().abs() < 5 / 12 / 1e6**0.5


def test_randint_is_uniform_for_a_bound_that_is_no_power_of_two():
    sample = randint(stream(3, [1]), torch.arange(70000), 7)[0]
    frequency = torch.bincount(sample, minlength=7) / 70000
    assert len(frequency) == 7
    assert ((frequency - 1 / 7).abs() < 5 * (1 / 7 * 6 / 7 / 70000) ** 0.5).all()


def test_uniform_never_reaches_its_ends():
    sample = uniform(stream(3, [1]), torch.arange(100000))
    assert 0 < sample.min() < 1e-3
    assert 1 - 1e-3 < sample.max() < 1


@pytest.mark.parametrize(("word", "expected"), [(0, 2.0**-24), (2**32 - 1, 1 - 2.0**-24)])
def test_uniform_is_inside_the_interval_for_the_first_and_the_last_word(word, expected):
    """The mixer keeps 0, so a stream of the lanes 0 and w gives the word w at counter 0."""
    assert uniform(torch.tensor([[0], [word]]), 0).item() == expected
