"""The compared methods on State, in the manner of time_interpret's study, beside its figures.

Five folds of the released data, a GRU trained by the published recipe, each cell's effect on its own step
(``released(method, "state")``), scores pooled over the test series. Dynamask, Extrmask and ContraLSP run without
B6, which has them look at the last step alone; Dynamask without any fault (and with a step of 0.01 in place of
0.001, so that masks arrive at 0 and 1), and with the order of rows that the released code has. Results:
``perf/results/state_study.json``.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

import tempograd as tg
from tempograd.explainers import Explainer
from tempograd_paper.released import released, released_metric, train_as_released

METRICS = ("aup", "aur", "auroc", "auprc")
QUOTED = {  # means of time_interpret's own result files: AUP, AUR, AUROC
    "integrated_gradients": (0.918, 0.454, 0.936),
    "gradient_shap": (0.849, 0.414, 0.852),
    "deep_lift": (0.920, 0.454, 0.938),
    "lime": (0.932, 0.438, 0.937),
    "occlusion": (0.866, 0.393, 0.870),
    "augmented_occlusion": (0.755, 0.388, 0.915),
    "fit": (0.421, 0.549, 0.711),
    "extremal_mask": (0.885, 0.781, 0.910),
    "dynamask": (0.711, 0.763, 0.876),
}


def without(method: str, *keys: str) -> Explainer:
    """Return the published method without some of its faults."""
    preset = released(method, "state")
    return replace(preset, quirks=preset.quirks - set(keys))


METHODS: dict[str, Callable[[], Explainer]] = {
    **{name: lambda name=name: without(name) for name in list(QUOTED)[:7]},
    "extremal_mask": lambda: without("extremal_mask", "B6"),
    "contralsp": lambda: without("contralsp", "B6"),
    "dynamask": lambda: replace(without("dynamask", "B5", "B6", "0.3.5", "4.2"), lr=0.01),
    "dynamask, rows in the released order": lambda: replace(without("dynamask", "B5", "B6"), lr=0.01),
    "dynamask, defaults": tg.Dynamask,
    "timing": lambda: tg.Timing(50),
    "random": tg.Random,
}


def study(fold: int, device: str, series: int, chosen: list[str]) -> list[dict[str, object]]:
    data = tg.load_dataset("state", fold=fold)
    model = train_as_released("gru", data, seed=42 + fold, device=device)
    test = data.test.take(slice(series))
    accuracy, rows = tg.accuracy(model, data.test), []
    metrics = [released_metric(name) for name in METRICS]
    for name in chosen:
        explainer, start = METHODS[name](), time.monotonic()
        # the released FIT learns its generator from the explained series; everything else from the training series
        train = test.x if name == "fit" else data.train.x
        if explainer.needs_fit or name == "occlusion":
            explainer = explainer.fit(model, train.to(device), seed=fold)
        found = tg.explain(model, test.x.to(device), explainer, seed=fold)
        scores = tg.evaluate(model, found, metrics=metrics, truth=test.truth)
        row = {"method": name, "fold": fold, "accuracy": accuracy, "seconds": round(time.monotonic() - start, 1)}
        rows.append(row | {metric: float(torch.as_tensor(scores[metric]).mean()) for metric in METRICS})
        print(
            " ".join(
                f"{key}={value:.3f}" if isinstance(value, float) else f"{key}={value}"
                for key, value in rows[-1].items()
            ),
            flush=True,
        )
    return rows


def table(rows: list[dict[str, object]]) -> str:
    lines = ["| method | AUP | AUR | AUROC | time_interpret's |", "|---|--:|--:|--:|--:|"]
    for name in dict.fromkeys(row["method"] for row in rows):
        cells = []
        for metric in METRICS[:3]:
            values = [float(row[metric]) for row in rows if row["method"] == name]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            cells.append(f"{statistics.mean(values):.3f} ± {spread:.3f}")
        quoted = QUOTED.get(str(name).split(",")[0])
        lines.append(f"| {name} | {' | '.join(cells)} | {'/'.join(map(str, quoted)) if quoted else ''} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path, default=Path("perf/results/state_study.json"))
    args = parser.parse_args()
    rows = []
    for fold in args.folds:
        rows += study(fold, args.device, args.series, args.methods)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
