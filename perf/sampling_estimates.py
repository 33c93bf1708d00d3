r"""Estimates from the same points: plain ratio, known probabilities, and control variates that cost no pass.

Along one mask's path the score F moves by its directional derivative d = Σ_c M_c · effect_c. For every H with
H(0) = 0 and h = H', integration by parts gives

    ∫ H(α) d(α) dα = ∫ h(α) (F(1) - F(α)) dα,

so e = H(α) d(α) - h(α) (F(1) - F(α)) has mean 0 for every mask, and both d and F(α) come with the gradient's own
pass. Where the effects of a point are large because the model is steep there, e is large too: regressing the
effects on e takes that noise out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sampling_case import Case, Points

TINY = 1e-30


def ratio(points: Points) -> Tensor:
    """Weighted mean of the effects over the points where a cell moves."""
    weight = points.weight[..., None, None] * points.masks
    return (weight * points.effect).sum(1) / weight.sum(1).clamp(min=TINY)


def known(case: Case, points: Points) -> Tensor:
    """Divide the same by the expected weight instead of the drawn one."""
    weight = points.weight[..., None, None] * points.masks
    return (weight * points.effect).mean(1) / case.free.clamp(min=TINY)


def controls(case: Case, points: Points, names: Sequence[str]) -> Tensor:
    """Numbers whose mean is 0 for every mask, (rows, controls, points)."""
    alpha = points.alpha
    slope = torch.einsum("rstd,rstd->rs", points.effect, points.masks.to(points.effect.dtype))
    gap = case.clean[:, None] - points.score
    found = {
        "position": alpha - 0.5,
        "change": alpha * slope - gap,  # H(α) = α
        "late change": alpha.square() * slope - 2 * alpha * gap,  # H(α) = α²
    }
    if points.whole is not None:
        found["whole change"] = slope - (case.clean[:, None] - points.whole)
    return torch.stack([found[name] for name in names], 1)


def regressed(points: Points, e: Tensor, ridge: Sequence[float], *, common: bool = False) -> Tensor:
    """Ratio estimate of effects minus their regression on the controls, cell by cell.

    The slopes are drawn towards 0 or, with ``common``, towards the cell's mean effect times slopes that all cells
    of a series have in common, as if ``ridge`` more points had been seen that lie there.
    """
    rows, count, _ = e.shape
    w, shape = points.weight, points.effect.shape
    u = w.square()
    e = e / ((u[:, None] * e.square()).sum(2) / u.sum(1)[:, None]).sqrt().clamp(min=TINY)[..., None]
    free = points.masks.flatten(2).to(w.dtype)
    moved = points.effect.flatten(2) * free
    products = (e[:, :, None] * e[:, None]).flatten(1, 2)

    total, mass, number = torch.bmm(torch.stack([w, u, torch.ones_like(w)], 1), free).unbind(1)
    total, mass = total.clamp(min=TINY), mass.clamp(min=TINY)
    ue, we = torch.bmm(u[:, None] * e, free), torch.bmm(w[:, None] * e, free)
    uee = torch.bmm(u[:, None] * products, free).view(rows, count, count, -1)
    uy, wy = torch.bmm(torch.stack([u, w], 1), moved).unbind(1)
    plain = wy / total
    cov = torch.bmm(u[:, None] * e, moved) - ue * (uy / mass)[:, None]
    var = uee - ue[:, :, None] * ue[:, None] / mass[:, None, None]
    index = torch.arange(count, device=e.device)
    prior = torch.tensor(ridge, device=e.device)[None, :, None] * (mass / number.clamp(min=1))[:, None]
    if common:  # least squares for effect = plain · (1 + slope · e), all cells together
        scale = plain.square().sum(1)[:, None, None].clamp(min=TINY)
        left = torch.einsum("rc,rklc->rkl", plain.square(), var) / scale
        right = torch.einsum("rc,rkc->rk", plain, cov) / scale[..., 0]
        level = left[:, index, index].mean(1)[:, None, None] + TINY
        slope = torch.linalg.solve(left + 1e-3 * level * torch.eye(count, device=e.device), right)
        cov = cov + prior * slope[..., None] * plain[:, None]
    var[:, index, index] += prior + TINY
    beta = torch.linalg.solve(var.permute(0, 3, 1, 2), cov.permute(0, 2, 1)[..., None])[..., 0].permute(0, 2, 1)
    return (plain - (beta * we).sum(1) / total).view(rows, *shape[2:])
