"""How much a map depends on what it compares with: what maps against several baselines have in common."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, TempogradWarning, arg, brief
from tempograd.core.formatting import percent, table
from tempograd.core.question import asks
from tempograd.core.series import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer, explain
from tempograd.explainers.base import nouns
from tempograd.explainers.by_name import explainer_of
from tempograd.explanation import Explanation
from tempograd.metrics import compare, summarise
from tempograd.typing import InputBaselines, Inputs, Model
from tempograd.views.series import observed_cells

TOP = 0.1  # share of the observed cells whose ranking people read
ALIKE, APART = 0.9, 0.6  # share of them in common from which on a choice hardly matters, and below which it does


@dataclass(frozen=True, eq=False)
class BaselineComparison:
    """What :func:`compare_baselines` found.

    Attributes
    ----------
    explanations : dict of Explanation
        By baseline.
    agreement : dict of Tensor
        By two baselines, the share of the top tenth of the cells that their maps have in common, (series,). By one
        of them twice, of its map and the one of another seed: what samples alone change, where a method draws any.
    """

    explanations: dict[str, Explanation]
    agreement: dict[tuple[str, str], Tensor]

    def __repr__(self) -> str:
        names = [" and ".join(dict.fromkeys(pair)) for pair in self.agreement]
        shared = [percent(summarise(each).mean) for each in self.agreement.values()]
        text = table([["", "top tenth in common"], *map(list, zip(names, shared, strict=True))])
        first, *_ = self.explanations.values()
        return f"BaselineComparison of {len(first)} series: {self.verdict()}\n{text}"

    def verdict(self) -> str:
        """Say in one line how much the choice changes the maps, as far as samples let that be seen."""
        pairs = {pair: found for pair, found in self.agreement.items() if pair[0] != pair[1]}
        pair = min(pairs, key=lambda names: summarise(pairs[names]).mean)
        shared = summarise(pairs[pair]).mean
        if math.isnan(shared):
            return "how much the choice matters cannot be told: no series has observed cells"
        text = f"{' and '.join(pair)} share {percent(shared)} of the top tenth of their cells"
        again = [self.agreement[name, name] for name in pair if (name, name) in self.agreement]
        if again and shared < ALIKE:
            itself = torch.stack(again).mean(0)
            text += f", maps against one of them with another seed {percent(summarise(itself).mean)}"
            if not compare(itself, pairs[pair]).low > 0:
                return (
                    f"what the choice does cannot be told from what another seed does: {text}; take more samples"
                )
        how = "hardly matters" if shared >= ALIKE else "matters" if shared < APART else "matters somewhat"
        return f"the choice {how}: {text}"


@asks(without=("targets", "baseline"))
def compare_baselines(
    model: Model | Predictor,
    x: Inputs | Series,
    method: str | Explainer = "timing",
    baselines: Sequence[str] | Mapping[str, InputBaselines] | None = None,
    **options: Any,
) -> BaselineComparison:
    """Explain the same predictions against several baselines, and tell how much that changes the maps.

    Parameters
    ----------
    model, x, method
        See :func:`tempograd.explain`.
    baselines : names, or mapping of names to baselines, optional
        What to compare with, at least two of zero, average and background, or baselines of your own; by default
        the first two and, with ``background=``, the third.
    **options
        The question as in :func:`tempograd.explain`, such as ``background``, and settings of the method.

    Returns
    -------
    BaselineComparison
        It prints itself; ``verdict()`` is its sentence.

    Notes
    -----
    Each baseline costs one explanation, two where the method draws samples: the second, with the next seed, tells
    how much of a difference samples alone make. A cell counts by the size of its score, as in the metrics.
    ``tg.evaluate(model, found.explanations["zero"], baseline="average")`` scores a map under any way of removing.

    Methods that can compare with the mean of the background instead of a baseline (occlusion, gradient_shap) are
    given it for ``"background"`` alone.

    Examples
    --------
    >>> import torch
    >>> steep = lambda x: (x[:, 0] * x[:, 1] + x[:, 2]).tanh()
    >>> x = torch.tensor([[[0.1], [3.0], [1.0], [0.5]], [[1.0], [0.2], [2.0], [0.1]]])
    >>> found = compare_baselines(steep, x, "occlusion", output="raw")
    >>> list(found.explanations), found.agreement["zero", "average"].shape
    (['zero', 'average'], torch.Size([2]))
    """
    if options.get("targets") is not None or "baseline" in options:
        raise InputError(f"Pass baselines= instead of {arg:question.baseline}, and one {arg:question.target}.")
    background = options.pop("background", None)
    predictor, series = nouns(model, x)
    named = _named(baselines, background)
    kind = explainer_of(method, {})

    def explained(baseline: Any, **more: Any) -> Explanation:
        # methods that use no baseline, but other series, would take these in its place
        learns = validation.is_background(baseline) or kind.needs_fit
        pool = {"background": background} if learns else {}
        return explain(predictor, series, method, baseline=baseline, **(options | pool | more))

    found = {name: explained(each) for name, each in named.items()}
    agreement = {pair: _agreement(*(found[name] for name in pair)) for pair in combinations(named, 2)}
    for name, one in found.items():
        if kind.uses_baseline and one.facts.deterministic is False:
            seed = one.seed + 1 if one.seed < 2**63 - 1 else 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TempogradWarning)  # the first one has said it
                other = explained(named[name], **{"seed": seed, "gradient_check": False})
            agreement[name, name] = _agreement(one, other)
    return BaselineComparison(found, agreement)


def _named(baselines: Any, background: Any) -> dict[str, Any]:
    """Return what is compared with, by name."""
    known = ("zero", "average", "background")
    baselines = known[: 2 + (background is not None)] if baselines is None else baselines
    if not isinstance(baselines, Mapping):
        baselines = {validation.check_choice(name, "each of baselines", known): name for name in baselines}
    if len(baselines) < 2:
        raise InputError(f"baselines must be at least two, got {brief(list(baselines))}.")
    return {str(name): each for name, each in baselines.items()}


def _agreement(one: Explanation, other: Explanation) -> Tensor:
    """Return which share of the strongest tenth of the observed cells two maps have in common, (series,)."""
    seen = torch.from_numpy(observed_cells(one)).flatten(1)
    count = (TOP * seen.sum(1).double()).round().clamp(min=1)
    sizes = (each.importance.cpu().double().flatten(1).masked_fill(~seen, -torch.inf) for each in (one, other))
    first, second = (
        size.argsort(dim=1, descending=True, stable=True).argsort(1) < count[:, None] for size in sizes
    )
    return torch.where(seen.any(1), (first & second).sum(1) / count, torch.nan).float()
