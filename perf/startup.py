"""How long it takes until ``tempograd --help`` and its kin answer, in units of ``import argparse``.

Runs alternate, so that whatever else the machine does meets them all alike; the middle of the ratios is told.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

UNIT = ("-c", "import argparse")
COMMANDS = {
    "tempograd --version": ("-m", "tempograd", "--version"),
    "tempograd --help": ("-m", "tempograd", "--help"),
    "tempograd explain --help": ("-m", "tempograd", "explain", "--help"),
    "python -m tempograd_paper list": ("-m", "tempograd_paper", "list"),
    "import tempograd": ("-c", "import tempograd"),
    "import tempograd; tempograd.explain": ("-c", "import tempograd; tempograd.explain"),
}


def seconds(words: tuple[str, ...]) -> float:
    """Return how long one run takes; compiled files may be written, as on a user's machine."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, env=surroundings, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    units = []
    for turn in range(runs + 1):
        taken = {name: seconds(words) for name, words in {"unit": UNIT, **COMMANDS}.items()}
        if turn:  # the first run writes what is compiled
            units.append(taken.pop("unit"))
            for name, value in taken.items():
                found[name].append(value)
    print(f"import argparse: {1000 * statistics.median(units):.0f} ms")
    for name, values in found.items():
        ratio = statistics.median(value / unit for value, unit in zip(values, units, strict=True))
        print(f"{name}: {1000 * statistics.median(values):.0f} ms, {ratio:.1f} ×")


if __name__ == "__main__":
    main()
