"""A triplet loss between two groups of points, which are found anew at every step."""

import torch
from torch import Tensor

ROUNDS = 10


def contrast(points: Tensor) -> Tensor:
    r"""Return the mean over two groups of :math:`\max(d_+ - d_- + 1, 0)`.

    The anchor of a group is its member nearest to the centre; :math:`d_+` is its mean distance (mean absolute
    difference) to the other members and :math:`d_-` that to the other group. A group of one has no term.

    Examples
    --------
    >>> float(contrast(torch.tensor([[0.0], [0.5], [4.0], [4.5]])))
    0.0
    >>> float(contrast(torch.tensor([[0.0], [0.0], [0.5], [0.5]])))
    0.5
    """
    with torch.no_grad():
        first, centres = two_means(points.detach())
    total = points.new_zeros(())
    for own, centre in zip((first, ~first), centres, strict=True):
        size, others = own.sum(), (~own).sum()
        away = (points.detach() - centre).square().sum(1).masked_fill(~own, torch.inf)
        apart = (points - points[away.argmin()]).abs().mean(1)
        near = (apart * own).sum() / (size - 1).clamp(min=1)
        far = (apart * ~own).sum() / others.clamp(min=1)
        total = total + (near - far + 1).clamp(min=0) * ((size > 1) & (others > 0))
    return total / 2


def two_means(points: Tensor) -> tuple[Tensor, Tensor]:
    """Part points into two groups by a fixed rule: which are in the first, and both centres.

    The rounds start at the point farthest from the mean and the point farthest from that one.
    """

    def farthest(place: Tensor) -> Tensor:
        return points[(points - place).square().sum(1).argmax()]

    start = farthest(points.mean(0))
    centres = torch.stack([start, farthest(start)])
    first = points.new_ones(len(points), dtype=torch.bool)
    for _ in range(ROUNDS):
        distances = (points[:, None] - centres).square().sum(2)
        first = distances[:, 0] <= distances[:, 1]
        member = torch.stack([first, ~first]).to(points)
        count = member.sum(1, keepdim=True)
        centres = torch.where(count > 0, member @ points / count.clamp(min=1), centres)
    return first, centres
