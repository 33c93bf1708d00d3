"""The shared pass: which cells go, which sequences the model sees, and that it is left alone."""

import copy

import pytest
import torch
from torch import nn

from tempograd.explainers import IntegratedGradients
from tempograd.metrics import METRICS, evaluate, removal_curve
from tests.helpers.literal_metrics import Net, by_hand, randn

FAITHFUL = ["cpd", "cpp", "prediction_difference", "accuracy", "cross_entropy", "log_odds"]
FAITHFUL += ["comprehensiveness", "sufficiency"]


class Recorder(nn.Module):
    """Answers like another model and remembers every sequence that it was asked to measure.

    Three passes come before, which tell whether its batch matters.
    """

    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen = inner, []

    def forward(self, x):
        self.seen.append(x.clone())
        return self.inner(x)

    @property
    def sequences(self):
        return torch.cat(self.seen[3:])


def problem(series=7, time=6, depth=2, masked=True, seed=0):
    model = Net(depth, 3, seed=seed).double()
    x, values = randn(series, time, depth, seed=seed + 1), randn(series, time, depth, seed=seed + 2)
    mask = randn(series, time, depth, seed=seed + 3) > -0.3 if masked else None
    target = model(x).argmax(-1)
    return model, by_hand(values, x, target, mask, ids=torch.arange(series) * 11 + 5)


def everything(model, explanation, **options):
    scores = evaluate(model, explanation, metrics=FAITHFUL, k=0.4, **options)
    return torch.stack([scores[name] for name in FAITHFUL])


def removal_order(values, ids, mask=None, descending=True):
    """Cells in the order they go, read off a model that shows its input."""
    x = torch.ones_like(values)
    explanation = by_hand(values, x, None, mask, output="raw", ids=ids)
    k = values[0].numel()
    shown = removal_curve(
        lambda z: z.flatten(1), explanation, k=k, descending=descending
    ).predictions  # (series, state, cell)
    gone = (shown == 0).sum(1)  # the earlier a cell goes, the more states lack it
    return [sorted((c for c in range(k) if row[c] > 0), key=lambda c, row=row: -row[c].item()) for row in gone]


def test_metrics_share_one_pass():
    model, explanation = problem(masked=False)
    alone, together = Recorder(model), Recorder(model)
    evaluate(alone, explanation, metrics="cpd", k=5)
    names = ["cpd", "comprehensiveness", "accuracy", "log_odds", "cross_entropy", "prediction_difference"]
    evaluate(together, explanation, metrics=names, k=5)
    assert len(alone.sequences) == len(together.sequences) == 7 * 6
    assert len(together.sequences.flatten(1).unique(dim=0)) == 7 * 6


@pytest.mark.parametrize("rank", ["absolute", "signed"])
def test_no_sequence_is_seen_twice(rank):
    model, explanation = problem()
    recorder = Recorder(model)
    chosen = [METRICS[name](rank=rank, k=k, name=f"{name} {k}") for name in FAITHFUL for k in (1.0, 0.5, 3, 1)]
    evaluate(recorder, explanation, metrics=chosen)
    # the clean series, the empty one, and each count in between from either end
    observed = explanation.mask.flatten(1).sum(1)
    assert len(recorder.sequences) == int((2 * (observed - 1) + 2).sum())
    assert len(recorder.sequences.flatten(1).unique(dim=0)) == len(recorder.sequences)


def test_rankings_share_what_they_have_in_common():
    model, explanation = problem(masked=False)
    recorder = Recorder(model)
    evaluate(recorder, explanation, metrics=["cpd", METRICS["cpd"](rank="signed", name="signed")], k=1.0)
    assert len(recorder.sequences) == 7 * (2 * 11 + 2)


def test_the_states_are_the_series_without_its_first_cells():
    x = torch.tensor([[[1.0], [2.0], [3.0]]])
    recorder = Recorder(lambda z: z.sum(1))
    explanation = by_hand(torch.tensor([[[0.5], [-0.9], [0.1]]]), x, torch.tensor([0]))
    evaluate(recorder, explanation, metrics="cpd", k=2, baseline=torch.tensor([10.0]))
    assert sorted(recorder.sequences.flatten(1).tolist()) == [[1, 2, 3], [1, 10, 3], [10, 10, 3]]


def test_unobserved_cells_are_never_removed_and_their_scores_never_matter():
    model, explanation = problem()
    x, mask = explanation.x, explanation.mask
    expected = everything(model, explanation)
    loud = by_hand(torch.where(mask, explanation.values, 1e30), x, explanation.target, mask, ids=explanation.ids)
    assert torch.equal(everything(model, loud), expected)
    for i in range(len(x)):
        recorder = Recorder(model)
        chosen = [METRICS[name](k=1.0) for name in FAITHFUL]
        evaluate(recorder, loud[i : i + 1], metrics=chosen, baseline=torch.tensor(77.0))
        seen = recorder.sequences
        assert (seen[:, ~mask[i]] == x[i][~mask[i]]).all()
        assert (seen == 77).flatten(1).sum(1).max() == mask[i].sum()


def test_the_average_substitute_leaves_unobserved_values_out():
    x = torch.tensor([[[1.0], [2.0], [6.0], [1e6]]])
    mask = torch.tensor([[[True], [True], [True], [False]]])
    recorder = Recorder(lambda z: z[:, 0])
    evaluate(recorder, by_hand(x / 10, x, torch.tensor([0]), mask), metrics="cpd", k=1, baseline="average")
    assert sorted(recorder.sequences.flatten(1).tolist()) == [[1, 2, 3, 1e6], [1, 2, 6, 1e6]]


def test_equal_scores_are_ordered_by_the_id_and_not_by_position_or_company():
    flat = torch.zeros(5, 4, 3)
    ids = torch.tensor([3, 2**40 + 1, 5, -8, 3000])
    orders = removal_order(flat, ids)
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5
    assert list(range(12)) not in orders
    back = torch.tensor([4, 2, 0])
    assert removal_order(flat[:3], ids[back]) == [orders[i] for i in back]
    mean_place = torch.tensor(
        [
            [order.index(c) for c in range(12)]
            for order in removal_order(torch.zeros(4000, 4, 3), torch.arange(4000))
        ]
    ).double()
    # uniform on 0 … 11: mean 5.5, and 4 standard errors of sqrt(143 / 12 / 4000)
    assert ((mean_place.mean(0) - 5.5).abs() < 4 * (143 / 12 / 4000) ** 0.5).all()


def test_ties_only_shuffle_equal_scores_and_ascending_is_the_reverse():
    values = torch.tensor([[2.0, -2.0, 0.0, -0.0, 5.0, 2.0]]).view(1, 3, 2)
    mask = torch.tensor([[True, True, True, True, True, False]]).view(1, 3, 2)
    tops, zeros = set(), set()
    for identity in range(20):
        (order,) = removal_order(values, [identity], mask)
        assert order[0] == 4
        assert set(order[1:3]) == {0, 1}
        assert set(order[3:]) == {2, 3}
        tops.add(order[1])
        zeros.add(order[3])
        assert removal_order(values, [identity], mask, descending=False) == [order[::-1]]
    assert tops == {0, 1}
    assert zeros == {2, 3}


def test_keeping_k_cells_keeps_those_that_removing_k_takes():
    """Also with ties: sufficiency is the complement of comprehensiveness."""
    x = randn(6, 5, 2, dtype=torch.float32).abs() + 1
    explanation = by_hand(torch.zeros_like(x), x, torch.zeros(6, dtype=torch.int64), output="raw")
    total = lambda z: z.sum((1, 2))[:, None]  # noqa: E731
    scores = evaluate(total, explanation, metrics=["comprehensiveness", "sufficiency"], k=3)
    torch.testing.assert_close(scores["comprehensiveness"] + scores["sufficiency"], x.sum((1, 2)))


def test_scores_do_not_depend_on_company_order_or_batch_size():
    model, explanation = problem(series=9)
    expected = everything(model, explanation)
    for batch_size in (1, 4, 50):
        torch.testing.assert_close(
            everything(model, explanation, batch_size=batch_size), expected, rtol=1e-6, atol=1e-7
        )
    shuffled = torch.tensor([4, 8, 0, 2, 7])
    torch.testing.assert_close(
        everything(model, explanation[shuffled]), expected[:, shuffled], rtol=1e-6, atol=1e-7
    )


def test_batch_size_bounds_the_sequences_of_one_pass():
    model, explanation = problem()
    recorder = Recorder(model)
    evaluate(recorder, explanation, batch_size=4, k=0.5)
    assert max(len(z) for z in recorder.seen) == 4


@pytest.mark.usefixtures("little_to_collect")
def test_work_shrinks_when_memory_runs_out():
    model, explanation = problem()
    sizes = []

    def small(z):
        sizes.append(len(z))
        if len(z) > 6:
            raise MemoryError
        return model(z)

    torch.testing.assert_close(
        everything(small, explanation), everything(model, explanation), rtol=1e-6, atol=1e-7
    )
    assert max(sizes) > 6


def test_the_model_is_left_as_it_was_found():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
            self.gru = nn.GRU(2, 3, num_layers=2, dropout=0.5, batch_first=True)
            self.head = nn.Linear(11, 2)

        def forward(self, x):
            return self.head(torch.cat([self.body(x), self.gru(x)[0][:, -1]], 1))

    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Noisy().train()
    model.head.weight.requires_grad_(requires_grad=False)
    state = copy.deepcopy(model.state_dict())
    x = randn(4, 6, 2, dtype=torch.float32)
    explanation = by_hand(x * 2, x, torch.zeros(4, dtype=torch.int64))
    before = torch.get_rng_state()
    first, second = (evaluate(model, explanation)["cpd"] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, second)  # no dropout
    assert all(part.training for part in model.modules())
    assert [p.requires_grad for p in model.head.parameters()] == [False, True]
    assert model.gru.dropout == 0.5
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not first.requires_grad


def test_a_double_model_scores_float_series_in_double():
    model = Net(2, 3).double()
    x = randn(5, 6, 2, dtype=torch.float32)
    explanation = IntegratedGradients(n_steps=4)(model, x)
    same = IntegratedGradients(n_steps=4)(model, x.double())
    assert torch.equal(explanation.target, same.target)
    doubled = by_hand(explanation.values, x.double(), explanation.target)
    ours = evaluate(model, explanation, metrics=FAITHFUL, baseline="average", k=4)
    expected = evaluate(model, doubled, metrics=FAITHFUL, baseline=x.mean(1, keepdim=True), k=4)
    for name in FAITHFUL:
        assert ours[name].dtype == torch.float32
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-6, atol=1e-7)


def test_the_curve_is_what_cpd_and_cpp_sum_over():
    model, explanation = problem()
    scores = evaluate(model, explanation, k=0.6)
    for name, descending in (("cpd", True), ("cpp", False)):
        curve = removal_curve(model, explanation, k=0.6, descending=descending)
        torch.testing.assert_close(curve.delta.sum(1), scores[name])
        observed = explanation.mask.flatten(1).sum(1)
        assert curve.limit.tolist() == [int(0.6 * n + 1e-9) for n in observed.tolist()]
        assert curve.removed.tolist() == list(range(int(curve.limit.max()) + 1))
        clean = model(explanation.x).softmax(-1).float()
        torch.testing.assert_close(curve.predictions[:, 0], clean)
        torch.testing.assert_close(curve.score[:, 0], clean.amax(-1))
        torch.testing.assert_close(curve.predictions.diff(dim=1).abs().sum(-1), curve.delta)
        for i, limit in enumerate(curve.limit.tolist()):
            assert (curve.delta[i, limit:] == 0).all()
            assert (curve.delta[i, :limit] > 0).all()


def test_the_curve_of_a_model_with_one_output_per_step():
    model = Net(2, 3, per_step=True)
    x = randn(3, 5, 2, dtype=torch.float32)
    explanation = IntegratedGradients(n_steps=3)(model, x, steps=[1, 4])
    curve = removal_curve(model, explanation, k=10, baseline="zero", rank="signed")
    with torch.no_grad():
        ends = [model(z).softmax(-1).gather(-1, explanation.target[..., None])[..., 0] for z in (x, 0 * x)]
    assert curve.predictions is None
    torch.testing.assert_close(curve.score[:, [0, -1]], torch.stack([e[:, [1, 4]].mean(1) for e in ends], 1))
    cpd = evaluate(model, explanation, metrics=METRICS["cpd"](rank="signed"), k=1.0)["cpd"]
    torch.testing.assert_close(curve.delta.sum(1), cpd)


def test_the_curve_without_a_class_has_no_score():
    model, explanation = problem()
    blind = by_hand(explanation.values, explanation.x, None, explanation.mask, ids=explanation.ids)
    curve, seeing = (removal_curve(model, e, k=3) for e in (blind, explanation))
    assert curve.score is None
    assert torch.equal(curve.delta, seeing.delta)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_model_on_the_gpu_scores_series_on_the_cpu():
    model, explanation = problem(series=300)
    expected = everything(model, explanation)
    ours = everything(copy.deepcopy(model).cuda(), explanation)
    assert ours.device.type == "cpu"
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
