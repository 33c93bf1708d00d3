"""Where the real data sets are, for those who have them."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root():
    folder = os.environ.get("TEMPOGRAD_DATA")
    if not folder:
        pytest.skip("needs the real data sets: set TEMPOGRAD_DATA")
    return Path(folder)
