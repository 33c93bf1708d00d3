"""What commands read, a model in any of its forms, series of a data set or a file, explanations, and may write."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempograd.bulk import open_run
from tempograd.bulk.repeats import has_numbers
from tempograd.core.errors import DataError, InputError, quote, short_path
from tempograd.core.io import Kind, check_output
from tempograd.core.validation import check_int
from tempograd.data import DATASETS, Series, load_dataset, read_series
from tempograd.data.readers import ENDINGS
from tempograd.explanation import Explanation, Explanations
from tempograd.models import find_device, load_model
from tempograd.models.files import exists, is_code
from tempograd.targets import mean
from tempograd.views.labels import as_mapping

COLUMNS = ("format", "id", "time", "label", "variable", "value", "channels", "classes", "align", "missing")
ARRAYS = ("inputs", "fixed")
OUTPUTS = {"out", "archive"}  # arguments that name no input
SOURCE = ("data", "root", "variant", *COLUMNS, *ARRAYS)  # where series are, and how they are read
QUESTION = ("task", "target", "steps", "output", "baseline", "background", "pick", "model_layout", "draws")
USUAL = {"split": "test", "baseline": "zero", "model_layout": "BTD"}  # what need not be said


def repeated(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return options that the next command needs as well, without those that are as usual."""
    return {name: getattr(args, name) for name in names if getattr(args, name) != USUAL.get(name)}


def device(name: str | None) -> str:
    """Return the device that was asked for, or the best there is."""
    best = "cuda" if torch.cuda.is_available() else "cpu"
    return str(find_device(best if name is None else name))


def read_model(args: argparse.Namespace) -> nn.Module:
    """Load the model; code of one's own is looked for in the current folder as well, after all libraries."""
    if is_code(args.model):  # else a file beside the data could pass for a library
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        _refuse_two_of_a_name(args.model)
    return load_model(args.model, device(args.device), weights=args.weights, trust=args.trust)


def _refuse_two_of_a_name(model: str) -> None:
    """Refuse a module of the current folder whose name another one has, a library say: that is found first."""
    name = model.partition(":")[0].partition(".")[0]
    found = None
    with suppress(ImportError, ValueError, AttributeError):  # whoever loads it says more
        found = find_spec(name)
    for path in (Path.cwd() / f"{name}.py", Path.cwd() / name / "__init__.py"):
        if found is not None and exists(path) and Path(found.origin or "").resolve() != path.resolve():
            raise InputError(
                f"{short_path(path)} is not the {quote(name)} that Python finds first "
                f"({short_path(found.origin or 'a folder')}): give your file another name."
            )


# Series from a data set or from a file.


def is_folder(path: Path) -> bool:
    """Tell whether a path is that of a folder; a name that none can have is none."""
    return exists(path) and path.is_dir()


def is_dataset(source: str) -> bool:
    """Tell whether a text is the name of a data set, known or not, and no place of files."""
    return source in DATASETS or not (Path(source).suffix or "/" in source or exists(Path(source)))


def read_data(source: str, args: argparse.Namespace, part: str | None = None, *, labels: bool = True) -> Series:
    """Read a data set by name, or a file by its ending; ``labels=False`` leaves labels and truth alone."""
    path = Path(source)
    if is_dataset(source):
        explained, part = part is None, part or args.split
        fold = 0 if part == "validation" else None
        data = load_dataset(source, root=args.root, variant=args.variant, fold=fold)
        split: Series = getattr(data, part)
        raw = data.raw(split) if explained and data.centre is not None else None  # else nobody is shown it
        return replace(split, raw=raw)
    if not path.name.removesuffix(".gz").lower().endswith(ENDINGS):
        raise DataError(
            f"{short_path(path)} cannot be read: files of series end in {', '.join(ENDINGS)}, and {quote(source)} "
            f"is no data set ({', '.join(sorted(DATASETS))})."
        )
    return read_series(path, **{name: getattr(args, name) for name in (*COLUMNS, *ARRAYS)}, labels=labels)


# Explanations that were written to files.


def load_explanations(
    paths: Sequence[Path], target: Any = None, sample: int | None = None, seed: int = 0
) -> dict[str, Explanation]:
    """Read explanations of the same series, named by their methods, or by their files where methods repeat.

    Of those with several targets, ``target`` is the one that is meant; of runs, ``sample`` series are taken.
    """
    taken = {} if sample is None else sample_runs([path for path in paths if is_folder(path)], sample, seed)
    found = [taken[path] if path in taken else _of_target(Explanations.load(path), target, path) for path in paths]
    methods = [explanation.method for explanation in found]
    stems = [path.stem for path in paths]
    labels = [method if methods.count(method) == 1 else stem for method, stem in zip(methods, stems, strict=True)]
    if len(set(labels)) < len(labels):  # files of one name in several folders, or one file twice
        return as_mapping(found)
    return as_mapping(dict(zip(labels, found, strict=True)))


def sampling(args: argparse.Namespace) -> tuple[int, int]:
    """Return how many series are taken out of runs, and the seed of that draw."""
    if not any(is_folder(path) for path in args.explanations) and (args.sample, args.seed) != (None, None):
        raise InputError("--sample and --seed are for the folder of a run: name one, or leave them out.")
    count = args.most if args.sample is None else check_int(args.sample, "--sample", 1)
    return count, args.seed or 0


def sample_runs(folders: Sequence[Path], count: int, seed: int) -> dict[Path, Explanation]:
    """Take some series out of runs, from all of them the same ones, which all of them could explain."""
    runs = {folder: open_run(folder) for folder in folders}
    common: set[int | str] | None = None
    for run in runs.values():
        drawn = set(run.sample(count, seed))
        common = drawn if common is None else common & drawn
    if common is not None and not common:
        raise InputError("These runs have no series in common: name runs over the same series.")
    return {folder: run.take(sorted(common or ())) for folder, run in runs.items()}


def sample_note(args: argparse.Namespace, explanation: Explanation) -> str:
    """Say how many series of a run were taken; nothing where there is no run."""
    runs = [path for path in args.explanations if is_folder(path)]
    if not runs:
        return ""
    most = max(len(open_run(path)) for path in runs)
    if len(explanation) == most:
        return f"all {most:,} series of {short_path(runs[0])}"
    return f"{len(explanation):,} of {most:,} series of {short_path(runs[0])}, drawn with seed {args.seed or 0}"


def take_series(folder: Path, called: str | None, count: int) -> Explanation:
    """Take the series that people call so out of a run, or a sample of it."""
    run = open_run(folder)
    if called is None:
        return run.take(run.sample(count))
    whole = bool(run.files) and has_numbers(run.files[0])
    if whole and not called.lstrip("-").isdecimal():
        raise InputError(f"{short_path(folder)} has no series {quote(called)}: its series have numbers.")
    return run.take([int(called) if whole else called])


def _of_target(explanations: Explanations, target: Any, path: Path) -> Explanation:
    if target is not None:
        return explanations[mean() if target == "mean" and target not in explanations else target]
    if len(explanations) > 1:
        raise InputError(
            f"{short_path(path)} holds {len(explanations)} targets, {explanations.listed}: pass one as --target."
        )
    return explanations.at(0)


# Where a command writes: known to be possible before the work starts, and never one of its inputs.


def claim(args: argparse.Namespace, kind: Kind) -> None:
    """Make sure that ``--out`` can be written, that it is no input, and nobody else's file without ``--force``."""
    check_output(args.out, kind, inputs=input_files(args), force=args.force)


def input_files(args: argparse.Namespace) -> Iterator[Path]:
    """Yield every file that an argument may mean: what a command reads is among them, whatever it is called."""
    for name, value in vars(args).items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if name not in OUTPUTS and isinstance(part, (str, Path)):
                yield Path(part)
                yield from _code(str(part))
                if Path(part).is_dir():  # of results, whose files a command may read
                    yield from Path(part).iterdir()


def _code(text: str) -> Iterator[Path]:
    """Yield the files that ``module:callable`` may be imported from."""
    module, colon, _ = text.partition(":")
    path = Path(*module.split("."))
    if colon and path.name:  # ".." has none
        yield from (path.with_name(f"{path.name}.py"), path / "__init__.py")
