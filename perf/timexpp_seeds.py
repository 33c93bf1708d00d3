"""How much of TimeX++'s CPD under the published protocol is the seed of its own weights.

    python perf/timexpp_seeds.py --run RUN

As released, its attention runs over the series of a test batch (fault B3), so a step's score hardly knows the
other steps of its series: it rises or falls with the value. Which of the two is settled by the weights it starts
from. The model stays the same; only the explainer's seed changes. RUN is a folder of a run of ``table3-1000``;
what it does not hold is made. Rows go to ``perf/results/timexpp_seeds.json`` one by one, and those that are there
are not measured again. Some five minutes a seed on one core.
"""

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tempograd as tg
from tempograd_paper.cell import Cell, Measure
from tempograd_paper.protocols.published import make_published_explainer
from tempograd_paper.protocols.series import evenly
from tempograd_paper.released import released_metric
from tempograd_paper.runner.execute import train_cell
from tempograd_paper.runner.store import Store
from timing import machine

CPD = Measure("cpd10%_zero", "cpd", 0.1)


def correlation(scores: Tensor, x: Tensor) -> float:
    """Return Pearson's correlation of scores and values over all cells of all series."""
    return float(torch.corrcoef(torch.stack([scores.flatten().double(), x.flatten().double()]))[0, 1])


def measure(cell: Cell, store: Store, series: int) -> dict[str, float]:
    """Fit and explain with the cell's seed, and score, on the model of the first seed."""
    trained = replace(cell, seed=42)
    data, model = store.data(cell), store.model(trained, "cpu")
    test = evenly(data.test, series)
    found = make_published_explainer(cell, model, data, test)(
        model, tg.Series(test.x, ids=test.ids), seed=cell.seed
    )
    score = tg.evaluate(model, found, metrics=[released_metric("cpd")])["cpd"].double().mean()
    return {"cpd": float(score), "correlation_with_value": correlation(found.importance, test.x)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of a run of table3-1000, published")
    parser.add_argument("--dataset", default="freezer")
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 0, 1, 2])
    parser.add_argument("--series", type=int, default=1000, help="so many test series, evenly spaced")
    parser.add_argument("--out", type=Path, default=Path("perf/results/timexpp_seeds.json"))
    args = parser.parse_args()
    store = Store(args.run)
    cell = Cell(args.dataset, "published", args.fold, "gru", "timexpp", (CPD,), "published")
    store.prepare(cell, None)
    if not store.has_model(cell):
        train_cell(cell, store, "cpu")
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    about = {"protocol": "published", "test_series": args.series, "date": date} | machine()
    rows: list[dict[str, Any]] = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
    for seed in args.seeds:
        key = {"dataset": args.dataset, "fold": args.fold, "seed": seed}
        if any(key.items() <= row.items() for row in rows):
            continue
        rows.append(key | measure(replace(cell, seed=seed), store, args.series))
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
        args.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
