"""The arguments of the commands, and where the work of each is done, which is loaded when it is asked for."""

import argparse
from pathlib import Path
from typing import Any

from tempograd.cli.arguments import (
    MODELS,
    MORE,
    NOTES,
    TABLES,
    Commands,
    add_command,
    add_device,
    add_files,
    add_force,
    add_json,
    add_model,
    add_out,
    add_run,
    add_source,
    parse_amount,
    parse_names,
    parse_one_target,
    parse_pick,
    parse_real_number,
    parse_setting,
    parse_steps,
    parse_targets,
    parse_whole_number,
    show_only,
)

# The demo.

DEMO_EXAMPLES = (
    "--out demo",
    "--methods all",
    "--series 20 --methods timing,integrated_gradients,occlusion --seed 1",
)
EPOCHS = 8  # that its model is trained for, unless somebody says otherwise


def add_demo(commands: Commands, about: str) -> None:
    parser = add_command(commands, "demo", about, DEMO_EXAMPLES)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (default: demo)")
    parser.add_argument("--seed", type=parse_whole_number, default=0, help="(default: 0)")
    parser.add_argument(
        "--series", type=parse_whole_number, default=50, help="test series to explain, up to 200 (default: 50)"
    )
    parser.add_argument(
        "--methods",
        type=parse_names,
        help="comma-separated, TIMING is always there; or all, in minutes (default: seven that take seconds)",
    )
    parser.add_argument("--epochs", type=parse_whole_number, help=f"train at most this long (default: {EPOCHS})")
    add_force(parser)
    add_device(parser)
    parser.set_defaults(run="tempograd.cli.demo:run_demo")


# What there is.

KINDS = ("explainers", "metrics", "datasets", "models")
LIST_EXAMPLES = ("", "explainers", "metrics --json")


def add_list(commands: Commands, about: str) -> None:
    parser = add_command(commands, "list", about, LIST_EXAMPLES)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="what to list (default: everything)")
    add_json(parser)
    parser.set_defaults(run="tempograd.cli.commands:run_list")


# A model for a data set.

TRAIN_EXAMPLES = (
    "state --out model.safetensors",
    "state --model gru --fold 0 --seed 1 --out fold0.safetensors",
    "switch_feature --model cnn --epochs 5 --json",
)


def add_train(commands: Commands, about: str) -> None:
    parser = add_command(commands, "train", about, TRAIN_EXAMPLES)
    parser.add_argument("dataset", metavar="DATASET", help="see 'tempograd list datasets'")
    parser.add_argument(
        "--model", default="gru", metavar="NAME", help="see 'tempograd list models' (default: gru)"
    )
    add_out(parser, "model.safetensors")
    add_json(parser)
    group = parser.add_argument_group("training")
    group.add_argument(
        "--fold", type=parse_whole_number, help="0 to 4: validate on this fifth of the training series"
    )
    group.add_argument("--epochs", type=parse_whole_number, help="at most this many passes over the series")
    group.add_argument("--seed", type=parse_whole_number, default=0, help="(default: 0)")
    add_device(group)
    add_source(parser.add_argument_group("data sets"))
    parser.set_defaults(run="tempograd.cli.commands:run_train")


# What moved a model's predictions.

EXPLAIN_USAGE = "--model MODEL --data DATA [options]"
EXPLAIN_EXAMPLES = (
    "--model model.safetensors --data state --limit 50 --out E.safetensors",
    "--model my_net:Net --weights weights.pt --data patients.csv --id patient --time hour",
    "--model my.pt2 --trust --data 'lake/*.parquet' --keep day,site --workers 4 --out explained/",
)
RUN = "many files, from --data FOLDER or 'PATTERN' to --out FOLDER/"


def add_explain(commands: Commands, about: str) -> None:
    parser = add_command(commands, "explain", about, EXPLAIN_EXAMPLES, usage=EXPLAIN_USAGE)
    parser.add_argument(
        "--data", required=True, metavar="DATA", help="a data set, or a file, folder or pattern of series"
    )
    parser.add_argument("--limit", type=parse_whole_number, metavar="N", help="explain the first N series only")
    parser.add_argument(
        "--out",
        default="explanation.safetensors",
        metavar="FILE",
        help="(default: explanation.safetensors), or FOLDER/ for any number of series: started again, it goes on",
    )
    add_force(parser)
    add_json(parser, "print the summary as JSON, for programs; with FOLDER/, how far it is on standard error")
    group = add_model(parser)
    _add_convention(group)
    group.add_argument(
        "--lengths",
        choices=("padded", "own"),
        help="what it is called with where series have unequal lengths: all at once, shorter ones padded with 0, "
        "or each length by itself (default: padded, with a warning)",
    )
    group = parser.add_argument_group("method")
    _add_method(group)
    group.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        dest="settings_file",
        help="method and settings, by 'tempograd tune'",
    )
    _add_question(group, several=True)
    _add_shown(parser.add_argument_group("what people are shown, kept with the explanation"))
    add_files(parser)
    add_run(parser.add_argument_group(RUN))
    method = {"method", "n_samples", "tolerance", "settings", "target", "baseline"}
    show_only(parser, {"data", "limit", "out", "json", *MODELS, *method, *TABLES}, NOTES, MORE)
    parser.set_defaults(run="tempograd.cli.bulk_runs:run_explain_any")


# How far a run is.

RUNS_EXAMPLES = ("explained/", "explained/ --json")


def add_runs(commands: Commands, about: str) -> None:
    parser = add_command(commands, "runs", about, RUNS_EXAMPLES)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="by 'tempograd explain --out FOLDER/'")
    add_json(parser)
    parser.set_defaults(run="tempograd.cli.bulk_runs:run_runs")


def _add_convention(group: Any) -> None:
    """Add how the model is called; explanations remember it, for the other commands."""
    group.add_argument(
        "--pick",
        type=parse_pick,
        metavar="NAME",
        help="the part of a dict or a tuple (by place) that is its output",
    )
    group.add_argument(
        "--model-layout",
        default="BTD",
        choices=("BTD", "BDT", "TBD", "BT"),
        help="order of batch, time and channel (D) that it takes (default: BTD)",
    )


def _add_shown(group: Any) -> None:
    group.add_argument("--raw", metavar="FILE", help="the same series in your own units, which are shown instead")
    group.add_argument("--units", type=parse_names, metavar="A,B,…", help="the unit of each channel")


def _add_method(group: Any) -> None:
    group.add_argument("--method", metavar="NAME", help="see 'tempograd list explainers' (default: timing)")
    group.add_argument(
        "--n-samples", type=parse_whole_number, metavar="N", help="samples per series: more are more exact"
    )
    group.add_argument(
        "--n-steps", type=parse_whole_number, metavar="N", help="points on a path, of methods with a rule"
    )
    group.add_argument(
        "--tolerance",
        type=parse_real_number,
        metavar="SHARE",
        help="stop a series at this error, as 0.1 for 10 %%",
    )
    group.add_argument(
        "--draws", type=parse_whole_number, metavar="N", help="average a model that draws, over N times it runs"
    )
    group.add_argument(
        "--set",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="another setting of the method, as segments=5 or areas=0.1,0.2; may be repeated",
    )


def _add_question(group: Any, *, several: bool = False) -> None:
    """Add what is explained, for one target or several, and compared with what."""
    group.add_argument(
        "--background",
        metavar="DATA",
        help="other series, for --baseline background and for methods that learn from some (default: the training "
        "series, where --data is a data set)",
    )
    group.add_argument(
        "--target",
        type=parse_one_target,
        help="a class by name or number, an output, an address such as 3,1 into a forecast, or mean of one "
        "(default: the predicted class; class 1 of one logit)",
    )
    group.add_argument(
        "--task",
        choices=("classification", "binary", "multilabel", "regression", "forecast", "per_step"),
        help="what the model's output is (default: found from the output, with a warning where that may be wrong)",
    )
    if several:
        group.add_argument(
            "--targets",
            type=parse_targets,
            metavar="A,B,…",
            help="several of them, which share the model's passes: 0,5,11, or all, or addresses such as 3,1;4,1",
        )
    group.add_argument(
        "--baseline",
        choices=("zero", "average", "background"),
        help="what scores compare with: 0, for standardised data; each channel's mean, for natural units; or "
        "other series, of --background (default: zero)",
    )
    group.add_argument(
        "--output",
        choices=("probability", "raw"),
        help="raw: the model's output as it is, as for probabilities (default: what the task means)",
    )
    group.add_argument("--steps", type=parse_steps, help="own, or steps such as 3,4, for one prediction per step")
    group.add_argument("--seed", type=parse_whole_number, default=0, help="(default: 0)")


# How well explanations stand up to tests.

EVALUATE_USAGE = "E.safetensors [E.safetensors …] --model MODEL [options]"
EVALUATE_EXAMPLES = (
    "E.safetensors --model model.safetensors",
    "timing.safetensors ig.safetensors --model model.safetensors --metrics cpd,cpp,accuracy",
    "E.safetensors --model model.safetensors --metrics auroc,auprc --data state --json",
)


def _add_explanations(parser: Any, most: int) -> None:
    """Add explanations, and how many series are taken from runs."""
    parser.add_argument(
        "explanations", type=Path, nargs="+", metavar="E.safetensors", help="or the folder of a run"
    )
    group = parser.add_argument_group("runs")
    group.add_argument(
        "--sample",
        type=parse_whole_number,
        metavar="N",
        help=f"take N of the series in a run's folder (default: {most})",
    )
    group.add_argument("--seed", type=parse_whole_number, metavar="N", help="which ones (default: 0)")
    parser.set_defaults(most=most)


def _add_one_target(parser: Any) -> None:
    parser.add_argument(
        "--target", type=parse_one_target, help="which one, of explanations with several targets (--targets)"
    )


def add_evaluate(commands: Commands, about: str) -> None:
    parser = add_command(commands, "evaluate", about, EVALUATE_EXAMPLES, usage=EVALUATE_USAGE)
    _add_explanations(parser, 10_000)
    parser.add_argument("--data", metavar="DATA", help="where series and truth are, if not in E")
    _add_one_target(parser)
    add_json(parser, "print JSON, for programs: one score per series too")
    group = parser.add_argument_group("metrics")
    group.add_argument(
        "--metrics",
        type=parse_names,
        default=["cpd", "cpp"],
        help="see 'tempograd list metrics' (default: cpd,cpp)",
    )
    group.add_argument(
        "--k", type=parse_amount, default=0.1, help="cells to remove: a count, or a share (default: 0.1)"
    )
    group.add_argument(
        "--of",
        choices=("score", "output"),
        help="whose changes cpd and cpp sum: the explained score's, or all outputs' (default: all of classes)",
    )
    group.add_argument(
        "--baseline",
        choices=("zero", "average", "background"),
        help="what replaces them (default: what each explanation compares with)",
    )
    group.add_argument("--background", metavar="DATA", help="other series, whose values replace them in turn")
    add_model(parser)
    add_files(parser)
    measured = {"metrics", "k", "of", "baseline", "background"}
    show_only(
        parser, {"explanations", "sample", "data", "target", "json", *measured, *MODELS, "id", "time"}, NOTES, MORE
    )
    parser.set_defaults(run="tempograd.cli.commands:run_evaluate")


# Settings and methods that suit a model.

TUNE_USAGE = "--model MODEL --data DATA [--method NAME] [--metric NAME] [--budget N] [options]"
TUNE_EXAMPLES = (
    "--model model.safetensors --data state --limit 150 --out settings.json",
    "--model my_net:Net --weights weights.pt --data patients.csv --method lime --metric cpp --budget 20",
)
RANK_USAGE = "--model MODEL --data DATA --methods A,B,… [--metric NAME] [options]"
RANK_EXAMPLES = (
    "--model model.safetensors --data state --limit 100 --methods timing,integrated_gradients,occlusion",
    "--model my.pt2 --trust --data test.npz --methods timing,lime --baseline average --json",
)
TRIED = {"data", "limit", "out", "json", "method", "settings", "methods", "metric", "k", "budget"}


def add_tune(commands: Commands, about: str) -> None:
    parser = add_command(commands, "tune", about, TUNE_EXAMPLES, usage=TUNE_USAGE)
    _add_tried(parser, "to tune on; of a data set, its validation series")
    add_out(parser, "settings.json")
    add_json(parser)
    group = parser.add_argument_group("tuning")
    _add_method(group)
    _add_metric(group, "tuned for")
    group.add_argument(
        "--budget",
        type=parse_real_number,
        default=30.0,
        metavar="N",
        help="at most N times the passes that explaining the series once takes, scoring included (default: 30)",
    )
    _add_rest(parser)
    parser.set_defaults(run="tempograd.cli.choosing:run_tune", split="validation")


def add_rank(commands: Commands, about: str) -> None:
    parser = add_command(commands, "rank", about, RANK_EXAMPLES, usage=RANK_USAGE)
    _add_tried(parser, "to compare on; of a data set, its test series")
    add_json(parser)
    group = parser.add_argument_group("ranking")
    group.add_argument(
        "--methods",
        type=parse_names,
        required=True,
        metavar="A,B,…",
        help="see 'tempograd list explainers', or files of settings; random scores run along",
    )
    _add_metric(group, "compared by")
    _add_rest(parser)
    parser.set_defaults(run="tempograd.cli.choosing:run_rank", settings=[], method=None)


def _add_tried(parser: Any, what: str) -> None:
    parser.add_argument("--data", required=True, metavar="DATA", help=f"a data set, or a file of series, {what}")
    parser.add_argument("--limit", type=parse_whole_number, metavar="N", help="the first N series only")


def _add_metric(group: Any, use: str) -> None:
    group.add_argument(
        "--metric",
        default="cpd",
        metavar="NAME",
        help=f"what explanations are {use}, see 'tempograd list metrics' (default: cpd)",
    )
    group.add_argument(
        "--k", type=parse_amount, default=0.1, help="cells to remove: a count, or a share (default: 0.1)"
    )
    group.add_argument("--of", choices=("score", "output"), help="whose changes cpd and cpp sum")


def _add_rest(parser: argparse.ArgumentParser) -> None:
    """Add what else ``explain`` takes."""
    _add_convention(add_model(parser))
    _add_question(parser.add_argument_group("what is explained"))
    add_files(parser)
    show_only(parser, {*TRIED, *MODELS, "target", "baseline", "id", "time", "label"}, NOTES, MORE)


# Explanations as one HTML file.

REPORT_USAGE = "E.safetensors [E.safetensors …] [--model MODEL] [--data DATA] [options]"
REPORT_EXAMPLES = (
    "E.safetensors --model model.safetensors --data state",
    "timing.safetensors ig.safetensors --model my_net:Net --weights weights.pt --data patients.csv --id patient",
    "E.safetensors --data scaled.npz --raw measured.npz --units mmol/L,bpm --out report.html",
)


def add_report(commands: Commands, about: str) -> None:
    parser = add_command(commands, "report", about, REPORT_EXAMPLES, usage=REPORT_USAGE)
    _add_explanations(parser, 200)
    parser.add_argument("--data", metavar="DATA", help="adds labels and the truth")
    _add_one_target(parser)
    add_out(parser, "report.html")
    group = parser.add_argument_group("page")
    group.add_argument(
        "--series", type=parse_whole_number, nargs="+", metavar="I", help="positions of the series to show"
    )
    _add_shown(group)
    group.add_argument("--title", help="the heading of the page")
    add_model(parser, needed=False)
    add_files(parser)
    page = {"series", "raw", "units", "title"}
    show_only(parser, {"explanations", "sample", "data", "target", "out", *page, *MODELS, *TABLES}, NOTES, MORE)
    parser.set_defaults(run="tempograd.cli.commands:run_report")


# One series.

TOP_USAGE = "E.safetensors [--series NAME] [--k N] [options]"
TOP_EXAMPLES = (
    "E.safetensors",
    "E.safetensors --series 17 --k 5",
    "E.safetensors --model model.safetensors --data state --json",
)
PLOT_USAGE = "E.safetensors [--series NAME] [--out PICTURE] [options]"
PLOT_EXAMPLES = (
    "E.safetensors",
    "E.safetensors --series 17 --shown pulse,sodium --out patient17.png",
    "E.safetensors --model model.safetensors --data state --out series.svg",
)


def add_top(commands: Commands, about: str) -> None:
    parser = add_command(commands, "top", about, TOP_EXAMPLES, usage=TOP_USAGE)
    _add_one_series(parser)
    parser.add_argument(
        "--k", type=parse_whole_number, default=10, metavar="N", help="so many values (default: 10)"
    )
    add_json(parser)
    _add_known(parser, {"k", "json"})
    parser.set_defaults(run="tempograd.cli.looking:run_top")


def add_plot(commands: Commands, about: str) -> None:
    parser = add_command(commands, "plot", about, PLOT_EXAMPLES, usage=PLOT_USAGE)
    _add_one_series(parser)
    parser.add_argument(
        "--out", type=Path, metavar="PICTURE", help=".png, .svg or .pdf (default: a picture of text, printed)"
    )
    add_force(parser)
    parser.add_argument(
        "--shown", type=parse_names, metavar="A,B,…", help="which channels (default: the strongest)"
    )
    _add_known(parser, {"out", "force", "shown"})
    parser.set_defaults(run="tempograd.cli.looking:run_plot")


def _add_one_series(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "explanation", type=Path, metavar="E.safetensors", help="by 'tempograd explain', or the folder of a run"
    )
    parser.add_argument(
        "--series", metavar="NAME", help="its name or number, as reports show it (default: the most telling one)"
    )
    _add_one_target(parser)


def _add_known(parser: argparse.ArgumentParser, shown: set[str]) -> None:
    """Add model and labels, which tell what was predicted and what is true."""
    add_model(parser, needed=False)
    parser.add_argument("--data", metavar="DATA", help="adds the label")
    add_files(parser)
    show_only(parser, {"explanation", "series", "target", "data", *shown, *MODELS}, NOTES, MORE)
