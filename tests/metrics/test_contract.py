"""Contract: what must hold for every registered metric, by the rules that other packages try too."""

import pytest

from tempograd.metrics import METRICS
from tempograd.testing import METRIC_RULES, check_metric

VARIANTS = {name: METRICS[name]() for name in METRICS} | {
    f"pooled {name}": METRICS[name](pooled=True) for name in ("aup", "aur", "auroc", "auprc")
}
VARIANTS["signed cpd"] = METRICS["cpd"](rank="signed", k=3, name="mine")
VARIANTS["signed auroc"] = METRICS["auroc"](rank="signed")


@pytest.mark.parametrize("rule", METRIC_RULES)
@pytest.mark.parametrize("metric", VARIANTS)
def test_the_contract(metric, rule):
    check_metric(VARIANTS[metric], rules=[rule])
