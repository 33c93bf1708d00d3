"""Contract: what must hold for every registered explainer, present and future.

The rules are those of ``tempograd.testing``, which other packages try too; what follows them asks for more than
the contract: many series at once, known answers, arrays on disk.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import ModelError
from tempograd.explainers import EXPLAINERS, Explainer, GradientShap, IntegratedGradients, Random
from tempograd.explainers.timex import MaskNetwork
from tempograd.testing import EXPLAINER_RULES, check_explainer
from tests.helpers.methods import UNDECIDED, quick, run, thorough
from tests.helpers.models import linear, series, smooth

SECONDS = {name: [pytest.mark.slow] * (name in {"fit", "timex", "timexpp"}) for name in sorted(EXPLAINERS)}
where_time_is = pytest.mark.parametrize(
    "explainer", [pytest.param(name, marks=marks) for name, marks in SECONDS.items()], indirect=True
)  # weekly for those that learn for seconds, whom the contract asks for as much
PATHS = ("timing", "rand_ig", "integrated_gradients", "gradient_shap", "occlusion")  # exact for sums of cells


@pytest.fixture(params=sorted(EXPLAINERS))
def explainer(request) -> Explainer:
    return quick(request.param)


@pytest.mark.parametrize("rule", EXPLAINER_RULES)
def test_the_contract(explainer, rule):
    check_explainer(explainer, rules=[rule])


@where_time_is
def test_many_series_are_explained_as_one_by_one(explainer):
    """Enough cells for the path that looks ahead and draws block by block."""
    model, x = smooth(30, 4), series(120, 30, 4, dtype=torch.float64)
    many = run(explainer, model, x).values
    for i in () if explainer.shared else (0, 59, 119):
        alone = run(explainer, model, tg.Series(x[i : i + 1], ids=[i])).values
        torch.testing.assert_close(alone, many[i : i + 1], rtol=2e-4, atol=2e-7)


@where_time_is
def test_a_channel_the_model_ignores_scores_less(explainer):
    """Where it need not score exactly 0, which the contract asks for.

    FIT promises that of a channel that is read alone, exactly and for every generator (``test_fit.py``), and of
    several nothing: an ignored one may tell more of the prediction than each of them.
    """
    read = 1 if explainer.name == "fit" else 2
    inner = smooth(9, read)
    model, x = lambda x: 5 * inner(x[..., :read]), series(8, 9, 3, dtype=torch.float64)
    found = run(thorough(explainer), model, x, train=64).values
    if not explainer.zero_if_ignored and not isinstance(explainer, Random) and explainer.name not in UNDECIDED:
        size = found.abs() if explainer.signed else found
        assert size[..., read:].mean() < size[..., :read].mean()
        assert explainer.name != "fit" or (size[..., :1] >= size[..., 1:] - 1e-6).all()


@where_time_is
def test_beats_random_scores_on_a_model_whose_answer_is_known(explainer):
    """A linear model on which ten cells of each series matter 70 times as much as the others, or more.

    A network that scores all series cannot learn within seconds where ten scattered cells are: it is asked for a
    channel.
    """
    model, cell = linear(12, 5), torch.arange(60)
    important = cell % 5 == 2 if isinstance(explainer, MaskNetwork) else cell % 6 == 0
    with torch.no_grad():
        weight = model[1].weight
        weight.copy_(torch.where(important, weight + 0.1 * weight.sign(), 0.01 * weight))
    found = run(thorough(explainer), model, series(40, 12, 5) + 3, train=64, output="raw").importance
    first = 5 if explainer.needs_prefixes else 0  # cells of a step that nothing comes before
    found, important = found.flatten(1)[:, first:], important[first:]
    hits = important[found.topk(int(important.sum())).indices].float().mean()
    if isinstance(explainer, Random):
        assert 0.05 < hits < 0.3
    elif explainer.name not in UNDECIDED:
        assert hits > (0.95 if explainer.zero_if_ignored else 0.25)  # of random scores 0.17, give or take 0.02


def test_memory_mapped_series_are_read_in_place(explainer, tmp_path):
    np.save(tmp_path / "x.npy", series(6, 9, 3).numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = run(explainer, smooth(9, 3), mapped)
    torch.testing.assert_close(found.values, run(explainer, smooth(9, 3), series(6, 9, 3)).values)
    assert found.x.data_ptr() == mapped.ctypes.data


def test_double_precision_is_kept_until_the_end(explainer):
    """A model whose slope is lost in single precision, where numbers of this size are 8 apart."""

    class Fine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phase = nn.Parameter(torch.tensor(1e8, dtype=torch.float64))

        def forward(self, x):
            return (x + self.phase).sin().flatten(1).sum(1)

    found = run(explainer, Fine(), torch.full((1, 2, 2), 0.25), output="raw").values
    if explainer.name in PATHS:
        expected = math.sin(1e8 + 0.25) - math.sin(1e8)
        torch.testing.assert_close(found, torch.full((1, 2, 2), expected), rtol=0.15, atol=0)  # random positions


def test_no_gradient_is_an_error_and_no_gradient_needed_gives_zero(explainer):
    """The output depends on weights only, so there is a graph, but none that leads to the input."""
    weight = torch.ones(3, requires_grad=True)
    model = lambda z: weight.expand(len(z), 3) * 1.0  # noqa: E731
    if explainer.needs_gradient:
        with pytest.raises(ModelError, match="in a way autograd can see"):
            run(explainer, model, series(4, 6, 2))
    else:
        found = run(explainer, model, series(4, 6, 2))
        assert not explainer.zero_if_ignored or (found.values == 0).all()


def test_the_same_holds_for_own_steps(explainer):
    weight = torch.ones(3, requires_grad=True)
    if not explainer.targeted:  # these say that they explain all steps together
        return
    model = lambda z: weight.expand(len(z), z.shape[1], 3) * 1.0  # noqa: E731
    if explainer.needs_gradient:
        with pytest.raises(ModelError, match="in a way autograd can see"):
            run(explainer, model, series(4, 6, 2), steps="own")
    else:
        found = run(explainer, model, series(4, 6, 2), steps="own").values
        assert isinstance(explainer, Random) or (found == 0).all()


def test_what_the_scores_mean_travels_with_them():
    model, x = smooth(6, 2), series(3, 6, 2)
    assert not Random()(model, x).signed
    assert IntegratedGradients()(model, x).signed
    assert "pool" not in GradientShap().fit(model, x)(model, x).parameters
