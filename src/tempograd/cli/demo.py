"""``tempograd demo``: the main job from end to end, on data that comes with the library."""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tempograd.cli.arguments import Commands, add_command, add_device, names

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Dataset, Split
    from tempograd.explanation import Explanation
    from tempograd.models import Classifier

# lighter than the defaults where those would take the demo's minutes; the defaults do better
METHODS: dict[str, dict[str, Any]] = {
    "timing": {},
    "rand_ig": {},
    "integrated_gradients": {},
    "gradient_shap": {},
    "deep_lift": {},
    "occlusion": {},
    "augmented_occlusion": {"samples": 3},
    "lime": {},
    "fit": {"epochs": 15},
    "winit": {"epochs": 4},
    "dynamask": {"areas": (0.2, 0.3, 0.4), "epochs": 100, "lr": 0.03},
    "extremal_mask": {"epochs": 150, "lr": 0.02},
    "contralsp": {"epochs": 150, "lr": 0.02},
    "timex": {"epochs": 8, "learning_rate": 0.003},
    "timexpp": {"epochs": 8, "learning_rate": 0.005, "label_weight": 60.0, "sparsity": 4.0},
    "random": {},
}
SHOWN = ("timing", "integrated_gradients", "occlusion", "extremal_mask", "random")  # as maps in the report
HIDDEN = 64  # a third of the paper's size: nearly as accurate on these series, and fast on a CPU
LEARNT_FROM = 200  # training series for methods that learn from them
METRICS = ("cpd", "cpp", "aup", "aur", "auroc")
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
    parser.add_argument("--epochs", type=int, help="train at most this long; by default until it stops helping")
    add_device(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tempograd.cli.arguments import device
    from tempograd.data import load_dataset

    start, methods = time.monotonic(), _wanted(args.methods)
    data = load_dataset("state")
    split = _first(data.test, args.series)
    _, steps, channels = split.x.shape
    print(f"1/4 data     state: {len(data.train)} series to learn from, {steps} steps × {channels} channels;")
    print("             which values decide each label is known")
    model = _train(data, args, device(args.device))
    explanations, seconds = _explain(model, data, split, methods, args.seed)
    scores = _score(model, explanations, split)
    _write(args.out, model, explanations, split, scores)
    _draw(args.out, model, explanations, split, scores, seconds)
    print(f"\nDone in {time.monotonic() - start:.0f} s. Open the report in a browser:")
    print(f"  {(args.out / 'report.html').resolve().as_uri()}")


def _first(split: "Split", count: int) -> "Split":
    from tempograd.errors import InputError

    if not 2 <= count <= len(split):
        raise InputError(f"--series must lie between 2 and {len(split)}, got {count}.")
    return split.take(slice(count))


def _train(data: "Dataset", args: argparse.Namespace, device: str) -> "Classifier":
    from tempograd.models import accuracy, train

    changes: dict[str, Any] = {} if args.epochs is None else {"epochs": args.epochs}
    options = {"hidden": HIDDEN}
    model, seconds = _timed(lambda: train("gru", data, seed=args.seed, device=device, options=options, **changes))
    print(f"2/4 train    gru of {HIDDEN} units in {seconds:.0f} s, test accuracy {accuracy(model, data.test):.3f}")
    return model  # type: ignore[return-value]  # a name gives a Classifier


def _wanted(chosen: list[str] | None) -> list[str]:
    from tempograd.errors import UnknownNameError

    for method in chosen or ():
        if method not in METHODS:
            raise UnknownNameError("explainer", method, METHODS)
    return list(METHODS if chosen is None else dict.fromkeys(["timing", *chosen]))


def _explain(
    model: "Classifier", data: "Dataset", split: "Split", methods: list[str], seed: int
) -> "tuple[dict[str, Explanation], dict[str, float]]":
    from tempograd.explainers import EXPLAINERS, explain

    found, times = {}, {}
    print(f"3/4 explain  {len(split)} test series with", flush=True)
    for method in methods:
        learns = EXPLAINERS[method].needs_fit or method == "gradient_shap"
        options: dict[str, Any] = {"seed": seed, "ids": split.ids, "channels": data.channels}
        options |= METHODS[method] | ({"train": data.train.x[:LEARNT_FROM]} if learns else {})
        work = partial(explain, model, split.x, method, **options)
        found[method], times[method] = _timed(partial(_quietly, work))
        print(f"             {method:21} {times[method]:3.0f} s", flush=True)
    return found, times


def _quietly(work: Callable[[], T]) -> T:
    """Leave out what DeepLIFT says about recurrent layers: the table shows how it fares."""
    from tempograd.explainers import DeepLift

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", DeepLift.caveat)
        return work()


def _score(
    model: "Classifier", explanations: "dict[str, Explanation]", split: "Split"
) -> "dict[str, dict[str, Tensor]]":
    from tempograd.metrics import evaluate

    scores, seconds = _timed(
        lambda: {
            method: evaluate(model, explanation, metrics=METRICS, truth=split.truth)
            for method, explanation in explanations.items()
        }
    )
    print(f"4/4 score    {', '.join(METRICS)} in {seconds:.0f} s\n")
    return scores


def _table(scores: "dict[str, dict[str, Tensor]]") -> str:
    """Return the scores with, in the last column, the paired difference to TIMING in CPD."""
    from tempograd.cli.scores import score_rows
    from tempograd.markdown import table
    from tempograd.metrics import compare

    rows = score_rows(scores)
    rows[0].append("CPD minus TIMING's, 95 % interval")
    for row in rows[1:]:
        if row[0] == "timing":
            row.append("")
            continue
        gap = compare(scores[row[0]]["cpd"], scores["timing"]["cpd"])
        row.append(f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]".replace("-", "−"))
    return table(rows)


def _write(
    out: Path,
    model: "Classifier",
    explanations: "dict[str, Explanation]",
    split: "Split",
    scores: "dict[str, dict[str, Tensor]]",
) -> None:
    from tempograd.files import write_atomically
    from tempograd.models import save_model
    from tempograd.pages import report

    text = _table(scores)
    print(text)
    print(
        f"\nMean ± standard error over {len(split)} series. CPD, CPP: change of the prediction when the "
        "strongest, the weakest\nvalues are removed; AUP, AUR, AUROC: agreement with the values that truly "
        "decide the label."
    )
    save_model(model, out / "model.safetensors")
    explanations["timing"].save(out / "timing.safetensors")
    shown = {method: explanation for method, explanation in explanations.items() if method in SHOWN}
    report(out / "report.html", model, shown, split, scores=scores)
    write_atomically(out / "table.md", lambda path: path.write_text(text + "\n", encoding="utf-8"))


def _draw(
    out: Path,
    model: "Classifier",
    explanations: "dict[str, Explanation]",
    split: "Split",
    scores: "dict[str, dict[str, Tensor]]",
    seconds: dict[str, float],
) -> None:
    """Write pictures for those who would rather look; they need an extra, so the demo goes on without."""
    from tempograd import plots
    from tempograd.errors import MissingExtraError
    from tempograd.metrics import summarise

    shown = {method: explanation for method, explanation in explanations.items() if method in SHOWN}
    means = {method: summarise(found["cpd"]) for method, found in scores.items()}
    rows = [(m, seconds[m] / len(split), found.mean, found.standard_error) for m, found in means.items()]
    timing = explanations["timing"]
    try:
        pictures = {
            "series.png": plots.series(timing, 0, model=model, y=split.y, truth=split.truth),
            "removal.png": plots.removal(model, shown),
            "cost.png": plots.cost(rows),
        }
    except MissingExtraError as error:
        print(f"\nNo pictures: {error}")
        return
    for name, picture in pictures.items():
        picture.savefig(out / name, dpi=160)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.monotonic()
    result = work()
    return result, time.monotonic() - start
