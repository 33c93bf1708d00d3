"""Plans as TOML files: read, inherited and checked to the last value before anything runs."""

import inspect
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch

from tempograd.core.errors import DataError, TempogradError, UnknownNameError, listed
from tempograd.data import DATASETS
from tempograd.data.datasets import FOLDS
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS
from tempograd.metrics.base import RANKS
from tempograd.metrics.localisation import Localisation
from tempograd.models import MODELS
from tempograd.models.training import DEFAULT
from tempograd_paper.cell import Measure, Pairs, RemovalBaseline
from tempograd_paper.labels import DATASET_LABELS, METHOD_LABELS, method_label
from tempograd_paper.protocols.settings import GRID, configured, settable
from tempograd_paper.released import faults
from tempograd_paper.released.training import RECIPE
from tempograd_paper.runner.entry import Entry, read_document
from tempograd_paper.runner.plan import PROTOCOLS, Plan, Row

# The explainers and metrics of a plan file: from entries to rows and measures, with every value checked.

BASELINES: tuple[RemovalBaseline, ...] = ("zero", "average", "background")
WITH_TRUTH = ("state", "switch_feature")
"""Data sets that know which cells decided a label."""
PACKAGES = {"deep_lift": "captum"}
"""Methods that run on more than the core, the extra being called like the package."""
ToRun = bool | Collection[str]
ROW_KEYS = ("method", "label", "settings", "rank", "protocol")


def read_explainers(entry: Entry, datasets: Sequence[str], protocol: str, *, to_run: ToRun) -> tuple[Row, ...]:
    """Read ``explainers``: those of the protocol; ``random``, the floor, is always among them."""
    rows: list[Row] = []
    for item in entry.items():
        keys = item.spelt_out("method").table("key of an explainer", ROW_KEYS, ("method",))
        only = keys["protocol"].choice("protocol", PROTOCOLS) if "protocol" in keys else protocol
        row = _row(item, keys, datasets, only, to_run=to_run)
        if only != protocol:
            continue
        for other in rows:
            if row.label == other.label:
                raise item.wrong(f"Two rows are called {row.label!r}: give one of them another label.")
            if replace(row, label=other.label) == other:
                raise item.wrong(f"{row.label!r} is the same as {other.label!r}: take one of them out.")
        rows.append(row)
    if all(row.method != "random" for row in rows):
        rows.append(Row("random", METHOD_LABELS["random"]))
    return tuple(rows)


def _row(entry: Entry, keys: dict[str, Entry], datasets: Sequence[str], protocol: str, *, to_run: ToRun) -> Row:
    method = keys["method"].choice("explainer", EXPLAINERS)
    runs = to_run if isinstance(to_run, bool) else method in to_run
    if runs and method in PACKAGES and find_spec(PACKAGES[method]) is None:
        raise entry.wrong(
            f"{method} needs {PACKAGES[method]}: pip install 'tempograd[{PACKAGES[method]}]', or take it out."
        )
    label = keys["label"].text() if "label" in keys else method_label(method, protocol)
    rank = keys["rank"].choice("rank", RANKS) if "rank" in keys else "absolute"
    settings: Pairs = ()
    inner: dict[str, Entry] = {}
    if "settings" in keys:
        types = settable(method, protocol)
        inner = keys["settings"].table(f"setting of {method}", types)
        settings = tuple((name, _setting(inner[name], method, types[name])) for name in sorted(inner))
    for dataset in datasets:
        try:
            configured(method, dataset, protocol)
        except UnknownNameError:
            raise keys["method"].wrong(
                f"The paper has no setting of {method} for {dataset}: take it out, or run the fair protocol."
            ) from None
        try:
            configured(method, dataset, protocol, settings)
        except (TempogradError, TypeError, ValueError) as error:
            raise keys["settings"].blamed(inner, error) from error
    return Row(method, label, settings, rank)


def _setting(entry: Entry, method: str, annotation: Any) -> Any:
    if entry.keys[-1] == GRID:
        return entry.choice(f"part of the grid of {method}", get_args(annotation))
    if entry.keys[-1] != "quirks":
        return entry.typed(annotation)
    if entry.value == []:
        return ()  # the published settings without their faults
    return tuple(sorted({item.choice(f"quirk of {method}", faults(method)) for item in entry.items()}))


def read_measures(entry: Entry, datasets: Sequence[str], protocol: str) -> tuple[Measure, ...]:
    """Read ``metrics``: those of the protocol, but the others are checked as well."""
    measures: dict[str, Measure] = {}
    for item in entry.items():
        measure, only = _measure(item, datasets)
        if only not in {None, protocol}:
            continue
        if measure.name in measures:
            raise item.wrong(f"Two metrics are called {measure.name!r}: give one of them another name.")
        measures[measure.name] = measure
    if not measures:
        raise entry.wrong(f"None of the metrics is for the protocol {protocol!r}.")
    return tuple(measures.values())


def _measure(entry: Entry, datasets: Sequence[str]) -> tuple[Measure, str | None]:
    keys = entry.spelt_out("metric").table(
        "key of a metric", ("metric", "k", "baseline", "name", "protocol"), ("metric",)
    )
    metric = keys["metric"].choice("metric", METRICS)
    only = keys["protocol"].choice("protocol", PROTOCOLS) if "protocol" in keys else None
    if issubclass(METRICS[metric], Localisation):
        measure = _localisation(metric, keys, datasets)
    else:
        measure = _removal(metric, keys, entry)
    if measure.baseline == "background":
        if only not in {None, "tuned"}:
            raise keys["protocol"].wrong(
                "Only the protocol 'tuned' compares with other series: leave protocol out, or change baseline."
            )
        only = "tuned"
    return replace(measure, name=keys["name"].text()) if "name" in keys else measure, only


def _localisation(metric: str, keys: dict[str, Entry], datasets: Sequence[str]) -> Measure:
    for key in ("k", "baseline"):
        if key in keys:
            raise keys[key].wrong(f"{metric} removes no cells: take {key} out.")
    for dataset in datasets:
        if dataset not in WITH_TRUTH:
            raise keys["metric"].wrong(
                f"{metric} needs to know which cells decided the label, and nobody knows that for {dataset}: "
                f"take it out, or keep to {' and '.join(WITH_TRUTH)}."
            )
    return Measure(metric, metric)


def _removal(metric: str, keys: dict[str, Entry], entry: Entry) -> Measure:
    if "k" not in keys:
        raise entry.wrong(f"{metric} needs k, how many cells go: a count, or a share such as 0.1.")
    amount = keys["k"]
    k: int | float = amount.whole() if type(amount.value) is int else amount.value
    if not isinstance(k, int):
        k = amount.number()
    try:
        METRICS[metric](k=k)  # every metric that removes cells has k
    except TempogradError as error:
        raise amount.wrong(error) from error
    baseline = keys["baseline"].choice("baseline", BASELINES) if "baseline" in keys else "zero"
    share = f"{k}" if isinstance(k, int) else f"{100 * k:g}%"
    return Measure(f"{metric}{share}_{baseline}", metric, k, baseline)


PLANS = Path(str(files("tempograd_paper") / "plans"))
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


def load_plan(source: str | Path, *, protocol: str | None = None, to_run: ToRun = True) -> Plan:
    """Read a plan and check all of it.

    Parameters
    ----------
    source : str or path
        The name of a packaged plan, for instance ``"table3"``, or a file that ends in ``.toml``.
    protocol : {"published", "fair", "tuned"}, optional
        In place of the file's.
    to_run : bool or collection of str, default=True
        Whether the packages that its methods need must be installed, or the methods of which they must.

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
        raise DataError(UnknownNameError("plan, or file that ends in .toml,", source, packaged_plans()))
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


def _with_cells(plan: Plan, keys: dict[str, Entry], top: Entry, *, to_run: ToRun) -> Plan:
    for key in NEEDED:
        if key not in keys:
            raise top.wrong(f"{key} is missing: write it here.")
    models = _distinct([(item, item.choice("model", MODELS)) for item in keys["models"].items()])
    return replace(
        plan,
        models=models,
        folds=_distinct([(item, item.whole(0, FOLDS - 1)) for item in keys["folds"].items()]),
        rows=read_explainers(keys["explainers"], plan.datasets, plan.protocol, to_run=to_run),
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
    return limits.get(protocol, limits.get("fair") if protocol == "tuned" else None)


def _training(entry: Entry, protocol: str) -> Pairs:
    recipe = RECIPE if protocol == "published" else DEFAULT
    types = {field.name: field.type for field in fields(recipe)}
    inner = entry.table("training setting", types)
    settings = {name: inner[name].typed(types[name]) for name in sorted(inner)}
    try:
        replace(recipe, **settings)
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
