"""Which settings of TIMING's family do best without tuning, and how many series tuning needs, by validation CPD.

    python perf/tuning_settings.py --out runs/settings --models runs/tuning-models --device cuda
    python perf/tuning_settings.py --out runs/settings --summary perf/results/tuning_settings_h200.json

Every member of the family is scored on up to 400 validation and training series of each case of
``tuning_study.py``; no test series is looked at. The summary has the mean CPD of each member over that of the
automatic setting, and what the rule of ``tg.tune`` gains on series that it did not see when it chooses on 40 or
150 others, over 40 random parts.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tempograd as tg
from tempograd.core.errors import SettingError, TempogradWarning
from tempograd.explainers.timing import SPANS
from tempograd.tuning.racing import REMOVALS, by_luck
from tuning_study import Case, Study, cases, trained

PARTS, LARGE = 40, 150  # random parts of the series, and series that are set apart for choosing
LEVELS = (0.05, 0.5, 1.0)
FEW_SERIES = ("wafer", "epilepsy")


def name_of(setting: dict[str, Any], time: int) -> str:
    """Return what a setting is called for series of any length."""
    if not setting:
        return "automatic"
    if "held" not in setting:
        return "nothing held"
    span = (setting["min_length"], setting["max_length"])
    if span == (1, 1):
        return f"{setting['held']:g} held, single cells"
    low, high = next(pair for pair in SPANS if (max(1, time // pair[0]), max(1, time // pair[1])) == span)
    return f"{setting['held']:g} held, T/{low} to T/{high}"


def scored(case: Case, args: argparse.Namespace) -> dict[str, Tensor]:
    """Return the CPD of every member of the family on every series."""
    data = tg.load_dataset(case.dataset, fold=0)
    model = trained(case, data, args.models, args.device)
    study = Study(case, model, data, args)
    split, found = study.validation, {}
    removal: dict[str, Any] = {"baseline": case.baseline, "batch_size": args.batch_size}
    if "background" in study.options:
        removal |= {"background": study.pool, "draws": REMOVALS}
    for setting in [{}, *tg.Timing.grid((split.x.shape[1], split.x.shape[2]))]:
        explainer, options = (
            tg.Timing(args.samples, **setting),
            study.options | {"mask": split.mask, "ids": split.ids},
        )
        try:
            exp = tg.explain(model, split.x, explainer, gradient_check=False, **options)
        except SettingError:  # too few samples for so much held
            continue
        scores = tg.evaluate(model, exp, metrics="cpd", **removal)["cpd"]
        found[name_of(setting, split.x.shape[1])] = scores.double().cpu()
    return found


def gained(scores: Tensor, series: int, level: float) -> float:
    """Return the gain over the default (first row), as a share of its score, on series that were not chosen on."""
    gains = []
    for part in range(PARTS):
        order = torch.randperm(scores.shape[1], generator=torch.Generator().manual_seed(part))
        seen, unseen = order[:series], order[LARGE:]
        ahead = scores[1:, seen] - scores[0, seen]
        better = [k for k, luck in enumerate(by_luck(ahead)) if luck <= level and ahead[k].mean() > 0]
        best = max(better, key=lambda k: float(ahead[k].mean()), default=None)
        gains.append(0.0 if best is None else float((scores[1 + best, unseen] - scores[0, unseen]).mean()))
    return float(np.mean(gains)) / float(scores[0].mean())


def summary(folder: Path) -> dict[str, Any]:
    """Return everything that the page shows."""
    ratios: dict[str, dict[str, float]] = {}
    few: dict[str, dict[str, list[float]]] = {}
    for path in sorted(folder.glob("*.npz")):
        held = {name: torch.from_numpy(scores) for name, scores in np.load(path).items()}
        for name, scores in held.items():
            ratios.setdefault(name, {})[path.stem] = float(scores.mean() / held["automatic"].mean())
        rows = torch.stack(list(held.values()))
        if path.stem.split("-")[0] in FEW_SERIES and rows.shape[1] > LARGE:
            few[path.stem] = {str(level): [gained(rows, n, level) for n in (40, LARGE)] for level in LEVELS}
    return {"ratios": ratios, "few_series": few}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the scores")
    parser.add_argument("--models", type=Path, default=Path("runs/tuning-models"), help="folder of trained models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="dataset:model:baseline, each may be empty")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--series", type=int, default=400)
    parser.add_argument("--batch-size", type=int, help="sequences per pass, where processes share a GPU")
    parser.add_argument("--summary", type=Path, help="write the summary of what there is")
    args = parser.parse_args()
    args.tested, args.level = 1, LEVELS[0]  # of the study, and of no use here
    args.out.mkdir(parents=True, exist_ok=True)
    if args.summary:
        args.summary.write_text(json.dumps(summary(args.out), indent=1))
        return
    for case in cases(args.only):
        path = args.out / f"{case.dataset}-{case.model}-{case.baseline}.npz"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TempogradWarning)
                np.savez(path, **{name: scores.numpy() for name, scores in scored(case, args).items()})


if __name__ == "__main__":
    main()
