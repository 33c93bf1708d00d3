"""The faults of the released mask methods, against loops that have them, and the settings of the paper."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from tempograd.core.errors import UnknownNameError
from tempograd.explainers import Dynamask, ExtremalMask
from tempograd_paper.released import dynamask
from tempograd_paper.released.contralsp import ReleasedContraLSP
from tempograd_paper.released.dynamask import ReleasedDynamask, misread
from tempograd_paper.released.extremal_mask import ReleasedExtremalMask
from tempograd_paper.released.masks import hard_label_error
from tests.helpers.literal_methods import literal_contralsp, literal_extremal_mask
from tests.helpers.models import Recurrent, series, smooth

DOUBLE = torch.float64
THREES = [slice(0, 3), slice(3, 6), slice(6, 7)]


def test_masks_are_stored_by_batch_and_read_by_area():
    """4.2: five series in batches of two, two areas. Names are series and area."""
    names = torch.tensor([[10 * n + a for a in range(2)] for n in range(5)])
    stored = [0, 10, 1, 11, 20, 30, 21, 31, 40, 41]  # batch by batch, area by area, series by series
    for area, errors in enumerate(([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0])):
        # an error lies where its mask lies
        placed = torch.zeros(5, 2)
        for name, error in zip(stored, errors, strict=True):
            placed[name // 10, name % 10] = error
        found = misread(names[..., None, None], placed, 2).flatten().tolist()
        assert found == stored[5 * area : 5 * area + 5]


def test_the_released_loop_moves_masks_in_the_steps_of_others(monkeypatch):
    """0.3.5, B5 and 4.2 at once: a dense Adam on all rows, batches of two, no regularisers."""
    monkeypatch.setattr(dynamask, "BATCH", 2)
    model, x, areas = smooth(5, 3), series(5, 5, 3, dtype=DOUBLE), 2
    mask = torch.full((5, areas, 5, 3), 0.5, dtype=DOUBLE, requires_grad=True)
    optimiser = torch.optim.Adam([mask], lr=0.03)
    target = model(x).argmax(-1)

    def wrong(rows):
        kept = (1 - mask)[rows]
        z = kept * x[rows, None] + (1 - kept) * x[rows, None].mean(2, keepdim=True)
        answer = model(z.flatten(0, 1)).softmax(-1)
        return cross_entropy(answer, target[rows].repeat_interleave(areas), reduction="none").view(-1, areas)

    for _ in range(8):
        for rows in (slice(0, 2), slice(2, 4), slice(4, 5)):
            optimiser.zero_grad()
            wrong(rows).mean().backward()
            optimiser.step()
            mask.data.clamp_(0, 1)
    expected = misread(1 - mask.detach(), wrong(slice(0, 5)).detach(), 2)
    quirks = frozenset({"B5", "0.3.5", "0.3.6", "4.2", "4.3"})
    found = ReleasedDynamask((0.2, 0.4), epochs=8, lr=0.03, deletion=True, quirks=quirks)(model, x, batch_size=3)
    torch.testing.assert_close(found.values, expected.float(), rtol=1e-4, atol=1e-6)
    apart = ReleasedDynamask((0.2, 0.4), epochs=8, lr=0.03, deletion=True, quirks=quirks - {"0.3.5"})(model, x)
    assert (apart.values - found.values).abs().max() > 0.01


def test_the_last_step_only():
    """B6, and A6 beside it: the raw output."""
    model, x = Recurrent(per_step=True).double().eval(), series(3, 6, 3, dtype=DOUBLE)
    settings = {"areas": (0.3,), "epochs": 10, "lr": 0.05}
    last = Dynamask(**settings)(model, x, steps=5, output="raw")
    found = ReleasedDynamask(**settings, quirks=frozenset({"A6", "B6"}))(model, x)
    torch.testing.assert_close(found.values, last.values)
    assert torch.equal(found.steps, last.steps)
    assert (Dynamask(**settings)(model, x, output="raw").values != last.values).any()


def test_settings_of_dynamask():
    wafer, state, switch = (ReleasedDynamask.of(name) for name in ("wafer", "state", "switch_feature"))
    assert wafer.areas == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    assert (wafer.perturbation, wafer.epochs, wafer.lr) == ("mean", 500, 1e-3)
    assert (wafer.deletion, wafer.growth, wafer.time_weight) == (True, 1e4, 0)
    assert wafer.quirks == {"B5", "0.3.5", "0.3.6", "4.2", "4.3"}
    assert (state.areas, state.perturbation, state.width, state.epochs) == ((0.25, 0.3), "blur", 1.0, 500)
    assert state.quirks == {"A6", "B5", "B6", "0.3.5", "4.2"}
    assert (len(switch.areas), switch.areas[-1], switch.epochs, switch.time_weight) == (10, 0.34, 1000, 1.0)
    assert switch.quirks == state.quirks - {"B6"}
    with pytest.raises(UnknownNameError, match="Did you mean 'wafer'"):
        ReleasedDynamask.of("waffer")


def test_hard_labels_are_a_cross_entropy_of_probabilities():
    """0.3.6."""
    clean, answer = (series(4, 5, 3, seed=seed, dtype=DOUBLE)[:, 0] for seed in (0, 1))
    found = hard_label_error(clean, "probability", None)(answer[:, None])[:, 0]
    twice = cross_entropy(answer.softmax(-1), clean.argmax(-1), reduction="none")
    torch.testing.assert_close(found, twice)


@pytest.mark.parametrize("batch_size", [2, 100])
def test_a_dense_adam_on_means_learns_extremal_masks(batch_size):
    """0.3.5."""
    model, x = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE)
    settings = ReleasedExtremalMask(0.4, 0.6, epochs=10, lr=0.03, fit_batch_size=3, quirks=frozenset({"0.3.5"}))
    expected = literal_extremal_mask(model, x, settings, THREES, dense=True, mean=True)
    found = settings(model, x, seed=5, batch_size=batch_size).values
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)


def test_drift_is_seen():
    model, x = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE)
    plain = ExtremalMask(epochs=10, lr=0.03, fit_batch_size=3)(model, x).values
    dense = ReleasedExtremalMask(epochs=10, lr=0.03, fit_batch_size=3, quirks=frozenset({"0.3.5"}))(
        model, x
    ).values
    assert (plain - dense).abs().max() > 0.05


def test_settings_of_extremal_masks():
    mimic, state = ReleasedExtremalMask.of("mimic3"), ReleasedExtremalMask.of("state")
    assert (mimic.mask_weight, mimic.replacement_weight, mimic.fit_batch_size) == (0.01, 10, 100)
    assert (mimic.epochs, mimic.lr) == (500, 0.01)
    assert mimic.quirks == {"0.3.5", "0.3.6"}
    assert (state.mask_weight, state.replacement_weight, state.fit_batch_size) == (1, 1, 100)
    assert state.quirks == {"A6", "B6", "0.3.5"}
    assert ReleasedExtremalMask.of("switch_feature").quirks == {"A6", "0.3.5"}
    with pytest.raises(UnknownNameError, match="Did you mean 'wafer'"):
        ReleasedExtremalMask.of("waffer")


@pytest.mark.parametrize("batch_size", [3, 100])
@pytest.mark.parametrize("contrastive", ["none", "triplet"])
def test_contralsp_learns_from_means(contrastive, batch_size):
    """0.3.5. Groups and their anchors may be a matter of rounding, so one of three batches may differ."""
    model, alike, quirks = smooth(5, 3), 0, frozenset({"0.3.5"})
    settings = ReleasedContraLSP(0.4, 0.6, epochs=10, lr=0.05, contrastive=contrastive, quirks=quirks)
    for draw in range(3):
        x = series(7, 5, 3, draw, DOUBLE)
        x[:3] += 2  # two groups of more than two series
        found = settings(model, x, seed=6, batch_size=batch_size).values
        expected = literal_contralsp(model, x, settings, 6, mean=True)
        alike += torch.allclose(found, expected, rtol=1e-3, atol=2e-5)
    assert alike >= (3 if contrastive == "none" else 2)


def test_settings_of_contralsp():
    mimic, state, switch = (ReleasedContraLSP.of(name) for name in ("mimic3", "state", "switch_feature"))
    weights = [(one.mask_weight, one.replacement_weight, one.sigma) for one in (mimic, state, switch)]
    assert weights == [(0.005, 0.01, 0.5), (2, 1, 0.5), (1, 2, 0.8)]
    assert [(one.epochs, one.lr) for one in (mimic, state, switch)] == [(200, 0.1), (500, 0.01), (500, 0.01)]
    assert mimic.quirks == {"0.3.5", "0.3.6"}
    assert state.quirks == switch.quirks | {"B6"} == {"A6", "B6", "0.3.5"}
    with pytest.raises(UnknownNameError, match="Did you mean 'wafer'"):
        ReleasedContraLSP.of("waffer")
