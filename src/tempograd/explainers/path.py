"""Integrated gradients: the mean gradient on straight paths to the series, of all cells or of those of a mask."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd.engine import Block, Question
from tempograd.errors import InputError, SettingError
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.integration import Attribution, Path, Plan, Points, integrate

RULES = ("gauss-legendre", "midpoint")
HIGHEST = 5000  # degree: the nodes are eigenvalues of a matrix of that size


@EXPLAINERS.register("integrated_gradients")
@dataclass(frozen=True)
class IntegratedGradients(Explainer):
    r"""Integrated gradients.

    .. math:: A_{t,d} = (x - x')_{t,d} \int_0^1 \partial_{t,d} F_{\hat y}\big(x' + \alpha (x - x')\big) \, d\alpha.

    The scores sum to :math:`F_{\hat y}(x) - F_{\hat y}(x')`.

    Parameters
    ----------
    points : int, default=50
        Nodes of the quadrature; each costs one pass of the model.
    rule : {"gauss-legendre", "midpoint"}
        Where the nodes lie. Gauss–Legendre is exact for smooth models with few nodes.

    References
    ----------
    .. [1] M. Sundararajan, A. Taly and Q. Yan, "Axiomatic Attribution for Deep Networks", ICML 2017.
       https://arxiv.org/abs/1703.01365

    Examples
    --------
    >>> square = lambda x: (x ** 2).sum((1, 2))[:, None]
    >>> IntegratedGradients(points=3)(square, torch.tensor([[[3.0], [-2.0]]]), output="raw").values.flatten()
    tensor([9., 4.])
    """

    zero_if_ignored: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    complete: ClassVar[bool] = True

    points: int = settings.whole(50)
    rule: str = settings.choice("gauss-legendre", RULES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_nodes(self.points, self.rule)

    def attribute(self, question: Question) -> Attribution:
        plan = Plan((self.points,), random=False)
        return integrate(question, plan, self._path, label=f"explain with {self.name}")

    def _path(self, block: Block, stage: int) -> Path:
        return straight(block, block.baseline, self.points, self.rule)


@dataclass(frozen=True)
class MaskingIG(Explainer):
    r"""Integrated gradients that move only the cells of a mask :math:`M` and hold the others at the series.

    .. math:: A_{t,d} = M_{t,d} (x - x')_{t,d} \int_0^1
        \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big) \, d\alpha.

    Parameters
    ----------
    moving : Tensor that broadcasts to ``x``
        1 where a cell moves from the baseline to the series, 0 where it is held.
    points : int, default=50
    rule : {"midpoint", "gauss-legendre"}

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035

    Examples
    --------
    >>> product = lambda x: (x[:, 0] * x[:, 1])
    >>> x = torch.tensor([[[3.0], [2.0]]])
    >>> MaskingIG(torch.tensor([[1], [0]]))(product, x, output="raw").values.flatten().round(decimals=4)
    tensor([6., 0.])
    """

    zero_if_ignored: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    moving: Any = field(metadata={"fitted": True}, repr=False, compare=False)
    points: int = settings.whole(50)
    rule: str = settings.choice("midpoint", RULES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_nodes(self.points, self.rule)

    def attribute(self, question: Question) -> Attribution:
        moving = validation.numbers(self.moving, "moving").to(question.x.device).bool()
        try:
            moving = moving.expand_as(question.x)
        except RuntimeError:
            raise InputError(
                f"moving must broadcast to x, {tuple(question.x.shape)}, got {tuple(moving.shape)}."
            ) from None

        def path(block: Block, stage: int) -> Path:
            mask: Tensor = moving[block.rows].to(block.x.device)
            return straight(block, torch.where(mask, block.baseline, block.x), self.points, self.rule)

        return integrate(question, Plan((self.points,), random=False), path, label="explain with masking IG")


def straight(block: Block, start: Tensor, points: int, rule: str) -> Path:
    """Return the straight paths from some start to the series."""
    alpha, weight = (part.to(block.x, non_blocking=True) for part in nodes(points, rule))

    def at(piece: slice) -> Points:
        z = torch.lerp(start[:, None], block.x[:, None], alpha[piece, None, None])
        return Points(z, weight[piece], position=alpha[piece])

    return Path(block.x - start, at, start=start, straight=True)


def check_nodes(points: int, rule: str) -> None:
    """Refuse nodes of a polynomial whose degree would fill the memory."""
    if rule == "gauss-legendre" and points > HIGHEST:
        raise SettingError(
            f"rule='gauss-legendre' has at most {HIGHEST} points, got points={points}: pass rule='midpoint'."
        )


@lru_cache(maxsize=16)
def nodes(points: int, rule: str) -> tuple[Tensor, Tensor]:
    """Return positions in (0, 1) and weights that sum to 1, in float64.

    Examples
    --------
    >>> nodes(2, "midpoint")
    (tensor([0.2500, 0.7500], dtype=torch.float64), tensor([0.5000, 0.5000], dtype=torch.float64))
    """
    if rule == "midpoint":
        return (torch.arange(points).double() + 0.5) / points, torch.full((points,), 1 / points).double()
    position, weight = np.polynomial.legendre.leggauss(points)
    return torch.from_numpy((position + 1) / 2), torch.from_numpy(weight / 2)
