"""Contract: what must hold for every registered explainer, present and future."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from tempograd.errors import ModelError
from tempograd.explainers import EXPLAINERS, Explainer, GradientShap, IntegratedGradients, Random
from tests.helpers.methods import UNDECIDED, quick, run, thorough
from tests.helpers.models import Recurrent, linear, series, smooth

PATHS = ("timing", "rand_ig", "integrated_gradients", "gradient_shap", "occlusion")  # exact for sums of cells


@pytest.fixture(params=sorted(EXPLAINERS))
def explainer(request) -> Explainer:
    return quick(request.param)


def close(first, second):
    torch.testing.assert_close(first, second, rtol=2e-4, atol=2e-7)


@pytest.mark.parametrize(("time", "channels", "classes"), [(7, 4, 3), (11, 1, 2), (1, 3, 3), (2, 1, 1)])
def test_scores_are_finite_and_tell_the_series_apart(explainer, time, channels, classes):
    found = run(explainer, smooth(time, channels, classes), series(5, time, channels, dtype=torch.float64))
    assert found.values.shape == (5, time, channels)
    assert found.values.dtype == torch.float32
    assert found.values.isfinite().all()
    if time * channels > 2 and (time > 1 or not (explainer.blends_steps or explainer.needs_prefixes)):
        assert len(found.values.unique(dim=0)) > 1


def test_same_seed_same_scores_other_seed_other_draws(explainer, recurrent):
    x = series(4, 9, 3)
    first, again, other = (run(explainer, recurrent, x, seed=seed).values for seed in (3, 3, 4))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    fixed = explainer.deterministic or isinstance(explainer, GradientShap)  # without a pool nothing is drawn
    assert torch.equal(first, other) == fixed


def test_a_series_does_not_depend_on_its_company(explainer):
    """Where a network is shared the company matters, but the order of the series still does not."""
    model, x, ids = smooth(9, 3), series(7, 9, 3, dtype=torch.float64), torch.arange(7) * 5 - 8
    together = run(explainer, model, x, ids=ids, seed=2)
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    shuffled = run(explainer, model, x[order], ids=ids[order], seed=2)
    close(shuffled.values, together.values[order])
    for i in () if explainer.shared else (0, 3):
        alone = run(explainer, model, x[i : i + 1], ids=ids[i : i + 1], seed=2)
        close(alone.values, together.values[i : i + 1])
        if together.standard_error is not None:
            close(alone.standard_error, together.standard_error[i : i + 1])
            assert torch.equal(alone.n_draws, together.n_draws[i : i + 1])


@pytest.mark.parametrize("batch_size", [1, 7, 120, 100000])
def test_the_chunk_size_does_not_matter(explainer, batch_size):
    model, x = smooth(9, 3), series(30, 9, 3, dtype=torch.float64)
    automatic, given = run(explainer, model, x), run(explainer, model, x, batch_size=batch_size)
    close(given.values, automatic.values)
    if automatic.standard_error is not None:
        torch.testing.assert_close(given.standard_error, automatic.standard_error, rtol=1e-3, atol=1e-7)


def test_many_series_are_explained_as_one_by_one(explainer):
    """Enough cells for the path that looks ahead and draws block by block."""
    model, x = smooth(30, 4), series(300, 30, 4, dtype=torch.float64)
    many = run(explainer, model, x).values
    for i in () if explainer.shared else (0, 149, 299):
        close(run(explainer, model, x[i : i + 1], ids=[i]).values, many[i : i + 1])


@pytest.mark.parametrize("fails", [False, True])
def test_model_and_surroundings_are_left_as_they_were(explainer, fails):
    class Fragile(Recurrent):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if fails and self.calls > (1 if explainer.needs_gradient else 0):
                raise ArithmeticError
            return super().forward(x)

    model, x = Fragile().train(), series(6, 9, 3)
    model.head.bias.requires_grad_(False)
    state, kept = copy.deepcopy(model.state_dict()), x.clone()
    rng, numpy_rng = torch.get_rng_state(), np.random.mtrand._rand.get_state()[1].copy()
    try:
        run(explainer, model, x, batch_size=200)
    except ArithmeticError:
        assert fails
    assert all(part.training for part in model.modules())
    assert model.gru.dropout == 0.4
    assert [p.requires_grad for p in model.head.parameters()] == [True, False]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(x, kept)
    assert not x.requires_grad
    assert torch.equal(rng, torch.get_rng_state())
    assert np.array_equal(numpy_rng, np.random.mtrand._rand.get_state()[1])


def test_a_channel_the_model_ignores_scores_zero(explainer):
    inner = smooth(9, 2)
    model, x = lambda x: 5 * inner(x[..., :2]), series(8, 9, 3, dtype=torch.float64)
    found = run(thorough(explainer), model, x, train=64).values
    if explainer.zero_if_ignored:
        assert (found[..., 2] == 0).all()
        assert (found[..., :2] != 0).float().mean() > 0.8  # WinIT knows nothing of the first step
    elif not isinstance(explainer, Random) and explainer.name not in UNDECIDED:
        size = found.abs() if explainer.signed else found
        assert size[..., 2].mean() < size[..., :2].mean()


def test_nothing_differs_from_the_baseline_so_nothing_is_credited(explainer):
    x = series(4, 9, 3)
    found = run(explainer, linear(9, 3), x, baseline=x)
    if explainer.zero_if_ignored and not explainer.needs_fit:
        assert (found.values == 0).all()


def test_beats_random_scores_on_a_model_whose_answer_is_known(explainer):
    """A linear model on which ten cells of each series matter 70 times as much as the others, or more.

    A network that scores all series cannot learn within seconds where ten scattered cells are: it is asked for a
    channel.
    """
    model, cell = linear(12, 5), torch.arange(60)
    important = cell % 5 == 2 if explainer.amortised else cell % 6 == 0
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


def test_half_of_the_layouts_and_devices_agree(explainer):
    model, x = smooth(9, 3), series(4, 9, 3)
    plain = run(explainer, model, x)
    turned = x.transpose(1, 2)
    for other in (turned, turned.contiguous()):  # a view of x, and memory in the other order
        torch.testing.assert_close(run(explainer, model, other, layout="BDT").values, plain.values)
    torch.testing.assert_close(run(explainer, model, x.numpy()).values, plain.values)


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


def test_explainers_are_values(explainer):
    same = EXPLAINERS[explainer.name](**explainer.parameters)
    assert same == explainer
    assert hash(same) == hash(explainer)


def test_the_target_is_the_class_of_the_clean_series(explainer):
    """Several series with other classes in one block, and a baseline that all are far from."""
    model, x = smooth(9, 3), series(12, 9, 3, dtype=torch.float64)
    classes = model(x).argmax(-1)
    assert len(classes.unique()) == 3
    found = run(explainer, model, x, baseline=5.0, batch_size=10000)
    assert torch.equal(found.target, classes)
    if not explainer.targeted:
        return
    asked = run(explainer, model, x, baseline=5.0, target=classes, batch_size=10000)
    torch.testing.assert_close(found.values, asked.values)
    one_by_one = [
        run(explainer, model, x[i : i + 1], baseline=5.0, target=int(classes[i]), ids=[i]) for i in range(12)
    ]
    together = torch.cat([one.values for one in one_by_one])
    torch.testing.assert_close(found.values, together, rtol=2e-4, atol=2e-7)


def test_masks_follow_the_layout_of_the_series(explainer):
    x = series(4, 9, 9, dtype=torch.float64)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    plain = run(explainer, smooth(9, 9), x, mask=mask)
    turned = run(explainer, smooth(9, 9), x.transpose(1, 2), mask=mask.transpose(1, 2), layout="BDT")
    assert torch.equal(turned.mask, plain.mask)
    torch.testing.assert_close(turned.values, plain.values)


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
