"""Time and memory of the core against the bare model and against the released code's structure, as ratios.

``python benchmarks/speed.py`` on two CPU cores, ``python benchmarks/speed.py --device cuda`` on a GPU. All
figures come from one run; each is the median of several, alternating between the two sides.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import released
import tempograd as tg

SETTING = (50, 10, 48)  # segments, min_length, max_length of MIMIC-III


def seconds(work: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def side_by_side(ours: Callable[[], object], theirs: Callable[[], object], device: torch.device, repeats: int):
    """Median times of both, taken in turn, and the median of their ratio, which a drifting machine moves less."""
    ours(), theirs()
    pairs = [(seconds(ours, device), seconds(theirs, device)) for _ in range(repeats)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    return first, second, statistics.median(one / other for one, other in pairs)


def bare(model: nn.Module, x: Tensor, sequences: int, batch: int) -> None:
    """Forward and backward to the input, weights frozen, nothing else."""
    for start in range(0, sequences, batch):
        size = min(batch, sequences - start)
        z = x[:1].expand(size, -1, -1).clone().requires_grad_()
        torch.autograd.grad(model(z).softmax(-1)[:, 0].sum(), z)


def against_bare(model: nn.Module, x: Tensor, points: int, batches: list[int], repeats: int) -> dict[str, float]:
    """Time TIMING and the bare model at its best batch size, for the same number of sequences."""
    sequences, device = len(x) * points, x.device
    explainer = tg.Timing(points, *SETTING)
    recurrent = [part for part in model.modules() if isinstance(part, nn.RNNBase)]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for part in recurrent:
        part.train()  # cuDNN differentiates recurrent layers only so
    trials = {}
    for batch in batches:
        bare(model, x, batch, batch)
        trials[batch] = seconds(lambda batch=batch: bare(model, x, sequences, batch), device)
    best = min(trials, key=trials.__getitem__)
    ours, theirs, ratio = side_by_side(
        lambda: explainer(model, x), lambda: bare(model, x, sequences, best), device, repeats
    )
    return {"ours_s": ours, "bare_s": theirs, "bare_batch": best, "ratio": ratio}


def against_released(model: nn.Module, x: Tensor, batch: int, batches: int, repeats: int) -> dict[str, float]:
    """How many times slower the released structure is per series, on ``batches`` of its batches."""
    model.eval()
    part, device = x[: batch * batches], x.device
    explainer = tg.Timing(50, *SETTING)

    def theirs() -> None:
        for rows in part.split(batch):
            released.timing(model, rows, *SETTING)

    every = x if batch > 1 else part
    ours, slow, ratio = side_by_side(lambda: explainer(model, every), theirs, device, repeats)
    return {
        "ours_s": ours / len(every),
        "theirs_s": slow / len(part),
        "faster": len(every) / len(part) / ratio,
    }


def fresh(model: nn.Module, x: Tensor) -> dict[str, float]:
    """Time one series at a time under an id that was never seen before, so that no draws are remembered."""
    ids = iter(range(10**6, 10**7))
    times = [seconds(lambda: tg.Timing(50, *SETTING)(model, x, ids=[next(ids)]), x.device) for _ in range(20)]
    return {"ours_s": statistics.median(times)}


def single(model: nn.Module, x: Tensor) -> dict[str, float]:
    """Time the bare forward+backward of the 50 points of one series, and the forward of the series."""
    model.eval()
    for part in model.modules():
        part.training = isinstance(part, nn.RNNBase)
    both = [seconds(lambda: bare(model, x, 50, 50), x.device) for _ in range(20)]
    with torch.no_grad():
        forward = [seconds(lambda: model(x), x.device) for _ in range(20)]
    return {"bare_50_s": statistics.median(both), "clean_forward_s": statistics.median(forward)}


def cumulative(model: nn.Module, x: Tensor, batches: int, repeats: int) -> dict[str, float]:
    """CPD with K = 100 against a loop of batch-30 forwards."""
    model.eval()
    explanation, device = tg.explain(model, x, "random"), x.device
    part, scores = x[: 30 * batches], explanation.values[: 30 * batches]

    def theirs() -> None:
        for rows, values in zip(part.split(30), scores.split(30), strict=True):
            released.cpd(model, rows, values, 100)

    ours, slow, ratio = side_by_side(
        lambda: tg.evaluate(model, explanation, metrics=["cpd"], k=100), theirs, device, repeats
    )
    return {"ours_s": ours / len(x), "theirs_s": slow / len(part), "faster": len(x) / len(part) / ratio}


def memory(model: nn.Module, shape: tuple[int, int], counts: tuple[int, ...]) -> dict[str, float]:
    """Peak device memory of explaining memory-mapped arrays of several sizes."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            path = Path(folder) / "x.npy"
            array = np.lib.format.open_memmap(path, "w+", np.float32, (count, *shape))
            for start in range(0, count, 1000):
                array[start : start + 1000] = np.random.default_rng(0).normal(size=(1000, *shape))
            array.flush()
            mapped = np.load(path, mmap_mode="r")
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            took = seconds(lambda mapped=mapped: tg.Timing(50, *SETTING)(model, mapped), torch.device("cuda"))
            peaks[f"{count}_gb"] = torch.cuda.max_memory_allocated() / 1e9
            peaks[f"{count}_s"] = took
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    device, gpu = torch.device(args.device), args.device == "cuda"
    torch.manual_seed(0)
    model = tg.MODELS["gru"](32, 2).to(device).eval()
    x = torch.randn(4598 if gpu else 40, 48, 32, device=device)
    results = {
        "bare": against_bare(
            model, x, 50, [2048, 4096, 8192, 16384, 32768] if gpu else [64, 256, 1024, 2000], 5 if gpu else 15
        ),
        "released_batch_30": against_released(model, x, 30, 8 if gpu else 1, 3),
        "released_single": against_released(model, x[:1], 1, 1, 9),
        "single_fresh_id": fresh(model, x[:1]),
        "bare_single": single(model, x[:1]),
        "cpd_100": cumulative(model, x, 4 if gpu else 1, 3),
    }
    if gpu:
        results["memory"] = memory(model, (48, 32), (1000, 100_000))
    hardware = torch.cuda.get_device_name() if gpu else f"{torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {hardware}")
    for name, figures in results.items():
        print(f"{name:18}", "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
