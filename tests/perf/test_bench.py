"""What the benchmarks compare does the same work on both sides, and ratios are what their rounds give."""

import sys

import pytest
import torch

import paths
import peak
import removal
import tempograd as tg
import timing
from paths import Setting

pytestmark = pytest.mark.slow  # weekly

SMALL = Setting(
    "gru", series=35, steps=10, channels=3, points=7, hidden=6
)  # two calls of captum, the second short


def test_our_integrated_gradients_and_captums_give_the_same_maps():
    model, x = SMALL.made()
    ways = paths.sides(model, x, SMALL.points, batch=64)
    at_once = paths.in_calls(paths.peers.integrated_gradients, model, x, SMALL.points)
    in_parts = paths.in_calls(paths.peers.integrated_gradients, model, x, SMALL.points, 40)
    ours = ways["ig"]()
    assert ours.abs().max() > 1e-3
    for theirs in (ways["captum"](), at_once(), in_parts()):
        torch.testing.assert_close(theirs.float(), ours, rtol=1e-4, atol=1e-7)


def test_the_bare_model_sees_as_many_sequences_as_there_are_points():
    model, x = SMALL.made()
    seen = []
    model.register_forward_hook(lambda _, given, answer: seen.append((len(given[0]), answer.requires_grad)))
    paths.sides(model, x, SMALL.points, batch=64)["bare"]()
    assert seen == [(64, True)] * 3 + [(35 * 7 - 3 * 64, True)]


def test_the_bare_model_alone_is_not_slowed_by_denormal_numbers():
    """Else it would be no floor for the engine, which flushes them; captum runs as its users run it."""
    model, x = SMALL.made()
    tiny, seen = torch.tensor([1e-40]), []
    model.register_forward_hook(lambda *_: seen.append(float(tiny * 1)))
    ways = paths.sides(model, x, SMALL.points, batch=256)
    ways["bare"]()
    assert seen == [0.0]
    assert float(tiny * 1) > 0
    ways["captum"]()
    assert min(seen[1:]) > 0


def test_the_shared_pass_and_the_loops_give_the_same_scores():
    model, x = SMALL.made()
    explanation = tg.explain(model, x, "random")
    ours, theirs = removal.sides(model, explanation, removal.METRICS["all"], k=9)
    found, expected = ours(), theirs()
    assert list(found) == list(expected) == list(removal.METRICS["all"])
    for name, scores in found.items():
        torch.testing.assert_close(scores, expected[name], rtol=1e-4, atol=1e-6)
        assert name == "accuracy" or scores.abs().max() > 1e-4


def test_ratios_are_taken_round_by_round_and_the_order_turns(monkeypatch):
    calls, clock = [], iter([0, 2, 10, 11, 20, 24, 30, 36, 40, 49, 50, 52])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    turns = timing.in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, cold={"b"})
    assert "".join(calls) == "a" + "ab" + "ba" + "ab"
    assert turns.seconds == {"a": [2, 6, 9], "b": [1, 4, 2]}
    assert turns.ratio("a", "b") == {"seconds": 6, "median": 2, "least": 1.5, "most": 4.5, "rounds": 3}
    assert turns.against("b").keys() == {"a"}


def test_the_fastest_size_is_the_one_with_the_shortest_time(monkeypatch):
    clock = iter([0, 1, 10, 13, 20, 22, 30, 39])  # 8: 1 and 9 seconds, 16: 3 and 2
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    assert timing.fastest({8: lambda: None, 16: lambda: None}, tries=2) == 8


def test_growth_is_measured_against_captum_at_its_best_batch(monkeypatch):
    asked = []

    def attribute(model, x, points, internal=None):
        asked.append((len(x), points, internal))
        return x

    monkeypatch.setattr(paths.peers, "integrated_gradients", attribute)
    monkeypatch.setattr(paths, "best_bare", lambda *_: 64)
    monkeypatch.setattr(paths, "best_internal", lambda *_: 96)
    (row,) = paths.sweep(SMALL, "points", (9,), rounds=2)
    assert (row["points"], row["internal"]) == (9, 96)
    assert asked.count((32, 9, 96)) == asked.count((3, 9, 96)) == asked.count((32, 9, None)) == 3
    best = row["over_bare"]["captum_best"]["seconds"]
    for name in ("timing", "ig"):
        ratio = row["over_captum_best"][name]
        assert ratio["seconds"] == row["over_bare"][name]["seconds"] > best  # which does nothing here
        assert ratio["least"] > 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peak_remembers_what_was_given_back():
    before = max(peak.megabytes("VmHWM"), peak.megabytes("VmRSS"))
    held = torch.ones(2**20 * (300 + int(before) - int(peak.megabytes("VmRSS"))) // 4)
    del held
    assert 297 < peak.megabytes("VmHWM") - before < 306
