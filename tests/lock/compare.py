"""Runs a commit and the working tree side by side and compares their scores bit for bit, or as closely as asked.

Run as ``python tests/lock/compare.py [--base COMMIT | --base-tree DIR] [--tree DIR] [--only TEXT] [--tables]``.
Both trees run in the same environment on the same machine, one thread each, so that nothing but the code can make
a difference. With TEMPOGRAD_DATA set, the data sets in that folder are compared as well.

``--device cuda --close 1e-5`` computes on a GPU, where sums have no fixed order: numbers may differ by that share
of the largest of their array; draws, counts, keys and texts must be equal all the same. ``--close lime=1e-6`` is
for results with that text in their name alone; of several that fit, the last one holds. Arrays that may be nothing
but rounding, such as what a sum of scores leaves over, are measured by what they are made from.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

BASE = "821fafc4ad919974b75ffa54ca5b5c6c5baac8a8"  # the last commit before the core was rebuilt
ROOT = Path(__file__).resolve().parents[2]
LISTED = 60  # differences that are listed
WHOLES = (("convergence_delta", "delta"), ("convergence_delta", "values 0"), ("check jump", "check seen"))
SHARES = ("check gap", "check nearby", "check missing")  # of 1, also where all of them are small
MAY_GO = ("signed", "varies", "curve_samples", "curve_error")  # fields that a tree need not have


def check_out(commit, folder):
    """Write the files of a commit into a folder, without a worktree that would have to be removed again."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
    return folder


def start(tree, arguments, log, cwd):
    """Start Python so that it imports the packages of this tree, before what is installed, and this probe."""
    paths = os.pathsep.join(map(str, (tree / "src", tree / "reproduction", ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *map(str, arguments)]
    with log.open("w") as file:
        return subprocess.Popen(command, cwd=cwd, env=environment, stdout=file, stderr=subprocess.STDOUT)


def finish(running, log):
    if running.wait():
        sys.exit(f"{' '.join(map(str, running.args))} failed:\n{log.read_text()[-4000:]}")


def both(trees, folder, arguments, cwd=None):
    """Run a module in both trees at once; ``arguments`` and ``cwd`` are functions of the side and its tree."""
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


def difference(old, new, tolerance=0.0):
    """Say how two arrays differ; empty if every bit is the same, or if no float differs by more than tolerated."""
    if (old.dtype.kind, old.shape) != (new.dtype.kind, new.shape):
        return f"{old.dtype} {old.shape} became {new.dtype} {new.shape}"
    if old.dtype.kind in "US":
        return "" if (old == new).all() else f"{old} became {new}"
    if old.dtype != new.dtype:
        return f"{old.dtype} became {new.dtype}"
    if old.tobytes() == new.tobytes() or (old.dtype.kind == "f" and are_close(old, new, tolerance)):
        return ""
    with np.errstate(invalid="ignore"):
        gap = np.abs(old.astype(np.float64) - new.astype(np.float64))
    bits = np.frombuffer(old.tobytes(), np.uint8) != np.frombuffer(new.tobytes(), np.uint8)
    cells = int(bits.reshape(-1, old.itemsize).any(1).sum())
    largest = f"{np.nanmax(gap):.3g}" if not np.isnan(gap).all() else "not defined"
    return f"{cells} of {old.size} numbers differ, at most by {largest}"


def are_close(old, new, tolerance):
    """Tell whether numbers are that close, and the same ones are NaN or infinite."""
    finite = np.isfinite(old)
    if not tolerance or not np.array_equal(old[~finite], new[~finite], equal_nan=True):
        return False
    return bool((np.abs(old[finite].astype(np.float64) - new[finite]) <= tolerance).all())


def tolerance_of(name, results, close):
    """Return how far the numbers of a result may be apart: a share of the largest number that they are part of."""
    shares = [share for text, share in close if text in name]
    if not shares or results[name].dtype.kind != "f":
        return 0.0
    wholes = [name, *(name.replace(part, whole) for part, whole in WHOLES if part in name)]
    arrays = [np.abs(results[whole]) for whole in wholes if whole in results and results[whole].dtype.kind == "f"]
    scales = [float(array[np.isfinite(array)].max(initial=0)) for array in arrays]
    return shares[-1] * max(*scales, float(name.endswith(SHARES)))


def ended(results, how):
    """Return the cases that were refused or failed."""
    return {name.removesuffix(f"/{how}") for name in results.files if name.endswith(f"/{how}")}


def compare_scores(trees, folder, args):
    """Return lines on what was compared, and what differs."""
    outputs = {side: folder / f"{side}.npz" for side in trees}
    options = ["--device", args.device, "--only", args.only]
    both(trees, folder, lambda side, tree: ["tests.lock.probe", outputs[side], "--tree", tree, *options])
    with np.load(outputs["base"]) as old, np.load(outputs["tree"]) as new:
        unknown = ended(old, "failed")  # nobody knows what is right
        failed, refused = ended(new, "failed") - unknown, ended(new, "refused") - ended(old, "refused") - unknown
        found = [f"{case}: {new[f'{case}/failed']}" for case in sorted(failed)]
        found += [f"{case}: refused by the tree" for case in sorted(refused)]
        names = {
            side: {name for name in results.files if name.rpartition("/")[0] not in unknown | failed | refused}
            for side, results in (("base", old), ("tree", new))
        }
        gone = names["base"] - names["tree"]
        may_go = {name for name in gone if name.split("/")[-1].split()[-1] in MAY_GO}
        found += [f"{name}: only in the base" for name in sorted(gone - may_go)]
        found += [f"{name}: only in the tree" for name in sorted(names["tree"] - names["base"])]
        shared = sorted(names["base"] & names["tree"] - {"cases"})
        told = ((name, difference(old[name], new[name], tolerance_of(name, old, args.close))) for name in shared)
        found += [f"{name}: {how}" for name, how in told if how]
        count = len(ended(old, "refused"))
        lines = [f"{len(shared)} results of {int(old['cases'])} cases were compared; {count} cases are refusals."]
    lines += [f"{len(may_go)} results of fields that the tree does not have were not compared."] if may_go else []
    lines += [f"The base fails in {len(unknown)} cases: {', '.join(sorted(unknown))}."] if unknown else []
    return lines, found


def table_arguments(tree, name, out):
    results = tree / "reproduction" / "results"
    plan, _, protocol = name.rpartition("-")
    file = results / "plans" / f"{plan}.toml"
    options = ["--protocol", protocol, "--results", (results / name).relative_to(tree), "--out", out]
    return ["tempograd_paper", "table", file.relative_to(tree) if file.is_file() else plan, *options]


def compare_tables(trees, folder):
    """Write the tables of all kept results anew; return a line on how many there are, and what differs."""
    names = {
        side: {path.name for end in ("published", "fair") for path in tree.glob(f"reproduction/results/*-{end}")}
        for side, tree in trees.items()
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
        old, new = (outputs[side].read_text("utf-8") for side in ("base", "tree"))
        found += [f"{name}: {changed_line(old, new)}"] if old != new else []
    return [f"{len(shared)} tables were compared."], found


def changed_line(old, new):
    pairs = zip(old.splitlines() + [""] * 999, new.splitlines() + [""] * 999, strict=False)
    first = next(((a, b) for a, b in pairs if a != b), ("", "the end of the file"))
    return f"the table differs, first here:\n    {first[0]}\n    {first[1]}"


def by_kind(found):
    """Count differences by the first part of their names."""
    counts = Counter(name.partition("/")[0].partition(":")[0] for name in found)
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common())


def named_share(text):
    """Read ``1e-5`` or ``lime=1e-6``."""
    name, _, share = text.rpartition("=")
    return name, float(share)


def how_closely(close):
    asked = ", ".join(f"{name or 'all'} to {share:g}" for name, share in close)
    return f", bit for bit or as closely as asked ({asked})" if asked else " bit for bit"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default=BASE, help="commit to compare with (default: %(default)s)")
    parser.add_argument("--base-tree", type=Path, help="its files in a folder, where there is no history")
    parser.add_argument("--tree", type=Path, default=ROOT, help="folder to compare (default: the working tree)")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--tables", action="store_true", help="also the tables of the kept results")
    parser.add_argument("--device", default="cpu", help="where scores are computed (default: %(default)s)")
    parser.add_argument("--close", type=named_share, action="append", default=[], metavar="[NAME=]SHARE")
    args = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        base = args.base_tree.resolve() if args.base_tree else check_out(args.base, folder / "base")
        trees = {"base": base, "tree": args.tree.resolve()}
        lines, found = compare_scores(trees, folder, args)
        if args.tables:
            more, other = compare_tables(trees, folder)
            lines, found = lines + more, found + other
    lines += [f"{len(found)} differ ({by_kind(found)}):" if found else f"All are equal{how_closely(args.close)}."]
    lines += found[:LISTED] + ([f"… and {len(found) - LISTED} more"] if len(found) > LISTED else [])
    sys.stdout.write("\n".join([*lines, f"{time.perf_counter() - began:.0f} s"]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
