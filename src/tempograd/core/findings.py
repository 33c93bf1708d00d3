r"""Every refusal, warning, assumption and verdict is a finding: a code and its data, said in each reader's words.

A sentence marks the arguments that it names with their noun, in an f-string or in a row of :data:`SAYS` alike,
``f"pass {arg:series.mask=nan}"``: Python reads ``tg.Series(x, mask='nan')``, the command line ``--mask nan``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["refusal", "warning", "assumption"]
Dialect = Literal["python", "shell"]

OPEN, CLOSE = "\ue000", "\ue001"  # around a marked argument, until it is known who reads it
MARKED = re.compile(f"{OPEN}(\\w+)\\.(\\w+)(?:=([^{CLOSE}]*))?{CLOSE}")
NOUNS = {"series": "tg.Series(x, {})", "predictor": "tg.Predictor(model, {})"}
OPTIONS = {"predictor.layout": "--model-layout", "predictor.modules": "", "series.fixed": "--fixed"}
LITERAL = re.compile(r"-?[\d.]+(e-?\d+)?|None|True|False|[\[({\"'].*|.*[(….].*|\w+\.\w.*")

# What is said of each code: what is the matter, and what to do.
SAYS: dict[str, str] = {}


class _Argument:
    """Marks an argument in a text: ``f"{arg:noun.name=value}"``, or without a value."""

    def __format__(self, spec: str) -> str:
        return f"{OPEN}{spec}{CLOSE}"


arg = _Argument()


def said(text: str, dialect: Dialect = "python") -> str:
    r"""Return a text with its marked arguments as a reader writes them.

    Examples
    --------
    >>> text = f"pass {arg:method.n_samples=170} or {arg:series.mask=nan}; {arg:question.target} chooses"
    >>> print(said(text), said(text, "shell"), sep="\n")
    pass n_samples=170 or tg.Series(x, mask='nan'); target= chooses
    pass --n-samples 170 or --mask nan; --target chooses
    """
    return MARKED.sub(lambda found: _written(found[1], found[2], found[3], dialect), text)


def _written(noun: str, name: str, value: str | None, dialect: Dialect) -> str:
    if dialect == "shell":
        option = OPTIONS.get(f"{noun}.{name}", f"--{name.replace('_', '-')}")
        return option if value is None else f"{option} {value.strip('()').replace(', ', ',')}"
    if value is None:
        return f"{name}="
    value = value if LITERAL.fullmatch(value) else repr(value)
    return NOUNS.get(noun, "{}").format(f"{name}={value}")


@dataclass(frozen=True)
class Finding:
    """Something that a call found out, or refused.

    Attributes
    ----------
    code : str
        What it is, ``"noun.matter"``.
    severity : {"refusal", "warning", "assumption"}
        How it comes: as an error, as a warning, or in a list.
    data : mapping
        The numbers and names in it.
    text : str
        The sentence, its arguments marked, where no row of :data:`SAYS` has it.
    """

    code: str
    severity: Severity
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def say(self, dialect: Dialect = "python") -> str:
        """Return the sentence in the words of a reader."""
        text = self.text or SAYS[self.code].format(arg=arg, **self.data)
        return said(text, dialect)

    def __str__(self) -> str:
        return self.say()
