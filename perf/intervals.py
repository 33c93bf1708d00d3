"""How often ``interval(0.95)`` of TIMING holds the converged value, on models whose answer can be had.

    python perf/intervals.py --out coverage.txt

One line per model, for ``sampling_page.py --coverage``. Quadratic form, sigmoids of a sum of several steepness, a
small LSTM and smooth random networks; the mean over seeds and cells with two draws or more. An hour on two cores,
nearly all of it for the converged maps of the LSTM; ``--converged 2000 --seeds 10`` tries it out in minutes.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import tempograd as tg
from sampling_intervals import models

WAYS: dict[str, dict[str, Any]] = {
    "plain 50": {"control_variates": False},
    "50": {},
    "200": {"n_samples": 200},
    "anchored .8": {"anchored": 0.8},
    "tolerance .2": {"tolerance": 0.2, "max_samples": 800},
    "tolerance .05": {"tolerance": 0.05, "max_samples": 800},
    "top .05": {"tolerance": 0.05, "stop_when": "top", "max_samples": 800},
}
SMOOTH = {
    (1, 1, 3): (20, 2),
    (6, 2, 6): (20, 2),
    (12, 3, 10): (20, 2),
    (5, 4, 60): (60, 1),
}  # setting: steps, channels


class Case(NamedTuple):
    """A model, its series, and how it is explained."""

    model: nn.Module
    x: Tensor
    target: Tensor
    output: str
    setting: tuple[int | None, ...]

    def explain(self, seeds: range, options: dict[str, Any]) -> tg.Explanation:
        """Explain all series once per seed; draws depend on the id, so other ids are other seeds."""
        options = {"n_samples": 50, **options}
        method = tg.Timing(options.pop("n_samples"), *self.setting, **options)
        ids = range(seeds.start * len(self.x), seeds.stop * len(self.x))
        call = {"target": self.target.repeat(len(seeds)), "output": self.output, "ids": ids, "batch_size": 4096}
        return method(self.model, self.x.repeat(len(seeds), 1, 1), **call)


def smooth(steps: int, channels: int) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(steps * channels, 8), nn.Tanh(), nn.Linear(8, 3))
    for part in model.parameters():
        part.data = torch.randn(part.shape, generator=generator) * 0.5
    return model


def cases(device: str) -> dict[str, Case]:
    found = {name: Case(*parts) for name, parts in models(device).items()}
    for setting, shape in SMOOTH.items():
        x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(2))
        parts = (part.to(device) for part in (smooth(*shape), x, torch.zeros(1).long()))
        found[f"smooth {setting}"] = Case(*parts, "probability", setting)
    return found


def line(case: Case, seeds: int, converged: int) -> str:
    runs = max(2, converged // 2000)
    maps = case.explain(range(10_000, 10_000 + runs), {"n_samples": 2000}).values
    truth = maps.view(runs, *case.x.shape).double().mean(0).repeat(seeds, 1, 1)
    told = []
    for name, options in WAYS.items():
        found = case.explain(range(seeds), options)
        low, high = found.interval(0.95)
        error = (found.values - truth).abs()
        held = ((low <= truth) & (truth <= high)) | (error < 1e-6 * truth.abs().amax())
        share = held[found.n_draws > 1].float().mean()
        size = (error.sum((1, 2)) / truth.abs().sum((1, 2))).mean()
        told.append(f"{name}: {share:.3f} err {size:.3f} n {found.n_evals.float().mean():.0f}")
    return " | ".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--converged", type=int, default=60_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="models, by default all")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tg.TempogradWarning)
    with options.out.open("w") as file:
        for name, case in cases(options.device).items():
            if not options.only or name in options.only:
                file.write(f"{name:18} | {line(case, options.seeds, options.converged)}\n")
                file.flush()
                print(name, flush=True)


if __name__ == "__main__":
    main()
