"""How much of a saturated mask's CPD is the order of its ties (fault B9).

Masks of ContraLSP and Extrmask end at exactly 0 and 1. Released code ranks equal scores by their position, this
library by a hash of series and cell. The same maps of Wafer are scored in both ways, and with later steps first.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import tempograd as tg
from tempograd_paper.protocols.published import make_published_explainer
from tempograd_paper.protocols.series import evenly
from tempograd_paper.released import released_metric
from tempograd_paper.runner import load_plan, prepare
from tempograd_paper.runner.execute import train_cell
from tempograd_paper.runner.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of a run; a model that is there is used")
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    store = Store(args.out)
    wanted = ("contralsp", "extremal_mask", "integrated_gradients")
    cells = [
        cell for cell in load_plan("table3-open").cells() if cell.dataset == "wafer" and cell.fold == args.fold
    ]
    prepare(cells, args.out, args.root)
    for cell in (each for each in cells if each.method in wanted):
        if not store.has_model(cell):
            train_cell(cell, store, args.device)
        data, model = store.data(cell), store.model(cell, args.device)
        test = evenly(data.test, args.series)
        found = make_published_explainer(cell, model, data, test)(
            model, tg.Series(test.x.to(args.device), ids=test.ids), seed=42
        )
        scores = found.importance.flatten(1).double()
        ranks = scores.unique(return_inverse=True)[1].double()
        place = torch.arange(scores.shape[1], device=scores.device) / scores.shape[1]
        orders = {"hash": ranks, "position": ranks - place, "later first": ranks + place}
        metric = released_metric("cpd")
        row = {}
        for name, order in orders.items():
            ranked = replace(found, values=order.view_as(found.values).float(), signed=False)
            row[name] = float(tg.evaluate(model, ranked, metrics=[metric])["cpd"].mean())
        tied = float((scores == scores.amax(1, keepdim=True)).double().sum(1).mean())
        print(f"{cell.method}: cells at the maximum {tied:.1f} of {scores.shape[1]},", row, flush=True)


if __name__ == "__main__":
    main()
