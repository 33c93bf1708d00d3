"""Runs a commit and the working tree side by side and compares their scores bit for bit.

Run as ``python tests/lock/compare.py [--base COMMIT] [--tree DIR] [--only SUBSTRING] [--tables]``. Both trees run
in the same environment on the same machine, one thread each, so that nothing but the code can make a difference.
With TEMPOGRAD_DATA set, the data sets in that folder are compared as well.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BASE = "81fe1adb422d74cce793ed800e3a322ff3eeef07"  # the last commit before the redesign
ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("probe.py")
MOST = 60  # differences that are listed
COMMAND = re.compile(
    r"run (?:tempograd bench|python -m tempograd_paper run) (?:reproduction/)?"
)  # at a table's end


def check_out(commit, folder):
    """Write the files of a commit into a folder, without a worktree that would have to be removed again."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)


def start(tree, arguments, log, cwd):
    """Start Python so that it imports the packages of this tree, before what is installed."""
    paths = [tree / "src", *(folder for folder in [tree / "reproduction"] if folder.is_dir())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    with log.open("w") as file:
        return subprocess.Popen(command, cwd=cwd, env=environment, stdout=file, stderr=subprocess.STDOUT)


def finish(running, log):
    if running.wait():
        sys.exit(f"{' '.join(map(str, running.args))} failed:\n{log.read_text()[-4000:]}")


def both(trees, folder, arguments, cwd=None):
    """Run Python in both trees at once; ``arguments`` and ``cwd`` are functions of the side and its tree."""
    logs = {side: folder / f"{side}.log" for side in trees}
    running = {
        side: start(tree, arguments(side, tree), logs[side], cwd(tree) if cwd else folder)
        for side, tree in trees.items()
    }
    try:
        for side, process in running.items():
            finish(process, logs[side])
    finally:
        for process in running.values():
            process.kill()  # does nothing to one that has ended


def difference(old, new):
    """Say how two arrays differ; empty if every bit is the same."""
    if (old.dtype.kind, old.shape) != (new.dtype.kind, new.shape):
        return f"{old.dtype} {old.shape} became {new.dtype} {new.shape}"
    if old.dtype.kind in "US":
        return "" if (old == new).all() else f"{old} became {new}"
    if old.dtype != new.dtype:
        return f"{old.dtype} became {new.dtype}"
    if old.tobytes() == new.tobytes():
        return ""
    with np.errstate(invalid="ignore"):
        gap = np.abs(old.astype(np.float64) - new.astype(np.float64))
    bits = np.frombuffer(old.tobytes(), np.uint8) != np.frombuffer(new.tobytes(), np.uint8)
    cells = int(bits.reshape(-1, old.itemsize).any(1).sum())
    largest = f"{np.nanmax(gap):.3g}" if not np.isnan(gap).all() else "not defined"
    return f"{cells} of {old.size} numbers differ, at most by {largest}"


def compare_scores(trees, folder, only):
    """Return how many results of how many cases there are, and what differs."""
    outputs = {side: folder / f"{side}.npz" for side in trees}
    both(trees, folder, lambda side, tree: [PROBE, outputs[side], "--tree", tree, "--only", only])
    with np.load(outputs["base"]) as old, np.load(outputs["tree"]) as new:
        found = [f"{name}: only in the base" for name in sorted(set(old.files) - set(new.files))]
        found += [f"{name}: only in the tree" for name in sorted(set(new.files) - set(old.files))]
        for name in sorted(set(old.files) & set(new.files)):
            said = difference(old[name], new[name])
            found += [f"{name}: {said}"] if said else []
        return len(old.files) - 1, int(old["cases"]), found  # the number of cases is no result


def home(tree):
    """Return the folder of the kept results, the command of their tables, and the folder it runs in."""
    moved = (tree / "reproduction").is_dir()
    results = tree / "reproduction" / "results" if moved else tree / "results"
    results = results if results.is_dir() else tree / "results"
    return results, "tempograd_paper" if moved else "tempograd"


def table_arguments(tree, name, out):
    results, package = home(tree)
    plan, _, protocol = name.rpartition("-")
    file = results / "plans" / f"{plan}.toml"
    options = ["--protocol", protocol, "--results", (results / name).relative_to(tree), "--out", out]
    return ["-m", package, "table", file.relative_to(tree) if file.is_file() else plan, *options]


def compare_tables(trees, folder):
    """Write the tables of all kept results anew; return how many there are, and what differs."""
    names = {
        side: {path.name for path in home(tree)[0].glob("*-*") if path.is_dir()} for side, tree in trees.items()
    }
    names = {
        side: {name for name in mine if name.endswith(("-published", "-fair"))} for side, mine in names.items()
    }
    found = [f"{name}: results of one tree only" for name in sorted(names["base"] ^ names["tree"])]
    shared = sorted(names["base"] & names["tree"])
    for name in shared:
        outputs = {side: folder / f"{name}-{side}.md" for side in trees}
        both(
            trees,
            folder,
            lambda side, tree, name=name, out=outputs: table_arguments(tree, name, out[side]),
            cwd=lambda tree: tree,
        )
        old, new = (COMMAND.sub("run ", outputs[side].read_text("utf-8")) for side in ("base", "tree"))
        found += [f"{name}: {line}" for line in changed_lines(old, new)] if old != new else []
    return len(shared), found


def changed_lines(old, new):
    pairs = zip(old.splitlines() + [""] * 999, new.splitlines() + [""] * 999, strict=False)
    first = next(((a, b) for a, b in pairs if a != b), ("", "the end of the file"))
    return [f"the table differs, first here:\n    {first[0]}\n    {first[1]}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default=BASE, help="commit to compare with (default: %(default)s)")
    parser.add_argument("--tree", type=Path, default=ROOT, help="folder to compare (default: the working tree)")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--tables", action="store_true", help="also the tables of the kept results")
    args = parser.parse_args()
    began = time.perf_counter()
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        trees = {"base": folder / "base", "tree": args.tree.resolve()}
        trees["base"].mkdir()
        check_out(args.base, trees["base"])
        results, cases, found = compare_scores(trees, folder, args.only)
        if not found:
            lines.append(f"{results} results of {cases} cases are equal bit for bit.")
        if args.tables:
            tables, other = compare_tables(trees, folder)
            found += other
            lines += [] if other else [f"{tables} tables are equal byte for byte."]
    lines += [f"{len(found)} of {results} results differ:"] if found else []
    lines += found[:MOST] + ([f"… and {len(found) - MOST} more"] if len(found) > MOST else [])
    sys.stdout.write("\n".join([*lines, f"{time.perf_counter() - began:.0f} s"]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
