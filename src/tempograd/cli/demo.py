"""``tempograd demo``: the main job from end to end, on data that comes with the library."""

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn.functional import pad

from tempograd import plots
from tempograd.cli.commands import interval, score_rows
from tempograd.cli.inputs import device
from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, UnknownNameError
from tempograd.core.formatting import table
from tempograd.core.io import EXPLANATION, MODEL, REPORT, Kind, check_output, made, start, write_atomically
from tempograd.core.progress import Advance, part, progress_bar, say, uninterrupted
from tempograd.data import Dataset, load_dataset
from tempograd.explainers import EXPLAINERS, DeepLift, explain
from tempograd.explanation import Explanation
from tempograd.html_report import report
from tempograd.metrics import evaluate, summarise
from tempograd.models import accuracy, save_model, train
from tempograd.tuning import tune
from tempograd.typing import Setting
from tempograd.views.comparison import score_table
from tempograd.views.prediction import RemovedOutputs


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
SHOWN = ("timing", "random", "integrated_gradients", "occlusion", "dynamask")  # as maps in the report
HIDDEN = 64  # a third of the default size: nearly as accurate on these series, and fast on a CPU
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
PICTURES = ("series.png", "removal.png", "cost.png")
GAP = "CPD minus TIMING's, 95 % interval"  # the last column of the table
LEGEND = """Mean ± standard error over so many series. CPD, CPP: change of the prediction when the strongest, the
weakest values are removed; AUP, AUR, AUROC: agreement with the values that truly decide the label."""


class Finished(NamedTuple):
    """One method: its explanation, its scores, and the seconds that it took."""

    explanation: Explanation
    scores: dict[str, Tensor]
    seconds: float


class Demo:
    """A model, and the methods that are done, each in all files or in none."""

    model: Any

    def __init__(self, args: argparse.Namespace, data: Dataset, methods: list[str]) -> None:
        self.args, self.data, self.methods, self.out = args, data, methods, args.out
        self.split = data.test.take(slice(args.series))
        self.done: dict[str, Finished] = {}
        self.removals: dict[str, RemovedOutputs] = {}

    @property
    def link(self) -> str:
        return str((self.out / "report.html").resolve().as_uri())

    def train(self) -> None:
        _, steps, channels = self.data.train.x.shape
        say(f"data     state: {len(self.data.train)} series to learn from, {steps} steps × {channels} channels;")
        say("         which values decide each label is known")
        begin, seed, where = time.monotonic(), self.args.seed, self.args.device
        settings = {"epochs": self.args.epochs, "learning_rate": 0.01, "options": {"hidden": HIDDEN}}
        self.model = train("gru", self.data, seed=seed, device=where, **settings)
        reached, seconds = accuracy(self.model, self.data.test), time.monotonic() - begin
        say(f"train    gru of {HIDDEN} units in {seconds:.0f} s, test accuracy {reached:.3f}")

    def add(self, method: str) -> None:
        """Explain and score with one method, and let it join report and table."""
        setting, begin = METHODS[method], time.monotonic()
        split = self.split.take(slice(setting.most))
        if not self.done:
            say(f"explain  {len(self.split)} test series; each method joins report and table when it is done")
        learns = EXPLAINERS[method].needs_fit or method == "gradient_shap"
        options = {**setting.options, **({"background": self.data.train.x[:LEARNT_FROM]} if learns else {})}
        with warnings.catch_warnings():  # of recurrent layers: the table shows how DeepLIFT fares
            warnings.filterwarnings("ignore", DeepLift.caveat)
            explanation = explain(self.model, split, method, seed=self.args.seed, **options)
        seconds = time.monotonic() - begin
        scores = evaluate(self.model, explanation, metrics=METRICS, truth=split.truth)
        self.join(method, Finished(explanation, scores, seconds))
        fewer = "" if len(split) == len(self.split) else f" ({len(split)} series)"
        say(f"         {method:21} {seconds:3.0f} s{fewer}")
        if len(self.done) == 1:
            say(f"         TIMING's report is there; reload it to see more: {self.link}")

    def join(self, method: str, finished: Finished) -> None:
        """Add a method and write the files anew; an interruption waits until they are whole."""
        with uninterrupted():
            if not self.done:
                for name in PICTURES:  # of an earlier run
                    (self.out / name).unlink(missing_ok=True)
                save_model(self.model, self.out / "model.safetensors", force=self.args.force)
                finished.explanation.save(self.out / f"{method}.safetensors", force=self.args.force)
            self.done[method] = finished
            options: dict[str, Any] = {"scores": self.scores, "removals": self.removals, "force": self.args.force}
            report(self.out / "report.html", self.model, self.shown, self.split, **options)
            text = self.table + "\n"
            write_atomically(self.out / "table.md", lambda path: path.write_text(text, encoding="utf-8"))

    @property
    def shown(self) -> dict[str, Explanation]:
        """The explanations that are drawn as maps."""
        return {method: finished.explanation for method, finished in self.done.items() if method in SHOWN}

    @property
    def scores(self) -> dict[str, dict[str, Tensor]]:
        """One score for each series: NaN, not defined, where a method explained fewer of them."""
        count = len(self.split)
        return {
            method: {
                name: pad(part, (0, count - len(part)), value=float("nan")) for name, part in done.scores.items()
            }
            for method, done in self.done.items()
        }

    @property
    def table(self) -> str:
        """The scores with, in the last column, the paired difference to TIMING in CPD."""
        found = score_table(self.scores)
        head, *rows = score_rows(found)
        lines = [[head[0], "series", *head[1:], GAP]]
        for method, *cells in rows:
            gap = found.cells[method, "cpd"].difference  # none of TIMING, which is the first
            count = len(self.done[method].explanation)
            lines.append([method, str(count), *cells, "" if gap is None else interval(gap)])
        return table(lines)

    def tune(self) -> None:
        """Say in one line whether other settings of TIMING suit this model better; the table keeps its own."""
        begin, x = time.monotonic(), self.data.train.x[: min(TUNED_ON, self.args.series)]
        verdict = tune(self.model, x, "timing", grid=FAMILY, seed=self.args.seed).verdict()
        tried = f"{len(FAMILY)} other settings of TIMING on training series in {time.monotonic() - begin:.0f} s"
        say(f"tune     {tried}. {verdict[:1].upper()}{verdict[1:]}")

    def draw(self) -> None:
        """Write pictures for those who would rather look; they need an extra, without which the demo goes on."""
        rows = []
        for method, done in self.done.items():
            cpd = summarise(done.scores["cpd"])
            rows.append((method, done.seconds / len(done.explanation), cpd.mean, cpd.standard_error))
        timing, split = self.done["timing"].explanation, self.split
        try:
            pictures = (
                plots.series(timing, 0, model=self.model, y=split.y, truth=split.truth),
                plots.removal(self.model, self.shown),
                plots.cost(rows),
            )
            for name, picture in zip(PICTURES, pictures, strict=True):
                picture.savefig(self.out / name, dpi=160, metadata={"Software": "tempograd"})  # see claim_folder
        except MissingExtraError as error:
            say(f"\nNo pictures: {error}")

    def run(self, advance: Advance) -> None:
        """Train, explain with one method after the other, and keep what is done when somebody interrupts."""
        try:
            with part(advance, TRAINING_COST, "train"):
                self.train()
            for method in self.methods:
                with part(advance, METHODS[method].cost, method):
                    self.add(method)
            with part(advance, TUNING_COST, "tune"):
                self.tune()
            with part(advance, PICTURES_COST, "pictures"):
                self.draw()
        except KeyboardInterrupt as stop:
            missing = [method for method in self.methods if method not in self.done] or ["some of the pictures"]
            kept = f"{self.out / 'report.html'} and table.md beside it are whole with {', '.join(self.done)}"
            nothing = f"before the first method was done: {self.out} has nothing of this run."
            raise type(stop)(f"{kept}; missing: {', '.join(missing)}." if self.done else nothing) from None


def run_demo(args: argparse.Namespace) -> None:
    begin, methods, args.device = time.monotonic(), _wanted(args.methods), device(args.device)
    validation.check_int(args.seed, "seed")  # what can be known to be wrong is said before a folder is made
    validation.check_int(args.epochs, "--epochs", 1)
    data = load_dataset("state")
    if not 2 <= args.series <= len(data.test):
        raise InputError(f"--series must lie between 2 and {len(data.test)}, got {args.series}.")
    claim_folder(args.out, force=args.force)
    demo = Demo(args, data, methods)
    whole = TRAINING_COST + TUNING_COST + PICTURES_COST + sum(METHODS[method].cost for method in methods)
    with progress_bar(whole, "demo") as advance:
        demo.run(advance)
    print(f"\n{demo.table}\n\n{LEGEND}")
    print(f"\nDone in {time.monotonic() - begin:.0f} s. Open the report in a browser:\n  {demo.link}")


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


def _wanted(chosen: list[str] | None) -> list[str]:
    """Return the methods in the order in which they join the report, TIMING first."""
    if chosen == ["all"]:
        return list(METHODS)
    for method in chosen or ():
        if method not in METHODS:
            raise UnknownNameError("explainer", method, METHODS, short=EXPLAINERS.short)
    return [method for method in METHODS if method in {"timing", *(QUICK if chosen is None else chosen)}]
