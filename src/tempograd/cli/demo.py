"""``tempograd demo``: the main job from end to end, on data that comes with the library."""

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tempograd.cli.arguments import Commands, add_command, add_device, names
from tempograd.cli.demo_results import Finished, Results, claim_folder
from tempograd.cli.outputs import add_force

if TYPE_CHECKING:
    from tempograd._utils.progress import Advance
    from tempograd.data import Dataset, Split
    from tempograd.explanation import Explanation
    from tempograd.models import Classifier


class Setting(NamedTuple):
    """How the demo runs a method."""

    cost: float  # seconds on one core, scores included; only their ratios matter, for the time left
    options: Mapping[str, Any] = MappingProxyType({})
    most: int | None = None  # series, where all would take too long


# TIMING, then the others, the cheap ones first; options are lighter than the defaults where those take minutes
METHODS: dict[str, Setting] = {
    "timing": Setting(3.0),
    "random": Setting(1.0),
    "deep_lift": Setting(1.5),
    "gradient_shap": Setting(2.0),
    "rand_ig": Setting(2.5),
    "integrated_gradients": Setting(3.0),
    "fit": Setting(3.5, {"epochs": 15}),
    "winit": Setting(3.5, {"epochs": 4}),
    "occlusion": Setting(5.0),
    "dynamask": Setting(5.0, {"areas": (0.3,), "epochs": 60, "lr": 0.05}),
    "augmented_occlusion": Setting(5.0, {"samples": 3}, most=15),
    "timex": Setting(6.0, {"epochs": 4, "learning_rate": 0.006}),
    "timexpp": Setting(6.0, {"epochs": 4, "learning_rate": 0.01, "label_weight": 60.0, "sparsity": 4.0}),
    "lime": Setting(7.0, most=15),
    "extremal_mask": Setting(7.5, {"epochs": 50, "lr": 0.06}),
    "contralsp": Setting(7.5, {"epochs": 50, "lr": 0.06}),
}
HIDDEN = 64  # a third of the paper's size: nearly as accurate on these series, and fast on a CPU
TRAINING = {"epochs": 8, "learning_rate": 0.01}  # as accurate as the default recipe here, in half the time
TRAINING_COST, PICTURES_COST = 10.0, 3.0  # like those of the methods
LEARNT_FROM = 200  # training series for methods that learn from them
METRICS = ("cpd", "cpp", "aup", "aur", "auroc")
LEGEND = """Mean ± standard error over so many series. CPD, CPP: change of the prediction when the strongest, the
weakest values are removed; AUP, AUR, AUROC: agreement with the values that truly decide the label."""
T = TypeVar("T")


def add_demo(commands: Commands) -> None:
    parser = add_command(
        commands,
        "demo",
        "train a model on embedded data, explain it with every method, score them and write a report",
        ("--out demo", "--series 20 --methods timing,integrated_gradients,occlusion --seed 1"),
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (default: demo)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--series", type=int, default=50, help="test series to explain, up to 200 (default: 50)")
    parser.add_argument("--methods", type=names, help="comma-separated, TIMING is always there (default: all)")
    parser.add_argument("--epochs", type=int, help=f"train at most this long (default: {TRAINING['epochs']})")
    add_force(parser)
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd._utils import validation
    from tempograd._utils.progress import progress
    from tempograd.cli.arguments import device
    from tempograd.data import load_dataset

    start, methods, args.device = time.monotonic(), _wanted(args.methods), device(args.device)
    validation.seed(args.seed)  # what can be known to be wrong is said before a folder is made
    if args.epochs is not None:
        validation.whole(args.epochs, "--epochs", 1)
    data = load_dataset("state")
    split = _first(data.test, args.series)
    claim_folder(args.out, force=args.force)
    whole = TRAINING_COST + PICTURES_COST + sum(METHODS[method].cost for method in methods)
    with progress(whole, "demo") as advance:
        results = _work(data, split, methods, args, advance)
    print(f"\n{results.table}\n\n{LEGEND}")
    print(f"\nDone in {time.monotonic() - start:.0f} s. Open the report in a browser:")
    print(f"  {results.report.resolve().as_uri()}")


def _work(
    data: "Dataset", split: "Split", methods: list[str], args: argparse.Namespace, advance: "Advance"
) -> Results:
    """Train, explain with one method after the other, and keep what is done when somebody interrupts."""
    from tempograd._utils.progress import part

    results = Results(args.out, split, args.force)
    try:
        with part(advance, TRAINING_COST, "train"):
            results.model = _train(data, args)
        for method in methods:
            with part(advance, METHODS[method].cost, method):
                _add(results, method, data, args.seed)
        with part(advance, PICTURES_COST, "pictures"):
            _draw(results)
    except KeyboardInterrupt as stop:
        raise type(stop)(results.left_by_interruption(methods)) from None
    return results


def _first(split: "Split", count: int) -> "Split":
    from tempograd.errors import InputError

    if not 2 <= count <= len(split):
        raise InputError(f"--series must lie between 2 and {len(split)}, got {count}.")
    return split.take(slice(count))


def _wanted(chosen: list[str] | None) -> list[str]:
    from tempograd.errors import UnknownNameError

    for method in chosen or ():
        if method not in METHODS:
            raise UnknownNameError("explainer", method, METHODS)
    return [method for method in METHODS if chosen is None or method in {"timing", *chosen}]


def _train(data: "Dataset", args: argparse.Namespace) -> "Classifier":
    from tempograd._utils.progress import say
    from tempograd.models import accuracy, train

    _, steps, channels = data.train.x.shape
    say(f"data     state: {len(data.train)} series to learn from, {steps} steps × {channels} channels;")
    say("         which values decide each label is known")
    settings = TRAINING | ({} if args.epochs is None else {"epochs": args.epochs})
    work = partial(train, "gru", data, seed=args.seed, device=args.device, options={"hidden": HIDDEN})
    model, seconds = _timed(partial(work, **settings))
    say(f"train    gru of {HIDDEN} units in {seconds:.0f} s, test accuracy {accuracy(model, data.test):.3f}")
    return model  # type: ignore[return-value]  # a name gives a Classifier


def _add(results: Results, method: str, data: "Dataset", seed: int) -> None:
    """Explain and score with one method, and let it join report and table."""
    from tempograd._utils.progress import say
    from tempograd.metrics import evaluate

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


def _explain(model: "Classifier", data: "Dataset", split: "Split", method: str, seed: int) -> "Explanation":
    """Explain; leave out what DeepLIFT says about recurrent layers: the table shows how it fares."""
    from tempograd.explainers import EXPLAINERS, DeepLift, explain

    learns = EXPLAINERS[method].needs_fit or method == "gradient_shap"
    options: dict[str, Any] = {"seed": seed, "ids": split.ids, "channels": data.channels}
    options |= dict(METHODS[method].options) | ({"train": data.train.x[:LEARNT_FROM]} if learns else {})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DeepLift.caveat)
        return explain(model, split.x, method, **options)


def _draw(results: Results) -> None:
    """Draw; pictures need an extra, so the demo goes on without."""
    from tempograd._utils.progress import say
    from tempograd.errors import MissingExtraError

    try:
        results.draw()
    except MissingExtraError as error:
        say(f"\nNo pictures: {error}")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.monotonic()
    result = work()
    return result, time.monotonic() - start
