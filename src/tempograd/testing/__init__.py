"""The contract of explainers and metrics as functions, for the tests of this library and of other packages.

A package that brings a method needs one test, with pytest or without::

    from tempograd.testing import check_explainer

    def test_contract():
        check_explainer(MyMethod(epochs=2))

Every rule is tried on small models and series that come with it, the same on every machine, and one that is broken
raises :class:`ContractError`, a sentence that names the rule. What a class says about itself, such as
``deterministic`` or ``zero_if_ignored``, decides what it must fulfil.
"""

from collections.abc import Iterable

from tempograd.explainers import Explainer
from tempograd.metrics import Metric
from tempograd.metrics.base import KINDS
from tempograd.testing.rules import EXPLAINER_RULES, METRIC_RULES, ContractError, try_rules

__all__ = ["EXPLAINER_RULES", "METRIC_RULES", "ContractError", "check_explainer", "check_metric"]


def check_explainer(method: type[Explainer] | Explainer, *, rules: Iterable[str] | None = None) -> None:
    """Try the contract of explainers on a method.

    Parameters
    ----------
    method : class or Explainer
        A class is tried with its default settings; pass an object with few epochs where a method learns for long.
    rules : names, optional
        Some of ``EXPLAINER_RULES``, by default all of them.

    Raises
    ------
    ContractError
        One sentence: which rule is broken, and by how much.

    Examples
    --------
    >>> import tempograd as tg
    >>> check_explainer(tg.Timing(n_samples=8))
    """
    explainer = method() if isinstance(method, type) else method
    if not isinstance(explainer, Explainer):
        raise ContractError(f"An explainer is a class under tempograd.Explainer, got {type(explainer).__name__}.")
    try_rules(explainer, EXPLAINER_RULES, rules)


def check_metric(metric: type[Metric] | Metric, *, rules: Iterable[str] | None = None) -> None:
    """Try the contract of metrics on a metric.

    Parameters
    ----------
    metric : class or Metric
        A class is tried with its default settings.
    rules : names, optional
        Some of ``METRIC_RULES``, by default all of them.

    Raises
    ------
    ContractError
        One sentence: which rule is broken, and by how much.

    Examples
    --------
    >>> import tempograd as tg
    >>> check_metric(tg.METRICS["cpd"])
    """
    found = metric() if isinstance(metric, type) else metric
    if not isinstance(found, Metric):
        raise ContractError(f"A metric is {KINDS}, got {type(found).__name__}.")
    try_rules(found, METRIC_RULES, rules)
