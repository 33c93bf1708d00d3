"""Time and memory on a CPU against captum, time_interpret, plain loops and the bare model, in one run.

``make bench`` writes ``perf/results/bench_cpu.json``, in about a quarter of an hour on two quiet cores.
``python perf/bench.py --quick`` tries everything at toy size in under a minute and writes nothing.
Every figure is a ratio of two sides that were measured in turn: its median, its range and the number of rounds.
"""

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import methods
import paths
import peak
import removal
from paths import Setting
from timing import Figures, machine

LONG = 100  # points; more take long
RESULTS = Path(__file__).parent / "results" / "bench_cpu.json"


class Plan(NamedTuple):
    """What is run: sizes, and rounds of what takes seconds and of what takes minutes."""

    paths: tuple[Setting, ...]
    points: tuple[int, ...]  # of the memory
    base: Setting  # of the sweeps
    sweeps: dict[str, tuple[int, ...]]
    compared: Setting  # of methods and metrics
    epochs: int
    removed: int
    rounds: int
    slow_rounds: int = 3


FULL = Plan(
    paths=(
        Setting("gru"),
        Setting("gru", points=200),
        Setting("gru", series=1),
        Setting("cnn"),
        Setting("transformer"),
    ),
    points=(50, 200),
    base=Setting("gru", channels=8, hidden=32),
    sweeps={
        "series": (4, 16, 64, 256),
        "steps": (24, 48, 96, 192),
        "channels": (2, 8, 32, 128),
        "points": (10, 50, 100, 400),
    },
    compared=Setting("gru", series=100),
    epochs=20,
    removed=100,
    rounds=5,
)
TOY = Setting("gru", series=8, steps=12, channels=4, points=10, hidden=8)
QUICK = Plan(
    paths=(TOY, TOY._replace(series=1), TOY._replace(model="cnn"), TOY._replace(model="transformer")),
    points=(10,),
    base=TOY,
    sweeps={"series": (4, 8), "steps": (12, 24), "channels": (2, 4), "points": (5, 10)},
    compared=TOY,
    epochs=2,
    removed=10,
    rounds=3,
    slow_rounds=1,
)


def explaining(plan: Plan) -> list[Figures]:
    return [
        paths.compare(setting, plan.slow_rounds if setting.points > LONG else plan.rounds)
        for setting in plan.paths
    ]


def growing(plan: Plan) -> Figures:
    sweeps = {axis: paths.sweep(plan.base, axis, sizes, plan.rounds) for axis, sizes in plan.sweeps.items()}
    for name, found in paths.summary(sweeps).items():
        over_all = f"median over sizes {found['over_sizes']:.3g}, worst {found['worst']:.3g} for {found['at']}"
        print(f"{name} over captum's best: {over_all}", flush=True)
    return sweeps


def removing(plan: Plan) -> Figures:
    model, x = plan.compared.made()
    return removal.compare(model, x[: 2 * removal.BATCH], plan.removed, plan.rounds)


def remembering(plan: Plan) -> list[Figures]:
    """Measure peak memory for one call of captum, at the batch sizes that are fastest."""
    setting = plan.paths[0]
    model, x = setting.made()
    batch, internal = (search(model, x, setting.points) for search in (paths.best_bare, paths.best_internal))
    return [
        peak.compare(setting._replace(points=points), batch, internal, plan.slow_rounds) for points in plan.points
    ]


def comparing(plan: Plan) -> Figures:
    model, x = plan.compared.made()
    return methods.compare(model, x, plan.epochs, plan.slow_rounds)


PARTS: dict[str, Callable[[Plan], object]] = {
    "paths": explaining,
    "metrics": removing,
    "memory": remembering,
    "sweeps": growing,
    "methods": comparing,
}


def show(figures: object, name: str) -> None:
    """Print every ratio on a line of its own."""
    if isinstance(figures, dict) and "median" in figures:
        print(f"{name}: {figures['median']:.3g} ({figures['least']:.3g} to {figures['most']:.3g})", flush=True)
    elif isinstance(figures, dict):
        for key, value in figures.items():
            show(value, f"{name}, {key}")
    elif isinstance(figures, list):
        for each in figures:
            label = " × ".join(str(value) for value in list(each.values())[:5])
            show(each, f"{name} {label}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, help=f"by default {RESULTS.name}, and nothing for a part or a try")
    parser.add_argument("--note", help="what readers of the page should know of this run")
    args = parser.parse_args()
    plan, start = QUICK if args.quick else FULL, time.perf_counter()
    found: Figures = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "quick": args.quick,
        "note": args.note,
    }
    for name in args.parts:
        found[name] = PARTS[name](plan)
        show(found[name], name)
    found["minutes"] = round((time.perf_counter() - start) / 60, 1)
    print(f"{found['minutes']} minutes, {found['machine']}")
    whole = not args.quick and set(args.parts) == set(PARTS)
    if out := args.out or (RESULTS if whole else None):
        part = out.with_suffix(".part")
        part.write_text(json.dumps(found, indent=1) + "\n")
        part.replace(out)


if __name__ == "__main__":
    main()
