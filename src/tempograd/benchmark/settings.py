"""A method as a protocol runs it: the published or the plain one, with some settings replaced."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from tempograd.explainers import EXPLAINERS, Explainer

STAND_INS = {"physionet2012": "mimic3"}  # the same task on the same kind of data
UNPUBLISHED = frozenset({"random"})  # rows that the paper does not have, with nothing to set


def published_name(dataset: str) -> str:
    """Return the data set whose published settings are used for ``dataset``."""
    return STAND_INS.get(dataset, dataset)


def settable(method: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method and their types."""
    return {field.name: field.type for field in fields(EXPLAINERS[method]) if not field.metadata.get("fitted")}


def make_explainer(
    method: str, dataset: str, protocol: str, settings: Iterable[tuple[str, Any]] = ()
) -> Explainer:
    """Return the explainer of a cell, not fitted yet.

    Parameters
    ----------
    method, dataset, protocol : str
        ``"published"`` starts from :meth:`Explainer.published`, ``"fair"`` from the method's defaults.
    settings : pairs
        Hyper-parameters that replace those.

    Examples
    --------
    >>> make_explainer("timing", "physionet2012", "published", [("segments", 10)]).parameters["segments"]
    10
    >>> make_explainer("timing", "wafer", "fair").quirks
    frozenset()
    """
    kind = EXPLAINERS[method]
    as_published = protocol == "published" and method not in UNPUBLISHED
    start = kind.published(published_name(dataset)) if as_published else kind()
    changes = {name: frozenset(value) if name == "quirks" else value for name, value in settings}
    return replace(start, **changes)
