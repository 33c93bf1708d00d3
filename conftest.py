"""Small models and series that many tests share."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

import other_draws

pytest_plugins = ("browsing",)  # tests/browser: fixtures that only browser tests ask for
torch.set_num_threads(1)  # the models are small, and a busy machine slows two threads down
if other_draws.OFFSET:
    other_draws.change()


if sys.platform == "win32":  # no signals between processes, no pseudo terminals, other permissions and links
    collect_ignore = [
        "reproduction/tests/runner/test_runner.py",
        "reproduction/tests/test_paper_outputs.py",
        "reproduction/tests/test_paper_writer_faults.py",
        "tests/cli/test_bars.py",
        "tests/cli/test_demo.py",
        "tests/cli/test_outputs.py",
        "tests/cli/test_signals.py",
        "tests/kills",
        "tests/test_files.py",
        "tests/test_writer_faults.py",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if other_draws.OFFSET:
        other_draws.leave_out_exact_draws(config, items)


def first_seed(suits) -> int:
    """Return the first seed whose series are what a test is about, for instance of two classes."""
    return next(seed for seed in range(100) if suits(seed))


def linear(time: int, channels: int, classes: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(time * channels, classes))


def smooth(time: int, channels: int, classes: int = 3, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(time * channels, 24), nn.Tanh(), nn.Linear(24, classes))
        return nn.Sequential(nn.Flatten(), *layers).double()


class Recurrent(nn.Module):
    """A GRU with dropout between its layers and batch normalisation: much that can be disturbed."""

    def __init__(self, channels: int = 3, classes: int = 3, *, per_step: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru = nn.GRU(channels, 8, num_layers=2, dropout=0.4, batch_first=True)
            self.norm = nn.BatchNorm1d(8)
            self.head = nn.Linear(8, classes)
        self.per_step = per_step

    def forward(self, x):
        states = self.gru(x)[0]
        if self.per_step:
            return self.head(self.norm(states.transpose(1, 2)).transpose(1, 2))
        return self.head(self.norm(states[:, -1]))


def series(batch: int, time: int, channels: int, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(batch, time, channels, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.fixture
def recurrent() -> nn.Module:
    return Recurrent().eval()


@pytest.fixture(scope="session")
def data_root():
    folder = os.environ.get("TEMPOGRAD_DATA")
    if not folder:
        pytest.skip("needs the real data sets: set TEMPOGRAD_DATA")
    return Path(folder)


@pytest.fixture
def write(tmp_path):
    """Write lines to a text file, and return its path."""

    def to(name, lines):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return to


@pytest.fixture
def spare(tmp_path_factory, monkeypatch):
    """An empty folder in the place of the system's for temporary files, where results end that had no other."""
    folder = tmp_path_factory.mktemp("spare")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
