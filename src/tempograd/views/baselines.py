"""How much a map depends on what it compares with: agreement of maps, and each map under each way of removing."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, TempogradWarning, arg, brief
from tempograd.core.formatting import alike, percent, table, with_error
from tempograd.core.question import asks
from tempograd.core.series import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer, explain
from tempograd.explainers.base import nouns
from tempograd.explainers.by_name import explainer_of
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Difference, Metric, compare, evaluate, summarise
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.typing import InputBaselines, Inputs, Measured, Model
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 0.1  # share of the observed cells whose ranking people read
ALIKE, APART = 0.9, 0.6  # share of them in common from which on a choice hardly matters, and below which it does


@dataclass(frozen=True, eq=False)
class BaselineAgreement:
    """How far the maps against two baselines agree, (series,) each; NaN where a map has one rank for all cells.

    Attributes
    ----------
    first, second : str
        The baselines.
    correlation : Tensor
        Spearman's rank correlation of the importance of the observed cells.
    shared : Tensor
        Share of the top tenth of the cells that is the same.
    """

    first: str
    second: str
    correlation: Tensor
    shared: Tensor

    def __repr__(self) -> str:
        means = (summarise(values) for values in (self.correlation, self.shared))
        correlation, shared = (with_error(each.mean, each.standard_error) for each in means)
        return f"BaselineAgreement({self.first!r}, {self.second!r}, correlation {correlation}, shared {shared})"


@dataclass(frozen=True, eq=False)
class BaselineComparison:
    """What :func:`compare_baselines` found.

    Attributes
    ----------
    baselines : tuple of str
    explanations : dict of Explanation
        By baseline.
    agreement : tuple of BaselineAgreement
        Of every pair of baselines.
    scores : dict of Tensor
        One score per series, by (explained against, removed to).
    metric : str
        What the scores are.
    redrawn : dict of BaselineAgreement
        By baseline, how far its map agrees with the one of another seed: what samples alone change. Empty for
        methods that draw nothing.
    uses_baseline : bool
        Whether the method compares with a baseline at all.
    """

    baselines: tuple[str, ...]
    explanations: dict[str, Explanation]
    agreement: tuple[BaselineAgreement, ...]
    scores: dict[tuple[str, str], Tensor]
    metric: str
    higher_is_better: bool = True
    redrawn: Mapping[str, BaselineAgreement] = field(default_factory=dict)
    uses_baseline: bool = True

    def __repr__(self) -> str:
        lines = [f"BaselineComparison of {len(self.series)} series: {self.verdict()}"]
        lines += [f"  {each!r}" for each in (*self.agreement, *self.redrawn.values())]
        names, metric = self.baselines, self.metric.upper()
        means = alike(*(summarise(self.scores[row, column]).mean for row in names for column in names))
        rows = [[name, *means[at * len(names) :][: len(names)]] for at, name in enumerate(names)]
        head = f"{metric}, explained against (rows) and removed to (columns)"
        return "\n".join([*lines, table([[head, *names], *rows])])

    @property
    def series(self) -> Tensor:
        """Return the ids of the series."""
        return next(iter(self.explanations.values())).ids

    def lead(self, removed: str, explained: str | None = None) -> tuple[str, Difference]:
        """Return the best of the other maps where cells are removed to one baseline, and how far a map is ahead.

        That is the map against the same baseline, or against the one that is given; the lead is that on the same
        series, positive where it is better.
        """
        explained = removed if explained is None else explained
        sign = 1 if self.higher_is_better else -1
        others = [name for name in self.baselines if name != explained]
        best = max(others, key=lambda name: sign * summarise(self.scores[name, removed]).mean)
        return best, compare(sign * self.scores[explained, removed], sign * self.scores[best, removed])

    def tables(self) -> tuple[Floats, Floats]:
        """Return mean shared top tenths and rank correlations of all pairs of maps, (baseline, baseline) each.

        On the diagonal, of a map and the one of another seed; a method that draws nothing has 1 there.
        """
        shared, correlation = np.eye(len(self.baselines)), np.eye(len(self.baselines))
        pairs = [(each.first, each.second, each) for each in self.agreement]
        for first, second, each in (*pairs, *((name, name, found) for name, found in self.redrawn.items())):
            place = self.baselines.index(first), self.baselines.index(second)
            shared[place] = shared[place[::-1]] = summarise(each.shared).mean
            correlation[place] = correlation[place[::-1]] = summarise(each.correlation).mean
        return shared, correlation

    @property
    def best(self) -> Flags:
        """Tell of each map (row) whether it is surely the best under each way of removing (column)."""
        leads = [[self.lead(column, row)[1] for column in self.baselines] for row in self.baselines]
        return np.array([[lead.low > 0 for lead in row] for row in leads])

    def verdict(self) -> str:
        """Say in one line how much the choice matters, and whether a map is best under its own removals."""
        if not self.uses_baseline:
            method = next(iter(self.explanations.values())).method
            return (
                f"the choice changes no map: {method} has no baseline, and only what cells are removed to differs"
            )
        text = self._agreed()
        leads = {name: self.lead(name) for name in self.baselines}
        ahead = [name for name, (_, lead) in leads.items() if lead.low > 0]
        behind = [name for name, (_, lead) in leads.items() if lead.high < 0]
        if ahead:
            text += f"; removed to {' or '.join(ahead)}, the map against it is the best of these"
        if behind:
            told = (f"that against {leads[name][0]} where cells are removed to {name}" for name in behind)
            text += f"; another map is better: {', '.join(told)}"
        if not ahead and not behind:
            text += f"; whose {self.metric.upper()} is best under its own removals cannot be told"
        return text

    def _agreed(self) -> str:
        """Say how much the choice changes the maps, as far as samples let that be seen."""
        pair = min(self.agreement, key=lambda each: summarise(each.shared).mean)
        shared, correlation = (summarise(part).mean for part in (pair.shared, pair.correlation))
        if math.isnan(shared):
            return "how much the choice matters cannot be told: no series has observed cells"
        found = (
            f"{pair.first} and {pair.second} share {percent(shared)} of the top tenth of their cells (rank "
            f"correlation {correlation:.2f})"
        )
        again = [self.redrawn[name].shared for name in (pair.first, pair.second) if name in self.redrawn]
        if again and shared < ALIKE:
            itself = torch.stack(again).mean(0)
            found += f", maps against one of them with another seed {percent(summarise(itself).mean)}"
            if not compare(itself, pair.shared).low > 0:
                return (
                    f"what the choice does cannot be told from what another seed does: {found}; take more samples"
                )
        how = "hardly matters" if shared >= ALIKE else "matters" if shared < APART else "matters somewhat"
        return f"the choice {how}: {found}"

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
    removal_draws: int | None = None,
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
    removal_draws : int, optional
        How many background series take the place of removed cells in turn; see ``draws`` of
        :func:`tempograd.evaluate`.
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
        pool = {"background": background, "draws": removal_draws} if validation.is_background(each) else {}
        scored = evaluate(predictor, explanation, metrics=[chosen], k=k, of=of, baseline=each, **pool)
        scores[row, column] = scored[chosen.name]
    pairs = tuple(_agreement(one, found[one], other, found[other]) for one, other in combinations(named, 2))
    redrawn = {}
    for name, one in found.items():
        if kind.uses_baseline and one.facts.deterministic is False:
            seed = one.seed + 1 if one.seed < 2**63 - 1 else 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TempogradWarning)  # the first one has said it
                other = explained(named[name], **{"seed": seed, "gradient_check": False})
            redrawn[name] = _agreement(name, one, f"{name}, seed {seed}", other)
    return BaselineComparison(
        tuple(named),
        found,
        pairs,
        scores,
        chosen.name,
        chosen.higher_is_better,
        redrawn,
        kind.uses_baseline,
    )


def _named(baselines: Any, background: Any) -> dict[str, Any]:
    """Return what is compared with, by name."""
    if baselines is None:
        baselines = ("zero", "average") if background is None else ("zero", "average", "background")
    baselines = [baselines] if isinstance(baselines, str) else baselines
    if isinstance(baselines, Mapping):
        named = {str(name): each for name, each in baselines.items()}
    else:
        named = {
            validation.check_choice(name, "each of baselines", ("zero", "average", "background")): name
            for name in baselines
        }
    if len(named) < 2 or len(named) < len(baselines):
        raise InputError(f"baselines must be at least two, each once, got {brief(list(baselines))}.")
    return named


def _agreement(first: str, one: Explanation, second: str, other: Explanation) -> BaselineAgreement:
    mask = torch.ones_like(one.values, dtype=torch.bool) if one.mask is None else one.mask
    rows = [
        _agree(*(each.importance[i].cpu()[seen].double().numpy() for each in (one, other)))
        for i, seen in enumerate(mask.cpu())
    ]
    correlation, shared = torch.tensor(rows, dtype=torch.float32).reshape(-1, 2).unbind(1)
    return BaselineAgreement(first, second, correlation, shared)


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
        return float("nan"), float("nan")
    ranks = [_ranks(each) for each in (one, other)]
    spreads = [float(each.std()) for each in ranks]
    count = max(1, round(TOP * len(one)))
    best = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (one, other)]
    shared = len(best[0] & best[1]) / count
    if min(spreads) == 0:
        return float("nan"), shared
    product = float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean())
    return product / (spreads[0] * spreads[1]), shared


def _ranks(values: Floats) -> Floats:
    """Rank numbers, equal ones at the middle of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: Floats = (counts.cumsum() - (counts + 1) / 2)[place]
    return middle
