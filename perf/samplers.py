"""Which draws give TIMING the best map for a number of model passes: error, ranking and faithfulness.

    python perf/samplers.py --data DIR --models DIR --out samplers.jsonl --datasets wafer boiler

DIR holds one ``<data set>.npz`` each (x, y, tx, ty and, where values are missing, m and tm). Every line of the
result is one data set, model, setting, number of passes, design of points and estimate, over all series and seeds,
against a converged map. A GPU is needed for all of it; ``--tiny`` tries the script out in seconds.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import sampling_estimates as estimates
import sampling_points as designs
import tempograd as tg
from sampling_case import Case, Points, case
from tempograd.data import Dataset, Series
from tempograd.explanation import Explanation
from tempograd.models import load_classifier, save_model

SETTINGS = {
    "wafer": (5, 10, 152),
    "freezer": (5, 10, 100),
    "epilepsy": (10, 10, 10),
    "boiler": (50, 1, 36),
    "physionet2012": (50, 10, 48),
    "state": (10, 1, 200),
}
Design = Callable[[Case, int], Points]
ESTIMATES: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {  # controls, and how firmly they are held at 0
    "position": (("position",), (1,)),
    "change": (("change",), (1,)),
    "both": (("position", "change"), (1, 1)),
    "both, firm": (("position", "change"), (1, 10)),
    "three": (("position", "change", "late change"), (1, 1, 1)),
    "common": (("position", "change"), (1000, 1000)),
    "whole": (("whole change",), (1,)),
}
PLAIN, SOME = ("ratio",), ("ratio", "both, firm")
ALL = ("ratio", "position", "change", "both", "both, firm", "three", "common")
PILOT = partial(designs.piloted, shares=(1.0, 1.0), power=1.0, smooth=True)
DESIGNS: dict[str, tuple[Design, tuple[str, ...]]] = {  # and the estimates made from it
    "released": (partial(designs.independent, kind="left"), ("ratio", "known")),
    "independent, middle": (partial(designs.independent, kind="mid"), ("ratio", "known", "both, firm")),
    "independent, jitter": (partial(designs.independent, kind="jitter"), ALL),
    "latin, jitter": (partial(designs.stratified, kind="jitter"), SOME),
    "sobol": (designs.quasi, SOME),
    "antithetic": (designs.antithetic, SOME),
    "shared by 2": (partial(designs.shared, per_mask=2), SOME),
    "anchored 0.2": (partial(designs.anchored, share=0.2, kind="jitter"), SOME),
    "anchored 0.5": (partial(designs.anchored, share=0.5, kind="jitter"), SOME),
    "anchored 0.8": (partial(designs.anchored, share=0.8, kind="jitter"), SOME),
    "anchored 1": (partial(designs.anchored, share=1.0, kind="jitter"), SOME),
    "anchored 0.8, way": (partial(designs.anchored, share=0.8, kind="jitter", by="way"), SOME),
    "pilot 0.8": (partial(designs.piloted, shares=(0.8, 0.8)), SOME),
    "pilot 0, tilt": (partial(designs.piloted, shares=(0.0, 0.0), tilt=0.6, strata=False), SOME),
    "pilot 1": (partial(PILOT, strata=False), ALL),
    "pilot 1, root": (partial(PILOT, strata=False, power=0.5), SOME),
    "pilot 1, latin": (PILOT, SOME),
    "pilot 1, tilt": (partial(PILOT, strata=False, tilt=0.6), SOME),
    "pilot 1, shared by 2": (partial(PILOT, strata=False, per_mask=2), SOME),
    "far ends, half the points": (lambda it, points: designs.far_ends(it, points // 2), ("ratio", "whole")),
    "far ends, three quarters": (lambda it, points: designs.far_ends(it, points * 3 // 4), ("ratio", "whole")),
}
EVERYWHERE = ("released", "independent, middle", "anchored 0.8", "pilot 1")  # studied at all numbers of passes


def estimate(it: Case, points: Points, kind: str) -> Tensor:
    if kind == "ratio":
        return estimates.ratio(points)
    if kind == "known":
        return estimates.known(it, points)
    names, ridge = ESTIMATES[kind]
    return estimates.regressed(points, estimates.controls(it, points, names), ridge, common=kind == "common")


def load(path: Path, count: int) -> tuple[Dataset, Series]:
    """Return a data set to learn from and the series to explain."""
    kept = np.load(path)
    parts = []
    for prefix in ("", "t"):
        x, y = (torch.from_numpy(kept[prefix + name]) for name in "xy")
        mask = torch.from_numpy(kept[prefix + "m"]) if prefix + "m" in kept else None
        parts.append(Series(x.float(), y.long(), mask=mask))
    train, test = parts
    names = tuple(str(channel) for channel in range(train.x.shape[2]))
    return Dataset(path.stem, train, None, test, int(kept["classes"]), names), test.take(slice(0, count))


def prepared(kind: str, data: Dataset, folder: Path, device: str, **recipe: Any) -> nn.Module:
    """Read a model, or train it and keep it."""
    file = folder / f"{data.name}_{kind}.safetensors"
    if file.exists():
        return load_classifier(file, device)
    model = tg.train(kind, data, seed=0, device=device, **recipe)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, file)
    return model


@torch.no_grad()
def accuracy(model: nn.Module, test: Series, device: str) -> float:
    answers = torch.cat([model(x.to(device)).argmax(-1).cpu() for x in test.x.split(200)])
    return float((answers == test.y).float().mean())


def converged(
    model: nn.Module, test: Series, setting: tuple, points: int, chunk: int, file: Path
) -> tuple[Explanation, float]:
    """Two long runs: their mean, and how far it is from each; kept in a file."""

    def run(count: int, seed: int) -> Explanation:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.TempogradWarning)
            return tg.Timing(count, *setting, anchored=0.5)(
                model, tg.Series(test.x, mask=test.mask), seed=seed, batch_size=chunk
            )

    if not file.exists():
        first, second = (run(points, 900 + seed).values.double() for seed in range(2))
        mean = (first + second) / 2
        apart = (first - second).abs().flatten(1).sum(1) / 2 / mean.abs().flatten(1).sum(1).clamp(min=1e-30)
        save_file({"values": mean.float(), "apart": apart.mean()[None]}, file)
    kept = load_file(file)
    return replace(run(2, 0), values=kept["values"][: len(test.x)]), float(kept["apart"])


def measured(model: nn.Module, truth: Explanation, values: Tensor, repeats: int, chunk: int) -> dict[str, Tensor]:
    """Errors of maps of all series and seeds, (seeds, series) each."""
    wide = truth[torch.arange(len(truth)).repeat(repeats)]
    right, values = wide.values.flatten(1), values.to(wide.values)
    found = values.flatten(1)
    size = right.abs().sum(1)
    seen = torch.ones_like(right, dtype=torch.bool) if wide.mask is None else wide.mask.flatten(1)
    k = (seen.sum(1) * 0.1).long().clamp(min=1)
    best = [
        (part.abs() - (~seen).float()).argsort(1, descending=True).argsort(1) < k[:, None]
        for part in (right, found)
    ]
    table = {
        "error": (right - found).abs().sum(1) / size.clamp(min=1e-30),
        "overlap": (best[0] & best[1]).sum(1) / k,
        "cpd": tg.evaluate(model, replace(wide, values=values), metrics=["cpd"], k=0.1, batch_size=chunk)["cpd"],
    }
    return {name: scores.view(repeats, -1).double().cpu() for name, scores in table.items()}


def study(
    model: nn.Module, test: Series, setting: tuple, options: argparse.Namespace, limit: int, file: Path
) -> Iterator[dict[str, Any]]:
    """Yield one line for each number of passes, design and estimate."""
    start = time.time()
    truth, noise = converged(model, test, setting, options.converged, limit, file)
    reference = measured(model, truth, truth.values, 1, limit)["cpd"].mean()
    facts = {"converged_cpd": float(reference), "converged_noise": noise, "converged_s": time.time() - start}
    for passes in options.passes:
        seeds = options.seeds if passes < 500 else 2
        base: dict[str, Tensor] = {}
        for name, values, unseen, seconds in maps(model, test, setting, passes, seeds, limit, options.only):
            scores = measured(model, truth, values, seeds, limit)
            base = base or scores
            place = {
                "passes": passes,
                "design": name[0],
                "estimate": name[1],
                "unseen": unseen,
                "seconds": seconds,
            }
            yield facts | place | summary(scores, base)


def maps(
    model: nn.Module, test: Series, setting: tuple, passes: int, seeds: int, limit: int, only: list[str]
) -> Iterator[tuple[tuple[str, str], Tensor, float, float]]:
    """Yield design and estimate, the maps of all seeds, the share of cells never free, and the time it took."""
    with case(model, test.x, test.mask, setting, range(seeds), limit) as it:
        observed = it.block.observed
        for name, (design, kinds) in DESIGNS.items():
            if (passes != 50 and name not in EVERYWHERE) or (only and name not in only):
                continue
            start = time.time()
            points = design(it, passes)
            unseen = (observed & ~points.masks.any(1)).flatten(1).sum(1) / observed.flatten(1).sum(1)
            for kind in kinds if passes == 50 else [kind for kind in kinds if kind in SOME]:
                values = torch.where(observed, estimate(it, points, kind), 0)
                yield (name, kind), values.cpu(), float(unseen.mean()), time.time() - start
            del points
    seen = torch.ones_like(test.x, dtype=torch.bool) if test.mask is None else test.mask
    for controls in (False, True):
        start = time.time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.TempogradWarning)
            explainer = tg.Timing(passes, *setting, control_variates=controls)
            runs = [
                explainer(model, tg.Series(test.x, mask=test.mask), seed=seed, batch_size=limit)
                for seed in range(seeds)
            ]
        unseen = float((seen & (runs[0].n_draws == 0)).sum() / seen.sum())
        name = ("the library", "controls" if controls else "ratio")
        yield name, torch.cat([run.values for run in runs]), unseen, time.time() - start


def summary(scores: dict[str, Tensor], base: dict[str, Tensor]) -> dict[str, float]:
    """Means over series, and the difference to the released design with its paired standard error over series."""
    result = {}
    for name, table in scores.items():
        difference = (table - base[name]).mean(0)
        result[name] = float(table.mean())
        result[name + "_difference"] = float(difference.mean())
        result[name + "_difference_se"] = float(difference.std() / len(difference) ** 0.5)
    return result


Study = Callable[[nn.Module, Series, tuple, argparse.Namespace, int, Path], Iterator[dict[str, Any]]]


def arguments(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """Return what both studies ask for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=list(SETTINGS))
    parser.add_argument("--kinds", nargs="+", default=["gru", "cnn", "transformer"])
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--converged", type=int, default=16384)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    return parser


def over_cases(options: argparse.Namespace, study: Study) -> None:
    """Write the lines of a study for every data set, model and setting."""
    recipe: dict[str, Any] = {"epochs": 60}
    if options.tiny:
        options.series, options.seeds, options.converged, recipe = 2, 2, 64, {"epochs": 1}
    for name, kind in product(options.datasets, options.kinds):
        data, test = load(options.data / f"{name}.npz", options.series)
        model = prepared(kind, data, options.models, options.device, **recipe)
        place = {"dataset": name, "model": kind, "accuracy": accuracy(model, data.test, options.device)}
        limit = {"gru": 1 << 21, "cnn": 1 << 20, "transformer": 1 << 19}[kind] // max(64, test.x.shape[1])
        for setting_name, setting in (("paper", SETTINGS[name]), ("automatic", (None, None, None))):
            file = options.models / f"{name}_{kind}_{setting_name}.map.safetensors"
            for line in study(model, test, setting, options, limit, file):
                with options.out.open("a") as out:
                    out.write(json.dumps(place | {"setting": setting_name} | line) + "\n")
            print(name, kind, setting_name, f"{time.perf_counter():.0f} s", flush=True)


def main() -> None:
    parser = arguments(__doc__, seeds=5)
    parser.add_argument("--passes", nargs="+", type=int, default=[50, 20, 100, 200, 1000])
    parser.add_argument("--only", nargs="*", default=[], help="designs, by default all")
    over_cases(parser.parse_args(), study)


if __name__ == "__main__":
    main()
