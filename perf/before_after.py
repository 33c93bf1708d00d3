"""Speed of this tree divided by that of another one, in turn in one run: the rows of docs/speed.md and their like.

    python perf/before_after.py BASE [--device cuda] [--rounds 7] [--only TEXT]

BASE is a folder with the files of another commit (``git archive``), read from ``src``. Each tree has a process of
its own, which makes all cases; both take turns, case by case, and one waits while the other works. A ratio above 1
says that this tree is slower. Each line: median and range of the ratios, the ratio of the quickest quarters, which
a busy machine moves least, then the medians of both in milliseconds.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO, cast

import torch

ROOT = Path(__file__).resolve().parents[1]
COMPARED = ("occlusion", "augmented_occlusion", "lime", "fit", "winit", "gradient_shap", "rand_ig", "deep_lift")
LEARNT = ("dynamask", "extremal_mask", "contralsp", "timex", "timexpp")
EPOCHS = 5  # of what is learnt


def cases(device: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of each case, and what it does with the library that was imported."""
    import tempograd as tg  # of the tree that this process is for

    def made(kind: str, series: int, steps: int = 48, channels: int = 32, **options: int) -> tuple[object, ...]:
        torch.manual_seed(0)
        model = tg.MODELS[kind](channels, 2, **options).eval().to(device)
        return model, torch.randn(series, steps, channels, device=device)

    for method, count in (("timing", "n_samples"), ("integrated_gradients", "n_steps")):
        for name, points, setting in (
            ("GRU-200", 50, made("gru", 32, hidden=200)),
            ("GRU-200, 200 points", 200, made("gru", 32, hidden=200)),
            ("GRU-200, 1 series", 50, made("gru", 1, hidden=200)),
            ("CNN", 50, made("cnn", 32)),
            ("Transformer", 50, made("transformer", 32)),
            ("GRU-32, 4 series of 8 channels", 50, made("gru", 4, channels=8, hidden=32)),
            ("GRU-32, 256 series of 8 channels", 50, made("gru", 256, channels=8, hidden=32)),
            ("GRU-32, 192 steps", 50, made("gru", 32, 192, 8, hidden=32)),
            ("GRU-32, 128 channels", 50, made("gru", 32, channels=128, hidden=32)),
            ("CNN, 10,000 steps", 50, made("cnn", 1, 10_000, 8)),
        ):
            explain = tg.EXPLAINERS[method](**{count: points})
            yield f"{method}, {name}", lambda explain=explain, setting=setting: explain(*setting)
    model, x = made("gru", 16, channels=8, hidden=32)
    train = torch.randn(64, 48, 8, device=device)
    for method in (*COMPARED, *LEARNT):
        if method not in tg.EXPLAINERS or (method == "deep_lift" and find_spec("captum") is None):
            continue
        settings = {"epochs": EPOCHS} if method in (*LEARNT, "fit", "winit") else {}
        fields = tg.EXPLAINERS[method].__dataclass_fields__
        explain = tg.EXPLAINERS[method](**{key: value for key, value in settings.items() if key in fields})
        explain = explain.fit(model, train) if explain.needs_fit else explain
        yield f"{method}, 16 series", lambda explain=explain: explain(model, x)
    scores = tg.explain(model, x, "occlusion")
    for metric in ("cpd", "cpp"):
        yield f"metric {metric}", lambda metric=metric: tg.evaluate(model, scores, metrics=[metric])


def work(device: str, only: str) -> None:
    """Make the cases, then run the one that a line of standard input names, and write how long it took."""
    torch.set_num_threads(2)
    made = {name: call for name, call in cases(device) if only in name}
    sys.stdout.write("\t".join(made) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        made[line.strip()]()
        if device == "cuda":
            torch.cuda.synchronize()
        sys.stdout.write(f"{time.perf_counter() - start}\n")
        sys.stdout.flush()


def started(tree: Path, args: argparse.Namespace) -> subprocess.Popen[str]:
    """Start the process of a tree."""
    path = os.pathsep.join([str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", __file__, "--work", "--device", args.device, "--only", args.only]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    )


def asked(process: subprocess.Popen[str], name: str) -> float:
    """Let a process run one case, and return its seconds."""
    inputs, outputs = cast("TextIO", process.stdin), cast("TextIO", process.stdout)
    inputs.write(f"{name}\n")
    return float(outputs.readline())


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases with this text in their names")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.device, args.only)
    before, after = (started(tree, args) for tree in (args.base, ROOT))
    names = [process.stdout.readline().strip().split("\t") for process in (before, after) if process.stdout]
    for name in [name for name in names[1] if name in names[0]]:
        for process in (before, after):  # the first calls make kernels and tune batches
            asked(process, name), asked(process, name)
        pairs = []
        for turn in range(args.rounds):
            order = (before, after) if turn % 2 == 0 else (after, before)
            took = {process.pid: asked(process, name) for process in order}
            pairs.append((took[before.pid], took[after.pid]))
        ratios = sorted(new / old for old, new in pairs)
        sides = [sorted(side) for side in zip(*pairs, strict=True)]
        old, new = (1000 * statistics.median(side) for side in sides)
        low, high = (side[len(side) // 4] for side in sides)
        told = f"{statistics.median(ratios):5.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) {high / low:5.2f}"
        sys.stdout.write(f"{told}  {old:9.1f} {new:9.1f} ms  {name}\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    main()
