"""What commands read, in one step: a model, series, explanations, other series; and whether they may write."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tempograd.bulk import open_run
from tempograd.cli.arguments import given, options_of
from tempograd.core.errors import InputError, short_path
from tempograd.core.io import Kind, check_output
from tempograd.core.validation import check_int
from tempograd.data import DATASETS, Series, Source, load_dataset
from tempograd.engine.predictor import Predictor
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation, Explanations
from tempograd.models import find_device, load_model
from tempograd.models.files import exists, is_code
from tempograd.targets import mean
from tempograd.views.labels import as_mapping

OUTPUTS = {"out", "archive"}  # arguments that name no input


def read(args: argparse.Namespace, methods: Sequence[str]) -> tuple[Predictor, Series, dict[str, Any]]:
    """Read the model, the series to explain, and the arguments of tg.explain, other series among them."""
    predictor, series = read_predictor(args), _to_explain(args)
    return predictor, series, asked(args, methods, series.channels)


def asked(
    args: argparse.Namespace, methods: Sequence[str] = (), channels: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the question as arguments of tg.explain, those of the effort and other series among them.

    Other series, to learn from or to compare with, are those given, or those of the data set if needed. Their
    channels come in the order of those that are explained.
    """
    question = given(args, "question") | given(args, "effort")
    if question.get("target") == "mean":
        question["target"] = mean()
    if isinstance(question.get("targets"), list):
        question["targets"] = [mean() if target == "mean" else target for target in question["targets"]]
    source = getattr(args, "background", None)
    needed = any(EXPLAINERS[name].needs_fit for name in methods) or getattr(args, "baseline", None) == "background"
    if source is None and needed and getattr(args, "data", None) in DATASETS:
        source = args.data
    if source is not None:
        chosen = {} if channels is None or is_dataset(source) else {"channels": list(channels)}
        question["background"] = read_data(source, args, "train", labels=False, **chosen)
    return question


def read_predictor(args: argparse.Namespace) -> Predictor:
    """Load the model, with all that was said of it.

    Code of one's own is looked for in the current folder as well, after all libraries.
    """
    if is_code(args.model) and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # at its start a file beside the data could pass for a library
    model = load_model(args.model, device(args.device), weights=args.weights, trust=args.trust)
    return Predictor(model, **(given(args, "predictor") if "task" in args else {}))  # else classes name labels


def device(name: str | None) -> str:
    """Return the device that was asked for, or the best there is."""
    return str(find_device(name or ("cuda" if torch.cuda.is_available() else "cpu")))


# Series from a data set or from a file.


def is_folder(path: str | Path) -> bool:
    """Tell whether a path is that of a folder; a name that none can have is none."""
    return os.path.isdir(path)  # noqa: PTH112  # or that would raise


def is_dataset(source: str) -> bool:
    """Tell whether a text is the name of a data set, known or not, and no place of files."""
    return source in DATASETS or not (Path(source).suffix or "/" in source or exists(Path(source)))


def read_data(source: str, args: argparse.Namespace, part: str | None = None, **options: Any) -> Series:
    """Read a data set by name, or a file by its ending; ``labels=False`` leaves labels and truth alone."""
    if not is_dataset(source):
        return Source(source, **given(args, "source") | options).read()
    split = part or args.split
    data = load_dataset(source, root=args.root, variant=args.variant, fold=0 if split == "validation" else None)
    series: Series = getattr(data, split)
    return series


def _to_explain(args: argparse.Namespace) -> Series:
    """Read the series to explain, as many as are wanted."""
    series = read_data(args.data, args)
    series = series.padded() if args.lengths == "padded" else series
    if args.limit is not None:
        series = series.take(slice(check_int(args.limit, "--limit", 1)))
    return series if args.units is None else replace(series, units=args.units)


# Explanations that were written to files.


def load_explanations(args: argparse.Namespace) -> dict[str, Explanation]:
    """Read explanations of the same series, named by their methods, or by their files where methods repeat.

    Of those with several targets, ``--target`` is the one that is meant; of runs, some series are taken.
    """
    paths: list[Path] = args.explanations
    runs = [path for path in paths if is_folder(path)]
    sample = getattr(args, "sample", None)
    if not runs and sample is not None:
        raise InputError("--sample is for the folder of a run: name one, or leave it out.")
    count = args.most if sample is None else check_int(sample, "--sample", 1)
    taken = _of_runs(runs, count, getattr(args, "series", None))
    found = [taken[path] if path in taken else _of_target(path, args.target) for path in paths]
    by_name = {path.stem: one for path, one in zip(paths, found, strict=True)}
    repeated = len({one.method for one in found}) < len(found) == len(by_name)
    return as_mapping(by_name if repeated else found)


def _of_runs(folders: Sequence[Path], count: int, called: Any) -> dict[Path, Explanation]:
    """Take some series out of runs, from all of them the same ones, or the one that is ``called`` so."""
    runs = {folder: open_run(folder) for folder in folders}
    if isinstance(called, str):
        number = called.removeprefix("-").isdecimal()
        return {
            folder: run.take([int(called) if number and run.ids == "numbers" else called])
            for folder, run in runs.items()
        }
    common = sorted(set.intersection(*(set(run.sample(count)) for run in runs.values()))) if runs else []
    return {folder: run.take(common) for folder, run in runs.items()}


def _of_target(path: Path, target: Any) -> Explanation:
    explanations = Explanations.load(path)
    if target is not None:
        return explanations[target]
    if len(explanations) > 1:
        raise InputError(f"{short_path(path)} has several targets, {explanations.listed}: pass one as --target.")
    return explanations.at(0)


def sample_note(args: argparse.Namespace, explanation: Explanation) -> str:
    """Say how many series of a run were taken; nothing where there is no run."""
    runs = [path for path in args.explanations if is_folder(path)]
    if not runs:
        return ""
    most = max(len(open_run(path)) for path in runs)
    return f"{len(explanation):,} of {most:,} series of {short_path(runs[0])}"


# What comes next, and where a command writes: never over one of its inputs.


def repeated(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return options that the next command needs too: model, series, and those named, unless they are as usual."""
    names = ("model", "weights", "trust", "data", "root", "variant", "split", *options_of("source"), *names)
    values = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in values.items() if value != args.parser.get_default(name)}


def claim(args: argparse.Namespace, kind: Kind) -> None:
    """Make sure that ``--out`` can be written, that it is no input, and nobody else's file without ``--force``."""
    check_output(args.out, kind, inputs=input_files(args), force=args.force)


def input_files(args: argparse.Namespace) -> Iterator[Path]:
    """Yield every file that an argument may mean: what a command reads is among them, whatever it is called."""
    for name, value in vars(args).items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if name not in OUTPUTS and isinstance(part, (str, Path)):
                module = Path(*str(part).partition(":")[0].split("."))  # of module:callable
                yield from (Path(part), Path(f"{module}.py"), module / "__init__.py")
                if Path(part).is_dir():  # of results, whose files a command may read
                    yield from Path(part).iterdir()
