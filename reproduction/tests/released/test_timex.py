"""The faults of the released TimeX and TimeX++, and the settings of the paper."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import SettingError, UnknownNameError
from tempograd.explainers.timex import MaskGenerator, label_geometry
from tempograd_paper.released.timex import ReleasedTimeX, across, label_means, reverse_jensen_shannon
from tempograd_paper.released.timexpp import ReleasedTimeXPP
from tests.helpers.literal_methods import kl
from tests.helpers.models import Recurrent, check_left_as_found, series, smooth

TRAIN = series(24, 9, 3, seed=50)
X = series(7, 9, 3)
FIRST, SECOND = (series(6, 4, 1, seed=seed, dtype=torch.float64)[..., 0].softmax(-1) for seed in (2, 3))
STEPS = tuple(series(5, 7, 3, seed=seed, dtype=torch.float64).softmax(-1) for seed in (4, 5))
BOTH = pytest.mark.parametrize("kind", [ReleasedTimeX, ReleasedTimeXPP])


def quick(kind, **changes):
    return kind(**({"epochs": 1, "fit_batch_size": 8} | changes))


def generator():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MaskGenerator(9, 3).double().eval()


def reverse(p, q):
    m = (p + q) / 2
    return (kl(m, p) + kl(m, q)) / 2 / len(p)


def test_reversed_divergences_against_the_definition():
    found = reverse_jensen_shannon(FIRST, SECOND)
    assert found.tolist() == pytest.approx([reverse(p, q) for p, q in zip(FIRST, SECOND, strict=True)])
    assert (found > 1e-4).all()
    assert reverse_jensen_shannon(FIRST, FIRST).abs().max() < 1e-15


@pytest.mark.parametrize("per_step", [False, True])
def test_label_means_go_over_all_pairs(per_step):
    p, q = STEPS if per_step else (FIRST[:, None], SECOND[:, None])
    pairs = [(i, j, t) for i in range(len(p)) for j in range(i + 1, len(p)) for t in range(p.shape[1])]
    first, second = (sum(reverse(z[i, t], z[j, t]) for i, j, t in pairs) / len(pairs) for z in (p, q))
    given = (p, q) if per_step else (FIRST, SECOND)
    assert float(label_means(*given)) == pytest.approx((first - second) ** 2)
    assert float(label_means(given[0], given[0])) == 0
    assert float(label_means(given[0][:1], given[1][:1])) == 0


def test_the_means_can_agree_where_the_pairs_do_not():
    assert float(label_means(FIRST, FIRST.flip(0))) < 1e-25
    assert float(label_geometry(FIRST, FIRST.flip(0))) > 1e-5


def test_the_released_label_is_used():
    pairs, means = (
        quick(ReleasedTimeX, epochs=2, learning_rate=0.05, label=label).fit(smooth(9, 3), TRAIN).network.facts
        for label in ("pairs", "means")
    )
    assert all(abs(a - b) > 1e-6 for a, b in zip(pairs["losses"], means["losses"], strict=True))
    with pytest.raises(SettingError, match="'pairs' or 'means'"):
        ReleasedTimeX(label="rows")


def test_attention_over_the_series_sees_one_step_only():
    net, x = generator(), X.double()
    changed = x.clone()
    changed[0, 2] += 1
    moved = ((across(net, changed) - across(net, x)).abs() > 1e-12).any(-1)
    assert moved[:, 2].all()
    assert not moved[:, [0, 1, 3, 4, 5, 6, 7, 8]].any()


@BOTH
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(kind, fails):
    for quirks in (frozenset(), frozenset(kind.faults)):
        check_left_as_found(lambda model, on=quirks: quick(kind, epochs=2, quirks=on).fit(model, TRAIN), fails)


@BOTH
def test_b3_lets_the_company_matter(kind):
    model, many = smooth(9, 3), series(60, 9, 3)
    explainer = quick(kind, quirks=frozenset({"B3"})).fit(model, TRAIN)
    together = explainer(model, many).values
    assert not torch.allclose(explainer(model, many[:3]).values, together[:3])
    torch.testing.assert_close(explainer(model, many[:50]).values, together[:50])  # batches of fifty
    torch.testing.assert_close(explainer(model, many[50:]).values, together[50:])
    torch.testing.assert_close(explainer(model, many, batch_size=7).values, together)


@BOTH
def test_every_quirk_changes_the_scores(kind):
    model = Recurrent().eval()
    model.norm = nn.Sequential(model.norm, nn.Dropout(0.5))
    clean = quick(kind, epochs=3, learning_rate=0.05).fit(model, TRAIN)(model, X).values
    for key in set(kind.faults) - {"7"}:
        quirky = quick(kind, epochs=3, learning_rate=0.05, quirks=frozenset({key})).fit(model, TRAIN)
        assert not torch.allclose(quirky(model, X).values, clean), key


@pytest.mark.parametrize(("kind", "key"), [(ReleasedTimeX, "7"), (ReleasedTimeXPP, "8")])
def test_epochs_are_chosen_by_other_losses(kind, key):
    clean, quirky = (
        quick(kind, epochs=2, quirks=quirks).fit(smooth(9, 3), TRAIN).network.facts["losses"]
        for quirks in (frozenset(), frozenset({key}))
    )
    assert all(abs(a - b) > 1e-4 for a, b in zip(clean, quirky, strict=True))


def test_settings_are_those_of_the_real_data():
    quirks = frozenset({"B3", "B10", "7.3", "7"})
    assert ReleasedTimeX.of("pam") == ReleasedTimeX(label="means", quirks=quirks)
    found = ReleasedTimeXPP.of("wafer")
    assert (found.learning_rate, found.quirks) == (5e-4, frozenset({"B3", "B10", "7.3", "8"}))
    for kind in (ReleasedTimeX, ReleasedTimeXPP):
        with pytest.raises(UnknownNameError, match="mimic3"):
            kind.of("state")


@BOTH
def test_without_faults_it_is_the_method_of_the_library(kind):
    model, plain = smooth(9, 3), {ReleasedTimeX: tg.TimeX, ReleasedTimeXPP: tg.TimeXPP}[kind]
    found, expected = (quick(each).fit(model, TRAIN)(model, X) for each in (kind, plain))
    own = {"quirks": []} | ({"label": "pairs"} if kind is ReleasedTimeX else {})
    assert torch.equal(found.values, expected.values)
    assert (found.method, found.parameters) == (expected.method, expected.parameters | own)


@BOTH
def test_a_fault_that_there_is_not_is_refused(kind):
    with pytest.raises(UnknownNameError, match="B3"):
        kind(quirks=frozenset({"B4"}))
