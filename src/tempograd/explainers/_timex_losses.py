r"""What TimeX and TimeX++ minimise, each term a small function.

Throughout, :math:`p` is a soft mask (series, time, channel), :math:`P, Q` are predictions (series, …, class)
whose last axis sums to 1, and :math:`m = (P + Q) / 2`.
"""

import torch
from torch import Tensor
from torch.nn import functional

TINY = 1e-9  # keeps logarithms of probabilities finite
FLAT = 1e-8  # least variance of cosines: embeddings that are all alike have no geometry to be kept


def gsat(p: Tensor, prior: float) -> Tensor:
    r"""Divergence of the mask from a coin with probability r (the prior), 0 where :math:`p = r`.

    .. math:: \mathrm{mean}\Big[ p \ln\big(\tfrac{p}{r} + \epsilon\big)
        + (1 - p) \ln\big(\tfrac{1 - p}{1 - r + \epsilon} + \epsilon\big) \Big], \qquad \epsilon = 10^{-6}.
    """
    small = 1e-6
    return (p * (p / prior + small).log() + (1 - p) * ((1 - p) / (1 - prior + small) + small).log()).mean()


def connect(p: Tensor) -> Tensor:
    r"""Jumps of the mask between neighbouring steps, :math:`\lVert p_{t+1} - p_t \rVert_F / \text{their number}`.

    One norm of the whole batch, as the released weights expect it; 0 for a single step.

    Examples
    --------
    >>> connect(torch.tensor([[[0.0], [3.0], [-1.0]]]))
    tensor(2.5000)
    """
    jumps = p[:, 1:] - p[:, :-1]
    norm: Tensor = torch.linalg.vector_norm(jumps)
    return norm / max(1, jumps.numel())


def geometry(a: Tensor, b: Tensor, *, scaled: bool = True) -> Tensor:
    r"""How far embeddings b (series, feature) are from the geometry of a, "Emb".

    .. math:: \mathrm{mean}_{ij} \big(\cos(a_i, a_j) - \cos(b_i, b_j)\big)^2
        \;/\; \mathrm{var}_{ij} \cos(a_i, a_j),

    without the division where ``scaled`` is False.
    """
    wanted, found = (functional.normalize(z, dim=-1) @ functional.normalize(z, dim=-1).mT for z in (a, b))
    distance = (wanted - found).square().mean()
    return distance / wanted.var(correction=0).clamp(min=FLAT) if scaled else distance


def jensen_shannon(p: Tensor, q: Tensor, *, reverse: bool = False) -> Tensor:
    r"""Jensen–Shannon divergence of two predictions, over the last axis.

    .. math:: \tfrac12 \mathrm{KL}(P \Vert m) + \tfrac12 \mathrm{KL}(Q \Vert m) = \sum_c \dots

    ``reverse`` is what the released code does: :math:`\mathrm{KL}(m \Vert \cdot)` instead, and the mean over
    the classes instead of their sum.
    """
    p, q = p.clamp(min=TINY), q.clamp(min=TINY)
    m = (p + q) / 2
    if reverse:
        return (m * (m.log() - (p.log() + q.log()) / 2)).mean(-1)
    return (p * (p / m).log() + q * (q / m).log()).sum(-1) / 2


def label_geometry(p: Tensor, q: Tensor, rule: str) -> Tensor:
    r"""How far predictions q are from the pairwise distances of p, "Lab"; 0 if they are equal.

    With :math:`\mathrm{JS}_{ij}` the divergence between the predictions for series i < j: ``"pairs"``, the
    paper's :math:`\mathrm{mean}_{ij} (\mathrm{JS}_{ij}(P) - \mathrm{JS}_{ij}(Q))^2`, or ``"means"``, the
    released code's :math:`(\mathrm{mean}_{ij} \mathrm{JS}_{ij}(P) - \mathrm{mean}_{ij} \mathrm{JS}_{ij}(Q))^2`
    with reversed divergences. A single series has no pairs and costs nothing.
    """
    if len(p) < 2:
        return (p - q).sum() * 0
    i, j = torch.triu_indices(len(p), len(p), offset=1, device=p.device)
    first, second = (jensen_shannon(z[i], z[j], reverse=rule == "means") for z in (p, q))
    if rule == "means":
        return (first.mean() - second.mean()).square()
    return (first - second).square().mean()


def gaussian_kl(mean1: Tensor, log_var1: Tensor, mean2: Tensor, log_var2: Tensor) -> Tensor:
    r"""Mean divergence of Gaussians 1 from Gaussians 2, cell by cell.

    .. math:: \tfrac12 \mathrm{mean}\Big[ \ell_2 - \ell_1 - 1
        + \frac{e^{\ell_1} + (\mu_1 - \mu_2)^2}{e^{\ell_2}} \Big].
    """
    gap = log_var1 - log_var2
    return (gap.exp() - gap - 1 + (mean1 - mean2).square() * (-log_var2).exp()).mean() / 2
