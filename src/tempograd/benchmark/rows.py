"""The explainers and metrics of a plan file: from entries to rows and measures, with every value checked."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from tempograd.benchmark.cell import Measure, Pairs
from tempograd.benchmark.entry import Entry
from tempograd.benchmark.labels import METHOD_LABELS
from tempograd.benchmark.plan import PROTOCOLS, Row
from tempograd.benchmark.settings import configured, settable
from tempograd.errors import TempogradError, UnknownNameError
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS
from tempograd.metrics.base import RANKS
from tempograd.metrics.localisation import Localisation

SUBSTITUTES = ("zero", "average")
WITH_TRUTH = ("state", "switch_feature")
"""Data sets that know which cells decided a label."""
PACKAGES = {"deep_lift": "captum"}
"""Methods that run on more than the core, the extra being called like the package."""


def read_rows(entry: Entry, datasets: Sequence[str], protocol: str, *, to_run: bool) -> tuple[Row, ...]:
    """Read ``explainers``; ``random``, the floor, is always among them."""
    rows: list[Row] = []
    for item in entry.items():
        row = _row(item, datasets, protocol, to_run=to_run)
        for other in rows:
            if row.label == other.label:
                raise item.wrong(f"Two rows are called {row.label!r}: give one of them another label.")
            if replace(row, label=other.label) == other:
                raise item.wrong(f"{row.label!r} is the same as {other.label!r}: take one of them out.")
        rows.append(row)
    if all(row.method != "random" for row in rows):
        rows.append(Row("random", METHOD_LABELS["random"]))
    return tuple(rows)


def _row(entry: Entry, datasets: Sequence[str], protocol: str, *, to_run: bool) -> Row:
    keys = entry.spelt_out("method").table(
        "key of an explainer", ("method", "label", "settings", "rank"), ("method",)
    )
    method = keys["method"].choice("explainer", EXPLAINERS)
    if to_run and method in PACKAGES and find_spec(PACKAGES[method]) is None:
        raise entry.wrong(
            f"{method} needs {PACKAGES[method]}: pip install 'tempograd[{PACKAGES[method]}]', or take it out."
        )
    label = keys["label"].text() if "label" in keys else METHOD_LABELS.get(method, method)
    rank = keys["rank"].choice("rank", RANKS) if "rank" in keys else "absolute"
    settings: Pairs = ()
    inner: dict[str, Entry] = {}
    if "settings" in keys:
        types = settable(method)
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
    if entry.keys[-1] != "quirks":
        return entry.typed(annotation)
    known = EXPLAINERS[method].known_quirks
    if entry.value == []:
        return ()  # the published settings without their faults
    return tuple(sorted({item.choice(f"quirk of {method}", known) for item in entry.items()}))


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
        "key of a metric", ("metric", "k", "substitute", "name", "protocol"), ("metric",)
    )
    metric = keys["metric"].choice("metric", METRICS)
    only = keys["protocol"].choice("protocol", PROTOCOLS) if "protocol" in keys else None
    if issubclass(METRICS[metric], Localisation):
        measure = _localisation(metric, keys, datasets)
    else:
        measure = _removal(metric, keys, entry)
    return replace(measure, name=keys["name"].text()) if "name" in keys else measure, only


def _localisation(metric: str, keys: dict[str, Entry], datasets: Sequence[str]) -> Measure:
    for key in ("k", "substitute"):
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
        METRICS[metric](k=k)  # type: ignore[call-arg]  # every metric that removes cells has k
    except TempogradError as error:
        raise amount.wrong(error) from error
    substitute = keys["substitute"].choice("substitute", SUBSTITUTES) if "substitute" in keys else "zero"
    share = f"{k}" if isinstance(k, int) else f"{100 * k:g}%"
    return Measure(f"{metric}{share}_{substitute}", metric, k, substitute)
