"""How much a map depends on what it compares with: agreement of maps, and each map under each way of removing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd._utils.formatting import percent
from tempograd._utils.registry import joined
from tempograd.errors import InputError, brief
from tempograd.explainers import Explainer, explain
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Difference, Metric, compare, evaluate, summarise
from tempograd.metrics.faithfulness import Faithfulness
from tempograd.typing import Baseline, BaselineOptions, InputBaselines, Inputs, Model

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
        found = (compare(part, torch.zeros_like(part)) for part in (self.correlation, self.shared))
        said = (
            f"{name} {each.mean:.2f} [{each.low:.2f}, {each.high:.2f}]"
            for name, each in zip(PARTS, found, strict=True)
        )
        return f"BaselineAgreement({self.first!r}, {self.second!r}, {', '.join(said)})"


PARTS = ("correlation", "shared")


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
    """

    baselines: tuple[str, ...]
    explanations: dict[str, Explanation]
    agreement: tuple[BaselineAgreement, ...]
    scores: dict[tuple[str, str], Tensor]
    metric: str
    higher_is_better: bool = True

    def __repr__(self) -> str:
        lines = [f"BaselineComparison of {len(self.series)} series: {self.verdict()}"]
        lines += [f"  {each!r}" for each in self.agreement]
        width = max(len(name) for name in self.baselines)
        head = "  ".join(f"{name:>{width}}" for name in self.baselines)
        lines.append(f"  {self.metric.upper()}, explained against (rows) and removed to (columns):")
        lines.append(f"  {'':{width}}  {head}")
        for row in self.baselines:
            cells = (f"{summarise(self.scores[row, column]).mean:{width}.4g}" for column in self.baselines)
            lines.append(f"  {row:{width}}  {'  '.join(cells)}")
        return "\n".join(lines)

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

    def verdict(self) -> str:
        """Say in one line how much the choice matters, and whether a map is best under its own removals."""
        pair = min(self.agreement, key=lambda each: summarise(each.shared).mean)
        shared, correlation = (summarise(part).mean for part in (pair.shared, pair.correlation))
        how = "hardly matters" if shared >= ALIKE else "matters" if shared < APART else "matters somewhat"
        text = (
            f"the choice {how}: {pair.first} and {pair.second} share {percent(shared)} of the top tenth of their "
            f"cells (rank correlation {correlation:.2f})"
        )
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

    def plot(self, *, title: str | None = None) -> "Figure":
        """Draw both tables; see :func:`tempograd.plots.baselines`."""
        figure: Figure = joined("plot_baselines")(self, title=title)
        return figure


def compare_baselines(
    model: Model,
    x: Inputs,
    method: str | Explainer = "timing",
    baselines: Sequence[str] | Mapping[str, InputBaselines] | None = None,
    *,
    metric: str | Metric = "cpd",
    removal_draws: int | None = None,
    **options: Unpack[BaselineOptions],
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
    **options
        All other arguments of :func:`tempograd.explain`, such as ``background``, settings of the method among
        them, and ``k`` and ``of`` of :func:`tempograd.evaluate`.

    Returns
    -------
    BaselineComparison
        It prints itself; ``verdict()`` is its sentence and ``plot()`` its picture.

    Notes
    -----
    Each baseline costs one explanation, and each pair of them one evaluation. A cell counts by the size of its
    score, as in the metrics.

    Examples
    --------
    >>> import torch
    >>> steep = lambda x: (x[:, 0] * x[:, 1] + x[:, 2]).tanh()
    >>> x = torch.tensor([[[0.1], [3.0], [1.0], [0.5]], [[1.0], [0.2], [2.0], [0.1]]])
    >>> found = compare_baselines(steep, x, "occlusion", output="raw", k=1)
    >>> found.baselines, found.scores["zero", "average"].shape
    (('zero', 'average'), torch.Size([2]))
    """
    given: dict[str, Any] = dict(options)
    if "baseline" in given:
        raise InputError("baseline= is what this function varies: pass baselines=, such as ['zero', 'average'].")
    background, scored = given.get("background"), {name: given.pop(name) for name in ("k", "of") if name in given}
    named = _named(baselines, background)
    chosen = METRICS[metric]() if isinstance(metric, str) else metric
    if not isinstance(chosen, Faithfulness):
        raise InputError(f"metric must be one that removes cells, such as 'cpd', got {brief(metric)}.")
    found = {name: explain(model, x, method, baseline=each, **given) for name, each in named.items()}
    removed = {name: _removed(each, background, removal_draws) for name, each in named.items()}
    scores = {
        (row, column): evaluate(model, found[row], metrics=[chosen], **scored, **removed[column])[chosen.name]
        for row in named
        for column in named
    }
    pairs = tuple(_agreement(one, other, found) for one, other in combinations(named, 2))
    return BaselineComparison(tuple(named), found, pairs, scores, chosen.name, chosen.higher_is_better)


def _named(baselines: Any, background: Any) -> dict[str, Any]:
    """Return what is compared with, by name."""
    if baselines is None:
        baselines = ("zero", "average") if background is None else ("zero", "average", "background")
    if isinstance(baselines, str) or not isinstance(baselines, Sequence | Mapping):
        raise InputError(f"baselines must be several, such as ['zero', 'average'], got {brief(baselines)}.")
    if isinstance(baselines, Mapping):
        named = {str(name): each for name, each in baselines.items()}
    else:
        for name in baselines:
            validation.check_choice(name, "each of baselines", ("zero", "average", "background"))
        named = {name: name for name in baselines}
    if len(named) < 2 or len(named) < len(baselines):
        raise InputError(f"baselines must be at least two, each once, got {brief(list(baselines))}.")
    return named


def _removed(baseline: Baseline, background: Any, draws: int | None) -> dict[str, Any]:
    """Return the arguments that remove cells to a baseline."""
    if isinstance(baseline, str) and baseline == "background":
        return {"baseline": baseline, "background": background, "draws": draws}
    return {"baseline": baseline}


def _agreement(first: str, second: str, found: Mapping[str, Explanation]) -> BaselineAgreement:
    one, other = (found[name] for name in (first, second))
    mask = torch.ones_like(one.values, dtype=torch.bool) if one.mask is None else one.mask
    rows = []
    for i, seen in enumerate(mask.cpu()):
        maps = [each.importance[i].cpu()[seen].double().numpy() for each in (one, other)]
        rows.append(_agree(*maps))
    correlation, shared = torch.tensor(rows, dtype=torch.float32).reshape(-1, 2).unbind(1)
    return BaselineAgreement(first, second, correlation, shared)


def _agree(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> tuple[float, float]:
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


def _ranks(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Rank numbers, equal ones at the middle of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: np.ndarray[Any, Any] = (counts.cumsum() - (counts + 1) / 2)[place]
    return middle
