"""Many cases of the fuzz suite at once: ``python tests/fuzz/many.py --calls 30000 --seed 1`` (``make fuzz``)."""

import argparse
import os
import random
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from kinds_of_cases import SHARES  # noqa: E402
from trials import FAILED, Outcome, judged  # noqa: E402

BLOCK = 25


def block(task: tuple[str, int, int, int]) -> list[tuple[str, str, Outcome, str]]:
    """Judge some cases; return the name of each, its kind, what came of it and what it was."""
    kind, seed, start, stop = task
    found = []
    for number in range(start, stop):
        outcome, text = judged(SHARES[kind].make, kind, seed, number)
        found.append((f"{kind}:{number}", kind, outcome, text))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3, help="so many of them share the calls")
    parser.add_argument("--kinds", nargs="+", default=list(SHARES))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    tasks = []
    weight = sum(SHARES[kind].share for kind in args.kinds)
    for seed in range(args.seed, args.seed + args.seeds):
        for kind in args.kinds:
            count = round(args.calls * SHARES[kind].share / weight / args.seeds)
            tasks += [(kind, seed, start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    random.Random(0).shuffle(tasks)
    tally: Counter[tuple[str, str]] = Counter()
    began, failures = time.time(), 0
    with get_context("spawn").Pool(args.workers, maxtasksperchild=200) as pool:
        for (_, seed, _, _), found in zip(tasks, pool.imap(block, tasks), strict=True):
            for name, kind, outcome, text in found:
                tally[kind, outcome.kind] += 1
                if outcome.kind == FAILED:
                    failures += 1
                    print(f"FUZZ_SEED={seed} FUZZ_CASE={name}\n  {text}\n  {outcome.said}", flush=True)
    print(f"\n{'':12}{'right':>8}{'refused':>9}{'failed':>8}")
    for kind in [*args.kinds, "all"]:
        row = [sum(n for (k, o), n in tally.items() if o == name and kind in (k, "all")) for name in ("right", "refused", FAILED)]
        print(f"{kind:12}{row[0]:8}{row[1]:9}{row[2]:8}")
    print(f"{sum(tally.values())} calls in {time.time() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
