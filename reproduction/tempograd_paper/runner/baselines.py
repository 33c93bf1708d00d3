"""The explanations of a cell of the tuned protocol: one against each baseline that its measures remove to."""

import time
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from torch import nn

from tempograd.data import Dataset, Series
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation
from tempograd_paper.cell import Cell, RemovalBaseline
from tempograd_paper.protocols import tuned
from tempograd_paper.protocols.tuned import TuningSeries
from tempograd_paper.runner.store import Store
from tempograd_paper.runner.watching import collected, wait

Noted = tuple[Explanation, dict[str, Any]]
"""An explanation, and what is kept beside it: ``chosen``, ``warnings`` and ``seconds``."""


def explain_each(
    cell: Cell, store: Store, model: nn.Module, data: Dataset, test: Series, device: str
) -> dict[str, Noted]:
    """Return the explanation for every baseline of a cell that its method can compare with.

    Those that the store has are not made again. Two baselines share one where the
    method compares with neither and was tuned to the same settings.
    """
    _, steps, channels = test.x.shape
    series, found = TuningSeries.of(data, device), dict[str, Noted]()
    for baseline in dict.fromkeys(measure.baseline for measure in cell.measures):
        if tuned.refusal(cell.method, baseline):
            continue
        name = tuned.explained_against(cell, baseline, (steps, channels))
        kept = found.get(name) or store.explanation(cell, name)
        if kept is None:
            kept = _explain(cell, model, series, test, baseline, list(found.values()))
            store.save_explanation(cell, *kept, name)
        found[name] = found[baseline] = kept
    return found


def _explain(
    cell: Cell, model: nn.Module, series: TuningSeries, test: Series, baseline: RemovalBaseline, done: list[Noted]
) -> Noted:
    device = str(series.pool.device)
    compares = EXPLAINERS[cell.method].uses_baseline
    against: dict[str, Any] = {"baseline": baseline} if compares else {}
    if compares and baseline == "background":
        against["background"] = series.pool
    with collected() as messages:
        start = time.monotonic()
        explainer, chosen = tuned.make_tuned_explainer(cell, model, series, baseline)
        wait(device)
        middle = time.monotonic()
        same = [each for each, _ in done if not compares and each.parameters == explainer.parameters]
        if same:
            explanation = same[0]
        else:
            x = test.x.to(device)
            explanation = explainer(model, Series(x, mask=test.mask, ids=test.ids), seed=cell.seed, **against)
        wait(device)
        end = time.monotonic()
    seconds = {"fit": middle - start} | ({} if same else {"explain": end - middle})
    return explanation, {"chosen": chosen, "warnings": messages, "seconds": seconds}


def noted_of_all(cell: Cell, found: Mapping[str, Noted]) -> dict[str, Any]:
    """Return what a record keeps of explanations against several baselines: by baseline what may differ."""
    baselines = list(dict.fromkeys(measure.baseline for measure in cell.measures))
    once = list({id(noted): noted for _, noted in found.values()}.values())
    explained = [noted["seconds"]["explain"] for noted in once if "explain" in noted["seconds"]]
    seconds = {"fit": sum(noted["seconds"]["fit"] for noted in once)}
    return {
        "parameters": {name: found[name][0].parameters for name in baselines if name in found},
        "chosen": {name: found[name][1]["chosen"] for name in baselines if name in found},
        "left_out": {name: why for name in baselines if (why := tuned.refusal(cell.method, name))},
        "warnings": sorted({message for noted in once for message in noted["warnings"]}),
        "seconds": seconds | ({"explain": fmean(explained)} if explained else {}),
    }
