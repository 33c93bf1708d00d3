"""The four propositions of the paper."""

import torch

from tempograd.explainers import MaskingIG, Timing
from tests.helpers.models import Recurrent, series, smooth


def all_masks(time: int, low: int, high: int) -> list[tuple[float, torch.Tensor]]:
    """Every mask of one segment on one channel with its probability; True where a cell moves."""
    masks = []
    for length in range(low, high + 1):
        for start in range(time - length + 1):
            moving = torch.ones(time, 1, dtype=torch.bool)
            moving[start : start + length] = False
            masks.append((1 / (high - low + 1) / (time - length + 1), moving))
    return masks


def test_effectiveness_one_mask_per_point_is_as_good_as_a_path_per_mask():
    """E[MaskingIG | M = 1] by enumeration of all masks, against one random mask per path point."""
    time, model = 6, smooth(6, 1)
    x = series(1, time, 1, seed=4, dtype=torch.float64)
    above, below = torch.zeros(1, time, 1), torch.zeros(time, 1)
    for probability, moving in all_masks(time, 2, 4):
        exact = MaskingIG(moving, n_steps=40, rule="gauss-legendre")(model, x, target=0).values
        above, below = above + probability * exact, below + probability * moving
    expected = (above / below)[0]
    for anchored in (0.0, 0.8):
        found = Timing(400, None, 1, 2, 4, anchored=anchored)(model, x.expand(60, -1, -1), target=0).values
        error = found.std(0) / 60**0.5
        assert ((found.mean(0) - expected) / error).abs().max() < 4.5
        assert (error / expected.abs()).median() < 0.01


def test_sensitivity_a_single_differing_cell_that_matters_gets_its_whole_effect():
    model, x = smooth(8, 2), series(4, 8, 2, dtype=torch.float64)
    baseline = x.clone()
    baseline[:, 3, 1] = 0.7
    explanation = Timing(400, None, 5, 2, 4)(model, x, target=1, baseline=baseline)
    found, error = explanation.values, explanation.standard_error[:, 3, 1]
    effect = model(x).softmax(-1)[:, 1] - model(baseline).softmax(-1)[:, 1]
    assert ((found[:, 3, 1] - effect).abs() < 4.5 * error).all()
    assert effect.abs().sum() > 10 * error.sum()
    found[:, 3, 1] = 0
    assert (found == 0).all()


def test_implementation_invariance_a_rewritten_model_has_the_same_scores():
    model = Recurrent().eval()

    def by_hand(x):
        layers = [x]
        for layer in range(2):
            w_in, w_state, b_in, b_state = (
                getattr(model.gru, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state, states = x.new_zeros(len(x), 8), []
            for t in range(x.shape[1]):
                r_in, z_in, n_in = (layers[-1][:, t] @ w_in.T + b_in).chunk(3, -1)
                r_st, z_st, n_st = (state @ w_state.T + b_state).chunk(3, -1)
                reset, update = torch.sigmoid(r_in + r_st), torch.sigmoid(z_in + z_st)
                state = (1 - update) * torch.tanh(n_in + reset * n_st) + update * state
                states.append(state)
            layers.append(torch.stack(states, 1))
        return model.head(model.norm(layers[-1][:, -1]))

    x = series(3, 9, 3)
    torch.testing.assert_close(Timing()(by_hand, x).values, Timing()(model, x).values, rtol=1e-4, atol=1e-7)


def test_incompleteness_two_cells_that_only_work_together_are_both_credited_in_full():
    """f = x0·x1 and one held cell: the other one is always compared with its partner in place."""
    x = torch.tensor([[[3.0], [2.0]]])
    found = Timing(50, None, 1, 1, 1)(lambda z: z[:, 0] * z[:, 1], x, output="raw").values
    torch.testing.assert_close(found.flatten(), torch.tensor([6.0, 6.0]))
    complete = Timing(50, None, 0)(lambda z: z[:, 0] * z[:, 1], x, output="raw").values
    torch.testing.assert_close(complete.flatten(), torch.tensor([3.0, 3.0]))
