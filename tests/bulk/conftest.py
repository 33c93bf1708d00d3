"""What tests of runs share."""

import pytest

from tempograd.models import specs
from tests.bulk.killed import answer_here


@pytest.fixture
def tried_here(monkeypatch):
    """Try models that travel in this process, not in a new one, which takes seconds: tests/models has that."""
    monkeypatch.setattr(specs, "_outputs_elsewhere", answer_here)
