"""``python -m tempograd_paper list``: the plans that come with the package."""

import argparse
import json
from typing import Any

from tempograd.cli.arguments import Commands, add_command, add_json


def add_list(commands: Commands) -> None:
    parser = add_command(commands, "list", "show the plans of the package, with one line each", ("",))
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    found = _plans()
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    width = max(len(entry["name"]) for entry in found) + 2
    for entry in found:
        print(f"{entry['name']:<{width}}{entry['about']}")


def _plans() -> list[dict[str, Any]]:
    from tempograd_paper.runner.reading import load_plan, packaged_plans

    plans = [load_plan(name, to_run=False) for name in packaged_plans()]
    return [
        {
            "name": plan.name,
            "about": plan.title.rstrip(".") + ".",
            "datasets": plan.datasets,
            "cells": len(plan.cells()),
        }
        for plan in plans
    ]
