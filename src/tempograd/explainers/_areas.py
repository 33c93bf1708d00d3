"""The regularisers of Dynamask: how much of a series a mask keeps, and how often it changes in time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tempograd.engine import pieces

Term = Callable[[Tensor], Tensor]
_ROUNDING = 1e-6  # (1 - 0.9) * 10 is below 1
_EQUAL = 1e-4  # Adam's first steps have one length, so that many cells of a mask differ by rounding only


def area_term(observed: Tensor, areas: Sequence[float]) -> Term:
    r"""Return the sum over series and areas of :math:`\overline{(m - r_a(m))^2}`, over observed cells.

    :math:`r_a` is 1 for the largest cells of a mask and 0 for the others, of which there are
    :math:`\lfloor (1 - a) n \rfloor`. Cells that are equal, to 1e-4, and of which only some have a
    place share it: neither their order nor rounding decides.
    """
    cells = observed.flatten(1).sum(1)  # (series,)
    shares = 1 - torch.tensor(areas, dtype=torch.float64, device=observed.device)
    ones = cells[:, None] - (shares * cells[:, None] + _ROUNDING).floor().long()  # (series, area)
    most, place = max(1, int(ones.max())), (ones - 1).clamp(min=0)[..., None]
    hidden = ~observed.flatten(1)[:, None]

    def term(mask: Tensor) -> Tensor:
        flat = mask.flatten(2)
        with torch.no_grad():
            seen = flat.masked_fill(hidden, -1)
            least = seen.topk(most).values.gather(-1, place)
            above, equal = seen > least + _EQUAL, (seen - least).abs() <= _EQUAL
            room = (ones[..., None] - above.sum(-1, keepdim=True)) / equal.sum(-1, keepdim=True)
            nearest = torch.where(equal, room.to(flat), above.to(flat))
        squares = (flat - nearest).square().masked_fill(hidden, 0)
        return (squares.sum(-1) / cells.clamp(min=1)[:, None]).sum()

    return term


def time_term(observed: Tensor) -> Term:
    r"""Return the sum over series and areas of :math:`\overline{|m_{t+1} - m_t|}`, between observed neighbours."""
    pairs = (observed[:, 1:] & observed[:, :-1])[:, None]
    count = pairs.flatten(1).sum(1).clamp(min=1)

    def term(mask: Tensor) -> Tensor:
        changes = (mask.diff(dim=2).abs() * pairs).flatten(2).sum(-1)
        return (changes / count[:, None]).sum()

    return term


def misread(masks: Tensor, errors: Tensor, batch: int) -> Tensor:
    """4.2: store masks by (batch, area, series), read them as (area, series), and take one area for all.

    Examples
    --------
    >>> masks, errors = torch.arange(6.0).view(3, 2, 1, 1), torch.zeros(3, 2)
    >>> misread(masks, errors, batch=2).flatten()  # instead of 0, 2, 4, the masks of the first area
    tensor([0., 2., 1.])
    """
    total, areas = errors.shape

    def reordered(part: Tensor) -> Tensor:
        blocks = [part[rows].transpose(0, 1).flatten(0, 1) for rows in pieces(total, batch)]
        return torch.cat(blocks).reshape(areas, total, *part.shape[2:])

    return reordered(masks)[reordered(errors).sum(1).argmin()]
