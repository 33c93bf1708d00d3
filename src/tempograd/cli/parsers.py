"""The arguments of the commands, as tables, and where the work of each is done, loaded when it is asked for.

Groups stand in one order: the model, the series, the question, the method, the output. Most options are fields of
the library's nouns (``arguments.py``): a noun stands for all of its options, ``noun.field`` for one.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tempograd.cli.arguments import Commands, add_command, add_fields, amount, names, setting_value, target

KINDS = ("explainers", "metrics", "datasets", "models")
FORMS = """Models are
  model.safetensors  by 'tempograd train' or tempograd.save_model
  module:callable    your own code, imported from the current folder and run: an nn.Module, or what returns one
  model.pt2          by torch.export.save, best exported with a dynamic batch dimension; needs --trust
  model.pt           TorchScript, by torch.jit.save; needs --trust
The last two can run code as soon as they are opened: pass --trust for files of people you trust.

Files of series end in
  .csv .tsv .parquet  tables, long or wide; empty cells are missing; obvious names need no option
  .ts                 the text format of the UEA and UCR archives
  .npy                the series x (series, time, channel) alone
  .npz                arrays by name: x, and any of mask, y, truth, ids, channels, times, units, raw

"""
SEE = "'tempograd explain --help' lists the kinds of models and of files.\n\n"
ArgumentKind = dict[str, Any]  # what argparse wants to know of an argument


def kind(about: str, metavar: str | None = None, parse: Any = None, **more: Any) -> ArgumentKind:
    """Return an argument."""
    more |= {"help": about, "metavar": metavar, "type": parse}
    return {name: value for name, value in more.items() if value is not None}


def value_of(name: str, parse: Callable[[str], Any]) -> Callable[[str], tuple[str, Any]]:
    """Return what reads the value of a setting that has an option of its own."""

    def number(text: str) -> tuple[str, Any]:
        return name, parse(text)

    return number


SETTING: ArgumentKind = {"action": "append", "default": [], "dest": "settings"}
TABLE: dict[str, ArgumentKind] = {  # what is no field of a noun
    "dataset": kind("see 'tempograd list datasets'", "DATASET"),
    "explanations": kind("by 'tempograd explain', or the folder of a run", "E.safetensors", Path, nargs="+"),
    "folder": kind("by 'tempograd explain --out FOLDER/'", "FOLDER", Path),
    "kind": kind("what to list (default: everything)", nargs="?", choices=KINDS),
    "--config": kind("options, as a run writes them: FOLDER/_tempograd/run.toml; those typed win", "FILE", Path),
    "--model": kind("a file, or module:callable", "MODEL"),
    "--weights": kind(".safetensors or .pt, for module:callable", "FILE", Path),
    "--trust": kind("open a .pt2 or TorchScript file (can run code)", action="store_true"),
    "--device": kind("for instance cpu or cuda:0 (default: a GPU if there is one)"),
    "--epochs": kind("at most this many passes over the series", "N", int),
    "--data": kind("a data set, or a file of series", "DATA"),
    "--limit": kind("the first N series only", "N", int),
    "--lengths": kind("pad shorter series with masked zeros (default: they stay shorter)", choices=("padded",)),
    "--split": kind("of a data set", default="test", choices=("train", "validation", "test")),
    "--fold": kind("0 to 4: validate on this fifth of the training series", "N", int),
    "--root": kind("folder with the data sets' files (default: $TEMPOGRAD_DATA)", None, Path),
    "--variant": kind("which version of a data set, for those that have several"),
    "--sample": kind("take N of the series in a run's folder", "N", int),
    "--seed": kind("of all random draws", "N", int, default=0),
    "--series": kind("its name or number (default: the most telling one)", "NAME"),
    "--target": kind("which one, of explanations with several targets (--targets)", None, target),
    "--method": kind("see 'tempograd list explainers' (default: timing)", "NAME"),
    "--methods": kind("see 'tempograd list explainers', or files of settings", "A,B,…", names, required=True),
    "--n-samples": kind("samples per series: more are more exact", "N", value_of("n_samples", int), **SETTING),
    "--n-steps": kind("points on a path, of methods with a rule", "N", value_of("n_steps", int), **SETTING),
    "--tolerance": kind("stop at this error, as 0.1 for 10 %%", "SHARE", value_of("tolerance", float), **SETTING),
    "--set": kind("one more setting, as segments=5 or areas=0.1,0.2", "NAME=VALUE", setting_value, **SETTING),
    "--settings": kind("method and settings, by 'tempograd tune'", "FILE", Path, dest="settings_file"),
    "--metric": kind("see 'tempograd list metrics'", "NAME", default="cpd"),
    "--metrics": kind("see 'tempograd list metrics'", "A,B,…", names, default="cpd,cpp"),
    "--k": kind("cells to remove: a count, or a share", "K", amount, default=0.1),
    "--of": kind("whose changes cpd and cpp sum (default: all of classes)", choices=("score", "output")),
    "--budget": kind("at most N times the passes of explaining once, scoring included", "N", float, default=30.0),
    "--out": kind("what to write", "FILE", Path),
    "--no-live": kind("leave the model's weights out of the page", dest="live", action="store_false"),
    "--force": kind("overwrite files that tempograd did not write", action="store_true"),
    "--json": kind("print JSON, for programs", action="store_true"),
    "--log": kind("text, one line a minute, or all events as JSON", choices=("text", "json")),
    "--price": kind("money per hour, for the forecast of what the rest will take", "NUMBER", float),
    "--shown": kind("which channels (default: the strongest)", "A,B,…", names),
}
MODEL = "--model --weights --trust --device"
METHOD = "--method --n-samples --n-steps --tolerance --set"
ASKED = {
    "the model": f"{MODEL} predictor",
    "the series": "--data --limit --lengths --split --root --variant source",
    "the question": "question",
}


class Command(NamedTuple):
    """A command: its groups of arguments, where its work is done, and what its help shows."""

    run: str
    examples: str  # one on each line
    groups: Mapping[str, str]  # names of arguments, nouns, and fields of nouns
    changes: Mapping[str, ArgumentKind] = MappingProxyType({})  # of what the table tells
    notes: str = ""
    most: int = 200  # series of a run that are taken, unless somebody says how many
    without: tuple[str, ...] = ()  # fields


NEEDED = {"--model": {"required": True}, "--data": {"required": True}}
ONE = {"nargs": 1}
PAGE = {"": "explanations", "the model": MODEL, "the series": "--sample", "the question": "--target"}
LOOK = {"": "explanations", "the series": "--series", "the question": "--target"}
COMMANDS = {
    "demo": Command(
        "demo:run_demo",
        "--out demo\n--methods all\n--series 20 --methods timing,integrated_gradients,occlusion --seed 1",
        {"": "--epochs --device --series --methods --seed --out --force"},
        {
            "--out": kind("folder for the results", "DIR", default="demo"),
            "--series": kind("test series to explain, up to 100", "N", int, default=50),
            "--methods": kind("beside timing; or all, in minutes (default: six)", required=False),
            "--epochs": {"default": 30},
        },
    ),
    "list": Command("commands:run_list", "\nexplainers\nmetrics --json", {"": "kind --json"}),
    "train": Command(
        "commands:run_train",
        "state --model gru --fold 0 --seed 1 --out fold0.safetensors\n"
        "switch_feature --model cnn --epochs 5 --json",
        {
            "": "dataset",
            "the model": "--model --epochs --seed --device",
            "the series": "--fold --root --variant",
            "the output": "--out --force --json",
        },
        {
            "--model": kind("see 'tempograd list models'", "NAME", default="gru"),
            "--out": {"default": "model.safetensors"},
        },
    ),
    "explain": Command(
        "explaining:run_explain",
        "--model model.safetensors --data state --limit 50 --out E.safetensors\n"
        "--model my_net:Net --weights weights.pt --data patients.csv --id patient --time hour\n"
        "--model my.pt2 --trust --data 'lake/*.parquet' --keep day,site --workers 4 --out explained/",
        {
            "": "--config",
            **ASKED,
            "the method": f"{METHOD} --settings effort",
            "the output": "--out --force --json run --log --price",
        },
        {
            **NEEDED,
            "--data": kind("a data set, or a file, folder or pattern of series", required=True),
            "--limit": kind("the first N series only; into a folder, about N more"),
            "--out": kind("or FOLDER/ for any number of series", default="explanation.safetensors", parse=str),
        },
        FORMS,
    ),
    "runs": Command("explaining:run_runs", "explained/\nexplained/ --json", {"": "folder --json"}),
    "evaluate": Command(
        "commands:run_evaluate",
        "timing.safetensors ig.safetensors --model model.safetensors --metrics cpd,cpp,accuracy\n"
        "E.safetensors --model model.safetensors --metrics auroc,auprc --json",
        {
            **PAGE,
            "the series": "--sample --root --variant source",
            "the metrics": "--metrics --k --of question.baseline question.background",
            "the output": "--json",
        },
        {"--model": {"required": True}},
        most=10_000,
        without=("partition",),
    ),
    "tune": Command(
        "explaining:run_tune",
        "--model model.safetensors --data state --limit 150 --out tuned.safetensors\n"
        "--model my_net:Net --weights w.pt --data patients.csv --method lime --metric cpp --budget 20",
        {
            **ASKED,
            "the method": f"{METHOD} --metric --k --of --budget effort",
            "the output": "--out --force --json",
        },
        {**NEEDED, "--split": {"default": "validation"}, "--out": {"default": "tuned.safetensors"}},
        without=("targets", "partition"),
    ),
    "rank": Command(
        "explaining:run_rank",
        "--model model.safetensors --data state --limit 100 --methods timing,integrated_gradients,occlusion\n"
        "--model my.pt2 --trust --data test.npz --methods timing,lime --baseline average --json",
        {**ASKED, "the methods": "--methods --metric --k --of effort", "the output": "--json"},
        NEEDED,
        without=("targets", "partition"),
    ),
    "report": Command(
        "commands:run_report",
        "timing.safetensors ig.safetensors --model my_net:Net --weights w.pt\n"
        "E.safetensors --units mmol/L,bpm --out report.html",
        {
            **PAGE,
            "the series": "--sample --series source.classes source.units",
            "the output": "--out --force --no-live",
        },
        {
            "--series": kind("positions of the series to show", "I", int, nargs="+"),
            "--out": {"default": "report.html"},
        },
    ),
    "top": Command(
        "commands:run_top",
        "E.safetensors --series 17 --k 5\nE.safetensors --json",
        {**LOOK, "the output": "--k --json"},
        {"--k": kind("so many values", "N", int, default=10), "explanations": ONE},
    ),
    "plot": Command(
        "commands:run_plot",
        "E.safetensors --series 17 --shown pulse,sodium --out patient17.png\nE.safetensors --out series.svg",
        {**LOOK, "the output": "--out --force --shown"},
        {"--out": kind(".png, .svg or .pdf", default="series.png"), "explanations": ONE},
    ),
}


def add(commands: Commands, name: str, about: str) -> None:
    """Add a command with its arguments; a default stands in the help, unless that is None."""
    row = COMMANDS[name]
    notes = row.notes or SEE * any("--data" in words for words in row.groups.values())
    parser: argparse.ArgumentParser = add_command(commands, name, about, row.examples.split("\n"), notes)
    for title, words in row.groups.items():
        group: Any = parser.add_argument_group(title) if title else parser
        for word in words.split():
            if word in TABLE:
                options = TABLE[word] | row.changes.get(word, {})
                if options.get("default") not in (None, []):
                    options["help"] += " (default: %(default)s)"
                group.add_argument(word, **options)
            else:
                noun, _, field = word.partition(".")
                add_fields(group, noun, field, row.without)
    needed = [
        " ".join([*action.option_strings, str(action.metavar)]) for action in parser._actions if action.required
    ]
    if needed:
        parser.usage = f"{parser.prog} {' '.join(needed)} [options]"
    parser.set_defaults(run=f"tempograd.cli.{row.run}", most=row.most)
