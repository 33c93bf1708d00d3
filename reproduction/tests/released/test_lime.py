"""LIME as released, against captum on every prefix."""

from dataclasses import replace

import pytest
import torch

import tempograd as tg
from tempograd_paper.released.lime import ReleasedLime
from tests.helpers.literal_methods import captum_lime, seen_by
from tests.helpers.models import Recurrent, first_seed, series


@pytest.mark.parametrize(("per_step", "dataset"), [(False, "mimic3"), (True, "state")])
def test_released_settings_keep_the_last_step_of_every_prefix(per_step, dataset):
    """captum on every prefix, target the class predicted there, the scores of its last step."""
    model = Recurrent(classes=3, per_step=per_step).eval()
    with torch.no_grad():
        model.head.weight *= 30
        answers = model(3 * series(50, 5, 3, seed=99)).flatten(0, -2)
        model.head.bias -= answers.mean(0)  # so that no class wins everywhere

    def predicted(seed):
        parts = [3 * series(2, 5, 3, seed=seed)[:, :end] for end in range(1, 6)]
        return {int(k) for z in parts for k in (model(z)[:, -1] if per_step else model(z)).argmax(-1)}

    x = 3 * series(2, 5, 3, seed=first_seed(lambda seed: len(predicted(seed)) > 1))
    preset = ReleasedLime.of(dataset)
    assert (preset.n_samples, preset.alpha, preset.relative, preset.width) == (25, 0.01, False, 1.0)
    assert preset.quirks == ({"A6", "B7"} if per_step else {"B8"})
    found = preset(model, x).values
    targets = set()
    for i in range(2):
        one, task = tg.Series(x[i : i + 1], ids=[i]), model.tempograd_task
        _, seen = seen_by(replace(preset, quirks=frozenset()), model, one, task)
        masks = seen[1:] == x[i]
        assert len(masks) == 25
        for end in range(1, 6):

            def forward(z):
                answer = model(z)[:, -1] if per_step else model(z)
                return answer if per_step else answer.softmax(-1)

            part = x[i : i + 1, :end]
            targets.add(int(forward(part).argmax()))
            expected = captum_lime(forward, part, int(forward(part).argmax()), masks[:, :end], 0.01)
            torch.testing.assert_close(found[i, end - 1], expected[0, -1], rtol=5e-2, atol=2e-3)
    assert len(targets) > 1
    assert (found != 0).any()


def test_prefixes_take_the_requested_target_and_functions():
    model, x = Recurrent(classes=2).double().eval(), series(2, 4, 3, dtype=torch.float64)
    preset = replace(ReleasedLime.of("wafer"), alpha=1e-4)
    asked = preset(model, x, target=1).values
    torch.testing.assert_close(preset(model, x, target=0).values, -asked, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(preset(model, x, target=lambda output: output[:, 1]).values, asked)
