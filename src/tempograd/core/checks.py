"""Plain refusals as rows: what must hold of some fields, what is said where it does not, and an example."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tempograd.core.errors import InputError, TempogradError, brief
from tempograd.core.findings import arg


@dataclass(frozen=True)
class Check:
    """One row.

    Attributes
    ----------
    code : str
        Of the refusal.
    fields : tuple of str
        What ``holds`` is called with, by name.
    holds : callable
        Whether all is well.
    says, fix : str
        What is the matter and what to do: templates of the fields, arguments marked.
    example : mapping
        Values of the fields that are refused.
    error : type
        What is raised.
    """

    code: str
    fields: tuple[str, ...]
    holds: Callable[..., bool]
    says: str
    fix: str
    example: Mapping[str, Any]
    error: type[TempogradError] = InputError

    def refusal(self, facts: Mapping[str, Any]) -> TempogradError:
        """Return the error for values that are refused; texts are shown as they are, other values briefly."""
        shown = {name: facts[name] for name in self.fields}
        words = {name: value if name == "method" else brief(value) for name, value in shown.items()}
        return self.error(f"{self.says}: {self.fix}.".format(arg=arg, **words), code=self.code)


def run_checks(checks: Iterable[Check], facts: Mapping[str, Any]) -> None:
    """Refuse the first row that does not hold of the facts.

    Examples
    --------
    >>> positive = Check("k.size", ("k",), lambda k: k > 0, "k is {k}", "pass a count above 0", {"k": 0})
    >>> run_checks([positive], {"k": 3})
    >>> run_checks([positive], {"k": 0})
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: k is 0: pass a count above 0.
    """
    for check in checks:
        if not check.holds(*(facts[name] for name in check.fields)):
            raise check.refusal(facts)
