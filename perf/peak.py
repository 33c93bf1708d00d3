"""Peak memory of one side in a process of its own, on Linux: the resident set beyond that of a run of one series.

``python perf/peak.py`` is called by the benchmark, once per side and round. It prints megabytes.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import captum.attr  # noqa: F401  # loaded on every side, so that no side is charged for it

import peers
from paths import Setting, sides
from timing import Figures, bare, note, spread


def compare(setting: Setting, batch: int, internal: int, rounds: int) -> Figures:
    """Return the megabytes of every side, and its multiple of captum's at its best batch, round by round."""
    names = ("bare", "timing", "ig", "captum", "captum_best")
    note(f"memory: {setting}")
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            arguments = [name, str(batch), str(internal), json.dumps(setting)]
            done = subprocess.run(
                [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
            )
            taken[name].append(float(done.stdout))
    return {
        **setting._asdict(),
        "batch": batch,
        "internal": internal,
        "megabytes": {name: spread(values) for name, values in taken.items()},
        "over_captum_best": {
            name: spread(one / other for one, other in zip(taken[name], taken["captum_best"], strict=True))
            for name in ("timing", "ig", "captum")
        },
    }


def megabytes(field: str) -> float:
    """Return a size of this process as the kernel keeps it, such as its peak resident set, VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


def main(name: str, batch: str, internal: str, setting: str) -> None:
    what = Setting(*json.loads(setting))
    model, x = what.made()
    work = sides(model, x, what.points, int(batch)) | {
        "captum_best": partial(peers.integrated_gradients, model, x, what.points, int(internal))
    }
    bare(model, x, 1, 1)  # what the first pass of any model loads is nobody's memory
    before = megabytes("VmRSS")
    work[name]()
    print(megabytes("VmHWM") - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
