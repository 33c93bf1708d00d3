"""Thousands of calls, settings, files and commands, half-right: the right answer, or one clear sentence.

All are weekly (``make test-all``), and ``make fuzz`` makes many more.
``FUZZ_SEED=3 FUZZ_CASE=calls:117 python -m pytest -m slow tests/fuzz/test_fuzz.py`` runs one case again.
"""

from collections import Counter

import pytest

from tests.fuzz.kinds_of_cases import BLOCK, CASE, SEED, counts, run
from tests.fuzz.trials import REFUSED, RIGHT

CALLS = 1650
BLOCKS = (
    [(CASE.partition(":")[0], range(int(CASE.partition(":")[2]), int(CASE.partition(":")[2]) + 1))]
    if CASE
    else [
        (kind, range(start, min(start + BLOCK, count)))
        for kind, count in counts(CALLS).items()
        for start in range(0, count, BLOCK)
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "numbers"), BLOCKS, ids=lambda part: str(getattr(part, "start", part)))
def test_right_answers_or_one_sentence(kind, numbers):
    found = run(kind, SEED, numbers)
    faults = [text for _, text in found if text]
    assert not faults, "\n".join(faults)
    if len(numbers) == BLOCK:  # the generators reach what lies behind the doors, and the doors too
        reached = Counter(outcome.kind for outcome, _ in found)
        assert reached[RIGHT] >= 2
        assert reached[REFUSED] >= 2
