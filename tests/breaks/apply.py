"""Deliberate breaks of the library, drawn over all rooms by a fixed seed before it was rebuilt (``breaks.toml``).

    python tests/breaks/apply.py list
    python tests/breaks/apply.py check [--tree DIR]
    python tests/breaks/apply.py apply NUMBER --tree DIR

``check`` says which breaks no longer fit a tree, by default this one; ``apply`` breaks a copy of it. A suite is as
good as the one before if it fails for each break that the one before failed for, unless its behaviour was dropped.
"""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BREAKS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("breaks.toml").read_text("utf-8"))["break"]


def broken(change: dict[str, Any], tree: Path) -> str:
    """Return the text of the file with the break; ValueError where its old text does not stand there once."""
    path = tree / change["file"]
    text = path.read_text("utf-8") if path.is_file() else ""
    if (count := text.count(change["old"])) != 1:
        raise ValueError(f"{change['number']}: its old text stands {count} times in {change['file']}, not once")
    return text.replace(change["old"], change["new"])


def misfits(tree: Path) -> list[str]:
    """Return a line for each break that cannot be applied to a tree."""
    lines = []
    for change in BREAKS:
        if "dropped" not in change:
            try:
                compile(broken(change, tree), change["file"], "exec")
            except (ValueError, SyntaxError) as error:
                lines.append(str(error))
    return lines


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "check", "apply"])
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--tree", type=Path)
    args = parser.parse_args()
    if args.action == "list":
        for each in BREAKS:
            state = f"dropped: {each['dropped']}" if "dropped" in each else each["old_suite"]
            sys.stdout.write(f"{each['number']:2} {each['file']}: {each['behaviour']} ({state})\n")
    elif args.action == "check":
        sys.exit("\n".join(misfits(args.tree or ROOT)) or None)
    elif args.tree is None or args.number is None:
        parser.error("apply needs a NUMBER, and --tree with a copy of the project")
    else:
        change = next(each for each in BREAKS if each["number"] == args.number)
        (args.tree / change["file"]).write_text(broken(change, args.tree), "utf-8")


if __name__ == "__main__":
    main()
