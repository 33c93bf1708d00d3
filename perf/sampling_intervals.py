"""How often 95 % intervals hold the truth, for each design of points and several error estimates.

    python perf/sampling_intervals.py --out intervals.json [--device cuda]

Models with known answers (a quadratic form, sigmoids of a sum of growing steepness) and the trained LSTM of
``interval_coverage.py``, 200 seeds, cells with two draws or more.
"""

import argparse
import json
import math
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import interval_coverage
import sampling_estimates as estimates
import sampling_points as designs
from sampling_case import Case, Points, case
from tempograd.core import stats
from tempograd.sampling.estimators import WeightedMean

TINY = 1e-30
RIDGE = (1.0, 10.0)  # of the position and of the completeness control
DESIGNS = {
    "independent": partial(designs.independent, kind="jitter"),
    "independent, middle": partial(designs.independent, kind="mid"),
    "latin": partial(designs.stratified, kind="jitter"),
    "anchored 0.8": partial(designs.anchored, share=0.8, kind="jitter"),
    "pilot 1": partial(designs.piloted, shares=(1.0, 1.0), power=1.0, smooth=True, strata=False),
}


class Sum(nn.Module):
    """A sigmoid of a weighted sum, or with steepness 0 its square."""

    def __init__(self, weights: Tensor, steepness: float) -> None:
        super().__init__()
        self.weights, self.steepness = nn.Parameter(weights.clone()), steepness

    def forward(self, x: Tensor) -> Tensor:
        total = (x * self.weights).sum((1, 2))
        if self.steepness == 0:
            return total.square()[:, None]
        return torch.stack([torch.zeros_like(total), self.steepness * (total - 4)], 1)


class Fit(NamedTuple):
    """Per cell: estimate, its error, degrees of freedom, draws; and what a wider interval is made of."""

    value: Tensor
    error: Tensor
    freedom: Tensor
    draws: Tensor
    even: Tensor  # how many draws the residuals amount to, judged by their sizes
    missing: Tensor  # what the gradients have not accounted for of the change of the score, (rows, 1)
    noise: Tensor  # how well that change is known
    change: Tensor
    share: Tensor  # of a cell in what is missing


def fit(it: Case, points: Points, ridge: tuple[float, ...] = RIDGE) -> Fit:
    """Regression on position and completeness, its residual error, and what completeness says is missing."""
    w, u = points.weight, points.weight.square()
    free, y = points.masks.flatten(2).to(w.dtype), points.effect.flatten(2)
    slope = (y * free).sum(2)
    every = torch.ones_like(w)[..., None]
    free, y = torch.cat([free, every], 2), torch.cat([y, slope[..., None]], 2)  # the slope is one more cell
    e = estimates.controls(it, points, ("position", "change"))
    e = e / ((u[:, None] * e.square()).sum(2) / u.sum(1)[:, None]).sqrt().clamp(min=TINY)[..., None]
    v, v2 = w[..., None] * free, u[..., None] * free
    total, mass, draws = v.sum(1).clamp(min=TINY), v2.sum(1).clamp(min=TINY), free.sum(1)
    plain, centre = (v * y).sum(1) / total, (v2 * y).sum(1) / mass
    offset = torch.einsum("rks,rsc->rck", e, v) / total[..., None]
    middle = torch.einsum("rks,rsc->rck", e, v2) / mass[..., None]
    cov = torch.einsum("rks,rsc->rck", e, v2 * (y - centre[:, None]))
    var = (
        torch.einsum("rks,rls,rsc->rckl", e, e, v2)
        - mass[..., None, None] * middle[..., None] * middle[..., None, :]
    )
    prior = (mass / draws.clamp(min=1))[..., None] * torch.tensor(ridge, device=w.device)
    var = var + torch.diag_embed(prior + TINY)
    beta = torch.linalg.solve(var, cov[..., None])[..., 0] * (draws > 2)[..., None]
    value = plain - (beta * offset).sum(2)
    z = v * (y - value[:, None] - torch.einsum("rck,rks->rsc", beta, e))
    squares = z.square().sum(1)
    lever = 1 + mass * (offset * torch.linalg.solve(var, offset[..., None])[..., 0]).sum(2)
    effective = total.square() / mass
    used = sum(draws / (draws + weight) for weight in ridge)
    freedom = (effective - 1 - used).clamp(min=0.5)
    error = (squares * lever * effective / freedom).sqrt() / total
    even = math.pi / 2 * z.abs().sum(1).square() / squares.clamp(min=TINY)
    missing = (part[:, None] for part in _missing(it, points, value[:, -1]))
    cells = (part[:, :-1] for part in (value, error, freedom, draws, even))
    return Fit(*cells, *missing, _share(it, points))


def _share(it: Case, points: Points) -> Tensor:
    """Each cell's mean share in a point's effects or, if that is more, in the way its cells move.

    Where a model is saturated its gradients vanish, and say nothing about where it is steep.
    """
    v = points.weight[..., None] * points.masks.flatten(2)
    way = (it.block.x - it.block.baseline).flatten(1)[:, None].expand_as(v)
    shares = []
    for part in (points.effect.flatten(2), way):
        size = part.abs() * points.masks.flatten(2)
        size = size / size.sum(2, keepdim=True).clamp(min=TINY)
        shares.append((v * size).sum(1) / v.sum(1).clamp(min=TINY))
    return torch.maximum(*shares)


def _missing(it: Case, points: Points, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How far the mean slope is from the change of the score, read off at the far end; its error; it."""
    a, w = points.alpha.double(), points.weight.double()
    gap = (it.clean[:, None] - points.score).double()
    basis = torch.stack([1 - a, (1 - a).square(), (1 - a).pow(3)], 1)  # all vanish at the input, as the gap does
    normal = torch.einsum("rks,rls,rs->rkl", basis, basis, w) + 1e-6 * torch.eye(3, device=a.device, dtype=a.dtype)
    weights = torch.linalg.solve(normal, basis * w[:, None])
    weights = weights.sum(1)  # the fit at the far end, where each basis is 1
    change = (weights * gap).sum(1)
    coefficients = torch.linalg.solve(normal, torch.einsum("rks,rs->rk", basis * w[:, None], gap)[..., None])[
        ..., 0
    ]
    noise = (weights.square() * (gap - torch.einsum("rks,rk->rs", basis, coefficients)).square()).sum(1)
    return (
        (slope.double() - change).abs().to(points.weight.dtype),
        noise.sqrt().to(points.weight.dtype),
        change.to(points.weight.dtype),
    )


def halves(it: Case, points: Points, level: float = 0.95) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Value, half-width and draws by error estimate."""
    order = points.alpha.argsort(dim=1)
    mean = WeightedMean()
    pick = lambda part: part.gather(1, order[..., None, None].expand_as(part))  # noqa: E731
    mean.add(pick(points.effect), points.weight.gather(1, order), pick(points.masks).to(points.effect.dtype))
    plain = mean.result()
    t = lambda freedom: stats.t_quantile(level, freedom).to(points.weight)  # noqa: E731
    old = t((plain.effective - 1).clamp(min=0)) * plain.error
    found = {"pairs": tuple(part.flatten(1) for part in (plain.mean, old, plain.points))}
    f = fit(it, points)
    narrow = t(f.freedom) * f.error
    wary = t((torch.minimum(f.freedom + 1, f.even) - 1).clamp(min=0.5)) * f.error
    widths = {"regression": narrow, "regression, even": wary}
    for noise, tolerated in ((1, 0), (0.25, 0), (0.25, 0.1), (0.25, 0.2)):
        missing = (f.missing - noise * f.noise - tolerated * f.change.abs()).clamp(min=0)
        half = (narrow.square() + (3 * missing * f.share).square()).sqrt()
        widths[f"regression + missing beyond {noise} noise + {tolerated} change"] = half
    for name, half in widths.items():
        found[name] = (f.value, half, f.draws)
    return found


def models(device: str) -> dict[str, tuple[nn.Module, Tensor, Tensor, str, tuple[int | None, ...]]]:
    """Model, series, targets, output and setting."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(20, 2, generator=generator)
    x = (weights * (0.5 + torch.rand(6, 20, 2, generator=generator)) * 0.25).to(device)
    made = {}
    for name, steepness in {
        "quadratic": 0,
        "sigmoid 1": 1,
        "sigmoid 4": 4,
        "sigmoid 16": 16,
        "sigmoid 60": 60,
    }.items():
        output = "probability" if steepness else "raw"
        target = torch.full((6,), 1 if steepness else 0, device=device)
        made[name] = (Sum(weights, steepness).to(device), x, target, output, (3, 2, 7))
    generator = torch.Generator().manual_seed(1)
    lstm = interval_coverage.trained(generator)
    x, y = interval_coverage.series(200, generator)
    rows = torch.cat([(y == kind).nonzero()[:3, 0] for kind in range(3)])
    for output in ("probability", "raw"):
        made[f"LSTM, {output}"] = (lstm.to(device), x[rows].to(device), y[rows].to(device), output, (None,) * 3)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--converged", type=int, default=60_000)
    options = parser.parse_args()
    lines = []
    for name, (model, x, target, output, setting) in models(options.device).items():
        call = {"output": output, "target": target}
        truth = torch.zeros(len(x), x[0].numel(), device=x.device)
        for seed in range(900, 904):
            with case(model, x, None, setting, range(seed, seed + 1), 16384, **call) as it:
                parts = [estimates.ratio(designs.independent(it, options.converged // 4, "jitter"))]
            truth += torch.stack(parts).mean(0).flatten(1) / 4
        for points in (50, 200):
            with case(model, x, None, setting, range(options.seeds), 16384, **call) as it:
                for design, draw in DESIGNS.items():
                    right = truth.repeat(options.seeds, 1)
                    for kind, (value, half, draws) in halves(it, draw(it, points)).items():
                        counted, error = draws >= 2, (value - right).abs()
                        held = (error <= half.nan_to_num(torch.inf)) | (error < 1e-6 * right.abs().amax())
                        line = {
                            "model": name,
                            "points": points,
                            "design": design,
                            "interval": kind,
                            "covered": float(held[counted].float().mean()),
                            "error": float((error.sum(1) / right.abs().sum(1)).mean()),
                            "half_over_error": float(half[counted].median() / error[counted].median()),
                        }
                        lines.append(line)
                        options.out.write_text(json.dumps(lines, indent=1))
                print(name, points, flush=True)


if __name__ == "__main__":
    main()
