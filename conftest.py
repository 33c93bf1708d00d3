"""What all tests run with: one thread, other draws where they are asked for, and a few fixtures."""

import gc
import os
import signal
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: idle threads that spin slow busy cores down

import pytest
import torch
from torch import nn

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # where make test-gpu runs with what is installed
    settings = None

pytest.register_assert_rewrite("tests.helpers", "tests.fuzz", "reproduction.tests.helpers")

from tests.helpers import other_draws  # noqa: E402
from tests.helpers.models import Recurrent  # noqa: E402

collect_ignore_glob = ["tests/plugin_package/*"]  # a package of somebody else's, which a test installs

# the same examples on every machine and every day; make test-slow asks for many more of them
for name, count in (("few", 6), ("many", 200)) if settings else ():
    settings.register_profile(
        name,
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
if settings:
    settings.load_profile(os.environ.get("TEMPOGRAD_EXAMPLES", "few"))
pytest_plugins = ("tests.helpers.snapshots",)
torch.set_num_threads(1)  # the models are small, and a busy machine slows two threads down
if not torch.cuda.is_available():  # torch.manual_seed writes down a traceback for each device that is not there
    for absent in (torch.cuda, torch.xpu, torch.mtia):
        absent.manual_seed_all = lambda seed: None
if other_draws.OFFSET:
    other_draws.change()


if sys.platform == "win32":  # no signals between processes, no pseudo terminals, other permissions and links
    collect_ignore = [
        "reproduction/tests/runner/test_runner.py",
        "reproduction/tests/test_outputs.py",
        "reproduction/tests/test_write_faults.py",
        "tests/cli/test_progress.py",
        "tests/cli/test_demo.py",
        "tests/cli/test_outputs.py",
        "tests/cli/test_signals.py",
        "tests/kills",
        "tests/core/test_io.py",
        "tests/core/test_write_faults.py",
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if other_draws.OFFSET:
        other_draws.leave_out_exact_draws(config, items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare what lives as long as the process: half a million objects would be looked at in every collection."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture
def recurrent() -> nn.Module:
    return Recurrent().eval()


@pytest.fixture(scope="session")
def data_root():
    folder = os.environ.get("TEMPOGRAD_DATA")
    if not folder:
        pytest.skip("needs the real data sets: set TEMPOGRAD_DATA")
    return Path(folder)


@pytest.fixture(scope="module")
def interruptible():
    """Hear Ctrl-C, as children then do, where whoever started the tests ignores it: nohup, some CI."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def little_to_collect():
    """Spare what other tests left: where memory runs out the engine collects garbage, again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def write(tmp_path):
    """Write lines to a text file, and return its path."""

    def to(name, lines):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return to
