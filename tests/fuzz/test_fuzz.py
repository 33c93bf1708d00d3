"""Thousands of calls, settings, files and commands, half-right: the right answer, or one clear sentence.

Half of them are run always, the others by ``make test-slow``, and many more by ``make fuzz``.
``FUZZ_SEED=3 FUZZ_CASE=calls:117 python -m pytest tests/fuzz/test_fuzz.py`` runs one case again, and alone.
"""

from collections import Counter

import pytest

from tests.fuzz.kinds_of_cases import BLOCK, CASE, SEED, counts, run
from tests.fuzz.trials import REFUSED, RIGHT

CALLS = 2400
BLOCKS = (
    [(CASE.partition(":")[0], range(int(CASE.partition(":")[2]), int(CASE.partition(":")[2]) + 1))]
    if CASE
    else [
        (kind, range(start, min(start + BLOCK, count)))
        for kind, count in counts(CALLS).items()
        for start in range(0, count, BLOCK)
    ]
)


def case(kind, numbers):
    often = bool(CASE) or numbers.start < counts(CALLS // 2)[kind]
    return pytest.param(kind, numbers, id=f"{kind}-{numbers.start}", marks=() if often else pytest.mark.slow)


@pytest.mark.parametrize(("kind", "numbers"), [case(*block) for block in BLOCKS])
def test_right_answers_or_one_sentence(kind, numbers):
    found = run(kind, SEED, numbers)
    faults = [text for _, text in found if text]
    assert not faults, "\n".join(faults)
    if len(numbers) == BLOCK:  # the generators reach what lies behind the doors, and the doors too
        reached = Counter(outcome.kind for outcome, _ in found)
        assert reached[RIGHT] >= 2
        assert reached[REFUSED] >= 2
