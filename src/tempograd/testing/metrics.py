"""The rules of metrics; cells have distinct scores but where ties are the point."""

import json
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.core.errors import TempogradError
from tempograd.core.series import Series
from tempograd.engine import Predictor
from tempograd.explainers import Occlusion
from tempograd.explanation import Explanation
from tempograd.metrics import Metric, evaluate
from tempograd.testing.rules import (
    CHANNELS,
    TIME,
    PerStep,
    Smooth,
    Weighted,
    demand,
    rules_of,
    same_numbers,
    small_series,
)


def _maps(batch: int) -> Tensor:
    """Return scores, no two of which are equal in size."""
    order = torch.rand(batch, TIME * CHANNELS, generator=torch.Generator().manual_seed(3)).argsort(1)
    return ((order + 1) * torch.where(order % 2 == 0, 1.0, -1.0) / 10).view(batch, TIME, CHANNELS)


def _explanation(model: nn.Module, x: Tensor, values: Tensor, mask: Tensor | None = None) -> Explanation:
    """Return scores of our own as an explanation, with ids that say nothing of the order."""
    ids = (torch.arange(len(x)) * 37) % 1009 - 50
    return replace(Occlusion()(model, Series(x, mask=mask, ids=ids)), values=values)


def _truth(batch: int) -> Tensor:
    truth = torch.rand(batch, TIME, CHANNELS, generator=torch.Generator().manual_seed(8)) < 0.3
    truth[:, 0, 0], truth[:, 1, 0] = True, False
    return truth


def _measure(
    metric: Metric, model: nn.Module | Predictor, found: Explanation, truth: Tensor, **options: Any
) -> Tensor:
    scores = evaluate(model, found, metrics=[metric], truth=truth, **({"k": 0.3} | options))
    demand(list(scores) == [metric.name], f"the scores are reported under {', '.join(scores)}")
    return scores[metric.name]


def _settings(metric: Metric) -> None:
    """Require that settings are fields of a frozen dataclass and plain data, and the direction is said."""
    kind = type(metric)
    demand(is_dataclass(kind) and kind.__dataclass_params__.frozen, "the class is no frozen dataclass")  # type: ignore[attr-defined]
    demand(type(getattr(metric, "higher_is_better", None)) is bool, "higher_is_better is not True or False")
    json.dumps(metric.parameters)  # or it fails: settings are plain data
    demand(kind(**metric.parameters, name=metric.name) == metric, "the same settings make another metric")
    model, x = Smooth(), small_series(3)
    _measure(replace(metric, name="another name"), model, _explanation(model, x, _maps(3)), _truth(3))


def _numbers(metric: Metric) -> None:
    """Require one finite float32 score per series; those of other tasks may be refused in one sentence."""
    model, step, x = Smooth(), PerStep(), small_series(5)
    calls: tuple[tuple[Any, dict[str, Any]], ...] = (
        (model, {}),
        (step, {}),
        (step, {"steps": [1, 5]}),
        (Predictor(model, task="multilabel"), {"target": 1}),
        (Predictor(model, task="forecast"), {"target": 2}),
        (model, {"target": lambda outputs: outputs[:, 0] - outputs[:, 1]}),
    )
    for number, (predictor, question) in enumerate(calls):
        try:
            explained = replace(Occlusion()(predictor, x, **question), values=_maps(5))
            found = _measure(metric, predictor, explained, _truth(5))
        except TempogradError:
            demand(number > 0, "scores of a class are refused")
            continue
        wanted: tuple[int, ...] = () if metric.whole else (5,)
        demand(tuple(found.shape) == wanted, f"five series get scores of shape {tuple(found.shape)}, not {wanted}")
        demand(found.dtype == torch.float32, f"the scores are {found.dtype}")
        demand(found.isfinite().all(), f"{int((~found.isfinite()).sum())} of them are not finite")


def _company(metric: Metric) -> None:
    """Require that a series' score does not depend on its company, only on its id."""
    model, x, truth = Smooth(), small_series(9), _truth(9)
    values = _maps(9)
    values[:, 2:6] = 0.5  # ties too
    explanation = _explanation(model, x, values)
    expected = _measure(metric, model, explanation, truth)
    for rows in ([4, 8, 0, 2, 7, 1, 3, 6, 5], *([] if metric.whole else [[6, 1]])):
        found = _measure(metric, model, explanation[torch.tensor(rows)], truth[rows])
        wanted = expected if metric.whole else expected[rows]
        same_numbers(found, wanted, f"for {len(rows)} series in another order", 1e-5)
    for size in (1, 7, 100000):
        found = _measure(metric, model, explanation, truth, batch_size=size)
        same_numbers(found, expected, f"with {size} sequences a pass", 1e-5)


def _position(metric: Metric) -> None:
    """Require that where a cell stands makes no difference, and ties are not broken by position."""
    batch, cells = 96, torch.arange(TIME * CHANNELS)
    x, values, truth = small_series(batch) + 1, _maps(batch), _truth(batch)
    weights = torch.linspace(-0.5, 1, len(cells), dtype=torch.float64)
    order = torch.randperm(len(cells), generator=torch.Generator().manual_seed(2))
    expected, found = (_moved(metric, x, weights, values, truth, way) for way in (cells, order))
    same_numbers(found, expected, "with cells in another order", 1e-4, 1e-6)
    first = cells < len(cells) // 2  # of which alone the model knows, and then of the last
    weights, truth = first.double() * 0.3, first.view(1, TIME, CHANNELS).expand(batch, -1, -1)
    ends = [_moved(metric, x, weights, torch.ones(x.shape), truth, way).double() for way in (cells, cells.flip(0))]
    gap = float((ends[0].mean() - ends[1].mean()).abs())
    spread = 0.0 if metric.whole else sum(float(end.var()) / batch for end in ends) ** 0.5
    demand(gap <= 5 * spread + 1e-6, f"where all scores are equal, cells that come first count {gap:.3g} more")


def _moved(metric: Metric, x: Tensor, weights: Tensor, values: Tensor, truth: Tensor, order: Tensor) -> Tensor:
    """Measure with the cells of series, model, scores and truth in another order."""
    model = Weighted(weights[order])
    x, values, truth = (part.flatten(1)[:, order].view(part.shape) for part in (x, values, truth))
    return _measure(metric, model, _explanation(model, x, values), truth)


def _mask(metric: Metric) -> None:
    """Require that unobserved cells are never ranked, removed or counted."""
    x, mask, truth, values = small_series(6), torch.ones(6, TIME, CHANNELS, dtype=torch.bool), _truth(6), _maps(6)
    mask[:, 3:5, 1:], mask[:, -2:] = False, False
    weights = torch.linspace(-0.5, 1, TIME * CHANNELS, dtype=torch.float64).view(TIME, CHANNELS)
    model = Weighted(weights * mask[0])  # does not read them
    expected = _measure(metric, model, _explanation(model, x, values.where(mask, 0), mask), truth)
    loud = _explanation(model, x.where(mask, 50.0), values.where(mask, 1000.0), mask)
    same_numbers(_measure(metric, model, loud, truth ^ ~mask), expected, "with other numbers there", 1e-5)
    short, rest = Weighted((weights * mask[0])[:-2]), slice(None, -2)
    cut = _explanation(short, x[:, rest], values[:, rest].where(mask[:, rest], 0), mask[:, rest])
    same_numbers(_measure(metric, short, cut, truth[:, rest]), expected, "without the steps at the end", 1e-5)


def _direction(metric: Metric) -> None:
    """Require that scores that know the answer are better than random ones."""
    batch = 64
    x, truth = small_series(batch).abs() * 0.2 + 1, torch.zeros(batch, TIME, CHANNELS, dtype=torch.bool)
    truth[:, 2:5, 1] = True
    weights = torch.where(truth[0], 3.0, 0.05).double()
    model = Weighted(weights, constant=-4.0)  # without the three cells the answer is the other class
    known, noise = (x * weights).float(), _maps(batch).abs()
    found = (_explanation(model, x, values) for values in (known, noise))
    good, chance = (float(_measure(metric, model, each, truth, k=3).double().mean()) for each in found)
    better = good > chance if metric.higher_is_better else good < chance
    word = "higher" if metric.higher_is_better else "lower"
    demand(better, f"{word} is called better, but they get {good:.3g} on average and random ones {chance:.3g}")


METRIC_RULES = rules_of(globals())
"""The rules of metrics, by name."""
