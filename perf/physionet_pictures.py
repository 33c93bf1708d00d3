"""PhysioNet 2012 as pictures: two true positives and two true negatives, and what drives predicted deaths.

A GRU trained by the default recipe on sets a and b, TIMING with its defaults on all 4,000 stays of set c, always
for the class "died", so that orange raises the risk in every picture. The four stays are those whose risk is
nearest to those of the paper's four cases. Minutes on one core:

    TEMPOGRAD_DATA=/path/to/data python perf/physionet_pictures.py

Pictures: ``docs/pictures/physionet_*.png``. Numbers: ``perf/results/physionet_drivers.json``.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import tempograd as tg
from tempograd import plots
from tempograd_paper.runner.execute import model_quality

CLASSES = ("survived", "died")
RISKS = ((1, 0.625), (1, 0.898), (0, 0.020), (0, 0.081))  # label and risk of the paper's cases
METHODS = ("integrated_gradients", "gradient_shap", "occlusion", "lime")


def cases(risk: Tensor, y: Tensor) -> list[int]:
    """Return the stays that the model gets right with about these risks."""
    found: list[int] = []
    for label, wanted in RISKS:
        right = (y == label) & ((risk > 0.5) == bool(label))
        distance = torch.where(right, (risk - wanted).abs(), torch.inf)
        distance[found] = torch.inf
        found.append(int(distance.argmin()))
    return found


def numbers(found: tg.Explanation, rows: Tensor, per: str) -> list[dict[str, object]]:
    """Return means and standard errors of all parameters, the strongest first, of stays that measured them."""
    mask, channels = found.mask, found.channels
    if mask is None or channels is None:
        raise ValueError("The explanation of PhysioNet has a mask and names.")
    seen = mask[rows].double().sum(1)
    count = seen.where(seen > 0, torch.nan) if per == "value" else torch.ones_like(seen)
    columns: dict[str, Tensor] = {}
    for name, scores in (("signed", found.values[rows]), ("absolute", found.importance[rows])):
        sums = scores.double().sum(1) / count
        known = (~sums.isnan()).sum(0)
        mean = sums.nanmean(0)
        columns[f"{name}_mean"] = mean
        columns[f"{name}_error"] = ((sums - mean).square().nansum(0) / (known * (known - 1))).sqrt()
    columns["present"] = (seen > 0).double().mean(0)
    order = columns["absolute_mean" if per == "series" else "signed_mean"].argsort(descending=True, stable=True)
    return [
        {"channel": channels[d]} | {name: float(f"{part[d]:.4g}") for name, part in columns.items()}
        for d in order.tolist()
    ]


def picture_drivers(found: tg.Explanation, rows: Tensor, what: str, out: Path) -> dict[str, object]:
    """Draw the drivers per stay, and return the numbers of all parameters per stay and per value."""
    title = f"What drives predicted deaths, per stay  ·  {what}"
    plots.channel_importance(found, 1, rows=rows, title=title).savefig(
        out / "physionet_drivers_series.png", dpi=110
    )
    return {per: numbers(found, rows, per) for per in ("series", "value")}


def made(
    data: tg.Dataset, args: argparse.Namespace, options: dict[str, object]
) -> tuple[nn.Module, tg.Explanation]:
    """Return model and explanation: those kept before, or new ones."""
    paths = [args.keep / f"{name}.safetensors" for name in ("model", "explanation")] if args.keep else []
    if paths and all(path.exists() for path in paths):
        return tg.load_model(paths[0]).to(args.device), tg.Explanation.load(paths[1])
    model = tg.train("gru", data, seed=args.seed, device=args.device)
    found = tg.explain(model, data.test, **options)
    if paths:
        args.keep.mkdir(parents=True, exist_ok=True)
        tg.save_model(model, paths[0])
        found.save(paths[1])
    return model, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--results", type=Path, default=Path("perf/results/physionet_drivers.json"))
    parser.add_argument("--keep", type=Path, help="a folder for model and explanation, to be used again")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data = tg.load_dataset("physionet2012")
    options = {"target": 1, "seed": args.seed}
    model, found = made(data, args, options)
    facts, test = model_quality(model, data.test), data.test
    with torch.no_grad():
        risk = torch.cat([model(part.to(args.device)).softmax(-1)[:, 1].cpu() for part in test.x.split(256)])
    died = risk > 0.5
    what = f"{int(died.sum())} of {len(test):,} stays, AUROC {facts['auroc']:.2f}"
    print(f"accuracy {facts['accuracy']:.3f}, {what}, {int((died & (test.y == 1)).sum())} of them died")
    kept = picture_drivers(found, died, what, args.out)
    args.results.write_text(json.dumps({"model": facts, "stays": int(died.sum()), **kept}, indent=1) + "\n")

    shown = cases(risk, test.y)
    title = "Input and attribution by TIMING: two true positives, two true negatives (PhysioNet 2012)"
    found = replace(found, classes=CLASSES)
    common = {"y": test.y, "channels": 14}
    sheet = Figure(figsize=(8.2, 3 * len(shown)), layout="constrained")
    for place, row in zip(sheet.subfigures(len(shown)), shown, strict=True):
        plots.compare(found, row, ax=place, **common)
    sheet.suptitle(title)
    sheet.savefig(args.out / "physionet_heatmap.png", dpi=110)
    plots.series(found, shown[0], **(common | {"channels": 5})).savefig(args.out / "physionet_series.png", dpi=110)

    one = test.take([shown[0]])
    named = {"timing": found[shown[0] : shown[0] + 1]}
    for method in METHODS:
        train = data.train.x[:500] if method == "gradient_shap" else None
        other = tg.explain(model, one, method, background=train, **options)
        named[method] = replace(other, classes=CLASSES)
    common["y"] = one.y
    plots.compare(named, **common).savefig(args.out / "physionet_methods.png", dpi=110)


if __name__ == "__main__":
    main()
