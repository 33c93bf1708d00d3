"""``python -m tempograd_paper``: run the cells of a table, print it beside the published numbers, list the plans.

Where the package is installed, ``tempograd bench`` and ``tempograd table`` are the first two. These are their
arguments; ``actions.py`` does the work, and loads torch.
"""

import argparse
import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tempograd.cli import run_command, start_parser
from tempograd.cli.arguments import Commands, add_command, names
from tempograd_paper.labels import PROGRAM

PATH = f"""the usual path:
  see the plans  {PROGRAM} list
  run one        {PROGRAM} run smoke --out runs/smoke
  print it       {PROGRAM} table smoke --results runs/smoke
"""
PLANS = Path(__file__).parent / "plans"
PLAN = f"see '{PROGRAM} list', or a TOML file"
RUNS = (
    "smoke --out runs/smoke",
    "table4 --out runs/table4 --protocol fair --workers 2",
    "table3 --out runs/table3 --datasets wafer --methods timing,random --folds 0",
)
RUN_NOTES = """A run can be stopped at any moment: the same command goes on where it was. On a CPU every cell
uses one core, so give it as many workers as there are cores.

"""
FORMATS = ("markdown", "latex", "csv", "json")
TABLES = (
    "table4 --results runs/table4 --protocol fair",
    "table3 --results RESULTS --format latex --out table3.tex",
    "table3 --results RESULTS --json",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as that of tempograd does."""
    return run_command(make_parser(), argv)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    about = "The tables of the TIMING paper: run them, and print our numbers beside the paper's."
    parser, parts = start_parser(PROGRAM, about, PATH)
    for add in (add_run, add_table, add_answers, add_list):
        add(parts)
    return parser


# run


def add_bench(commands: Commands) -> None:
    """Run the cells of a table: data sets × models × folds × methods."""
    add_run(commands, "bench")  # "run" would say nothing there


def add_run(commands: Commands, name: str = "run") -> None:
    about = "run the cells of a table: data sets × models × folds × methods"
    parser = add_command(commands, name, about, RUNS, RUN_NOTES)
    parser.add_argument("plan", metavar="PLAN", help=PLAN)
    parser.add_argument("--out", type=Path, required=True, help="folder for data, models and records")
    parser.add_argument("--protocol", choices=("fair", "published", "tuned"), help="(default: the plan's)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="cells at the same time (default: 1)")
    parser.add_argument("--root", type=Path, help="folder with the data sets' files (default: $TEMPOGRAD_DATA)")
    only = parser.add_argument_group("only a part of the plan")
    for kind, example in (("datasets", "wafer,freezer"), ("methods", "timing,random"), ("folds", "0,1")):
        only.add_argument(f"--{kind}", type=names, help=f"such as {example}")
    only.add_argument("--kept", type=Path, metavar="DIR", help="not the folds that this archive has whole")
    parser.add_argument("--device", help="for instance cpu or cuda:0 (default: a GPU if there is one)")
    parser.set_defaults(run="tempograd_paper.actions:run_plan")


# table


def add_table(commands: Commands) -> None:
    """Print our numbers beside the published ones."""
    parser = add_command(commands, "table", "print our numbers beside the published ones", TABLES)
    parser.add_argument("plan", metavar="PLAN", help=f"{PLAN}; table7: data set sizes")
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="what runs left, or archives; of a fold the fullest counts",
    )
    parser.add_argument("--format", default="markdown", choices=FORMATS, help="(default: markdown)")
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("--protocol", choices=("published", "fair", "tuned"), help="in place of the plan's")
    parser.add_argument("--root", type=Path, help="for table7: folder with the data sets' files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        "--archive", type=Path, metavar="DIR", help="also write the results in the small form for a repository"
    )
    parser.add_argument("--force", action="store_true", help="overwrite files that tempograd did not write")
    parser.set_defaults(run="tempograd_paper.actions:print_table", usage=parser.error)


# answers


def add_answers(commands: Commands) -> None:
    about = "write the page of answers and its pictures from the kept results"
    examples = ("--results reproduction/results --docs docs", "--results runs --docs pages")
    parser = add_command(commands, "answers", about, examples)
    parser.add_argument(
        "--results",
        type=Path,
        required=True,
        metavar="DIR",
        help="the folder of all kept results, reproduction/results",
    )
    parser.add_argument(
        "--docs", type=Path, required=True, metavar="DIR", help="where learnt.md and pictures/ are written, docs"
    )
    parser.set_defaults(run="tempograd_paper.actions:write_answers")


# list


def add_list(commands: Commands) -> None:
    parser = add_command(commands, "list", "show the plans of the package, with one line each", ("", "--json"))
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run="tempograd_paper.commands:list_plans")


def list_plans(args: argparse.Namespace) -> None:
    plans = {path.stem: _plan(path.stem) for path in sorted(PLANS.glob("*.toml"))}
    about = {name: plan["title"].rstrip(".") + "." for name, plan in plans.items()}
    if args.json:
        found = [
            {
                "name": name,
                "about": about[name],
                "datasets": _names(plan["datasets"], "name"),
                "cells": _count(plan),
            }
            for name, plan in plans.items()
        ]
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    width = max(map(len, about)) + 2
    for name, line in about.items():
        print(f"{name:<{width}}{line}")


def _plan(name: str) -> dict[str, Any]:
    """Read a plan of the package with what it inherits; what is packaged was checked by its tests."""
    keys = tomllib.loads((PLANS / f"{name}.toml").read_text(encoding="utf-8"))
    return _plan(keys["based_on"]) | keys if "based_on" in keys else keys


def _names(entries: list[Any], key: str) -> list[str]:
    """Return the names of entries, which may be tables."""
    return [entry if isinstance(entry, str) else entry[key] for entry in entries]


def _count(plan: dict[str, Any]) -> int:
    """Return how many cells a plan has; ``random`` is always among its rows."""
    if plan.get("kind") == "sizes":
        return 0
    protocol = plan.get("protocol", "published")
    rows = [
        each for each in plan["explainers"] if isinstance(each, str) or each.get("protocol", protocol) == protocol
    ]
    floor = "random" not in _names(rows, "method")
    return (len(rows) + floor) * math.prod(len(plan[key]) for key in ("datasets", "models", "folds"))
