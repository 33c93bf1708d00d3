"""Plans as TOML files: read, inherited and checked to the last value before anything runs."""

import inspect
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import torch

from tempograd.benchmark.cell import Pairs
from tempograd.benchmark.entry import Entry, read_document
from tempograd.benchmark.labels import DATASET_LABELS
from tempograd.benchmark.plan import PROTOCOLS, Plan
from tempograd.benchmark.rows import read_measures, read_rows
from tempograd.data import DATASETS
from tempograd.data.base import FOLDS
from tempograd.errors import LONGEST, DataError, TempogradError, UnknownNameError, listed
from tempograd.models import MODELS
from tempograd.models.training import Recipe, choose_recipe

PLANS = Path(str(files("tempograd.benchmark") / "plans"))
TABLES = (*"12345678", "Fig.efficiency")
"""What the published numbers are filed under."""
NEEDED = ("models", "folds", "explainers", "metrics")
SCORES_ONLY = (*NEEDED, "series", "seed", "training", "sizes")
KEYS = ("title", "table", "kind", "based_on", "stands_for", "protocol", "datasets", *SCORES_ONLY)
KINDS = ("scores", "sizes")
IN_PAPER = [label for name, label in DATASET_LABELS.items() if name != "physionet2012"]
LARGEST_SEED = 2**32 - 1
Value = TypeVar("Value", str, int)


def packaged_plans() -> list[str]:
    """Return the names of the plans that come with the library."""
    return sorted(path.stem for path in PLANS.glob("*.toml"))


def load_plan(source: str | Path, *, protocol: str | None = None, to_run: bool = True) -> Plan:
    """Read a plan and check all of it.

    Parameters
    ----------
    source : str or path
        The name of a packaged plan, for instance ``"table3"``, or a file that ends in ``.toml``.
    protocol : {"published", "fair"}, optional
        In place of the file's.
    to_run : bool, default=True
        Whether the packages that its methods need must be installed.

    Raises
    ------
    DataError
        For every mistake: one sentence that names the file and the line.

    Examples
    --------
    >>> plan = load_plan("smoke")
    >>> plan.datasets, [row.label for row in plan.rows]
    (('state',), ['FO', 'IG', 'TIMING', 'random'])
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)
    path = _path(source)
    top = read_document(path)
    keys = _inherited(top)
    if "datasets" not in keys:
        raise top.wrong("datasets is missing: write it here.")
    written = keys["protocol"].choice("protocol", PROTOCOLS) if "protocol" in keys else PROTOCOLS[0]
    datasets, variants = _datasets(keys["datasets"])
    plan = Plan(
        name=path.stem if path.parent == PLANS else str(path),  # what the command line takes
        title=keys["title"].text() if "title" in keys else path.stem,
        datasets=datasets,
        models=(),
        folds=(),
        rows=(),
        measures=(),
        protocol=protocol or written,
        table=keys["table"].choice("table of the paper", TABLES) if "table" in keys else None,
        stands_for=keys["stands_for"].choice("data set of the paper", IN_PAPER) if "stands_for" in keys else None,
        variants=variants,
        kind=keys["kind"].choice("kind of plan", KINDS) if "kind" in keys else KINDS[0],
    )
    return _with_cells(plan, keys, top, to_run=to_run) if plan.kind == "scores" else _without_cells(plan, keys)


def plan_line(path: str | Path, keypath: Sequence[str | int]) -> int:
    """Return the line of a file in which a key stands, or else the table around it."""
    return Entry(None, Path(path), tuple(keypath), read_document(Path(path)).lines).line


def where(source: str | Path, *keypath: str | int) -> str:
    """Say in which file and line of a plan a key stands, be it in the plan that it is based on.

    Examples
    --------
    >>> where("table3-open", "models").split("plans")[-1][1:]
    'table3.toml, line 5'
    """
    top = read_document(_path(source))
    outer = _inherited(top).get(str(keypath[0]), top)
    return Entry(None, outer.path, keypath, outer.lines).where


def _path(source: str | Path) -> Path:
    if isinstance(source, Path) or source.endswith(".toml"):
        return Path(source)
    if source not in packaged_plans():
        own = " A plan of your own is a file that ends in .toml."
        raise DataError(f"{UnknownNameError('plan', source, packaged_plans(), LONGEST - len(own))}{own}")
    return PLANS / f"{source}.toml"


def _inherited(document: Entry) -> dict[str, Entry]:
    """Return the keys of a plan and those that it does not replace of the plan that it is based on."""
    keys = document.table("key of a plan", KEYS)
    if "based_on" not in keys:
        return keys
    base = keys["based_on"].choice("packaged plan", packaged_plans())
    return _inherited(read_document(PLANS / f"{base}.toml")) | keys


def _without_cells(plan: Plan, keys: dict[str, Entry]) -> Plan:
    for key in SCORES_ONLY:
        if key in keys:
            raise keys[key].wrong(f"A plan of sizes runs nothing: take {key} out.")
    return plan


def _with_cells(plan: Plan, keys: dict[str, Entry], top: Entry, *, to_run: bool) -> Plan:
    for key in NEEDED:
        if key not in keys:
            raise top.wrong(f"{key} is missing: write it here.")
    models = _distinct([(item, item.choice("model", MODELS)) for item in keys["models"].items()])
    return replace(
        plan,
        models=models,
        folds=_distinct([(item, item.whole(0, FOLDS - 1)) for item in keys["folds"].items()]),
        rows=read_rows(keys["explainers"], plan.datasets, plan.protocol, to_run=to_run),
        measures=read_measures(keys["metrics"], plan.datasets, plan.protocol),
        series=_series(keys["series"], plan.protocol) if "series" in keys else None,
        seed=keys["seed"].whole(0, LARGEST_SEED) if "seed" in keys else plan.seed,
        training=_training(keys["training"], plan.protocol) if "training" in keys else (),
        sizes=_sizes(keys["sizes"], models) if "sizes" in keys else (),
    )


def _datasets(entry: Entry) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names, and the variants that are no protocol's choice."""
    names, variants = [], {}
    for item in entry.items():
        keys = item.spelt_out("name").table("key of a dataset", ("name", "variant"), ("name",))
        name = keys["name"].choice("dataset", DATASETS)
        names.append((item, name))
        if "variant" in keys:
            variants[name] = keys["variant"].choice(f"variant of {name}", DATASETS[name].variants)
    return _distinct(names), variants


def _distinct(found: Sequence[tuple[Entry, Value]]) -> tuple[Value, ...]:
    values: list[Value] = []
    for entry, value in found:
        if value in values:
            raise entry.wrong(f"{value} is there twice: take one of them out.")
        values.append(value)
    return tuple(values)


def _series(entry: Entry, protocol: str) -> int | None:
    """Read how many series: a number, or a table with one for a protocol."""
    if not isinstance(entry.value, dict):
        return entry.whole(1)
    limits = {name: limit.whole(1) for name, limit in entry.table("protocol", PROTOCOLS).items()}
    return limits.get(protocol)


def _training(entry: Entry, protocol: str) -> Pairs:
    types = {field.name: field.type for field in fields(Recipe)}
    inner = entry.table("training setting", types)
    settings = {name: inner[name].typed(types[name]) for name in sorted(inner)}
    try:
        choose_recipe("published" if protocol == "published" else "default", False, settings)
    except TempogradError as error:
        raise entry.blamed(inner, error) from error
    return tuple(settings.items())


def _sizes(entry: Entry, models: Sequence[str]) -> Pairs:
    sizes: dict[str, object] = {}
    for model in models:
        known = dict(inspect.signature(MODELS[model]).parameters)
        for name in ("channels", "classes", "per_step"):
            del known[name]
        inner = entry.table(f"size of {model}", known)
        sizes = {name: inner[name].typed(known[name].annotation) for name in sorted(inner)}
        try:
            with torch.device("meta"):  # a module without memory
                MODELS[model](1, 2, per_step=False, **sizes)  # type: ignore[arg-type]  # subclasses'
        except (TempogradError, ValueError) as error:
            raise entry.blamed(inner, error) from error
        except (RuntimeError, OverflowError, TypeError) as error:  # torch's words for sizes that no memory has
            raise entry.wrong(f"No {model} can be that large: {_numbers(sizes)}.") from error
    return tuple(sizes.items())


def _numbers(sizes: dict[str, object]) -> str:
    return listed(f"{name} = {value}" for name, value in sizes.items())
