"""A command, whose arguments are light and whose work is imported when it is run."""

import argparse
from typing import Any


def add_steepest(commands: Any) -> None:
    """Say at which step the ramps are steepest."""
    parser = commands.add_parser("steepest", help="say at which step the ramps are steepest")
    parser.add_argument("--channel", type=int, default=0)
    parser.set_defaults(run="slopes.commands:steepest")


def steepest(args: argparse.Namespace) -> None:
    import tempograd as tg

    x = tg.load_dataset("ramps").train.x[..., args.channel]
    print(f"step {int(x.diff(dim=1).abs().mean(0).argmax())}")
