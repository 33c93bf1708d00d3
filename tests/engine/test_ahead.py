import torch

from tempograd.engine.cuda import Ahead, Landing


def test_what_was_prepared_is_used_once_and_only_for_its_own_key():
    ahead, made = Ahead(torch.device("cpu")), []

    def make(name):
        made.append(name)
        return name

    ahead.prepare((0, 5), lambda: make("early"))
    assert ahead.take((0, 5), lambda: make("late")) == "early"
    assert ahead.take((0, 5), lambda: make("late")) == "late"
    ahead.prepare((5, 9), lambda: make("for others"))
    assert ahead.take((5, 7), lambda: make("mine")) == "mine"  # the block became smaller: memory ran out
    assert ahead.take((5, 9), lambda: make("again")) == "again"
    assert made == ["early", "late", "for others", "mine", "again"]


def test_results_are_written_as_the_kind_they_are_kept_in():
    whole, landing = torch.full((4, 2), -1, dtype=torch.int32), Landing()
    landing.put(whole, slice(1, 3), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    landing.land()
    assert whole.tolist() == [[-1, -1], [3, 4], [5, 6], [-1, -1]]
