"""What happens before the first points of the paths: no point saw it, and the error must know of it."""

import pytest
import torch

import tempograd as tg
from tempograd.sampling.segments import complete
from tests.helpers.models import series, smooth


def gate(z, place=0.03, steepness=300):
    """All of the sum, or nothing of it where one cell is next to the baseline."""
    return (torch.sigmoid(steepness * (z[:, -1, 0] - place)) * z.sum((1, 2)))[:, None]


def drawn(time, channels, count=20_000):
    """Draw masks of the default setting one segment at a time: 1 where a cell moves."""
    setting, generator = complete(time, channels, None, None, None, time), torch.Generator().manual_seed(5)
    moving, clock = torch.ones(count, time, channels), torch.arange(time)
    for _ in range(setting.count):
        length = torch.randint(setting.low, setting.high + 1, (count, 1), generator=generator)
        start = (torch.rand(count, 1, generator=generator) * (time - length + 1)).long()
        channel = torch.randint(channels, (count, 1), generator=generator)
        held = (clock >= start) & (clock < start + length)
        moving *= 1 - (held[..., None] & (torch.arange(channels) == channel[..., None])).float()
    return moving.double()


def exact(time, channels):
    """Integrate the gradient of the gate along the path of each mask, with 100,000 points, for x = 1."""
    moving = drawn(time, channels)
    free, moved = moving[:, -1, 0], moving.sum((1, 2))
    alpha = (torch.arange(100_000).double() + 0.5) / 100_000
    opened = torch.sigmoid(300 * (alpha - 0.03))
    slope = 300 * opened * (1 - opened)
    others = torch.where(free > 0, opened.mean(), 1.0)
    own = (slope.mean() * (time * channels - moved) + (slope * alpha).mean() * moved) * free
    found = (others[:, None, None] * moving).sum(0) / moving.sum(0)
    found[-1, 0] += own.sum() / free.sum()
    return found


SHAPES = [(1, 2), (8, 1), (20, 3)]


def test_the_oracle_by_hand():
    """Of two cells one is held at 1: the gate opens where the sum is 1.03, and 0.97 is left to the cell itself."""
    torch.testing.assert_close(exact(1, 2), torch.tensor([[2.0, 1.0]]).double(), rtol=2e-3, atol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_gate_that_samples_miss_is_not_called_converged(shape):
    true, x = exact(*shape), torch.ones(100, *shape)
    found = tg.explain(gate, x, output="raw", n_samples=50)
    off = (found.values - true).abs().sum((1, 2)) / true.sum()
    good = torch.tensor([found.verdict(i).startswith("converged") for i in range(100)])
    assert int((off > 0.2).sum()) > 30  # most maps are wrong with 50 samples
    assert int((good & (off > 0.2)).sum()) <= 4
    unaware = tg.explain(gate, x, output="raw", n_samples=50, gradient_check=False)
    claimed = torch.tensor([unaware.verdict(i).startswith("converged") for i in range(100)])
    assert int((claimed & (off > 0.2)).sum()) > 8


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_tolerance_goes_on_until_samples_hit_the_gate(shape):
    true, x = exact(*shape), torch.ones(20, *shape)
    found = tg.explain(gate, x, output="raw", tolerance=0.1)
    off = (found.values - true).abs().sum((1, 2)) / true.sum()
    assert int((off > 0.2).sum()) <= 1
    assert float(found.n_evals.float().mean()) < 3000  # what was hit holds nobody up


def test_the_term_by_hand():
    """A jump of 1 below all points, where the first of two cells moves: its mean over four masks.

    They belong to points at 0.07 … 0.21, whose squares, times a slope of 1, may be curvature.
    """
    found = tg.explain(lambda z: gate(z, 1e-3, 1e5), torch.ones(50, 1, 2), output="raw", n_samples=50)
    error = found.standard_error[:, 0]
    torch.testing.assert_close(error[:, 0], error[:, 1])  # either may have a part in it
    quarters = 4 * error[:, 0]
    assert ((quarters.round() - quarters) / quarters.round() >= 0.9 * 0.07**2).all()
    assert ((quarters.round() - quarters) / quarters.round() <= 1.1 * 0.21**2).all()
    assert 1.5 < float(quarters.mean()) < 2.5
    assert float(quarters.min()) > 0.9  # masks were chosen so that each cell moves in one
    twice = tg.explain(lambda z: gate(z / 2, 1e-3, 1e5), torch.full((50, 1, 2), 2.0), output="raw", n_samples=50)
    torch.testing.assert_close(twice.standard_error, found.standard_error)  # no unit of x


def test_unobserved_cells_have_no_error():
    x, mask = torch.ones(6, 4, 2), torch.ones(6, 4, 2)
    mask[:, 1] = 0
    found = tg.explain(lambda z: gate(z, 1e-3, 1e5), tg.Series(x, mask=mask), output="raw")
    assert float(found.standard_error[:, 1].abs().max()) == 0
    assert float(found.standard_error[:, 0].max()) > 0


def test_smooth_models_keep_their_errors():
    for shape in ((7, 1), (24, 3)):
        model, x = smooth(*shape), series(30, *shape)
        found, plain = (tg.explain(model, x, gradient_check=check) for check in (True, False))
        torch.testing.assert_close(found.relative_error, plain.relative_error, rtol=0.05, atol=1e-4)


@pytest.mark.parametrize("samples", [50, 160])  # one stage, and a second one of 110 points
def test_batches_do_not_matter(samples):
    """However few points of a series a pass takes. The largest slope, by which a path may be curved, is late."""

    def model(z):
        return gate(z, 1e-3, 1e5) + torch.sigmoid(40 * (z[:, :1, 0] - 0.7))

    x = torch.ones(2, 8, 2)
    whole, *parts = (
        tg.explain(model, x, output="raw", n_samples=samples, batch_size=size) for size in (10_000, 3, 7)
    )
    unaware = tg.explain(model, x, output="raw", n_samples=samples, gradient_check=False)
    assert (whole.relative_error > unaware.relative_error + 0.02).all()  # the far ends count here
    for part in parts:
        torch.testing.assert_close(part.values, whole.values, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(part.standard_error, whole.standard_error, rtol=1e-3, atol=1e-5)
