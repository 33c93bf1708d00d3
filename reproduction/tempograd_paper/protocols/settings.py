"""A method as a protocol runs it: the published or the plain one, with some settings replaced."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Literal

from tempograd.explainers import EXPLAINERS, Explainer
from tempograd_paper.released import kind_of, released

STAND_INS = {"physionet2012": "mimic3"}  # data that the paper does not have, and whose settings it gets
UNPUBLISHED = frozenset({"random"})  # rows that the paper does not have, with nothing to set


def published_name(dataset: str) -> str:
    """Return the data set whose published settings are used for ``dataset``."""
    return STAND_INS.get(dataset, dataset)


SAMPLES: dict[str, dict[str, Any]] = {"timing": {"n_samples": 50}}  # as in the paper; by default series get more
GRID = "grid"
"""What a row of the tuned protocol may set beside hyper-parameters: the part of a method's grid that is tried."""
SEGMENTS = ((GRID, "segments"),)
"""TIMING that holds segments of two steps or more: neither RandIG nor integrated gradients."""


def settable(method: str, protocol: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method and their types, and what else a row of it may set."""
    found = {field.name: field.type for field in fields(kind_of(method)) if not field.metadata.get("fitted")}
    return found | ({GRID: Literal["segments"]} if (method, protocol) == ("timing", "tuned") else {})


def with_settings(explainer: Explainer, settings: Iterable[tuple[str, Any]]) -> Explainer:
    """Replace some hyper-parameters by the values of a plan, where a set is a list."""
    return replace(
        explainer, **{name: frozenset(value) if name == "quirks" else value for name, value in settings}
    )


def configured(method: str, dataset: str, protocol: str, settings: Iterable[tuple[str, Any]] = ()) -> Explainer:
    """Return the explainer that a row of a plan describes, not fitted yet.

    Parameters
    ----------
    method, dataset, protocol : str
        ``"published"`` starts from :func:`tempograd_paper.released`, the others from the method's defaults.
    settings : pairs
        Hyper-parameters that replace those.

    Examples
    --------
    >>> configured("timing", "physionet2012", "published", [("segments", 10)]).parameters["segments"]
    10
    >>> configured("timing", "wafer", "fair").segments is None
    True
    """
    settings = tuple((name, value) for name, value in settings if name != GRID)
    if protocol == "published" and method not in UNPUBLISHED:
        return with_settings(released(method, published_name(dataset)), settings)
    known = {field.name for field in fields(EXPLAINERS[method])} - {"quirks"}
    kind = EXPLAINERS[method] if all(name in known for name, _ in settings) else kind_of(method)
    return with_settings(kind(**SAMPLES.get(method, {})), settings)
