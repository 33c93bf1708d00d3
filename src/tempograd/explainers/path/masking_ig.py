"""Integrated gradients for one given mask: the quantity TIMING takes the expectation of."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd.engine import Block, Question
from tempograd.errors import InputError
from tempograd.explainers.base import Explainer
from tempograd.explainers.integration import Attribution, Path, Plan, Points, integrate
from tempograd.explainers.path.integrated_gradients import RULES, check_nodes, nodes


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
        alpha, weight = nodes(self.points, self.rule)

        def path(block: Block, stage: int) -> Path:
            mask: Tensor = moving[block.rows].to(block.x.device)
            start = torch.where(mask, block.baseline, block.x)

            def at(piece: slice) -> Points:
                z = torch.lerp(start[:, None], block.x[:, None], alpha[piece, None, None].to(block.x))
                return Points(z, weight[piece].to(block.x), position=alpha[piece].to(block.x))

            return Path(block.x - start, at, start=start, straight=True)

        return integrate(question, Plan((self.points,), random=False), path, label="explain with masking IG")
