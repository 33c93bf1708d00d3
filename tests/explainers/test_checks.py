"""What a question is refused for before anything runs: each refusal has its code."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError

MODEL, X = nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), torch.ones(2, 4, 2)
REFUSED = {
    "background.alone": ("timing", {"baseline": "background"}),
    "background.method": ("deep_lift", {"baseline": "background", "background": X}),
    "targets.both": ("timing", {"target": 0, "targets": [1]}),
    "targets.kind": ("timing", {"targets": [0, None]}),
    "targets.whole": ("dynamask", {"targets": [0]}),
    "method.fit": ("fit", {}),
    "steps.function": ("timing", {"target": lambda outputs: outputs[:, 0], "steps": 3}),
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refusal_has_its_code_and_a_sentence_in_both_dialects(code):
    method, question = REFUSED[code]
    with pytest.raises(InputError) as caught:
        tg.explain(MODEL, X, method, **question)
    assert caught.value.code == code
    for dialect in ("python", "shell"):
        text = caught.value.finding.say(dialect)
        assert text.endswith(".")
        assert "{" not in text


@pytest.mark.parametrize("targets", [3, [], (), "every"])
def test_what_is_no_list_of_targets_is_refused(targets):
    with pytest.raises(InputError, match="list the targets, such as"):
        tg.explain(MODEL, X, targets=targets)
