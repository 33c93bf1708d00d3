"""Which models a page can run, and what it says of the others. Numbers are compared in a browser."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import tempograd as tg
from tempograd.views import network
from tests.helpers.models import Flat, random_series
from tests.helpers.report_page import Page


class Doing(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what, self.layer = what, nn.Linear(1300, 1000)

    def forward(self, x):
        return self.what(self.layer, x)


def plan_of(model, x, **options):
    explanation = tg.explain(model, x, "occlusion", target=0, **options)
    return network.network_plan(model, explanation, lambda array: array)


def test_a_page_holds_the_network(tmp_path):
    model = Flat().eval()
    x = random_series(2)
    tg.report(tmp_path / "page.html", model, [tg.explain(model, x, "occlusion")])
    found = Page(tmp_path / "page.html").content["network"]
    assert {step[0] for step in found["steps"]} >= {"addmm"}
    assert set(torch.cat([each.flatten() for each in model.state_dict().values()]).tolist()) <= set(
        found["weights"].tolist()
    )
    assert found["x"] is None  # the page shows what the model reads
    tg.report(tmp_path / "page.html", model, [tg.explain(model, x, "occlusion")], live=False)
    assert Page(tmp_path / "page.html").content["network"] is None


def test_values_as_the_model_reads_them_are_kept_where_people_see_others():
    x = random_series(2)
    series = tg.Series(x, raw=10 * x + 3)
    assert plan_of(Flat().eval(), series)["x"] == pytest.approx(x.numpy())


@pytest.mark.filterwarnings("ignore:The model is stochastic")
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda _, x: x.sort(1)[0][:, 0], "it uses sort"),
        (lambda _, x: x.sum(1) if x.sum() > 0 else x.mean(1), "it uses _local_scalar_dense"),
        (lambda _, x: x.gather(1, (x > 0).long()).sum(1), "it looks values up by others"),
        (
            lambda own, x: functional.pad(x, (0, 1297)).sum(1) @ own.weight.t(),
            "it has more than 1,200,000 weights",
        ),
        (lambda _, x: torch.stack([x.sum((1, 2)) + k for k in range(20_001)], 1), "it takes too many steps"),
        (lambda _, x: x.sum(1) + torch.randn(3), "it reads more than one series, or draws random numbers"),
    ],
)
def test_what_a_page_cannot_run_is_told(what, reason):
    assert plan_of(Doing(what), random_series(2)) == {"reason": reason}
