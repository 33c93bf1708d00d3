"""Models with one output per time step."""

from dataclasses import replace

import pytest
import torch

from tempograd.core.errors import InputError
from tempograd.explainers import EXPLAINERS, IntegratedGradients, Timing
from tests.helpers.methods import quick, run
from tests.helpers.models import Recurrent, series

GRADIENT = [
    name for name in sorted(EXPLAINERS) if EXPLAINERS[name].needs_gradient and EXPLAINERS[name].zero_if_ignored
]


@pytest.fixture
def model():
    return Recurrent(per_step=True).double().eval()


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("steps", [None, 4, [1, 5]])
def test_the_score_is_the_sum_over_the_chosen_steps(name, steps, model):
    x = series(3, 7, 3, dtype=torch.float64)
    target = model(x).argmax(-1)
    chosen = list(range(7)) if steps is None else [steps] if isinstance(steps, int) else steps

    def score(output):
        points = len(output) // 3
        wanted = target.repeat_interleave(points, 0) if points * 3 == len(output) else target[:1]
        return output.gather(-1, wanted[..., None])[..., 0][:, chosen].sum(1)

    found = run(quick(name), model, x, steps=steps)
    assert torch.equal(found.target, target)
    by_function = run(quick(name), model, x, target=lambda output: score(output.softmax(-1)), output="raw")
    torch.testing.assert_close(found.values, by_function.values, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", GRADIENT)
def test_own_keeps_each_cells_effect_on_its_own_step(name, model):
    """With controls a step alone has its score as one more, which all steps together do not share."""
    x, explainer = series(3, 6, 3, dtype=torch.float64), quick(name)
    explainer = replace(explainer, control_variates=False) if name == "timing" else explainer
    own = run(explainer, model, x, steps="own").values
    for t in range(6):
        torch.testing.assert_close(own[:, t], run(explainer, model, x, steps=t).values[:, t], rtol=1e-4, atol=1e-8)


def test_a_target_may_differ_between_steps(model):
    x = series(2, 6, 3, dtype=torch.float64)
    target = torch.tensor([[0, 1, 2, 0, 1, 2], [2, 2, 2, 1, 1, 1]])
    found = IntegratedGradients()(model, x, target=target).values
    parts = [IntegratedGradients()(model, x, target=target[:, t], steps=t).values for t in range(6)]
    torch.testing.assert_close(found, torch.stack(parts).sum(0), rtol=1e-4, atol=1e-7)


def test_steps_need_one_output_per_step():
    with pytest.raises(InputError, match="one output per time step"):
        Timing()(Recurrent(), series(2, 6, 3), steps=2)
    with pytest.raises(InputError, match="0 … 5"):
        Timing()(Recurrent(per_step=True), series(2, 6, 3), steps=[6])
    with pytest.raises(InputError, match="'own'"):
        Timing()(Recurrent(per_step=True), series(2, 6, 3), steps="all")


def test_steps_may_be_a_mask_per_series():
    """Add to tests/explainers/test_steps.py."""
    model, x = Recurrent(per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    chosen = torch.tensor([[1, 0, 0, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]]).bool()
    found = IntegratedGradients()(model, x, steps=chosen)
    assert torch.equal(found.steps, chosen)
    for i in range(3):
        alone = IntegratedGradients()(model, x[i : i + 1], steps=chosen[i].nonzero()[:, 0]).values
        torch.testing.assert_close(found.values[i : i + 1], alone, rtol=1e-4, atol=1e-8)
    one = IntegratedGradients()(model, x, steps=chosen[0]).values
    torch.testing.assert_close(one, IntegratedGradients()(model, x, steps=[0, 3]).values)
