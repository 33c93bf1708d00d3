"""How much a map depends on what it compares with: agreement of maps, and each map under each way of removing."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, TempogradWarning, arg, brief
from tempograd.core.formatting import alike, percent, table
from tempograd.core.question import asks
from tempograd.core.series import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer, explain
from tempograd.explainers.base import nouns
from tempograd.explainers.by_name import explainer_of
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Metric, compare, evaluate, summarise
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.typing import InputBaselines, Inputs, Measured, Model
from tempograd.views.series import Flags, Floats, observed_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 0.1  # share of the observed cells whose ranking people read
ALIKE, APART = 0.9, 0.6  # share of them in common from which on a choice hardly matters, and below which it does


class Agreement(NamedTuple):
    """How far two maps agree, (series,) each."""

    correlation: Tensor  # Spearman's, of the importance of observed cells; NaN where a map has one rank for all
    shared: Tensor  # share of the top tenth of the cells that is the same


@dataclass(frozen=True, eq=False)
class BaselineComparison:
    """What :func:`compare_baselines` found.

    Attributes
    ----------
    explanations : dict of Explanation
        By baseline.
    agreement : dict of tuple
        By two baselines, rank correlation and shared top tenth of their maps, (series,) each. By one of them
        twice, of its map and the one of another seed: what samples alone change, where a method draws any.
    scores : dict of Tensor
        One score per series, by (explained against, removed to).
    metric : str
        What the scores are.
    """

    explanations: dict[str, Explanation]
    agreement: dict[tuple[str, str], Agreement]
    scores: dict[tuple[str, str], Tensor]
    metric: str
    higher_is_better: bool = True

    def __repr__(self) -> str:
        names, shared = self.baselines, self.tables()[0]
        means = alike(*(summarise(self.scores[row, column]).mean for row in names for column in names))
        rows = [["top tenth in common", *names]]
        rows += [[name, *map(percent, line)] for name, line in zip(names, shared.tolist(), strict=True)]
        rows.append([f"{self.metric.upper()}, removed to", *names])
        rows += [[name, *means[at * len(names) :][: len(names)]] for at, name in enumerate(names)]
        return f"BaselineComparison of {len(self.series)} series: {self.verdict()}\n{table(rows)}"

    @property
    def baselines(self) -> tuple[str, ...]:
        """Return the names of the baselines."""
        return tuple(self.explanations)

    @property
    def series(self) -> Tensor:
        """Return the ids of the series."""
        return next(iter(self.explanations.values())).ids

    def tables(self) -> tuple[Floats, Floats]:
        """Return mean shared top tenths and rank correlations of all pairs of maps, (baseline, baseline) each.

        On the diagonal, of a map and the one of another seed; a method that draws nothing has 1 there.
        """
        shared, correlation = np.eye(len(self.baselines)), np.eye(len(self.baselines))
        for pair, found in self.agreement.items():
            row, column = (self.baselines.index(name) for name in pair)
            shared[row, column] = shared[column, row] = summarise(found.shared).mean
            correlation[row, column] = correlation[column, row] = summarise(found.correlation).mean
        return shared, correlation

    @property
    def best(self) -> Flags:
        """Tell of each map (row) whether it is surely better than all others, by way of removing (column)."""
        sign, names = 1 if self.higher_is_better else -1, self.baselines

        def ahead(row: str, other: str, column: str) -> bool:
            return compare(sign * self.scores[row, column], sign * self.scores[other, column]).low > 0

        flags = [[all(ahead(row, each, to) for each in names if each != row) for to in names] for row in names]
        return np.array(flags)

    def verdict(self) -> str:
        """Say in one line how much the choice matters, and whether a map is best under its own removals."""
        ahead = [name for name, best in zip(self.baselines, self.best.diagonal(), strict=True) if best]
        if ahead:
            return f"{self._agreed()}; removed to {' or '.join(ahead)}, the map against it is the best of these"
        return f"{self._agreed()}; whose {self.metric.upper()} is best under its own removals cannot be told"

    def _agreed(self) -> str:
        """Say how much the choice changes the maps, as far as samples let that be seen."""
        pairs = {pair: found for pair, found in self.agreement.items() if pair[0] != pair[1]}
        pair = min(pairs, key=lambda names: summarise(pairs[names].shared).mean)
        correlation, shared = (summarise(part).mean for part in pairs[pair])
        if math.isnan(shared):
            return "how much the choice matters cannot be told: no series has observed cells"
        text = (
            f"{' and '.join(pair)} share {percent(shared)} of the top tenth of their cells (rank correlation "
            f"{correlation:.2f})"
        )
        again = [self.agreement[name, name].shared for name in pair if (name, name) in self.agreement]
        if again and shared < ALIKE:
            itself = torch.stack(again).mean(0)
            text += f", maps against one of them with another seed {percent(summarise(itself).mean)}"
            if not compare(itself, pairs[pair].shared).low > 0:
                return (
                    f"what the choice does cannot be told from what another seed does: {text}; take more samples"
                )
        how = "hardly matters" if shared >= ALIKE else "matters" if shared < APART else "matters somewhat"
        return f"the choice {how}: {text}"

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw both tables; see :func:`tempograd.plots.baselines`."""
        from tempograd.plots import baselines  # noqa: PLC0415  # above

        return baselines(self, title=title)


@asks(without=("targets", "baseline"))
def compare_baselines(
    model: Model | Predictor,
    x: Inputs | Series,
    method: str | Explainer = "timing",
    baselines: Sequence[str] | Mapping[str, InputBaselines] | None = None,
    *,
    metric: str | Metric = "cpd",
    k: int | float = 0.1,
    of: Measured | None = None,
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
    metric : str or Metric
        A metric that removes cells, by which each map is scored under each way of removing.
    k, of
        See :func:`tempograd.evaluate`.
    **options
        The question as in :func:`tempograd.explain`, such as ``background``, and settings of the method.

    Returns
    -------
    BaselineComparison
        It prints itself; ``verdict()`` is its sentence and ``plot()`` its picture.

    Notes
    -----
    Each baseline costs one explanation, two where the method draws samples: the second, with the next seed, tells
    how much of a difference samples alone make. Each pair of baselines costs one evaluation. A cell counts by the
    size of its score, as in the metrics.

    Methods that can compare with the mean of the background instead of a baseline (occlusion, gradient_shap) are
    given it for ``"background"`` alone.

    Examples
    --------
    >>> import torch
    >>> steep = lambda x: (x[:, 0] * x[:, 1] + x[:, 2]).tanh()
    >>> x = torch.tensor([[[0.1], [3.0], [1.0], [0.5]], [[1.0], [0.2], [2.0], [0.1]]])
    >>> found = compare_baselines(steep, x, "occlusion", output="raw", k=1)
    >>> found.baselines, found.scores["zero", "average"].shape
    (('zero', 'average'), torch.Size([2]))
    """
    if options.get("targets") is not None or "baseline" in options:
        raise InputError(
            f"Maps of one target are compared, against several baselines: pass {arg:question.target} instead of "
            f"{arg:question.targets}, and baselines= instead of {arg:question.baseline}."
        )
    background = options.pop("background", None)
    predictor, series = nouns(model, x)
    named = _named(baselines, background)
    chosen = METRICS[metric]() if isinstance(metric, str) else metric
    if not isinstance(chosen, Faithfulness):
        raise InputError(f"metric must be one that removes cells, such as 'cpd', got {brief(metric)}.")
    kind = explainer_of(method, {})

    def explained(baseline: Any, **more: Any) -> Explanation:
        # methods that use no baseline, but other series, would take these in its place
        learns = validation.is_background(baseline) or kind.needs_fit
        pool = {"background": background} if learns else {}
        return explain(predictor, series, method, baseline=baseline, **(options | pool | more))

    found = {name: explained(each) for name, each in named.items()}
    scores = {}
    for (row, explanation), (column, each) in product(found.items(), named.items()):
        pool = {"background": background} if validation.is_background(each) else {}
        scored = evaluate(predictor, explanation, metrics=[chosen], k=k, of=of, baseline=each, **pool)
        scores[row, column] = scored[chosen.name]
    agreement = {pair: _agreement(*(found[name] for name in pair)) for pair in combinations(named, 2)}
    for name, one in found.items():
        if kind.uses_baseline and one.facts.deterministic is False:
            seed = one.seed + 1 if one.seed < 2**63 - 1 else 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TempogradWarning)  # the first one has said it
                other = explained(named[name], **{"seed": seed, "gradient_check": False})
            agreement[name, name] = _agreement(one, other)
    return BaselineComparison(found, agreement, scores, chosen.name, chosen.higher_is_better)


def _named(baselines: Any, background: Any) -> dict[str, Any]:
    """Return what is compared with, by name."""
    known = ("zero", "average", "background")
    if baselines is None:
        baselines = known[: 2 + (background is not None)]
    if not isinstance(baselines, Mapping):
        baselines = {validation.check_choice(name, "each of baselines", known): name for name in baselines}
    if len(baselines) < 2:
        raise InputError(f"baselines must be at least two, got {brief(list(baselines))}.")
    return {str(name): each for name, each in baselines.items()}


def _agreement(one: Explanation, other: Explanation) -> Agreement:
    sizes = [each.importance.cpu().double().numpy() for each in (one, other)]
    rows = [_agree(*(size[i][seen] for size in sizes)) for i, seen in enumerate(observed_cells(one))]
    return Agreement(*torch.tensor(rows, dtype=torch.float32).reshape(-1, 2).unbind(1))


def _agree(one: Floats, other: Floats) -> tuple[float, float]:
    """Return rank correlation and shared top tenth of two maps, as flat arrays.

    Examples
    --------
    >>> _agree(np.arange(10.0), np.arange(10.0) ** 2)
    (1.0, 1.0)
    >>> _agree(np.array([1.0, 1.0]), np.array([1.0, 2.0]))
    (nan, 0.0)
    """
    if len(one) == 0:
        return math.nan, math.nan
    count = max(1, round(TOP * len(one)))
    best = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (one, other)]
    first, second = _ranks(one), _ranks(other)
    norm = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / norm if norm else math.nan, len(best[0] & best[1]) / count


def _ranks(values: Floats) -> Floats:
    """Rank numbers around 0, equal ones at the middle of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = (counts.cumsum() - (counts + 1) / 2)[place]
    return np.asarray(middle - middle.mean())
