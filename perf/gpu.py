"""Time and memory on a GPU, everything side by side in one run.

``python perf/gpu.py --out gpu.json`` takes about two minutes on an H200 and needs captum; ``--tiny`` tries
all of it in a minute anywhere. Every time is the median of several, taken in turn with what it is compared with;
every ratio is the median of the ratios of such pairs, with their range.
"""

import argparse
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import released
import tempograd as tg

SETTING = (50, 10, 48)  # segments, min_length, max_length of MIMIC-III
Work = Callable[[], object]


class Sizes(NamedTuple):
    """How much there is to do."""

    series: int  # of 48 × 32
    long: int  # of 600 × 17
    captum: int
    mapped: tuple[int, int]
    batches: tuple[int, ...]
    internal: tuple[int, ...]  # batches inside captum
    repeats: int


FULL = Sizes(
    series=4598,
    long=300,
    captum=512,
    mapped=(1000, 100_000),
    batches=(8192, 16384, 32768, 65536),
    internal=(4096, 16384, 65536),
    repeats=5,
)
TINY = Sizes(24, 2, 4, (20, 100), (64, 256), (64,), 1)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(work: Work) -> float:
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def side_by_side(ours: Work, theirs: Work, repeats: int) -> dict[str, float]:
    """Time both in turn; ``ratio`` is ours over theirs."""
    for _ in range(3):  # captures and remembered sizes are there from the third call on
        ours()
    theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    ratios = [one / other for one, other in pairs]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "ours_s": first,
        "theirs_s": second,
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
    }


def peak(work: Work) -> float:
    """Device memory that a call needs beyond what was there before, in GB."""
    if not torch.cuda.is_available():
        work()
        return 0.0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    wait()
    return (torch.cuda.max_memory_allocated() - before) / 1e9


def ready(model: nn.Module) -> nn.Module:
    """Freeze a model as the engine does: only then is the bare model what the engine has to pay for."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for part in model.modules():
        part.training = isinstance(part, nn.RNNBase)
    return model


def bare(model: nn.Module, x: Tensor, sequences: int, batch: int) -> None:
    """Forward and backward to the input, weights frozen, nothing else."""
    for start in range(0, sequences, batch):
        size = min(batch, sequences - start)
        z = x[:1].expand(size, -1, -1).clone().requires_grad_()
        torch.autograd.grad(model(z).softmax(-1)[:, 0].sum(), z)


def best_batch(model: nn.Module, x: Tensor, sequences: int, batches: tuple[int, ...]) -> dict[int, float]:
    """Seconds for all sequences at each batch size that fits."""
    trials: dict[int, float] = {}
    for batch in batches:
        try:
            bare(model, x, min(batch, sequences), batch)
            trials[batch] = seconds(lambda batch=batch: bare(model, x, sequences, batch))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
    return trials


def against_bare(name: str, x: Tensor, sizes: Sizes, explainer: tg.Timing) -> dict[str, Any]:
    model = ready(tg.models.build(name, x.shape[2], 2).to(x.device))
    sequences = len(x) * explainer.n_samples
    trials = best_batch(model, x, sequences, sizes.batches)
    best = min(trials, key=trials.__getitem__)
    found: dict[str, Any] = side_by_side(
        lambda: explainer(model, x), lambda: bare(model, x, sequences, best), sizes.repeats
    )
    return found | {
        "bare_batch": best,
        "bare_by_batch": trials,
        "peak_gb": peak(lambda: explainer(model, x)),
        "bare_peak_gb": peak(lambda: bare(model, x, sequences, best)),
    }


def single(name: str, x: Tensor, repeats: int) -> dict[str, float]:
    """One series per call: the same id again and again, and one never seen before."""
    ids, explainer = iter(range(10**6, 10**7)), tg.Timing(50, None, *SETTING)
    model = ready(tg.models.build(name, x.shape[2], 2).to(x.device))
    found = side_by_side(lambda: explainer(model, x), lambda: bare(model, x, 50, 50), 4 * repeats)
    fresh = [seconds(lambda: explainer(model, tg.Series(x, ids=[next(ids)]))) for _ in range(4 * repeats)]
    return found | {"fresh_id_s": statistics.median(fresh)}


def against_released(model: nn.Module, x: Tensor, repeats: int) -> dict[str, dict[str, float]]:
    """Compare with the released structure: batches of 30, and one series."""
    explainer, part = tg.Timing(50, None, *SETTING), x[:240]

    def theirs() -> None:
        for rows in part.split(30):
            released.timing(model, rows, *SETTING)

    many = side_by_side(lambda: explainer(model, x), theirs, repeats)
    share = len(part) / len(x)
    many |= {key: many[key] * share for key in ("ours_s", "ratio", "low", "high")}
    one = side_by_side(lambda: explainer(model, x[:1]), lambda: released.timing(model, x[:1], *SETTING), repeats)
    return {"batches_of_30": many, "one_series": one}


def captum_gradients(model: nn.Module, x: Tensor, points: int, batch: int, internal: int | None) -> None:
    """Run integrated gradients as captum's users do: cuDNN off, for recurrent layers in evaluation mode."""
    from captum.attr import IntegratedGradients

    with torch.backends.cudnn.flags(enabled=False):
        with torch.no_grad():
            target = torch.cat([model(rows).argmax(-1) for rows in x.split(batch)])
        method = IntegratedGradients(lambda z: model(z).softmax(-1))
        for rows, chosen in zip(x.split(batch), target.split(batch), strict=True):
            method.attribute(rows, target=chosen, n_steps=points, internal_batch_size=internal)


def against_captum(x: Tensor, sizes: Sizes) -> dict[str, Any]:
    """IG and TIMING against captum's IG: 32 series a call on both sides, and all series at captum's best size."""
    model = tg.models.build("gru", x.shape[2], 2).to(x.device).eval()
    x = x[: sizes.captum]
    few = x[:64]
    captum_gradients(model, few, 50, 32, None)  # load what is loaded late
    results: dict[str, Any] = {}
    for points in (50, 200):

        def theirs(internal: int, points: int = points) -> None:
            captum_gradients(model, x, points, len(x), internal)

        trials = {internal: seconds(lambda internal=internal: theirs(internal)) for internal in sizes.internal}
        best = min(trials, key=trials.__getitem__)
        memory = peak(lambda best=best: theirs(best))
        for name, explainer in (
            ("ig", tg.IntegratedGradients(points)),
            ("timing", tg.Timing(points, None, *SETTING)),
        ):
            results[f"{name}_{points}"] = {
                "calls_of_32": side_by_side(
                    lambda explainer=explainer: [explainer(model, rows) for rows in few.split(32)],
                    lambda points=points: captum_gradients(model, few, points, 32, None),
                    min(3, sizes.repeats),
                ),
                "best": side_by_side(
                    lambda explainer=explainer: explainer(model, x),
                    lambda best=best: theirs(best),
                    min(3, sizes.repeats),
                ),
                "internal_batch": best,
                "memory_gb": {"ours": peak(lambda explainer=explainer: explainer(model, x)), "theirs": memory},
            }
    return results


def removal(model: nn.Module, x: Tensor, repeats: int) -> dict[str, float]:
    """CPD with K = 100, per series, against a loop of batch-30 forwards."""
    explanation, part = tg.explain(model, x, "random"), x[:120]

    def theirs() -> None:
        for rows, values in zip(part.split(30), explanation.values[:120].split(30), strict=True):
            released.cpd(model, rows, values, 100)

    found = side_by_side(lambda: tg.evaluate(model, explanation, metrics=["cpd"], k=100), theirs, repeats)
    return found | {key: found[key] * len(part) / len(x) for key in ("ours_s", "ratio", "low", "high")}


def host(model: nn.Module, x: Tensor, repeats: int) -> dict[str, float]:
    """Series that live on the host against the same on the device."""
    explainer, there = tg.Timing(50, None, *SETTING), x.cpu()
    return side_by_side(lambda: explainer(model, there), lambda: explainer(model, x), repeats)


def mapped(model: nn.Module, shape: tuple[int, int], counts: tuple[int, ...]) -> dict[str, float]:
    """Peak device memory and time of explaining memory-mapped arrays of several sizes."""
    found, rows = {}, np.random.default_rng(0).normal(size=(min(counts), *shape)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            path = Path(folder) / f"{count}.npy"
            array = np.lib.format.open_memmap(path, "w+", np.float32, (count, *shape))
            for start in range(0, count, len(rows)):
                array[start : start + len(rows)] = rows[: count - start]
            array.flush()
            series = np.load(path, mmap_mode="r")
            tg.Timing(50, None, *SETTING)(model, series[: len(rows)])
            start = time.perf_counter()
            found[f"{count}_gb"] = peak(lambda series=series: tg.Timing(50, None, *SETTING)(model, series))
            found[f"{count}_s"] = time.perf_counter() - start
    return found


def precisions(name: str, x: Tensor, repeats: int) -> dict[str, dict[str, float]]:
    """Time of the options, and the error of their maps against float64 with the same draws."""
    explainer, results = tg.Timing(50, None, *SETTING), {}
    model = ready(tg.models.build(name, x.shape[2], 2).to(x.device))
    truth = explainer(tg.models.build(name, x.shape[2], 2).double().to(x.device), x.double()).values
    for precision in ("full", "tf32", "bf16"):
        values = explainer(model, x, precision=precision).values
        times = [seconds(lambda p=precision: explainer(model, x, precision=p)) for _ in range(repeats)]
        error = float((values - truth).abs().sum() / truth.abs().sum())
        results[precision] = {"s": statistics.median(times), "relative_error": error}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--tiny", action="store_true", help="a few series only, on whatever device there is")
    args = parser.parse_args()
    device, sizes = torch.device("cuda" if torch.cuda.is_available() else "cpu"), TINY if args.tiny else FULL
    torch.manual_seed(0)
    x, long = (torch.randn(n, *s, device=device) for n, s in ((sizes.series, (48, 32)), (sizes.long, (600, 17))))
    model = tg.models.build("gru", 32, 2).to(device).eval()
    models = ("gru", "cnn", "transformer")
    parts: dict[str, Callable[[], Any]] = {
        "bare": lambda: {name: against_bare(name, x, sizes, tg.Timing(50, None, *SETTING)) for name in models},
        "long_bare": lambda: {name: against_bare(name, long, sizes, tg.Timing(50)) for name in models},
        "single": lambda: {name: single(name, x[:1], sizes.repeats) for name in models},
        "released": lambda: against_released(model, x, sizes.repeats),
        "captum": lambda: against_captum(x, sizes),
        "cpd_100": lambda: removal(model, x, sizes.repeats),
        "from_host": lambda: host(model, x, sizes.repeats),
        "precision": lambda: {name: precisions(name, x[:1000], sizes.repeats) for name in models},
        "mapped": lambda: mapped(model, (48, 32), sizes.mapped),
    }
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
    for name, part in parts.items():
        start = time.perf_counter()
        results[name] = part()
        print(f"{name} ({time.perf_counter() - start:.0f} s)", json.dumps(results[name]), flush=True)
        if args.out:
            args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
