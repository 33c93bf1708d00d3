"""What a race leaves: words, tables, and files of settings that nobody has to trust."""

import pandas as pd
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.tuning import Trial
from tests.helpers.trials import Mixed, short_cpd, weighted

RAW = {"output": "raw"}
X = torch.randn(20, 12, 1, generator=torch.Generator().manual_seed(0))


def tuned(quality=1.0):
    return tg.tune(weighted, X, "rand_ig", n_samples=8, grid=[{"p": quality}], k=3, **RAW)


def test_the_verdict_says_setting_scores_difference_and_series():
    found = tg.tune(weighted, X, Mixed(), metric=short_cpd(), grid=[{"quality": 1.0}], **RAW)
    row, usual = found.chosen, found.default
    assert row.difference == pytest.approx(row.score - usual.score)
    for part in ("quality=1.0", f"{row.score:.2f}", f"{usual.score:.2f}", f"+{row.difference:.2f}", "20 series"):
        assert part in found.verdict()
    assert f"± {row.difference_error:.2f}" in found.verdict()
    assert str(found).endswith(found.verdict())
    assert "→ quality=1.0" in str(found)


def test_a_score_that_is_never_defined_is_told():
    truth = torch.zeros(20, 12, 1)
    found = tg.tune(weighted, tg.Series(X, truth=truth), Mixed(), metric="auroc", grid=[{"quality": 1.0}], **RAW)
    assert (found.settings, found.default.series) == ({}, 0)
    assert "AUROC" in found.verdict()


def test_where_the_default_stays_the_verdict_counts_the_others():
    settings = [{"quality": each} for each in (0.5, 0.2)]
    found = tg.tune(weighted, X, Mixed(quality=1.0), metric=short_cpd(), grid=settings, **RAW)
    assert found.settings == {}
    assert "2 other settings" in found.verdict()
    assert found.table[1].words in found.verdict()  # the best of the others


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"held": 0.75, "min_length": 2, "max_length": 5}, "held=0.75, min_length=2, max_length=5"),
        ({"edges": (0.1, 0.5), "kernel": "ball"}, "edges=(0.1, 0.5), kernel='ball'"),
        ({}, "default"),
    ],
)
def test_settings_are_written_as_people_type_them(setting, words):
    assert Trial(setting, 0, 0, 0, 0, 1, 1, True, False).words == words


def test_pandas_reads_the_table():
    found = tg.tune(weighted, X, Mixed(), metric=short_cpd(), grid=[{"quality": 1.0}, {"stream": 2}], **RAW)
    frame = pd.DataFrame(found.table)
    assert {"setting", "difference"} <= {*frame.columns}
    assert frame["score"].tolist() == [row.score for row in found.table]
    assert frame["chosen"].sum() == 1


def test_a_tuning_is_no_method():
    with pytest.raises(InputError):
        tg.explain(weighted, X, tuned(), **RAW)
