"""Whether TIMING's errors can be believed, on models drawn by a seed that were not used for choosing constants.

    python perf/held_out.py --out perf/results/held_out.json [--device cuda]

Every model is explained with 200 seeds. For each run the true error of the map is compared with the one that the
explanation states: *wolf* are runs whose true error is under 5 % and that say over 10 %, *sleep* are those whose
true error is over 20 % and that say under 5 %. *Cover* is how often ``interval(0.95)`` holds the converged value,
*width* the 90 % quantile of an interval's width over seeds as a multiple of the 25 % quantile. Two minutes on a
GPU; ``--masks 16384 --seeds 20`` tries it anywhere.
"""

import argparse
import json
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tempograd as tg
from held_out_models import HELD_OUT, Held, converged, draw, target_of
from tempograd.explanation import diagnostics

LITTLE, SOME, MUCH = 0.05, 0.1, 0.2  # errors
ENDLESS = 1e30  # width of an interval of a cell with one draw
WAYS: dict[str, dict[str, Any]] = {
    "50 samples": {"n_samples": 50},
    "200 samples": {"n_samples": 200},
    "tolerance 0.1": {"tolerance": 0.1, "max_samples": 800},
}
Figures = dict[str, Any]


def explain(held: Held, seeds: int, options: dict[str, Any]) -> tg.Explanation:
    """Explain a series once per seed; draws depend on the id, so other ids are other seeds."""
    method = tg.Timing(
        **(options | dict(zip(("segments", "min_length", "max_length"), held.law or (), strict=False)))
    )
    task = "regression" if held.output == "raw" else None
    x = held.x.repeat(seeds, 1, 1)
    return method(
        tg.Predictor(held.model, task=task),
        tg.Series(x, ids=range(seeds)),
        target=target_of(held),
        output=held.output,
    )


def judge(found: tg.Explanation, truth: Tensor) -> Figures:
    """Compare one explanation per seed with the converged map."""
    values, error = found.values.double(), found.standard_error
    if error is None or found.n_draws is None:
        raise RuntimeError("TIMING has errors.")
    missed, size = (values - truth).abs(), truth.abs().sum()
    true = missed.sum((1, 2)) / size
    said = diagnostics.quality_of(found).error.to(true)
    low, high = found.interval(0.95)
    held = ((low <= truth) & (truth <= high)) | (missed < 1e-6 * truth.abs().amax())
    quantiles = torch.quantile(
        (high - low).double().nan_to_num(posinf=ENDLESS), torch.tensor([0.25, 0.9]).to(true), dim=0
    )
    return {
        "true": float(true.mean()),
        "said": float(said.median()),
        "cover": float(held[found.n_draws > 1].double().mean()),
        "widths": (quantiles[1] / quantiles[0].clamp(min=1e-300)).flatten().tolist(),
        "bias": float((values.mean(0) - truth).abs().sum() / size),
        "good": int((true < LITTLE).sum()),
        "wolf": int(((true < LITTLE) & (said > SOME)).sum()),
        "bad": int((true > MUCH).sum()),
        "sleep": int(((true > MUCH) & (said < LITTLE)).sum()),
        "samples": float((found.n_evals if found.n_evals is not None else torch.zeros(1)).float().mean()),
    }


def pooled(rows: list[Figures], kind: str | None = None, *, starved: bool | None = None) -> Figures:
    """Pool the models of a kind: counts are added, shares averaged, widths taken over all cells."""
    chosen = [
        row for row in rows if kind in (None, row["kind"]) and (starved is None or row["starved"] == starved)
    ]
    total = {name: sum(row[name] for row in chosen) for name in ("good", "wolf", "bad", "sleep")}
    mean = {name: sum(row[name] for row in chosen) / len(chosen) for name in ("true", "cover", "bias", "samples")}
    widths = torch.tensor([width for row in chosen for width in row["widths"]])
    return total | mean | {"models": len(chosen), "width": float(widths.median())}


def show(name: str, row: Figures) -> None:
    wolf, sleep = (f"{row[a]}/{row[b]}" for a, b in (("wolf", "good"), ("sleep", "bad")))
    print(f"{name:36} cover {row['cover']:.3f} true {row['true']:.3f} wolf {wolf} sleep {sleep}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--masks", type=int, default=2**21, help="of each converged map")
    parser.add_argument("--drawn", type=int, default=HELD_OUT, help="seed of the models; others are for choosing")
    args = parser.parse_args()
    warnings.simplefilter("ignore", tg.TempogradWarning)
    rows: dict[str, list[Figures]] = {name: [] for name in WAYS}
    for held in draw(args.drawn, args.device):
        steps, channels = held.x.shape[1:]
        law = tg.Timing(50, None, *(held.law or ())).segment_settings(steps, channels, steps)
        truth, noise = converged(held, (law.count, law.low, law.high), args.masks)
        for name, options in WAYS.items():
            figures = judge(explain(held, args.seeds, options), truth)
            about = {"name": held.name, "kind": held.kind, "starved": held.starved, "noise": noise}
            rows[name].append(about | figures)
        show(f"{held.kind} {held.name}", rows["50 samples"][-1])
    groups = {"smooth": ("smooth", None), "steep": ("steep", None)}
    groups |= {f"{kind}, starved": (kind, True) for kind in groups} | {"all": (None, None)}  # type: ignore[dict-item]
    found: Figures = {
        "date": f"{date.today()}",
        "drawn": args.drawn,
        "seeds": args.seeds,
        "masks": args.masks,
        "models": rows,
        "pooled": {},
    }
    for name, each in rows.items():
        found["pooled"][name] = {
            group: pooled(each, kind, starved=starved) for group, (kind, starved) in groups.items()
        }
        for group, row in found["pooled"][name].items():
            show(f"{name}: {group}", row)
            print(f"    width {row['width']:.2f} bias {row['bias']:.3f} samples {row['samples']:.0f}")
    for row in (row for each in rows.values() for row in each):
        del row["widths"]  # of each cell, hundreds
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
