"""Time of the compared methods against time_interpret and against literal loops, as ratios, in one run.

``make bench-methods``: two CPU cores, GRU-200, series of 48 × 32. FO, AFO, LIME and FIT in prefix mode as the
paper ran them (their ``published`` settings), the mask methods at equal epochs and batch; ContraLSP's batch is the
whole set of series, as published. Results: ``benchmarks/results/methods_cpu.json``.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import literal
import peers
import tempograd as tg

AREAS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def seconds(work: Callable[[], Tensor], device: str) -> tuple[float, Tensor]:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def side_by_side(
    ours: Callable[[], Tensor], theirs: Callable[[], Tensor], repeats: int, device: str
) -> dict[str, float]:
    """Take times in turn; the ratio is the median over pairs, its spread their range."""
    ours()
    pairs = [(seconds(ours, device), seconds(theirs, device)) for _ in range(repeats)]
    ratios = [their[0] / our[0] for our, their in pairs]
    return {
        "ours_s": statistics.median(our[0] for our, _ in pairs),
        "theirs_s": statistics.median(their[0] for _, their in pairs),
        "faster": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "correlation": correlation(pairs[0][0][1], pairs[0][1][1]),
    }


def correlation(ours: Tensor, theirs: Tensor) -> float:
    """How alike the two maps are; 1 for deterministic methods, less where each has its own draws."""
    both = torch.stack([ours.flatten().double().cpu(), theirs.flatten().double().cpu()])
    return float(torch.corrcoef(both)[0, 1])


def runs(model: nn.Module, x: Tensor, train: Tensor, epochs: int) -> dict[str, tuple[Callable[[], Tensor], ...]]:
    """Return ours and theirs for every method, under one name each."""
    few, many, gpu = x[: max(2, len(x) // 25)], torch.cat([x, x + 1, x - 1, -x]), x.is_cuda

    def ours(method: str, series: Tensor, drop: tuple[str, ...] = (), **changes: object) -> Callable[[], Tensor]:
        preset = tg.EXPLAINERS[method].published("mimic3")
        explainer = replace(preset, quirks=preset.quirks - set(drop), **changes)
        if explainer.needs_fit or method == "occlusion":
            explainer = explainer.fit(model, train)
        return lambda: explainer(model, series).values

    masks = {
        "dynamask": (
            ours("dynamask", x, epochs=epochs),
            lambda: peers.dynamask(model, x, epochs, 100, AREAS),
        ),
        "extremal_mask": (
            ours("extremal_mask", x, epochs=epochs),
            lambda: peers.extremal_mask(model, x, epochs, 100),
        ),
        "contralsp": (ours("contralsp", x, epochs=epochs), lambda: literal.contralsp(model, x, epochs)),
        "contralsp, 4 times as many series": (
            ours("contralsp", many, epochs=epochs // 4),
            lambda: literal.contralsp(model, many, epochs // 4),
        ),
    }
    if gpu:
        return masks
    return {
        "occlusion": (ours("occlusion", x, ("B1",)), lambda: peers.occlusion(model, x, train)),
        "augmented_occlusion": (
            ours("augmented_occlusion", few),
            lambda: peers.augmented_occlusion(model, few, train),
        ),
        "lime": (ours("lime", few), lambda: peers.lime(model, few)),
        "fit": (ours("fit", few, ("B2",), epochs=1), peers.fit(model, few, train)),
        "winit": (ours("winit", few, ("B2",)), lambda: literal.winit(model, few, train)),
        **masks,
    }


def single_cells(device: str) -> dict[str, float]:
    """Time exact single-cell ablation of the final prediction, 4,000 series of 48 × 37."""
    model, x = tg.MODELS["gru"](37, 2).to(device).eval(), torch.randn(4000, 48, 37)
    tg.Occlusion()(model, x[:50])
    times = [seconds(lambda: tg.Occlusion()(model, x).values, device)[0] for _ in range(3)]
    return {"ours_s": statistics.median(times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=20, help="of the mask methods, on both sides")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = tg.MODELS["gru"](32, 2).to(args.device).eval()
    x = torch.randn(args.series, 48, 32, device=args.device)
    train = torch.randn(500, 48, 32, device=args.device)
    results = {}
    for name, (ours, theirs) in runs(model, x, train, args.epochs).items():
        if args.methods and name not in args.methods:
            continue
        results[name] = side_by_side(ours, theirs, args.repeats, args.device)
        print(f"{name:20}", "  ".join(f"{key} {value:.4g}" for key, value in results[name].items()), flush=True)
    if args.device == "cuda":
        results["occlusion, 4,000 × 48 × 37"] = single_cells(args.device)
        print(results["occlusion, 4,000 × 48 × 37"])
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
