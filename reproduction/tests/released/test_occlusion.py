"""Both occlusions as released, against literal loops over cells and prefixes."""

import pytest
import torch

import tempograd as tg
import tempograd.explainers.occlusion as single_cells
from tempograd.core.errors import UnknownNameError
from tempograd.engine import Prefixes
from tempograd.explainers import Occlusion
from tempograd_paper.released.augmented_occlusion import ReleasedAugmentedOcclusion
from tempograd_paper.released.occlusion import ReleasedOcclusion
from tests.helpers.literal_methods import with_value
from tests.helpers.models import any_length, series, smooth

B8 = frozenset({"B8"})
TIME, CHANNELS = 6, 3
X = series(5, TIME, CHANNELS, dtype=torch.float64)
TRAIN = series(9, TIME, CHANNELS, seed=1, dtype=torch.float64) + 1


@pytest.mark.parametrize("kind", ["gru", "two layers"])
@pytest.mark.parametrize("batch_size", [1, 9, None])
def test_remembered_states_make_no_difference_to_prefixes(kind, batch_size, monkeypatch):
    model, mask = any_length(kind, CHANNELS, per_step=False), series(5, TIME, CHANNELS, seed=8) > -1
    kinds = ReleasedOcclusion(quirks=B8), ReleasedAugmentedOcclusion(4, quirks=B8)
    explainers = [explainer.fit(model, TRAIN) for explainer in kinds]
    fast = [
        explainer(model, tg.Series(X, mask=mask), seed=2, batch_size=batch_size).values for explainer in explainers
    ]
    used = []

    class Slow(Prefixes):
        def __init__(self, request, block, size):
            super().__init__(request, block, size, fast=False)
            used.append(self._stepper)

    monkeypatch.setattr(single_cells, "Prefixes", Slow)
    slow = [
        explainer(model, tg.Series(X, mask=mask), seed=2, batch_size=batch_size).values for explainer in explainers
    ]
    assert used
    assert set(used) == {None}
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("kind", "channels"), [("gru", 3), ("two layers", 1), ("numpy", 2), ("cnn", 3)])
def test_b8_judges_a_value_by_the_class_predicted_from_its_prefix(kind, channels):
    model, x, train = any_length(kind, channels, per_step=False), 3 * X[..., :channels], TRAIN[..., :channels]
    found = ReleasedOcclusion(quirks=B8).fit(model, train)(model, x).values.double()
    moved = ReleasedAugmentedOcclusion(2, quirks=B8).fit(model, train[:1])(model, x).values.double()
    targets = []
    for t in range(TIME):
        before = model(x[:, : t + 1]).softmax(-1)
        targets.append(before.argmax(-1, keepdim=True))
        for d in range(channels):
            for new, maps in ((train.mean(0), found), (train[0], moved)):
                after = model(with_value(x, t, d, new[t, d])[:, : t + 1]).softmax(-1)
                fall = (before - after).gather(-1, targets[-1])[:, 0].detach()
                expected = fall if maps is found else fall.abs()
                torch.testing.assert_close(maps[:, t, d], expected, rtol=1e-5, atol=1e-8)
    if kind == "numpy":
        assert any((target != targets[-1]).any() for target in targets)


@pytest.mark.parametrize("batch_size", [None, 1, 30])
def test_released_mimic_gives_a_series_the_map_of_another(batch_size):
    """All N·C maps in a row, one per series and class, of which the first N are taken."""
    model, mask = any_length("gru", CHANNELS, per_step=False), series(5, TIME, CHANNELS, seed=8) > -1
    maps = torch.zeros(5 * 3, TIME, CHANNELS, dtype=torch.float64)
    for i in range(5):
        for t in range(TIME):
            for d in range(CHANNELS):
                part = X[i : i + 1, : t + 1]
                after = model(with_value(part, t, d, TRAIN.mean(0)[t, d])).softmax(-1)
                fall = (model(part).softmax(-1) - after).abs().detach()
                for c in range(3):
                    maps[i * 3 + c, t, d] = fall[0, c]
    preset = ReleasedOcclusion.of("mimic3")
    assert preset.quirks == {"B1", "B8"}
    found = preset.fit(model, TRAIN)(model, X, batch_size=batch_size)
    torch.testing.assert_close(found.values.double(), maps[:5], rtol=1e-5, atol=1e-8)
    assert not found.signed
    some = preset.fit(model, TRAIN)(model, tg.Series(X, mask=mask), batch_size=batch_size).values
    both = mask & mask[torch.arange(5) // 3]
    torch.testing.assert_close(some.double(), maps[:5] * both, rtol=1e-5, atol=1e-8)


def test_b1_alone_is_about_the_final_prediction():
    model, mask = smooth(TIME, CHANNELS), torch.ones_like(X)
    mask[0] = 0  # nothing to run for it, yet it has its three maps
    found = ReleasedOcclusion(quirks=frozenset({"B1"}))(model, tg.Series(X, mask=mask), batch_size=1).values
    for i, (row, target) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]):
        plain = Occlusion()(model, X[row : row + 1], target=target).values[0].double()
        torch.testing.assert_close(found[i].double(), plain * mask[row] * mask[i], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dataset", ["switch_feature", "state"])
def test_released_synthetic_settings_keep_own_steps_of_the_logit(dataset):
    """Every prefix, its own predicted class, its raw output, only its last step: literally."""
    model = any_length("two layers", CHANNELS, per_step=True)
    found = ReleasedOcclusion.of(dataset).fit(model, TRAIN)(model, X).values.double()
    moved = ReleasedAugmentedOcclusion.of(dataset).fit(model, TRAIN[:1])(model, X).values.double()
    for t in range(TIME):
        before = model(X[:, : t + 1])[:, -1]
        target = before.argmax(-1, keepdim=True)
        for d in range(CHANNELS):
            for new, maps in ((TRAIN.mean(0), found), (TRAIN[0], moved)):
                after = model(with_value(X, t, d, new[t, d])[:, : t + 1])[:, -1]
                fall = (before - after).gather(-1, target)[:, 0].detach()
                torch.testing.assert_close(maps[:, t, d], fall.abs(), rtol=1e-5, atol=1e-8)


def test_released_settings_exist_where_the_paper_has_a_run():
    assert ReleasedAugmentedOcclusion.of("pam") == ReleasedAugmentedOcclusion(10, "per_time", "target", quirks=B8)
    assert ReleasedOcclusion.of("state").absolute
    with pytest.raises(UnknownNameError, match="on 'pam', only on mimic3, switch_feature, state"):
        ReleasedOcclusion.of("pam")
    with pytest.raises(UnknownNameError, match="boiler"):
        ReleasedAugmentedOcclusion.of("boilr")
