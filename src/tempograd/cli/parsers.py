"""The arguments of the commands, as tables, and where the work of each is done, loaded when it is asked for.

Groups stand in one order: the model, the series, the question, the method, the output. Most options are fields of
the library's nouns (``fields.py``): a noun stands for all of its options, ``noun.field`` for one.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tempograd.cli.arguments import (
    Commands,
    add_command,
    parse_amount,
    parse_names,
    parse_one_target,
    parse_real_number,
    parse_setting,
    parse_whole_number,
)
from tempograd.cli.fields import add_fields

KINDS = ("explainers", "metrics", "datasets", "models")
FORMS = """Models are
  model.safetensors  by 'tempograd train' or tempograd.save_model
  module:callable    your own code: an nn.Module, or what returns one when called without arguments; it is
                     imported from the current folder and run, --weights FILE loads its state_dict
  model.pt2          by torch.export.save, best exported with a dynamic batch dimension; needs --trust
  model.pt           TorchScript, by torch.jit.save; needs --trust
The last two can run code as soon as they are opened: pass --trust for files of people you trust.

Files of series end in
  .csv .tsv .parquet  tables: one row per series and step (long), per series, step and channel (melted), or per
                      series (wide); empty cells are missing values; columns with obvious names need no option
  .ts                 the text format of the UEA and UCR archives
  .npy                the series x alone
  .npz                arrays by name, of which only x is needed:
    x         the series (series, time, channel), floating point, a number in every cell or --missing mask
    mask      like x: 1 where a value was observed, 0 where it is missing
    y         labels (series,) or (series, time): classes (integers or text) or real values
    truth     like x: 1 where a value truly decided the label
    ids       distinct integers or names, one per series
    channels  one name per channel
    times     one name per time step, or (series, time) where series have time stamps of their own
    units     one unit per channel
    raw       like x: the values before they were scaled for the model, which people are shown

"""
SEE = "'tempograd explain --help' lists the kinds of models and of files.\n\n"
ArgumentKind = Mapping[str, Any]  # what argparse wants to know of an argument


def kind(about: str, metavar: str | None = None, parse: Any = None, **more: Any) -> ArgumentKind:
    """Return an argument; its default stands in the help, unless that is None."""
    if more.get("default") is not None:
        about += (
            f" (default: {','.join(more['default']) if isinstance(more['default'], list) else more['default']})"
        )
    return {"help": about, "metavar": metavar, "type": parse, **more}


def flag(about: str) -> ArgumentKind:
    return {"help": about, "action": "store_true"}


WHOLE, REAL, NAMES = parse_whole_number, parse_real_number, parse_names
TABLE: dict[str, ArgumentKind] = {  # what is no field of a noun
    "dataset": kind("see 'tempograd list datasets'", "DATASET"),
    "explanations": kind("by 'tempograd explain', or the folder of a run", "E.safetensors", Path, nargs="+"),
    "folder": kind("by 'tempograd explain --out FOLDER/'", "FOLDER", Path),
    "kind": {"help": "what to list (default: everything)", "nargs": "?", "choices": KINDS},
    "--model": kind("a file, or module:callable", "MODEL"),
    "--weights": kind(".safetensors or .pt, for module:callable", "FILE", Path),
    "--trust": flag("open a .pt2 or TorchScript file (can run code)"),
    "--device": kind("for instance cpu or cuda:0 (default: a GPU if there is one)"),
    "--epochs": kind("at most this many passes over the series", "N", WHOLE),
    "--data": kind("a data set, or a file of series", "DATA"),
    "--limit": kind("the first N series only", "N", WHOLE),
    "--lengths": {
        "help": "pad series of unequal length with 0, masked (default: each is shown at its own length)",
        "choices": ("padded",),
    },
    "--split": {"help": "of a data set", "default": "test", "choices": ("train", "validation", "test")},
    "--fold": kind("0 to 4: validate on this fifth of the training series", "N", WHOLE),
    "--root": kind("folder with the data sets' files (default: $TEMPOGRAD_DATA)", None, Path),
    "--variant": kind("which version of a data set, for those that have several"),
    "--raw": kind("the same series in units that people know, which they are shown", "FILE"),
    "--sample": kind("take N of the series in a run's folder", "N", WHOLE),
    "--seed": kind("of all random draws", "N", WHOLE, default=0),
    "--series": kind("its name or number (default: the most telling one)", "NAME"),
    "--target": kind("which one, of explanations with several targets (--targets)", None, parse_one_target),
    "--method": kind("see 'tempograd list explainers' (default: timing)", "NAME"),
    "--methods": kind("see 'tempograd list explainers', or files of settings", "A,B,…", NAMES, required=True),
    "--n-samples": kind("samples per series: more are more exact", "N", WHOLE),
    "--n-steps": kind("points on a path, of methods with a rule", "N", WHOLE),
    "--tolerance": kind("stop a series at this error, as 0.1 for 10 %%", "SHARE", REAL),
    "--set": {
        **kind("another setting, as segments=5 or areas=0.1,0.2; may be repeated", "NAME=VALUE", parse_setting),
        **{"action": "append", "default": [], "dest": "settings"},
    },
    "--settings": kind("method and settings, by 'tempograd tune'", "FILE", Path, dest="settings_file"),
    "--metric": kind("see 'tempograd list metrics'", "NAME", default="cpd"),
    "--metrics": kind("see 'tempograd list metrics'", "A,B,…", NAMES, default=["cpd", "cpp"]),
    "--k": kind("cells to remove: a count, or a share", "K", parse_amount, default=0.1),
    "--of": {"help": "whose changes cpd and cpp sum (default: all of classes)", "choices": ("score", "output")},
    "--baseline": {
        "help": "what replaces removed cells (default: what each explanation compares with)",
        "choices": ("zero", "average", "background"),
    },
    "--background": kind("other series, whose values replace them in turn", "DATA"),
    "--budget": kind("at most N times the passes of explaining once, scoring included", "N", REAL, default=30.0),
    "--out": kind("what to write", "FILE", Path),
    "--force": flag("overwrite files that tempograd did not write"),
    "--json": flag("print JSON, for programs"),
    "--title": kind("the heading of the page"),
    "--shown": kind("which channels (default: the strongest)", "A,B,…", NAMES),
}
MODEL = "--model --weights --trust --device"
DATA = "--data --split --root --variant source"
KEPT = "run.cells run.engine run.workers run.fragment run.max_faults"
METHOD = "--method --n-samples --n-steps --tolerance --set"
ASKED = {
    "the model": f"{MODEL} predictor",
    "the series": "--data --limit --lengths --split --root --variant source",
    "the question": "question",
}


class Command(NamedTuple):
    """A command: its groups of arguments, where its work is done, and what its help shows."""

    run: str
    examples: tuple[str, ...]
    groups: Mapping[str, str]  # names of arguments, nouns, and fields of nouns
    changes: Mapping[str, ArgumentKind] = MappingProxyType({})  # of what the table tells
    notes: str = SEE
    defaults: Mapping[str, Any] = MappingProxyType({})
    without: tuple[str, ...] = ()  # fields


NEEDED = {"required": True}
ONE = {"explanations": {"nargs": 1}}
PAGE = {"the model": MODEL, "the series": DATA, "the question": "--target"}
COMMANDS = {
    "demo": Command(
        "demo:run_demo",
        ("--out demo", "--methods all", "--series 20 --methods timing,integrated_gradients,occlusion --seed 1"),
        {"": "--epochs --device --series --methods --seed --out --force"},
        {
            "--out": kind("folder for the results", "DIR", Path, default=Path("demo")),
            "--series": kind("test series to explain, up to 200", "N", WHOLE, default=50),
            "--methods": kind(
                "TIMING is always there; or all, in minutes (default: seven)", "A,B,…", NAMES, required=False
            ),
            "--epochs": kind("train at most this long", "N", WHOLE, default=8),
        },
        notes="",
    ),
    "list": Command("commands:run_list", ("", "explainers", "metrics --json"), {"": "kind --json"}, notes=""),
    "train": Command(
        "commands:run_train",
        (
            "state --out model.safetensors",
            "state --model gru --fold 0 --seed 1 --out fold0.safetensors",
            "switch_feature --model cnn --epochs 5 --json",
        ),
        {
            "": "dataset",
            "the model": "--model --epochs --seed --device",
            "the series": "--fold --root --variant",
            "the output": "--out --force --json",
        },
        {
            "--model": kind("see 'tempograd list models'", "NAME", default="gru"),
            "--out": kind("the model", "FILE", Path, default=Path("model.safetensors")),
        },
        notes="",
    ),
    "explain": Command(
        "explaining:run_explain",
        (
            "--model model.safetensors --data state --limit 50 --out E.safetensors",
            "--model my_net:Net --weights weights.pt --data patients.csv --id patient --time hour",
            "--model my.pt2 --trust --data 'lake/*.parquet' --keep day,site --workers 4 --out explained/",
        ),
        {
            **ASKED,
            "the series": f"{ASKED['the series']} --raw",
            "the method": f"{METHOD} --settings effort",
            "the output": f"--out --force --json {KEPT}",
        },
        {
            "--model": NEEDED,
            "--data": {**kind("a data set, or a file, folder or pattern of series", "DATA"), **NEEDED},
            "--out": kind("or FOLDER/ for any number of series", "FILE", default="explanation.safetensors"),
        },
        FORMS,
    ),
    "runs": Command("explaining:run_runs", ("explained/", "explained/ --json"), {"": "folder --json"}, notes=""),
    "evaluate": Command(
        "commands:run_evaluate",
        (
            "E.safetensors --model model.safetensors",
            "timing.safetensors ig.safetensors --model model.safetensors --metrics cpd,cpp,accuracy",
            "E.safetensors --model model.safetensors --metrics auroc,auprc --data state --json",
        ),
        {
            "": "explanations",
            **PAGE,
            "the series": f"{DATA} --sample --seed",
            "the metrics": "--metrics --k --of --baseline --background",
            "the output": "--json",
        },
        {"--model": NEEDED, "--seed": {"default": None}},
        defaults={"most": 10_000},
    ),
    "tune": Command(
        "explaining:run_tune",
        (
            "--model model.safetensors --data state --limit 150 --out settings.json",
            "--model my_net:Net --weights w.pt --data patients.csv --method lime --metric cpp --budget 20",
        ),
        {
            **ASKED,
            "the method": f"{METHOD} --metric --k --of --budget effort",
            "the output": "--out --force --json",
        },
        {
            "--model": NEEDED,
            "--data": NEEDED,
            "--split": {"default": "validation"},
            "--out": kind("the settings", "FILE", Path, default=Path("settings.json")),
        },
        without=("targets",),
    ),
    "rank": Command(
        "explaining:run_rank",
        (
            "--model model.safetensors --data state --limit 100 --methods timing,integrated_gradients,occlusion",
            "--model my.pt2 --trust --data test.npz --methods timing,lime --baseline average --json",
        ),
        {**ASKED, "the methods": "--methods --metric --k --of effort", "the output": "--json"},
        {"--model": NEEDED, "--data": NEEDED},
        without=("targets",),
    ),
    "report": Command(
        "commands:run_report",
        (
            "E.safetensors --model model.safetensors --data state",
            "timing.safetensors ig.safetensors --model my_net:Net --weights w.pt --data patients.csv --id patient",
            "E.safetensors --data scaled.npz --raw measured.npz --units mmol/L,bpm --out report.html",
        ),
        {
            "": "explanations",
            **PAGE,
            "the series": f"{DATA} --raw series.units --sample --seed --series",
            "the output": "--out --force --title",
        },
        {
            "--seed": {"default": None},
            "--series": kind("positions of the series to show", "I", WHOLE, nargs="+"),
            "--out": kind("the page", "FILE", Path, default=Path("report.html")),
        },
        defaults={"most": 200},
    ),
    "top": Command(
        "looking:run_top",
        (
            "E.safetensors",
            "E.safetensors --series 17 --k 5",
            "E.safetensors --model model.safetensors --data state --json",
        ),
        {"": "explanations", **PAGE, "the series": f"{DATA} --series", "the output": "--k --json"},
        {"--k": kind("so many values", "N", WHOLE, default=10), **ONE},
        defaults={"most": 200, "sample": None, "seed": None},
    ),
    "plot": Command(
        "looking:run_plot",
        (
            "E.safetensors",
            "E.safetensors --series 17 --shown pulse,sodium --out patient17.png",
            "E.safetensors --model model.safetensors --data state --out series.svg",
        ),
        {"": "explanations", **PAGE, "the series": f"{DATA} --series", "the output": "--out --force --shown"},
        {"--out": kind(".png, .svg or .pdf (default: a picture of text, printed)", "PICTURE", Path), **ONE},
        defaults={"most": 200, "sample": None, "seed": None},
    ),
}


def add(commands: Commands, name: str, about: str) -> None:
    """Add a command with its arguments."""
    row = COMMANDS[name]
    parser: argparse.ArgumentParser = add_command(commands, name, about, row.examples, row.notes)
    for title, words in row.groups.items():
        group: Any = parser.add_argument_group(title) if title else parser
        for word in words.split():
            if word in TABLE:
                known = {**TABLE[word], **row.changes.get(word, {})}
                group.add_argument(word, **{key: part for key, part in known.items() if part is not None})
            else:
                noun, _, field = word.partition(".")
                add_fields(group, noun, *filter(None, [field]), without=row.without)
    needed = [
        " ".join([*action.option_strings, str(action.metavar)]) for action in parser._actions if action.required
    ]
    if needed:
        parser.usage = f"{parser.prog} {' '.join(needed)} [options]"
    parser.set_defaults(run=f"tempograd.cli.{row.run}", **row.defaults)
