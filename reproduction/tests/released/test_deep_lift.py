"""DeepLIFT as released, against captum by hand."""

import pytest
import torch

from tempograd.models import MODELS
from tempograd_paper.released.deep_lift import ReleasedDeepLift
from tests.helpers.literal_methods import captum_deep_lift
from tests.helpers.models import Recurrent, series


@pytest.mark.parametrize("architecture", ["gru", "cnn", "transformer"])
def test_captum_gives_the_released_probabilities(architecture):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[architecture](3, 4).double().eval()
    x, target = series(5, 16, 3, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2])
    baseline = x.mean(1, keepdim=True).expand_as(x).contiguous()
    pick = target.repeat(2)[:, None]
    found = ReleasedDeepLift.of("mimic3")(model, x, target=target, baseline=baseline).values
    expected = captum_deep_lift(model, x, baseline, lambda answer: answer.softmax(-1).gather(1, pick)[:, 0])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-9)


def test_whoever_asks_for_the_faults_is_not_warned():
    model, x = Recurrent().double().eval(), 2 * series(5, 9, 3, dtype=torch.float64)
    ReleasedDeepLift.of("wafer")(model, x)  # where DeepLift warns of what the gates leave over


def test_released_synthetic_setting_keeps_own_steps_of_the_logit():
    model, x = Recurrent(classes=2, per_step=True).double().eval(), series(3, 5, 3, dtype=torch.float64)
    found = ReleasedDeepLift.of("state")(model, x).values
    target = model(x).argmax(-1)
    for t in range(5):
        pick = target[:, t].repeat(2)[:, None]
        expected = captum_deep_lift(
            model, x, 0 * x, lambda answer, t=t, pick=pick: answer[:, t].gather(1, pick)[:, 0]
        )
        torch.testing.assert_close(found[:, t], expected[:, t], rtol=1e-5, atol=1e-9)
    assert ReleasedDeepLift.of("state").quirks == {"A6", "B7"}
    assert ReleasedDeepLift.of("pam").quirks == {"B4"}
