"""PhysioNet 2012 as pictures: two true positives and two true negatives, and what drives predicted deaths.

A GRU trained by the default recipe on sets a and b, TIMING with its defaults on all 4,000 stays of set c, always
for the class "died", so that orange raises the risk in every picture. The four stays are those whose risk is
nearest to those of the paper's four cases. Minutes on one core:

    TEMPOGRAD_DATA=/path/to/data python perf/physionet_pictures.py

Pictures: ``docs/pictures/physionet_*.png``. Numbers: ``perf/results/physionet_drivers.json``.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn

import tempograd as tg
from tempograd import plots
from tempograd.views.groups import ChannelEffects, channel_effects
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


def numbers(effects: ChannelEffects, by: str) -> list[dict[str, object]]:
    """Return the effects of all parameters, the strongest first."""
    columns = {"signed_mean": effects.push, "signed_half": effects.push_half}
    columns |= {"absolute_mean": effects.size, "absolute_half": effects.size_half, "present": effects.present}
    order = (-(effects.push if by == "signed" else effects.size)).argsort(kind="stable")
    return [
        {"channel": effects.names[d]} | {name: float(f"{part[d]:.4g}") for name, part in columns.items()}
        for d in order
    ]


def picture_drivers(found: tg.Explanation, rows: Tensor, what: str, out: Path) -> dict[str, object]:
    """Draw the drivers per stay and per value, and return the numbers of all parameters."""
    kept: dict[str, object] = {}
    for per, by, unit in (("series", "absolute", "per stay"), ("value", "signed", "per measured value")):
        kept[per] = numbers(channel_effects(found, 1, rows=rows, per=per), by)
        picture = plots.channel_importance(
            found, 1, rows=rows, per=per, by=by, title=f"What drives predicted deaths, {unit}  ·  {what}"
        )
        picture.savefig(out / f"physionet_drivers_{per}.png", dpi=110)
    return kept


def made(
    data: tg.Dataset, args: argparse.Namespace, options: dict[str, object]
) -> tuple[nn.Module, tg.Explanation]:
    """Return model and explanation: those kept before, or new ones."""
    paths = [args.keep / f"{name}.safetensors" for name in ("model", "explanation")] if args.keep else []
    if paths and all(path.exists() for path in paths):
        return tg.load_model(paths[0]).to(args.device), tg.Explanation.load(paths[1])
    model = tg.train("gru", data, seed=args.seed, device=args.device)
    found = tg.explain(model, tg.Series(data.test.x, mask=data.test.mask, ids=data.test.ids), **options)
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
    options = {"target": 1, "seed": args.seed, "channels": data.channels}
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
    found = found.with_names(classes=CLASSES)
    common = {"y": test.y, "channels": 14}
    plots.heatmap(found, shown, title=title, **common).savefig(args.out / "physionet_heatmap.png", dpi=110)
    plots.series(found, shown[0], **(common | {"channels": 5})).savefig(args.out / "physionet_series.png", dpi=110)

    one = test.take([shown[0]])
    named = {"timing": found[shown[0] : shown[0] + 1]}
    for method in METHODS:
        train = data.train.x[:500] if method == "gradient_shap" else None
        other = tg.explain(model, tg.Series(one.x, mask=one.mask, ids=one.ids), method, train, **options)
        named[method] = other.with_names(classes=CLASSES)
    common["y"] = one.y
    plots.compare(named, **common).savefig(args.out / "physionet_methods.png", dpi=110)


if __name__ == "__main__":
    main()
