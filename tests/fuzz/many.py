"""Tens of thousands of cases of the fuzz suite, over several seeds: ``make fuzz``."""

import argparse
import os
import random
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing import get_context

from tests.fuzz.kinds_of_cases import BLOCK, KINDS, counts, run
from tests.fuzz.trials import FAILED, REFUSED, RIGHT, Outcome

Task = tuple[str, int, range]
say = partial(print, flush=True)


def block(task: Task) -> tuple[str, list[tuple[Outcome, str]]]:
    """Judge some cases; return their kind and what came of each."""
    kind, seed, numbers = task
    return kind, run(kind, seed, numbers)


def tasks(calls: int, seeds: range, kinds: list[str]) -> list[Task]:
    """Return blocks of cases of all kinds and seeds, in a random order, so that any part of them is a fair one."""
    found = [
        (kind, seed, range(start, min(start + BLOCK, count)))
        for seed in seeds
        for kind, count in counts(-(-calls // len(seeds))).items()
        for start in range(0, count, BLOCK)
        if kind in kinds
    ]
    random.Random(0).shuffle(found)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=5, help="how many share the calls")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    began, tally, last = time.time(), Counter(), 0
    todo = tasks(args.calls, range(args.seed, args.seed + args.seeds), args.kinds)
    with get_context("spawn").Pool(args.workers, maxtasksperchild=100) as pool:
        for kind, found in pool.imap_unordered(block, todo):
            for outcome, text in found:
                tally[kind, outcome.kind] += 1
                if text:
                    say(text)
            if sum(tally.values()) // 1000 > last:
                last = sum(tally.values()) // 1000
                say(f"{sum(tally.values())} calls, {time.time() - began:.0f} s", file=sys.stderr)
    say(f"\n{'':12}{RIGHT:>8}{REFUSED:>9}{FAILED:>8}")
    for kind in args.kinds:
        say(f"{kind:12}{tally[kind, RIGHT]:8}{tally[kind, REFUSED]:9}{tally[kind, FAILED]:8}")
    right, refused, failed = (sum(tally[kind, each] for kind in args.kinds) for each in (RIGHT, REFUSED, FAILED))
    say(f"{'all':12}{right:8}{refused:9}{failed:8}")
    seeds = f"{args.seed} to {args.seed + args.seeds - 1}"
    say(f"{right + refused + failed} calls, seeds {seeds}, {time.time() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
