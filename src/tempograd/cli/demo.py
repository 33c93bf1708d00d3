"""``tempograd demo``: the main job from end to end, on data that comes with the library."""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

from torch import Tensor

from tempograd.cli.inputs import device
from tempograd.core import validation
from tempograd.core.io import EXPLANATION, MODEL, REPORT, Kind, check_output, made, start, write_atomically
from tempograd.core.progress import Advance, part, progress_bar, say
from tempograd.data import Dataset, load_dataset
from tempograd.explainers import EXPLAINERS, DeepLift, explain
from tempograd.explanation import Explanation
from tempograd.html_report import report
from tempograd.metrics import evaluate
from tempograd.metrics import table as metric_table
from tempograd.models import accuracy, save_model, train
from tempograd.views.drivers import describe_series

# One of each kind that takes seconds; --methods all takes minutes, most of them for methods that learn
QUICK = ("timing", "random", "deep_lift", "rand_ig", "integrated_gradients", "occlusion", "dynamask")
SETTINGS: dict[str, dict[str, Any]] = {  # but for TIMING, of methods whose defaults take minutes
    "timing": {"tolerance": 0.1},
    "fit": {"epochs": 15},
    "winit": {"epochs": 4},
    "dynamask": {"areas": (0.3,), "epochs": 60, "lr": 0.05},
    "timex": {"epochs": 4, "learning_rate": 0.006},
    "timexpp": {"epochs": 4, "learning_rate": 0.01, "label_weight": 60.0, "sparsity": 4.0},
    "extremal_mask": {"epochs": 50, "lr": 0.06},
    "contralsp": {"epochs": 50, "lr": 0.06},
    "augmented_occlusion": {"n_samples": 3},
}
SHOWN = ("timing", "random", "integrated_gradients", "occlusion", "dynamask")  # as maps in the report
HIDDEN = 64  # a third of the default size: as accurate on these series, and fast on a CPU
LEARNT_FROM = 200  # training series for methods that learn from them
METRICS = ("cpd", "cpp", "aup", "aur", "auroc")
LEGEND = """CPD, CPP: change of the prediction when the strongest, the
weakest values are removed; AUP, AUR, AUROC: agreement with the values that truly decide the label."""


class Demo:
    """A model, and the methods that are done, each in all files or in none."""

    model: Any

    def __init__(self, args: argparse.Namespace, data: Dataset, methods: list[str]) -> None:
        self.args, self.data, self.methods, self.out = args, data, methods, args.out
        self.series = data.test.take(slice(args.series))
        self.shown: dict[str, Explanation] = {}  # as maps
        self.scores: dict[str, dict[str, Tensor]] = {}
        self.link = str((args.out / "report.html").resolve().as_uri())

    def train(self) -> None:
        _, steps, channels = self.data.train.x.shape
        say(f"data     pump: {len(self.data.train)} machines to learn from, {steps} steps × {channels} sensors")
        begin, seed, where = time.monotonic(), self.args.seed, self.args.device
        epochs: dict[str, Any] = dict.fromkeys(("epochs", "patience"), self.args.epochs)  # all; the best is kept
        settings = epochs | {"learning_rate": 0.01, "weight_decay": 0.001, "options": {"hidden": HIDDEN}}
        self.model = train("gru", self.data, seed=seed, device=where, **settings)
        reached, seconds = accuracy(self.model, self.data.test), time.monotonic() - begin
        say(f"train    gru of {HIDDEN} units in {seconds:.0f} s, test accuracy {reached:.3f}")

    def add(self, method: str) -> None:
        """Explain and score with one method, and let it join report and table."""
        begin, learns = time.monotonic(), EXPLAINERS[method].needs_fit or method == "gradient_shap"
        others = self.data.train.x[:LEARNT_FROM] if learns else None
        settings = {"seed": self.args.seed, "background": others, **SETTINGS.get(method, {})}
        with warnings.catch_warnings():  # of recurrent layers: the table shows how DeepLIFT fares
            warnings.filterwarnings("ignore", DeepLift.caveat)
            found = explain(self.model, self.series, method, **settings)
        scores = evaluate(self.model, found, metrics=METRICS)
        self.join(method, found, scores)
        say(f"explain  {method:21} {time.monotonic() - begin:3.0f} s")
        if len(self.scores) == 1:
            row = headline(found)
            say(f"answer   {found.label(row)}: {describe_series(found, row)}")
            say(f"         TIMING's report is there; reload it to see more: {self.link}")

    def join(self, method: str, explanation: Explanation, scores: dict[str, Tensor]) -> None:
        """Add a method and write the files anew, each of them whole."""
        if not self.scores:
            save_model(self.model, self.out / "model.safetensors", force=self.args.force)
            explanation.save(self.out / f"{method}.safetensors", force=self.args.force)
        self.scores[method] = scores
        self.shown |= {method: explanation} if method in SHOWN else {}
        page, force = self.out / "report.html", self.args.force
        report(page, self.model, self.shown, scores=self.scores, force=force)
        text = f"{metric_table(self.scores)}\n"
        write_atomically(self.out / "table.md", lambda path: path.write_text(text, encoding="utf-8"))

    def run(self, advance: Advance) -> None:
        """Train, and explain with one method after the other; what is done stays when somebody interrupts."""
        with part(advance, 1, "train"):
            self.train()
        for method in self.methods:
            with part(advance, 1, method):
                self.add(method)


def headline(explanation: Explanation) -> int:
    """Return the row of the first false alarm; else that of the first alarm, or 0."""
    alarm: Any = explanation.target == 1
    return int((alarm.int() + (alarm & (explanation.y == 0))).argmax())


def run_demo(args: argparse.Namespace) -> None:
    begin, methods, args.device = time.monotonic(), _wanted(args.methods), device(args.device)
    validation.check_int(args.seed, "seed")  # what can be known to be wrong is said before a folder is made
    validation.check_int(args.epochs, "--epochs", 1)
    data = load_dataset("pump")
    validation.check_int(args.series, "--series", 2, len(data.test))
    claim_folder(args.out, force=args.force)
    demo = Demo(args, data, methods)
    with progress_bar(1 + len(methods), "demo") as advance:
        demo.run(advance)
    print(f"\n{metric_table(demo.scores)}\n\n{LEGEND}")
    print(f"\nDone in {time.monotonic() - begin:.0f} s. Open the report in a browser:\n  {demo.link}")


def claim_folder(folder: Path, *, force: bool) -> None:
    """Make the folder, and make sure that nobody else's files lie where the demo's will."""
    table = Kind("table", lambda path: all(name.upper() in start(path).partition("\n")[0] for name in METRICS))
    kinds = {"model.safetensors": MODEL, "timing.safetensors": EXPLANATION, "report.html": REPORT}
    for name, kind in (kinds | {"table.md": table}).items():
        check_output(made(folder) / name, kind, force=force)


def _wanted(chosen: list[str] | None) -> list[str]:
    """Return the methods in the order in which they join the report, TIMING first."""
    others = QUICK if chosen is None else (*QUICK, *EXPLAINERS) if chosen == ["all"] else chosen
    for method in others:
        EXPLAINERS[method]  # a mistake there is told before anything is trained
    return list(dict.fromkeys(("timing", *others)))
