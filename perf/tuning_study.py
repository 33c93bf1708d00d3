"""What tuning brings: TIMING's family tuned on validation series, against rivals that are tuned too, by CPD.

    python perf/tuning_study.py --out runs/tuning --models runs/tuning-models --device cuda
    python perf/tuning_study.py --out runs/tuning --only wafer:gru:zero
    python perf/tuning_study.py --out runs/tuning --table

Six data sets, three models trained as in the fair protocol (fold 0), three baselines, each explained and removed
against itself. ``tg.tune`` picks on validation series, filled up with training series where there are fewer than
150 (CPD needs no labels); the CPD of everything is that of up to 500 test series, which nothing was chosen on.
LIME and AFO, which take a pass or more for every cell, are tuned on 40 series, and where they are far behind on
100 test series, these stay all. One record a case is written as soon as it is there, and only methods that are not
in it are run: processes with different ``--only`` can share a folder. ``--series 40`` tunes on fewer series,
``--samples`` changes the samples of all path methods.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tempograd as tg
from tempograd.core.errors import TempogradWarning
from tempograd.core.io import write_atomically
from tempograd.data import Dataset, Series
from tempograd.models import Classifier
from tempograd_paper.cell import Cell
from tempograd_paper.protocols.fair import train_fair_model
from tempograd_paper.protocols.series import evenly, tuned_on
from tempograd_paper.runner.execute import model_quality

DATASETS = ("wafer", "freezer", "epilepsy", "boiler", "physionet2012", "state")
MODELS = ("gru", "cnn", "transformer")
BASELINES = ("zero", "average", "background")
RIVALS = ("integrated_gradients", "gradient_shap", "rand_ig", "occlusion", "lime", "augmented_occlusion")
METHODS = ("automatic", "tuned", *RIVALS)
SLOW = ("lime", "augmented_occlusion")  # a pass or more for every cell
FEW, FIRST = 40, 100  # series that slow rivals are tuned on, and test series after which they may stop
POOL, SEED = 1000, 42
Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A data set, a model and what is put in the place of values."""

    dataset: str
    model: str
    baseline: str

    def __str__(self) -> str:
        return f"{self.dataset}:{self.model}:{self.baseline}"

    def record(self, folder: Path) -> Path:
        """Where its record is."""
        return folder / f"{self.dataset}-{self.model}-{self.baseline}.json"


def cases(only: str | None) -> Iterator[Case]:
    """Yield the cases that ``only`` means: dataset:model:baseline, of which the last ones may be left out."""
    wanted = [] if only is None else only.split(":")
    for dataset in DATASETS:
        for model in MODELS:
            for baseline in BASELINES:
                case = Case(dataset, model, baseline)
                if all(part in ("", own) for part, own in zip(wanted, str(case).split(":"), strict=False)):
                    yield case


def trained(case: Case, data: Dataset, folder: Path, device: str) -> nn.Module:
    """Return the model of a case, trained at the best of three rates, from the folder if it is there."""
    path = folder / f"{case.dataset}-{case.model}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        cell = Cell(case.dataset, "", 0, case.model, "timing", (), "fair", seed=SEED)
        model = train_fair_model(cell, data, device)
        assert isinstance(model, Classifier)  # noqa: S101  # made by name
        tg.save_model(model, path)
    return tg.load_model(path, device)


class Study:
    """Everything that is measured of one case."""

    def __init__(self, case: Case, model: nn.Module, data: Dataset, args: argparse.Namespace) -> None:
        self.model, self.samples, self.level = model, args.samples, args.level
        self.batch = {"batch_size": args.batch_size}
        self.test, (self.validation, self.filled) = evenly(data.test, args.tested), tuned_on(data, args.series)
        self.pool = evenly(data.train, min(POOL, len(data.train.x))).x
        self.options: dict[str, Any] = {"baseline": case.baseline, "seed": 0, **self.batch}
        if case.baseline == "background":
            self.options["background"] = self.pool
        self.cases: dict[str, Record] = {}
        self.scores: dict[str, Tensor] = {}

    def add(self, name: str, explainer: tg.Explainer, **facts: Any) -> None:
        """Measure an explainer on the test series."""
        start = time.monotonic()
        scores = self._first(explainer) if name in SLOW else self._scores(explainer, self.test)
        found = tg.summarise(scores)
        self.scores[name] = scores
        self.cases[name] = {
            "cpd": found.mean,
            "standard_error": found.standard_error,
            "series": len(scores),
            "settings": {key: value for key, value in explainer.parameters.items() if value is not None},
            "seconds": time.monotonic() - start,
            **facts,
        }

    def _first(self, explainer: tg.Explainer) -> Tensor:
        """Return the scores of some test series if these show that a rival is behind, and of all otherwise."""
        rows = torch.arange(min(FIRST, len(self.test.x))) * len(self.test.x) // min(FIRST, len(self.test.x))
        few = self._scores(explainer, self.test.take(rows))
        others = [scores[rows] for scores in self.scores.values() if len(scores) == len(self.test.x)]
        gaps = [tg.compare(few, scores) for scores in others]
        behind = any(gap.mean < -3 * gap.standard_error for gap in gaps)
        return few if behind else self._scores(explainer, self.test)

    def _scores(self, explainer: tg.Explainer, split: Series) -> Tensor:
        options = self.options | ({"background": self.pool} if explainer.needs_fit else {})
        exp = tg.explain(self.model, tg.Series(split.x, mask=split.mask, ids=split.ids), explainer, **options)
        removal = {"baseline": self.options["baseline"], **self.batch}
        if "background" in self.options:
            removal["background"] = self.pool
        return tg.evaluate(self.model, exp, metrics="cpd", **removal)["cpd"].double().cpu()

    def tune(self, method: str, **settings: Any) -> tuple[tg.Tuning, Record]:
        """Tune a method on validation series, and return what that took as well."""
        start, split = time.monotonic(), self.validation
        if method in SLOW:
            split = evenly(split, min(FEW, len(split.x)))
        options = self.options | ({"background": self.pool} if tg.EXPLAINERS[method].needs_fit else {})
        options |= {"mask": split.mask, "ids": split.ids, "level": self.level}
        found = tg.tune(self.model, split.x, method, **(options | settings))
        rows = [[row.words, row.score, row.difference, row.difference_error, row.series] for row in found.table]
        facts = {"verdict": found.verdict(), "cost": found.passes / found.unit, "table": rows}
        return found, facts | {"tuning": time.monotonic() - start}

    def measure(self, method: str) -> None:
        """Measure a method with the settings that suit it best, or TIMING as it is."""
        if method == "automatic":
            self.add(method, tg.Timing(n_samples=self.samples))
        elif method == "integrated_gradients":
            self.add(method, tg.IntegratedGradients(n_steps=self.samples))
        elif method == "occlusion":
            self.add(method, tg.Occlusion())
        else:
            own = {} if method in SLOW else {"n_samples": self.samples}
            found, facts = self.tune("timing" if method == "tuned" else method, **own)
            self.add(method, found.explainer, **facts)


def run(case: Case, args: argparse.Namespace, known: Record) -> Record:
    """Measure what is not known of a case."""
    start = time.monotonic()
    data = tg.load_dataset(case.dataset, fold=0)
    model = trained(case, data, args.models, args.device)
    quality, study = model_quality(model, data.test), Study(case, model, data, args)
    study.cases |= known.get("methods", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TempogradWarning)
        for method in args.methods:
            if method not in study.cases:
                study.measure(method)
    return {
        "case": str(case),
        "model": quality,
        "validation_series": len(study.validation.x),
        "of_them_training_series": study.filled,
        "test_series": len(study.test.x),
        "samples": args.samples,
        "level": args.level,
        "methods": {name: study.cases[name] for name in METHODS if name in study.cases},
        "seconds": time.monotonic() - start,
    }


def ratios(record: Record) -> tuple[str, float, float]:
    """Return the best rival, and the CPD of the tuned family over that of this rival and the automatic setting."""
    cpd = {name: found["cpd"] for name, found in record["methods"].items()}
    best = max((name for name in cpd if name != "tuned"), key=lambda name: cpd[name])
    return best, cpd["tuned"] / cpd[best], cpd["tuned"] / cpd["automatic"]


def line(record: Record) -> str:
    """Return what matters of a record."""
    methods = record["methods"]
    shown = "  ".join(f"{name} {found['cpd']:.4f}" for name, found in methods.items())
    if not {"automatic", "tuned"} <= set(methods):
        return f"{record['case']:30}\n    {shown}"
    best, over_best, over_automatic = ratios(record)
    chance = "  AT CHANCE" if record["model"]["at_chance"] else ""
    gains = f"over best rival ({best}) {over_best:.3f}, over automatic {over_automatic:.3f}"
    return f"{record['case']:30} {gains}{chance}\n    {shown}\n    {methods['tuned']['verdict']}"


def summary(records: list[Record]) -> str:
    """Return the geometric means of the ratios for each baseline, over models above chance."""
    lines = []
    for baseline in BASELINES:
        whole = [r for r in records if r["case"].endswith(f":{baseline}") and set(METHODS) <= set(r["methods"])]
        known = [ratios(record)[1:] for record in whole if not record["model"]["at_chance"]]
        for name, found in zip(("best rival", "automatic"), zip(*known, strict=True), strict=False):
            mean = math.exp(sum(map(math.log, found)) / len(found))
            lines.append(
                f"{baseline:12} over {name:12} mean {mean:.3f}  least {min(found):.3f}  cases {len(found)}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--models", type=Path, default=Path("runs/tuning-models"), help="folder of trained models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="dataset:model:baseline, each may be empty")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--series", type=int, default=150, help="to tune on")
    parser.add_argument("--tested", type=int, default=500, help="series to report on")
    parser.add_argument("--level", type=float, default=0.05, help="how often noise may change a default")
    parser.add_argument("--batch-size", type=int, help="sequences per pass, where processes share a GPU")
    parser.add_argument("--methods", type=lambda text: tuple(text.split(",")), default=METHODS)
    parser.add_argument("--table", action="store_true", help="print what there is")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for case in () if args.table else cases(args.only):
        path = case.record(args.out)
        known = json.loads(path.read_text()) if path.exists() else {}
        if set(args.methods) <= set(known.get("methods", {})):
            continue
        record = run(case, args, known)
        text = json.dumps(record, indent=1)
        write_atomically(path, lambda temporary, text=text: temporary.write_text(text))  # type: ignore[misc]
        print(line(record), f"\n    {record['seconds']:.0f} s", flush=True)
    records = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    if args.table:
        print("\n".join(line(record) for record in records))
    print(summary(records))


if __name__ == "__main__":
    main()
