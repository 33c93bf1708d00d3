"""Deliberate breaks of the library, drawn over all rooms by a fixed seed before it was rebuilt (``breaks.toml``).

    python tests/breaks/apply.py list
    python tests/breaks/apply.py check [--tree DIR]
    python tests/breaks/apply.py apply NUMBER --tree DIR
    python tests/breaks/apply.py run [NUMBER] [--jobs 2]

``check`` says which breaks no longer fit a tree, by default this one; ``apply`` breaks a copy of it; ``run`` lets
the tests that caught a break run on a copy of ``src`` with it, and says where all of them pass. A suite is as
good as the one before if it fails for each break that the one before failed for, unless its behaviour was dropped.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
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


def caught(change: dict[str, Any]) -> str:
    """Return the last line of pytest on the tests that caught a break; nothing where they catch it again."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(ROOT / "src", Path(scratch) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (copy / Path(change["file"]).relative_to("src")).write_text(broken(change, ROOT), "utf-8")
        tests = [
            name.replace("src/", f"{copy}/", 1) if name.startswith("src/") else name for name in change["caught"]
        ]
        path = os.pathsep.join([str(copy), str(ROOT / "reproduction"), os.environ.get("PYTHONPATH", "")])
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--doctest-modules",
            *tests,
        ]
        run = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
    return "" if run.returncode == 1 else (run.stdout.strip().splitlines() or [f"exit {run.returncode}"])[-1]


def run(number: int | None, jobs: int) -> None:
    """Apply the breaks that the old suite caught, and say which of them today's tests miss."""
    changes = [each for each in BREAKS if each["caught"] and "dropped" not in each]
    changes = [each for each in changes if number in (None, each["number"])]
    with ThreadPoolExecutor(jobs) as pool:
        for change, line in zip(changes, pool.map(caught, changes), strict=True):
            sys.stdout.write(f"{change['number']:2} {f'MISSED: {line}' if line else 'caught'}\n")
            sys.stdout.flush()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "check", "apply", "run"])
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.action == "list":
        for each in BREAKS:
            state = f"dropped: {each['dropped']}" if "dropped" in each else each["old_suite"]
            sys.stdout.write(f"{each['number']:2} {each['file']}: {each['behaviour']} ({state})\n")
    elif args.action == "check":
        sys.exit("\n".join(misfits(args.tree or ROOT)) or None)
    elif args.action == "run":
        run(args.number, args.jobs)
    elif args.tree is None or args.number is None:
        parser.error("apply needs a NUMBER, and --tree with a copy of the project")
    else:
        change = next(each for each in BREAKS if each["number"] == args.number)
        (args.tree / change["file"]).write_text(broken(change, args.tree), "utf-8")


if __name__ == "__main__":
    main()
