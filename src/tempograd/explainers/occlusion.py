"""Feature occlusion: what the prediction loses when a single value is replaced."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd import checks, settings
from tempograd.engine import Block, Model, Question
from tempograd.errors import UnknownNameError
from tempograd.explainers._path import Attribution
from tempograd.explainers._published import SYNTHETIC
from tempograd.explainers._single_cells import check_training, replace_cells
from tempograd.explainers.base import EXPLAINERS, Explainer

PUBLISHED = ("mimic3", *SYNTHETIC)


@EXPLAINERS.register("occlusion")
@dataclass(frozen=True)
class Occlusion(Explainer):
    r"""Feature occlusion.

    .. math:: A_{t,d} = F_{\hat y}(x) - F_{\hat y}\big(x \text{ with } x_{t,d} \leftarrow x'_{t,d}\big).

    A positive score means that the value supports the target.

    Parameters
    ----------
    absolute : bool, default=False
        Whether scores are magnitudes, without their sign.

    Notes
    -----
    :meth:`fit` takes training series; values are then replaced by the mean of these at the same step and
    channel, otherwise by the call's baseline. Every observed value costs one pass of the model. With
    ``steps="own"`` a value is judged by the prediction at its own step; a recurrent model then runs one step
    from its remembered state instead of the whole series.

    References
    ----------
    .. [1] M. D. Zeiler and R. Fergus, "Visualizing and Understanding Convolutional Networks", ECCV 2014.
       https://arxiv.org/abs/1311.2901
    .. [2] H. Suresh et al., "Clinical Intervention Prediction and Understanding with Deep Neural Networks",
       MLHC 2017. https://arxiv.org/abs/1705.08498

    Examples
    --------
    >>> product = lambda x: x.prod(1)
    >>> Occlusion()(product, torch.tensor([[[3.0], [-2.0]]]), baseline=1.0, output="raw").values.flatten()
    tensor([-4., -9.])
    """

    zero_if_ignored: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False
    known_quirks: ClassVar[frozenset[str]] = frozenset({"A6", "B1", "B7", "B8"})

    absolute: bool = settings.flag(False)
    means: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting: magnitudes, values replaced by training means, so :meth:`fit` it first.

        MIMIC-III: a value is judged by the class predicted from the series up to its step, though the task has
        one label per series (B8), and series i gets the map of series ⌊i/C⌋ for output i mod C of C (B1).
        Synthetic data: the raw output is measured (A6) at each value's own step only (B7).
        """
        if dataset not in PUBLISHED:
            raise UnknownNameError("published setting of occlusion", dataset, PUBLISHED)
        quirks = frozenset({"A6", "B7"}) if dataset in SYNTHETIC else frozenset({"B1", "B8"})
        return cls(absolute=True, quirks=quirks)

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer that replaces by the mean of training series at each step and channel."""
        return replace(self, means=checks.series(x, name="the training series").mean(0, dtype=torch.float64))

    def attribute(self, question: Question) -> Attribution:
        means: Tensor | None = self.means
        if means is not None:
            check_training(means, question)
            question.baseline = means.to(question.x).expand_as(question.x)  # and the explanation says so
        values = torch.zeros(question.x.shape, device=question.x.device)

        def replacement(block: Block) -> Tensor:
            return block.baseline[..., None]

        def finish(block: Block, falls: Tensor) -> None:
            maps = falls[:, :, :, 0].movedim(-1, 1)  # one per output: one, or all of them in a row (B1)
            first = block.rows.start * maps.shape[1]
            place = values[first : first + maps.shape[0] * maps.shape[1]]
            place.copy_(maps.flatten(0, 1)[: len(place)])

        replace_cells(
            question,
            1,
            replacement,
            finish,
            label=f"explain with {self.name}",
            prefixes="B8" in self.quirks,
            every="B1" in self.quirks,
        )
        if "B1" in self.quirks and question.mask is not None:
            values *= question.mask
        return Attribution(values.abs_() if self.absolute else values, signed=not self.absolute)
