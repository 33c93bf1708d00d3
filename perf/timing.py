"""Several ways to do the same work, timed in turn, as ratios with their range: what the benchmarks share."""

import importlib.metadata
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import tempograd as tg

Work = Callable[[], Any]
Figures = dict[str, Any]


class Turns(NamedTuple):
    """Seconds of every side, round by round, and what each side gave last."""

    seconds: dict[str, list[float]]
    results: dict[str, Any]

    def against(self, base: str) -> dict[str, Figures]:
        """Return every other side as a multiple of ``base``."""
        return {name: self.ratio(name, base) for name in self.seconds if name != base}

    def ratio(self, side: str, base: str) -> Figures:
        """Divide round by round, which a drifting machine moves less than a ratio of medians."""
        pairs = zip(self.seconds[side], self.seconds[base], strict=True)
        return {"seconds": statistics.median(self.seconds[side])} | spread(one / other for one, other in pairs)


def seconds(work: Work) -> tuple[float, Any]:
    _wait()
    start = time.perf_counter()
    result = work()
    _wait()
    return time.perf_counter() - start, result


def note(text: str) -> None:
    """Say on standard error what comes next: some parts take minutes."""
    print(text, file=sys.stderr, flush=True)


def in_turn(sides: Mapping[str, Work], rounds: int, cold: Collection[str] = ()) -> Turns:
    """Time all sides round after round, every second round in the opposite order.

    Each side runs once before that, but for those that are ``cold``: minutes long, with nothing to warm up.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    results = {name: work() for name, work in sides.items() if name not in cold}
    for turn in range(rounds):
        for name in list(sides) if turn % 2 == 0 else reversed(list(sides)):
            took, results[name] = seconds(sides[name])
            taken[name].append(took)
    return Turns(taken, results)


def spread(values: Iterable[float]) -> Figures:
    """Return median, range and number."""
    found = sorted(values)
    return {"median": statistics.median(found), "least": found[0], "most": found[-1], "rounds": len(found)}


def bare(model: nn.Module, x: Tensor, sequences: int, batch: int) -> None:
    """Forward and backward to the input, ``batch`` sequences at a time, and nothing else.

    Denormal numbers are flushed, as the engine does: gradients that vanish over many steps make a CPU several
    times slower without, and then this would be no floor.
    """
    torch.set_flush_denormal(True)
    try:
        for start in range(0, sequences, batch):
            size = min(batch, sequences - start)
            z = x[:1].expand(size, -1, -1).clone().requires_grad_()
            torch.autograd.grad(model(z).softmax(-1)[:, 0].sum(), z)
    finally:
        torch.set_flush_denormal(False)


def fastest(works: Mapping[int, Work], tries: int = 3) -> int:
    """Return the size whose work takes least time, by its best try: noise only ever adds."""
    named = {str(size): work for size, work in works.items()}
    times = in_turn(named, tries, cold=named).seconds
    return min(works, key=lambda size: min(times[str(size)]))


def correlation(ours: Tensor, theirs: Tensor) -> float | None:
    """How alike two maps are; None where one of them is constant or has no number."""
    both = torch.stack([ours.flatten().double().cpu(), theirs.flatten().double().cpu()])
    found = float(torch.corrcoef(both)[0, 1])
    return None if math.isnan(found) else found  # JSON has no NaN


def machine() -> Figures:
    """Return what was measured on, and with which versions."""
    versions = {"tempograd": tg.__version__, "python": platform.python_version(), "torch": torch.__version__}
    for package in ("captum", "time_interpret"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "versions": versions,
    }


def _processor() -> str:
    """Return the processor's name, which only Linux has in this file."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return " ".join(names[0].split()) if names else platform.processor()


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
