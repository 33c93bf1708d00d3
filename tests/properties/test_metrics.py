"""Metrics: which cells go and in which order, how many, and what must not matter."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

import tempograd as tg
from tests.helpers.literal_metrics import by_hand
from tests.helpers.models import smooth
from tests.helpers.strategies import IDS, batches, examples

REMOVING = ("cpd", "cpp", "prediction_difference", "cross_entropy", "log_odds", "sufficiency", "comprehensiveness")
LOCATING = ("aup", "aur", "auroc", "auprc", "information", "entropy")
AMOUNTS = st.one_of(st.floats(0.01, 1, exclude_max=True), st.integers(1, 4))
TIES = st.integers(-2, 2)  # scores of few values, so that many are alike


@st.composite
def explained(draw, scores=TIES):
    """Draw series and scores, and return both as an explanation."""
    batch = draw(batches(time=5))
    size = batch.x.numel()
    values = torch.tensor(draw(st.lists(scores, min_size=size, max_size=size)), dtype=torch.float32)
    values = values.view(batch.x.shape)
    if batch.mask is not None:
        values = values * batch.mask
    target = torch.full((len(batch.x),), draw(st.integers(0, 2)))
    return by_hand(values, batch.x, target, batch.mask, ids=batch.ids)


def model_of(found):
    return smooth(*found.x.shape[1:])


def amount(found, k):
    """Return k, or as many cells as there are where those are fewer."""
    return min(k, found.x[0].numel()) if isinstance(k, int) else k


def equal(one, other, tolerance=1e-6):
    assert one.keys() == other.keys()
    for name, score in one.items():
        torch.testing.assert_close(score, other[name], rtol=tolerance, atol=tolerance, equal_nan=True, msg=name)


@given(st.data(), explained(), AMOUNTS)
def test_scores_of_a_series_do_not_depend_on_its_company(data, found, k):
    """Order, subset and batch size: ties are broken by the id of the series and the cell."""
    count = len(found)
    truth = torch.rand(found.x.shape, generator=torch.Generator().manual_seed(3)) < 0.4
    rows = data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]
    batch_size = data.draw(st.one_of(st.none(), st.integers(1, 20)))
    model, metrics, k = model_of(found), (*REMOVING, "accuracy", *LOCATING), amount(found, k)
    together = tg.evaluate(model, found, metrics=metrics, k=k, truth=truth)
    some = tg.evaluate(model, found[rows], metrics=metrics, k=k, truth=truth[rows], batch_size=batch_size)
    equal(some, {name: score[rows] for name, score in together.items()})


@given(explained(), st.data())
def test_a_share_of_the_cells_is_their_count(found, data):
    assume(found.mask is None)
    cells = found.x[0].numel()
    count = data.draw(st.integers(1, cells))
    by_count = tg.evaluate(model_of(found), found, metrics=REMOVING, k=count)
    share = count / cells if count < cells else 1.0
    equal(tg.evaluate(model_of(found), found, metrics=REMOVING, k=share), by_count)


@given(explained())
def test_removing_more_than_there_is_removes_what_there_is(found):
    """A series with fewer observed cells than k loses all it has, and its curve stays flat from there."""
    cells = found.x[0].numel()
    seen = torch.full((len(found),), cells) if found.mask is None else found.mask.flatten(1).sum(1)
    curve = tg.removal_curve(model_of(found), found, k=cells)
    for delta, observed in zip(curve.delta, seen.tolist(), strict=True):
        assert (delta[observed:] == 0).all()


@given(explained())
def test_cumulative_differences_only_grow_and_bound_the_plain_one(found):
    model, cells = model_of(found), found.x[0].numel()
    before = torch.zeros(len(found))
    for k in range(1, cells + 1):
        scores = tg.evaluate(model, found, metrics=("cpd", "cpp", "prediction_difference"), k=k)
        assert (scores["cpd"] >= before - 1e-6).all()
        assert (scores["cpd"] >= scores["prediction_difference"] - 1e-6).all()
        before = scores["cpd"]
    curve = tg.removal_curve(model, found, k=cells)
    torch.testing.assert_close(curve.delta.sum(1), before, rtol=1e-5, atol=1e-6)


@given(explained(), AMOUNTS, st.sampled_from([1e-6, 3.0, 1e6]), st.sampled_from(["absolute", "signed"]))
def test_only_the_order_of_the_scores_counts(found, k, factor, rank):
    model, metrics = model_of(found), [tg.METRICS[name](rank=rank) for name in REMOVING]
    plain = tg.evaluate(model, found, metrics=metrics, k=amount(found, k))
    for values in (factor * found.values, found.values**3):
        other = by_hand(values, found.x, found.target, found.mask, ids=found.ids)
        equal(tg.evaluate(model, other, metrics=metrics, k=amount(found, k)), plain, 0)


@given(explained(st.just(0)), AMOUNTS, st.data())
def test_channels_in_another_order_change_nothing(found, k, data):
    """With scores that all differ: ties are broken by the place of a cell, among others."""
    numbers = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    values = torch.rand(found.x.shape, generator=numbers)
    values = values if found.mask is None else values * found.mask
    order = data.draw(st.permutations(range(found.x.shape[2])))
    back = [order.index(d) for d in range(len(order))]
    model, mask = model_of(found), None if found.mask is None else found.mask[..., order]
    plain = by_hand(values, found.x, found.target, found.mask, ids=found.ids)
    turned = by_hand(values[..., order], found.x[..., order], found.target, mask, ids=found.ids)
    expected = tg.evaluate(model, plain, metrics=REMOVING, k=amount(found, k))
    equal(tg.evaluate(lambda z: model(z[..., back]), turned, metrics=REMOVING, k=amount(found, k)), expected)


def total(x):
    return x.sum((1, 2))[:, None]


def removed(values, mask, ids, **options):
    """Return the cells in the order in which they go: cell i is worth 2^i, and what is lost tells."""
    time, channels = values.shape[1:]
    x = (2.0 ** torch.arange(time * channels)).view(1, time, channels).expand(values.shape).double()
    found = by_hand(
        values, x, mask=mask, ids=ids, output="raw", target=torch.zeros(len(values), dtype=torch.int64)
    )
    lost = tg.removal_curve(total, found, k=time * channels, **options).delta
    return [[round(worth).bit_length() - 1 for worth in row if worth] for row in lost.tolist()]


@given(explained(), st.sampled_from(["absolute", "signed"]), st.booleans())
def test_observed_cells_go_once_each_the_largest_scores_first(found, rank, descending):
    orders = removed(found.values, found.mask, found.ids, rank=rank, descending=descending)
    for row, order in enumerate(orders):
        seen = torch.ones_like(found.values[row]) if found.mask is None else found.mask[row]
        assert sorted(order) == seen.flatten().nonzero()[:, 0].tolist()
        scores = found.values[row].flatten()[order]
        scores = scores.abs() if rank == "absolute" else scores
        assert scores.tolist() == sorted(scores.tolist(), reverse=descending)


@examples(0.3)
@given(IDS)
def test_equal_scores_go_in_an_order_without_a_preference(first):
    """Which of six cells goes first, over 1,200 ids in a row: chance exceeds the bound in one case of 10¹²."""
    ids = torch.arange(1200) + min(first, 2**62)
    orders = removed(torch.zeros(1200, 3, 2), None, ids)
    counts = torch.bincount(torch.tensor([order[0] for order in orders]), minlength=6)
    assert ((counts - 200.0) ** 2 / 200).sum() < stats.chi2.isf(1e-12, 5)
    assert orders[:20] == removed(torch.zeros(20, 3, 2), None, ids[:20])
