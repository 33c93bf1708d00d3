"""The numbers of the paper's tables, by our names."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

COLUMNS = {
    "cpd": "CPD",
    "accuracy": "Acc",
    "cross_entropy": "CE",
    "sufficiency": "Suff_x1e2",
    "comprehensiveness": "Comp_x1e2",
    "aup": "AUP",
    "aur": "AUR",
}
SCALES = {"sufficiency": 100.0, "comprehensiveness": 100.0}
"""The paper prints these metrics times a hundred."""

SUBSTITUTIONS: dict[str, tuple[str, ...]] = {
    "zero": ("Zero", "unstated", "n/a"),
    "average": ("Avg",),
    "background": (),
}
"""Table 4 does not say what took the place of removed cells: its CPD stands beside zero. It has no background."""

SIZES = ("n_samples", "length", "dim", "classes")


class Published(NamedTuple):
    """A mean of the paper and its standard error over five folds."""

    mean: float
    standard_error: float


def published(
    table: str,
    dataset: str,
    model: str,
    method: str,
    substitution: str,
    metric: str,
    k: int | float | None,
) -> Published | None:
    """Return what a table of the paper says, or None where it says nothing.

    Parameters
    ----------
    table : str
        Its number, in the order of the paper.
    dataset, model, method : str
        As the paper writes them, see :mod:`tempograd_paper.labels`.
    substitution : {"zero", "average", "background"}
    metric : str
        A key of ``METRICS``; sufficiency and comprehensiveness come times a hundred.
    k : int, float or None
        A count, a share, or None for metrics of localisation.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035

    Examples
    --------
    >>> published("2", "MIMIC-III", "GRU", "TIMING", "zero", "cpd", 50)
    Published(mean=0.366, standard_error=0.021)
    """
    column, amount = COLUMNS.get(metric, ""), amount_label(k)
    for name in SUBSTITUTIONS[substitution]:
        found = _numbers().get((table, dataset, model, method, name, column, amount))
        if found is not None:
            return found
    return None


def published_size(dataset: str) -> tuple[int, ...] | None:
    """Return series, length, channels and classes of a data set as Table 7 has them, or None.

    Examples
    --------
    >>> published_size("Wafer")
    (7164, 152, 1, 2)
    """
    found = [_numbers().get(("7", dataset, "", "", "", name, "")) for name in SIZES]
    return tuple(int(number.mean) for number in found if number is not None) or None


def has_data(table: str, dataset: str) -> bool:
    """Tell whether a table of the paper has numbers of a data set.

    Examples
    --------
    >>> has_data("3", "Wafer"), has_data("3", "PhysioNet 2012")
    (True, False)
    """
    return any(key[:2] == (table, dataset) for key in _numbers())


def substitution_is_stated(table: str) -> bool:
    """Tell whether a table says what takes the place of removed cells."""
    return not any(key[0] == table and key[4] == "unstated" for key in _numbers())


def amount_label(k: int | float | None) -> str:
    """Write a count or a share as the paper does.

    Examples
    --------
    >>> amount_label(50), amount_label(0.2), amount_label(None)
    ('50', '20%', '')
    """
    if k is None:
        return ""
    return str(k) if isinstance(k, int) else f"{100 * k:g}%"


@cache
def _numbers() -> dict[tuple[str, ...], Published]:
    text = files("tempograd_paper.tables").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        tuple(row[name] for name in ("table", "dataset", "model", "method", "substitution", "metric", "k")): (
            Published(float(row["mean"]), float(row["standard_error"] or "inf"))
        )
        for row in csv.DictReader(text.splitlines())
    }
