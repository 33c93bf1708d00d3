"""``tempograd demo``: the main job from end to end, on data that comes with the library."""

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from torch import Tensor
from torch.nn.functional import pad

from tempograd import plots
from tempograd.cli.commands import score_rows
from tempograd.cli.inputs import device
from tempograd.cli.parsers import EPOCHS
from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, UnknownNameError
from tempograd.core.formatting import table
from tempograd.core.io import EXPLANATION, MODEL, REPORT, Kind, check_output, made, start, write_atomically
from tempograd.core.progress import Advance, part, progress_bar, say, uninterrupted
from tempograd.data import Dataset, Series, load_dataset
from tempograd.explainers import EXPLAINERS, DeepLift, explain
from tempograd.explanation import Explanation
from tempograd.html_report import report
from tempograd.metrics import evaluate, summarise
from tempograd.models import Classifier, accuracy, save_model, train
from tempograd.tuning import tune
from tempograd.typing import Setting
from tempograd.views.comparison import score_table
from tempograd.views.prediction import RemovedOutputs

# What the demo has finished so far: explanations, scores, and the files that hold them.

SHOWN = ("timing", "random", "integrated_gradients", "occlusion", "dynamask")  # as maps in the report
PICTURES = ("series.png", "removal.png", "cost.png")
GAP = "CPD minus TIMING's, 95 % interval"  # the last column of the table


def claim_folder(folder: Path, *, force: bool) -> None:
    """Make the folder, and make sure that nobody else's files lie where the demo's will."""
    picture = Kind("picture", lambda path: "Software\0tempograd" in start(path))
    files = {
        "model.safetensors": MODEL,
        "timing.safetensors": EXPLANATION,
        "report.html": REPORT,
        "table.md": Kind("table", lambda path: GAP in start(path).partition("\n")[0]),
    } | dict.fromkeys(PICTURES, picture)
    for name, kind in files.items():
        check_output(made(folder) / name, kind, force=force)


class Finished(NamedTuple):
    """One method: its explanation, its scores, and the seconds that it took."""

    explanation: Explanation
    scores: dict[str, Tensor]
    seconds: float


@dataclass
class Results:
    """The methods that are done, each in all files or in none."""

    out: Path
    split: Series
    force: bool = False
    model: Classifier = field(init=False)
    done: dict[str, Finished] = field(default_factory=dict)
    removals: dict[str, RemovedOutputs] = field(default_factory=dict)

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    def join(self, method: str, finished: Finished) -> None:
        """Add a method and write the files anew; an interruption waits until they are whole."""
        with uninterrupted():
            if not self.done:
                for name in PICTURES:  # of an earlier run
                    (self.out / name).unlink(missing_ok=True)
                save_model(self.model, self.out / "model.safetensors", force=self.force)
                finished.explanation.save(self.out / f"{method}.safetensors", force=self.force)
            self.done[method] = finished
            options: dict[str, Any] = {"scores": self.padded_scores, "removals": self.removals}
            report(self.report, self.model, self.shown, self.split, force=self.force, **options)
            text = self.table
            write_atomically(self.out / "table.md", lambda path: path.write_text(text + "\n", encoding="utf-8"))

    @property
    def shown(self) -> dict[str, Explanation]:
        """Return the explanations that are drawn as maps."""
        return {method: finished.explanation for method, finished in self.done.items() if method in SHOWN}

    @property
    def padded_scores(self) -> dict[str, dict[str, Tensor]]:
        """Return one score for each series: NaN, not defined, where a method explained fewer of them."""
        missing = {m: len(self.split) - len(finished.explanation.values) for m, finished in self.done.items()}
        return {
            m: {name: pad(found, (0, missing[m]), value=float("nan")) for name, found in finished.scores.items()}
            for m, finished in self.done.items()
        }

    @property
    def table(self) -> str:
        """Return the scores with, in the last column, the paired difference to TIMING in CPD."""
        found = score_table(self.padded_scores)
        head, *rows = score_rows(found)
        head[1:1], head[len(head) :] = ["series"], [GAP]
        for row in rows:
            method = row[0]
            row.insert(1, str(len(self.done[method].explanation.values)))
            gap = found.cells[method, "cpd"].difference  # none of TIMING, which is the first
            interval = "" if gap is None else f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
            row.append(interval.replace("-", "−"))
        return table([head, *rows])

    def draw(self) -> None:
        """Write pictures for those who would rather look."""
        rows = []
        for method, finished in self.done.items():
            cpd, each = summarise(finished.scores["cpd"]), finished.seconds / len(finished.explanation.values)
            rows.append((method, each, cpd.mean, cpd.standard_error))
        timing, split = self.done["timing"].explanation, self.split
        pictures = (
            plots.series(timing, 0, model=self.model, y=split.y, truth=split.truth),
            plots.removal(self.model, self.shown),
            plots.cost(rows),
        )
        for name, picture in zip(PICTURES, pictures, strict=True):
            picture.savefig(self.out / name, dpi=160, metadata={"Software": "tempograd"})  # see claim_folder

    def left_by_interruption(self, wanted: list[str]) -> str:
        """Say in one line what is there and what is missing."""
        if not self.done:
            return f"before the first method was done: {self.out} has nothing of this run."
        missing = [method for method in wanted if method not in self.done] or ["some of the pictures"]
        return (
            f"{self.report} and table.md beside it are whole with {', '.join(self.done)}; "
            f"missing: {', '.join(missing)}."
        )


class MethodSetting(NamedTuple):
    """How the demo runs a method."""

    cost: float  # seconds on one core, scores included; only their ratios matter, for the time left
    options: Mapping[str, Any] = MappingProxyType({})
    most: int | None = None  # series, where all would take too long


# TIMING, then the others, the cheap ones first; options are lighter than the defaults where those take minutes
METHODS: dict[str, MethodSetting] = {
    "timing": MethodSetting(3.0),
    "random": MethodSetting(1.0),
    "deep_lift": MethodSetting(1.5),
    "gradient_shap": MethodSetting(2.0),
    "rand_ig": MethodSetting(2.5),
    "integrated_gradients": MethodSetting(3.0),
    "fit": MethodSetting(3.5, {"epochs": 15}),
    "winit": MethodSetting(3.5, {"epochs": 4}),
    "occlusion": MethodSetting(5.0),
    "dynamask": MethodSetting(5.0, {"areas": (0.3,), "epochs": 60, "lr": 0.05}),
    "augmented_occlusion": MethodSetting(5.0, {"n_samples": 3}, most=15),
    "timex": MethodSetting(6.0, {"epochs": 4, "learning_rate": 0.006}),
    "timexpp": MethodSetting(6.0, {"epochs": 4, "learning_rate": 0.01, "label_weight": 60.0, "sparsity": 4.0}),
    "lime": MethodSetting(7.0, most=15),
    "extremal_mask": MethodSetting(7.5, {"epochs": 50, "lr": 0.06}),
    "contralsp": MethodSetting(7.5, {"epochs": 50, "lr": 0.06}),
}
# One of each kind that takes seconds; --methods all takes minutes, most of them for methods that learn
QUICK = ("timing", "random", "deep_lift", "rand_ig", "integrated_gradients", "occlusion", "dynamask")
HIDDEN = 64  # a third of the default size: nearly as accurate on these series, and fast on a CPU
TRAINING = {"epochs": EPOCHS, "learning_rate": 0.01}  # as accurate as the default recipe here, in half the time
TRAINING_COST, TUNING_COST, PICTURES_COST = 10.0, 7.0, 3.0  # like those of the methods
# Members of TIMING's family far from each other, which stand for the 23 settings that tune tries by itself
FAMILY: tuple[dict[str, Setting], ...] = (
    {"held": 0.0},
    {"held": 0.5, "max_length": 1},
    {"held": 0.75, "min_length": 2, "max_length": 5},
    {"held": 0.97, "max_length": 1},
)
TUNED_ON = 16  # training series, not those of the table
LEARNT_FROM = 200  # training series for methods that learn from them
METRICS = ("cpd", "cpp", "aup", "aur", "auroc")
LEGEND = """Mean ± standard error over so many series. CPD, CPP: change of the prediction when the strongest, the
weakest values are removed; AUP, AUR, AUROC: agreement with the values that truly decide the label."""
T = TypeVar("T")


def run_demo(args: argparse.Namespace) -> None:
    start, methods, args.device = time.monotonic(), _wanted(args.methods), device(args.device)
    validation.check_seed(args.seed)  # what can be known to be wrong is said before a folder is made
    if args.epochs is not None:
        validation.check_int(args.epochs, "--epochs", 1)
    data = load_dataset("state")
    if not 2 <= args.series <= len(data.test):
        raise InputError(f"--series must lie between 2 and {len(data.test)}, got {args.series}.")
    split = data.test.take(slice(args.series))
    claim_folder(args.out, force=args.force)
    whole = TRAINING_COST + TUNING_COST + PICTURES_COST + sum(METHODS[method].cost for method in methods)
    with progress_bar(whole, "demo") as advance:
        results = _work(data, split, methods, args, advance)
    print(f"\n{results.table}\n\n{LEGEND}")
    print(f"\nDone in {time.monotonic() - start:.0f} s. Open the report in a browser:")
    print(f"  {results.report.resolve().as_uri()}")


def _work(data: Dataset, split: Series, methods: list[str], args: argparse.Namespace, advance: Advance) -> Results:
    """Train, explain with one method after the other, and keep what is done when somebody interrupts."""
    results = Results(args.out, split, args.force)
    try:
        with part(advance, TRAINING_COST, "train"):
            results.model = _train(data, args)
        for method in methods:
            with part(advance, METHODS[method].cost, method):
                _add(results, method, data, args.seed)
        with part(advance, TUNING_COST, "tune"):
            _tune(results.model, data, args)
        with part(advance, PICTURES_COST, "pictures"):
            try:
                results.draw()
            except MissingExtraError as error:  # pictures need an extra, so the demo goes on without
                say(f"\nNo pictures: {error}")
    except KeyboardInterrupt as stop:
        raise type(stop)(results.left_by_interruption(methods)) from None
    return results


def _wanted(chosen: list[str] | None) -> list[str]:
    """Return the methods in the order in which they join the report, TIMING first."""
    if chosen == ["all"]:
        return list(METHODS)
    for method in chosen or ():
        if method not in METHODS:
            raise UnknownNameError("explainer", method, METHODS, short=EXPLAINERS.short)
    return [method for method in METHODS if method in {"timing", *(QUICK if chosen is None else chosen)}]


def _train(data: Dataset, args: argparse.Namespace) -> Classifier:

    _, steps, channels = data.train.x.shape
    say(f"data     state: {len(data.train)} series to learn from, {steps} steps × {channels} channels;")
    say("         which values decide each label is known")
    settings = TRAINING | ({} if args.epochs is None else {"epochs": args.epochs})
    work = partial(train, "gru", data, seed=args.seed, device=args.device, options={"hidden": HIDDEN})
    model, seconds = _timed(partial(work, **settings))
    say(f"train    gru of {HIDDEN} units in {seconds:.0f} s, test accuracy {accuracy(model, data.test):.3f}")
    return model  # type: ignore[return-value]  # a name gives a Classifier


def _add(results: Results, method: str, data: Dataset, seed: int) -> None:
    """Explain and score with one method, and let it join report and table."""
    split = results.split.take(slice(METHODS[method].most))
    if not results.done:
        say(f"explain  {len(results.split)} test series; each method joins report and table when it is done")
    explanation, seconds = _timed(lambda: _explain(results.model, data, split, method, seed))
    scores = evaluate(results.model, explanation, metrics=METRICS, truth=split.truth)
    results.join(method, Finished(explanation, scores, seconds))
    fewer = "" if len(split) == len(results.split) else f" ({len(split)} series)"
    say(f"         {method:21} {seconds:3.0f} s{fewer}")
    if len(results.done) == 1:
        say(f"         TIMING's report is there; reload it to see more: {results.report.resolve().as_uri()}")


def _explain(model: Classifier, data: Dataset, split: Series, method: str, seed: int) -> Explanation:
    """Explain; leave out what DeepLIFT says about recurrent layers: the table shows how it fares."""
    learns = EXPLAINERS[method].needs_fit or method == "gradient_shap"
    options: dict[str, Any] = {"seed": seed}
    options |= dict(METHODS[method].options) | ({"background": data.train.x[:LEARNT_FROM]} if learns else {})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DeepLift.caveat)
        return explain(model, split, method, **options)


def _tune(model: Classifier, data: Dataset, args: argparse.Namespace) -> None:
    """Say in one line whether other settings of TIMING suit this model better; the table keeps its defaults."""
    x = data.train.x[: min(TUNED_ON, args.series)]
    found, seconds = _timed(lambda: tune(model, x, "timing", grid=FAMILY, seed=args.seed))
    did = f"{len(FAMILY)} other settings of TIMING on training series in {seconds:.0f} s"
    say(f"tune     {did}. {_capital(found.verdict())}")


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.monotonic()
    result = work()
    return result, time.monotonic() - start
