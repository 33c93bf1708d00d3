"""TIMING on long series: how time and memory grow with the steps, beside integrated gradients.

``python perf/long_series.py`` writes ``perf/results/long_series.json``, in about three minutes on one core.
``--quick`` tries everything at toy size and writes nothing. CPU seconds of one thread, for one series and a linear
model, beside which everything else shows, with as many samples on both sides. What is kept of a length is found
the first time that it is met, so every round has a length of its own, one step longer than the last, and the same
call comes twice.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import tempograd as tg
from peak import megabytes
from timing import Figures, Work, machine, note, spread

RESULTS = Path(__file__).parent / "results" / "long_series.json"


class Plan(NamedTuple):
    """What is run: every number of samples, channels and steps."""

    samples: tuple[int, ...] = (5, 50)
    channels: tuple[int, ...] = (1, 2)
    steps: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    memory: tuple[int, ...] = (10_000, 100_000)  # steps
    rounds: int = 9


QUICK = Plan(steps=(200, 400), memory=(400,), rounds=2)


def made(steps: int, channels: int) -> tuple[nn.Module, Tensor]:
    """Return a linear model of two classes and a series of noise: what they cost does not depend on the values."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(steps * channels, 2)).requires_grad_(requires_grad=False)
    return model, torch.randn(1, steps, channels, generator=generator)


def sides(steps: int, channels: int, samples: int) -> dict[str, Work]:
    model, x = made(steps, channels)
    return {
        "ig": lambda: tg.explain(model, x, "integrated_gradients", n_steps=samples),
        "timing": lambda: tg.explain(model, x, "timing", n_samples=samples),
    }


def cpu_seconds(work: Work) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def grown(steps: int, channels: int, samples: int, rounds: int) -> Figures:
    """Return CPU seconds, and those of TIMING over those of integrated gradients in the same round."""
    note(f"{samples} samples of {steps} × {channels}")
    taken: dict[str, list[float]] = {"ig": [], "first": [], "again": []}
    for number in range(rounds):
        ways = sides(steps + number, channels, samples)
        ways["ig"]()  # the model and the series are new
        for name, side in (("ig", "ig"), ("first", "timing"), ("again", "timing")):
            taken[name].append(cpu_seconds(ways[side]))
    return {
        "samples": samples,
        "channels": channels,
        "steps": steps,
        "seconds": {name: spread(values) for name, values in taken.items()},
        "over_ig": {
            name: spread(one / other for one, other in zip(taken[name], taken["ig"], strict=True))
            for name in ("first", "again")
        },
    }


def remembered(steps: int, channels: int, samples: int) -> Figures:
    """Return the megabytes that a call adds to the peak of a process of its own."""
    found = {}
    for name in ("ig", "timing"):
        arguments = [str(value) for value in (steps, channels, samples)]
        done = subprocess.run(
            [sys.executable, __file__, "--peak", name, *arguments], check=True, capture_output=True, text=True
        )
        found[name] = float(done.stdout)
    return {"samples": samples, "channels": channels, "steps": steps, "megabytes": found}


def peak(name: str, steps: int, channels: int, samples: int) -> float:
    sides(100, channels, samples)[name]()  # what the first call loads is nobody's memory
    work = sides(steps, channels, samples)[name]
    before = megabytes("VmRSS")
    work()
    return megabytes("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", tg.TempogradWarning)  # five samples are few
    if args.peak:
        name, *sizes = args.peak
        print(peak(name, *map(int, sizes)))
        return
    plan = QUICK if args.quick else Plan()
    grown(plan.steps[0], 1, plan.samples[0], 1)  # loads what the first call of all loads
    found: Figures = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    cases = list(product(plan.samples, plan.channels))
    found["time"] = [grown(steps, d, n, plan.rounds) for (n, d), steps in product(cases, plan.steps)]
    found["memory"] = [remembered(steps, d, n) for (n, d), steps in product(cases, plan.memory)]
    print(json.dumps(found, indent=1))
    if not args.quick:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
