"""What the shipped estimator gives for its passes: at 50, when it stops by tolerance, and in the paper's 40 ms.

    python perf/stopping.py --data DIR --models DIR --out stopping.jsonl

Models, series and converged maps are those of ``samplers.py``, which makes what is missing of them. Every line is
one data set, model, setting and way of asking, over all series: error and estimated error of the map, overlap of
the top tenth, CPD, passes and time per series, share of cells never free, and paired differences to the released
design. A GPU is needed for all of it; ``--tiny`` tries the script out in seconds.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tempograd as tg
from samplers import arguments, converged, measured, over_cases, summary
from tempograd.data import Series
from tempograd.explanation import Explanation

RELEASED = {"anchored": 0.0, "control_variates": False}
WAYS: dict[str, dict[str, Any]] = {  # the first is what the others are compared with
    "released": RELEASED,
    "plain mean": {"control_variates": False},
    "default": {},
    "200 points": {"n_samples": 200},
    "tolerance 0.2": {"tolerance": 0.2},
    "tolerance 0.1": {"tolerance": 0.1},
    "tolerance 0.05": {"tolerance": 0.05},
    "top 0.1": {"tolerance": 0.1, "stop_when": "top"},
}
BUDGET = 0.04  # seconds a series, what the paper's code takes


def explained(
    model: nn.Module, test: Series, setting: tuple, seeds: int, batch_size: int, options: dict[str, Any]
) -> tuple[list[Explanation], float]:
    """One explanation per seed, and the time per series."""
    options = {"n_samples": 50, **options}
    explainer = tg.Timing(options.pop("n_samples"), *setting, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.TempogradWarning)
        start = time.perf_counter()
        runs = [
            explainer(model, tg.Series(test.x, mask=test.mask), seed=seed, batch_size=batch_size)
            for seed in range(seeds)
        ]
    return runs, (time.perf_counter() - start) / seeds / len(test.x)


def study(
    model: nn.Module, test: Series, setting: tuple, options: argparse.Namespace, limit: int, file: Path
) -> Iterator[dict[str, Any]]:
    truth, noise = converged(model, test, setting, options.converged, limit, file)
    reference = measured(model, truth, truth.values, 1, limit)["cpd"]
    facts = {"converged_cpd": float(reference.mean()), "converged_noise": noise}
    base: dict[str, Tensor] = {}
    for name, asked in (WAYS | {"40 ms": {}}).items():
        way = asked
        if name in options.without:
            continue
        seeds = options.seeds if name in ("released", "plain mean", "default") else 1
        if name == "40 ms":
            _, each = explained(model, test, setting, 1, limit, {"n_samples": 800})
            way = {"n_samples": int(min(64_000, 800 * BUDGET / each))}
        runs, seconds = explained(model, test, setting, seeds, limit, way)
        scores = measured(model, truth, torch.cat([run.values for run in runs]), seeds, limit)
        base = base or scores
        seen = torch.ones_like(test.x, dtype=torch.bool) if test.mask is None else test.mask
        unseen = torch.stack([(seen & (run.n_draws == 0)).sum() / seen.sum() for run in runs]).mean()
        low, high = zip(*(run.interval(0.95) for run in runs), strict=True)
        drawn = torch.stack([(run.n_draws > 1) & seen for run in runs])
        held = (torch.stack(low) <= truth.values) & (truth.values <= torch.stack(high))
        passes = torch.cat([run.n_evals for run in runs if run.n_evals is not None]).double()
        yield (
            facts
            | summary(scores, {key: table[: len(scores[key])] for key, table in base.items()})
            | {
                "way": name,
                "passes": float(passes.mean()),
                "most_passes": float(passes.max()),
                "seconds": seconds,
                "estimated_error": float(torch.cat([run.relative_error for run in runs]).median()),
                "median_error": float(scores["error"].median()),
                "unseen": float(unseen),
                "covered": float(held[drawn].float().mean()),
            }
        )


if __name__ == "__main__":
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--without", nargs="*", default=[], help="ways that are left out")
    over_cases(parser.parse_args(), study)
