"""All kinds of cases of the fuzz suite, with their share of the calls."""

from typing import NamedTuple

import answers
import calls
import scoring
import settings_of_methods
import uses
from trials import Generator


class Kind(NamedTuple):
    """How a case is made, and how many of them there are among others."""

    make: Generator
    share: int


SHARES = {
    "calls": Kind(calls.call, 700),
    "answers": Kind(answers.answer, 250),
    "settings": Kind(settings_of_methods.setting, 300),
    "scores": Kind(scoring.score, 250),
    "uses": Kind(uses.use, 300),
}
